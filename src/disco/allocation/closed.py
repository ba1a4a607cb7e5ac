"""Depths that a cap of 0 closes for everybody or a segment, where there are segments: priced after the solve.

Nobody gets such a code, so it changes no other price. Its own price is what the first code of it would bring,

    max(0, max_i v_ik - (v_ia - price_a)),   a: the place of customer i,

the value of one extreme customer, to which Newton on a sample is no help. One pass over everybody finds it.
"""

from dataclasses import dataclass, replace

import numpy as np

from disco.allocation.cells import or_no_costs, or_no_segments, or_none
from disco.allocation.grid import grid_scale
from disco.allocation.limits import Tree
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem
from disco.records.arrays import Array
from disco.records.compiled import njit


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
