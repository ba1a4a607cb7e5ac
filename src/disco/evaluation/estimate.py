"""An estimate with its standard error and interval; means and ratios of sums, also with several rows per customer."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from disco.records.arrays import Integers, Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Estimate:
    """`value` with [lower, upper] at `level`; `standard_error` of `value`."""

    value: float
    standard_error: float
    lower: float
    upper: float
    level: float

    @classmethod
    def around(cls, value: float, standard_error: float, *, level: float, freedom: float = np.inf) -> "Estimate":
        """value ± q·standard_error with q of the normal, or of Student's t with `freedom` degrees of freedom.

        >>> Estimate.around(10.0, 1.0, level=0.95).upper.__round__(2)
        11.96
        """
        half = quantile(level, freedom=freedom) * standard_error
        return cls(value, standard_error, value - half, value + half, level)

    def covers(self, truth: float) -> bool:
        return self.lower <= truth <= self.upper


def quantile(level: float, *, freedom: float = np.inf) -> float:
    """The two-sided quantile of a level: 1.96 at 95 %.

    >>> round(quantile(0.95), 3), round(quantile(0.95, freedom=10), 3)
    (1.96, 2.228)
    """
    if not 0 < level < 1:
        raise InputError("level", found=level, expected="a share between 0 and 1, such as 0.95")
    share = 0.5 + level / 2
    return float(ndtri(share) if np.isinf(freedom) else stdtrit(freedom, share))


def mean_estimate(figures: Vector, *, level: float = 0.95, customers: Integers | None = None) -> Estimate:
    """The mean of one figure per row; `customers` (n,) numbers them 0, 1, … where one may have several rows.

    >>> mean_estimate(np.array([1.0, 2.0, 3.0])).standard_error.__round__(4)
    0.5774
    """
    return ratio_estimate(figures, np.ones_like(figures), level=level, customers=customers)


def ratio_estimate(
    numerators: Vector, denominators: Vector, *, level: float = 0.95, customers: Integers | None = None
) -> Estimate:
    """r = Σnᵢ / Σdᵢ with the delta method's error √(g/(g−1)·Σ(Σ_customer(nᵢ − r·dᵢ))²) / Σdᵢ over g customers.

    The quantile is Student's t with g₁ − 1 degrees of freedom, g₁ the customers that count (denominator not 0).

    >>> estimate = ratio_estimate(np.array([0.0, 30.0, 50.0]), np.array([0.0, 1.0, 1.0]))
    >>> estimate.value, round(estimate.standard_error, 3)
    (40.0, 8.66)
    """
    total = float(denominators.sum())
    if total == 0:
        raise InputError("ratio", found="a denominator of 0", expected="at least one row that counts")
    value = float(numerators.sum()) / total
    residuals, counting = numerators - value * denominators, np.abs(denominators)
    if customers is not None:
        residuals, counting = _by_customer(residuals, customers), _by_customer(counting, customers)
    groups, freedom = residuals.size, int(np.count_nonzero(counting)) - 1
    if freedom < 1:
        return Estimate(value, np.inf, -np.inf, np.inf, level)
    error = float(np.sqrt(groups / (groups - 1) * (residuals @ residuals))) / abs(total)
    return Estimate.around(value, error, level=level, freedom=freedom)


def _by_customer(figures: Vector, customers: Integers) -> Vector:
    return np.asarray(np.bincount(customers, weights=figures), np.float64)
