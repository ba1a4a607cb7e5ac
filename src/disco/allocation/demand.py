"""What the customers of a sample want at given prices, and how many of them are near a tie.

    d²D/dp_k dp_l = -(customers indifferent between k and l, per unit of price)

The kinks of the dual D (`newton`) blur into a density of ties: customers whose best two places are closer than a
window, per unit of that window.
"""

import numpy as np

from disco.allocation.bids import compete, compete_two
from disco.records.arrays import Array
from disco.records.compiled import njit

_WIDENINGS = 7


@njit(nogil=True, cache=True)
def demand(sample: Array, prices: Array, first: Array, second: Array, winner: Array, counts: Array) -> float:
    """Customers who want each depth at these prices (filled into counts); returns Σ_i of their best net value."""
    columns, rows = sample.shape
    for i in range(rows):
        first[i] = 0.0
        second[i] = -np.inf
        winner[i] = 0
    for k in range(0, columns - 1, 2):
        compete_two(sample[k], sample[k + 1], prices[k], prices[k + 1], k + 1, first, second, winner)
    if columns % 2:
        compete(sample[columns - 1], prices[columns - 1], columns, first, second, winner)
    wanted = np.zeros(columns + 1, np.int64)
    total = 0.0
    for i in range(rows):
        wanted[winner[i]] += 1
        total += first[i]
    for k in range(columns):
        counts[k] = wanted[k + 1]
    return total


@njit(nogil=True, cache=True)
def window_of(first: Array, second: Array, customers: float) -> float:
    """A width that about `customers` of the gaps between best and second best do not exceed."""
    rows = first.size
    taken = min(rows, 64)
    gaps = np.empty(taken)
    for j in range(taken):
        i = j * rows // taken
        gaps[j] = first[i] - second[i]
    gaps.sort()
    at = min(taken - 1, max(int(customers / rows * taken), min(3, taken - 1)))
    while at + 1 < taken and gaps[at] <= 0.0:
        at += 1
    return float(gaps[at])


@njit(inline="always", cache=True)
def _runner_up(sample: Array, prices: Array, i: int, place: int, second: float) -> int:
    """The place of the second best bid: "no code", unless some depth bids exactly that."""
    for k in range(prices.size):
        if sample[k, i] - prices[k] == second and k + 1 != place:
            return k + 1
    return 0


@njit(nogil=True, cache=True)
def _pairs_within(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, rivals: bool, seen: Array
) -> None:
    """seen[a + 1, b + 1] = customers whose best is a, second best b (-1: no code), and closer than the window.

    rivals: count every b that is closer than the window, not the second best alone.
    """
    columns, rows = sample.shape
    seen[:] = 0.0
    for i in range(rows):
        if first[i] - second[i] < window:
            place = winner[i]
            if not rivals:
                seen[place, _runner_up(sample, prices, i, place, second[i])] += 1.0
                continue
            least = first[i] - window
            if place != 0 and least < 0.0:
                seen[place, 0] += 1.0
            for k in range(columns):
                if k + 1 != place and sample[k, i] - prices[k] > least:
                    seen[place, k + 1] += 1.0


@njit(inline="always", cache=True)
def _level(gap: float, window: float) -> int:
    """The first l with gap < window · 4ˡ, at most _WIDENINGS: from the exponent of two, without a branch."""
    exponent = int(np.float64(gap / window).view(np.int64) >> 52) - 1023
    return min(max((exponent >> 1) + 1, 0), _WIDENINGS)


@njit(nogil=True, cache=True)
def _pairs_of(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, rivals: bool,
    thin: Array, seen: Array,
) -> None:  # fmt: skip
    """seen[l]: as `_pairs_within` window · 4ˡ, of the pairs with a thin depth in them; one pass for all l.

    thin: (1 + depths,) Booleans, False for no code.
    seen: a level more than there are windows, whose content says nothing.
    """
    columns, rows = sample.shape
    seen[:] = 0.0
    for depth in range(columns):
        here = depth + 1
        if not thin[here]:
            continue
        line, price = sample[depth], prices[depth]
        if rivals:
            for i in range(rows):
                seen[_level(first[i] - (line[i] - price), window), winner[i], here] += 1.0
            seen[:, here, here] = 0.0
            continue
        for i in range(rows):
            place = winner[i]
            near = line[i] - price == second[i] and place != here and not thin[place]
            if near and _runner_up(sample, prices, i, place, second[i]) == here:
                seen[_level(first[i] - second[i], window), place, here] += 1.0
    for i in range(rows):
        place = winner[i]
        if thin[place]:  # pairs with another thin depth were counted in its line
            if rivals:
                seen[_level(first[i], window), place, 0] += 1.0
                for k in range(columns):
                    if not thin[k + 1]:
                        seen[_level(first[i] - (sample[k, i] - prices[k]), window), place, k + 1] += 1.0
            else:
                runner_up = _runner_up(sample, prices, i, place, second[i])
                seen[_level(first[i] - second[i], window), place, runner_up] += 1.0
    for wider in range(1, _WIDENINGS):
        seen[wider] += seen[wider - 1]


@njit(nogil=True, cache=True)
def tie_density(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, free: Array,
    rivals: bool, density: Array,
) -> Array:  # fmt: skip
    """density[k, l] = -customers indifferent between k and l per unit of price; the diagonal includes "no code".

    A depth that few customers want is looked at through a window four times wider, and again, until enough are seen.
    free: (depths,) Booleans; the others are looked at once.
    rivals: see all depths in the window, not the best two alone. Where two depths are worth nearly the same to
        everybody, they hide from each other all others that they compete with together.
    Returns the window (depths,) through which each depth was seen.
    """
    columns, rows = sample.shape
    enough = min(24.0, rows / 32.0)
    density[:] = 0.0
    windows = np.full(columns, window)
    if not window > 0.0 or not np.isfinite(window):
        return windows
    widths = window * 4.0 ** np.arange(_WIDENINGS)
    seen = np.empty((_WIDENINGS + 1, columns + 1, columns + 1))
    _pairs_within(sample, prices, first, second, winner, window, rivals, seen[0])
    level_of = np.zeros(columns + 1, np.int64)
    thin = np.zeros(columns + 1, np.bool_)
    for k in range(1, columns + 1):
        thin[k] = free[k - 1] and seen[0, k].sum() + seen[0, :, k].sum() < enough
    if thin.any():
        closest = seen[0].copy()
        _pairs_of(sample, prices, first, second, winner, window, rivals, thin, seen)
        for k in range(1, columns + 1):
            while thin[k] and level_of[k] + 1 < _WIDENINGS:
                level_of[k] += 1
                thin[k] = seen[level_of[k], k].sum() + seen[level_of[k], :, k].sum() < enough
        seen[0] = closest
    for a in range(columns + 1):
        for b in range(a):
            level = max(level_of[a], level_of[b])
            weight = (seen[level, a, b] + seen[level, b, a]) / (2.0 * widths[level])
            density[a - 1, a - 1] += weight
            if b > 0:
                density[b - 1, b - 1] += weight
                density[a - 1, b - 1] -= weight
                density[b - 1, a - 1] -= weight
    for k in range(columns):
        windows[k] = widths[level_of[k + 1]]
    return windows
