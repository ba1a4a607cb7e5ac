"""exp, ln and standard normals from +, −, ×, ÷, √ and bit operations alone.

Such operations are exactly rounded everywhere, and numba does not fuse them; so a result depends neither on the
system's mathematical library nor on how wide the processor's vectors are. The loops over a block also run on whole
vectors, which calls into a library would prevent. exp and ln are within 2 units in the last place; a normal is accurate
in absolute terms, not relative to values near 0.

Byte-critical: launched campaigns are decided again with these functions. They may become faster, but no bit of a result
may change (`tests/test_fixed_bytes.py`).
"""

import math
from typing import Any

import numpy as np

from disco.records.arrays import Keys, Vector
from disco.records.compiled import njit
from disco.records.identity import mix

_SHIFTER = 6755399441055744.0  # 1.5·2⁵²: adding it rounds to an integer and leaves that integer in the low bits
_SHIFTER_BITS = np.int64(0x4338000000000000)
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # its low bits are zero, so that k·_LN2_HIGH is exact for |k| < 2¹¹
_LN2_LOW = 1.9082149292705877e-10
_HALF_ROOT_BITS = np.int64(0x3FE6A09E667F3BCD)  # √½
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, made odd: steps of a counter
_ROOT_HALF = 0.7071067811865476
# coefficients of series, from the smallest term
_EXPONENTIAL = tuple(1.0 / math.factorial(n) for n in range(13, 2, -1))  # e^r for |r| ≤ ½·ln 2, from r³ to r¹³
_LOGARITHM = tuple(2.0 / n for n in range(21, 1, -2))  # 2·artanh(s) = 2s + s³·(2/3 + …), |s| ≤ 0.1716
_SINE = tuple((-1.0) ** (n // 2) / math.factorial(n) for n in range(15, 1, -2))
_COSINE = tuple((-1.0) ** (n // 2) / math.factorial(n) for n in range(16, 2, -2))
READ_KEYS = "Array(uint64, 1, 'C', True)"  # a kernel declared for read-only keys takes others too
FARTHEST = 700.0  # |x| up to which `exponential` goes; a logit beyond it is a rate of 0 or 1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def exponential(x: float) -> float:
    """e^x for |x| ≤ 700.

    >>> math.isclose(exponential(1.0), math.e, rel_tol=4e-16)
    True
    """
    shifted = x * _LOG2_E + _SHIFTER
    k = shifted - _SHIFTER
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    s = _EXPONENTIAL[0]
    for coefficient in _EXPONENTIAL[1:]:
        s = coefficient + r * s
    s = 1.0 + (r + r * r * (0.5 + r * s))
    power = (np.float64(shifted).view(np.int64) - _SHIFTER_BITS + np.int64(1023)) << np.int64(52)
    return s * np.int64(power).view(np.float64)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def logistic(x: float) -> float:
    """1/(1 + e^−x), x first brought into ±700.

    >>> logistic(0.0), logistic(1e9)
    (0.5, 1.0)
    """
    return 1.0 / (1.0 + exponential(-min(max(x, -FARTHEST), FARTHEST)))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def logarithm(x: float) -> float:
    """ln x for normal positive x.

    >>> logarithm(1.0), logarithm(20.0) == math.log(20.0)
    (0.0, True)
    """
    bits = np.float64(x).view(np.int64)
    offset = bits - _HALF_ROOT_BITS
    whole = offset >> np.int64(52)
    mantissa = np.int64(bits - (whole << np.int64(52))).view(np.float64)  # in [√½, √2)
    k = np.int64(whole + _SHIFTER_BITS).view(np.float64) - _SHIFTER
    f = mantissa - 1.0
    s = f / (2.0 + f)
    t = s * s
    p = _LOGARITHM[0]
    for coefficient in _LOGARITHM[1:]:
        p = coefficient + t * p
    # ln(1+f) = f − (h − s·(h + t·p)), h = f²/2: the leading term is exact
    h = 0.5 * f * f
    return k * _LN2_HIGH - ((h - (s * (h + t * p) + k * _LN2_LOW)) - f)


@njit(cache=True, nogil=True, error_model="numpy")
def exponentials(line: Vector, size: int, limit: float) -> None:
    """e^x in place, x first brought into ±limit."""
    for b in range(size):
        line[b] = exponential(min(max(line[b], -limit), limit))


def exp_array(values: Vector) -> Vector:
    """e^x of arrays with |x| ≤ 700, with the bits of `exponential`."""
    whole: Any = exponential.__wrapped__  # its operations work on arrays as on numbers
    return np.asarray(whole(values))


def log_array(values: Vector) -> Vector:
    """ln x of arrays of normal positive numbers, with the bits of `logarithm`."""
    whole: Any = logarithm.__wrapped__
    return np.asarray(whole(values))


def stream_normals(stream: np.uint64, count: int) -> Vector:
    """`count` standard normals of one stream, shared by all customers."""
    words, first, second = np.empty(count, np.uint64), np.empty(count), np.empty(count)
    customer_words(np.arange(count).astype(np.uint64), 0, count, stream, words)
    normal_pair(words, count, 0, first, second)
    return first


@njit(f"void({READ_KEYS}, int64, int64, uint64, uint64[::1])", cache=True, nogil=True, error_model="numpy")
def customer_words(keys: Keys, start: int, size: int, stream: np.uint64, words: Keys) -> None:
    """The root of a customer's random numbers within one stream."""
    for b in range(size):
        words[b] = mix(keys[start + b] ^ stream)


@njit("void(uint64[::1], int64, int64, float64[::1], float64[::1])", cache=True, nogil=True, error_model="numpy")
def normal_pair(words: Keys, size: int, index: int, first: Vector, second: Vector) -> None:
    """Two independent standard normals per customer, a pure function of (word, index), by Box and Muller.

    The angle is v·π/2 in the first quadrant, taken around its middle, with two random signs.
    """
    one = np.uint64(2 * index + 1) * _ODD
    two = np.uint64(2 * index + 2) * _ODD
    for b in range(size):
        a = mix(words[b] + one)
        c = mix(words[b] + two)
        # 52 bits as a float in [1, 2); u is then shifted to the middle of its cell in (0, 1), v to [−½, ½)
        u = np.uint64((a >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 0.9999999999999999
        v = np.uint64((c >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.5
        radius = math.sqrt(-2.0 * logarithm(u)) * _ROOT_HALF
        angle = v * 1.5707963267948966  # in [−π/4, π/4)
        t = angle * angle
        s = _SINE[0]
        for coefficient in _SINE[1:]:
            s = coefficient + t * s
        sine = angle + angle * t * s
        s = _COSINE[0]
        for coefficient in _COSINE[1:]:
            s = coefficient + t * s
        cosine = 1.0 - 0.5 * t + t * t * s
        left = radius * (cosine - sine)
        right = radius * (cosine + sine)
        first[b] = np.uint64(np.float64(left).view(np.uint64) | ((a & np.uint64(1)) << np.uint64(63))).view(np.float64)
        second[b] = np.uint64(np.float64(right).view(np.uint64) | ((c & np.uint64(1)) << np.uint64(63))).view(
            np.float64
        )
