"""Prices that nearly balance supply and demand, with error bars: damped Newton on the dual of a sample.

    D(p) = Σ_k (p_k⁺ high_k - p_k⁻ low_k) + Σ_i max(0, max_k v_ik - p_k),   dD/dp_k = limit_k - customers who want k,
    d²D/dp_k dp_l = -(customers indifferent between k and l, per unit of price); where k = l, the sum of those of k

The kinks of D blur into a density of ties: customers whose best two places are closer than a window, per unit of that
window. How far counts may be off, carried through that density, gives the error bars. A scarce depth, with codes for a
few customers of the sample only, has no density to speak of: its price is that of one extreme customer. It is found by
selection, and its bar has a lower end only (`_lowest`).

With segments every limit of the tree has a price y ≥ 0, and a customer of segment g pays π_gk = y_k + y_gk for depth k.
With the density of ties Q_g of each segment and B_g, which takes prices of limits to π_g,

    D(y) = Σ_limits y · cap + Σ_i max(0, max_k v_ik - π_gk)
    dD/dy = cap - customers below,   d²D/dy² = Σ_g B_gᵀ Q_g B_g

What is what, in the symbols of docs/maths.md: `demand` counts who wants each depth, so that `_gradient` is dD/dp;
`tie_density` is d²D/dp²; `descend` is Newton, p ← p + (density)⁻¹ (wanted - limit), damped; `box` is
the covariance (density)⁻¹ · noise · (density)⁻¹ of where it ends, and the half-widths that follow from it. Values and
prices are in money, counts in customers of the sample, densities in customers per unit of money.

`guess_prices` is the door to both. Nothing here need be exact: the prices and the box around them are a guess that a
pass and shortest paths prove or refute (`solve`).

Kernels are plain loops: array expressions and reductions of NumPy would take Numba several times as long to compile,
and a first small solve waits for that (docs/decisions/134-little-to-compile.md).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import UNLIMITED, Tree
from disco.allocation.rules import PriceBox, PriceGaps, compete, compete_four
from disco.allocation.table import TableSample
from disco.records.arrays import Array
from disco.records.compiled import inner_kernel, njit

# Windows, each four times as wide as the one before, through which a depth that few want is looked at.
_WIDENINGS = 7
# signatures are written out, because a literal argument of one caller would be compiled apart from that of another
_STATE = "float64[:, ::1], float64[::1], float64[::1], float64[::1], int64[::1]"  # sample, prices, the best two, winner

# Customers whose gaps between best and second best choose the first window.
_GAPS = 64


@njit(f"float64({_STATE}, float64[::1])", nogil=True, cache=True)
def demand(sample: Array, prices: Array, first: Array, second: Array, winner: Array, counts: Array) -> float:
    """Customers who want each depth at these prices (filled into counts); returns Σ_i of their best net value."""
    columns, rows = sample.shape
    for i in range(rows):
        first[i] = 0.0
        second[i] = -np.inf
        winner[i] = 0
    whole = columns - columns % 4
    for k in range(0, whole, 4):
        compete_four(
            sample[k], sample[k + 1], sample[k + 2], sample[k + 3], prices[k : k + 4], k + 1, first, second, winner
        )
    for k in range(whole, columns):
        compete(sample[k], prices[k], k + 1, first, second, winner)
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


# Limits, at most, whose prices are found together: a step of Newton inverts a matrix of this size.
_MOST_NODES = 240
# Looks at a sample, at most: Newton that has not arrived by then has lost its way.
NEWTON_PASSES = 40
# Codes in a sample, below which a depth is scarce: its lower end then leaves at most 100 of it open.
_SCARCE = 64.0
# The same in the small samples that only show the way.
_SCARCE_ON_THE_WAY = 8.0
# Every 64th, 16th and 4th customer of a sample is in a smaller one, from which Newton begins.
_NESTED = (64, 16, 4)
# Customers in a smaller sample.
_LEAST_NESTED = 200


@njit(nogil=True, cache=True)
def _price_for(sample: Array, k: int, first: Array, second: Array, winner: Array, customers: int) -> float:
    """The price of depth k that so many customers would pay, all other prices as they are: a partial selection.

    What a customer would pay for k is what k is worth to them beyond their best other place.
    """
    most = np.empty(customers)  # ascending
    for at in range(customers):
        most[at] = -np.inf
    for i in range(sample.shape[1]):
        worth = sample[k, i] - (second[i] if winner[i] == k + 1 else first[i])
        if worth > most[0]:
            at = 0
            while at + 1 < customers and most[at + 1] < worth:
                most[at] = most[at + 1]
                at += 1
            most[at] = worth
    return float(most[0])


@inner_kernel(cache=True)
def _hold(sample: Array, high: Array, prices: Array, held: Array, first: Array, second: Array, winner: Array) -> None:
    """Set the prices of held depths to what their few codes are worth: each is the minimum of D along its price."""
    for k in range(prices.size):
        if held[k]:
            prices[k] = max(_price_for(sample, k, first, second, winner, max(int(high[k]), 1)), 0.0)


@inner_kernel(_nrt=True, cache=True)
def solve_symmetric(matrix: Array, free: Array, right: Array) -> None:
    """right ← matrix⁻¹ right on the free coordinates, 0 elsewhere; columns of right are separate systems.

    By Cholesky, with a ridge of a billionth of the trace: depths that compete with each other alone have a density
    matrix without an inverse, because their common level costs nothing.
    """
    size = matrix.shape[0]
    trace = 0.0
    for k in range(size):
        trace += matrix[k, k]
    ridge = 1e-9 * trace + 1e-300
    factor = np.zeros((size, size))
    for a in range(size):
        if not free[a]:
            for system in range(right.shape[1]):
                right[a, system] = 0.0
            continue
        for b in range(a + 1):
            if not free[b]:
                continue
            total = matrix[a, b] + (ridge if a == b else 0.0)
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            factor[a, b] = np.sqrt(max(total, ridge)) if a == b else total / factor[b, b]
    for system in range(right.shape[1]):
        for a in range(size):
            if free[a]:
                total = right[a, system]
                for c in range(a):
                    total -= factor[a, c] * right[c, system]
                right[a, system] = total / factor[a, a]
        for a in range(size - 1, -1, -1):
            if free[a]:
                total = right[a, system]
                for c in range(a + 1, size):
                    total -= factor[c, a] * right[c, system]
                right[a, system] = total / factor[a, a]


@inner_kernel(cache=True)
def _gradient(prices: Array, counts: Array, low: Array, high: Array, held: Array, slope: Array, free: Array) -> float:
    """dD/dp and which prices may move; returns the largest imbalance.

    D has a kink where a price is 0: above it the cap counts, below it the floor. A price of 0 stays there unless more
    want the depth than its cap allows, or fewer than its floor asks for.
    """
    worst = 0.0
    for k in range(prices.size):
        if held[k]:
            slope[k] = 0.0
            free[k] = False
        elif prices[k] > 0.0 or (prices[k] == 0.0 and counts[k] > high[k]):
            slope[k] = high[k] - counts[k]
            free[k] = True
        elif prices[k] < 0.0 or counts[k] < low[k]:
            slope[k] = low[k] - counts[k]
            free[k] = True
        else:
            slope[k] = 0.0
            free[k] = False
        worst = max(worst, abs(slope[k]))
    return worst


@inner_kernel(cache=True)
def limits_worth(prices: Array, low: Array, high: Array) -> float:
    total = 0.0
    for k in range(prices.size):
        if prices[k] > 0.0:
            total += prices[k] * high[k]
        elif prices[k] < 0.0:
            total += prices[k] * low[k]
    return total


@inner_kernel(cache=True)
def _longest_step(step: Array, windows: Array, density: Array, floorless: bool, k: int) -> float:
    """The largest scale, at most 1, at which a step leaves price k in sight of where its density was seen."""
    scale = 1.0
    size = abs(step[k, 0])
    window = windows[k]
    # depths that compete with each other may move far together, but not far from each other
    far = 64.0 if floorless and density[k, k] > 0.0 else 4.0
    if size > far * window:
        scale = far * window / size
    if not floorless:
        return scale
    none = 0.0  # ties with "no code"
    for other in range(windows.size):
        none += density[k, other]
        apart, in_sight = abs(step[k, 0] - step[other, 0]), 4.0 * max(window, windows[other])
        if other < k and density[k, other] < 0.0 and apart > in_sight:
            scale = min(scale, in_sight / apart)
    if none > 1e-9 * density[k, k] and size > 4.0 * window:
        scale = min(scale, 4.0 * window / size)
    return scale


@njit(nogil=True, cache=True)
def descend(
    sample: Array,
    low: Array,
    high: Array,
    prices: Array,
    passes: int,
    tolerance: float,
    held: Array,
    counts: Array,
    density: Array,
) -> float:
    """Improve prices in place until every depth is within `tolerance` customers of its limit; returns the imbalance.

    D is convex and made of straight pieces, so that its slope jumps from customer to customer and Newton's step is
    right on average only. A step is therefore cut to what was seen of the density (`_longest_step`), taken if it lowers
    D or the largest imbalance, and otherwise cut to three tenths, five times at most. Where nobody is near a second
    choice there is no density, and no way to go: then the imbalance that is returned says so.

    sample: (depths, customers) values, -∞ = ineligible.
    low, high: (depths,) limits in customers of this sample (∞ = none).
    held: (depths,) Booleans: prices found by selection at each step.
    counts, density: (depths,), (depths, depths), filled, at the final prices.
    """
    columns, rows = sample.shape
    first = np.empty(rows)
    second = np.empty(rows)
    winner = np.empty(rows, np.int64)
    slope = np.empty(columns)
    free = np.empty(columns, np.bool_)
    trial = np.empty(columns)
    step = np.empty((columns, 1))
    windows = np.empty(columns)
    # a step moves free prices only; where floors bind, which prices are shown depends on the way, so it stays as it was
    floorless = True
    some_held = False
    for k in range(columns):
        floorless &= low[k] <= 0.0
        some_held |= held[k]
        trial[k] = prices[k]
    shown = np.empty(columns, np.bool_)
    for k in range(columns):
        shown[k] = not (floorless and held[k])  # a held depth has no error bar, and nobody near it to be seen
    value = worst = np.inf
    used = 0
    scale = 1.0
    tries = 0
    while True:
        # the trial is taken where it improves the value or the imbalance; the first one in any case
        new_value = demand(sample, trial, first, second, winner, counts) + limits_worth(trial, low, high)
        new_worst = _gradient(trial, counts, low, high, held, slope, free)
        used += 1
        stop = False
        if used == 1 or new_value < value or new_worst < worst:
            for k in range(columns):
                prices[k] = trial[k]
            value = new_value
            worst = new_worst
            if some_held:
                _hold(sample, high, prices, held, first, second, winner)
                value = demand(sample, prices, first, second, winner, counts) + limits_worth(prices, low, high)
                worst = _gradient(prices, counts, low, high, held, slope, free)
            stop = worst <= tolerance or used >= passes
            tries = 0
        else:
            tries += 1
            scale *= 0.3
            if tries == 5 or used >= passes:
                demand(sample, prices, first, second, winner, counts)
                _gradient(prices, counts, low, high, held, slope, free)
                stop = True
        if tries == 0 or stop:
            window = window_of(first, second, min(max(4.0 * worst, 40.0 * columns), 0.5 * rows))
        if tries == 0 and not stop:
            moving = free if floorless else shown
            tie_density(sample, prices, first, second, winner, window, moving, floorless, density, windows)
            largest = 0.0
            for k in range(columns):
                step[k, 0] = -slope[k]
            solve_symmetric(density, free, step)
            for k in range(columns):
                largest = max(largest, abs(step[k, 0])) if step[k, 0] == step[k, 0] else np.inf
            stop = not (largest < np.inf and abs(window) < np.inf)  # nobody is near a second choice: no way to go
            scale = 1.0 if largest > 0.0 else 0.0
            for k in range(columns):
                scale = min(scale, _longest_step(step, windows, density, floorless, k))
        if stop:
            tie_density(sample, prices, first, second, winner, window, shown, False, density, windows)
            return worst
        for k in range(columns):
            moved = prices[k] + scale * step[k, 0]
            crossed = (prices[k] > 0.0 and moved < 0.0) or (prices[k] < 0.0 and moved > 0.0)
            trial[k] = 0.0 if crossed or (low[k] <= 0.0 and moved < 0.0) else moved


def _surely(count: float, precision: "Precision") -> int:
    """Customers of a sample, m, of whom there are surely so many in its share of the table: m - spread · √m ≥ count,
    and some more."""
    half = 0.5 * precision.spread
    most = (half + math.sqrt(half * half + count)) ** 2 if precision.noise_share > 0.0 else count
    return int(most) + 4 + int(precision.spread)


def _anchor(sample: Array, prices: Array, counts: Array, density: Array, without: int) -> float:
    """Where all but a few customers have a code that has a price, the level of all prices is that of those few: make
    the smallest price 0, and return how far the level may be above that; 0 where it is known.

    without: customers, at most, who get nothing.
    """
    columns, rows = sample.shape
    priced = prices > 0.0
    if not priced.any() or counts[priced].sum() < rows - without:
        return 0.0
    first, second, winner = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    prices[priced] -= prices[priced].min()
    demand(sample, prices, first, second, winner, counts)
    window = window_of(first, second, min(max(4.0 * math.sqrt(rows), 40.0 * columns), 0.5 * rows))
    every = np.ones(columns, np.bool_)
    tie_density(sample, prices, first, second, winner, window, every, False, density, np.empty(columns))
    return float(np.partition(first, without)[without]) if 0 < without < rows else 0.0


def _guess_of_depths(
    sample: Array, low: Array, high: Array, potentials: Array | None, precision: "Precision", *, top: float
) -> "Guess":
    """Newton on a sample without segments, and the half-widths around where it ends.

    Three kinds of prices have three kinds of error bars: those with a density of ties (`box`), those of scarce depths,
    which a single customer sets and whose bars have no upper end (`_lowest`), and their common level where nearly
    everybody has a code (`_anchor`).
    """
    columns, rows = sample.shape
    spread, noise_share = precision.spread, precision.noise_share
    prices = np.zeros(columns) if potentials is None else np.clip(potentials[:columns], -top, top)
    counts, density = np.empty(columns), np.empty((columns, columns))
    if potentials is None:
        for step in _NESTED:  # far away, few customers show the way as well as many
            if rows // step >= _LEAST_NESTED:
                part = 1.0 / step
                small = np.ascontiguousarray(sample[:, : rows - rows % step : step])
                few = (low <= 0.0) & (high * part < _SCARCE_ON_THE_WAY)
                descend(small, low * part, high * part, prices, 20, 1.0 + 0.005 * rows / step, few, counts, density)
    # of a table without sampling noise, only a depth that is scarce beside the others: where all are, prices would be
    # those of one selection each
    scarce = (low <= 0.0) & (high < (_SCARCE if noise_share > 0.0 else min(_SCARCE, 0.25 * high.max())))
    missed = descend(sample, low, high, prices, NEWTON_PASSES, precision.tolerance, scarce, counts, density)
    level, spare = 0.0, rows - float(high.sum())
    if low.max() <= 0.0:
        without = _surely(spare, precision) if 0.0 < spare < _SCARCE else 0
        level = _anchor(sample, prices, counts, density, without if without < rows // 32 else 0)
    hold_one = level > 0.0 or spare <= 1e-9 * rows
    width, error = np.empty(columns), np.empty((columns, columns))
    shift, opened = box(
        density, prices, counts, low, high, float(rows), noise_share, spread, scarce, width, error, hold_one
    )
    if level > 0.0:
        shift = max(shift, level + float(width[~scarce].max(initial=0.0)))
        opened += without
    if hold_one:
        error += (shift / spread) ** 2  # of the level, which all prices have in common: another may be the one at 0
    lowest = np.full(columns, -np.inf)  # the end of a scarce depth's bar
    if scarce.any():
        opened += _lowest(sample, prices, high, scarce, precision, shift, width, lowest)
    gaps = _gaps_of_guess(prices, width, lowest, shift, error, spread) if noise_share > 0.0 else None
    return Guess(prices, _box_of_guess(prices, width, lowest, shift, top), gaps, opened / max(rows, 1), missed)


def _lowest(
    sample: Array, prices: Array, high: Array, scarce: Array, precision: "Precision", shift: float, width: Array,
    lowest: Array,
) -> float:  # fmt: skip
    """The least that scarce depths may cost, and how many customers that leaves open.

    At the lower end m customers of the sample want the depth, and m - spread · √m ≥ codes: then with that certainty all
    customers together want more codes than there are. The other prices may be lower by their own widths.
    """
    columns, rows = sample.shape
    first, second, winner = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    demand(sample, prices, first, second, winner, np.empty(columns))
    off = float((shift + width[~scarce]).max(initial=shift))
    opened = 0.0
    for k in np.flatnonzero(scarce).tolist():
        customers = min(_surely(float(high[k]), precision), rows)
        lowest[k] = max(_price_for(sample, k, first, second, winner, customers) - off, -shift)
        opened += customers
    return opened


@inner_kernel(_nrt=True, cache=True)
def _pin_apart(density: Array, prices: Array, free: Array) -> None:
    """Hold the worthless one of free depths that compete with each other alone: together they have codes for exactly
    those who want any of them, so that their prices are fixed up to a common shift only.

    Such depths are a connected part of the graph of ties: their rows of the density matrix add up to about nothing.
    """
    columns = prices.size
    left = np.empty(columns, np.bool_)
    for k in range(columns):
        left[k] = free[k]
    members = np.empty(columns, np.int64)
    for start in range(columns):
        if not left[start]:
            continue
        left[start] = False
        members[0] = start
        size = 1
        at = 0
        outside = 0.0
        inside = 0.0
        while at < size:
            k = members[at]
            at += 1
            outside += density[k, k]
            inside += density[k, k]
            for other in range(columns):
                if other != k and density[k, other] < 0.0 and free[other]:
                    outside += density[k, other]
                    if left[other]:
                        left[other] = False
                        members[size] = other
                        size += 1
        if outside > 1e-3 * inside:
            continue
        for at in range(size):
            if prices[members[at]] == 0.0:
                free[members[at]] = False
                break


@njit(nogil=True, cache=True, patient=True)
def box(
    density: Array, prices: Array, counts: Array, low: Array, high: Array, rows: float, noise_share: float,
    spread: float, scarce: Array, width: Array, error: Array, hold_one: bool,
) -> tuple[float, float]:  # fmt: skip
    """Half-widths of `spread` standard errors around each price; returns that of the common shift and how many stay
    open.

    A count in a sample is a binomial number: of n customers of whom a share q want k it is off by √(n·q·(1-q)), and two
    counts are off against each other, because whoever wants one depth does not want another. That is the noise, to
    which comes by how much Newton has missed the limits. The price that balances the table differs from that of the
    sample by what makes up for this noise: the inverse density on either side of it.

    The errors of all prices often have a part in common (how far down the table codes reach). Taken out of the widths
    as a shift, it concerns only the choice between a code and none. Whichever way opens fewer customers is returned.

    scarce: (depths,) Booleans; the others are taken as if those were at their prices.
    error: (depths, depths), filled with the covariance of the prices.
    hold_one: nobody is near "no code", so one depth is worth nothing at the margin: hold it at 0.
    """
    columns = prices.size
    noise = np.empty((columns, columns))
    free = np.empty(columns, np.bool_)
    pinned = not hold_one
    for k in range(columns):
        share = counts[k] / rows
        for other in range(columns):
            noise[k, other] = -noise_share * rows * share * counts[other] / rows
        off = 0.0
        if prices[k] > 0.0:
            off = abs(high[k] - counts[k])
        elif prices[k] < 0.0:
            off = abs(low[k] - counts[k])
        noise[k, k] += noise_share * rows * share + off * off + 1.0
        slack = high[k] - counts[k]
        if low[k] > 0.0:
            slack = min(slack, counts[k] - low[k])
        free[k] = prices[k] != 0.0 or slack <= spread * np.sqrt(noise[k, k])
        if not pinned and prices[k] == 0.0:
            free[k] = False
            pinned = True
        if density[k, k] <= 0.0 or scarce[k]:
            free[k] = False
    _pin_apart(density, prices, free)
    solve_symmetric(density, free, noise)
    for k in range(columns):
        for other in range(columns):
            error[k, other] = noise[other, k]
    solve_symmetric(density, free, error)
    # as if prices were independent (no common shift), or with the shift taken out: whichever opens fewer customers
    apart = np.empty(columns)
    total = 0.0
    for k in range(columns):
        apart[k] = 0.0
        for other in range(columns):
            apart[k] += error[k, other]
        total += apart[k]
    common = max(total / columns**2, 0.0)
    shift = spread * np.sqrt(common)
    for k in range(columns):
        width[k] = spread * np.sqrt(max(error[k, k], 0.0))
        apart[k] = spread * np.sqrt(max(error[k, k] - 2.0 * apart[k] / columns + common, 0.0))
    plain = 0.0
    shifted = 0.0
    for k in range(columns):
        if scarce[k]:
            continue
        none = 0.0
        for other in range(columns):
            none += density[k, other]
            if other < k and not scarce[other]:
                plain -= 2.0 * density[k, other] * (width[k] + width[other])
                shifted -= 2.0 * density[k, other] * (apart[k] + apart[other])
        plain += 2.0 * max(none, 0.0) * width[k]
        shifted += 2.0 * max(none, 0.0) * (apart[k] + shift)
    if not shifted < plain:
        return 0.0, plain
    for k in range(columns):
        width[k] = apart[k]
    return shift, shifted


def tied(sample: Array) -> bool:
    """Whether the same few values come again and again, so that no prices make Newton's counts move smoothly.

    Cells of 0 do not compete, and neither do those that are not eligible. Where a fifth of the values are different
    ones, boxes often hold, and take a quarter of the time.
    """
    seen = sample[:, :: max(1, sample.shape[1] // 128)]
    seen = seen[np.isfinite(seen) & (seen != 0.0)]
    return bool(np.unique(seen).size < 0.05 * seen.size)


class Guess(NamedTuple):
    """Prices with error bars, from a sample."""

    potentials: Array  # (nodes - 1,) prices summed up to each node, without the root
    box: PriceBox
    gaps: PriceGaps | None  # how far prices may be from each other; without segments
    open_share: float  # of the customers whom the box leaves open, about
    missed: float  # customers, at most, by whom a limit is missed


@dataclass(frozen=True, slots=True)
class Precision:
    """How exactly a guess is wanted."""

    spread: float  # half-widths of the box, in standard errors
    tolerance: float  # customers of the sample by whom a limit may be missed
    noise_share: float  # of a sample's noise that is left, 1 - sample / population; 0: the sample is everybody


def tolerated_miss(customers: float, *, noisy: bool) -> float:
    """Customers by whom Newton may miss a limit: well below the noise of a count in a sample, which is up to half the
    root of its customers, and less again where there is hardly any noise to hide it."""
    return 2.0 + (0.15 if noisy else 0.05) * math.sqrt(customers)


def guess_prices(
    sample: TableSample,
    tree: Tree,
    low: Array,
    high: Array,
    potentials: Array | None,
    precision: Precision,
    *,
    top: float,
) -> Guess | None:
    """Newton on a sample; None: with segments alone, where floors bind or there are more limits than `_MOST_NODES`.
    Where it has lost its way shows in `Guess.missed` and `Guess.open_share`, and the caller judges.

    low, high: (nodes - 1,) the limits of the sample's share.
    potentials: to begin with; None: from nowhere.
    top: no price is larger in size, so others, from elsewhere, are nonsense.
    """
    if tree.leaf.shape[0] > 1:
        return _guess_of_segments(sample, tree, high, potentials, precision, top=top)
    return _guess_of_depths(sample.net, low, high, potentials, precision, top=top)


def _box_of_guess(prices: Array, width: Array, lowest: Array, shift: float, magnitude: float) -> PriceBox:
    """The box of a guess. That of a scarce depth reaches so far up that nobody is settled at it."""
    scarce = lowest > -np.inf
    half, centre = width.copy(), prices.copy()  # a width may be infinite, as every lower end but those of scarce depths
    half[scarce] = min(1024.0 * magnitude, np.finfo(np.float64).max / 8)
    centre[scarce] = lowest[scarce] + half[scarce]
    return PriceBox(centre[None, :], half[None, :], shift)


def _gaps_of_guess(prices: Array, width: Array, lowest: Array, shift: float, error: Array, spread: float) -> PriceGaps:
    """How far prices may be apart, in `spread` standard errors; of a scarce depth the lower end alone is known."""
    columns = prices.size
    variance = np.zeros((columns + 1, columns + 1))
    variance[1:, 1:] = error
    single = np.diag(variance)
    off = spread * np.sqrt(np.maximum(single[:, None] + single - variance - variance.T, 0.0))
    centre = np.append(0.0, prices)
    both = centre[:, None] - centre + off
    scarce = np.flatnonzero(lowest > -np.inf) + 1
    both[:, scarce] = (centre + np.append(0.0, width + shift))[:, None] - np.append(0.0, lowest)[scarce]
    both[scarce, :] = np.inf
    np.fill_diagonal(both, 0.0)
    return PriceGaps(both)


class _Caps:
    """The caps of a tree and how its prices act: price y of each node but the root, π of each (segment, depth)."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.groups, self.columns = tree.leaf.shape
        self.capped = tree.high[1:] < UNLIMITED
        self.nodes = tree.nodes - 1

    def read(self, prices: Array) -> Array:
        """y from potentials (nodes - 1,), or from prices of depths (columns,)."""
        y = np.zeros(self.nodes)
        y[: self.columns] = prices[: self.columns]
        if prices.size == self.nodes:
            y[self.columns :] = prices[self.columns :] - np.tile(y[: self.columns], self.groups)
        return np.where(self.capped, np.maximum(y, 0.0), 0.0)

    def potentials(self, y: Array) -> Array:
        """(nodes - 1,), prices summed up to each node."""
        return self.tree.summed(np.append(0.0, y))[1:]

    def of_places(self, y: Array) -> Array:
        """π (groups, depths)."""
        return self.potentials(y)[self.columns :].reshape(self.groups, self.columns)

    def moving(self, free: Array) -> Array:
        """(groups, depths) places whose π moves where these prices (nodes - 1,) are free."""
        places = free[self.columns :].reshape(self.groups, self.columns) | free[: self.columns]
        return np.ascontiguousarray(places)

    def curvature(self, density: Array) -> Array:
        """Σ_g B_gᵀ Q_g B_g, (nodes - 1, nodes - 1), from (groups, depths, depths)."""
        columns = self.columns
        whole = np.zeros((self.nodes, self.nodes))
        whole[:columns, :columns] = density.sum(axis=0)
        for group, own in enumerate(density):
            here = slice(columns * (group + 1), columns * (group + 2))
            whole[here, here] = whole[:columns, here] = whole[here, :columns] = own
        return whole

    def error_of_places(self, covariance: Array) -> Array:
        """Standard errors of π (groups, depths), sums of two of y each, from the covariance of y."""
        own, above = np.arange(self.columns, self.nodes), np.tile(np.arange(self.columns), self.groups)
        variance = covariance.diagonal()
        total = variance[above] + 2.0 * covariance[above, own] + variance[own]
        return np.sqrt(np.maximum(total, 0.0)).reshape(self.groups, self.columns)


