"""THE driver: sample → prices with error bars → one pass with a rule → shortest paths over the open customers → are the
prices in the box? → widen.

1. Newton on a sample gives prices and a box around them (`dual`). 2. One pass over the table settles everybody whose
place is the same everywhere in the box (`rules.InBox`) and brings the others, among them whoever might want a scarce
depth. 3. They are a smaller table, solved in the same way: from a sample as long as they are many, then from all of
them, and the last few by exact shortest paths (`paths`). 4. If the final prices lie in the box, every settled customer
is right and the whole is optimal. If not, the next guess begins at the prices that were found, with a wider box.

Newton needs counts that move smoothly with prices. Where floors bind, or caps nearly add up to the customers, they do
not everywhere, and the guess comes from shortest paths on samples of growing size (`_guess_of_paths`). Where values
come again and again, boxes leave too many open as well. Then such prices are taken as exact on the grid, and only the
prices of tie hashes and the level of all prices have a width (`rules.OnGrid`). Where that does not hold either,
shortest paths take on everybody: always exact, whatever the values.

Why the result is optimal
-------------------------
Let p* be the final prices and x the allocation. Three things hold, and together they make the value of x equal to the
bound D(p*) of docs/maths.md, which no allocation exceeds:

- Every open customer has their best place at p*, for shortest paths end with potentials at which nobody gains by
  moving.
- Every settled customer has their best place at p*, too. The pass has settled them at a place that wins at *all* prices
  of the box, and p* is one of these. This is why the box is asked only at the end: until then it is a guess.
- A limit with a price is met exactly. The paths see what the settled customers leave of each limit (`Tree.left_after`)
  and give a positive price to a full cap alone, and a negative one to a floor that is just met.

Without floors, the prices are those of shortest paths over everybody, too. Optimal prices of the whole table suit the
open customers as well, so that the smallest of theirs, p*, are at most the smallest of the table. But p* is in the box
and suits the settled, so that it is itself among the prices of the table: the two are equal. And so are ties: whoever
was settled wins by more than a tie (`Grid.margin`), so that only open customers are indifferent, and the paths decide
by hash.

The certificate (`certificate`) does not believe any of this: it computes value and D(p*) anew from the table.

When prices leave the box
-------------------------
Then some settled customer might prefer another place, and nothing has been proved. Nobody is repaired one by one: the
whole pass is thrown away. Newton begins again, at the prices that were found and on a sample without neighbours, and
the box around its result is two and a half times as wide. The same happens where a pass settles more customers at a
place than its cap allows, for then no prices of the box can be right; no others were found, so that Newton begins at
the sample's. Where the sample is not everybody and segments have no limits, a third box has the prices of shortest
paths on samples, as every box has where Newton finds none. If the last box fails as well (values tie, or the samples
were unlike the table), the rule of ties is tried. The last resort is shortest paths over everybody, which need no box;
a table in chunks is brought here for them, or refused where it is too large. So a bad guess costs another pass, and
never a decision; with a budget it may change which allocation within the stated gap is found (`budget`).

What calls what: `solve` and `solve_table` are the doors, for tables in memory and in chunks. `_by_boxes` is one round
of steps 1 to 4, `_guess` is step 1, and `_among` solves whom a pass left open, by `_by_boxes` again or by `_paths`.
`_by_ties` is the same round with the rule of ties.

The table (`table.ValueTable`) is rows in memory, Parquet in chunks, or Spark partitions. Limits of depths and of
segments are a tree, and with a budget price λ values are v - λ·c. None of the constants here changes a decision, only
the time it takes (tests/contracts/test_contract_solvers.py moves them).
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.dual import Guess, Precision, descend, guess_prices, tied, tolerated_miss
from disco.allocation.grid import NEVER, grid_scale, to_grid
from disco.allocation.limits import Tree, scaled, tree_of
from disco.allocation.paths import Assignment, Routed, route_from
from disco.allocation.problem import AllocationProblem, Rows, TableCells
from disco.allocation.rules import GridBox, InBox, OnGrid, PriceBox, PriceGaps
from disco.allocation.table import (
    COPIED,
    MARGIN,
    SAMPLE_MARGIN,
    TOO_MANY,
    Grid,
    Pass,
    TableInMemory,
    TableSample,
    ValueTable,
    cell_range,
    open_cells,
)
from disco.records.arrays import Array
from disco.records.chunks import row_chunks
from disco.records.compiled import njit
from disco.records.ports import Engine

# Times are of one processor, eight depths, caps for 80% of the customers.

# Customers of a table, or whom a pass left open, up to whom shortest paths are less work than a box: 0.3 against 0.5 ms
# with Newton at 100, 1.2 against 0.6 at 400. With limits of segments: 12 ms on either way at 25,000, and from the
# prices of a similar solve 5 against 15 ms at 10,000.
_FEW, _FEW_IN_SEGMENTS, _FEW_KNOWN_IN_SEGMENTS = 300, 25_000, 2_000
# Customers up to whom everybody is the sample: 1.3 against 1.9 ms at 6,000, equal at 12,000.
_ALL_AT_ONCE = 12_000
# Open customers, at most, whom shortest paths take on alone where boxes fail.
_PATHS_ALONE = 250_000
# Shares of a sample: a guess that leaves more open gets a sample four times as large; one that leaves more than the
# second settles too few to be worth a pass and a copy of the rest.
_OPEN_SHARE, _USELESS = 0.3, 0.4
# Newton is lost where it misses a limit by so many times what is tolerated; by less, what is missed widens the box.
_MISSED = 8.0
# Half-widths of boxes, and of ranges of a budget price, in standard errors: the second where the first does not hold.
# Of a table whose customers are all in the sample, what is uncertain is where Newton stopped.
SPREADS = (3.5, 9.0)
# The same for prices of tie hashes.
_HASH_SPREAD = 3.0
# Passes of tied values, the second around the prices that the first has found.
_TIED_PASSES = 2
# Customers in samples that shortest paths solve, each begun at the prices of the one before. The largest takes 10 ms of
# 50 to 200 and halves the customers who stay open.
_SAMPLED_FOR_PATHS = (1_024, 4_096, 16_384, 65_536)
# The range of a tie hash.
_HASH_RANGE = 2.0**49


class _PathsBeforeCompiling:
    """Tables in an environment where nothing was compiled yet: shortest paths alone, for a while.

    Newton and its screen take 8 s to compile and save 0.4 ms of 5,000 customers, or 6 of 50,000. So the first tables go
    the way that needs the fewest kernels, until so many customers have that the time lost is a good part of that; one
    table is at most a hundredth of them. Without floors both ways give the same places and prices. With floors the
    prices may depend on where they began, and no result may depend on what is compiled: such tables always go by boxes.
    """

    def __init__(self, customers: int) -> None:
        self.left = customers

    def serve(self, customers: int) -> bool:
        """Whether a table of so many customers goes that way; it is counted."""
        if customers > self.left // 100 or descend.is_ready():
            return False
        self.left -= customers
        return True


# Customers in all: 1 to 2.5 s, of 4 to 8 depths.
_PATHS_BEFORE_COMPILING = _PathsBeforeCompiling(10_000_000)


def solve(
    problem: AllocationProblem, *, rate: float = 0.0, warm: Array | None = None, engine: Engine | None = None
) -> Assignment:
    """Exact optimum of Σ (value - rate · cost) within the limits; ties by hash.

    warm: one price per depth, or the potentials of all limits without the root's.
    """
    tree = tree_of(problem.limits)
    if problem.customers <= _FEW:
        return solve_on_grid(problem, tree, rate=rate, warm=warm)
    # a depth that is closed to all is found by selection (`dual._lowest`); only one closed in a segment needs this
    closed = Closed.of(problem, tree) if tree.leaf.shape[0] > 1 else None
    if closed is None:
        return _solve(problem, tree, rate=rate, warm=warm, engine=engine)
    found = _solve(closed.left(), tree, rate=rate, warm=closed.start(warm), engine=engine)
    return closed.priced(found, rate=rate)


def _solve(
    problem: AllocationProblem, tree: Tree, *, rate: float, warm: Array | None, engine: Engine | None
) -> Assignment:
    """`solve` for many customers, where every place may be taken by somebody."""
    customers, few, ties = problem.customers, 0, True
    if tree.leaf.shape[0] > 1:
        few = _FEW_KNOWN_IN_SEGMENTS if warm is not None and warm.size == tree.nodes - 1 else _FEW_IN_SEGMENTS
    if customers > few and not problem.limits.has_floors and _PATHS_BEFORE_COMPILING.serve(customers):
        few, ties = customers, False
    if customers > few:
        table = TableInMemory(problem, rate, engine)
        placed = _by_boxes(table, tree, tree.low, tree.high, warm, rate=rate)
        if placed is not None:
            return Assignment(placed.choice, placed.potentials, tree)
    return solve_on_grid(problem, tree, rate=rate, warm=warm, engine=engine, ties=ties)


def solve_on_grid(
    problem: AllocationProblem,
    tree: Tree,
    *,
    rate: float = 0.0,
    warm: Array | None = None,
    engine: Engine | None = None,
    ties: bool = True,
) -> Assignment:
    """The optimum in grid integers alone: correct for any values, fastest where Newton cannot work.

    warm: as in `solve`; only the prices of depths are read.
    ties: whether the rule of ties is tried first; its kernels would have to be compiled. False: there are no floors,
        with which prices may depend on the start.
    """
    prices = None if warm is None else warm[: problem.columns]
    table, of_sample = TableInMemory(problem, rate, engine), None
    if ties and problem.customers > 4 * _SAMPLED_FOR_PATHS[0]:  # of fewer, a sample would be as large as the table
        table = table.keyed()
        placed, of_sample = _by_ties(table, tree, prices, rate=rate)
        if placed is not None:
            return Assignment(placed.choice, placed.potentials, tree)
    elif not ties and prices is None:
        # a tenth of the moves, as they begin at the prices of every eighth customer
        sizes = [problem.customers // 64, problem.customers // 8]
        solved = _of_samples(table, tree, tree.low, tree.high, sizes, None)
        of_sample = solved[-1][1] if solved else None
    customers, grid = _all_on_grid(table, tree)
    routed = _paths(customers, tree, tree.low, tree.high, grid, prices, of_sample)
    if routed is None:
        return Assignment(np.full(problem.customers, -1, np.int16), np.zeros(tree.nodes), tree, feasible=False)
    return Assignment(routed.choice.astype(np.int16), routed.potentials, tree)


class Placed(NamedTuple):
    """Where the customers of a table go, and the prices that prove it.

    It is made only after the final prices were found to be among those of the rule.
    """

    choice: Array  # (customers at hand,)
    potentials: Array  # (nodes,) prices summed up to each node
    by: Pass  # who was settled, and by which rule


def solve_table(table: ValueTable, tree: Tree) -> Placed | None:
    """The driver for a table that is not here as a whole; None: neither boxes nor the rule of ties settle it."""
    placed = _by_boxes(table, tree, tree.low, tree.high, None)
    return placed if placed is not None else _by_ties(table, tree, None)[0]


def _by_boxes(
    table: ValueTable, tree: Tree, low: Array, high: Array, potentials: Array | None, *, rate: float = 0.0,
    sample_is_all: bool = False,
) -> Placed | None:  # fmt: skip
    """By sample, box, pass, and the same again on whom the pass leaves open; None: boxes do not settle this table.

    Two boxes are tried, and a third of shortest paths (without segments, where the sample is not everybody). A round is
    done where the final prices are in the box. Where they are not, or the settled customers break a cap, the next box
    is tried, which is wider. All other ends are None, whatever the cause: the caller tries another way, and the last
    way decides whether limits contradict each other. The causes are

    - nobody can be sampled, or everybody should be copied and is too many;
    - Newton finds no prices (`dual.guess_prices` lists why), or the box leaves most of the sample open;
    - the pass leaves too many open to be kept;
    - the open customers cannot meet what is left of the limits, which a wrong box may cause as well;
    - no box holds.

    low, high: (nodes,) what is left of the limits.
    potentials: (nodes - 1,) to begin with, prices summed up to each node without the root; None: from nowhere.
    rate: the table's budget price. Tables of open customers, and of everybody copied, hold net values: it is 0 there.
    sample_is_all: the sample is everybody, as of tables with few customers.
    """
    sample_is_all = sample_is_all or table.customers <= _ALL_AT_ONCE
    if sample_is_all and table.grid is None:
        here = table.everybody()
        return None if here is None else _by_boxes(here, tree, low, high, potentials, sample_is_all=True)
    if table.sizes[0] == 0:
        return None
    of_paths = () if sample_is_all or tree.leaf.shape[0] > 1 else (SPREADS[-1],)
    for again, spread in enumerate((*SPREADS, *of_paths)):
        guess = _guess(
            table, tree, low, high, potentials, spread=spread, rate=rate, sample_is_all=sample_is_all,
            newton=again < len(SPREADS), scattered=again > 0,
        )  # fmt: skip
        if guess is None:
            return None
        rule, potentials = guess.rule, guess.potentials
        if guess.open_share > _USELESS and not sample_is_all:
            here = table.everybody()
            if here is not None:
                return _by_boxes(here, tree, low, high, potentials, sample_is_all=True)
            if guess.open_share > TOO_MANY:
                return None
        passed = table.screen(rule, open_share=guess.open_share)
        if passed.grid.margin > rule.margin:  # a sample may miss the largest value by a factor of 100, not by more
            rule = replace(rule, margin=passed.grid.margin)
            passed = table.screen(rule, open_share=guess.open_share)
        if not passed.kept or passed.opened > TOO_MANY * table.customers:
            return None
        low_left, high_left = tree.left_after(passed.counts, low, high)
        if (high_left < 0).any():
            continue
        grid = Grid(passed.grid.top, rule.margin)
        open_table = TableInMemory(table.net(passed), engine=table.engine, grid=grid)
        found = _among(open_table, tree, low_left, high_left, potentials, box_was_tried=sample_is_all)
        if found is None:
            return None
        if rule.holds(found.potentials[tree.leaf]):
            return Placed(passed.fill_open(found.choice), found.potentials, passed)
        potentials = found.potentials[1:]
    return None


def _among(
    table: TableInMemory, tree: Tree, low: Array, high: Array, potentials: Array | None, *, box_was_tried: bool
) -> Placed | Routed | None:
    """Exact places of open customers: boxes again, or shortest paths on the last of them.

    None: they are too many for paths, or cannot meet the limits that are left to them.
    box_was_tried: around all of them, so that another would leave as many open.
    """
    found: Placed | Routed | None = None
    if table.customers > _FEW and not box_was_tried:
        found = _by_boxes(table, tree, low, high, potentials)
    most = _PATHS_ALONE if tree.leaf.shape[0] == 1 else _FEW_KNOWN_IN_SEGMENTS
    if found is None and (box_was_tried or table.customers <= most):
        assert table.grid is not None
        open_ones, start = _on_grid(table, tree, table.grid), None
        if tree.leaf.shape[0] == 1 and table.customers > 4 * _SAMPLED_FOR_PATHS[0]:  # their hashes have prices, too
            solved = _of_samples(table, tree, low, high, _sizes_of_samples(table), potentials)
            start = solved[-1][1] if solved else None
        found = _paths(open_ones, tree, low, high, table.grid, potentials, start)
    return found


class _BoxGuess(NamedTuple):
    """Prices of a sample, and the rule that settles whom their uncertainty does not concern."""

    potentials: Array
    rule: InBox
    open_share: float


def _guess(
    table: ValueTable, tree: Tree, low: Array, high: Array, potentials: Array | None, *, spread: float, rate: float,
    sample_is_all: bool, newton: bool, scattered: bool,
) -> _BoxGuess | None:  # fmt: skip
    """From a sample that grows until its box settles most customers; None: values tie, or nothing finds prices.

    The sample is solved by Newton for the limits' share of it. What the box would leave open is first estimated from
    the density of ties, and then counted on the sample itself, with the very rule of the pass. A sample four times as
    large has half the error, so that the box is half as wide and leaves half as many open; it is taken while that pays.
    Where Newton finds no prices, or only a box that settles too few, shortest paths on samples find others.

    newton: False: by shortest paths alone. scattered: no neighbours in the sample, who may be alike.
    """
    sizes = list((table.customers,) if sample_is_all else table.sizes)
    found = None
    while sizes and newton:
        sample = table.sample(sizes.pop(0), scattered=scattered)
        if not sample_is_all and tied(sample.net):
            return None
        share = sample.size / table.customers
        top = sample.magnitude + rate * table.problem.largest_cost if table.grid is None else table.grid.top
        tolerance = tolerated_miss(sample.size, noisy=not sample_is_all)
        low_part, high_part = np.maximum(low[1:], 0) * share, high[1:] * share
        precision = Precision(spread, tolerance, 1.0 - share)
        guess = guess_prices(sample, tree, low_part, high_part, potentials, precision, top=top)
        if guess is None or not math.isfinite(guess.open_share) or guess.missed > _MISSED * tolerance:
            break
        rule = _box_rule(guess, table, sample, rate)
        open_share = guess.open_share
        if not sample_is_all:
            open_share = min(open_share, rule.settle(sample.rows, slice(0, sample.size), 0).opened / sample.size)
        found, potentials = _BoxGuess(guess.potentials, rule, open_share), guess.potentials
        if open_share <= _OPEN_SHARE or (open_share > _USELESS and table.customers <= COPIED):
            break
    if sample_is_all or tree.leaf.shape[0] > 1 or (found is not None and found.open_share <= _USELESS):
        return found
    other = _guess_of_paths(table, tree, low, high, potentials, spread=spread, rate=rate)
    return found if other is None or other.open_share > _USELESS else other


def _guess_of_paths(
    table: ValueTable, tree: Tree, low: Array, high: Array, potentials: Array | None, *, spread: float, rate: float
) -> _BoxGuess | None:
    """The exact prices of a sample, and how far those of smaller ones were off; None: there are none to compare with.

    A price of a sample a quarter as large is off by twice as much, so that the difference of the two has three times
    the variance of what the larger is off by. Where the two share nobody that is too large, which is safe. Three
    differences may be small by chance: no two prices are taken to be closer known than a tenth of all pairs are. A
    price of no limit is known.
    """
    solved = _of_samples(table, tree, low, high, _sizes_of_samples(table), potentials)
    if len(solved) < 2:
        return None
    every = np.stack([places.potentials for _, places in solved])  # (samples, 1 + depths), "no code" first
    gaps = every[:, :, None] - every[:, None, :]
    sizes = np.array([few.keys.size for few, _ in solved], np.float64)  # one may be missing in between
    parts = (sizes[-1] / sizes[:-1] - 1.0)[:, None, None]
    variance = ((gaps[:-1] - gaps[-1]) ** 2 / parts).mean(axis=0)
    if (variance > 0.0).any():
        variance = np.maximum(variance, np.quantile(variance[variance > 0.0], 0.1))
    known = (high >= table.customers) & (low <= 0)
    off = np.where((known[:, None] & known) | np.eye(known.size, dtype=np.bool_), 0.0, spread * np.sqrt(variance))
    grid, box = table.known_grid(), PriceBox(every[-1:, 1:], off[None, 1:, 0].copy(), 0.0)
    rule = InBox(box, grid.margin, PriceGaps(gaps[-1] + off), rate)
    rule = replace(rule, margin=max(grid.margin, MARGIN * rule.largest_price))
    sample = table.sample(_SAMPLED_FOR_PATHS[-1])
    open_share = rule.settle(sample.rows, slice(0, sample.size), 0).opened / sample.size
    return _BoxGuess(every[-1, 1:], rule, open_share)


def _box_rule(guess: Guess, table: ValueTable, sample: TableSample, rate: float) -> InBox:
    """A place must win by a margin far above the rounding of a bid, or whoever is nearly indifferent would be settled
    by the last bits. Where prices are larger than all values, they set the rounding. A sample's margin is a hundred
    times as large, for it may miss the largest value."""
    margin = SAMPLE_MARGIN * sample.magnitude if table.grid is None else table.grid.margin
    rule = InBox(guess.box, margin, guess.gaps, rate)
    return replace(rule, margin=max(margin, MARGIN * rule.largest_price))


class _GridCells(NamedTuple):
    """Customers in grid integers, as shortest paths take them."""

    worth: Array  # (customers, depths)
    keys: Array
    group: Array | None  # None: there are no segments


def _on_grid(table: TableInMemory, tree: Tree, grid: Grid) -> _GridCells:
    """All customers of a table of net values."""
    problem = table.problem
    worth = np.empty(problem.values.shape[::-1], np.int64)
    to_grid(problem.values, grid_scale(grid.top, nodes=tree.nodes), problem.limits.has_floors, worth)
    return _GridCells(worth, problem.all_keys, problem.limits.segment)


def _all_on_grid(table: TableInMemory, tree: Tree) -> tuple[_GridCells, Grid]:
    """All customers of any table: block by block where a copy of it would be large."""
    here = table.everybody()
    if here is not None and here.grid is not None:
        return _on_grid(here, tree, here.grid), here.grid
    grid, problem = table.known_grid(), table.problem
    worth = np.empty(problem.values.shape[::-1], np.int64)
    for part in row_chunks(problem.customers):
        net = table.net_of(np.arange(part.start, part.stop))
        worth[part] = _on_grid(TableInMemory(net), tree, grid).worth
    return _GridCells(worth, problem.all_keys, problem.limits.segment), grid


def _paths(
    customers: _GridCells, tree: Tree, low: Array, high: Array, grid: Grid, prices: Array | None,
    start: Routed | None = None,
) -> Routed | None:  # fmt: skip
    """Shortest paths; None: the limits cannot be met. start: an earlier result, which replaces the prices."""
    scale = grid_scale(grid.top, nodes=tree.nodes)
    group = customers.group if tree.leaf.shape[0] > 1 else None
    return route_from(customers.worth, customers.keys, group, tree, low, high, scale, prices, start)


def _by_ties(
    table: ValueTable, tree: Tree, prices: Array | None, *, rate: float = 0.0
) -> tuple[Placed | None, Routed | None]:
    """Where the same values come again and again: exact prices of a sample, and a width for hashes alone.

    Returns the places, or None where no width settles the table, and the last prices found.

    With values of a few sizes, thousands of customers are indifferent at the same price, so that Newton sees no slope.
    But then a sample of some thousand has the very same prices in value as the table: these are taken as exact, and
    `GridBox.holds` refuses the result if the final ones differ in a single grid unit. Who of the indifferent customers
    gets a code is a question of their hashes alone. Hashes are spread evenly, so that their prices have a standard
    error like that of a share, which is what `grid_box` says.
    """
    grid, floors = table.known_grid(), bool((tree.low > 0).any())
    scale = grid_scale(grid.top, nodes=tree.nodes)
    solved = _of_samples(table, tree, tree.low, tree.high, _sizes_of_samples(table), prices)
    if not solved:
        return None, None
    few, start = solved[-1]
    box = grid_box(few, start, tree)
    for _ in range(_TIED_PASSES):
        passed = table.screen(OnGrid(box, scale, floors, rate), open_share=_USELESS)
        low, high = tree.left_after(passed.counts)
        found = None
        if passed.kept and passed.opened and not (high < 0).any():
            open_table = TableInMemory(table.net(passed))
            found = _paths(_on_grid(open_table, tree, grid), tree, low, high, grid, None, start)
        if found is None:  # another pass around the same prices would be the same
            break
        values, hashes = found.values[tree.leaf], found.hashes[tree.leaf]
        if box.holds(values, hashes):
            return Placed(passed.fill_open(found.choice), found.potentials, passed), found
        box, start = box._replace(value_price=values, hash_price=hashes), found
    return None, start


def _sizes_of_samples(table: ValueTable) -> list[int]:
    most = min(table.customers // 8, table.sizes[-1])
    return [size for size in _SAMPLED_FOR_PATHS if size <= most]


def _of_samples(
    table: ValueTable, tree: Tree, low: Array, high: Array, sizes: list[int], prices: Array | None
) -> list[tuple[_GridCells, Routed]]:
    """Samples and their exact places, each begun at the prices of the one before; without those whose limits clash."""
    grid = table.known_grid()
    solved: list[tuple[_GridCells, Routed]] = []
    scale = grid_scale(grid.top, nodes=tree.nodes)
    for size in sizes:
        sample = table.sample(size)
        worth = np.empty(sample.net.shape[::-1], np.int64)
        to_grid(sample.net, scale, bool((tree.low > 0).any()), worth)
        few = _GridCells(worth, table.keys_of(sample.numbers), sample.group)
        fewer = scaled(high, np.maximum(low, 0), sample.size / table.customers)
        found = _paths(few, tree, *fewer[::-1], grid, prices, solved[-1][1] if solved else None)
        if found is not None:
            solved.append((few, found))
    return solved


def grid_box(few: _GridCells, found: Routed, tree: Tree) -> GridBox:
    """The prices of a sample, with half-widths of `_HASH_SPREAD` standard errors.

    That of a place is the error of a share: how many customers of the sample it has. That of the level is in how many
    get nothing: so many more or fewer, in the order of what a best depth is worth to a customer beyond its price, and
    of those to whom it is worth nothing, in the order of their hashes.
    """
    counts = np.bincount(found.places + 1, minlength=tree.leaf.size + 1)
    prices = found.values[tree.leaf]
    best = (few.worth - (prices[0] if few.group is None else prices[few.group])).max(axis=1)
    best = best[best > NEVER // 2]  # of those who may have a code
    without = int(counts[0]) - (few.keys.size - best.size)
    more = int(_HASH_SPREAD * (1.0 + math.sqrt(without))) if without else 0
    ends = [max(without - more, 0), min(without + more, best.size - 1)]
    level = int(np.abs(np.partition(best, ends)[ends]).max()) if more else 0
    of_places = _HASH_SPREAD / np.sqrt(np.maximum(counts[1:].reshape(tree.leaf.shape), 1.0))
    of_none = np.array(more / max(int((best == 0).sum()), 1))
    width, none_width = ((np.minimum(share, 4.0) * _HASH_RANGE).astype(np.int64) for share in (of_places, of_none))
    return GridBox(prices, found.hashes[tree.leaf], width, level, int(none_width))


@njit(nogil=True, cache=True)
def _first_codes(
    cells: TableCells, rate: float, choice: Array, prices: Array, closed: Array, scale: float, found: Array
) -> None:
    """found[g, k] = the largest v_ik - (v_ia - price_a) of a closed place, at least 0. Grid integers, (groups, depths).

    A loss is never given away where there are no floors, so it has no price.
    """
    values, eligible, costs, segment = cells
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


def first_codes(rows: Rows, choice: Array, prices: Array, closed: Array, scale: float, *, rate: float = 0.0) -> Array:
    """(groups, depths) what the first code of each closed place would bring, in grid integers: 0 for the others."""
    found = np.zeros(closed.shape, np.int64)
    cells = rows.cells(costs=rate != 0.0)
    _first_codes(cells, rate, choice.astype(np.int16, copy=False), prices, closed, scale, found)
    return found


@dataclass(frozen=True, slots=True)
class Closed:
    """The places of a problem without floors that nobody may get: caps of 0.

    A cap of 0 has the price of the best use of a first code, which is one extreme customer's, so that no sample shows
    it, and a box around it would leave open whoever wants the place. So the problem is solved without these places
    (`left`), which changes no other price, and their prices are found by one more look at everybody (`first_codes`).
    """

    problem: AllocationProblem
    tree: Tree
    places: Array  # (groups, depths) Booleans
    largest: float  # value of an eligible cell; it sets the grid of the whole table

    @classmethod
    def of(cls, problem: AllocationProblem, tree: Tree) -> "Closed | None":
        """None: there is no such place, or there are floors, with which prices depend on each other."""
        columns = problem.columns
        places = (tree.high[tree.leaf] == 0) | (tree.high[1 : columns + 1] == 0)
        if problem.limits.has_floors or not places.any():
            return None
        largest, _ = cell_range(problem.rows, slice(0, problem.customers))
        return cls(problem, tree, places, largest)

    def left(self) -> AllocationProblem:
        """The problem in which nobody is eligible for them."""
        eligible = open_cells(self.problem.rows, self.places)
        return replace(self.problem, eligible=eligible, least_top=self.largest)

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
        first = first_codes(self.problem.rows, found.choice, self.on_grid(found), self.places, self.scale, rate=rate)
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
