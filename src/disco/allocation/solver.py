"""The exact solver: guess prices on a sample, settle almost everybody in one pass, prove the rest.

1. Newton on a sample gives prices and error bars (a box). 2. One pass over all customers fixes those whose best place
is the same everywhere in the box and keeps the others, among them whoever might want a scarce depth. 3. Newton and a
second, much smaller box on what is left. 4. Exact shortest paths on the last few. If the final prices lie in the boxes,
every fixed customer is right and the whole is optimal. If not, boxes widen; then `ties` takes over, which ends with
everybody if it must: always exact.
"""

import math
from typing import NamedTuple

import numpy as np

from disco.allocation.cells import sample_rows, take
from disco.allocation.closed import Closed
from disco.allocation.grid import grid_scale, to_grid
from disco.allocation.limits import Limits, Tree, tree_of
from disco.allocation.newton import descend, guess, tied
from disco.allocation.paths import Assignment, settle_from
from disco.allocation.problem import AllocationProblem
from disco.allocation.screen import Apart, PriceBox, Screened, keep_everybody, run_screen, screen
from disco.allocation.segments import solve_segments
from disco.allocation.ties import solve_exactly
from disco.records.arrays import Array
from disco.records.ports import Engine

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