class _BySegment:
    """Customers by segment, and where they would go."""

    def __init__(self, parts: list[Array]) -> None:
        self.parts = parts  # (depths, customers) values of each segment, -∞ = ineligible
        self.rows = sum(part.shape[1] for part in parts)
        self.state = [
            (np.empty(part.shape[1]), np.empty(part.shape[1]), np.empty(part.shape[1], np.int64)) for part in parts
        ]
        self.counts = np.zeros((len(parts), parts[0].shape[0]))

    def thinned(self, step: int) -> "_BySegment":
        return _BySegment([np.ascontiguousarray(part[:, ::step]) for part in self.parts])

    def demand(self, prices: Array) -> float:
        """Fills the counts at prices π, and returns Σ of the customers' best net values."""
        return sum(
            demand(part, own, *state, counts)
            for part, own, state, counts in zip(self.parts, prices, self.state, self.counts, strict=True)
        )

    def density(self, prices: Array, worst: float, moving: Array) -> tuple[Array, float]:
        """(groups, depths, depths) at the prices of the last demand, and the widest window it was seen through.

        moving: (groups, depths) Booleans, the places whose density must be good.
        """
        columns = prices.shape[1]
        density, widest = np.zeros((len(self.parts), columns, columns)), 0.0
        windows = np.empty(columns)
        for group, (part, (first, second, winner)) in enumerate(zip(self.parts, self.state, strict=True)):
            rows = part.shape[1]
            if rows == 0:
                continue
            window = window_of(first, second, min(max(4.0 * worst, 40.0 * columns), 0.5 * rows))
            tie_density(
                part, prices[group], first, second, winner, window, moving[group], False, density[group], windows
            )
            if math.isfinite(window):
                widest = max(widest, window)
        return density, widest


