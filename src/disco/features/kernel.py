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


@njit(nogil=True, cache=True)
def _scale_row(
    row: Vector, unit: Vector, centre: Vector, spread: Vector, size: Vector, bits: Integers, out: Vector
) -> None:
    """(sign·ln(1 + |x|·unit) − centre)·spread, clipped; missing → 0 (the centre). `bits` is `size` seen as integers.

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
        scaled = min(max((curved - centre[place]) * spread[place], -INPUT_LIMIT), INPUT_LIMIT)
        out[place] = 0.0 if math.isnan(row[place]) else scaled


@njit(nogil=True, cache=True)
def scale_rows(rows: Matrix, unit: Vector, centre: Vector, spread: Vector, out: Matrix) -> None:
    """Inputs as the first layer sees them, shape (rows, features)."""
    size = np.empty(rows.shape[1])
    for row in range(rows.shape[0]):
        _scale_row(rows[row], unit, centre, spread, size, size.view(np.int64), out[row])


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
    out: Matrix,
) -> None:
    """ψ1 of each row: layers with leaky ReLU, standardised, clipped at ±4, rounded to the grid; shape (rows, d1).

    `weights` holds, layer by layer, the biases and then one row of weights per input. Where the feature number
    `history` (−1: none) is 0 or missing, the customer has bought nothing in the year and gets the population's context,
    zeros.
    """
    widest = sizes.max()
    inputs = np.zeros((widest, LANES))
    sums = np.zeros((widest, LANES))
    size, scaled = np.empty(sizes[0]), np.empty(sizes[0])
    bits = size.view(np.int64)
    for start in range(0, rows.shape[0], LANES):
        lanes = min(LANES, rows.shape[0] - start)
        for lane in range(lanes):
            _scale_row(rows[start + lane], unit, centre, spread, size, bits, scaled)
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
