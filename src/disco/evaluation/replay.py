"""`replay`: the offline value of policies under caps, on a log whose depths were dealt at random."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief
from disco.evaluation.log import RandomLog, require_model_contexts
from disco.evaluation.replay_limits import read_batch_limits
from disco.evaluation.replay_pass import UnconstrainedLearner, play
from disco.evaluation.replay_result import Reading, Replay, policy_replay
from disco.evaluation.resampling import Skew, bootstrap_rows, presented_rows
from disco.policy import Policy, Random
from disco.records.arrays import Integers, Vector
from disco.records.errors import InputError

Player = Policy | UnconstrainedLearner


def replay(
    log: RandomLog,
    policies: Player | Iterable[Player],
    *,
    belief: Belief | BasketModel | None = None,
    batch: int = 5000,
    caps: Mapping[float, int | float | None] | None = None,
    revenue_weight: float | None = None,
    repeats: int = 20,
    seed: int = 0,
    skew: Skew = "resample",
    learning: bool = True,
    learn_engagement: bool = False,
    level: float = 0.95,
    progress: Callable[[], None] = lambda: None,
) -> Replay:
    """Replay policies on a log (`random_log`), in batches, with caps per batch.

    belief: what is known at the start (warm); None, or a model without evidence, is a cold start. revenue_weight None:
    revenue alone. Engagement counts as 1 at every depth unless `belief` brings its own or `learn_engagement` is set.
    skew: how a log with unequal propensities is used; "resample" drops rows at random until depths are uniform,
    "weight" presents every row and weighs the accepted ones by 1/p. repeats: whole passes over logs resampled by
    customer, whose spread is the standard error; with fewer than 2, the delta method's from the single pass.
    `progress` is called after every pass of a policy.

    Estimand: the value per purchaser (per customer) over the log's customers of the policy as it goes along, its belief
    at each batch learned from the rows accepted before. A deployed policy learns from every row, so from about as many
    times more as there are depths.

    >>> from disco.evaluation import random_log
    >>> from disco.policy import Greedy
    >>> rng = np.random.default_rng(1)
    >>> log = random_log(rng.normal(size=(600, 2)), rng.choice([0.1, 0.3], 600), rng.lognormal(3, 0.5, 600))
    >>> result = replay(log, Greedy(), batch=200, caps={0.1: 0.25}, repeats=0)
    >>> result.policies["greedy"].presented, result.policies["greedy"].codes.tolist()
    (600, [150, 450])
    """
    chosen = _by_name(policies)
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or repeats < 0:
        raise InputError("repeats", found=repr(repeats), expected="a whole number, 0 or more")
    require_model_contexts(log)
    rows = presented_rows(log, skew=skew, seed=seed, repeat=0)
    limits = read_batch_limits(caps, depths=log.depths, batch=batch, rows=rows.size, revenue_weight=revenue_weight)
    start = belief if isinstance(belief, Belief) else _believing(belief or BasketModel(), log, learn_engagement)
    players: dict[str, Player] = {"random": Random(), **chosen}

    def read(order: Integers, repeat: int) -> dict[str, Reading]:
        readings = {}
        for name, policy in players.items():
            played = play(
                log,
                order,
                policy,
                start=start,
                limits=limits,
                seed=seed + repeat,
                learning=learning,
                learn_engagement=learn_engagement,
            )
            readings[name] = Reading.of(log, played, skew=skew)
            progress()
        return readings

    first = read(rows, 0)
    batches = -(-rows.size // limits.batch)
    again: dict[str, list[Vector]] = {name: [] for name in players}
    for repeat in range(1, repeats + 1):
        kept = presented_rows(log, skew=skew, seed=seed, repeat=repeat)
        for name, reading in read(bootstrap_rows(log, kept, seed=seed, repeat=repeat), repeat).items():
            again[name].append(reading.basket_values(batches))
    repeated = {name: np.reshape(values, (len(values), batches + 1)) for name, values in again.items()}
    results = {
        name: policy_replay(
            reading,
            first["random"],
            repr(players[name]),
            repeated=repeated[name],
            repeated_baseline=repeated["random"][:, -1],
            limits=limits,
            level=level,
        )
        for name, reading in first.items()
    }
    return Replay(
        depths=log.depths,
        policies={name: results[name] for name in chosen},
        random=results["random"],
        repeats=repeats,
        batch=limits.batch,
        rows=len(log),
        skew=skew,
        warnings=log.warnings,
    )


def _by_name(policies: Player | Iterable[Player]) -> dict[str, Player]:
    listed = list(policies) if isinstance(policies, Iterable) else [policies]
    names = [policy.name for policy in listed]
    if not listed or len(set(names)) != len(names):
        raise InputError("policies", found=f"{names}", expected="at least one, each name once")
    return dict(zip(names, listed, strict=True))


def _believing(basket: BasketModel, log: RandomLog, learn_engagement: bool) -> Belief:
    """Engagement 1 at every depth, unless it is to be learned."""
    known = {} if learn_engagement else dict.fromkeys(log.depths, 1.0)
    return Belief(basket=basket, engagement=Engagement(override=known))
