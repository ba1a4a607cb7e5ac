"""The range of budget prices in which a budget is met, and whose place does not depend on where in it the price lies.

At a budget price λ a customer's places bid v - λ·c - p. A range has two ends, each a λ with a box of prices p around
it. Bids are linear in (λ, p): with t from 0 to 1, a place that wins at the worst corner of either box also wins at
λ = (1 - t)·λ_low + t·λ_high for all p in (1 - t)·box_low + t·box_high. So a customer with the same such winner at both
ends is settled, whatever the budget price turns out to be, and only the others are contested. `contested_part` finds
the range and makes the problem of the contested customers in four steps:

1. A sample (`RateSample`). At a λ, Newton finds prices of the limits on it (`newton`, `segments`), and so what it
   spends. That is uncertain, as counts are, and a range reaches several standard errors beyond the budget on
   either side.
2. One pass counts what everybody wants at two points next to the budget (`count_range`). The limits and the spending of
   the sample are corrected by what it has too many or too few of there. What is left of its noise is that of customers
   who want something else than they did there.
3. The corrected sample gives a narrower range.
4. A second pass settles all but few (`screen_range`).

The table is rows in memory (`RowsInMemory`) or in chunks (`RowsInChunks`); both count and settle with the same two
kernels, which are pure functions of one chunk. Samples go by key, sums are integers, and the contested customers are in
the order of their keys, so that a decision is the same, bit for bit, however the table is held. Nothing here need be
exact: a range is a guess, and each solve among the contested customers says whether its prices are within the boxes
(`Lagrangian.holds`); only then everybody else was settled rightly.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from disco.allocation.chunk_screen import Screening, Settling, SettlingRule, offered
from disco.allocation.lagrangian import (
    Lagrangian,
    Priced,
    RateRange,
    SettledRest,
    SumGrid,
    flags_or_none,
    groups_or_none,
    limit_prices,
    place_prices,
    wanted,
    worth_of_limits,
)
from disco.allocation.limits import UNLIMITED, Limits, tree_of
from disco.allocation.newton import guess
from disco.allocation.problem import AllocationProblem
from disco.allocation.screen import BLOCK, PriceBox, compete, compete_two
from disco.allocation.segments import box_of_segments
from disco.allocation.solver import box_of_guess
from disco.allocation.table import ChunkRows, Layout, Survey, take
from disco.records.arrays import Array, Integers
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit
from disco.records.exact_sums import exact_sum, rounded

# None of these changes how good a result is, only the time it takes. Measured at 500,000 × 8 (decision 117).
SAMPLED = 32_000  # customers in a sample, about; without the counting pass a quarter of the table would be needed
_SAMPLED_SHARE = 0.7  # of the customers, at most
FIRST_SAMPLED = 3_000  # customers of it among whom a first budget price is looked for
_RATES_TRIED = 24  # budget prices on a sample, at most: more are needed only where it does not tell
_KINK = 1e-2  # relative width of a range in which spending jumps, from where on it is not narrowed
_NOISE_LEFT = 0.06  # of a sample's variance, once everybody was counted nearby: boxes are four times narrower
_CHUNK = 65_536  # customers per chunk of a pass in memory
WORTH_A_PASS = 0.6  # a pass that would leave a larger share of the customers open saves too little
_MARGIN = 1e-10  # of the largest value, by which a place must win: far above the rounding of a bid


@njit(nogil=True, cache=True)
def _bids_of_depth(
    values: Array, eligible: Array, costs: Array, segment: Array, rate: float, box: PriceBox, k: int, base: int,
    bids: Array,
) -> None:  # fmt: skip
    """What depth k bids for a block of customers where its price is at its lowest in a box; -∞ where ineligible.

    eligible, segment: with no entries where everybody is eligible, or there is one group.
    """
    count = bids.size
    worth, paid = values[k, base : base + count], costs[k, base : base + count]
    if segment.size == 0:
        price = box.centre[0, k] - box.width[0, k]
        for j in range(count):
            bids[j] = np.float64(worth[j]) - price
    else:
        for j in range(count):
            group = segment[base + j]
            bids[j] = np.float64(worth[j]) - (box.centre[group, k] - box.width[group, k])
    for j in range(count):
        bids[j] -= rate * np.float64(paid[j])
    if eligible.size > 0:
        allowed = eligible[k, base : base + count]
        for j in range(count):
            bids[j] = bids[j] if allowed[j] else -np.inf


@njit(nogil=True, cache=True)
def _best_bids(
    values: Array, eligible: Array, costs: Array, segment: Array, rate: float, box: PriceBox, base: int, bids: Array,
    first: Array, second: Array, winner: Array,
) -> None:  # fmt: skip
    """The best two bids of a block of customers where every price is at its lowest in a box; winner 0: no code."""
    columns, count = values.shape[0], first.size
    for j in range(count):
        first[j] = box.none_width
        second[j] = -np.inf
        winner[j] = 0
    for k in range(0, columns - 1, 2):
        for ahead in range(2):
            _bids_of_depth(values, eligible, costs, segment, rate, box, k + ahead, base, bids[ahead, :count])
        compete_two(bids[0, :count], bids[1, :count], 0.0, 0.0, k + 1, first, second, winner)
    if columns % 2:
        _bids_of_depth(values, eligible, costs, segment, rate, box, columns - 1, base, bids[0, :count])
        compete(bids[0, :count], 0.0, columns, first, second, winner)


@njit(nogil=True, cache=True)
def count_range(
    values: Array, eligible: Array, costs: Array, segment: Array, start: int, stop: int, rates: tuple[float, float],
    prices: tuple[Array, Array], cost_scale: float, counts: Array,
) -> tuple[int, int]:  # fmt: skip
    """Add to counts (2, groups, depths) who wants what at the prices of either end; Σ of their costs in grid units.

    Both ends in one pass: a block of customers is read from memory once and from the cache the second time.
    """
    first, second, winner = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.int64)
    bids, none = np.empty((2, BLOCK)), np.zeros(prices[0].shape)
    spent = np.zeros(2, np.int64)
    places = np.zeros((2, counts.shape[1], counts.shape[2] + 1), np.int64)
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for end in range(2):
            point = PriceBox(prices[end], none, 0.0)
            _best_bids(
                values, eligible, costs, segment, rates[end], point, base, bids, first[:count], second[:count],
                winner[:count],
            )  # fmt: skip
            for j in range(count):
                group = segment[base + j] if segment.size > 0 else 0
                places[end, group, winner[j]] += 1
                some = max(winner[j] - 1, 0)  # read a cell in any case: whether to would be a branch hard to predict
                cost = int(np.rint(np.float64(costs[some, base + j]) * cost_scale))
                spent[end] += cost if winner[j] > 0 else 0
    counts += places[:, :, 1:]
    return spent[0], spent[1]


@njit(nogil=True, cache=True)
def screen_range(
    values: Array, eligible: Array, costs: Array, segment: Array, start: int, stop: int, rates: tuple[float, float],
    boxes: tuple[PriceBox, PriceBox], margin: float, scales: tuple[float, float], choice: Array, counts: Array,
    rows: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    Bids are taken with every price at its lowest in the box. The winner's own price may be higher by twice its width,
    while the others' stay where they are: that is the worst corner for it. So it wins everywhere in the box if it is
    ahead of the second best by more than twice its width, and "no code" by more than twice the width of the common
    shift of all prices.

    scales: grid units per unit of value and of cost.
    Returns how many are open (beyond the room in rows: counted, not listed), and Σ values and Σ costs of the settled in
    grid units.
    """
    columns, groups = values.shape[0], counts.shape[0]
    first, second = np.empty((2, BLOCK)), np.empty((2, BLOCK))
    winner, bids = np.empty((2, BLOCK), np.int64), np.empty((2, BLOCK))
    reach = np.empty((2, groups, columns + 1))
    for end in range(2):
        reach[end, :, 0] = 2.0 * boxes[end].none_width + margin
        reach[end, :, 1:] = 2.0 * boxes[end].width + margin
    opened = worth = spent = 0
    settled = np.zeros((groups, columns + 1), np.int64)
    near = np.empty(BLOCK + 1, np.int64)  # the open ones of a block, written down without a branch
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        open_here = 0
        for end in range(2):
            _best_bids(
                values, eligible, costs, segment, rates[end], boxes[end], base, bids, first[end, :count],
                second[end, :count], winner[end, :count],
            )  # fmt: skip
        for j in range(count):
            group = segment[base + j] if segment.size > 0 else 0
            place = winner[0, j]
            choice[base - start + j] = place - 1
            is_open = (
                (place != winner[1, j])
                | (first[0, j] - second[0, j] <= reach[0, group, place])
                | (first[1, j] - second[1, j] <= reach[1, group, place])
            )
            near[open_here] = base + j
            open_here += 1 if is_open else 0
            at = 0 if is_open else place
            settled[group, at] += 1
            some = max(place - 1, 0)  # as in `count_range`
            gain = int(np.rint(np.float64(values[some, base + j]) * scales[0]))
            cost = int(np.rint(np.float64(costs[some, base + j]) * scales[1]))
            worth += gain if at > 0 else 0
            spent += cost if at > 0 else 0
        listed = min(open_here, max(rows.size - opened, 0))
        rows[opened : opened + listed] = near[:listed]
        opened += open_here
    counts += settled[:, 1:]
    return opened, worth, spent


