"""What makes sums exact, so that neither chunks nor their order show in them.

Contexts and ln F are rounded to a grid, on which float64 products are exact; any other floats are summed without
rounding, in units of the smallest there is.
"""

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import njit

# ---- the grid of evidence
#
# Byte-critical: every stored context, evidence and model file rests on these numbers. They never change.


GRID = 65536.0  # units per 1.0: figures are multiples of 2⁻¹⁶, so that their products are exact in float64
CONTEXT_LIMIT = 4.0  # |ψ1| is at most this, in standard deviations
LOG_PRICE_LIMIT = 32.0  # |ln F| is below this in evidence, and at most this where full prices are served


# ---- sums of any floats
#
# A finite float64 is a whole number of units of 2⁻¹⁰⁷⁴, the smallest there is. Sums are kept in these units as Python
# integers: they can be added in any order, and are rounded once, at the end.


_UNIT = 1074  # 2⁻¹⁰⁷⁴
_LOW = 26  # bits of a mantissa that are summed apart from the others, so that 2³⁶ terms fit into 63 bits
EXPONENTS = 2048  # of float64; the last is that of what is no finite number


@njit(nogil=True, cache=True, patient=True)
def add_bits(bits: Array, sums: Array) -> None:
    """Add the mantissas of floats to the sums of their exponents, in two parts.

    bits: the floats seen as int64; they must be finite.
    sums: (EXPONENTS, 2) upper and lower parts.
    """
    for j in range(bits.size):
        word = bits[j]
        exponent = (word >> 52) & 0x7FF
        mantissa = word & 0xFFFFFFFFFFFFF
        mantissa |= (1 << 52) if exponent > 0 else 0
        sign = 1 - 2 * ((word >> 63) & 1)
        sums[exponent, 0] += sign * (mantissa >> 26)
        sums[exponent, 1] += sign * (mantissa & 0x3FFFFFF)


def exact_total(sums: Array) -> int:
    """The sum that `add_bits` has collected, in units of 2⁻¹⁰⁷⁴."""
    total = 0
    for exponent in np.flatnonzero(sums[:, 0] | sums[:, 1]).tolist():
        upper, lower = sums[exponent].tolist()
        total += ((upper << _LOW) + lower) << max(exponent - 1, 0)
    return total


def exact_sum(terms: Array) -> int:
    """Σ terms in units of 2⁻¹⁰⁷⁴.

    terms: (n,) finite numbers, float64.

    >>> rounded(exact_sum(np.array([1e16, 1.0, -1e16])))
    1.0
    """
    sums = np.zeros((EXPONENTS, 2), np.int64)
    add_bits(np.ascontiguousarray(terms, np.float64).view(np.int64), sums)
    return exact_total(sums)


def rounded(total: int) -> float:
    """The float nearest to a sum in units of 2⁻¹⁰⁷⁴; infinite where that is beyond the largest.

    >>> rounded(exact_sum(np.full(10, 0.1)))
    1.0
    """
    try:
        return total / (1 << _UNIT)
    except OverflowError:
        return np.inf if total > 0 else -np.inf
