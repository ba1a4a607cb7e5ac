"""The exact solver: guess prices on a sample, settle almost everybody in one pass, prove the rest.

1. Newton on a sample gives prices and error bars (a box). 2. One pass over all customers fixes those whose best place is
the same everywhere in the box and keeps the others. 3. Newton and a second, much smaller box on what is left. 4. Exact
shortest paths on the last few. If the final prices lie in the boxes, every fixed customer is right and the whole is
optimal; if not, the boxes widen and in the end hold everybody, so the method always ends with the exact optimum.
"""

import math
from dataclasses import dataclass

import numpy as np

from disco.allocation.grid import grid_scale, to_grid
from disco.allocation.network import NEVER, settle
from disco.allocation.newton import box, descend
from disco.allocation.passes import Screened, run_screen
from disco.allocation.problem import Problem
from disco.allocation.sampling import sample_rows, take
from disco.allocation.tree import Tree, tree_of
from disco.records.arrays import Integers, Keys, Vector

_FEW = 700  # up to here shortest paths alone are fastest
_MANY_TIES = 0.4  # a larger open share than any box of reals leaves: values are tied, a smaller box would not help


@dataclass(frozen=True, slots=True)
class Solution:
    """choice: (customers,) · potentials: (nodes,) prices summed up to each node of `tree` · feasible."""

    choice: Integers
    potentials: Vector
    tree: Tree
    feasible: bool = True


@dataclass(frozen=True, slots=True)
class _Box:
    centre: Vector  # (groups, depths)
    width: Vector
    none_width: float

    def holds(self, prices: Vector) -> bool:
        """Whether some common shift within none_width brings every price within its width, group by group."""
        off = prices - self.centre
        least = np.maximum((off - self.width).max(axis=1), -self.none_width)
        most = np.minimum((off + self.width).min(axis=1), self.none_width)
        return bool((least <= most).all())


def solve(problem: Problem, *, rate: float = 0.0, warm: Vector | None = None, threads: int = 1) -> Solution:
    """Exact optimum of Σ (value - rate · cost) within the limits; ties by hash. warm: (nodes,) potentials to start at."""
    tree = tree_of(problem.limits)
    customers = problem.customers
    if customers <= _FEW:
        return _solve_everybody(problem, tree, rate=rate, warm=warm)
    start = _segment_start(problem, tree, rate) if tree.leaf.shape[0] > 1 else None
    for attempt in range(3):
        guess = _guess(problem, tree, rate=rate, warm=warm, spread=4.0 * 4.0**attempt) if start is None else None
        if guess is None:
            break
        screened = run_screen(
            problem, rate=rate, centre=guess.centre, width=guess.width, none_width=guess.none_width, threads=threads
        )
        if screened.opened > _MANY_TIES * customers:
            break
        low, high = tree.less(screened.counts)
        if (high < 0).any():
            continue
        found = _solve_open(problem, tree, screened, low, high, guess.centre[0])
        if found is None:
            continue
        choice, potentials = found
        if guess.holds(potentials[tree.leaf]):
            screened.choice[screened.rows] = choice
            return Solution(screened.choice, potentials, tree)
        warm = potentials
    return _solve_everybody(problem, tree, rate=rate, warm=None if start is None else start)