# eligible and segment are arrays in every kernel, with no entries where everybody is eligible or there is one group: an
# argument that may be None would be a signature of its own, and signatures multiply what has to be compiled


@njit(nogil=True, cache=True)
def _columns_of(matrix: Array, rows: Array) -> Array:
    """(depths, rows): what `matrix[:, rows]` is, faster."""
    out = np.empty((matrix.shape[0], rows.size), matrix.dtype)
    for k in range(matrix.shape[0]):
        for j in range(rows.size):
            out[k, j] = matrix[k, rows[j]]
    return out


@njit(nogil=True, cache=True)
def _spending(net: Array, costs: Array, segment: Array, prices: Array, sums: Array) -> float:
    """sums[:, g, k] = customers of a segment who want depth k at these prices, Σ of their costs, Σ of the squares.

    Returns Σ of what they are worth to the budget's owner: net values.
    """
    total = 0.0
    for i in range(net.shape[1]):
        group = segment[i] if segment.size > 0 else 0
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
class RangeCounts:
    """What everybody wants at the prices of two points; integers, so that chunks may be added in any order."""

    counts: Integers  # (2, groups, depths)
    spent: tuple[int, int]  # grid units

    def __add__(self, other: "RangeCounts") -> "RangeCounts":
        return RangeCounts(self.counts + other.counts, (self.spent[0] + other.spent[0], self.spent[1] + other.spent[1]))

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + 16


