"""The exact route for values with many ties, for segments, and for small tables: everything in grid integers.

Shortest paths on a sample give value prices and hash prices; a pass over all customers settles those whose place wins
by more than the sampling error of those prices; shortest paths on the rest; the box is checked, or everybody is kept.
"""

import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.grid import grid_scale
from disco.allocation.lexicographic import screen_exactly
from disco.allocation.problem import Problem
from disco.allocation.sampling import sample_rows, take
from disco.allocation.solution import Settled, Solution, settle_from
from disco.allocation.tree import Tree

_FEW = 4_000  # up to here no sample is taken
_HASH_RANGE = 2.0**49


def solve_exactly(problem: Problem, tree: Tree, *, rate: float = 0.0, warm: Array | None = None) -> Solution:
    """Exact optimum without floating point: correct for any values, fastest where Newton cannot work."""
    top = _largest(problem, rate)
    scale = grid_scale(top, nodes=tree.nodes)
    keys = problem.keys_of(np.arange(problem.customers))
    start: Settled | None = None
    if problem.customers > _FEW:
        size = 1024
        while size <= min(16_384, problem.customers // 8):
            start = _on_sample(problem, tree, keys, size=size, rate=rate, scale=scale, warm=warm, start=start)
            size *= 4
        if start is not None:
            for spread in (3.0, 12.0):
                found = _within_box(problem, tree, keys, rate, scale, start, spread)
                if found is not None:
                    return found
    worth, rows, choice, _ = _pass(problem, tree, keys, rate, scale, None)
    group = None if problem.limits.segment is None else problem.limits.segment[rows]
    settled = settle_from(worth, keys[rows], group, tree, tree.low, tree.high, scale, warm, start)
    if settled is None:
        return Solution(np.full(problem.customers, -1, np.int16), np.zeros(tree.nodes), tree, feasible=False)
    choice[rows] = settled.choice
    return Solution(choice, settled.potentials, tree)


def _largest(problem: Problem, rate: float) -> float:
    """The value that sets the grid, from one pass over all cells."""
    block = 65_536
    top = size = 0.0
    for start in range(0, problem.customers, block):
        rows = np.arange(start, min(start + block, problem.customers))
        part = np.empty((problem.columns, rows.size))
        magnitude, largest = take(problem.values, problem.eligible, problem.costs, rate, rows, part)
        problem.refuse_unless_finite(magnitude)
        top, size = max(top, largest), max(size, magnitude)
    return problem.grid_top(top, size, rate)


def _on_sample(
    problem: Problem, tree: Tree, keys: Array, *, size: int, rate: float, scale: float, warm: Array | None,
    start: Settled | None,
) -> Settled | None:  # fmt: skip
    rows = sample_rows(problem.customers, size, 1)
    low, high = tree.scaled(rows.size / problem.customers)
    limits = problem.limits
    part = Problem(
        problem.values[:, rows],
        limits,
        None if problem.eligible is None else problem.eligible[:, rows],
        None if problem.costs is None else problem.costs[:, rows],
    )
    worth, taken, _, _ = _pass(part, tree, keys[rows], rate, scale, None)
    rows = rows[taken]
    group = None if limits.segment is None else limits.segment[rows]
    return settle_from(worth, keys[rows], group, tree, low, high, scale, warm, start) or start


def _pass(
    problem: Problem, tree: Tree, keys: Array, rate: float, scale: float, box: tuple[Array, Array, Array] | None,
    hash_width: Array | None = None,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """(open customers as grid integers, their rows, choice, counts); without a box whoever is eligible is open."""
    groups, columns = tree.leaf.shape
    customers = problem.customers
    box_is_everything = box is None
    room = customers if box is None else customers // 3 + 1024
    if box is None:
        everything = np.full((groups, columns), 2**60)
        box = (np.zeros_like(everything), np.zeros_like(everything), everything)
    if hash_width is None:
        hash_width = np.zeros((groups, columns), np.int64)
    choice = np.empty(customers, np.int16)
    counts = np.zeros((groups, columns), np.int64)
    rows = np.empty(room, np.int64)
    kept = np.empty((room, columns), np.int64)
    segment = None if box_is_everything or groups == 1 else problem.limits.segment
    opened = screen_exactly(
        problem.values, problem.eligible, problem.costs if rate != 0.0 else None, rate,
        segment, keys, 0, customers, scale, problem.limits.has_floors,
        box[0], box[1], box[2], hash_width, choice, counts, rows, kept,
    )  # fmt: skip
    if opened > room:
        return kept[:0], rows[:0], choice, counts
    return kept[:opened], rows[:opened], choice, counts


def _within_box(
    problem: Problem, tree: Tree, keys: Array, rate: float, scale: float, start: Settled, spread: float
) -> Solution | None:
    """Settle everybody outside the sampling error of `start`; None when that error was larger than thought."""
    sampled = np.zeros(tree.leaf.size + 1)
    np.add.at(sampled, start.places + 1, 1.0)
    share = spread / np.sqrt(np.maximum(sampled[1:], 1.0)).reshape(tree.leaf.shape)
    hash_width = np.minimum(share * _HASH_RANGE, 2.0**51).astype(np.int64)
    prices, hashes = start.values[tree.leaf], start.hashes[tree.leaf]
    width = np.zeros_like(prices)
    worth, rows, choice, counts = _pass(problem, tree, keys, rate, scale, (prices, hashes, width), hash_width)
    if rows.size == 0:
        return None
    low, high = tree.less(counts)
    if (high < 0).any():
        return None
    group = None if problem.limits.segment is None else problem.limits.segment[rows]
    found = settle_from(worth, keys[rows], group, tree, low, high, scale, None, start)
    if found is None:
        return None
    near = np.abs(found.hashes[tree.leaf] - hashes) <= hash_width
    if not (near & (found.values[tree.leaf] == prices)).all():
        return None
    choice[rows] = found.choice
    return Solution(choice, found.potentials, tree)
