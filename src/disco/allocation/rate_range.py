"""The range of budget prices in which a budget is met, and whose place does not depend on where in it the price lies.

At a budget price λ a customer's places bid v - λ·c - p. A range has two ends, each a λ with a box of prices p around
it. Bids are linear in (λ, p): with t from 0 to 1, a place that wins at the worst corner of either box also wins at
λ = (1 - t)·λ_low + t·λ_high for all p in (1 - t)·box_low + t·box_high. So a customer with the same such winner at both
ends is settled, whatever the budget price turns out to be, and only the others are contested. `contested_part` finds
the range and makes the problem of the contested customers in four steps:

1. A sample (`RateSample`). At a λ, Newton finds prices of the limits on it (`dual`), and so what it
   spends. That is uncertain, as counts are, and a range reaches several standard errors beyond the budget on
   either side.
2. One pass counts what everybody wants at two points next to the budget (`_wants`). The limits and the spending of
   the sample are corrected by what it has too many or too few of there. What is left of its noise is that of customers
   who want something else than they did there.
3. The corrected sample gives a narrower range.
4. A second pass settles all but few (`rules.InRange`).

The table is rows in memory or in chunks (`table.ValueTable`); both count and settle by the same rule, which is a pure
function of some customers. Samples go by key, sums are integers, and the contested customers are in the
order of their keys, so that a decision is the same, bit for bit, however the table is held. Nothing here need be
exact: a range is a guess, and each solve among the contested customers says whether its prices are within the boxes
(`Lagrangian.holds`); only then everybody else was settled rightly.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from disco.allocation.dual import Precision, guess_prices, tolerated_miss
from disco.allocation.lagrangian import (
    Lagrangian,
    LimitPrices,
    Priced,
    SettledRest,
    SumGrid,
    wanted,
)
from disco.allocation.limits import tree_of
from disco.allocation.problem import AllocationProblem, Rows
from disco.allocation.rules import InBox, InRange, PriceBox, RateRange, choice_sums, place_counts
from disco.allocation.table import (
    SAMPLE_MARGIN,
    TOO_MANY,
    Pass,
    TableInChunks,
    TableInMemory,
    TableSample,
    ValueTable,
    cost_of,
    take,
)
from disco.records.arrays import Array, Integers
from disco.records.exact_sums import exact_sum, rounded

# None of these changes how good a result is, only the time it takes. Measured at 500,000 × 8 (decision 117).
# Customers in a sample, about; without the counting pass a quarter of the table would be needed.
SAMPLED = 32_000
# Share of the customers who are sampled, at most.
_SAMPLED_SHARE = 0.7
# Customers of it among whom a first budget price is looked for.
FIRST_SAMPLED = 3_000
# Budget prices on a sample, at most: more are needed only where it does not tell.
_RATES_TRIED = 24
# Relative width of a range in which spending jumps, from where on it is not narrowed.
_KINK = 1e-2
# Share of a sample's variance that is left once everybody was counted nearby: boxes are four times narrower.
_NOISE_LEFT = 0.06


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

    def __init__(self, problem: AllocationProblem, grid: SumGrid, *, customers: int, spent: int, spread: float) -> None:
        self.customers, self.columns, self.spread = customers, problem.columns, spread
        keys = problem.all_keys
        rows = np.flatnonzero(keys < np.uint64(min(SAMPLED / customers, _SAMPLED_SHARE) * 2.0**64))
        self.rows = problem.rows.take(rows[np.argsort(keys[rows])])
        self.size = self.rows.size
        self.tree = tree_of(problem.limits)
        self.grid = grid
        self.budget = max((grid.budget - spent) / grid.cost_scale, 0.0)
        self.magnitude = 0.0  # of the values seen so far
        self._corrections: list[_Correction] = []

    def correct(self, ends: Ends, everybody: RangeCounts) -> None:
        """By what everybody wants at two points."""
        share = self.size / self.customers
        self._corrections = [
            _Correction(
                end.rate,
                self.tree.below(everybody.counts[place])[1:] * share - end.below,
                everybody.spent[place] / self.grid.cost_scale * share - end.cost,
            )
            for place, end in enumerate(ends)
        ]

    def at(self, rate: float, potentials: Array | None, *, few: bool = False) -> Point | None:
        """At a budget price, beginning with the prices of another; None: Newton finds no prices.

        Limits are those of the sample's share. Once everybody was counted nearby, they are corrected by as many
        customers as the sample has too many or too few of there; prices then are those of everybody but for customers
        who change their minds between here and there (`noise_share` is what is left of the variance).

        The noise of what is spent: at a depth with a price the number of customers is given by its limit, and only
        their mean cost is uncertain. At the others their number is uncertain, too.

        few: from the first customers alone.
        """
        size, columns = min(FIRST_SAMPLED, self.size) if few else self.size, self.columns
        share = size / self.customers
        net = np.empty((columns, size))
        magnitude, _ = take(self.rows, rate, np.arange(size), net)
        segment = None if self.rows.group is None else self.rows.group[:size]
        self.magnitude = max(self.magnitude, magnitude)
        low, high = np.maximum(self.tree.low[1:], 0) * share, self.tree.high[1:] * share
        placed = min(size, float(high[:columns].sum()))
        noise_share, tolerance, missing = 1.0 - share, tolerated_miss(placed, noisy=True), 0.0
        if self._corrections:
            nearest = min(self._corrections, key=lambda one: abs(one.rate - rate))
            crowded = high[:columns].sum() >= size * (1.0 - 1e-9)  # nobody need go without a code: that must stay so
            low = np.where(low > 0.0, np.maximum(low - nearest.below, 0.0), 0.0)
            high = np.maximum(high - nearest.below, 0.25)
            if crowded:
                high[:columns] += max(size - float(high[:columns].sum()), 0.0) / columns
            noise_share, missing = _NOISE_LEFT * noise_share, nearest.cost
            tolerance = tolerated_miss(placed, noisy=False)
        sample = TableSample(net, segment, np.arange(size), magnitude)
        precision = Precision(self.spread, tolerance, noise_share)
        found = guess_prices(sample, self.tree, low, high, potentials, precision, top=magnitude)
        most_missed = 8.0 * tolerance if self.tree.leaf.shape[0] > 1 else 4.0 * tolerance + 10.0
        if found is None or not math.isfinite(found.open_share) or found.missed > most_missed:
            return None
        potentials, box = found.potentials, found.box
        prices = potentials[self.tree.leaf - 1]
        assert self.rows.costs is not None
        choice = _wanted(sample.rows, slice(0, size), prices, rate=0.0)  # of net values
        taken = np.flatnonzero(choice >= 0)
        column, paid = choice[taken], self.rows.costs[choice[taken], taken].astype(np.float64)
        place = column.astype(np.int64) if segment is None else segment[taken] * columns + column
        at_places = [np.bincount(place, by, prices.size).reshape(prices.shape) for by in (None, paid, paid * paid)]
        below = self.tree.below(at_places[0])[1:].astype(np.float64)
        count, cost, square = (amounts.sum(axis=0) for amounts in at_places)
        worth = float(net[column, taken].sum())
        spent = float(cost.sum())
        # at depths with a price the number of customers is fixed, so that only their costs differ between samples
        priced = (potentials[:columns] > 0.0) & (count > 0.0)
        ratio = np.where(priced, high[:columns] / np.maximum(count, 1.0), 1.0)
        count, cost, square = count * ratio, cost * ratio, square * ratio
        variance = float((square - cost**2 / np.maximum(count, 1.0))[priced].sum())
        variance += max(float(square[~priced].sum() - cost[~priced].sum() ** 2 / size), 0.0)
        budget = self.budget * share
        noise = math.sqrt(max(variance, 0.0) * noise_share) / budget
        over = (float(cost.sum()) + missing) / budget - 1.0
        return Point(rate, over, noise, potentials, prices, box, below, spent, worth)

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
        rule = InRange(range_, margin, (self.grid.value_scale, self.grid.cost_scale))
        return rule.settle(self.rows, slice(0, self.size), 0).opened / self.size


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


def become_nothing(one: Point, other: Point) -> Array:
    """(groups, depths) whose price is 0 at one of two points alone."""
    one_alone: Array = (one.prices == 0.0) != (other.prices == 0.0)
    return one_alone


def range_of(points: list[Point], *, to_nothing: bool = False) -> RateRange:
    """Boxes at both ends, wider by what the prices in between deviate from a straight line.

    Between the ends, boxes are drawn on straight lines (`RateRange.holds`), while prices bend where depths trade
    places. The points in between show by how much; a fifth is added for what lies between them.

    to_nothing: a price of 0 at one end alone becomes 0 somewhere in between, so that it may be lower than the line, by
        the widest bar at most.
    """
    first, last = points[0], points[-1]
    bend = np.zeros(first.prices.shape)
    for one in points[1:-1]:
        part = (one.rate - first.rate) / (last.rate - first.rate)
        straight = (1.0 - part) * first.prices + part * last.prices
        bend = np.maximum(bend, np.abs(one.prices - straight))
    ends = to_nothing & become_nothing(first, last)

    def box(one: Point) -> PriceBox:
        more = 1.2 * bend + np.where(ends, np.minimum(np.abs(one.prices), one.box.width.max()), 0.0)
        return PriceBox(one.box.centre, one.box.width + more, one.box.none_width)

    return RateRange((first.rate, last.rate), (box(first), box(last)))


def _wanted(rows: Rows, part: slice, prices: Array, *, rate: float) -> Array:
    """(customers of the part,) the place that each wants at these prices; prices: (groups, depths)."""
    point = PriceBox(prices, np.zeros(prices.shape), 0.0)  # a box without width: only equal bids stay open
    return InBox(point, 0.0, rate=rate).settle(rows, part, 0).choice


def _wants(ends: Ends, cost_scale: float, rows: Rows, part: slice) -> RangeCounts:
    """The part function that counts what customers want at the prices of two points."""
    assert rows.costs is not None
    group = None if rows.group is None else rows.group[part]
    counts, spent = [], []
    for end in ends:
        choice = _wanted(rows, part, end.prices, rate=end.rate)
        counts.append(place_counts(choice, group, end.prices.shape))
        spent.append(choice_sums(rows.values, rows.costs, choice, part.start, 1.0, cost_scale)[1])
    return RangeCounts(np.array(counts), (int(spent[0]), int(spent[1])))


def _worth(prices: Array, rate: float, rows: Rows, part: slice) -> int:
    """The part function of a bound: Σ_i max(0, max_k value - rate · cost - price), exact; prices: (groups, depths)."""
    cells = rows.cells(segments=prices.shape[0] > 1)
    return exact_sum(np.array([wanted(cells, prices, rate, part.start, part.stop)]))


class BudgetTable:
    """A table whose budget price is looked for: all customers, or those whom an earlier pass left open.

    Those whom a pass leaves open are a smaller table, in memory wherever the first one was. The rule of the pass is the
    same function of a customer in every later pass, so that a table in chunks need not remember who was settled.

    grid: of the whole table.
    here: the problem of a table in memory; None: it is in chunks.
    """

    def __init__(self, table: ValueTable, grid: SumGrid, *, here: Lagrangian | None = None) -> None:
        self.table, self.grid, self.here = table, grid, here
        self.last_pass: Pass | None = None  # None: no range was good enough for a pass

    @classmethod
    def of(cls, here: Lagrangian) -> "BudgetTable":
        """In memory."""
        return cls(TableInMemory(here.problem, engine=here.engine), here.grid, here=here)

    @classmethod
    def in_chunks(cls, table: TableInChunks, budget: float) -> "BudgetTable":
        survey = table.survey
        return cls(table, SumGrid.of(survey.customers, survey.magnitude, survey.largest_cost, budget, 0.0))

    @property
    def customers(self) -> int:
        """How many are looked at."""
        return self.table.customers

    @property
    def _before(self) -> SettledRest | None:
        """Those who were settled by earlier passes."""
        return None if self.here is None else self.here.rest

    def sample(self, *, spread: float) -> RateSample:
        """Those with the smallest keys."""
        spent = 0 if self._before is None else self._before.spent
        return RateSample(self.table.problem, self.grid, customers=self.customers, spent=spent, spread=spread)

    def count(self, ends: Ends) -> RangeCounts:
        """One pass: what everybody wants at two points."""
        return self.table.fold(partial(_wants, ends, self.grid.cost_scale), RangeCounts.__add__)

    def settle(self, range_: RateRange, *, margin: float, open_share: float) -> Lagrangian | None:
        """One pass: the problem of those whose place is not the same in the whole range.

        open_share: of the customers, about, who will be open. None: they are too many, or the others break a limit.
        """
        problem, scales = self.table.problem, (self.grid.value_scale, self.grid.cost_scale)
        passed = self.table.screen(InRange(range_, margin, scales), open_share=open_share)
        if not passed.kept or passed.opened > TOO_MANY * self.customers:
            return None
        if (tree_of(problem.limits).left_after(passed.counts)[1] < 0).any():
            return None
        self.last_pass = passed
        numbers, rows = self.table.contested(passed)
        rest = self._rest(passed, numbers, rows, range_)
        budget = max((self.grid.budget - rest.spent) / self.grid.cost_scale, 0.0)
        limits, top = problem.limits.left_by(passed.counts, budget=budget), self.grid.grid_top
        part = AllocationProblem.of(rows, limits, problem.depths, problem.largest_cost, least_top=top)
        warm = None if self.here is None else self.here.warm
        return Lagrangian(part, warm=warm, engine=self.table.engine, rest=rest)

    def _rest(self, passed: Pass, numbers: Array, rows: Rows, range_: RateRange) -> SettledRest:
        """Those whom this pass and earlier ones have settled."""
        before = self._before
        if before is not None:
            return SettledRest(
                self.grid,
                before.pays,
                before.rows[numbers],
                before.with_open(passed.choice),
                before.worth + passed.worth,
                before.spent + passed.spent,
                (*before.ranges, range_),
            )

        def pays(choice: Array) -> bool:
            """Of a table in chunks: what the settled cost was summed up where they are."""
            return rounded(passed.cost + cost_of(rows, choice)) <= self.grid.money

        keeps = pays if self.here is None else self.here.pays
        return SettledRest(self.grid, keeps, numbers, passed.choice, passed.worth, passed.spent, (range_,))

    def bound_at(self, priced: Priced) -> float:
        """The bound that prices of the contested customers give for the whole table; grid units of value."""
        tree = tree_of(self.table.problem.limits)
        found = LimitPrices.of(tree, priced.solution.potentials)
        prices, limits = found.paid[tree.leaf], float(found.worth.sum())
        total = self.table.fold(partial(_worth, prices, priced.rate), int.__add__)
        return (rounded(total) + limits + priced.rate * self.grid.money) * self.grid.value_scale


class Contested(NamedTuple):
    """The customers whose place depends on where in a range the budget price lies."""

    problem: Lagrangian
    ends: Ends  # of the range


def contested_part(
    table: BudgetTable, *, within: Ends | None, spread: float, to_nothing: bool = False
) -> Contested | None:
    """The customers whom the budget concerns; None: the sample tells too little, or too many would stay open.

    within: the ends of a range found before, on a larger table.
    spread: half-widths of the boxes in standard errors. to_nothing: as in `range_of`.
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
    range_, margin = range_of(points, to_nothing=to_nothing), SAMPLE_MARGIN * sample.magnitude
    open_share = sample.open_share(range_, margin)
    if open_share > TOO_MANY:
        return None
    problem = table.settle(range_, margin=margin, open_share=open_share)
    if problem is None:
        return None
    problem.begin_at(points[0].potentials)
    return Contested(problem, (points[0], points[-1]))
