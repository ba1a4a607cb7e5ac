"""`replay`: the offline value of policies under caps, on a log whose depths were dealt at random."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.figures import read_level
from disco.evaluation.log import RandomLog, require_model_contexts
from disco.evaluation.replay_limits import read_batch_limits
from disco.evaluation.replay_pass import UnconstrainedLearner, play
from disco.evaluation.replay_result import Reading, Replay, policy_replay
from disco.evaluation.resampling import Skew, bootstrap_rows, presented_rows
from disco.policy import Policy, Random, require_policy
from disco.records.arrays import Integers, Vector
from disco.records.decisions import Purchases
from disco.records.errors import InputError
from disco.records.ports import Engine

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
    warm: RandomLog | None = None,
    skew: Skew = "resample",
    learning: bool = True,
    learn_engagement: bool = False,
    level: float = 0.95,
    progress: Callable[[], None] = lambda: None,
    engine: Engine | None = None,
) -> Replay:
    """Replay policies on a log (`random_log`), in batches, with caps per batch.

    belief: what is known at the start; None, or a model without evidence, is a cold start. warm: an earlier log, all of
    whose purchases (and codes, with `learn_engagement`) are learned before the start. revenue_weight None: revenue
    alone. Engagement counts as 1 at every depth unless `belief` brings its own or `learn_engagement` is set.
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
    for name, given in (("log", log), *([] if warm is None else [("warm", warm)])):
        _require_log(given, name)
    if not log.bought.any():
        raise InputError(
            "log",
            found=f"no purchase in any of its {len(log):,} rows",
            expected="a full_price where a customer bought",
            fix="Without purchases there are no baskets to value; check the column.",
        )
    for name, number, least in (("repeats", repeats, 0), ("seed", seed, -np.inf)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
            more = ", 0 or more" if name == "repeats" else ""
            raise InputError(name, found=repr(number), expected=f"a whole number{more}")
    read_level(level)
    rows = presented_rows(log, skew=skew, seed=seed, repeat=0)
    limits = read_batch_limits(caps, depths=log.depths, batch=batch, rows=rows.size, revenue_weight=revenue_weight)
    start = _believing(belief, log, warm, learn_engagement=learn_engagement)
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
                seed=int(seed) + repeat,
                learning=learning,
                learn_engagement=learn_engagement,
                engine=engine,
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


def _by_name(policies: Any) -> dict[str, Player]:
    one = isinstance(policies, str) or not isinstance(policies, Iterable)
    listed: list[Player] = [policies] if one else list(policies)
    for player in listed:
        require_policy(player.policy if isinstance(player, UnconstrainedLearner) else player, where="policies")
    names = [policy.name for policy in listed]
    if not listed or len(set(names)) != len(names):
        raise InputError("policies", found=f"{names}", expected="at least one, each name once")
    return dict(zip(names, listed, strict=True))


def _require_log(log: object, name: str) -> None:
    if not isinstance(log, RandomLog):
        raise InputError(
            name,
            found=f"{log!r:.60}",
            expected="a log made by disco.random_log",
            fix="The command `disco replay` reads one from a file.",
        )
    require_model_contexts(log, name=name)


def _believing(belief: object, log: RandomLog, warm: RandomLog | None, *, learn_engagement: bool) -> Belief:
    """What is known at the start: engagement 1 at every depth unless it was brought or is to be learned."""
    if belief is not None and not isinstance(belief, Belief | BasketModel):
        raise InputError("belief", found=f"{belief!r:.60}", expected="a BasketModel, a Belief or None")
    if not isinstance(belief, Belief):
        known = {} if learn_engagement else dict.fromkeys(log.depths, 1.0)
        belief = Belief(basket=belief or BasketModel(), engagement=Engagement(override=known))
    if warm is None:
        return belief
    bought = warm.bought
    seen = Purchases(context=warm.context[bought], depth=warm.depth[bought], full_price=warm.full_price[bought])
    codes = EngagementCounts.of(warm.depth, bought) if learn_engagement else None
    return learn(belief, [Lesson.of("warm", seen, codes)])
