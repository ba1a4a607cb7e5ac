"""The network at decision time: a pure function of one row, with a fixed order of summation.

Rows are the lanes of the vector unit: 32 of them walk through the layers together, each sum over inputs running from
the first input to the last. No lane reads another, nothing is reassociated and nothing is fused, so a row gets the same
bits alone, in any chunk, in any order and on any machine with IEEE arithmetic.
"""

import math

import numpy as np

from disco.records.arrays import Integers, Keys, Matrix, Vector
from disco.records.compiled import njit
from disco.records.grid import CONTEXT_LIMIT, GRID
from disco.records.identity_kernels import mix

LANES = 32
INPUT_LIMIT = 6.0  # scaled inputs beyond this many robust sds count as this many
_LN_2 = math.log(2.0)
SIZE_BITS = 6  # of the mantissa: values of one size differ by less than 1/64
SIZES = 64 << SIZE_BITS  # from 2⁻²⁰ to 2⁴⁴; smaller and larger values count as the first and the last
_FIRST_SIZE = (1023 - 20) << SIZE_BITS


@njit(nogil=True, cache=True)
def _scale_row(
    row: Vector,
    unit: Vector,
    centre: Vector,
    spread: Vector,
    shift: Vector,
    size: Vector,
    bits: Integers,
    out: Vector,
) -> None:
    """(sign·ln(1 + |x|·unit) − centre)·spread + shift, clipped; missing → 0 (the centre). `bits` is `size` seen as
    integers.

    The logarithm is our own, from exponent and mantissa: y = 2ᵉ·m, s = (m − 1) / (m + 1), ln y = e·ln 2 + 2·artanh s as
    a series up to s¹⁵ (error below 2e-9). It needs nothing but IEEE arithmetic, so no library's last digit can move a
    context, and it runs in the vector unit.
    """
    for place in range(row.size):
        size[place] = 1.0 + abs(row[place]) * unit[place]
    for place in range(row.size):
        exponent = float((bits[place] >> 52) - 1023)
        bits[place] = (bits[place] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        s = (size[place] - 1.0) / (size[place] + 1.0)
        q = s * s
        series = 1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15))))
        series = 1.0 + q * (1 / 3 + q * (1 / 5 + q * series))
        size[place] = exponent * _LN_2 + 2.0 * s * series
    for place in range(row.size):
        curved = size[place] if row[place] >= 0.0 else -size[place]
        scaled = (curved - centre[place]) * spread[place] + shift[place]
        out[place] = 0.0 if math.isnan(row[place]) else min(max(scaled, -INPUT_LIMIT), INPUT_LIMIT)


@njit(nogil=True, cache=True)
def scale_rows(rows: Matrix, unit: Vector, centre: Vector, spread: Vector, out: Matrix) -> None:
    """Inputs as the first layer sees them, without a shift; shape (rows, features)."""
    size, shift = np.empty(rows.shape[1]), np.zeros(rows.shape[1])
    for row in range(rows.shape[0]):
        _scale_row(rows[row], unit, centre, spread, shift, size, size.view(np.int64), out[row])


@njit(nogil=True, cache=True)
def count_sizes(rows: Matrix, bits: Integers, history: int, known: Integers, counts: Integers) -> int:
    """Add to `known` (features,) how many values there are, and to `counts` (features, 2, SIZES) how many of them have
    which size, those below 0 apart; returns how many rows were counted. Zeros have no size.

    A size is the exponent of a value and the first bits of its mantissa; `bits` is `rows` seen as integers. Rows
    without a purchase in the year are left out (`history` as for `context_rows`).
    """
    counted = 0
    for row in range(rows.shape[0]):
        if history >= 0 and not rows[row, history] > 0.0:
            continue
        counted += 1
        for place in range(rows.shape[1]):
            value = rows[row, place]
            if math.isnan(value):
                continue
            known[place] += 1
            if value != 0.0:
                size = ((bits[row, place] & 0x7FFFFFFFFFFFFFFF) >> (52 - SIZE_BITS)) - _FIRST_SIZE
                counts[place, 0 if value > 0.0 else 1, min(max(size, 0), SIZES - 1)] += 1
    return counted


