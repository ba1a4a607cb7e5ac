"""Error bars of the prices: how far counts may be off, carried through the density of ties."""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.newton import demand, descend, solve_symmetric, tie_density, window_of


@nb.njit(nogil=True, cache=True)
def _anchor(sample: Array, prices: Array, high: Array, counts: Array, density: Array) -> None:
    """Where every customer finds a place, prices are fixed up to a common shift only: make the smallest 0."""
    columns, rows = sample.shape
    least = prices.min()
    if least <= 0.0 or high.sum() < rows * (1.0 - 1e-9):
        return
    first = np.empty(rows)
    second = np.empty(rows)
    winner = np.empty(rows, np.int64)
    prices -= least
    demand(sample, prices, first, second, winner, counts)
    window = window_of(first, second, min(max(4.0 * np.sqrt(rows), 40.0 * columns), 0.5 * rows))
    tie_density(sample, prices, first, second, winner, window, density)


@nb.njit(nogil=True, cache=True)
def guess(
    sample: Array, low: Array, high: Array, prices: Array, cold: bool, passes: int, tolerance: float,
    thinning: float, spread: float, width: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """Improve prices on a sample and fill the half-widths around them.

    thinning: 1 - sample / population: how much of the sampling noise of counts applies; 0 = the sample is everybody.
    Returns the width of the common shift, the imbalance left, and how many customers the box leaves open, about.
    """
    columns, rows = sample.shape
    counts = np.empty(columns)
    density = np.empty((columns, columns))
    if cold:
        step = 64
        while step > 1:  # nested subsamples: far away, few customers show the way as well as many
            if rows // step >= 200:
                part = 1.0 / step
                small = np.ascontiguousarray(sample[:, : rows - rows % step : step])
                descend(small, low * part, high * part, prices, 20, 1.0 + 0.005 * rows / step, counts, density)
            step //= 4
    left = descend(sample, low, high, prices, passes, tolerance, counts, density)
    if low.max() <= 0.0:
        _anchor(sample, prices, high, counts, density)
    shift, opened = box(density, prices, counts, low, high, float(rows), thinning, spread, width)
    return shift, left, opened


@nb.njit(nogil=True, cache=True)
def box(
    density: Array, prices: Array, counts: Array, low: Array, high: Array, rows: float, thinning: float,
    spread: float, width: Array,
) -> tuple[float, float]:  # fmt: skip
    """Half-widths of `spread` standard errors around each price; returns that of the common shift, and the open."""
    columns = prices.size
    noise = np.zeros((columns, columns))
    free = np.empty(columns, np.bool_)
    pinned = high.sum() < rows * (1.0 - 1e-9)  # otherwise one depth is worth nothing at the margin: hold it at 0
    for k in range(columns):
        share = counts[k] / rows
        noise[k, k] += thinning * rows * share
        for other in range(columns):
            noise[k, other] -= thinning * rows * share * counts[other] / rows
        off = 0.0
        if prices[k] > 0.0:
            off = abs(high[k] - counts[k])
        elif prices[k] < 0.0:
            off = abs(low[k] - counts[k])
        noise[k, k] += off * off + 1.0
        slack = min(high[k] - counts[k], counts[k] - low[k] if low[k] > 0.0 else np.inf)
        free[k] = prices[k] != 0.0 or slack <= spread * np.sqrt(noise[k, k])
        if not pinned and prices[k] == 0.0:
            free[k] = False
            pinned = True
        if density[k, k] <= 0.0:
            free[k] = False
    solve_symmetric(density, free, noise)
    error = noise.T.copy()
    solve_symmetric(density, free, error)
    # as if prices were independent (no common shift), or with the shift taken out: whichever opens fewer customers
    apart = np.empty(columns)
    common = max(error.sum() / columns**2, 0.0)
    shift = spread * np.sqrt(common)
    for k in range(columns):
        width[k] = spread * np.sqrt(max(error[k, k], 0.0))
        apart[k] = spread * np.sqrt(max(error[k, k] - 2.0 * error[k].sum() / columns + common, 0.0))
    plain = 0.0
    shifted = 0.0
    for k in range(columns):
        none = max(density[k].sum(), 0.0)
        plain += 2.0 * none * width[k]
        shifted += 2.0 * none * (apart[k] + shift)
        for other in range(k):
            plain -= 2.0 * density[k, other] * (width[k] + width[other])
            shifted -= 2.0 * density[k, other] * (apart[k] + apart[other])
    if shifted < plain:
        width[:] = apart
        return shift, shifted
    return 0.0, plain
