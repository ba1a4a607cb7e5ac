"""Sums of floats without rounding, so that neither chunks nor their order show in them.

A finite float64 is a whole number of units of 2⁻¹⁰⁷⁴, the smallest there is. Sums are kept in these units as Python
integers: they can be added in any order, and are rounded once, at the end.
"""

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import njit

_UNIT = 1074  # 2⁻¹⁰⁷⁴
_LOW = 26  # bits of a mantissa that are summed apart from the others, so that 2³⁶ terms fit into 63 bits


@njit(nogil=True, cache=True)
def _by_exponent(bits: Array, high: Array, low: Array) -> None:
    """Add the mantissas to the sums of their exponents, in two parts, with their signs."""
    for j in range(bits.size):
        word = bits[j]
        exponent = (word >> 52) & 0x7FF
        mantissa = word & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        upper = mantissa >> 26
        lower = mantissa & 0x3FFFFFF
        if word < 0:
            upper, lower = -upper, -lower
        high[exponent] += upper
        low[exponent] += lower


def exact_sum(terms: Array) -> int:
    """Σ terms in units of 2⁻¹⁰⁷⁴.

    terms: (n,) finite numbers, float64.

    >>> rounded(exact_sum(np.array([1e16, 1.0, -1e16])))
    1.0
    """
    high, low = np.zeros(2047, np.int64), np.zeros(2047, np.int64)
    _by_exponent(np.ascontiguousarray(terms, np.float64).view(np.int64), high, low)
    total = 0
    for exponent in np.flatnonzero((high != 0) | (low != 0)).tolist():
        total += ((int(high[exponent]) << _LOW) + int(low[exponent])) << max(exponent - 1, 0)
    return total


def rounded(total: int) -> float:
    """The float nearest to a sum in units of 2⁻¹⁰⁷⁴.

    >>> rounded(exact_sum(np.full(10, 0.1)))
    1.0
    """
    return total / (1 << _UNIT)
