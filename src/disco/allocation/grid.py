"""Values as exact integers: rounded once to a grid about 52 bits below the largest value, so that sums, comparisons and
therefore decisions cannot depend on the order of anything."""

import math

import numba as nb
import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.movers import NEVER


def grid_scale(largest: float, *, nodes: int) -> float:
    """The power of two that takes values of at most `largest` to integers whose path sums stay below 2⁶².

    >>> grid_scale(3.0, nodes=9) == 2.0 ** (52 - 2)
    True
    """
    if largest <= 0.0:
        return 1.0
    return math.ldexp(1.0, min(56 - nodes.bit_length() - math.frexp(largest)[1], 1000))


@nb.njit(nogil=True, cache=True)
def to_grid(kept: Array, scale: float, keep_negative: bool, out: Array) -> None:
    """out[i, k] = round(kept[k, i] · scale); NEVER for -∞, and for a loss where no floor could ask for it."""
    for i in range(kept.shape[1]):
        for k in range(kept.shape[0]):
            x = kept[k, i]
            if x == -np.inf or (x < 0.0 and not keep_negative):
                out[i, k] = NEVER
            else:
                out[i, k] = np.int64(np.rint(x * scale))