@dataclass(frozen=True, slots=True)
class Point:
    """What a sample says about one budget price.

    `over` and its noise say on which side of the budget the price is, and how surely. The box is what the prices of the
    limits may be there, and `below`, `cost` are what everybody is compared with by the counting pass.
    """

    rate: float
    over: float  # by which share of the budget it is exceeded
    noise: float  # standard error of `over`
    potentials: Array  # (nodes - 1,) prices
    prices: Array  # (groups, depths) the same by place
    box: PriceBox  # around them; that of a scarce depth reaches from its lowest price so far up that nobody settles
    below: Array  # (nodes - 1,) customers of the sample who want a place there
    cost: float  # Σ of their costs
    worth: float  # Σ of their values less what they cost at this rate

    def jumps_to(self, within_budget: "Point", *, noises: float = 10.0) -> bool:
        """Whether spending falls by far more than its doubt within a narrow range, from here to the other."""
        near = within_budget.rate - self.rate < 0.1 * within_budget.rate
        sure = self.over > noises * self.noise and within_budget.over < -noises * within_budget.noise
        return near and sure


Ends = tuple[Point, Point]
"""Two points, of which the first spends too much and the second does not."""


class _Correction(NamedTuple):
    """By how much a sample differs from its share of everybody at one budget price and its prices.

    The sample and everybody are counted at the same prices, so that the difference is the sample's own: it has, by
    chance, so many customers too few who want a depth there, and they cost so much.
    """

    rate: float
    below: Array  # (nodes - 1,) customers
    cost: float


