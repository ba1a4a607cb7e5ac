"""Whom a budget concerns: customers whose place is not the same for every budget price in a range.

At a budget price λ a customer's places bid v - λ·c - p. The range is given by two ends, each a λ with a box of prices p
around it. A place that wins at the worst corner of either box wins everywhere between them too, for bids are linear in
(λ, p): with t from 0 to 1, at λ = (1 - t)·λ_low + t·λ_high for all p in (1 - t)·box_low + t·box_high. So a customer
with the same such winner at both ends is settled, whatever the budget price turns out to be, and only the others are
kept.

`count_range` and `screen_range` are pure functions of one chunk of customers: what they are handed is small (two budget
prices with prices, which `rates` finds on a sample), and what they return is summed (counts, values, costs) or laid
side by side (rows). The ends are a guess; each solve among those who were kept says whether its prices are within the
boxes, and only then everybody else was settled rightly.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from disco.allocation.bids import BLOCK, compete, compete_two
from disco.allocation.cells import load_line
from disco.allocation.lagrangian import Lagrangian, Outside, RateRange
from disco.allocation.limits import UNLIMITED, Limits, tree_of
from disco.allocation.problem import AllocationProblem
from disco.allocation.rates import Point, RateSample, columns_of, find_ends, find_near, range_of
from disco.allocation.screen import PriceBox
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit

# None of these changes how good a result is, only the time it takes
_CHUNK = 65_536  # customers per chunk
WORTH_IT = 0.6  # a pass that would keep a larger share of the customers saves too little


@njit(nogil=True, cache=True)
def _bid(
    values: Array, eligible: Array | None, costs: Array, segment: Array | None, rate: float, box: PriceBox, base: int,
    lines: Array, first: Array, second: Array, winner: Array,
) -> None:  # fmt: skip
    """The best two bids of a block of customers where every price is at its lowest in a box; winner 0: no code."""
    columns, count = values.shape[0], first.size
    centre, width, none_width = box.centre, box.width, box.none_width
    for j in range(count):
        first[j] = none_width
        second[j] = -np.inf
        winner[j] = 0
    for k in range(0, columns - 1, 2):
        for ahead in range(2):
            load_line(values, eligible, costs, rate, segment, centre, width, k + ahead, base, lines[ahead, :count])
        compete_two(lines[0, :count], lines[1, :count], 0.0, 0.0, k + 1, first, second, winner)
    if columns % 2:
        load_line(values, eligible, costs, rate, segment, centre, width, columns - 1, base, lines[0, :count])
        compete(lines[0, :count], 0.0, columns, first, second, winner)


@njit(nogil=True, cache=True)
def count_range(
    values: Array,
    eligible: Array | None,
    costs: Array,
    segment: Array | None,
    start: int,
    stop: int,
    rates: tuple[float, float],
    prices: tuple[Array, Array],
    cost_scale: float,
    counts: Array,
) -> tuple[int, int]:
    """Add to counts (2, groups, depths) who wants what at the prices of either end; Σ of their costs in grid units."""
    first, second, winner = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.int64)
    lines, none = np.empty((2, BLOCK)), np.zeros(prices[0].shape)
    spent = np.zeros(2, np.int64)
    wanted = np.zeros((2, counts.shape[1], counts.shape[2] + 1), np.int64)
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for end in range(2):
            point = PriceBox(prices[end], none, 0.0)
            _bid(
                values, eligible, costs, segment, rates[end], point, base, lines,
                first[:count], second[:count], winner[:count],
            )  # fmt: skip
            for j in range(count):
                group = 0
                if segment is not None:
                    group = segment[base + j]
                wanted[end, group, winner[j]] += 1
                some = max(winner[j] - 1, 0)  # read a cell in any case: whether to would be a branch hard to predict
                cost = int(np.rint(np.float64(costs[some, base + j]) * cost_scale))
                spent[end] += cost if winner[j] > 0 else 0
    counts += wanted[:, :, 1:]
    return spent[0], spent[1]


@njit(nogil=True, cache=True)
def screen_range(
    values: Array,
    eligible: Array | None,
    costs: Array,
    segment: Array | None,
    start: int,
    stop: int,
    rates: tuple[float, float],
    boxes: tuple[PriceBox, PriceBox],
    margin: float,
    scales: tuple[float, float],
    choice: Array,
    counts: Array,
    rows: Array,
) -> tuple[int, int, int]:
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    scales: grid units per unit of value and of cost.
    Returns how many are open (beyond the room in rows: counted, not listed), and Σ values and Σ costs of the settled in
    grid units.
    """
    columns = values.shape[0]
    groups = counts.shape[0]
    first, second = np.empty((2, BLOCK)), np.empty((2, BLOCK))
    winner = np.empty((2, BLOCK), np.int64)
    lines = np.empty((2, BLOCK))
    reach = np.empty((2, groups, columns + 1))
    for end in range(2):
        reach[end, :, 0] = 2.0 * boxes[end].none_width + margin
        reach[end, :, 1:] = 2.0 * boxes[end].width + margin
    opened = 0
    worth = 0
    spent = 0
    settled = np.zeros((groups, columns + 1), np.int64)
    near = np.empty(BLOCK + 1, np.int64)  # the open ones of a block, written down without a branch
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        found = 0
        for end in range(2):
            _bid(
                values, eligible, costs, segment, rates[end], boxes[end], base, lines,
                first[end, :count], second[end, :count], winner[end, :count],
            )  # fmt: skip
        for j in range(count):
            group = 0
            if segment is not None:
                group = segment[base + j]
            place = winner[0, j]
            choice[base - start + j] = place - 1
            is_open = (
                (place != winner[1, j])
                | (first[0, j] - second[0, j] <= reach[0, group, place])
                | (first[1, j] - second[1, j] <= reach[1, group, place])
            )
            near[found] = base + j
            found += 1 if is_open else 0
            at = 0 if is_open else place
            settled[group, at] += 1
            some = max(place - 1, 0)  # read a cell in any case: whether to would be a branch hard to predict
            gain = int(np.rint(np.float64(values[some, base + j]) * scales[0]))
            cost = int(np.rint(np.float64(costs[some, base + j]) * scales[1]))
            worth += gain if at > 0 else 0
            spent += cost if at > 0 else 0
        listed = min(found, max(rows.size - opened, 0))
        rows[opened : opened + listed] = near[:listed]
        opened += found
    counts += settled[:, 1:]
    return opened, worth, spent


