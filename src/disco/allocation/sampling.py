"""A stratified random sample of customers, the same for the same table."""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array
from disco.records.identity import mix


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def take(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array
) -> tuple[float, float]:
    """out[k, j] = value - rate · cost of customer rows[j], -∞ where ineligible.

    Returns the largest magnitude (NaN or ∞ when any value is) and the largest value, of eligible cells before costs.
    """
    magnitude = 0.0
    largest = -np.inf
    for k in range(values.shape[0]):
        for j in range(rows.size):
            i = rows[j]
            x = np.float64(values[k, i])
            if eligible is not None and not eligible[k, i] and np.isfinite(x):
                out[k, j] = -np.inf
                continue
            size = abs(x)
            if not size <= magnitude:
                magnitude = size if not np.isnan(magnitude) else magnitude
            largest = max(largest, x)
            if costs is not None:
                x -= rate * np.float64(costs[k, i])
            out[k, j] = x if np.isfinite(x) else -np.inf
    return magnitude, largest


@nb.njit(nogil=True, cache=True)
def gather(values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] = value - rate · cost of customer rows[j], -∞ where ineligible: `take` without its statistics."""
    for k in range(values.shape[0]):
        for j in range(rows.size):
            out[k, j] = values[k, rows[j]]
        if costs is not None:
            for j in range(rows.size):
                out[k, j] -= rate * np.float64(costs[k, rows[j]])
        if eligible is not None:
            for j in range(rows.size):
                if not eligible[k, rows[j]]:
                    out[k, j] = -np.inf
