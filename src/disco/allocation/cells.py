"""Reading cells of the table: samples of its customers, the same for the same table, and the range of its values."""

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.identity_kernels import mix


@njit(nogil=True, cache=True)
def sample_rows(customers: int, size: int, run: int) -> Array:
    """About `size` row numbers: one run of neighbours (they share a cache line) from each of size / run strata."""
    runs = size // run
    rows = np.empty(runs * run, np.int64)
    for stratum in range(runs):
        begin = stratum * customers // runs
        room = max((stratum + 1) * customers // runs - begin - run, 0)
        offset = np.int64(mix(np.uint64(stratum + 1)) % np.uint64(room + 1))
        for j in range(run):
            rows[stratum * run + j] = begin + offset + j
    return rows


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _read(values: Array, rows: Array, out: Array) -> None:
    """out[k, j] = value of customer rows[j]. Alone, so that many cells far from each other are on their way at once."""
    for k in range(values.shape[0]):
        for j in range(rows.size):
            out[k, j] = values[k, rows[j]]


@njit(nogil=True, cache=True)
def _less_costs(eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] -= rate · cost of customer rows[j], and -∞ where ineligible."""
    for k in range(out.shape[0]):
        if costs is not None:
            for j in range(rows.size):
                out[k, j] -= rate * np.float64(costs[k, rows[j]])
        if eligible is not None:
            for j in range(rows.size):
                if not eligible[k, rows[j]]:
                    out[k, j] = -np.inf


@njit(nogil=True, cache=True)
def gather(values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] = value - rate · cost of customer rows[j], -∞ where ineligible."""
    _read(values, rows, out)
    _less_costs(eligible, costs, rate, rows, out)


@njit(nogil=True, cache=True)
def take(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array
) -> tuple[float, float]:
    """`gather`, with -∞ for what is no finite number either, and the range of what was read.

    Returns the largest magnitude (NaN or ∞ when any value is) and the largest value, at least 0, of eligible cells
    before costs.
    """
    _read(values, rows, out)
    bits = out.view(np.int64)
    largest = 0
    magnitude = 0
    for k in range(values.shape[0]):
        if eligible is not None:
            for j in range(rows.size):
                if not eligible[k, rows[j]] and np.isfinite(out[k, j]):
                    out[k, j] = 0.0
        largest, magnitude = value_range(bits, None, k, 0, rows.size, largest, magnitude)
    _less_costs(eligible, costs, rate, rows, out)
    size = np.int64(magnitude).view(np.float64)
    if not np.isfinite(size):
        for k in range(values.shape[0]):
            for j in range(rows.size):
                out[k, j] = out[k, j] if np.isfinite(out[k, j]) else -np.inf
    return size, np.int64(largest).view(np.float64)


@njit(nogil=True, cache=True)
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
    cells = values[k, start : start + count]  # a slice has no negative places, for which the compiler would look
    if segment is None:
        shift = centre[0, k] - width[0, k]
        for j in range(count):
            line[j] = np.float64(cells[j]) - shift
    else:
        for j in range(count):
            group = segment[start + j]
            line[j] = np.float64(cells[j]) - (centre[group, k] - width[group, k])
    if costs is not None:
        paid = costs[k, start : start + count]
        for j in range(count):
            line[j] -= rate * np.float64(paid[j])
    if eligible is not None:
        allowed = eligible[k, start : start + count]
        for j in range(count):
            line[j] = line[j] if allowed[j] else -np.inf


@njit(nogil=True, cache=True)
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


def bits_of(values: Array) -> Array:
    """The same memory as integers of the same size."""
    return values.view(np.int64 if values.dtype.itemsize == 8 else np.int32)


def as_float(pattern: int, *, wide: bool) -> float:
    """The float whose bits these are."""
    if wide:
        return float(np.int64(pattern).view(np.float64))
    return float(np.int32(pattern).view(np.float32))
