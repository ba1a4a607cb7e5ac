"""Between which two budget prices the budget is met, as a sample shows it.

At a budget price λ Newton finds prices of the limits on the sample (`newton`, `segments`), and so what it spends. What
it spends is uncertain, as counts are, and a range reaches as many standard errors beyond the budget on either side.
Once everybody was counted at two points, the limits and the spending of the sample are corrected by what it has too
many or too few of there; what is left of its noise is that of customers who want something else than they did there.
Nothing here need be exact: a range is a guess that `contended` proves or refutes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.cells import take
from disco.allocation.lagrangian import Lagrangian, RateRange
from disco.allocation.limits import tree_of
from disco.allocation.newton import guess
from disco.allocation.screen import PriceBox
from disco.allocation.segments import box_of_segments
from disco.allocation.solver import box_of_guess
from disco.records.arrays import Array
from disco.records.compiled import njit

# None of these changes how good a result is, only the time it takes
_SAMPLED = 32_000  # customers in a sample, about, and at most 0.7 of all
_FEW = 3_000  # of them, those among whom a first budget price is looked for
_STEPS = 24  # budget prices tried on a sample, at most
_KINK = 1e-2  # relative width of a range in which spending jumps, from where on it is not narrowed
_NOISE_LEFT = 0.06  # of a sample's variance, once everybody was counted nearby


@njit(nogil=True, cache=True)
def columns_of(matrix: Array, rows: Array) -> Array:
    """(depths, rows): what `matrix[:, rows]` is, faster."""
    out = np.empty((matrix.shape[0], rows.size), matrix.dtype)
    for k in range(matrix.shape[0]):
        for j in range(rows.size):
            out[k, j] = matrix[k, rows[j]]
    return out


@njit(nogil=True, cache=True)
def _spending(net: Array, costs: Array, segment: Array | None, prices: Array, sums: Array) -> float:
    """sums[:, g, k] = customers of a segment who want depth k at these prices, Σ of their costs, Σ of the squares.

    Returns Σ of what they are worth to the budget's owner: net values.
    """
    total = 0.0
    for i in range(net.shape[1]):
        group = 0
        if segment is not None:
            group = segment[i]
        best = 0.0
        place = -1
        for k in range(net.shape[0]):
            x = net[k, i] - prices[group, k]
            if x > best:
                best = x
                place = k
        if place >= 0:
            cost = np.float64(costs[place, i])
            sums[0, group, place] += 1.0
            sums[1, group, place] += cost
            sums[2, group, place] += cost * cost
            total += net[place, i]
    return total


@dataclass(frozen=True, slots=True)
class Point:
    """What a sample says about one budget price."""

    rate: float
    over: float  # by which share of the budget it is exceeded
    noise: float  # standard error of `over`
    potentials: Array  # (nodes - 1,) prices
    prices: Array  # (groups, depths) the same by place
    box: PriceBox  # around them; that of a scarce depth reaches from its lowest price so far up that nobody settles
    below: Array  # (nodes - 1,) customers of the sample who want a place there
    cost: float  # Σ of their costs
    worth: float  # Σ of their values less what they cost at this rate

    def jumps_to(self, poor: "Point") -> bool:
        """Whether spending falls by far more than its doubt within a narrow range, from here to the other."""
        near = poor.rate - self.rate < 0.1 * poor.rate
        return near and self.over > 10.0 * self.noise and poor.over < -10.0 * poor.noise


class _Correction(NamedTuple):
    """By how much a sample differs from its share of everybody at one budget price and its prices."""

    rate: float
    below: Array  # (nodes - 1,) customers
    cost: float


class RateSample:
    """Customers with the smallest keys, in the order of keys (so that the order of rows does not matter)."""

    def __init__(self, lagrangian: Lagrangian, *, spread: float) -> None:
        problem, customers = lagrangian.problem, lagrangian.problem.customers
        self.customers, self.columns, self.spread = customers, problem.columns, spread
        keys = problem.keys_of(np.arange(customers)) if problem.keys is None else problem.keys
        rows = np.flatnonzero(keys < np.uint64(min(_SAMPLED / customers, 0.7) * 2.0**64))
        rows = rows[np.argsort(keys[rows])]
        self.size = int(rows.size)
        self.values, self.costs = columns_of(problem.values, rows), columns_of(lagrangian.costs, rows)
        self.eligible = None if problem.eligible is None else columns_of(problem.eligible, rows)
        self.segment = None if problem.limits.segment is None else problem.limits.segment[rows]
        self.tree = tree_of(problem.limits)
        self.scales = (lagrangian.value_scale, lagrangian.cost_scale)
        settled = 0 if lagrangian.outside is None else lagrangian.outside.spent
        self.budget = max((lagrangian.budget - settled) / lagrangian.cost_scale, 0.0)
        self.magnitude = 0.0  # of the values seen so far
        self._corrections: list[_Correction] = []

    def _below(self, counts: Array) -> Array:
        """(nodes - 1,) from (groups, depths)."""
        whole = [] if counts.shape[0] == 1 else [counts.sum(axis=0)]
        below: Array = np.concatenate([*whole, counts.ravel()]).astype(np.float64)
        return below

    def correct(self, ends: tuple[Point, Point], counts: Array, spent: tuple[int, int]) -> None:
        """By what everybody wants at two points: counts (2, groups, depths), costs in grid units."""
        share = self.size / self.customers
        self._corrections = [
            _Correction(
                end.rate,
                self._below(counts[place]) * share - end.below,
                spent[place] / self.scales[1] * share - end.cost,
            )
            for place, end in enumerate(ends)
        ]

    def at(self, rate: float, potentials: Array | None, *, few: bool = False) -> Point | None:
        """At a budget price, beginning with the prices of another; None: Newton finds no prices.

        few: from the first customers alone.
        """
        size, columns = min(_FEW, self.size) if few else self.size, self.columns
        share = size / self.customers
        net = np.empty((columns, size))
        eligible = None if self.eligible is None else self.eligible[:, :size]
        segment = None if self.segment is None else self.segment[:size]
        costs = self.costs[:, :size]
        magnitude, _ = take(self.values[:, :size], eligible, costs, rate, np.arange(size), net)
        self.magnitude = max(self.magnitude, magnitude)
        low, high = np.maximum(self.tree.low[1:], 0) * share, self.tree.high[1:] * share
        placed = min(size, float(high[:columns].sum()))
        thinning, tolerance, missing = 1.0 - share, 2.0 + 0.15 * math.sqrt(placed), 0.0
        if self._corrections:
            nearest = min(self._corrections, key=lambda one: abs(one.rate - rate))
            crowded = high[:columns].sum() >= size * (1.0 - 1e-9)  # nobody need go without a code: that must stay so
            low = np.where(low > 0.0, np.maximum(low - nearest.below, 0.0), 0.0)
            high = np.maximum(high - nearest.below, 0.25)
            if crowded:
                high[:columns] += max(size - float(high[:columns].sum()), 0.0) / columns
            thinning, tolerance, missing = _NOISE_LEFT * thinning, 2.0 + 0.05 * math.sqrt(placed), nearest.cost
        if self.tree.leaf.shape[0] > 1:
            boxed = box_of_segments(
                net, segment, self.tree, high, potentials, tolerance=tolerance, thinning=thinning, spread=self.spread
            )
            if boxed is None:
                return None
            potentials, box = boxed
        else:
            centre = np.zeros(columns) if potentials is None else np.clip(potentials, -magnitude, magnitude)
            width, lowest = np.empty(columns), np.empty(columns)
            shift, left, opened = guess(
                net, low, high, centre, potentials is None, 40, tolerance, thinning, self.spread, width, lowest
            )
            if not math.isfinite(opened) or left > 4.0 * tolerance + 10.0:
                return None
            potentials, box = centre, box_of_guess(centre, width, lowest, shift, magnitude)
        prices = potentials[self.tree.leaf - 1]
        sums = np.zeros((3, *prices.shape))
        worth = _spending(net, costs, segment, prices, sums)
        count, cost, square = sums.sum(axis=1)
        spent = float(cost.sum())
        # at depths with a price the number of customers is fixed, so that only their costs differ between samples
        priced = (potentials[:columns] > 0.0) & (count > 0.0)
        ratio = np.where(priced, high[:columns] / np.maximum(count, 1.0), 1.0)
        count, cost, square = count * ratio, cost * ratio, square * ratio
        variance = float((square - cost**2 / np.maximum(count, 1.0))[priced].sum())
        variance += max(float(square[~priced].sum() - cost[~priced].sum() ** 2 / size), 0.0)
        budget = self.budget * share
        noise = math.sqrt(max(variance, 0.0) * thinning) / budget
        over = (float(cost.sum()) + missing) / budget - 1.0
        return Point(rate, over, noise, potentials, prices, box, self._below(sums[0]), spent, worth)

    def beside(self, rate: float, seen: list[Point], *, few: bool = False) -> Point | None:
        """`at`, beginning with prices drawn on from the two nearest points, or else with those of the nearest, or from
        nowhere: far from all points their prices may lead astray."""
        near = sorted(seen, key=lambda one: abs(one.rate - rate))[:2]
        if not near:
            return self.at(rate, None, few=few)
        found = None
        if len(near) == 2 and near[0].rate != near[1].rate:
            one, other = near
            part = (rate - one.rate) / (other.rate - one.rate)
            if abs(part) < 1.5:
                found = self.at(rate, (1.0 - part) * one.potentials + part * other.potentials, few=few)
        return found or self.at(rate, near[0].potentials, few=few) or self.at(rate, None, few=few)


def _even(rich: Point, poor: Point) -> float:
    """Where the budget would be met if spending fell evenly from one to the other."""
    share = rich.over / max(rich.over - poor.over, 1e-300)
    return rich.rate + min(max(share, 0.03), 0.97) * (poor.rate - rich.rate)


def _nearest(seen: list[Point]) -> tuple[Point | None, Point | None]:
    """The dearest budget price at which too much is spent, and the cheapest at which it is not."""
    poor = min((one for one in seen if one.over <= 0.0), key=lambda one: one.rate, default=None)
    too_much = [one for one in seen if one.over > 0.0 and (poor is None or one.rate < poor.rate)]
    return max(too_much, key=lambda one: one.rate, default=None), poor


def _bracketed(
    sample: RateSample, seen: list[Point], low: float, high: float, *, few: bool = False
) -> tuple[Point, Point] | None:
    """Two budget prices around the budget, one of them within a standard error, or with a jump of spending in between.

    seen: points so far; others are added. low, high: where to look next on either side.
    None: the budget does not bind, or always does.
    """
    wider = 1.0
    for _ in range(_STEPS):
        rich, poor = _nearest(seen)
        if rich is not None and poor is not None:
            closest = min(rich, poor, key=lambda one: abs(one.over))
            if abs(closest.over) < closest.noise or poor.rate - rich.rate < _KINK * poor.rate:
                return rich, poor
            rate = _even(rich, poor) if len(seen) % 3 else 0.5 * (rich.rate + poor.rate)
        elif poor is not None:
            if poor.rate <= 0.0:
                return None
            rate = poor.rate - wider * max(poor.rate - low, 0.01 * poor.rate)
            rate, wider = rate if rate > 0.1 * poor.rate else 0.0, 2.0 * wider
        elif rich is not None:
            rate = rich.rate + wider * max(high - rich.rate, 0.01 * rich.rate)
            wider, high = 2.0 * wider, rate
        else:
            rate = low
        found = sample.beside(rate, seen, few=few)
        if found is None:  # beside a jump there may be no prices to be found
            return (rich, poor) if rich is not None and poor is not None else None
        seen.append(found)
    return None


def find_near(
    sample: RateSample, *, within: tuple[Point, Point] | None
) -> tuple[list[Point], tuple[Point, Point]] | None:
    """Points on either side of the budget, and the nearest two.

    within: two points of an earlier search. None: the budget does not bind, or the sample does not tell.
    """
    if sample.budget <= 0.0 or sample.size < min(_FEW, 0.3 * sample.customers):
        return None
    around = within or _first(sample)
    if around is None:
        return None
    rich, poor = around
    slope = max((rich.over - poor.over) / (poor.rate - rich.rate), 1e-300)
    jump = poor.rate - rich.rate < 0.1 * poor.rate and rich.over > 3.0 * rich.noise and poor.over < -3.0 * poor.noise
    start = [] if jump else [sample.beside(_even(rich, poor), [rich, poor])]
    seen = [one for one in start if one is not None]
    if not seen:  # on the two sides of the middle, for there may be a jump in it
        seen = [one for end in around if (one := sample.at(end.rate, end.potentials)) is not None]
    if not seen:
        return None
    first = min(seen, key=lambda one: abs(one.over))
    step = min(max((abs(first.over) + first.noise) / slope, 0.5 * _KINK * first.rate), 0.2 * first.rate)
    nearest = _bracketed(sample, seen, max(first.rate - step, 0.0), first.rate + step)
    return None if nearest is None else (seen, nearest)


def find_ends(sample: RateSample, *, within: tuple[Point, Point] | None) -> list[Point] | None:
    """Points by rising budget price: the first spends too much by `spread` standard errors, the last too little.

    within, None: as in `find_near`.
    """
    near = find_near(sample, within=within)
    if near is None:
        return None
    seen, _ = near
    low, high = _end(sample, seen, sign=1.0), _end(sample, seen, sign=-1.0)
    if low is None or high is None or not low.rate < high.rate:
        return None
    between = [one for one in seen if low.rate < one.rate < high.rate]
    return [low, *sorted(between, key=lambda one: one.rate), high]


def _first(sample: RateSample) -> tuple[Point, Point] | None:
    """Two points from few customers, to begin with."""
    free = sample.at(0.0, None, few=True)
    if free is None or free.over <= 0.0 or free.cost <= 0.0:
        return None
    return _bracketed(sample, [free], 0.0, free.worth / free.cost, few=True)


def _end(sample: RateSample, seen: list[Point], *, sign: float) -> Point | None:
    """A point that spends too much (sign 1) or too little (-1) by `spread` standard errors, or by somewhat more."""

    def off(point: Point) -> float:
        """In units of `spread` standard errors."""
        return sign * point.over / max(sample.spread * point.noise, 1e-9)

    def outermost() -> Point | None:
        return next((one for one in reversed(seen) if off(one) >= 1.0), None)

    for step in range(6):
        seen.sort(key=lambda one: sign * one.rate)  # the farther from the budget, the earlier
        outer = outermost()
        inner = next((one for one in seen if off(one) < 1.0), seen[-1])
        if outer is not None:
            if off(outer) <= 2.0 or abs(inner.rate - outer.rate) <= _KINK * outer.rate:
                return outer
            part = (1.3 - off(inner)) / (off(outer) - off(inner)) if step < 1 else 0.5
            rate = inner.rate + min(max(part, 0.1), 0.9) * (outer.rate - inner.rate)
        else:
            first, last = seen[0], seen[-1]
            slope = (off(first) - off(last)) / max(abs(first.rate - last.rate), 1e-9 * first.rate)
            away = 1.2 * (1.3 - off(first)) / slope if slope > 0.0 else 0.1 * first.rate
            rate = first.rate - sign * min(max(away, 0.1 * _KINK * first.rate), 0.3 * first.rate)
        if rate <= 0.0:
            return None
        found = sample.beside(rate, seen)
        if found is None:
            return outer
        seen.append(found)
    seen.sort(key=lambda one: sign * one.rate)
    return outermost()


def range_of(points: list[Point]) -> RateRange:
    """Boxes at both ends, wider by what the prices in between deviate from a straight line."""
    first, last = points[0], points[-1]
    bend = np.zeros(first.prices.shape)
    for one in points[1:-1]:
        part = (one.rate - first.rate) / (last.rate - first.rate)
        straight = (1.0 - part) * first.prices + part * last.prices
        bend = np.maximum(bend, np.abs(one.prices - straight))
    boxes = [PriceBox(one.box.centre, one.box.width + 1.2 * bend, one.box.none_width) for one in (first, last)]
    return RateRange((first.rate, last.rate), (boxes[0], boxes[1]))
