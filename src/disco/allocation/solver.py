"""The exact solver: guess prices on a sample, settle almost everybody in one pass, prove the rest.

1. Newton on a sample gives prices and error bars (a box). 2. One pass over all customers fixes those whose best place
is the same everywhere in the box and keeps the others, among them whoever might want a scarce depth. 3. Newton and a
second, much smaller box on what is left. 4. Exact shortest paths on the last few. If the final prices lie in the boxes,
every fixed customer is right and the whole is optimal. If not, boxes widen; then `ties` takes over, which ends with
everybody if it must: always exact.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import grid_scale, to_grid
from disco.allocation.limits import Limits, Tree, tree_of
from disco.allocation.newton import descend, guess, tied
from disco.allocation.paths import Assignment, settle_from
from disco.allocation.problem import AllocationProblem
from disco.allocation.screen import Apart, PriceBox, Screened, keep_everybody, run_screen, screen
from disco.allocation.segments import solve_segments
from disco.allocation.table import or_no_costs, or_no_segments, or_none, sample_rows, take
from disco.allocation.ties import solve_exactly
from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.ports import Engine


@njit(nogil=True, cache=True)
def _largest(values: Array, eligible: Array) -> float:
    """The largest value of an eligible cell, at least 0; what is no number is found by the solve."""
    largest = 0.0
    for k in range(values.shape[0]):
        for i in range(values.shape[1]):
            x = np.float64(values[k, i])
            if x > largest and (eligible.size == 0 or eligible[k, i]):
                largest = x
    return largest


@njit(nogil=True, cache=True)
def _first_codes(
    values: Array,
    eligible: Array,
    costs: Array,
    rate: float,
    segment: Array,
    choice: Array,
    prices: Array,
    closed: Array,
    scale: float,
    found: Array,
) -> None:
    """found[g, k] = the largest v_ik - (v_ia - price_a) of a closed place, at least 0. Grid integers, (groups, depths).

    A loss is never given away where there are no floors, so it has no price.
    """
    columns, customers = values.shape
    for i in range(customers):
        g = segment[i] if segment.size > 0 else 0
        own = 0
        a = choice[i]
        if a >= 0:
            x = np.float64(values[a, i])
            if costs.size > 0:
                x -= rate * np.float64(costs[a, i])
            own = np.int64(np.rint(x * scale)) - prices[g, a]
        for k in range(columns):
            if not closed[g, k] or (eligible.size > 0 and not eligible[k, i]):
                continue
            x = np.float64(values[k, i])
            if costs.size > 0:
                x -= rate * np.float64(costs[k, i])
            if x >= 0.0:
                found[g, k] = max(found[g, k], np.int64(np.rint(x * scale)) - own)


def first_codes(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, segment: Array | None, choice: Array,
    prices: Array, closed: Array, scale: float,
) -> Array:  # fmt: skip
    """(groups, depths) what the first code of each closed place would bring, in grid integers: 0 for the others."""
    found = np.zeros(closed.shape, np.int64)
    _first_codes(
        values, or_none(eligible), or_no_costs(costs, values), rate, or_no_segments(segment),
        choice.astype(np.int16, copy=False), prices, closed, scale, found,
    )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class Closed:
    """The places of a problem without floors that nobody may get."""

    problem: AllocationProblem
    tree: Tree
    places: Array  # (groups, depths) Booleans
    largest: float  # value of an eligible cell; it sets the grid of the whole table

    @classmethod
    def of(cls, problem: AllocationProblem, tree: Tree) -> "Closed | None":
        """None: there is no such place, or there are floors."""
        columns = problem.columns
        places = (tree.high[tree.leaf] == 0) | (tree.high[1 : columns + 1] == 0)
        if problem.limits.has_floors or not places.any():
            return None
        return cls(problem, tree, places, _largest(problem.values, or_none(problem.eligible)))

    def left(self) -> AllocationProblem:
        """The problem in which nobody is eligible for them."""
        problem, segment = self.problem, self.problem.limits.segment
        if segment is None:
            offered = np.broadcast_to(~self.places[0][:, None], problem.values.shape)
        else:
            offered = ~self.places.T[:, segment]
        eligible = np.array(offered) if problem.eligible is None else offered & problem.eligible
        return replace(problem, eligible=np.ascontiguousarray(eligible), least_top=self.largest)

    def start(self, warm: Array | None) -> Array | None:
        """Prices to begin with, at which the places cost nothing."""
        if warm is None:
            return None
        columns = self.problem.columns
        start = warm.copy()
        start[:columns][self.tree.high[1 : columns + 1] == 0] = 0.0
        if start.size > columns:
            leaves, above = start[columns:].reshape(self.places.shape), start[:columns]
            leaves[:] = np.where(self.places, above, leaves)
        return start

    def priced(self, found: Assignment, *, rate: float) -> Assignment:
        """The solution of `left` with the prices of these places."""
        problem = self.problem
        first = first_codes(
            problem.values, problem.eligible, problem.costs if rate != 0.0 else None, rate, problem.limits.segment,
            found.choice, self.on_grid(found), self.places, self.scale,
        )  # fmt: skip
        return self.with_first(found, first)

    @property
    def scale(self) -> float:
        """Grid units per unit of value."""
        return grid_scale(self.largest, nodes=self.tree.nodes)

    def on_grid(self, found: Assignment) -> Array:
        """(groups, depths) prices in grid integers, which they are exactly."""
        return np.rint(found.potentials[self.tree.leaf] * self.scale).astype(np.int64)

    def with_first(self, found: Assignment, first: Array) -> Assignment:
        """The solution with the prices of these places; first: what the first code of each would bring."""
        tree, columns = self.tree, self.problem.columns
        potentials = found.potentials.copy()
        worth = first / self.scale
        depth_closed = tree.high[1 : columns + 1] == 0
        if tree.leaf.shape[0] == 1:
            potentials[1:] = np.where(depth_closed, worth[0], potentials[1:])
            return replace(found, potentials=potentials)
        leaf_closed = tree.high[tree.leaf] == 0
        # one code of a closed depth goes to the best segment that may have it
        most = np.where(leaf_closed, 0.0, worth).max(axis=0)
        potentials[1 : columns + 1] = np.where(depth_closed, most, potentials[1 : columns + 1])
        above = potentials[1 : columns + 1]
        leaves = np.where(depth_closed, above, potentials[tree.leaf])
        potentials[tree.leaf] = np.where(leaf_closed, np.maximum(above, worth), leaves)
        return replace(found, potentials=potentials)


# None of these changes a result, only the time it takes (tests/contracts/test_contract_solvers.py moves them). Times
# are of one processor, eight depths, caps for 80% of the customers.
_FEW = 200  # up to here shortest paths alone: 0.3 against 0.5 ms with Newton at 100 customers, 1.2 against 0.6 at 400
_FEW_IN_SEGMENTS = 25_000  # up to here shortest paths and no boxes, with limits of segments: 12 ms on either way
_FEW_KNOWN_IN_SEGMENTS = 2_000  # the same from the prices of a similar solve: 5 against 15 ms at 10,000 customers
_ONE_LEVEL = 12_000  # up to here everybody is the sample: 1.3 against 1.9 ms at 6,000 customers, equal at 12,000
_OPEN_SHARE = 0.3  # a guess that leaves more open gets a sample four times as large
_USELESS = 0.4  # a guess that leaves more open settles too few to be worth a pass and a copy of the rest
_COPIED = 1_500_000  # customers, at most, who are then all kept: 100 MB as float64
_SETTLED_AT_ONCE = 250_000  # open customers, at most, whom shortest paths take on alone when boxes fail
_SPREADS = (3.5, 14.0)  # half-widths of the boxes, in standard errors: the second where the first does not hold
_INNER_SPREADS = (3.0, 12.0)  # the same for those whom the first pass left open


class _PathsBeforeCompiling:
    """Small tables in an environment where nothing was compiled yet: shortest paths alone, for a while.

    Newton and its screen take 8 s to compile and save 0.7 to 1.7 ms of 5,000 customers. So the first tables go the
    way that needs the fewest kernels, until so many customers have that the time lost is a good part of that. Both ways
    give the same places and prices.
    """

    def __init__(self, customers: int) -> None:
        self.left = customers

    def serve(self, customers: int) -> bool:
        """Whether a table of so many customers goes that way; it is counted."""
        if self.left <= 0 or descend.is_ready():
            return False
        self.left -= customers
        return True


_PATHS_BEFORE_COMPILING = _PathsBeforeCompiling(10_000_000)  # 1.4 to 3.4 s in all, at 5,000 customers of 4 to 8 depths


class Placed(NamedTuple):
    """Where everybody of a (part of a) table goes, and the prices that prove it."""

    choice: Array  # (customers,)
    potentials: Array  # (nodes,)


class _Guess(NamedTuple):
    """Prices with error bars, from a sample."""

    box: PriceBox
    prices: Array  # (depths,) where customers want about as many codes as there are
    open_share: float  # of the customers whom the box leaves open, about
    margin: float  # by how much a place must win: far above rounding
    apart: Apart  # how far prices may be from each other


def solve(
    problem: AllocationProblem, *, rate: float = 0.0, warm: Array | None = None, engine: Engine | None = None
) -> Assignment:
    """Exact optimum of Σ (value - rate · cost) within the limits; ties by hash.

    warm: one price per depth, or the potentials of all limits without the root's.
    """
    tree = tree_of(problem.limits)
    if problem.customers <= _FEW:
        return solve_exactly(problem, tree, rate=rate, warm=_of_depths(warm, problem))
    closed = Closed.of(problem, tree) if tree.leaf.shape[0] > 1 else None  # one depth for everybody is only scarce
    if closed is None:
        return _solve(problem, tree, rate=rate, warm=warm, engine=engine)
    found = _solve(closed.left(), tree, rate=rate, warm=closed.start(warm), engine=engine)
    return closed.priced(found, rate=rate)


def _solve(
    problem: AllocationProblem, tree: Tree, *, rate: float, warm: Array | None, engine: Engine | None
) -> Assignment:
    """`solve` for many customers, where every place may be taken by somebody."""
    customers = problem.customers
    if tree.leaf.shape[0] > 1:
        known = warm is not None and warm.size == tree.nodes - 1
        by_boxes = None
        if customers > (_FEW_KNOWN_IN_SEGMENTS if known else _FEW_IN_SEGMENTS):
            by_boxes = solve_segments(problem, tree, rate=rate, prices=warm, engine=engine)
        return by_boxes or solve_exactly(problem, tree, rate=rate, warm=_of_depths(warm, problem))
    if customers <= _ONE_LEVEL and _PATHS_BEFORE_COMPILING.serve(customers):
        return solve_exactly(problem, tree, rate=rate, warm=warm)
    if customers <= _ONE_LEVEL:
        everybody = keep_everybody(problem, rate)
        placed = _solve_open(problem, tree, everybody, tree.low, tree.high, warm)
    else:
        placed = _solve_level(problem, tree, tree.low, tree.high, np.arange(0), rate=rate, prices=warm, engine=engine)
    if placed is None:
        return solve_exactly(problem, tree, rate=rate, warm=warm)
    return Assignment(placed.choice, placed.potentials, tree)


def _of_depths(warm: Array | None, problem: AllocationProblem) -> Array | None:
    return None if warm is None else warm[: problem.columns]


def _solve_level(
    problem: AllocationProblem, tree: Tree, low: Array, high: Array, rows: Array, *, rate: float, prices: Array | None,
    engine: Engine | None = None, grid: Screened | None = None,
) -> Placed | None:  # fmt: skip
    """By sample, box, pass, and the same again on whom the pass leaves open; None: boxes do not settle this table.

    rows: the customers' numbers in the whole table (empty: this is the whole table).
    grid: the pass above this one.
    """
    for spread in _SPREADS:
        guessed = _guess(problem, low, high, rate=rate, prices=prices, spread=spread)
        if guessed is None:
            return None
        box, near, share, margin, apart = guessed
        if share > _USELESS and problem.customers <= _COPIED:
            everybody = keep_everybody(problem, rate, rows=rows, grid=grid)
            return _solve_open(problem, tree, everybody, low, high, near)
        margin = margin if grid is None else grid.margin
        screened = run_screen(
            problem,
            box,
            rate=rate,
            engine=engine,
            least_margin=margin,
            room_share=min(1.0, 1.5 * share + 0.02),
            checked=grid is not None,
            apart=apart,
        )
        if screened.rows.size < screened.opened or screened.opened > 0.5 * problem.customers:
            return None
        low_left, high_left = tree.less(screened.counts, low, high)
        if (high_left < 0).any():
            continue
        top = screened if grid is None else grid
        numbers = rows[screened.rows] if rows.size else screened.rows
        inner = Screened(
            screened.choice, screened.counts, numbers, screened.kept, screened.opened, top.largest, top.margin
        )
        prices = near
        found = place_open(problem, tree, inner, low_left, high_left, prices, engine=engine)
        if found is None:
            return None
        leaves = found.potentials[tree.leaf]
        if box.holds(leaves) and apart.holds(leaves[0], margin=screened.margin):
            screened.choice[screened.rows] = found.choice
            return Placed(screened.choice, found.potentials)
        prices = found.potentials[1:]
    return None


def place_open(
    problem: AllocationProblem, tree: Tree, screened: Screened, low: Array, high: Array, prices: Array, *,
    engine: Engine | None = None,
) -> Placed | None:  # fmt: skip
    """Exact places of the customers whom a pass left open, within what the settled ones leave of the limits.

    screened: their values and their numbers in the table to which the keys of `problem` belong.
    None: values tie too often for boxes, and they are too many for shortest paths alone.
    """
    if screened.opened <= _ONE_LEVEL:
        found = _solve_open(problem, tree, screened, low, high, prices)
    else:
        part = AllocationProblem(screened.kept, problem.limits, keys=problem.keys)
        found = _solve_level(
            part, tree, low, high, screened.rows, rate=0.0, prices=prices, engine=engine, grid=screened
        )
    if found is None and screened.opened <= _SETTLED_AT_ONCE:
        found = _settle_open(problem, tree, screened, low, high, prices)
    return found


def _guess(
    problem: AllocationProblem, low: Array, high: Array, *, rate: float, prices: Array | None, spread: float
) -> _Guess | None:
    """By Newton on a sample; None: values tie too often for Newton."""
    customers, columns = problem.customers, problem.columns
    cold, lost = prices is None, False
    centre = np.zeros(columns) if prices is None else prices.copy()
    width, lowest, error = np.empty(columns), np.empty(columns), np.empty((columns, columns))
    size = int(min(max(2048, 48 * math.sqrt(customers)), customers // 2))
    run = 32 if customers >= 100_000 and spread < 10.0 else 1  # neighbours share cache lines, but may be alike
    while True:
        rows = sample_rows(customers, size, run)
        sample = np.empty((columns, rows.size))
        magnitude, _ = take(problem.values, problem.eligible, problem.costs, rate, rows, sample)
        top = magnitude + rate * problem.largest_cost
        np.clip(centre, -top, top, out=centre)  # prices from elsewhere may be nonsense
        share = rows.size / customers
        low_part, high_part = np.maximum(low[1:], 0) * share, high[1:] * share
        tolerance = 2.0 + 0.15 * math.sqrt(rows.size)
        shift, left, opened = guess(
            sample, low_part, high_part, centre, cold, 40, tolerance, 1.0 - share, spread, width, lowest, error
        )
        if not math.isfinite(opened) or left > 8.0 * tolerance:
            if lost or tied(sample):
                return None
            centre = sample_prices(sample, low_part, high_part)
            cold, lost = False, True
            continue
        box = box_of_guess(centre, width, lowest, shift, magnitude)
        apart = apart_of_guess(centre, width, lowest, shift, error, spread)
        opened = min(opened, _left_open(sample, box, apart, 1e-10 * magnitude))
        useless = opened > _USELESS * rows.size and customers <= _COPIED
        if useless and tied(sample):
            return None
        if opened <= _OPEN_SHARE * rows.size or 4 * size > customers // 3 or useless:
            return _Guess(box, centre, opened / rows.size, 1e-10 * magnitude, apart)
        size *= 4
        cold = False


def box_of_guess(prices: Array, width: Array, lowest: Array, shift: float, magnitude: float) -> PriceBox:
    """The box of a guess. That of a scarce depth reaches so far up that nobody is settled at it."""
    scarce = lowest > -np.inf
    half, centre = width.copy(), prices.copy()  # a width may be infinite, as every lower end but those of scarce depths
    half[scarce] = min(1024.0 * magnitude, np.finfo(np.float64).max / 8)
    centre[scarce] = lowest[scarce] + half[scarce]
    return PriceBox(centre[None, :], half[None, :], shift)


def apart_of_guess(prices: Array, width: Array, lowest: Array, shift: float, error: Array, spread: float) -> Apart:
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
    return Apart(both)


def _left_open(sample: Array, box: PriceBox, apart: Apart, margin: float) -> int:
    """How many customers of a sample a pass would leave open."""
    return screen(sample, None, None, 0.0, None, slice(0, sample.shape[1]), box, margin, apart, room=0).opened


def sample_prices(sample: Array, low: Array, high: Array) -> Array:
    """Exact prices of about a thousand customers: where Newton from nowhere loses its way, these show it."""
    step = max(1, sample.shape[1] // 1024)
    few = np.ascontiguousarray(sample[:, ::step])
    finite = few[np.isfinite(few)]
    scale = grid_scale(float(np.abs(finite).max(initial=0.0)), nodes=few.shape[0] + 1)
    worth = np.empty(few.shape[::-1], np.int64)
    to_grid(few, scale, bool((low > 0).any()), worth)
    caps = np.maximum(np.rint(high / step), high > 0).astype(np.int64)
    tree = tree_of(Limits(caps, np.minimum(np.floor(low / step), caps).astype(np.int64)))
    keys = np.arange(few.shape[1]).astype(np.uint64)
    found = settle_from(worth, keys, None, tree, tree.low, tree.high, scale, None)
    return np.zeros(few.shape[0]) if found is None else found.potentials[1:]


def _solve_open(
    problem: AllocationProblem, tree: Tree, screened: Screened, low: Array, high: Array, prices: Array | None
) -> Placed | None:
    """Exact places of the open customers: a smaller box first, shortest paths on what it leaves; None: many ties."""
    by_depth, rows = screened.kept, screened.rows
    columns, opened = problem.columns, by_depth.shape[1]
    scale = grid_scale(screened.largest, nodes=tree.nodes)
    floors = problem.limits.has_floors
    centre = np.zeros(columns) if prices is None else np.clip(prices, -screened.largest, screened.largest)
    if opened > 300:
        low_left, high_left = np.maximum(low[1:], 0).astype(float), high[1:].astype(float)
        width, lowest = np.empty(columns), np.empty(columns)
        cold, tolerance = prices is None, 2.0 + 0.05 * math.sqrt(opened)
        for spread in _INNER_SPREADS:
            shift, left, _ = guess(
                by_depth, low_left, high_left, centre, cold, 30, tolerance, 0.0, spread, width, lowest
            )
            if left > 50.0 + 0.01 * opened:
                if tied(by_depth):
                    return None
                centre = sample_prices(by_depth, low_left, high_left)
                shift, left, _ = guess(
                    by_depth, low_left, high_left, centre, False, 30, tolerance, 0.0, spread, width, lowest
                )
            box = box_of_guess(centre, width, lowest, shift, screened.largest)
            inner = run_screen(
                AllocationProblem(by_depth, problem.limits), box, least_margin=screened.margin, checked=True
            )
            if inner.opened > 0.5 * opened:
                return None
            low_inner, high_inner = low.copy(), high.copy()
            low_inner[1:] -= inner.counts[0]
            high_inner[1:] -= inner.counts[0]
            if (high_inner < 0).any():
                cold = False
                continue
            worth = np.empty(inner.kept.shape[::-1], np.int64)
            to_grid(inner.kept, scale, floors, worth)
            keys = problem.keys_of(rows[inner.rows])
            found = settle_from(worth, keys, None, tree, low_inner, high_inner, scale, centre)
            if found is not None and box.holds(found.potentials[tree.leaf]):
                inner.choice[inner.rows] = found.choice
                return Placed(inner.choice, found.potentials)
            cold = False
    return None if opened > 4000 else _settle_open(problem, tree, screened, low, high, centre)


def _settle_open(
    problem: AllocationProblem, tree: Tree, screened: Screened, low: Array, high: Array, prices: Array
) -> Placed | None:
    """Shortest paths on all open customers: exact whatever the values, slower than a box; None: limits conflict."""
    scale = grid_scale(screened.largest, nodes=tree.nodes)
    worth = np.empty((screened.rows.size, problem.columns), np.int64)
    to_grid(screened.kept, scale, problem.limits.has_floors, worth)
    found = settle_from(worth, problem.keys_of(screened.rows), None, tree, low, high, scale, prices)
    return None if found is None else Placed(found.choice, found.potentials)