def _guess(problem: Problem, tree: Tree, *, rate: float, warm: Vector | None, spread: float) -> _Box | None:
    """Prices and error bars from Newton on samples of growing size."""
    customers, columns = problem.customers, problem.columns
    prices = np.zeros(columns) if warm is None else warm[1 : columns + 1].copy()
    density = np.empty((columns, columns))
    counts = np.empty(columns)
    size = int(min(customers, max(1024, 24 * math.sqrt(customers))))
    run = 8 if customers >= 200_000 else 1
    rows = sample_rows(customers, size, run)
    sample = np.empty((columns, rows.size))
    take(problem.values, problem.eligible, problem.costs, rate, rows, sample)
    share = rows.size / customers
    low, high = tree.low[1:] * share, tree.high[1:] * share
    if warm is None:
        small = np.ascontiguousarray(sample[:, :: max(1, rows.size // 256)])
        part = small.shape[1] / rows.size
        descend(small, low * part, high * part, prices, 24, 2.0, counts, density)
    descend(sample, low, high, prices, 6, 2.0 + 0.05 * math.sqrt(rows.size), counts, density)
    width = np.empty(columns)
    shift = box(density, prices, counts, low, high, float(rows.size), 1.0 - share, spread, width)
    if not np.isfinite(width).all() or not np.isfinite(shift):
        return None
    return _Box(prices[None, :], width[None, :], shift)


def _solve_open(
    problem: Problem, tree: Tree, screened: Screened, low: Integers, high: Integers, prices: Vector
) -> tuple[Integers, Vector] | None:
    """Exact places of the open customers: a second, smaller box first, shortest paths on what it leaves."""
    kept, rows = screened.kept, screened.rows
    scale = grid_scale(screened.largest, nodes=tree.nodes)
    floors = problem.limits.has_floors
    if rows.size > 300:
        columns = problem.columns
        better = prices.copy()
        density = np.empty((columns, columns))
        counts = np.empty(columns)
        by_depth = np.ascontiguousarray(kept.T)
        low_left, high_left = np.maximum(low[1:], 0).astype(float), high[1:].astype(float)
        descend(by_depth, low_left, high_left, better, 8, 2.0, counts, density)
        width = np.empty(columns)
        for spread in (3.0, 12.0):
            shift = box(density, better, counts, low_left, high_left, float(rows.size), 0.0, spread, width)
            inner = _Box(better[None, :], width[None, :].copy(), shift)
            open_problem = Problem(by_depth, problem.limits)
            again = run_screen(
                open_problem, rate=0.0, centre=inner.centre, width=inner.width, none_width=shift,
                least_margin=screened.margin,
            )  # fmt: skip
            inner_low, inner_high = low.copy(), high.copy()
            inner_low[1:] -= again.counts[0]
            inner_high[1:] -= again.counts[0]
            if again.opened > 0.7 * rows.size or (inner_high < 0).any():
                break
            keys = problem.keys_of(rows[again.rows])
            found = _shortest_paths(again.kept, keys, None, tree, inner_low, inner_high, scale, floors, better)
            if found is not None and inner.holds(found[1][tree.leaf]):
                again.choice[again.rows] = found[0]
                return again.choice, found[1]
    return _shortest_paths(kept, problem.keys_of(rows), None, tree, low, high, scale, floors, prices)


def _shortest_paths(
    kept: Vector, keys: Keys, group: Integers | None, tree: Tree, low: Integers, high: Integers, scale: float,
    floors: bool, prices: Vector | None, hash_start: Integers | None = None,
) -> tuple[Integers, Vector] | None:  # fmt: skip
    """Choice of these customers and potentials in money; None when the limits cannot be met."""
    found = _settle_on_grid(kept, keys, group, tree, low, high, scale, floors, prices, hash_start)
    return None if found is None else found[:2]


def _settle_on_grid(
    kept: Vector, keys: Keys, group: Integers | None, tree: Tree, low: Integers, high: Integers, scale: float,
    floors: bool, prices: Vector | None, hash_start: Integers | None,
) -> tuple[Integers, Vector, Integers] | None:  # fmt: skip
    worth = np.empty(kept.shape, np.int64)
    to_grid(kept, scale, floors, worth)
    values = np.zeros(tree.nodes, np.int64)
    if prices is not None:
        values[1 : 1 + prices.size] = np.rint(prices * scale)
        if tree.leaf.shape[0] > 1 and prices.size < tree.nodes - 1:
            values[tree.leaf] = values[1 : 1 + tree.leaf.shape[1]]
    hashes = np.zeros(tree.nodes, np.int64) if hash_start is None else hash_start.copy()
    _start_within_limits(tree, low, high, values, hashes)
    choice = np.empty(kept.shape[0], np.int64)
    groups = np.zeros(kept.shape[0], np.int64) if group is None else group
    feasible, _ = settle(worth, keys, groups, tree.leaf, tree.parent, low, high, values, hashes, choice)
    return (choice, values / scale, hashes) if feasible else None


def _start_within_limits(tree: Tree, low: Integers, high: Integers, values: Integers, hashes: Integers) -> None:
    """A limit that cannot bind may carry no price: no cap, no positive one; no floor, no negative one."""
    for node in range(1, tree.nodes):
        above = tree.parent[node]
        price = (values[node] - values[above], hashes[node] - hashes[above])
        if (price > (0, 0) and high[node] > 2**39) or (price < (0, 0) and low[node] <= 0):
            values[node], hashes[node] = values[above], hashes[above]


def _solve_everybody(problem: Problem, tree: Tree, *, rate: float, warm: Vector | None) -> Solution:
    """Shortest paths for all customers, started from the exact prices of a sample: hash prices too, so ties are cheap."""
    everybody = np.arange(problem.customers)
    by_depth = np.empty((problem.columns, problem.customers))
    take(problem.values, problem.eligible, problem.costs, rate, everybody, by_depth)
    kept = np.ascontiguousarray(by_depth.T)
    del by_depth
    floors = problem.limits.has_floors
    finite = kept[np.isfinite(kept)]
    largest = 0.0 if not finite.size else float(np.abs(finite).max() if floors else max(finite.max(), 0.0))
    scale = grid_scale(largest, nodes=tree.nodes)
    prices = None if warm is None else warm[1:]
    hashes = None
    group = problem.limits.segment
    keys = problem.keys_of(everybody)
    if problem.customers > 4 * _FEW:
        rows = sample_rows(problem.customers, 4 * _FEW, 1)
        low, high = tree.scaled(rows.size / problem.customers)
        part = None if group is None else group[rows]
        found = _settle_on_grid(kept[rows], keys[rows], part, tree, low, high, scale, floors, prices, None)
        if found is not None:
            prices, hashes = found[1][1:], found[2]
    done = _shortest_paths(kept, keys, group, tree, tree.low, tree.high, scale, floors, prices, hashes)
    if done is None:
        return Solution(np.full(problem.customers, -1, np.int16), np.zeros(tree.nodes), tree, feasible=False)
    return Solution(done[0].astype(np.int16), done[1], tree)


def _segment_start(problem: Problem, tree: Tree, rate: float) -> Vector | None:
    """Potentials without segment limits: where the search for segment prices begins."""
    return np.zeros(tree.nodes)
