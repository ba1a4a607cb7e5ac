"""What a replay says about a policy, read from its passes over the log."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from disco import objective
from disco.evaluation.estimate import Estimate, error_of_sum
from disco.evaluation.log import RandomLog
from disco.evaluation.off_policy import OffPolicy, off_policy
from disco.evaluation.replay_limits import BatchLimits
from disco.evaluation.replay_pass import Played
from disco.evaluation.resampling import Skew
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchSeries:
    """Per batch of the pass over the log: counts, and the average basket value; NaN where nobody bought.

    `repeats_mean`, `repeats_sd`: of the average basket value over the resampled passes in which somebody bought in that
    batch; NaN without any (the sd: with fewer than two).
    """

    presented: Integers
    accepted: Integers
    purchasers: Integers
    average_basket_value: Vector
    repeats_mean: Vector
    repeats_sd: Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyReplay:
    """What a policy would have earned.

    average_basket_value: mean revenue F·(1−a) per purchaser · relative_to_random: its ratio to that of Random under the
    same caps, on the same log · revenue, objective: per customer presented (0 without a code), as IPS, SNIPS and DR ·
    no_code: presented customers whom the policy gave none; they are never accepted · codes: given out, per depth.
    """

    policy: str
    average_basket_value: Estimate
    relative_to_random: Estimate
    revenue: OffPolicy
    objective: OffPolicy | None
    presented: int
    accepted: int
    purchasers: int
    no_code: int
    codes: Integers
    series: BatchSeries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """Policies by name; `random` is the baseline, also when nobody asked for it; `warnings` of the log."""

    depths: tuple[float, ...]
    policies: Mapping[str, PolicyReplay]
    random: PolicyReplay
    repeats: int
    batch: int
    rows: int
    skew: Skew
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """A pass over the log with its outcomes: per presented row the weight 1{accepted}/p, revenue and purchase."""

    log: RandomLog
    played: Played
    weight: Vector
    revenue: Vector
    bought: Vector

    @classmethod
    def of(cls, log: RandomLog, played: Played, *, skew: Skew) -> "Reading":
        """p is 1/K where the log was made uniform first."""
        accepted = played.accepted(log)
        p = 1 / len(log.depths) if skew == "resample" else log.propensity[played.rows]
        return cls(
            log=log,
            played=played,
            weight=np.asarray(accepted / p),
            revenue=np.nan_to_num(objective.revenue(log.full_price[played.rows], log.depth[played.rows])),
            bought=log.bought[played.rows].astype(np.float64),
        )

    def basket_values(self, batches: int) -> Vector:
        """Σw·R/Σw·bought per batch, and over all as the last entry; NaN where nobody bought."""
        batch = np.minimum(self.played.batch, batches - 1)  # a resampled log may be a few rows longer
        sums = np.stack(
            [np.bincount(batch, weights=self.weight * y, minlength=batches) for y in (self.revenue, self.bought)]
        )
        revenue, purchases = np.column_stack([sums, sums.sum(axis=1)])
        return np.asarray(np.divide(revenue, purchases, out=np.full(batches + 1, np.nan), where=purchases > 0))

    def influence(self) -> Vector:
        """Per customer: how far its rows move the average basket value (the delta method's linear term)."""
        total = float(self.weight @ self.bought)
        value = float(self.weight @ self.revenue) / total
        terms = self.weight * (self.revenue - value * self.bought) / total
        owner = self.log.customer[self.played.rows]
        return np.asarray(np.bincount(owner, weights=terms, minlength=self.log.customer.max() + 1), np.float64)

    def per_customer(self, limits: BatchLimits, *, weight: float | None, level: float) -> OffPolicy:
        """Revenue (weight None) or objective w·R − C per presented customer; without a code it is 0 for certain."""
        depth = np.append(limits.depths, 0.0)
        logged, chosen = self.log.depth[self.played.rows], depth[self.played.choice]

        def figure(full_price: Floats, at: Floats) -> Vector:
            revenue = objective.revenue(full_price, at)
            return np.asarray(
                revenue if weight is None else weight * revenue - objective.markdown(full_price, at), np.float64
            )

        predicted = figure(self.played.predicted, chosen)
        matched = self.weight > 0
        return off_policy(
            figure(np.nan_to_num(self.log.full_price[self.played.rows]), logged),
            propensity=np.divide(1.0, self.weight, out=np.ones_like(self.weight), where=matched),
            target=matched.astype(np.float64),
            predicted_logged=np.where(matched, predicted, 0.0),
            predicted_target=predicted,
            level=level,
            customers=np.unique(self.log.customer[self.played.rows], return_inverse=True)[1],
        )


def policy_replay(
    reading: Reading,
    baseline: Reading,
    policy: str,
    *,
    repeated: Matrix,
    repeated_baseline: Vector,
    limits: BatchLimits,
    level: float,
) -> PolicyReplay:
    """`repeated` (repeats, batches + 1): `basket_values` of the resampled passes; `repeated_baseline` (repeats,)."""
    played, log = reading.played, reading.log
    accepted = played.accepted(log)
    bought = accepted & (reading.bought > 0)
    if (played.choice < 0).all():
        raise InputError(
            f"replay of {policy}",
            found=f"no code for any of {accepted.size:,} customers",
            expected="at least one code",
            fix="Raise the caps where all are 0, or the revenue weight where w·R − C is negative at every depth.",
        )
    if not bought.any():
        raise InputError(
            f"replay of {policy}",
            found=f"{int(accepted.sum())} of {accepted.size:,} rows accepted, none of them with a purchase",
            expected="at least one accepted purchase",
            fix="The policy never did what the log did: raise the caps, or bring a longer log.",
        )
    batches = int(played.batch[-1]) + 1
    over_passes = _mean_and_sd(repeated[:, :-1])
    values = reading.basket_values(batches)
    value, random_value = float(values[-1]), float(baseline.basket_values(batches)[-1])
    ratio = value / random_value
    if np.isnan(repeated[:, -1]).any() or np.isnan(repeated_baseline).any() or np.isnan(random_value):
        raise InputError(
            f"replay of {policy}",
            found="a pass in which no purchase was accepted",
            expected="enough rows for every pass",
            fix="Bring a longer log, or take repeats=0.",
        )
    mine, random = reading.influence(), baseline.influence()
    error, freedom = error_of_sum(mine) if bought.sum() > 1 else (np.inf, np.inf)  # one purchase shows no spread
    ratio_error, ratio_freedom = error_of_sum((mine - ratio * random) / random_value)
    if len(repeated) >= 2:
        # what a single pass cannot tell (one customer, one purchase), resampling that one does not tell either
        error = float(repeated[:, -1].std(ddof=1)) if np.isfinite(error) else error
        ratio_error = (
            float((repeated[:, -1] / repeated_baseline).std(ddof=1)) if np.isfinite(ratio_error) else ratio_error
        )
        # two reasons why the error is not known exactly: few passes, and a log in which few rows may dominate
        freedom, ratio_freedom = (1 / (1 / (len(repeated) - 1) + 1 / known) for known in (freedom, ratio_freedom))
    return PolicyReplay(
        policy=policy,
        average_basket_value=Estimate.around(value, error, level=level, freedom=freedom),
        relative_to_random=Estimate.around(ratio, ratio_error, level=level, freedom=ratio_freedom),
        revenue=reading.per_customer(limits, weight=None, level=level),
        objective=None
        if limits.revenue_weight is None
        else reading.per_customer(limits, weight=limits.revenue_weight, level=level),
        presented=played.rows.size,
        accepted=int(accepted.sum()),
        purchasers=int(bought.sum()),
        no_code=int((played.choice < 0).sum()),
        codes=np.bincount(played.choice[played.choice >= 0], minlength=len(log.depths)),
        series=BatchSeries(
            presented=np.bincount(played.batch, minlength=batches),
            accepted=np.bincount(played.batch[accepted], minlength=batches),
            purchasers=np.bincount(played.batch[bought], minlength=batches),
            average_basket_value=values[:-1],
            repeats_mean=over_passes[0],
            repeats_sd=over_passes[1],
        ),
    )


def _mean_and_sd(passes: Matrix) -> tuple[Vector, Vector]:
    """Per batch over the passes that have a figure there; a resampled log may be a batch shorter than the log.

    >>> [column.tolist() for column in _mean_and_sd(np.array([[10.0, np.nan], [14.0, 20.0]]))]
    [[12.0, 20.0], [2.8284271247461903, nan]]
    """
    there = ~np.isnan(passes)
    count = there.sum(axis=0)
    mean = np.divide(np.where(there, passes, 0.0).sum(axis=0), count, out=np.full(count.size, np.nan), where=count > 0)
    squares = (np.where(there, passes - mean, 0.0) ** 2).sum(axis=0)
    variance = np.divide(squares, count - 1, out=np.full(count.size, np.nan), where=count > 1)
    return mean, np.sqrt(variance)