class RateSample:
    """Customers with the smallest keys, in the order of keys (so that the order of rows does not matter).

    problem: the customers at hand, among whom all those with the smallest keys are.
    customers: how many the table has.
    spent: grid units of cost, of customers who were settled before.
    spread: half-widths of boxes, in standard errors.
    """

    def __init__(
        self, problem: AllocationProblem, costs: Array, grid: SumGrid, *, customers: int, spent: int, spread: float
    ) -> None:
        self.customers, self.columns, self.spread = customers, problem.columns, spread
        keys = problem.keys_of(np.arange(customers)) if problem.keys is None else problem.keys
        rows = np.flatnonzero(keys < np.uint64(min(SAMPLED / customers, _SAMPLED_SHARE) * 2.0**64))
        rows = rows[np.argsort(keys[rows])]
        self.size = int(rows.size)
        self.values, self.costs = _columns_of(problem.values, rows), _columns_of(costs, rows)
        self.eligible = None if problem.eligible is None else _columns_of(problem.eligible, rows)
        self.segment = None if problem.limits.segment is None else problem.limits.segment[rows]
        self.tree = tree_of(problem.limits)
        self.grid = grid
        self.budget = max((grid.budget - spent) / grid.cost_scale, 0.0)
        self.magnitude = 0.0  # of the values seen so far
        self._corrections: list[_Correction] = []

    def _below(self, counts: Array) -> Array:
        """(nodes - 1,) from (groups, depths)."""
        whole = [] if counts.shape[0] == 1 else [counts.sum(axis=0)]
        below: Array = np.concatenate([*whole, counts.ravel()]).astype(np.float64)
        return below

    def correct(self, ends: Ends, everybody: RangeCounts) -> None:
        """By what everybody wants at two points."""
        share = self.size / self.customers
        self._corrections = [
            _Correction(
                end.rate,
                self._below(everybody.counts[place]) * share - end.below,
                everybody.spent[place] / self.grid.cost_scale * share - end.cost,
            )
            for place, end in enumerate(ends)
        ]

    def at(self, rate: float, potentials: Array | None, *, few: bool = False) -> Point | None:
        """At a budget price, beginning with the prices of another; None: Newton finds no prices.

        Limits are those of the sample's share. Once everybody was counted nearby, they are corrected by as many
        customers as the sample has too many or too few of there; prices then are those of everybody but for customers
        who change their minds between here and there (`thinning` is what is left of the variance).

        The noise of what is spent: at a depth with a price the number of customers is given by its limit, and only
        their mean cost is uncertain. At the others their number is uncertain, too.

        few: from the first customers alone.
        """
        size, columns = min(FIRST_SAMPLED, self.size) if few else self.size, self.columns
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
        worth = _spending(net, costs, groups_or_none(segment), prices, sums)
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
        point = None
        if len(near) == 2 and near[0].rate != near[1].rate:
            one, other = near
            part = (rate - one.rate) / (other.rate - one.rate)
            if abs(part) < 1.5:
                point = self.at(rate, (1.0 - part) * one.potentials + part * other.potentials, few=few)
        return point or self.at(rate, near[0].potentials, few=few) or self.at(rate, None, few=few)

    def open_share(self, range_: RateRange, margin: float) -> float:
        """The share of the sample that a pass with this range would leave open."""
        counts = np.zeros(range_.boxes[0].centre.shape, np.int64)
        opened, _, _ = screen_range(
            self.values, flags_or_none(self.eligible), self.costs, groups_or_none(self.segment), 0, self.size,
            range_.rates, range_.boxes, margin, (self.grid.value_scale, self.grid.cost_scale),
            np.empty(self.size, np.int16), counts, np.empty(0, np.int64),
        )  # fmt: skip
        return opened / self.size


def _even(over_budget: Point, within_budget: Point) -> float:
    """Where the budget would be met if spending fell evenly from one to the other."""
    share = over_budget.over / max(over_budget.over - within_budget.over, 1e-300)
    return over_budget.rate + min(max(share, 0.03), 0.97) * (within_budget.rate - over_budget.rate)


def _nearest(seen: list[Point]) -> tuple[Point | None, Point | None]:
    """The dearest budget price at which too much is spent, and the cheapest at which it is not."""
    within_budget = min((one for one in seen if one.over <= 0.0), key=lambda one: one.rate, default=None)
    too_much = [one for one in seen if one.over > 0.0 and (within_budget is None or one.rate < within_budget.rate)]
    return max(too_much, key=lambda one: one.rate, default=None), within_budget


def _bracketed(sample: RateSample, seen: list[Point], low: float, high: float, *, few: bool = False) -> Ends | None:
    """Two budget prices around the budget, one of them within a standard error, or with a jump of spending in between.

    Where one side is missing, steps away from the other double. Between two, the price at which spending would meet
    the budget if it fell evenly is tried, and every third time the middle, for it may fall in a jump.

    seen: points so far; others are added. low, high: where to look next on either side.
    None: the budget does not bind, or always does.
    """
    wider = 1.0
    for _ in range(_RATES_TRIED):
        over_budget, within_budget = _nearest(seen)
        if over_budget is not None and within_budget is not None:
            closest = min(over_budget, within_budget, key=lambda one: abs(one.over))
            narrow = within_budget.rate - over_budget.rate < _KINK * within_budget.rate
            if abs(closest.over) < closest.noise or narrow:
                return over_budget, within_budget
            middle = 0.5 * (over_budget.rate + within_budget.rate)
            rate = _even(over_budget, within_budget) if len(seen) % 3 else middle
        elif within_budget is not None:
            if within_budget.rate <= 0.0:
                return None
            rate = within_budget.rate - wider * max(within_budget.rate - low, 0.01 * within_budget.rate)
            rate, wider = rate if rate > 0.1 * within_budget.rate else 0.0, 2.0 * wider
        elif over_budget is not None:
            rate = over_budget.rate + wider * max(high - over_budget.rate, 0.01 * over_budget.rate)
            wider, high = 2.0 * wider, rate
        else:
            rate = low
        point = sample.beside(rate, seen, few=few)
        if point is None:  # beside a jump there may be no prices to be found
            return (over_budget, within_budget) if over_budget is not None and within_budget is not None else None
        seen.append(point)
    return None


