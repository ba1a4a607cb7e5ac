"""`replay`: the offline value of policies under caps, on a log whose depths were assigned at random.

A pass of a policy over the log is in `passes.py`. This file says what is known before the first batch, presents the log
to every policy, as it is and resampled, and turns the passes into what each policy would have earned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from disco.belief import BasketModel, EngagementCounts
from disco.belief.inputs import require_names
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.estimates import effective_rows, interval_in_words, unlimited
from disco.evaluation.log import RandomLog, require_log
from disco.evaluation.off_policy import OffPolicy
from disco.evaluation.passes import (
    BatchLimits,
    PassResult,
    PassRules,
    Player,
    Skew,
    bootstrap_rows,
    figures_over,
    less,
    mean_and_sd,
    moved_to,
    play,
    players_by_name,
    presented_rows,
    read_batch_limits,
    starting_belief,
    with_scores,
)
from disco.policy import Random
from disco.records.arguments import read_count, read_level, read_seed
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.exact_sums import GRID
from disco.records.frames import Tabular
from disco.records.ports import Engine
from disco.records.score import ScoreBins

if TYPE_CHECKING:
    import pyarrow as pa

# ---- what a replay says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BatchSeries(Tabular):
    """The pass over the log, batch by batch; each array has one entry per batch."""

    presented: Integers
    accepted: Integers
    purchasers: Integers
    average_basket_value: Vector  # revenue per purchaser, money; NaN where nobody bought
    repeats_mean: Vector
    """Of the same over the resampled passes in which somebody bought in that batch; NaN without any."""
    repeats_sd: Vector  # NaN with fewer than two

    def __repr__(self) -> str:
        return f"BatchSeries({self.presented.size} batches, {int(self.purchasers.sum()):,} purchasers)"

    def to_arrow(self) -> pa.Table:
        """One row per batch."""
        import pyarrow as pa

        return pa.table({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PolicyReplay:
    """What a policy would have earned: figures are means over the passes."""

    policy: str
    average_basket_value: Estimate | None  # mean revenue F·(1−a) per purchaser, money; None: no accepted purchase
    relative_to_random: Estimate | None  # its ratio to that of Random under the same caps, on the same log
    revenue: OffPolicy  # per customer presented, money; 0 without a code
    objective: OffPolicy | None  # w·R − C per customer presented; None where revenue alone counts
    revenue_against_random: Estimate  # doubly robust revenue per customer, less that of Random in the same passes
    objective_against_random: Estimate | None  # likewise
    draw_error: float | None
    """Of `revenue.dr`: the part of its standard error that is the luck of the policy's draws; None with one pass."""
    presented: int  # of the first pass, as are all counts below and the series
    accepted: int
    purchasers: int  # among the accepted
    no_code: int  # presented customers to whom the policy gave no code; they are never accepted
    codes: Integers  # (depths,) given out
    series: BatchSeries

    def __repr__(self) -> str:
        return f"PolicyReplay({self.policy}: {self.in_words()})"

    def in_words(self, *, baseline: bool = False) -> str:
        """Per customer first: a policy that sells to fewer customers may look equal per purchaser.

        baseline: whether it is what the others are compared with.
        """
        name, own, against = "revenue", self.revenue.dr, self.revenue_against_random
        if self.objective is not None and self.objective_against_random is not None:
            name, own, against = "objective", self.objective.dr, self.objective_against_random
        value = "" if own is None else f"{name} {own.value:,.3f} per customer"
        if not baseline:
            value += f", {against.value:+,.3f} against random ({interval_in_words(against)})"
        basket = self.average_basket_value
        value += ", no accepted purchase" if basket is None else f", basket {basket.value:,.2f} per purchaser"
        return f"{value}, {self.accepted:,} of {self.presented:,} rows accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDifference:
    """What one policy would have earned more than another, per customer presented; doubly robust, in the same passes.

    Its interval is that of the difference: both policies met the same customers, so it is shorter than the two
    intervals suggest.
    """

    revenue: Estimate  # money
    objective: Estimate | None  # w·R − C; None where revenue alone counts

    def reversed(self) -> PolicyDifference:
        """What the other policy would have earned more."""

        def turned(one: Estimate) -> Estimate:
            lower, upper = one.ends or (-np.inf, np.inf)
            return replace(one, value=-one.value, lower=-upper, upper=-lower)

        return PolicyDifference(
            revenue=turned(self.revenue), objective=None if self.objective is None else turned(self.objective)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Replay(Tabular):
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

    def to_arrow(self) -> pa.Table:
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


def replay(
    log: RandomLog,
    policies: Player | Iterable[Player],
    *,
    belief: Belief | BasketModel | None = None,
    batch: int | None = None,
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
    batch: customers presented together; None: 5,000, or all where there are fewer.
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
    chosen = players_by_name(policies, learners=True)
    require_log(log)
    if warm is not None:
        require_log(warm, name="warm")
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

    rules = PassRules(limits=limits, learning=learning, learn_engagement=learn_engagement, skew=skew, engine=engine)

    def read(order: Integers, repeat: int) -> dict[str, PassResult]:
        readings = {}
        for name, policy in players.items():
            readings[name] = play(log, order, policy, rules, start=start, seed=int(seed) + repeat)
            progress()
        return readings

    runs = [read(rows, 0)]
    if all((reading.choice < 0).all() for reading in runs[0].values()):
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
    made = _Passes(
        runs={name: [run[name] for run in runs] for name in players},
        again=again,
        series={name: np.reshape(values, (repeats, batches)) for name, values in series.items()},
        limits=limits,
        level=level,
    )
    results = {name: made.value(name, repr(player)) for name, player in players.items()}
    asked = [name for name in chosen if name != "random"]
    return Replay(
        depths=log.depths,
        policies={name: results[name] for name in chosen},
        random=results["random"],
        differences={names: made.difference(*names) for names in combinations(asked, 2)},
        passes=int(passes),
        repeats=int(repeats),
        batch=limits.batch,
        rows=len(log),
        skew=skew,
        warnings=log.warnings,
    )


# ---- what is known before the first batch ----------------------------------------------------------------------------


def known_at_start(
    belief: object, log: RandomLog, warm: RandomLog | None, *, learn_engagement: bool, first: Integers
) -> tuple[Belief, RandomLog]:
    """What is known before the first batch, and the log with the scores in which its codes are counted.

    first: the rows of the first batch, whose scores make bins where there is no earlier log.
    """
    if belief is not None and not isinstance(belief, Belief | BasketModel):
        raise InputError("belief", found=f"{belief!r:.60}", expected="a BasketModel, a Belief or None")
    if not isinstance(belief, Belief):
        belief = starting_belief(belief, log, learn_engagement=learn_engagement)
    log, warm = with_scores(log, belief), None if warm is None else with_scores(warm, belief)
    if learn_engagement and log.score is not None and belief.engagement.counts.bins is None:
        log, warm = _centred(log, warm, first=first)
    require_names(log.context_names, belief.basket.context_names)
    bins = _bins(belief, log, warm, first) if learn_engagement else None
    if bins is not None and belief.engagement.counts.bins is None:
        belief = replace(belief, engagement=belief.engagement.with_counts(EngagementCounts(bins=bins)))
    if warm is None:
        return belief, log
    require_names(warm.context_names, log.context_names or belief.basket.context_names)
    score = None if bins is None else warm.score
    codes = EngagementCounts.of(warm.depth, warm.bought, score=score, bins=bins) if learn_engagement else None
    return learn(belief, [Lesson.of("warm", warm.purchases(np.arange(len(warm))), codes)]), log


def _bins(belief: Belief, log: RandomLog, warm: RandomLog | None, first: Integers) -> ScoreBins | None:
    """In which codes are counted; None where the log has no scores, or the belief counted without them."""
    counts = belief.engagement.counts
    if log.score is None:
        if counts.bins is not None:
            raise InputError(
                "log",
                found="no engagement scores",
                expected="the scores with which the belief counted its codes",
                fix="Give random_log a score for every row, or the belief its engagement head.",
            )
        return None
    if warm is not None and warm.score is None:
        raise InputError("warm", found="no engagement scores", expected="scores as in the log that is replayed")
    if counts.bins is not None:
        return counts.bins
    if counts.depths.size:
        raise InputError(
            "belief",
            found="codes counted without engagement scores",
            expected="codes counted in bins of the score, or none",
            fix="Leave out the scores, or start from a belief without codes and bring an earlier log as `warm`.",
        )
    return ScoreBins.of(_scores_for_bins(log, warm, first))


def _scores_for_bins(log: RandomLog, warm: RandomLog | None, first: Integers) -> Vector:
    """Those of the earlier log, else of the first batch: never of rows whose outcome is still to come."""
    assert log.score is not None  # for the type checker
    scores = log.score[first] if warm is None or warm.score is None else warm.score
    known: Vector = scores[~np.isnan(scores)]
    if not known.size:
        raise InputError(
            "log, score",
            found="no score in the first batch" if warm is None else "no score in the earlier log",
            expected="at least one, to make bins from",
            fix="Choose larger batches, or bring an earlier log with scores.",
        )
    return known


def _centred(log: RandomLog, warm: RandomLog | None, *, first: Integers) -> tuple[RandomLog, RandomLog | None]:
    """Scores less the mean of those that make the bins: the prior rate is then that of a typical customer."""
    middle = float(np.rint(_scores_for_bins(log, warm, first).mean() * GRID) / GRID)

    def shifted(one: RandomLog) -> RandomLog:
        return one if one.score is None else replace(one, score=one.score - middle)

    return shifted(log), None if warm is None else shifted(warm)


# ---- from passes to figures ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Passes:
    """What all passes of a replay did; each mapping is by policy."""

    runs: Mapping[str, list[PassResult]]  # over the log itself
    again: Mapping[str, list[dict[str, float]]]  # figures of the passes over resampled logs
    series: Mapping[str, Matrix]  # (repeats, batches) basket values of the passes over resampled logs
    limits: BatchLimits
    level: float

    def difference(self, one: str, other: str) -> PolicyDifference:
        """What one policy would have earned more than another."""
        pairs = list(zip(self.runs[one], self.runs[other], strict=True))
        figures = figures_over(less(run.valued(self.limits), unit.valued(self.limits)) for run, unit in pairs)
        resampled = list(zip(self.again[one], self.again[other], strict=True))
        unseen = any(_hardly_seen(self.runs[name]) for name in (one, other))

        def estimate(name: str) -> Estimate:
            apart = np.array([own[f"{name} dr"] - unit[f"{name} dr"] for own, unit in resampled])
            found = figures[name].estimate(apart, level=self.level)
            assert found is not None  # for the type checker: it is there in every pass
            return unlimited(found.value, level=self.level) if unseen else found

        return PolicyDifference(
            revenue=estimate("revenue"), objective=estimate("objective") if "objective" in figures else None
        )

    def value(self, name: str, policy: str) -> PolicyReplay:
        """What a policy would have earned. policy: in words."""
        runs, baselines, level = self.runs[name], self.runs["random"], self.level
        reading = runs[0]
        accepted, bought = reading.accepted, reading.accepted & (reading.bought > 0)
        batches = int(reading.batch[-1]) + 1
        over_repeats = mean_and_sd(self.series[name])
        figures = figures_over(run.figures(unit, self.limits) for run, unit in zip(runs, baselines, strict=True))
        against, unseen = self.difference(name, "random"), _hardly_seen(runs)

        def estimate(figure: str) -> Estimate | None:
            resampled = np.array([run.get(figure, np.nan) for run in self.again[name]])
            found = figures[figure].estimate(resampled, level=level)
            return found if found is None or not unseen else unlimited(found.value, level=level)

        def per_customer(figure: str) -> OffPolicy:
            weights, ips = reading.customer_weight, estimate(f"{figure} ips")
            assert ips is not None  # for the type checker: it is there in every pass
            return OffPolicy(
                rows=weights.size,
                effective_rows=effective_rows(weights),
                largest_weight=float(weights.max()),
                ips=ips,
                snips=estimate(f"{figure} snips"),
                dr=estimate(f"{figure} dr"),
            )

        relative = estimate("relative")
        if relative is not None:  # the ratio of the means, so that it is the ratio of the two figures stated
            means = [np.mean([one.basket for one in ones if one.has_purchase]) for ones in (runs, baselines)]
            relative = moved_to(relative, float(means[0] / means[1]))
        draws = np.array(figures["revenue dr"].values)
        return PolicyReplay(
            policy=policy,
            average_basket_value=estimate("basket"),
            relative_to_random=relative,
            revenue=per_customer("revenue"),
            objective=None if self.limits.revenue_weight is None else per_customer("objective"),
            revenue_against_random=against.revenue,
            objective_against_random=against.objective,
            draw_error=None if draws.size < 2 else float(draws.std(ddof=1)) / draws.size**0.5,
            presented=reading.rows.size,
            accepted=int(accepted.sum()),
            purchasers=int(bought.sum()),
            no_code=int((reading.choice < 0).sum()),
            codes=np.bincount(reading.choice[reading.choice >= 0], minlength=len(self.limits.depths)),
            series=BatchSeries(
                presented=np.bincount(reading.batch, minlength=batches),
                accepted=np.bincount(reading.batch[accepted], minlength=batches),
                purchasers=np.bincount(reading.batch[bought], minlength=batches),
                average_basket_value=reading.basket_values(batches)[:-1],
                repeats_mean=over_repeats[0],
                repeats_sd=over_repeats[1],
            ),
        )


def _hardly_seen(runs: list[PassResult]) -> bool:
    """Whether codes were given and at most one accepted purchase came of them: that shows no spread."""
    purchases = max(int((one.weight * one.bought > 0).sum()) for one in runs)
    return purchases < 2 and any((one.choice >= 0).any() for one in runs)
