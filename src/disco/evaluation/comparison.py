"""Two arms, one figure: difference of means and its ratio, by Welch and the delta method.

Arms are groups of customers assigned at random, so customers are what varies. A ratio of sums, such as revenue per
purchaser, is compared through its linear terms (delta method), which turns it into a mean over customers again.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from disco.evaluation.estimate import Estimate
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Mean:
    """An arm's figure: its value, its squared standard error, and the customers behind it."""

    value: float
    variance: float
    customers: int

    @classmethod
    def of(cls, figures: Vector, counts: Vector | None = None) -> "Mean":
        """Mean of `figures` (n,), or Σfigures/Σcounts with the delta method.

        >>> Mean.of(np.array([0.0, 30.0, 50.0]), np.array([0.0, 1.0, 1.0]))
        Mean(value=40.0, variance=75.0, customers=3)
        """
        customers = figures.size
        if customers < 2:
            raise InputError("arm", found=f"{customers} customers", expected="at least two")
        if counts is None:
            return cls(float(figures.mean()), float(figures.var(ddof=1)) / customers, customers)
        total = float(counts.sum())
        if total == 0:
            raise InputError("arm", found="no customer that counts", expected="at least one")
        value = float(figures.sum()) / total
        linear = (figures - value * counts) * (customers / total)
        return cls(value, float(linear @ linear) / (customers - 1) / customers, customers)


@dataclass(frozen=True, slots=True)
class Comparison:
    """test against control: `difference` with Welch's p-value; `relative` = test/control − 1 by the delta method.

    `relative` is None where control is not positive, since a percentage of it would mean nothing.
    """

    test: float
    control: float
    difference: Estimate
    relative: Estimate | None
    p_value: float


def compare(test: Mean, control: Mean, *, level: float = 0.95, shared_variance: float = 0.0) -> Comparison:
    """Welch: t = d/√(vₜ+v_c) with (vₜ+v_c)²/(vₜ²/(nₜ−1)+v_c²/(n_c−1)) degrees of freedom.

    Relative, r = mₜ/m_c: variance (vₜ + r²·v_c + (1−r)²·shared)/m_c², where `shared` is the variance of a term that
    both means contain (a pre-period mean); it cancels from the difference.

    >>> found = compare(Mean(6.0, 1.0, 10), Mean(4.0, 1.0, 10))
    >>> found.difference.value, found.relative.value, round(found.p_value, 3)
    (2.0, 0.5, 0.174)
    """
    variance = test.variance + control.variance
    difference = test.value - control.value
    error = float(np.sqrt(variance))
    if variance > 0:
        freedom = variance**2 / (
            test.variance**2 / (test.customers - 1) + control.variance**2 / (control.customers - 1)
        )
        p_value = 2 * float(stdtr(freedom, -abs(difference) / error))
    else:
        freedom, p_value = np.inf, 1.0 if difference == 0 else 0.0
    relative = None
    if control.value > 0:
        ratio = test.value / control.value
        spread = test.variance + ratio**2 * control.variance + (1 - ratio) ** 2 * shared_variance
        relative = Estimate.around(ratio - 1, float(np.sqrt(spread)) / control.value, level=level)
    return Comparison(
        test.value,
        control.value,
        Estimate.around(difference, error, level=level, freedom=freedom),
        relative,
        p_value,
    )


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A comparison adjusted by what was known before (CUPED), and the share of variance that this took away."""

    comparison: Comparison
    variance_reduction: float


def compare_adjusted(test: Vector, control: Vector, *, before: tuple[Matrix, Matrix], level: float = 0.95) -> Adjusted:
    """CUPED: compare y − θᵀ(x − x̄), x (n, p) known before the campaign, θ from least squares within arms, pooled.

    Randomisation makes x̄ equal in expectation, so the estimand is unchanged; the variance falls by the R² of y on x.

    >>> rng = np.random.default_rng(5)
    >>> x = rng.normal(size=(400, 1)); y = 10 + 3 * x[:, 0] + rng.normal(size=400)
    >>> found = compare_adjusted(y[:200], y[200:], before=(x[:200], x[200:]))
    >>> bool(0.85 < found.variance_reduction < 0.95)
    True
    """
    centre = np.concatenate(before).mean(axis=0)
    y = np.concatenate([arm - arm.mean() for arm in (test, control)])
    x = np.concatenate([arm - arm.mean(axis=0) for arm in before])
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    first, second = (
        Mean.of(figures - (known - centre) @ theta) for figures, known in zip((test, control), before, strict=True)
    )
    shared = float(((x @ theta) ** 2).mean()) / y.size
    plain = compare(Mean.of(test), Mean.of(control), level=level)
    found = compare(first, second, level=level, shared_variance=shared)
    spread = plain.difference.standard_error**2
    reduction = 1 - found.difference.standard_error**2 / spread if spread > 0 else 0.0
    return Adjusted(found, reduction)