def _guess_of_segments(
    customers: TableSample, tree: Tree, high: Array, potentials: Array | None, precision: Precision, *, top: float
) -> Guess | None:
    """Newton on the prices of the limits, and the box around where it ends.

    As `_guess_of_depths` does it without segments, with matrices over all limits instead of depths: the covariance of y
    becomes that of the prices π of places, which are sums of two of them. The pseudo-inverse stands for `_pin_apart`.
    """
    group = customers.group
    if group is None or (tree.low > 0).any() or tree.nodes > _MOST_NODES:
        return None
    limits, spread = _Caps(tree), precision.spread
    sample = _BySegment([np.ascontiguousarray(customers.net[:, group == own]) for own in range(limits.groups)])
    # a cap of a depth that its segments keep in any case has no price, and Newton would set it against theirs
    most = np.minimum(high[tree.leaf - 1], np.array([part.shape[1] for part in sample.parts])[:, None]).sum(axis=0)
    limits.capped[: limits.columns] &= high[: limits.columns] < most
    y = np.zeros(limits.nodes) if potentials is None else np.minimum(limits.read(potentials), max(top, 0.0))
    if potentials is None:
        for step in (16, 4):  # far away, few customers show the way as well as many
            if sample.rows // step >= 400:
                few = sample.thinned(step)
                y = _descend_limits(few, limits, high * (few.rows / sample.rows), y, 1.0 + 0.005 * few.rows)[0]
    y, missed, density = _descend_limits(sample, limits, high, y, precision.tolerance)
    below = limits.tree.below(sample.counts)[1:]
    counts = sample.counts.ravel()
    apart = precision.noise_share * (np.diag(counts) - np.outer(counts, counts) / max(sample.rows, 1))
    at_nodes = np.vstack([np.tile(np.eye(limits.columns), limits.groups), np.eye(counts.size)])
    off = np.where(y > 0.0, high - below, 0.0)
    noise = at_nodes @ apart @ at_nodes.T + np.diag(off**2 + 1.0)
    curvature = limits.curvature(density)
    near = high - below <= spread * np.sqrt(noise.diagonal())
    free = limits.capped & ((y > 0.0) | near) & (curvature.diagonal() > 0.0)
    covariance = np.zeros_like(curvature)
    if free.any():
        inverse = np.linalg.pinv(curvature[np.ix_(free, free)], rcond=1e-9, hermitian=True)
        covariance[np.ix_(free, free)] = inverse @ noise[np.ix_(free, free)] @ inverse
    width = spread * limits.error_of_places(covariance)
    none = np.maximum(density.sum(axis=2), 0.0)
    between = -density * (1.0 - np.eye(limits.columns))
    opened = 2.0 * float((none * width).sum() + (between.sum(axis=2) * width).sum())
    box = PriceBox(limits.of_places(y), width, 0.0)
    return Guess(limits.potentials(y), box, None, opened / max(sample.rows, 1), missed)


