"""The kernel behind `Evidence`: one pass over rows, exact sums per depth.

A row is z = (1, grid units of ψ1, grid units of ln F). Per depth we want Σzzᵀ. Products stay below 2⁴², so float64
sums of up to 2,048 of them are exact integers; here every LANE rows of a depth they are carried into two 64-bit limbs,
value = high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰, which hold 2⁶⁰ rows. Since every sum is exact, the compiler may reorder
and fuse it (`fastmath`) without changing a bit.
"""

import math

import numpy as np

from disco.belief.elementary import logarithm
from disco.records.arrays import Integers, Keys, Matrix, Vector
from disco.records.compiled import njit
from disco.records.grid import CONTEXT_LIMIT, GRID, LOG_PRICE_LIMIT

LIMB_BITS = 40
LIMB = 1 << LIMB_BITS
LANE = 64  # rows of one depth that are summed together
_BLOCK = 512

OK, BAD_CONTEXT, BAD_DEPTH, BAD_PRICE, TOO_MANY_DEPTHS = range(5)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _carry(waiting: Matrix, count: int, high: Integers, low: Integers) -> None:
    """Add Σzzᵀ of the `count` rows waiting (m, LANE) to one depth's limbs, upper triangle by rows."""
    place = 0
    for i in range(waiting.shape[0]):
        for j in range(i, waiting.shape[0]):
            dot = 0.0
            for b in range(count):
                dot += waiting[i, b] * waiting[j, b]
            total = low[place] + np.int64(dot)
            high[place] += total >> LIMB_BITS
            low[place] = total & (LIMB - 1)
            place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _log_units(full_price: Vector, start: int, size: int, out: Vector) -> None:
    """ln F in grid units; figures that are not finite and positive give rubbish here and are refused by the caller."""
    for b in range(size):
        out[b] = np.rint(logarithm(full_price[start + b]) * GRID)


@njit(cache=True, nogil=True)
def _slot(table: Integers, seen: Vector, depth: float, bits: np.uint64) -> np.int64:
    """Where a depth is, or would go, in the open-addressing table."""
    mask = table.size - 1
    at = np.int64((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[at] >= 0 and seen[table[at]] != depth:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def tally(
    context: Matrix, depth: Vector, bits: Keys, full_price: Vector, limit: int
) -> tuple[int, int, int, Vector, Integers, Integers]:
    """Sums per distinct depth, in order of first appearance: (problem, row, column, depths, high, low).

    `bits` are the depths' own; there is room for `limit` distinct ones, in a table at most half full.
    """
    rows, d1 = context.shape
    m = d1 + 2
    slots = 1
    while slots < 2 * limit:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    seen = np.empty(limit)
    waiting = np.empty((limit, m, LANE))
    count = np.zeros(limit, np.int64)
    high = np.zeros((limit, m * (m + 1) // 2), np.int64)
    low = np.zeros((limit, m * (m + 1) // 2), np.int64)
    distinct = 0
    log_units = np.empty(_BLOCK)
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        _log_units(full_price, start, size, log_units)
        for b in range(size):
            row = start + b
            d = depth[row]
            if not (0.0 <= d <= 1.0):
                return BAD_DEPTH, row, 0, seen[:0], high[:0], low[:0]
            # the second bound is in grid units; the first keeps NaN, ≤ 0 and infinity out
            if not (0.0 < full_price[row] < math.inf and abs(log_units[b]) < LOG_PRICE_LIMIT * GRID):
                return BAD_PRICE, row, 0, seen[:0], high[:0], low[:0]
            at = _slot(table, seen, d, bits[row])
            if table[at] < 0:
                if distinct == limit:
                    return TOO_MANY_DEPTHS, row, 0, seen[:0], high[:0], low[:0]
                table[at] = distinct
                seen[distinct] = d
                waiting[distinct, 0] = 1.0
                distinct += 1
            which = table[at]
            place = count[which]
            for column in range(d1):
                value = context[row, column]
                if not (-CONTEXT_LIMIT <= value <= CONTEXT_LIMIT):
                    return BAD_CONTEXT, row, column, seen[:0], high[:0], low[:0]
                waiting[which, 1 + column, place] = np.rint(value * GRID)
            waiting[which, m - 1, place] = log_units[b]
            count[which] = place + 1
            if count[which] == LANE:
                _carry(waiting[which], LANE, high[which], low[which])
                count[which] = 0
    for which in range(distinct):
        _carry(waiting[which], count[which], high[which], low[which])
    return OK, 0, 0, seen[:distinct], high[:distinct], low[:distinct]
