"""`replay`: the offline value of policies under caps, on a log whose depths were assigned at random.

`start.py` says what is known before the first batch, `passes.py` runs a policy over the log, `policy_value.py` says
what its passes come to. This file presents the log to every policy, as it is and resampled.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from disco.belief import BasketModel
from disco.campaign import Belief
from disco.evaluation.log import RandomLog, require_model_contexts
from disco.evaluation.passes import (
    PassReading,
    Skew,
    UnconstrainedLearner,
    bootstrap_rows,
    play,
    presented_rows,
    read_batch_limits,
)
from disco.evaluation.policy_value import PolicyDifference, PolicyReplay, difference_of, policy_value
from disco.evaluation.start import known_at_start
from disco.policy import Policy, Random, require_policy
from disco.records.arguments import read_count, read_level, read_seed
from disco.records.arrays import Integers, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.frames import data_frame
from disco.records.ports import Engine

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Player = Policy | UnconstrainedLearner


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Replay:
    """What policies would have earned. `summary()` puts it into words, `to_pandas()` into a table."""

    depths: tuple[float, ...]
    policies: Mapping[str, PolicyReplay]  # by name
    random: PolicyReplay  # the baseline, also where nobody asked for it
    differences: Mapping[tuple[str, str], PolicyDifference]
    """Of every two policies that were asked for: the first less the second."""
    passes: int  # over the log itself
    repeats: int  # over resampled logs
    batch: int  # customers presented together
    rows: int  # of the log
    skew: Skew
    warnings: tuple[str, ...]  # of the log

    def _by_name(self) -> dict[str, PolicyReplay]:
        return {**self.policies, "random": self.random}

    def difference(self, one: str, other: str) -> PolicyDifference:
        """What policy `one` would have earned more than `other`; InputError where either was not replayed."""
        names = self._by_name()
        for name in (one, other):
            if name not in names:
                raise InputError("policy", found=name, expected=f"one of {', '.join(names)}")
        if one == other:
            raise InputError("policy", found=f"{one} twice", expected="two different policies")
        if (one, other) in self.differences:
            return self.differences[one, other]
        if "random" not in (one, other):
            return self.differences[other, one].reversed()
        found = names[one if other == "random" else other]
        against = PolicyDifference(revenue=found.revenue_against_random, objective=found.objective_against_random)
        return against if other == "random" else against.reversed()

    def __repr__(self) -> str:
        names = ", ".join(self.policies)
        return f"Replay({names} on {self.rows:,} rows in batches of {self.batch:,}, {self.repeats} repeats)"

    def summary(self) -> str:
        """One line per policy, then the log's warnings."""
        found = self._by_name()
        lines = [f"{name}: {one.in_words(baseline=one is self.random)}" for name, one in found.items()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def to_arrow(self) -> "pa.Table":
        """One row per policy, `random` last where it was not asked for; money per purchaser, ratios to random."""
        import pyarrow as pa

        rows = []
        for name, found in self._by_name().items():
            row: dict[str, object] = {"policy": name}
            estimates: dict[str, Estimate | None] = {
                "average_basket_value": found.average_basket_value,
                "relative_to_random": found.relative_to_random,
                "revenue_per_customer": found.revenue.dr,
                "revenue_against_random": found.revenue_against_random,
                "objective_per_customer": None if found.objective is None else found.objective.dr,
                "objective_against_random": found.objective_against_random,
            }
            for column, estimate in estimates.items():
                for suffix, part in (("", "value"), ("_lower", "lower"), ("_upper", "upper")):
                    row[column + suffix] = None if estimate is None else getattr(estimate, part)
                row[f"{column}_standard_error"] = None if estimate is None else estimate.standard_error
            counts = ("presented", "accepted", "purchasers", "no_code")
            rows.append(row | {column: getattr(found, column) for column in counts})
        return pa.Table.from_pylist(rows)

    def to_pandas(self) -> "pd.DataFrame":
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())


