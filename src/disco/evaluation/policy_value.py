"""What one policy would have earned, and what it would have earned more than another: from the passes over a log."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from disco.evaluation.off_policy import OffPolicy
from disco.evaluation.over_passes import FigureOverPasses, mean_and_sd, moved_to
from disco.evaluation.passes import BatchLimits, PassReading
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.estimate import Estimate
from disco.records.frames import data_frame

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BatchSeries:
    """The pass over the log, batch by batch; each array has one entry per batch."""

    presented: Integers
    accepted: Integers
    purchasers: Integers
    average_basket_value: Vector  # revenue per purchaser, money; NaN where nobody bought
    repeats_mean: (
        Vector  # of the same over the resampled passes in which somebody bought in that batch; NaN without any
    )
    repeats_sd: Vector  # NaN with fewer than two

    def __repr__(self) -> str:
        return f"BatchSeries({self.presented.size} batches, {int(self.purchasers.sum()):,} purchasers)"

    def to_arrow(self) -> "pa.Table":
        """One row per batch."""
        import pyarrow as pa

        return pa.table({name: getattr(self, name) for name in self.__slots__})

    def to_pandas(self) -> "pd.DataFrame":
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())


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
            lower, upper = against.ends or (-np.inf, np.inf)
            value += f", {against.value:+,.3f} against random"
            value += f" ({against.level:.0%} interval {lower:+,.3f} to {upper:+,.3f})"
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

    def reversed(self) -> "PolicyDifference":
        """What the other policy would have earned more."""

        def turned(one: Estimate) -> Estimate:
            lower, upper = one.ends or (-np.inf, np.inf)
            return replace(one, value=-one.value, lower=-upper, upper=-lower)

        return PolicyDifference(
            revenue=turned(self.revenue), objective=None if self.objective is None else turned(self.objective)
        )


def policy_value(
    runs: list[PassReading],
    baselines: list[PassReading],
    policy: str,
    *,
    again: list[dict[str, float]],
    series: Matrix,
    limits: BatchLimits,
    level: float,
) -> PolicyReplay:
    """runs, baselines: passes over the log. again: figures of those over resampled logs; series (repeats, batches)."""
    reading, log = runs[0], runs[0].log
    played = reading.played
    accepted = played.accepted(log)
    bought = accepted & (reading.bought > 0)
    batches = int(played.batch[-1]) + 1
    over_repeats = mean_and_sd(series)
    figures: defaultdict[str, FigureOverPasses] = defaultdict(FigureOverPasses)
    for one, baseline in zip(runs, baselines, strict=True):
        for name, (value, terms) in one.figures(baseline, limits).items():
            figures[name].add(value, terms)
    unseen = _hardly_seen(runs)

    def estimate(name: str) -> Estimate | None:
        found = figures[name].estimate(np.array([run.get(name, np.nan) for run in again]), level=level)
        return found if found is None or not unseen else Estimate(found.value, -np.inf, np.inf, level, np.inf)

    def per_customer(name: str) -> OffPolicy:
        weights = reading.customer_weight
        ips = estimate(f"{name} ips")
        assert ips is not None  # for the type checker: it is there in every pass
        return OffPolicy(
            rows=weights.size,
            effective_rows=float(weights.sum() ** 2 / (weights @ weights)) if weights.any() else 0.0,
            largest_weight=float(weights.max()),
            ips=ips,
            snips=estimate(f"{name} snips"),
            dr=estimate(f"{name} dr"),
        )

    relative = estimate("relative")
    if relative is not None:  # the ratio of the means, so that it is the ratio of the two figures stated
        means = [np.mean([one.basket for one in ones if one.has_purchase]) for ones in (runs, baselines)]
        relative = moved_to(relative, float(means[0] / means[1]))
    draws = np.array(figures["revenue dr"].values)
    against = estimate("revenue against")
    assert against is not None
    return PolicyReplay(
        policy=policy,
        average_basket_value=estimate("basket"),
        relative_to_random=relative,
        revenue=per_customer("revenue"),
        objective=None if limits.revenue_weight is None else per_customer("objective"),
        revenue_against_random=against,
        objective_against_random=estimate("objective against"),
        draw_error=None if draws.size < 2 else float(draws.std(ddof=1)) / draws.size**0.5,
        presented=played.rows.size,
        accepted=int(accepted.sum()),
        purchasers=int(bought.sum()),
        no_code=int((played.choice < 0).sum()),
        codes=np.bincount(played.choice[played.choice >= 0], minlength=len(log.depths)),
        series=BatchSeries(
            presented=np.bincount(played.batch, minlength=batches),
            accepted=np.bincount(played.batch[accepted], minlength=batches),
            purchasers=np.bincount(played.batch[bought], minlength=batches),
            average_basket_value=reading.basket_values(batches)[:-1],
            repeats_mean=over_repeats[0],
            repeats_sd=over_repeats[1],
        ),
    )


def _hardly_seen(runs: list[PassReading]) -> bool:
    """Whether codes were given and at most one accepted purchase came of them: that shows no spread."""
    purchases = max(int((one.weight * one.bought > 0).sum()) for one in runs)
    return purchases < 2 and any((one.played.choice >= 0).any() for one in runs)


def difference_of(
    runs: list[tuple[PassReading, PassReading]],
    again: list[tuple[dict[str, float], dict[str, float]]],
    *,
    limits: BatchLimits,
    level: float,
) -> PolicyDifference:
    """Of two policies. runs: their passes over the log. again: their figures of those over resampled logs."""
    figures = {name: FigureOverPasses() for name in limits.weights}
    for one, other in runs:
        for name, (value, terms) in one.differences(other, limits).items():
            figures[name].add(value, terms)
    unseen = any(_hardly_seen([pair[side] for pair in runs]) for side in (0, 1))

    def estimate(name: str) -> Estimate:
        resampled = np.array([one[f"{name} dr"] - other[f"{name} dr"] for one, other in again])
        found = figures[name].estimate(resampled, level=level)
        assert found is not None  # for the type checker: it is there in every pass
        return Estimate(found.value, -np.inf, np.inf, level, np.inf) if unseen else found

    return PolicyDifference(
        revenue=estimate("revenue"), objective=estimate("objective") if "objective" in figures else None
    )
