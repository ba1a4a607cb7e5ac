"""The screening pass: decide every customer whose best place is the same for all prices in a box. A pure function of
one chunk of customers, so that threads, tests and a cluster call the same code.

Prices p_k = t + s_k with |t - t₀| ≤ none_width and |s_k - s₀_k| ≤ width_k: depths compete by s alone, "no code" feels t
too. A customer is settled when its best place still wins at the corner of the box that is worst for it.
"""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array

BLOCK = 2048  # customers per block: long enough for the prefetcher, short enough for the second-level cache


@nb.njit(nogil=True, cache=True)
def compete(line: Array, shift: float, place: int, first: Array, second: Array, winner: Array) -> None:
    """Let one more place bid line - shift for every customer: keep the best two bids and who made the best."""
    for j in range(line.size):
        x = line[j] - shift
        f = first[j]
        s = second[j]
        ahead = x > f
        lesser = f if ahead else x
        second[j] = lesser if lesser > s else s
        first[j] = x if ahead else f
        winner[j] = place if ahead else winner[j]


@nb.njit(nogil=True, cache=True)
def compete_two(
    line: Array, other: Array, shift: float, other_shift: float, place: int, first: Array, second: Array,
    winner: Array,
) -> None:  # fmt: skip
    """Two places at once: half the traffic of `compete` for the three state arrays."""
    for j in range(line.size):
        x = line[j] - shift
        y = other[j] - other_shift
        f = first[j]
        s = second[j]
        w = winner[j]
        larger = x if x >= y else y
        smaller = y if x >= y else x
        of = place if x >= y else place + 1
        ahead = larger > f
        lesser = f if ahead else larger
        lesser = lesser if lesser > smaller else smaller
        second[j] = lesser if lesser > s else s
        first[j] = larger if ahead else f
        winner[j] = of if ahead else w


@nb.njit(nogil=True, cache=True)
def value_range(
    bits: Array, eligible: Array | None, k: int, start: int, stop: int, largest: int, magnitude: int
) -> tuple[int, int]:
    """Largest value and largest magnitude as bit patterns: finite floats of one sign sort like their bits, and NaN and
    infinities lie above all of them; integer maxima run at memory speed, float ones must mind NaN.

    Ineligible cells count only when they are not finite: what stands there must not set the grid.
    """
    magnitude_mask = 0x7FFFFFFFFFFFFFFF if bits.itemsize == 8 else 0x7FFFFFFF
    infinity = 0x7FF0000000000000 if bits.itemsize == 8 else 0x7F800000
    line = bits[k, start:stop]
    if eligible is None:  # a loop of its own: without a condition in it the compiler reads several words at once
        for j in range(line.size):
            word = line[j]
            size = word & magnitude_mask
            largest = word if word > largest else largest
            magnitude = size if size > magnitude else magnitude
        return largest, magnitude
    for j in range(line.size):
        word = line[j]
        size = word & magnitude_mask
        if not eligible[k, start + j] and size < infinity:
            continue
        largest = word if word > largest else largest
        magnitude = size if size > magnitude else magnitude
    return largest, magnitude


@nb.njit(nogil=True, cache=True)
def load_line(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    rate: float,
    segment: Array | None,
    centre: Array,
    width: Array,
    k: int,
    start: int,
    line: Array,
) -> None:
    """line[j] = value - rate · cost - (centre - width) of customer start + j; -∞ where ineligible."""
    count = line.size
    if segment is None:
        shift = centre[0, k] - width[0, k]
        for j in range(count):
            line[j] = np.float64(values[k, start + j]) - shift
    else:
        for j in range(count):
            group = segment[start + j]
            line[j] = np.float64(values[k, start + j]) - (centre[group, k] - width[group, k])
    if costs is not None:
        for j in range(count):
            line[j] -= rate * np.float64(costs[k, start + j])
    if eligible is not None:
        for j in range(count):
            line[j] = line[j] if eligible[k, start + j] else -np.inf


