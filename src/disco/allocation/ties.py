"""The exact route for values with many ties, for segments, and for small tables: everything in grid integers.

Shortest paths on a sample give value prices and hash prices; a pass over all customers settles those whose place wins
by more than the sampling error of those prices; shortest paths on the rest; the box is checked, or everybody is kept.
"""

from typing import NamedTuple

import numpy as np

from disco.allocation.grid import NEVER, grid_scale, tie_hash
from disco.allocation.limits import Tree
from disco.allocation.paths import Assignment, Settled, settle_from
from disco.allocation.problem import AllocationProblem
from disco.allocation.table import or_no_costs, or_no_segments, or_none, sample_rows, take
from disco.records.arrays import Array
from disco.records.compiled import njit

_FEW = 4_000  # customers; up to here a sample would be hardly smaller than the table, and none is taken
_HASH_RANGE = 2.0**49  # of a tie hash
_SPREADS = (3.0, 12.0, 12.0)  # half-widths of hash prices, in standard errors; each from the prices found before


class GridBox(NamedTuple):
    """Prices in grid integers with widths, each (groups, depths); kernels take it as it is."""

    value_price: Array
    hash_price: Array
    value_width: Array
    hash_width: Array


@njit(nogil=True, cache=True)
def _screen_exactly(
    values: Array,
    eligible: Array,
    costs: Array,
    rate: float,
    segment: Array,
    keys: Array,
    scale: float,
    keep_negative: bool,
    box: GridBox,
    choice: Array,
    counts: Array,
    rows: Array,
    kept: Array,
) -> int:
    """Fill choice, add settled customers to counts (groups, depths), copy the open ones as grid integers.

    eligible, costs, segment: empty where there are none.
    Returns how many are open, copied or not.
    """
    value_price, hash_price, value_width, hash_width = box
    columns = values.shape[0]
    worth = np.empty(columns, np.int64)
    opened = 0
    for i in range(values.shape[1]):
        group = segment[i] if segment.size > 0 else 0
        best = -1
        best_value = 0
        best_hash = 0
        for k in range(columns):
            x = np.float64(values[k, i])
            if costs.size > 0:
                x -= rate * np.float64(costs[k, i])
            if (eligible.size > 0 and not eligible[k, i]) or (x < 0.0 and not keep_negative):
                worth[k] = NEVER
                continue
            worth[k] = np.int64(np.rint(x * scale))
            value = worth[k] - value_price[group, k]
            if value < best_value:
                continue
            tie = tie_hash(keys[i], k) - hash_price[group, k]
            if value > best_value or tie > best_hash:
                best = k
                best_value = value
                best_hash = tie
        own_width = value_width[group, best] if best >= 0 else 0
        is_open = False
        for k in range(-1, columns):
            if k == best or (k >= 0 and worth[k] == NEVER):
                continue
            margin = best_value
            if k >= 0:
                margin -= worth[k] - value_price[group, k]
            width = own_width + (value_width[group, k] if k >= 0 else 0)
            if margin > width:
                continue
            if width == 0:
                ahead = best_hash
                if k >= 0:
                    ahead -= tie_hash(keys[i], k) - hash_price[group, k]
                reach = hash_width[group, best] if best >= 0 else 0
                if k >= 0:
                    reach += hash_width[group, k]
                if ahead > reach:
                    continue
            is_open = True
            break
        choice[i] = best
        if is_open:
            if opened < rows.size:
                rows[opened] = i
                for k in range(columns):
                    kept[opened, k] = worth[k]
            opened += 1
        elif best >= 0:
            counts[group, best] += 1
    return opened


def screen_exactly(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, segment: Array | None, keys: Array,
    scale: float, keep_negative: bool, box: GridBox, *, room: int,
) -> "ExactPass":  # fmt: skip
    """A pass over customers: settled are those whose place is the same at all prices of a box. A pure function."""
    columns, customers = values.shape
    choice, counts = np.empty(customers, np.int16), np.zeros(box.value_price.shape, np.int64)
    rows, kept = np.empty(room, np.int64), np.empty((room, columns), np.int64)
    opened = _screen_exactly(
        values, or_none(eligible), or_no_costs(costs, values), rate, or_no_segments(segment), keys, scale,
        keep_negative, box, choice, counts, rows, kept,
    )  # fmt: skip
    listed = opened if opened <= room else 0
    return ExactPass(kept[:listed], rows[:listed], choice, counts)


