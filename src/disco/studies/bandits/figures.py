"""From runs to figures: what policies earned relative to Random, paired, with intervals over repeats."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp

from disco.evaluation import Estimate, estimate_around
from disco.records.arrays import Floats, Vector
from disco.studies.bandits.simulation import Measure


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All repeats of one policy: (repeats, batches, measures). `…_by_batch` are (repeats, batches)."""

    figures: Floats
    revenue_weight: float | None

    @property
    def basket_value(self) -> Vector:
        """(repeats,) expected revenue per expected purchaser over all batches, by the truth of what was decided."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, Measure.EXPECTED_REVENUE] / totals[:, Measure.EXPECTED_PURCHASES])

    @property
    def realised_basket_value(self) -> Vector:
        """(repeats,) revenue per purchaser as the customers answered."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, Measure.REVENUE] / totals[:, Measure.PURCHASES])

    @property
    def basket_value_by_batch(self) -> Floats:
        return np.asarray(self.figures[..., Measure.EXPECTED_REVENUE] / self.figures[..., Measure.EXPECTED_PURCHASES])

    @property
    def objective_by_batch(self) -> Floats:
        """Expected w·R − C; revenue where it counts alone."""
        revenue, markdown = self.figures[..., Measure.EXPECTED_REVENUE], self.figures[..., Measure.EXPECTED_MARKDOWN]
        return np.asarray(revenue if self.revenue_weight is None else self.revenue_weight * revenue - markdown)

    @property
    def objective(self) -> Vector:
        return np.asarray(self.objective_by_batch.sum(axis=1))


def uplift(figures: Vector, baseline: Vector) -> Vector:
    """By which share figures are above the baseline, repeat by repeat: what is common to a repeat cancels.

    >>> uplift(np.array([101.0, 204.0]), np.array([100.0, 200.0])).round(3).tolist()
    [0.01, 0.02]
    """
    return np.asarray(figures / baseline - 1)


def basket_uplift(runs: Runs, random: Runs) -> Vector:
    """(repeats,) basket value over Random's."""
    return uplift(runs.basket_value, random.basket_value)


def realised_uplift(runs: Runs, random: Runs) -> Vector:
    return uplift(runs.realised_basket_value, random.realised_basket_value)


def objective_uplift(runs: Runs, random: Runs) -> Vector:
    return uplift(runs.objective, random.objective)


def halves(runs: Runs, random: Runs) -> tuple[Vector, Vector]:
    """(repeats,) basket value over Random's, mean of the first and of the last half of the batches."""
    by_batch = runs.basket_value_by_batch / random.basket_value_by_batch - 1
    middle = by_batch.shape[1] // 2
    return by_batch[:, :middle].mean(axis=1), by_batch[:, middle:].mean(axis=1)


def first_half(runs: Runs, random: Runs) -> Vector:
    return halves(runs, random)[0]


def last_half(runs: Runs, random: Runs) -> Vector:
    return halves(runs, random)[1]


def trend(runs: Runs, random: Runs) -> Vector:
    """(repeats,) by how much the last half is above the first."""
    first, last = halves(runs, random)
    return np.asarray(last - first)


def over_repeats(figures: Vector, *, level: float = 0.95) -> Estimate:
    """The mean with Student's interval; a single repeat has no width to show.

    >>> over_repeats(np.array([1.0, 2.0, 3.0])).upper.__round__(3)
    4.484
    """
    if figures.size < 2:
        return Estimate(float(figures.mean()), level=level)
    error = float(figures.std(ddof=1) / np.sqrt(figures.size))
    return estimate_around(float(figures.mean()), error, level=level, freedom=figures.size - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """By which share a policy is below another, overall and in each half of the batches, with the p-values of two
    t-tests over repeats: is the overall gap 0, and is it the same in both halves?"""

    overall: Estimate
    first_half: Estimate
    last_half: Estimate
    p_overall: float
    p_halves: float


def gap(better: Floats, other: Floats) -> Gap:
    """Of basket values by batch, (repeats, batches) each, paired by repeat.

    >>> rng = np.random.default_rng(1)
    >>> noise = rng.normal(size=(50, 10))
    >>> found = gap(101 + noise, 100 + noise + 0.01 * rng.normal(size=(50, 10)))
    >>> round(found.overall.value, 3), found.p_overall < 0.001
    (0.01, True)
    """
    below = 1 - other / better
    middle = below.shape[1] // 2
    overall, first, last = below.mean(axis=1), below[:, :middle].mean(axis=1), below[:, middle:].mean(axis=1)
    return Gap(
        overall=over_repeats(overall),
        first_half=over_repeats(first),
        last_half=over_repeats(last),
        p_overall=_p_value(overall),
        p_halves=_p_value(last - first),
    )


def _p_value(figures: Vector) -> float:
    """Two-sided, that the mean is 0; NaN without spread to judge by."""
    if figures.size < 2 or not figures.std() > 0:
        return float("nan")
    return float(ttest_1samp(figures, 0.0).pvalue)