class _Part(NamedTuple):
    """What the pass found in one chunk."""

    opened: int
    worth: int
    spent: int
    choice: Array
    counts: Array
    rows: Array


@dataclass(frozen=True, slots=True)
class SettledPart:
    """What a pass leaves behind."""

    choice: Array  # (customers,), only a guess for the open ones
    counts: Array  # (groups, depths) settled customers
    worth: int  # Σ values of the settled, grid units
    spent: int  # Σ costs of the settled, grid units
    rows: Array  # (open,) row numbers, by key


def settle_range(lagrangian: Lagrangian, range_: RateRange, *, margin: float, room_share: float) -> SettledPart | None:
    """Settle everybody whose place is the same in the whole range; None: more than half stay open.

    room_share: of the customers for whom there is room to stay open; where it is too little, the pass is repeated.
    """
    problem, groups = lagrangian.problem, range_.boxes[0].centre.shape[0]
    customers = problem.customers
    scales = (lagrangian.value_scale, lagrangian.cost_scale)

    def settled(chunk: slice) -> _Part:
        size = chunk.stop - chunk.start
        choice = np.empty(size, np.int16)
        counts = np.zeros((groups, problem.columns), np.int64)
        rows = np.empty(int(size * share) + 256, np.int64)
        opened, worth, spent = screen_range(
            problem.values, problem.eligible, lagrangian.costs, problem.limits.segment, chunk.start, chunk.stop,
            range_.rates, range_.boxes, margin, scales, choice, counts, rows,
        )  # fmt: skip
        return _Part(opened, worth, spent, choice, counts, rows[:opened])

    share = room_share
    for _ in range(2):
        parts = list(spread(settled, row_chunks(customers, size=_CHUNK), engine=lagrangian.engine))
        opened = sum(part.opened for part in parts)
        if opened > WORTH_IT * customers:
            return None
        if sum(part.rows.size for part in parts) == opened:
            break
        share = 1.0
    rows = np.concatenate([part.rows for part in parts])
    return SettledPart(
        np.concatenate([part.choice for part in parts]),
        np.sum([part.counts for part in parts], axis=0),
        sum(part.worth for part in parts),
        sum(part.spent for part in parts),
        rows[np.argsort(problem.keys_of(rows), kind="stable")],  # so that the order of rows shows nowhere
    )


def count_both(lagrangian: Lagrangian, ends: tuple[Point, Point]) -> tuple[Array, tuple[int, int]]:
    """What everybody wants at the prices of two points: counts (2, groups, depths), and Σ of costs in grid units."""
    problem = lagrangian.problem
    rates, prices = (ends[0].rate, ends[1].rate), (ends[0].prices, ends[1].prices)

    def counted(chunk: slice) -> tuple[Array, tuple[int, int]]:
        counts = np.zeros((2, *prices[0].shape), np.int64)
        spent = count_range(
            problem.values, problem.eligible, lagrangian.costs, problem.limits.segment, chunk.start, chunk.stop,
            rates, prices, lagrangian.cost_scale, counts,
        )  # fmt: skip
        return counts, spent

    parts = list(spread(counted, row_chunks(problem.customers, size=_CHUNK), engine=lagrangian.engine))
    low, high = (sum(spent[end] for _, spent in parts) for end in range(2))
    return np.sum([counts for counts, _ in parts], axis=0), (low, high)


