"""Reading cells of the table: samples of its customers, the same for the same table, and the range of its values."""

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import inner_kernel, njit
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


@inner_kernel(cache=True)
def value_range(line: Array, allowed: Array, found: Array) -> None:
    """Raise found (2,) to the largest value and the largest magnitude of a line of cells, as bit patterns.

    Finite floats of one sign sort like their bits, and NaN and infinities lie above all of them; integer maxima run at
    memory speed, float ones must mind NaN.

    line: (customers,) `bits_of` the cells.
    allowed: (customers,) Booleans, or empty. Ineligible cells count only when they are not finite: what stands there
        must not set the grid.
    """
    magnitude_mask = 0x7FFFFFFFFFFFFFFF if line.itemsize == 8 else 0x7FFFFFFF
    infinity = 0x7FF0000000000000 if line.itemsize == 8 else 0x7F800000
    largest, magnitude = found[0], found[1]
    if allowed.size == 0:  # a loop of its own: without a condition in it the compiler reads several words at once
        for j in range(line.size):
            word = line[j]
            size = word & magnitude_mask
            largest = word if word > largest else largest
            magnitude = size if size > magnitude else magnitude
    else:
        for j in range(line.size):
            word = line[j]
            size = word & magnitude_mask
            if not allowed[j] and size < infinity:
                continue
            largest = word if word > largest else largest
            magnitude = size if size > magnitude else magnitude
    found[0] = largest
    found[1] = magnitude


@inner_kernel(cache=True)
def _read(values: Array, rows: Array, out: Array) -> None:
    """out[k, j] = value of customer rows[j]. Alone, so that many cells far from each other are on their way at once."""
    for k in range(values.shape[0]):
        for j in range(rows.size):
            out[k, j] = values[k, rows[j]]


@inner_kernel(cache=True)
def _less_costs(eligible: Array, costs: Array, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] -= rate · cost of customer rows[j], and -∞ where ineligible."""
    for k in range(out.shape[0]):
        if costs.size > 0:
            for j in range(rows.size):
                out[k, j] -= rate * np.float64(costs[k, rows[j]])
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]]:
                    out[k, j] = -np.inf


@njit(nogil=True, cache=True)
def _take(values: Array, eligible: Array, costs: Array, rate: float, rows: Array, out: Array, found: Array) -> None:
    _read(values, rows, out)
    bits = out.view(np.int64)
    for k in range(values.shape[0]):
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]] and np.isfinite(out[k, j]):
                    out[k, j] = 0.0
        value_range(bits[k], eligible[0, 0:0], found)  # without flags: what is not eligible was set to 0
    _less_costs(eligible, costs, rate, rows, out)
    if found[1] >= 0x7FF0000000000000:  # some cell is no finite number
        for k in range(values.shape[0]):
            for j in range(rows.size):
                out[k, j] = out[k, j] if np.isfinite(out[k, j]) else -np.inf


def take(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array
) -> tuple[float, float]:
    """out[k, j] = value - rate · cost of customer rows[j]; -∞ where ineligible, or no finite number.

    Returns the largest magnitude (NaN or ∞ when any value is) and the largest value, at least 0, of eligible cells
    before costs.
    """
    found = np.zeros(2, np.int64)
    values, allowed, paid = map(np.ascontiguousarray, (values, or_none(eligible), or_no_costs(costs, values)))
    _take(values, allowed, paid, rate, rows, out, found)
    largest, magnitude = found.view(np.float64).tolist()
    return magnitude, largest


@inner_kernel(cache=True)
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
    """line[j] = value - rate · cost - (centre - width) of customer start + j; -∞ where ineligible.

    eligible, costs, segment: None or empty where there are none.
    """
    count = line.size
    cells = values[k, start : start + count]  # a slice has no negative places, for which the compiler would look
    if segment is None or segment.size == 0:
        shift = centre[0, k] - width[0, k]
        for j in range(count):
            line[j] = np.float64(cells[j]) - shift
    else:
        for j in range(count):
            group = segment[start + j]
            line[j] = np.float64(cells[j]) - (centre[group, k] - width[group, k])
    if costs is not None and costs.size > 0:
        paid = costs[k, start : start + count]
        for j in range(count):
            line[j] -= rate * np.float64(paid[j])
    if eligible is not None and eligible.size > 0:
        allowed = eligible[k, start : start + count]
        for j in range(count):
            line[j] = line[j] if allowed[j] else -np.inf


# Kernels take arrays only: one that may be None would be compiled once with it and once without. Where there are no
# flags, costs or segments, it is given one of these.
NO_FLAGS = np.empty((1, 0), np.bool_)  # of whose row every slice is empty
NO_SEGMENTS = np.empty(0, np.int64)


def or_none(eligible: Array | None) -> Array:
    """(depths, customers) Booleans, or an array of size 0: everybody may have everything."""
    return NO_FLAGS if eligible is None else eligible


def or_no_costs(costs: Array | None, values: Array) -> Array:
    """(depths, customers) costs of the type of the values, or an array of size 0: nothing costs anything."""
    return np.empty((1, 0), values.dtype) if costs is None else costs


def or_no_segments(segment: Array | None) -> Array:
    """(customers,) segments, or an empty array: everybody is in the same."""
    return NO_SEGMENTS if segment is None else segment


def bits_of(values: Array) -> Array:
    """The same memory as integers of the same size."""
    return values.view(np.int64 if values.dtype.itemsize == 8 else np.int32)


def as_float(pattern: int, *, wide: bool) -> float:
    """The float whose bits these are."""
    if wide:
        return float(np.int64(pattern).view(np.float64))
    return float(np.int32(pattern).view(np.float32))