def _descend_limits(
    sample: _BySegment, limits: _Caps, high: Array, y: Array, tolerance: float
) -> tuple[Array, float, Array]:
    """Damped Newton on y ≥ 0: the prices, by how many customers a limit is missed, and the density of ties there."""
    capped = np.where(limits.capped, high, 0.0)

    def at(y: Array) -> tuple[float, Array, Array, float]:
        value = sample.demand(limits.of_places(y)) + float(y @ capped)
        over = limits.tree.below(sample.counts)[1:] - high
        free = limits.capped & ((y > 0.0) | (over > 0.0))
        return value, over, free, float(np.abs(over[free]).max(initial=0.0))

    value, over, free, worst = at(y)
    used, every = 1, np.ones((limits.groups, limits.columns), np.bool_)
    while True:
        ended = worst <= tolerance or used >= NEWTON_PASSES
        moving = every if ended else limits.moving(free)
        density, window = sample.density(limits.of_places(y), worst, moving)
        if ended or window <= 0.0:
            return y, worst, density
        sizes, ways = np.linalg.eigh(limits.curvature(density)[np.ix_(free, free)])
        if not sizes[-1] > 0.0:
            return y, worst, density
        step = np.zeros(y.size)
        # the prices of a depth and of all its segments may stand for each other: a way without curvature, so bounded
        step[free] = ways @ ((ways.T @ over[free]) / np.maximum(sizes, 1e-5 * sizes[-1]))
        np.clip(step, -4.0 * window, 4.0 * window, out=step)
        scale = 1.0
        for _ in range(5):
            trial = np.maximum(y + scale * step, 0.0)
            found = at(trial)
            used += 1
            if found[0] < value or found[3] < worst:
                break
            scale *= 0.3
        else:
            at(y)
            return y, worst, sample.density(limits.of_places(y), worst, every)[0]
        y, (value, over, free, worst) = trial, found
