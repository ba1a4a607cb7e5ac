"""What the customers of a sample want at given prices, and how many of them are near a tie.

    d²D/dp_k dp_l = -(customers indifferent between k and l, per unit of price)

The kinks of the dual D (`newton`) blur into a density of ties: customers whose best two places are closer than a
window, per unit of that window.

Kernels here are plain loops: array expressions and reductions of NumPy would take Numba several times as long to
compile, and a first small solve waits for that (docs/decisions/134-little-to-compile.md).
"""

import numpy as np

from disco.allocation.bids import compete, compete_two
from disco.records.arrays import Array
from disco.records.compiled import inner_kernel, njit

_WIDENINGS = 7  # windows, each four times as wide as the one before, through which a depth that few want is looked at
# signatures are written out, because a literal argument of one caller would be compiled apart from that of another
_STATE = "float64[:, ::1], float64[::1], float64[::1], float64[::1], int64[::1]"  # sample, prices, the best two, winner

_GAPS = 64  # customers whose gaps between best and second best choose the first window


@njit(f"float64({_STATE}, float64[::1])", nogil=True, cache=True)
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


@njit("float64(float64[::1], float64[::1], float64)", nogil=True, cache=True)
def window_of(first: Array, second: Array, customers: float) -> float:
    """A width that about `customers` of the gaps between best and second best do not exceed."""
    rows = first.size
    taken = min(rows, _GAPS)
    gaps = np.empty(taken)  # ascending, by insertion
    for j in range(taken):
        i = j * rows // taken
        gap = first[i] - second[i]
        at = j
        while at > 0 and gaps[at - 1] > gap:
            gaps[at] = gaps[at - 1]
            at -= 1
        gaps[at] = gap
    at = min(taken - 1, max(int(customers / rows * taken), min(3, taken - 1)))
    while at + 1 < taken and gaps[at] <= 0.0:
        at += 1
    return float(gaps[at])


@inner_kernel("int64(float64[:, ::1], float64[::1], int64, int64, float64)", cache=True)
def _runner_up(sample: Array, prices: Array, i: int, place: int, second: float) -> int:
    """The place of the second best bid: "no code", unless some depth bids exactly that."""
    for k in range(prices.size):
        if sample[k, i] - prices[k] == second and k + 1 != place:
            return k + 1
    return 0


@inner_kernel(f"void({_STATE}, float64, boolean, float64[:, ::1])", cache=True)
def _pairs_within(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, rivals: bool, seen: Array
) -> None:
    """seen[a + 1, b + 1] += customers whose best is a, second best b (-1: no code), and closer than the window.

    rivals: count every b that is closer than the window, not the second best alone.
    """
    columns, rows = sample.shape
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


@inner_kernel("int64(float64, float64)", cache=True)
def _level(gap: float, window: float) -> int:
    """The first l with gap < window · 4ˡ, at most _WIDENINGS: from the exponent of two, without a branch."""
    exponent = int(np.float64(gap / window).view(np.int64) >> 52) - 1023
    return min(max((exponent >> 1) + 1, 0), _WIDENINGS)


@inner_kernel(f"void({_STATE}, float64, boolean, boolean[::1], float64[:, :, ::1])", cache=True)
def _pairs_of(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, rivals: bool,
    thin: Array, seen: Array,
) -> None:  # fmt: skip
    """seen[l] += as `_pairs_within` window · 4ˡ, of the pairs with a thin depth in them; one pass for all l.

    thin: (1 + depths,) Booleans, False for no code.
    seen: a level more than there are windows, whose content says nothing.
    """
    columns, rows = sample.shape
    for depth in range(columns):
        here = depth + 1
        if not thin[here]:
            continue
        line, price = sample[depth], prices[depth]
        for i in range(rows):
            place = winner[i]
            if rivals:
                seen[_level(first[i] - (line[i] - price), window), place, here] += 1.0
                continue
            near = line[i] - price == second[i] and place != here and not thin[place]
            if near and _runner_up(sample, prices, i, place, second[i]) == here:
                seen[_level(first[i] - second[i], window), place, here] += 1.0
        for level in range(_WIDENINGS + 1):
            seen[level, here, here] = 0.0  # nobody competes with themselves
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
        for a in range(columns + 1):
            for b in range(columns + 1):
                seen[wider, a, b] += seen[wider - 1, a, b]


@inner_kernel("float64(float64[:, ::1], int64)", cache=True)
def _near(seen: Array, k: int) -> float:
    """How many customers are near a tie with place k."""
    total = 0.0
    for other in range(seen.shape[0]):
        total += seen[k, other] + seen[other, k]
    return total


@njit(f"void({_STATE}, float64, boolean[::1], boolean, float64[:, ::1], float64[::1])", nogil=True, cache=True)
def tie_density(
    sample: Array, prices: Array, first: Array, second: Array, winner: Array, window: float, free: Array,
    rivals: bool, density: Array, windows: Array,
) -> None:  # fmt: skip
    """density[k, l] = -customers indifferent between k and l per unit of price; the diagonal includes "no code".

    A depth that few customers want is looked at through a window four times wider, and again, until enough are seen.
    free: (depths,) Booleans; the others are looked at once.
    rivals: see all depths in the window, not the best two alone. Where two depths are worth nearly the same to
        everybody, they hide from each other all others that they compete with together.
    windows: (depths,), filled with the window through which each depth was seen.
    """
    columns, rows = sample.shape
    places = columns + 1
    enough = min(24.0, rows / 32.0)
    for k in range(columns):
        windows[k] = window
        for other in range(columns):
            density[k, other] = 0.0
    if not window > 0.0 or window == np.inf:
        return
    closest = np.zeros((places, places))
    _pairs_within(sample, prices, first, second, winner, window, rivals, closest)
    level_of = np.zeros(places, np.int64)
    thin = np.zeros(places, np.bool_)
    some_thin = False
    for k in range(1, places):
        thin[k] = free[k - 1] and _near(closest, k) < enough
        some_thin |= thin[k]
    seen = np.zeros((_WIDENINGS + 1, places, places))
    if some_thin:
        _pairs_of(sample, prices, first, second, winner, window, rivals, thin, seen)
        for k in range(1, places):
            while thin[k] and level_of[k] + 1 < _WIDENINGS:
                level_of[k] += 1
                windows[k - 1] *= 4.0
                thin[k] = _near(seen[level_of[k]], k) < enough
    for a in range(places):
        for b in range(a):
            level = max(level_of[a], level_of[b])
            pairs = closest if level == 0 else seen[level]
            weight = (pairs[a, b] + pairs[b, a]) / (2.0 * window * 4.0**level)
            density[a - 1, a - 1] += weight
            if b > 0:
                density[b - 1, b - 1] += weight
                density[a - 1, b - 1] -= weight
                density[b - 1, a - 1] -= weight