def find_near(sample: RateSample, *, within: Ends | None) -> tuple[list[Point], Ends] | None:
    """Points on either side of the budget, and the nearest two.

    A first look at few customers, or an earlier search, says where to begin and how fast spending falls with the price.
    If it jumps between the two, the sample is asked beside the jump and not in it.

    within: two points of an earlier search. None: the budget does not bind, or the sample does not tell.
    """
    if sample.budget <= 0.0 or sample.size < min(FIRST_SAMPLED, 0.3 * sample.customers):
        return None
    around = within or _first_ends(sample)
    if around is None:
        return None
    over_budget, within_budget = around
    slope = max((over_budget.over - within_budget.over) / (within_budget.rate - over_budget.rate), 1e-300)
    jump = over_budget.jumps_to(within_budget, noises=3.0)
    start = [] if jump else [sample.beside(_even(over_budget, within_budget), [over_budget, within_budget])]
    seen = [point for point in start if point is not None]
    if not seen:  # on the two sides of the middle, for there may be a jump in it
        seen = [point for end in around if (point := sample.at(end.rate, end.potentials)) is not None]
    if not seen:
        return None
    first = min(seen, key=lambda one: abs(one.over))
    step = min(max((abs(first.over) + first.noise) / slope, 0.5 * _KINK * first.rate), 0.2 * first.rate)
    nearest = _bracketed(sample, seen, max(first.rate - step, 0.0), first.rate + step)
    return None if nearest is None else (seen, nearest)


def find_ends(sample: RateSample, *, within: Ends | None) -> list[Point] | None:
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


def _first_ends(sample: RateSample) -> Ends | None:
    """Two points from few customers, to begin with."""
    free = sample.at(0.0, None, few=True)
    if free is None or free.over <= 0.0 or free.cost <= 0.0:
        return None
    return _bracketed(sample, [free], 0.0, free.worth / free.cost, few=True)


def _end(sample: RateSample, seen: list[Point], *, sign: float) -> Point | None:
    """A point that spends too much (sign 1) or too little (-1) by `spread` standard errors, or by somewhat more.

    By up to twice as much: a range that is wider than need be leaves more customers open, one more point costs a
    Newton on the sample. None: the budget price would have to be 0, or less.
    """

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
        point = sample.beside(rate, seen)
        if point is None:
            return outer
        seen.append(point)
    seen.sort(key=lambda one: sign * one.rate)
    return outermost()


def range_of(points: list[Point]) -> RateRange:
    """Boxes at both ends, wider by what the prices in between deviate from a straight line.

    Between the ends, boxes are drawn on straight lines (`RateRange.holds`), while prices bend where depths trade
    places. The points in between show by how much; a fifth is added for what lies between them.
    """
    first, last = points[0], points[-1]
    bend = np.zeros(first.prices.shape)
    for one in points[1:-1]:
        part = (one.rate - first.rate) / (last.rate - first.rate)
        straight = (1.0 - part) * first.prices + part * last.prices
        bend = np.maximum(bend, np.abs(one.prices - straight))
    boxes = [PriceBox(one.box.centre, one.box.width + 1.2 * bend, one.box.none_width) for one in (first, last)]
    return RateRange((first.rate, last.rate), (boxes[0], boxes[1]))


class BudgetTable(Protocol):
    """A table whose budget price is looked for: rows in memory, or in chunks."""

    @property
    def grid(self) -> SumGrid:
        """Of the whole table."""

    @property
    def customers(self) -> int:
        """How many are looked at: all, or those whom an earlier pass left open."""

    def sample(self, *, spread: float) -> RateSample:
        """Those with the smallest keys."""

    def count(self, ends: Ends) -> RangeCounts:
        """One pass: what everybody wants at two points."""

    def settle(self, range_: RateRange, *, margin: float, open_share: float) -> Lagrangian | None:
        """One pass: the problem of those whose place is not the same in the whole range.

        open_share: of the customers, about, who will be open. None: they are too many, or the others break a limit.
        """

    def bound_at(self, priced: Priced) -> float:
        """The bound that prices of the contested customers give for the whole table; grid units of value."""


class Contested(NamedTuple):
    """The customers whose place depends on where in a range the budget price lies."""

    problem: Lagrangian
    ends: Ends  # of the range


