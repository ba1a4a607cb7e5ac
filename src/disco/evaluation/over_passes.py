"""One figure over several passes of a replay: its mean, and an error that knows how a learning policy varies."""

from dataclasses import dataclass, field, replace

import numpy as np

from disco.evaluation.estimates import error_of_sum, estimate_around, quantile, reach_into_tail
from disco.records.arrays import Matrix, Vector
from disco.records.estimate import Estimate


@dataclass(slots=True)
class FigureOverPasses:
    """One figure, pass by pass over the log."""

    values: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)  # of each pass: the delta method's variance, its path as given
    terms: Vector | None = None  # (customers,) linear terms, summed over the passes

    def add(self, value: float, terms: Vector) -> None:
        self.values.append(value)
        self.single.append(error_of_sum(terms)[0] ** 2)
        self.terms = terms if self.terms is None else self.terms + terms

    def estimate(self, resampled: Vector, *, level: float, skewed: bool = False) -> Estimate | None:
        """The mean over the passes with its error; None where no pass has the figure. resampled: by resampled log.

        A figure varies because customers do, and because a policy that learns goes another way on another log, or with
        other draws. The first part, given the ways gone, is the delta method's with terms averaged over the passes:
        A. A single pass has δ² of it, its mean over the passes. Single passes over resampled logs, each with draws of
        its own, vary by V, so their ways alone by V − δ². Passes over one log vary by S; of that, (δ² − A)·P/(P − 1) is
        that each accepts other customers, and the rest, D, is that draws lead other ways. The mean of P passes has a
        Pth of D. So the variance is A + max(V − δ² − D·(1 − 1/P), D/P). A is known well, the second part with as many
        degrees of freedom as there are resampled logs.

        skewed: whether the interval reaches further on the side where the terms have their tail (`reach_into_tail`).
        The other end stays: a sample shows less skewness than there is, and a shorter side would rely on it.
        """
        passes = len(self.values)
        if self.terms is None:
            return None
        value = float(np.mean(self.values))
        error, freedom = error_of_sum(self.terms / passes)
        if not np.isfinite(error):
            return estimate_around(value, np.inf, level=level)
        by_customer, alone = error**2, float(np.mean(self.single))
        by_draws = 0.0
        if passes > 1:
            other_customers = max(alone - by_customer, 0.0) * passes / (passes - 1)
            by_draws = max(float(np.var(self.values, ddof=1)) - other_customers, 0.0)
        there = resampled[~np.isnan(resampled)]
        by_way = by_draws / passes
        if there.size > 1:
            by_way = max(by_way, float(there.var(ddof=1)) - alone - by_draws * (1 - 1 / passes))
        variance = by_customer + by_way
        uncertain = 1 / freedom
        if variance > 0 and by_way > 0:
            count = there.size if there.size > 1 else passes
            uncertain += (by_way / variance) ** 2 / max(count - 1, 1)
        freedom = np.inf if uncertain == 0 else max(1.0, 1 / uncertain)
        found = estimate_around(value, float(np.sqrt(variance)), level=level, freedom=freedom)
        return self._into_tail(found, variance, level=level, freedom=freedom) if skewed and variance > 0 else found

    def _into_tail(self, found: Estimate, variance: float, *, level: float, freedom: float) -> Estimate:
        """Whichever is further: the quantile of Student's t, or the normal's with the skewness; both know the tail."""
        assert self.terms is not None  # for the type checker
        terms = self.terms / len(self.values)
        skewness = float((terms**3).sum()) / variance**1.5
        far = max(quantile(level, freedom=freedom), reach_into_tail(skewness, level=level)) * variance**0.5
        return replace(found, upper=found.value + far) if skewness > 0 else replace(found, lower=found.value - far)


def moved_to(found: Estimate, value: float) -> Estimate:
    """The same error around another value."""
    lower, upper = found.ends or (-np.inf, np.inf)
    shift = value - found.value
    return replace(found, value=value, lower=lower + shift, upper=upper + shift)


def mean_and_sd(passes: Matrix) -> tuple[Vector, Vector]:
    """Per batch over the passes that have a figure there; a resampled log may be a batch shorter than the log.

    >>> [column.tolist() for column in mean_and_sd(np.array([[10.0, np.nan], [14.0, 20.0]]))]
    [[12.0, 20.0], [2.8284271247461903, nan]]
    """
    there = ~np.isnan(passes)
    count = there.sum(axis=0)
    mean = np.divide(np.where(there, passes, 0.0).sum(axis=0), count, out=np.full(count.size, np.nan), where=count > 0)
    squares = (np.where(there, passes - mean, 0.0) ** 2).sum(axis=0)
    variance = np.divide(squares, count - 1, out=np.full(count.size, np.nan), where=count > 1)
    return mean, np.sqrt(variance)
