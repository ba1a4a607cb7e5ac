"""The network at decision time: a pure function of one row, with a fixed order of summation.

Rows are the lanes of the vector unit: 64 of them walk through the layers together, each sum over inputs running from
the first input to the last. No lane reads another, nothing is reassociated and nothing is fused, so a row gets the same
bits alone, in any chunk, in any order and on any machine with IEEE arithmetic.
"""

import math

import numpy as np
from numpy.typing import NDArray

from disco.records.arrays import Integers, Keys, Matrix, Vector
from disco.records.compiled import njit
from disco.records.exact_sums import CONTEXT_LIMIT, GRID
from disco.records.identity import mix

LANES = 64
INPUT_LIMIT = 6.0  # scaled inputs beyond this many robust sds count as this many
_LN_2 = math.log(2.0)
_BITS_OF_2_52 = 0x4330000000000000
SIZE_BITS = 6  # of the mantissa: values of one size differ by less than 1/64
SIZES = 64 << SIZE_BITS  # from 2⁻²⁰ to 2⁴⁴; smaller and larger values count as the first and the last
_FIRST_SIZE = (1023 - 20) << SIZE_BITS

Work = tuple[Vector, Integers, Vector, Integers]  # (LANES,) twice: floats, and the same memory as integers


@njit(nogil=True, cache=True, error_model="numpy")
def _scale_block(
    block: Matrix, unit: Vector, centre: Vector, spread: Vector, shift: Vector, work: Work, out: Matrix
) -> None:
    """(sign·ln(1 + |x|·unit) − centre)·spread + shift, clipped; missing → 0 (the centre). `block` and `out` are
    (features, LANES), so that a feature's constants are scalars of the loop over rows.

    The logarithm is our own, from exponent and mantissa: y = 2ᵉ·m, s = (m − 1) / (m + 1), ln y = e·ln 2 + 2·artanh s as
    a series up to s¹⁵ (error below 2e-9). It needs nothing but IEEE arithmetic, so no library's last digit can move a
    context, and it runs in the vector unit. So does the exponent: vector units of most processors do not turn 64-bit
    integers into floats, but e set into the mantissa of 2⁵² is the float 2⁵² + e, exactly.
    """
    size, size_bits, power, power_bits = work
    for place in range(unit.size):
        per, middle, scale, moved = unit[place], centre[place], spread[place], shift[place]
        for lane in range(LANES):
            size[lane] = 1.0 + abs(block[place, lane]) * per
        for lane in range(LANES):
            power_bits[lane] = (size_bits[lane] >> 52) | _BITS_OF_2_52
            size_bits[lane] = (size_bits[lane] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        for lane in range(LANES):
            exponent = power[lane] - (2.0**52 + 1023.0)
            s = (size[lane] - 1.0) / (size[lane] + 1.0)
            q = s * s
            series = 1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15))))
            series = 1.0 + q * (1 / 3 + q * (1 / 5 + q * series))
            size[lane] = exponent * _LN_2 + 2.0 * s * series
        for lane in range(LANES):
            value = block[place, lane]
            curved = size[lane] if value >= 0.0 else -size[lane]
            scaled = (curved - middle) * scale + moved
            scaled = scaled if scaled > -INPUT_LIMIT else -INPUT_LIMIT
            scaled = scaled if scaled < INPUT_LIMIT else INPUT_LIMIT
            out[place, lane] = scaled if value == value else 0.0  # NaN alone differs from itself


@njit(nogil=True, cache=True)
def _read_block(rows: Matrix, start: int, lanes: int, block: Matrix) -> bool:
    """The rows from `start` on as columns; returns whether one of their values is infinite. Lanes beyond the last row
    keep the numbers of an earlier block."""
    infinite = False
    for place in range(rows.shape[1]):
        for lane in range(lanes):
            block[place, lane] = rows[start + lane, place]
            infinite |= abs(rows[start + lane, place]) == np.inf
    return infinite


@njit(nogil=True, cache=True)
def _work() -> Work:
    size, power = np.empty(LANES), np.empty(LANES)
    return size, size.view(np.int64), power, power.view(np.int64)