def contested_part(table: BudgetTable, *, within: Ends | None, spread: float) -> Contested | None:
    """The customers whom the budget concerns; None: the sample tells too little, or too many would stay open.

    within: the ends of a range found before, on a larger table.
    spread: half-widths of the boxes in standard errors.
    """
    if table.grid.budget <= 0:
        return None
    sample = table.sample(spread=spread)
    if sample.size < 0.5 * table.customers:  # otherwise it is nearly everybody already
        near = find_near(sample, within=within)
        if near is None:
            return None
        within = near[1]
        sample.correct(within, table.count(within))
    points = find_ends(sample, within=within)
    if points is None:
        return None
    range_, margin = range_of(points), _MARGIN * sample.magnitude
    open_share = sample.open_share(range_, margin)
    if open_share > WORTH_A_PASS:
        return None
    problem = table.settle(range_, margin=margin, open_share=open_share)
    if problem is None:
        return None
    problem.begin_at(points[0].potentials)
    return Contested(problem, (points[0], points[-1]))


class _Pass(NamedTuple):
    """What a pass with a range leaves behind, of one chunk or of all."""

    opened: int  # customers; of a chunk, `rows` may have had no room for all of them
    choice: Array  # (customers at hand,), only a guess for the open ones
    counts: Array  # (groups, depths) settled customers
    worth: int  # Σ values of the settled, grid units
    spent: int  # Σ costs of the settled, grid units
    rows: Array  # (open,) row numbers; of all chunks, by key


@dataclass(frozen=True, slots=True)
class RowsInMemory:
    """A table in memory, or the part of one that an earlier pass left open.

    Chunks of customers go to the engine; what they return is added up, so that their number changes nothing.
    """

    lagrangian: Lagrangian

    @property
    def grid(self) -> SumGrid:
        return self.lagrangian.grid

    @property
    def customers(self) -> int:
        return self.lagrangian.problem.customers

    def sample(self, *, spread: float) -> RateSample:
        here = self.lagrangian
        spent = 0 if here.rest is None else here.rest.spent
        return RateSample(here.problem, here.costs, here.grid, customers=self.customers, spent=spent, spread=spread)

    def count(self, ends: Ends) -> RangeCounts:
        problem, costs = self.lagrangian.problem, self.lagrangian.costs
        eligible, segment = flags_or_none(problem.eligible), groups_or_none(problem.limits.segment)

        def counted(chunk: slice) -> RangeCounts:
            return _counted(problem.values, eligible, costs, segment, chunk, ends, self.grid.cost_scale)

        chunks = row_chunks(problem.customers, size=_CHUNK)
        first, *others = spread(counted, chunks, engine=self.lagrangian.engine)
        return sum(others, first)

    def settle(self, range_: RateRange, *, margin: float, open_share: float) -> Lagrangian | None:
        settled = self._pass(range_, margin, min(1.0, 1.2 * open_share + 0.02))
        limits = self.lagrangian.problem.limits
        if settled is None or (tree_of(limits).less(settled.counts)[1] < 0).any():
            return None
        return self._rest(settled, range_)

    def _pass(self, range_: RateRange, margin: float, room_share: float) -> _Pass | None:
        """None: more customers than are worth a pass stay open.

        room_share: of the customers for whom there is room to stay open; where it is too little, the pass is repeated.
        """
        problem, groups = self.lagrangian.problem, range_.boxes[0].centre.shape[0]
        eligible, segment = flags_or_none(problem.eligible), groups_or_none(problem.limits.segment)
        scales = (self.grid.value_scale, self.grid.cost_scale)

        def settled(chunk: slice) -> _Pass:
            size = chunk.stop - chunk.start
            choice, counts = np.empty(size, np.int16), np.zeros((groups, problem.columns), np.int64)
            rows = np.empty(int(size * share) + 256, np.int64)
            opened, worth, spent = screen_range(
                problem.values, eligible, self.lagrangian.costs, segment, chunk.start, chunk.stop, range_.rates,
                range_.boxes, margin, scales, choice, counts, rows,
            )  # fmt: skip
            return _Pass(opened, choice, counts, worth, spent, rows[:opened])

        share = room_share
        for _ in range(2):
            chunks = row_chunks(problem.customers, size=_CHUNK)
            parts = list(spread(settled, chunks, engine=self.lagrangian.engine))
            opened = sum(part.opened for part in parts)
            if opened > WORTH_A_PASS * problem.customers:
                return None
            if sum(part.rows.size for part in parts) == opened:
                break
            share = 1.0
        rows = np.concatenate([part.rows for part in parts])
        return _Pass(
            opened,
            np.concatenate([part.choice for part in parts]),
            np.sum([part.counts for part in parts], axis=0),
            sum(part.worth for part in parts),
            sum(part.spent for part in parts),
            rows[np.argsort(problem.keys_of(rows), kind="stable")],  # so that the order of rows shows nowhere
        )

    def _rest(self, settled: _Pass, range_: RateRange) -> Lagrangian:
        """The problem of the customers whom the pass left open, within what the settled ones leave of the limits."""
        here, problem, rows = self.lagrangian, self.lagrangian.problem, settled.rows
        before = here.rest
        if before is None:
            rest = SettledRest(
                self.grid, here.pays, rows, settled.choice, settled.worth, settled.spent, (range_,)
            )  # fmt: skip
        else:
            rest = SettledRest(
                self.grid,
                before.pays,
                before.rows[rows],
                before.with_open(settled.choice),
                before.worth + settled.worth,
                before.spent + settled.spent,
                (*before.ranges, range_),
            )
        segment = None if problem.limits.segment is None else problem.limits.segment[rows]
        part = AllocationProblem(
            _columns_of(problem.values, rows),
            _left_of(problem.limits, settled.counts, segment, rest),
            None if problem.eligible is None else _columns_of(problem.eligible, rows),
            _columns_of(here.costs, rows),
            problem.keys_of(rows),
            problem.depths,
            problem.largest_cost,
            least_top=self.grid.grid_top,
        )
        return Lagrangian(part, warm=here.warm, engine=here.engine, rest=rest)

    def bound_at(self, priced: Priced) -> float:
        return self.lagrangian.bound_at(priced)