@nb.njit(nogil=True, cache=True)
def screen(
    values: Array,
    bits: Array,
    eligible: Array | None,
    costs: Array | None,
    rate: float,
    segment: Array | None,
    start: int,
    stop: int,
    direct: bool,
    centre: Array,
    width: Array,
    none_width: float,
    margin: float,
    choice: Array,
    counts: Array,
    rows: Array,
) -> tuple[int, int, int]:
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    bits: `values` seen as integers · direct: nothing but depth-major `values` · centre, width: (groups, depths).
    Returns how many are open (beyond the room in rows: counted, not listed) and the bit patterns of the largest value
    and magnitude.
    """
    columns = values.shape[0]
    room = rows.size
    # single-precision values compete in single precision, twice as fast; its rounding then counts as doubt
    first = np.empty(BLOCK, values.dtype)
    second = np.empty(BLOCK, values.dtype)
    winner = np.empty(BLOCK, bits.dtype)
    lines = np.empty((2, BLOCK), values.dtype)
    shifts = np.empty(columns, values.dtype)
    shifts[:] = centre[0] - width[0]
    doubt = 0.0 if values.itemsize == 8 else 2.0**-21
    dearest = np.abs(centre).max() + width.max()
    nought = shifts[0] - shifts[0]  # zero of that precision
    reach = np.empty((centre.shape[0], columns + 1))
    reach[:, 0] = 2.0 * none_width + margin
    reach[:, 1:] = 2.0 * width + margin
    won = np.zeros((centre.shape[0], columns + 1), np.int64)
    opened = 0
    largest = 0
    magnitude = 0
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        end = base + count
        for j in range(count):
            first[j] = none_width
            second[j] = -np.inf
            winner[j] = 0
        for k in range(0, columns - 1, 2):
            if direct:
                compete_two(
                    values[k, base:end], values[k + 1, base:end], shifts[k], shifts[k + 1], k + 1,
                    first, second, winner,
                )  # fmt: skip
            else:
                load_line(values, eligible, costs, rate, segment, centre, width, k, base, lines[0, :count])
                load_line(values, eligible, costs, rate, segment, centre, width, k + 1, base, lines[1, :count])
                compete_two(lines[0, :count], lines[1, :count], nought, nought, k + 1, first, second, winner)
        if columns % 2:
            load_line(values, eligible, costs, rate, segment, centre, width, columns - 1, base, lines[0, :count])
            compete(lines[0, :count], nought, columns, first, second, winner)
        for k in range(columns):
            largest, magnitude = value_range(bits, eligible, k, base, end, largest, magnitude)
        for j in range(count):
            place = winner[j]
            group = 0
            if segment is not None:
                group = segment[base + j]
            choice[base - start + j] = place - 1
            won[group, place] += 1
            best = np.float64(first[j])
            if best - second[j] <= reach[group, place] + doubt * (abs(best) + dearest):
                won[group, place] -= 1
                if opened < room:
                    rows[opened] = base + j
                opened += 1
    for group in range(centre.shape[0]):
        for k in range(columns):
            counts[group, k] += won[group, k + 1]
    return opened, largest, magnitude


@nb.njit(nogil=True, cache=True)
def copy_all(
    values: Array, bits: Array, eligible: Array | None, costs: Array | None, rate: float, out: Array
) -> tuple[int, int]:
    """out = value - rate · cost of everybody, -∞ where ineligible; returns the range of `values` as bit patterns."""
    columns = values.shape[0]
    nothing = np.zeros((1, columns))
    largest = 0
    magnitude = 0
    for k in range(columns):
        largest, magnitude = value_range(bits, eligible, k, 0, bits.shape[1], largest, magnitude)
        load_line(values, eligible, costs, rate, None, nothing, nothing, k, 0, out[k])
    return largest, magnitude