@njit(nogil=True, cache=True)
def scale_rows(rows: Matrix, unit: Vector, centre: Vector, spread: Vector, out: Matrix) -> None:
    """Inputs as the first layer sees them, without a shift; shape (rows, features)."""
    block, shift, work = np.zeros((rows.shape[1], LANES)), np.zeros(rows.shape[1]), _work()
    scaled = np.empty_like(block)
    for start in range(0, rows.shape[0], LANES):
        lanes = min(LANES, rows.shape[0] - start)
        _read_block(rows, start, lanes, block)
        _scale_block(block, unit, centre, spread, shift, work, scaled)
        for lane in range(lanes):
            for place in range(rows.shape[1]):
                out[start + lane, place] = scaled[place, lane]


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
def _layer(inputs: Matrix, incoming: int, outgoing: int, weights: Vector, at: int, sums: Matrix) -> None:
    """sums (outgoing, LANES) = biases + weights · inputs (incoming, LANES), from the first input to the last.

    Four inputs are added to a sum while it is in a register, each by an addition of its own.
    """
    for unit_out in range(outgoing):
        bias = weights[at + unit_out]
        for lane in range(LANES):
            sums[unit_out, lane] = bias
    at += outgoing
    fours = incoming - incoming % 4
    for place in range(0, fours, 4):
        for unit_out in range(outgoing):
            w0 = weights[at + unit_out]
            w1 = weights[at + unit_out + outgoing]
            w2 = weights[at + unit_out + 2 * outgoing]
            w3 = weights[at + unit_out + 3 * outgoing]
            for lane in range(LANES):
                sums[unit_out, lane] = (
                    ((sums[unit_out, lane] + w0 * inputs[place, lane]) + w1 * inputs[place + 1, lane])
                    + w2 * inputs[place + 2, lane]
                ) + w3 * inputs[place + 3, lane]
        at += 4 * outgoing
    for place in range(fours, incoming):
        for unit_out in range(outgoing):
            weight = weights[at + unit_out]
            for lane in range(LANES):
                sums[unit_out, lane] += weight * inputs[place, lane]
        at += outgoing


@njit(nogil=True, cache=True)
def known_values(values: Vector, bits: NDArray[np.uint8], offset: int, out: Vector) -> None:
    """The values of an Arrow column (rows,), NaN where the bit of its validity map, from `offset` on, is 0."""
    for row in range(values.size):
        bit = offset + row
        out[row] = values[row] if (bits[bit >> 3] >> (bit & 7)) & 1 else np.nan


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
) -> bool:
    """ψ1 of each row: layers with leaky ReLU, standardised, clipped at ±4, rounded to the grid; shape (rows, d1).

    `rows` may lie in memory row by row or column by column. `shift` (features,) is added to the scaled inputs: how far
    the day's mean lies below that of training. `weights` holds, layer by layer, the biases and then one row of weights
    per input. Where the feature number `history` (−1: none) is 0 or missing, the customer has bought nothing in the
    year and gets the population's context, zeros. Returns whether a value is infinite, which the caller refuses.
    """
    infinite, widest = False, 0
    for size in sizes:
        widest = max(widest, size)
    block = np.zeros((sizes[0], LANES))
    inputs, sums = np.zeros((widest, LANES)), np.zeros((widest, LANES))
    work = _work()
    for start in range(0, rows.shape[0], LANES):
        lanes = min(LANES, rows.shape[0] - start)
        infinite |= _read_block(rows, start, lanes, block)
        _scale_block(block, unit, centre, spread, shift, work, inputs)
        at = 0
        for layer in range(sizes.size - 1):
            incoming, outgoing = sizes[layer], sizes[layer + 1]
            _layer(inputs, incoming, outgoing, weights, at, sums)
            at += (incoming + 1) * outgoing
            for unit_out in range(outgoing):
                for lane in range(LANES):
                    value = sums[unit_out, lane]
                    inputs[unit_out, lane] = value if value > 0.0 else value * leak
        for place in range(sizes[-1]):
            for lane in range(lanes):
                known = history < 0 or block[max(history, 0), lane] > 0.0
                value = (inputs[place, lane] - mean[place]) * inverse_sd[place]
                value = min(max(value, -CONTEXT_LIMIT), CONTEXT_LIMIT)
                out[start + lane, place] = np.rint(value * GRID) / GRID + 0.0 if known else 0.0
    return infinite


@njit(nogil=True, cache=True)
def ranges_of_texts(
    starts: Integers, text: NDArray[np.uint8], bound_starts: Integers, bounds: NDArray[np.uint8], out: NDArray[np.int32]
) -> None:
    """How many of the sorted bounds are at most each text, by their bytes; text n is `text[starts[n] : starts[n + 1]]`,
    and bounds lie in memory alike."""
    for row in range(out.size):
        first, length = starts[row], starts[row + 1] - starts[row]
        low, high = 0, bound_starts.size - 1
        while low < high:
            middle = (low + high) // 2
            at, size = bound_starts[middle], bound_starts[middle + 1] - bound_starts[middle]
            place, shorter = 0, min(size, length)
            while place < shorter and bounds[at + place] == text[first + place]:
                place += 1
            if size <= length if place == shorter else bounds[at + place] < text[first + place]:
                low = middle + 1
            else:
                high = middle
        out[row] = low