def curves_of_sizes(units: Vector) -> Integers:
    """(SIZES, units) ln(1 + |x|·unit) in units of 2⁻¹⁶ for the x in the middle of each size."""
    edges = (np.arange(SIZES + 1, dtype=np.int64) + _FIRST_SIZE) << (52 - SIZE_BITS)
    edges = edges.view(np.float64)
    middles = np.ascontiguousarray(np.broadcast_to((edges[:-1] + edges[1:])[:, None] / 2, (SIZES, units.size)))
    out, zeros = np.empty_like(middles), np.zeros(units.size)
    # the kernel's own logarithm, without a limit: the curve is scaled down to where nothing is clipped
    scale_rows(middles, units, zeros, np.full(units.size, 1 / GRID), out)
    return np.rint(out * GRID * GRID).astype(np.int64)


@njit(nogil=True, cache=True)
def row_keys(rows: Matrix, bits: Keys, out: Keys) -> None:
    """A 64-bit key per row that depends on its values alone; `bits` is `rows` seen as integers."""
    for row in range(rows.shape[0]):
        key = np.uint64(rows.shape[1])
        for place in range(rows.shape[1]):
            key = mix(key ^ (np.uint64(0) if math.isnan(rows[row, place]) else bits[row, place]))
        out[row] = key


@njit(nogil=True, cache=True)
def context_rows(
    rows: Matrix,
    unit: Vector,
    centre: Vector,
    spread: Vector,
    sizes: Integers,
    weights: Vector,
    leak: float,
    mean: Vector,
    inverse_sd: Vector,
    history: int,
    shift: Vector,
    out: Matrix,
) -> None:
    """ψ1 of each row: layers with leaky ReLU, standardised, clipped at ±4, rounded to the grid; shape (rows, d1).

    `shift` (features,) is added to the scaled inputs: how far the day's mean lies below that of training. `weights`
    holds, layer by layer, the biases and then one row of weights per input. Where the feature number `history`
    (−1: none) is 0 or missing, the customer has bought nothing in the year and gets the population's context, zeros.
    """
    widest = sizes.max()
    inputs = np.zeros((widest, LANES))
    sums = np.zeros((widest, LANES))
    size, scaled = np.empty(sizes[0]), np.empty(sizes[0])
    bits = size.view(np.int64)
    for start in range(0, rows.shape[0], LANES):
        lanes = min(LANES, rows.shape[0] - start)
        for lane in range(lanes):
            _scale_row(rows[start + lane], unit, centre, spread, shift, size, bits, scaled)
            for place in range(sizes[0]):
                inputs[place, lane] = scaled[place]
        at = 0
        for layer in range(sizes.size - 1):
            incoming, outgoing = sizes[layer], sizes[layer + 1]
            for unit_out in range(outgoing):
                bias = weights[at + unit_out]
                for lane in range(LANES):
                    sums[unit_out, lane] = bias
            at += outgoing
            for place in range(incoming):
                source = inputs[place]
                for unit_out in range(outgoing):
                    weight = weights[at + unit_out]
                    target = sums[unit_out]
                    for lane in range(LANES):
                        target[lane] += weight * source[lane]
                at += outgoing
            for unit_out in range(outgoing):
                for lane in range(LANES):
                    value = sums[unit_out, lane]
                    inputs[unit_out, lane] = value if value > 0.0 else value * leak
        for lane in range(lanes):
            known = history < 0 or rows[start + lane, max(history, 0)] > 0.0
            for place in range(sizes[-1]):
                value = (inputs[place, lane] - mean[place]) * inverse_sd[place]
                value = min(max(value, -CONTEXT_LIMIT), CONTEXT_LIMIT)
                out[start + lane, place] = np.rint(value * GRID) / GRID + 0.0 if known else 0.0