def _counted(
    values: Array, eligible: Array, costs: Array, segment: Array, rows: slice, ends: Ends, cost_scale: float
) -> RangeCounts:
    rates, prices = (ends[0].rate, ends[1].rate), (ends[0].prices, ends[1].prices)
    counts = np.zeros((2, *prices[0].shape), np.int64)
    low, high = count_range(
        values, eligible, costs, segment, rows.start, rows.stop, rates, prices, cost_scale, counts
    )  # fmt: skip
    return RangeCounts(counts, (int(low), int(high)))


def _left_of(limits: Limits, counts: Array, segment: Array | None, rest: SettledRest) -> Limits:
    """What the settled customers leave of the limits; counts: (groups, depths) theirs, segment: of the others."""

    def caps(limit: Array, taken: Array) -> Array:
        return np.where(limit >= UNLIMITED, UNLIMITED, limit - taken)

    total = counts.sum(axis=0)
    floors = np.maximum(limits.floors - total, 0)
    budget = max((rest.grid.budget - rest.spent) / rest.grid.cost_scale, 0.0)
    if segment is None or limits.segment_caps is None or limits.segment_floors is None:
        return Limits(caps(limits.caps, total), floors, budget=budget)
    return Limits(
        caps(limits.caps, total),
        floors,
        caps(limits.segment_caps, counts),
        np.maximum(limits.segment_floors - counts, 0),
        segment,
        limits.segment_labels,
        budget,
    )


@dataclass(frozen=True, slots=True)
class InRange:
    """The rule of a pass over chunks: whose place is the same in a whole range of budget prices."""

    range_: RateRange
    margin: float
    scales: tuple[float, float]  # grid units per unit of value and of cost
    budget: float

    def settle(self, rows: ChunkRows) -> Settling:
        rows = offered(rows, closed=None, budget=self.budget)
        groups, columns = self.range_.boxes[0].centre.shape
        choice, opened = np.empty(rows.size, np.int16), np.empty(rows.size, np.int64)
        counts = np.zeros((groups, columns), np.int64)
        assert rows.costs is not None
        count, worth, spent = screen_range(
            rows.values, flags_or_none(rows.eligible), rows.costs, _groups_of(rows, groups), 0, rows.size,
            self.range_.rates, self.range_.boxes, self.margin, self.scales, choice, counts, opened,
        )  # fmt: skip
        return Settling(choice, counts, opened[:count], int(worth), int(spent))


def _groups_of(rows: ChunkRows, groups: int) -> Array:
    return groups_or_none(rows.group if groups > 1 else None)


