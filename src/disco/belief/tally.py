"""The kernel behind `Evidence`: one pass over rows, exact sums per depth.

A row is z = (1, grid units of ψ1, grid units of ln F). Per depth we want Σzzᵀ. Products stay below 2⁴², so float64
sums of up to 2,048 of them are exact integers; then they are carried into two 64-bit limbs,
value = high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰, which hold 2⁶⁰ rows.
"""

import math

import numba as nb
import numpy as np

from disco.records.arrays import Integers, Matrix, Vector

LIMB_BITS = 40
LIMB = 1 << LIMB_BITS
ROWS_PER_FLUSH = 2048

OK, BAD_CONTEXT, BAD_DEPTH, BAD_PRICE, TOO_MANY_DEPTHS = range(5)


@nb.njit(cache=True, nogil=True)
def flush(partial: Matrix, high: Integers, low: Integers) -> None:
    """Move one depth's exact float sums (upper triangle) into its limbs and start again at zero."""
    place = 0
    for i in range(partial.shape[0]):
        for j in range(i, partial.shape[0]):
            total = low[place] + np.int64(partial[i, j])
            high[place] += total >> LIMB_BITS
            low[place] = total & (LIMB - 1)
            place += 1
    partial[:] = 0.0


@nb.njit(cache=True, nogil=True)
def tally(
    context: Matrix, depth: Vector, full_price: Vector, slots: int
) -> tuple[int, int, int, Vector, Integers, Integers]:
    """Sums per distinct depth, in order of first appearance: (problem, row, column, depths, high, low).

    `slots` is the size of the table of depths, a power of two; at most half of it is used.
    """
    rows, d1 = context.shape
    m = d1 + 2
    limit = slots // 2
    table = np.full(slots, -1, np.int64)
    seen = np.empty(limit)
    pending = np.zeros(limit, np.int64)
    partial = np.zeros((limit, m, m))
    high = np.zeros((limit, m * (m + 1) // 2), np.int64)
    low = np.zeros((limit, m * (m + 1) // 2), np.int64)
    count = 0
    z = np.empty(m)
    z[0] = 1.0
    bits = depth.view(np.uint64)
    for row in range(rows):
        d = depth[row]
        if not (0.0 <= d <= 1.0):
            return BAD_DEPTH, row, 0, seen[:count], high[:count], low[:count]
        for column in range(d1):
            value = context[row, column]
            if not (-4.0 <= value <= 4.0):
                return BAD_CONTEXT, row, column, seen[:count], high[:count], low[:count]
            z[1 + column] = np.rint(value * 65536.0)
        price = full_price[row]
        if not (0.0 < price < math.inf):
            return BAD_PRICE, row, 0, seen[:count], high[:count], low[:count]
        log_price = math.log(price)
        if not (-32.0 < log_price < 32.0):
            return BAD_PRICE, row, 0, seen[:count], high[:count], low[:count]
        z[m - 1] = np.rint(log_price * 65536.0)

        at = np.int64((bits[row] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (slots - 1)
        while table[at] >= 0 and seen[table[at]] != d:
            at = (at + 1) & (slots - 1)
        if table[at] < 0:
            if count == limit:
                return TOO_MANY_DEPTHS, row, 0, seen[:count], high[:count], low[:count]
            table[at] = count
            seen[count] = d
            count += 1
        which = table[at]
        sums = partial[which]
        for i in range(m):
            for j in range(m):
                sums[i, j] += z[i] * z[j]
        pending[which] += 1
        if pending[which] == ROWS_PER_FLUSH:
            flush(sums, high[which], low[which])
            pending[which] = 0
    for which in range(count):
        flush(partial[which], high[which], low[which])
    return OK, 0, 0, seen[:count], high[:count], low[:count]