def replay(
    log: RandomLog,
    policies: Player | Iterable[Player],
    *,
    belief: Belief | BasketModel | None = None,
    batch: int = 5000,
    caps: Mapping[float, int | float | None] | None = None,
    revenue_weight: float | None = None,
    passes: int = 8,
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

    policies: one, or several with different names.
    belief: what is known at the start; None, or a model without evidence, is a cold start. Engagement counts as 1 at
        every depth unless a `Belief` brings its own or `learn_engagement` is set.
    batch: customers presented together.
    caps: most customers per depth and batch; a whole number is a count, a float a share of the batch.
    revenue_weight: the weight w of w·R − C; None: revenue alone.
    passes: over the log, each with draws of its own; figures are their means, because one pass is mostly luck.
    repeats: further passes over logs resampled by customer, whose spread makes the standard errors; with fewer than 2,
        those of the delta method, which take the path along which a policy learned as given.
    seed: equal seeds give equal results.
    warm: an earlier log, all of whose purchases (and codes, with `learn_engagement`) are learned before the start.
    skew: how a log with unequal propensities is used. "resample" drops rows at random until depths are uniform,
        "weight" presents every row and weighs the accepted ones by 1/p.
    learning: whether the belief changes during the replay.
    learn_engagement: whether the share of buyers at each depth is learned, too. Where the log has engagement scores,
        each customer has a rate of their own: codes are counted in bins of the score, whose edges are those of `warm`
        or of the first batch, or those of a `belief` that was learned so. A log without scores has those of the
        belief's engagement head.
    level: of the intervals.
    progress: called after every pass of a policy.
    engine: where decisions are computed; never changes a result.

    Estimand: the value per purchaser (per customer) over the log's customers of the policy as it goes along, its belief
    at each batch learned from the rows accepted before. A deployed policy learns from every row, so from about as many
    times more as there are depths.

    >>> from disco.evaluation.log import random_log
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
    read_count(passes, where="passes")
    read_count(repeats, where="repeats", least=0)
    read_seed(seed)
    read_level(level)
    rows = presented_rows(log, skew=skew, seed=seed, repeat=0)
    limits = read_batch_limits(
        caps, depths=log.depths, batch=batch, rows=rows.size, whole=len(log), revenue_weight=revenue_weight
    )
    start, log = known_at_start(belief, log, warm, learn_engagement=learn_engagement, first=rows[: limits.batch])
    players: dict[str, Player] = {"random": Random(), **chosen}

    def read(order: Integers, repeat: int) -> dict[str, PassReading]:
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
            readings[name] = PassReading.of(log, played, skew=skew)
            progress()
        return readings

    runs = [read(rows, 0)]
    if all((reading.played.choice < 0).all() for reading in runs[0].values()):
        raise InputError(
            "replay",
            found=f"no code for any of {rows.size:,} customers, by any policy",
            expected="at least one code",
            fix="Raise the caps where all are 0, or the revenue weight where w·R − C is negative at every depth.",
        )
    runs += [read(presented_rows(log, skew=skew, seed=seed, repeat=number), number) for number in range(1, passes)]
    batches = -(-rows.size // limits.batch)
    # a policy that neither learns nor shares caps does the same whatever others do: its way does not vary with the log
    way_varies = learning or any(cap is not None for cap in limits.caps)
    again: dict[str, list[dict[str, float]]] = {name: [] for name in players}
    series: dict[str, list[Vector]] = {name: [] for name in players}
    for repeat in range(passes, passes + repeats):
        kept = presented_rows(log, skew=skew, seed=seed, repeat=repeat)
        readings = read(bootstrap_rows(log, kept, seed=seed, repeat=repeat - passes + 1), repeat)
        for name, reading in readings.items():
            if way_varies:
                figures = reading.figures(readings["random"], limits)
                again[name].append({figure: value for figure, (value, _) in figures.items()})
            series[name].append(reading.basket_values(batches)[:-1])
    results = {
        name: policy_value(
            [run[name] for run in runs],
            [run["random"] for run in runs],
            repr(players[name]),
            again=again[name],
            series=np.reshape(series[name], (repeats, batches)),
            limits=limits,
            level=level,
        )
        for name in players
    }
    asked = [name for name in chosen if name != "random"]
    return Replay(
        depths=log.depths,
        policies={name: results[name] for name in chosen},
        random=results["random"],
        differences={
            (one, other): difference_of(
                [(run[one], run[other]) for run in runs],
                list(zip(again[one], again[other], strict=True)),
                limits=limits,
                level=level,
            )
            for one, other in combinations(asked, 2)
        },
        passes=int(passes),
        repeats=int(repeats),
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