class Narrowing(Protocol):
    """`narrowed`, or the same for a table in chunks."""

    def __call__(
        self, lagrangian: Lagrangian, *, within: tuple[Point, Point] | None, spread: float
    ) -> tuple[Lagrangian, tuple[Point, Point]] | None: ...


def narrowed(
    lagrangian: Lagrangian, *, within: tuple[Point, Point] | None, spread: float
) -> tuple[Lagrangian, tuple[Point, Point]] | None:
    """The problem of those whom the budget concerns, and the ends of the range of budget prices it is good for.

    1. A sample gives a range. 2. One pass counts everybody at both of its ends, which takes most of the sampling noise
    away. 3. A second pass with the narrower range settles all but few. None: the sample tells too little, or too many
    would be kept.

    within: the ends of a range found before, on a larger table.
    spread: half-widths of the boxes in standard errors.
    """
    if lagrangian.budget <= 0:
        return None
    sample = RateSample(lagrangian, spread=spread)
    if sample.size < 0.5 * lagrangian.problem.customers:
        near = find_near(sample, within=within)
        if near is None:
            return None
        within = near[1]
        sample.correct(within, *count_both(lagrangian, within))
    ends = find_ends(sample, within=within)
    if ends is None:
        return None
    range_, margin = range_of(ends), 1e-10 * sample.magnitude
    room = open_share(sample, range_, margin)
    if room > WORTH_IT:
        return None
    settled = settle_range(lagrangian, range_, margin=margin, room_share=min(1.0, 1.2 * room + 0.02))
    if settled is None or (tree_of(lagrangian.problem.limits).less(settled.counts)[1] < 0).any():
        return None
    return begun_at(_rest(lagrangian, settled, range_), ends)


def begun_at(rest: Lagrangian, ends: list[Point]) -> tuple[Lagrangian, tuple[Point, Point]]:
    """The problem of the others, which begins with the prices of the first end, and both ends."""
    rest.warm = ends[0].potentials[: rest.problem.columns] if rest.problem.limits.has_floors else ends[0].potentials
    return rest, (ends[0], ends[-1])


def open_share(sample: RateSample, range_: RateRange, margin: float) -> float:
    """The share of a sample that a pass with this range would leave open."""
    counts = np.zeros(range_.boxes[0].centre.shape, np.int64)
    opened, _, _ = screen_range(
        sample.values, sample.eligible, sample.costs, sample.segment, 0, sample.size, range_.rates, range_.boxes,
        margin, sample.scales, np.empty(sample.size, np.int16), counts, np.empty(0, np.int64),
    )  # fmt: skip
    return opened / sample.size


def _rest(lagrangian: Lagrangian, settled: SettledPart, range_: RateRange) -> Lagrangian:
    """The problem of the customers whom the pass left open, within what the settled ones leave of the limits."""
    problem, rows, limits = lagrangian.problem, settled.rows, lagrangian.problem.limits
    before = lagrangian.outside
    if before is None:
        outside = Outside(lagrangian, rows, settled.choice, settled.worth, settled.spent, (range_,))
    else:
        outside = Outside(
            before.whole,
            before.rows[rows],
            before.with_open(settled.choice),
            before.worth + settled.worth,
            before.spent + settled.spent,
            (*before.ranges, range_),
        )
    budget = max((lagrangian.budget - outside.spent) / lagrangian.cost_scale, 0.0)
    part = AllocationProblem(
        columns_of(problem.values, rows),
        less_limits(limits, settled, budget),
        None if problem.eligible is None else columns_of(problem.eligible, rows),
        columns_of(lagrangian.costs, rows),
        problem.keys_of(rows),
        problem.depths,
        problem.largest_cost,
        least_top=outside.whole.grid_top,
    )
    return Lagrangian(part, warm=lagrangian.warm, engine=lagrangian.engine, outside=outside)


def less_limits(limits: Limits, settled: SettledPart, budget: float) -> Limits:
    """What the settled customers leave of the limits."""

    def caps(most: Array, taken: Array) -> Array:
        return np.where(most >= UNLIMITED, UNLIMITED, most - taken)

    total = settled.counts.sum(axis=0)
    floors = np.maximum(limits.floors - total, 0)
    if limits.segment is None or limits.segment_caps is None or limits.segment_floors is None:
        return Limits(caps(limits.caps, total), floors, budget=budget)
    return Limits(
        caps(limits.caps, total),
        floors,
        caps(limits.segment_caps, settled.counts),
        np.maximum(limits.segment_floors - settled.counts, 0),
        limits.segment[settled.rows],
        limits.segment_labels,
        budget,
    )