@dataclass(frozen=True, slots=True)
class RangeCounted:
    """The chunk function that counts."""

    layout: Layout
    ends: Ends
    cost_scale: float
    budget: float

    def __call__(self, chunk: pa.Table) -> RangeCounts:
        rows = offered(self.layout.read(chunk), closed=None, budget=self.budget)
        assert rows.costs is not None
        segment = _groups_of(rows, self.ends[0].prices.shape[0])
        eligible, everybody = flags_or_none(rows.eligible), slice(0, rows.size)
        return _counted(rows.values, eligible, rows.costs, segment, everybody, self.ends, self.cost_scale)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The chunk function of a bound: Σ_i max(0, max_k value - rate · cost - price), exact."""

    layout: Layout
    prices: Array  # (groups, depths)
    rate: float
    budget: float

    def __call__(self, chunk: pa.Table) -> int:
        rows = offered(self.layout.read(chunk), closed=None, budget=self.budget)
        segment = _groups_of(rows, self.prices.shape[0])
        assert rows.costs is not None
        eligible = flags_or_none(rows.eligible)
        total = wanted(rows.values, eligible, rows.costs, segment, self.prices, self.rate, 0, rows.size)
        return exact_sum(np.array([total]))


@dataclass(frozen=True, slots=True)
class ChunkPass:
    """What the last pass over chunks did: its rule, whom it left open, and what the others cost."""

    rule: SettlingRule
    open: ChunkRows
    settled_cost: int  # exact

    def pays(self, choice: Array, budget: float) -> bool:
        """Whether everybody is within the budget to the last bit; choice: of those who were left open."""
        assert self.open.costs is not None
        taken = np.flatnonzero(choice >= 0)
        own = exact_sum(self.open.costs[choice[taken], taken].astype(np.float64))
        return rounded(self.settled_cost + own) <= budget


class RowsInChunks:
    """A table of which only a sample is here; what is summed over everybody comes from passes.

    Those whom a pass leaves open are brought here, and from then on they are a table in memory. The rule of the pass is
    the same function of a customer in every later pass, so that nobody need remember who was settled.

    fold: one pass with a chunk function whose results are added.
    screened: one pass with a rule.
    """

    def __init__(
        self,
        survey: Survey,
        limits: Limits,
        layout: Layout,
        fold: Callable[..., object],
        screened: Callable[[SettlingRule], Screening],
    ) -> None:
        budget = limits.budget
        assert budget is not None
        self.customers, self.layout, self._fold, self._screened = survey.customers, layout, fold, screened
        rows = offered(survey.sample, closed=None, budget=budget)
        if limits.segment_caps is not None:
            limits = replace(limits, segment=rows.group)
        self._sample = AllocationProblem(
            rows.values, limits, rows.eligible, rows.costs, rows.keys, layout.depths, survey.largest_cost
        )
        self.grid = SumGrid.of(
            customers=survey.customers,
            largest=survey.magnitude,
            largest_cost=survey.largest_cost,
            budget=budget,
            grid_top=survey.magnitude,
        )
        self.last_pass: ChunkPass | None = None  # None: no range was good enough for a pass

    def sample(self, *, spread: float) -> RateSample:
        assert self._sample.costs is not None
        return RateSample(
            self._sample, self._sample.costs, self.grid, customers=self.customers, spent=0, spread=spread
        )  # fmt: skip

    def count(self, ends: Ends) -> RangeCounts:
        counts = self._fold(
            RangeCounted(self.layout, ends, self.grid.cost_scale, self.grid.money), RangeCounts.__add__
        )  # fmt: skip
        assert isinstance(counts, RangeCounts)
        return counts

    def settle(self, range_: RateRange, *, margin: float, open_share: float) -> Lagrangian | None:
        limits = self._sample.limits
        rule = InRange(range_, margin, (self.grid.value_scale, self.grid.cost_scale), self.grid.money)
        screening = self._screened(rule)
        rows = screening.rows()
        if rows is None or screening.opened > WORTH_A_PASS * self.customers:
            return None
        if (tree_of(limits).less(screening.counts)[1] < 0).any():
            return None
        self.last_pass = last_pass = ChunkPass(rule, rows, screening.cost)
        rows = offered(rows, closed=None, budget=self.grid.money)
        rest = SettledRest(
            self.grid,
            lambda choice: last_pass.pays(choice, self.grid.money),
            np.arange(rows.size),
            np.full(rows.size, -1, np.int16),
            screening.worth,
            screening.spent,
            (range_,),
        )
        segment = rows.group if limits.segment_caps is not None else None
        part = AllocationProblem(
            rows.values,
            _left_of(limits, screening.counts, segment, rest),
            rows.eligible,
            rows.costs,
            rows.keys,
            self._sample.depths,
            self._sample.largest_cost,
            least_top=self.grid.grid_top,
        )
        return Lagrangian(part, warm=None, rest=rest)

    def bound_at(self, priced: Priced) -> float:
        tree = tree_of(self._sample.limits)
        price = limit_prices(tree, priced.solution.potentials)
        prices, limits = place_prices(tree, price)[tree.leaf], float(worth_of_limits(tree, price).sum())
        total = self._fold(Wanted(self.layout, prices, priced.rate, self.grid.money), int.__add__)
        assert isinstance(total, int)
        return (rounded(total) + limits + priced.rate * self.grid.money) * self.grid.value_scale
