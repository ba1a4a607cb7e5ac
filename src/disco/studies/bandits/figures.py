"""What runs are measured by: what policies earned relative to Random, paired, with intervals over repeats."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from scipy.stats import ttest_1samp

from disco.records.arrays import Floats, Vector
from disco.studies.sample import Sample


class RunColumn(IntEnum):
    """Columns of a run. `EXPECTED_…` is what the truth says of the same decisions, free of the luck of the answers."""

    CODES = 0
    PURCHASES = 1
    REVENUE = 2
    MARKDOWN = 3
    EXPECTED_PURCHASES = 4
    EXPECTED_REVENUE = 5
    EXPECTED_MARKDOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All repeats of one policy: (repeats, batches, measures). `…_by_batch` are (repeats, batches)."""

    figures: Floats
    revenue_weight: float | None

    @property
    def basket_value(self) -> Vector:
        """(repeats,) expected revenue per expected purchaser over all batches, by the truth of what was decided."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, RunColumn.EXPECTED_REVENUE] / totals[:, RunColumn.EXPECTED_PURCHASES])

    @property
    def realised_basket_value(self) -> Vector:
        """(repeats,) revenue per purchaser as the customers answered."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, RunColumn.REVENUE] / totals[:, RunColumn.PURCHASES])

    @property
    def basket_value_by_batch(self) -> Floats:
        return np.asarray(
            self.figures[..., RunColumn.EXPECTED_REVENUE] / self.figures[..., RunColumn.EXPECTED_PURCHASES]
        )

    @property
    def objective_by_batch(self) -> Floats:
        """Expected w·R − C; revenue where it counts alone."""
        revenue, markdown = (
            self.figures[..., RunColumn.EXPECTED_REVENUE],
            self.figures[..., RunColumn.EXPECTED_MARKDOWN],
        )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """By which share a policy is below another, over repeats."""

    overall: Sample
    first_half: Sample  # of the batches
    last_half: Sample
    p_overall: float | None  # t-test: is the overall gap 0? None without spread to judge by
    p_halves: float | None  # t-test: is the gap the same in both halves?


def gap(better: Floats, other: Floats) -> Gap:
    """Of basket values by batch, (repeats, batches) each, paired by repeat.

    >>> rng = np.random.default_rng(1)
    >>> noise = rng.normal(size=(50, 10))
    >>> found = gap(101 + noise, 100 + noise + 0.01 * rng.normal(size=(50, 10)))
    >>> round(found.overall.mean, 3), (found.p_overall or 0) < 0.001
    (0.01, True)
    """
    below = 1 - other / better
    middle = below.shape[1] // 2
    overall, first, last = below.mean(axis=1), below[:, :middle].mean(axis=1), below[:, middle:].mean(axis=1)
    return Gap(
        overall=Sample.of(overall.tolist()),
        first_half=Sample.of(first.tolist()),
        last_half=Sample.of(last.tolist()),
        p_overall=_p_value(overall),
        p_halves=_p_value(last - first),
    )


def _p_value(figures: Vector) -> float | None:
    """Two-sided, that the mean is 0."""
    if figures.size < 2 or not figures.std() > 0:
        return None
    return float(ttest_1samp(figures, 0.0).pvalue)