class ExactPass(NamedTuple):
    """What a pass in integers leaves behind."""

    worth: Array  # (open, depths) grid integers of the open customers; none of them where there was no room for all
    rows: Array  # (open,) their row numbers
    choice: Array  # (customers,)
    counts: Array  # (groups, depths) settled customers


def solve_exactly(
    problem: AllocationProblem, tree: Tree, *, rate: float = 0.0, warm: Array | None = None
) -> Assignment:
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
            sampled = np.zeros(tree.leaf.size + 1)
            np.add.at(sampled, start.places + 1, 1.0)
            by_place = sampled[1:].reshape(tree.leaf.shape)
            for spread in _SPREADS:
                found = _within_box(problem, tree, keys, rate, scale, start, hash_widths(by_place, spread))
                if isinstance(found, Assignment):
                    return found
                if found is start and spread == _SPREADS[-1]:  # the same pass again would say the same
                    break
                start = found
    worth, rows, choice, _ = _pass(problem, tree, keys, rate, scale, None)
    group = None if problem.limits.segment is None else problem.limits.segment[rows]
    settled = settle_from(worth, keys[rows], group, tree, tree.low, tree.high, scale, warm, start)
    if settled is None:
        return Assignment(np.full(problem.customers, -1, np.int16), np.zeros(tree.nodes), tree, feasible=False)
    choice[rows] = settled.choice
    return Assignment(choice, settled.potentials, tree)


def _largest(problem: AllocationProblem, rate: float) -> float:
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
    problem: AllocationProblem, tree: Tree, keys: Array, *, size: int, rate: float, scale: float, warm: Array | None,
    start: Settled | None,
) -> Settled | None:  # fmt: skip
    rows = sample_rows(problem.customers, size, 1)
    low, high = tree.scaled(rows.size / problem.customers)
    limits = problem.limits
    part = AllocationProblem(
        problem.values.take(rows, axis=1),
        limits,
        None if problem.eligible is None else problem.eligible.take(rows, axis=1),
        None if problem.costs is None else problem.costs.take(rows, axis=1),
    )
    worth, taken, _, _ = _pass(part, tree, keys[rows], rate, scale, None)
    rows = rows[taken]
    group = None if limits.segment is None else limits.segment[rows]
    return settle_from(worth, keys[rows], group, tree, low, high, scale, warm, start) or start


def _pass(
    problem: AllocationProblem, tree: Tree, keys: Array, rate: float, scale: float, box: GridBox | None
) -> ExactPass:
    """One pass over everybody; without a box whoever is eligible stays open."""
    segment = None if box is None or tree.leaf.shape[0] == 1 else problem.limits.segment
    room = problem.customers if box is None else problem.customers // 3 + 1024
    if box is None:
        everything = np.full(tree.leaf.shape, 2**60)
        nothing = np.zeros_like(everything)
        box = GridBox(nothing, nothing, everything, nothing)
    return screen_exactly(
        problem.values, problem.eligible, problem.costs if rate != 0.0 else None, rate, segment, keys, scale,
        problem.limits.has_floors, box, room=room,
    )  # fmt: skip


def hash_widths(sampled: Array, spread: float) -> Array:
    """Half-widths of hash prices, `spread` standard errors, from how many customers of a sample each place has."""
    share = spread / np.sqrt(np.maximum(sampled, 1.0))
    return np.minimum(share * _HASH_RANGE, 2.0**51).astype(np.int64)


def _within_box(
    problem: AllocationProblem, tree: Tree, keys: Array, rate: float, scale: float, start: Settled, hash_width: Array
) -> Assignment | Settled:
    """Settle everybody outside the sampling error of `start`; where that was larger than thought, a better start.

    hash_width: (groups, depths) of the hash prices.
    """
    prices, hashes = start.values[tree.leaf], start.hashes[tree.leaf]
    width = np.zeros_like(prices)
    worth, rows, choice, counts = _pass(problem, tree, keys, rate, scale, GridBox(prices, hashes, width, hash_width))
    low, high = tree.less(counts)
    if rows.size == 0 or (high < 0).any():
        return start
    group = None if problem.limits.segment is None else problem.limits.segment[rows]
    found = settle_from(worth, keys[rows], group, tree, low, high, scale, None, start)
    if found is None:
        return start
    near = np.abs(found.hashes[tree.leaf] - hashes) <= hash_width
    if not (near & (found.values[tree.leaf] == prices)).all():
        return found
    choice[rows] = found.choice
    return Assignment(choice, found.potentials, tree)
