"""An estimate with its standard error and interval; means and ratios of sums, also with several rows per customer."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from disco.evaluation.figures import read_level
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
    share = 0.5 + read_level(level) / 2
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
    """r = Σnᵢ / Σdᵢ; its linear terms (nᵢ − r·dᵢ)/Σdᵢ, summed by customer, give error and quantile (delta method).

    >>> estimate = ratio_estimate(np.array([0.0, 30.0, 50.0]), np.array([0.0, 1.0, 1.0]))
    >>> estimate.value, round(estimate.standard_error, 3)
    (40.0, 8.66)
    """
    total = float(denominators.sum())
    if total == 0:
        raise InputError("ratio", found="a denominator of 0", expected="at least one row that counts")
    value = float(numerators.sum()) / total
    terms = (numerators - value * denominators) / total
    if customers is not None:
        terms = np.asarray(np.bincount(customers, weights=terms), np.float64)
    if np.count_nonzero(denominators) < 2:  # one row that counts shows no spread
        return Estimate(value, np.inf, -np.inf, np.inf, level)
    error, freedom = error_of_sum(terms)
    return Estimate.around(value, error, level=level, freedom=freedom)


def error_of_sum(terms: Vector) -> tuple[float, float]:
    """√(g/(g−1)·Σt²) for g independent terms with mean 0, and how well it is known: 2g/(κ−1) degrees of freedom.

    κ = g·Σt⁴/(Σt²)² is the terms' kurtosis; the variance of their mean square is (κ−1)/g of its square, as that of a
    χ² with 2g/(κ−1) degrees of freedom. Normal terms have κ = 3 and g of them; figures of which a few dominate have
    far fewer, and their interval widens.

    >>> error, freedom = error_of_sum(np.array([-1.0, 1.0, -2.0, 2.0]))
    >>> round(error, 3), round(freedom, 2)
    (3.651, 3.0)
    """
    groups, squares = terms.size, terms**2
    total = float(squares.sum())
    if groups < 2 or total == 0:
        return (np.inf if groups < 2 else 0.0), np.inf
    excess = groups * float(squares @ squares) / total**2 - 1
    most = float(np.count_nonzero(terms)) - 1  # rows that do not count have a term of 0
    freedom = min(most, 2 * groups / excess) if excess > 0 else most
    return float(np.sqrt(groups / (groups - 1) * total)), max(freedom, 1.0)
