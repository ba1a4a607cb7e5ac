"""What few customers with a budget could get, on the grid, and what each place loses against prices.

For prices p of the limits and a budget price λ, with D the bound they give, each allocation x within the limits has

    D - value(x) = Σ_i loss(i, x_i) + Σ_limits price · (what x leaves unused) + λ · (budget - cost(x)),   all terms ≥ 0.
"""

import math
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import tie_hash
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import UNLIMITED, Tree
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-44  # of the sums in a bound, far above what their rounding may be


class OptionTable(NamedTuple):
    """The customers in the order of their keys, on the grid; place 0 is no code, place 1 the first depth."""

    order: Array  # (customers,) row numbers
    keys: Array  # (customers,)
    node: Array  # (customers, places) the limit of each place, 0 for no code
    worth: Array  # (customers, places)
    cost: Array  # (customers, places)
    tie: Array  # (customers, places) hashes
    cost_scale: float  # grid units per unit of cost
    budget: int  # the largest cost, on the grid, that may be within the budget
    surely: int  # the largest one that is

    @classmethod
    def of(cls, lagrangian: Lagrangian, tree: Tree, pennies: Pennies | None) -> "OptionTable":
        """pennies: how costs are counted that are decimals; None: they are rounded to a grid of their own."""
        problem = lagrangian.problem
        keys = problem.keys_of(np.arange(problem.customers))
        order = np.argsort(keys, kind="stable")
        group = np.zeros(order.size, np.int64) if problem.limits.segment is None else problem.limits.segment[order]
        node, worth, cost, tie = (np.zeros((order.size, problem.columns + 1), np.int64) for _ in range(4))
        values, costs = problem.values[:, order], lagrangian.costs[:, order]
        if problem.eligible is not None:  # what stands in an ineligible cell may be any number
            allowed = problem.eligible[:, order]
            values, costs = np.where(allowed, values, 0.0), np.where(allowed, costs, 0.0)
        node[:, 1:] = tree.leaf[group]
        worth[:, 1:] = np.rint(values.T.astype(np.float64) * lagrangian.value_scale)
        _hashes(keys[order], tie)
        if pennies is not None:
            cost[:, 1:] = pennies.counted(costs.T)
            return cls(order, keys[order], node, worth, cost, tie, pennies.per_unit, pennies.budget, pennies.budget)
        cost[:, 1:] = np.rint(costs.T.astype(np.float64) * lagrangian.cost_scale)
        rounded = order.size // 2 + 1  # what rounding to the grid could hide
        budget = lagrangian.budget
        scale = lagrangian.cost_scale
        return cls(order, keys[order], node, worth, cost, tie, scale, budget + rounded, budget - rounded)

    @property
    def rows(self) -> Array:
        return np.arange(self.order.size)

    def places(self, choice: Array) -> Array:
        """(customers,) places of a choice of columns by row."""
        return choice[self.order].astype(np.int64) + 1

    def choice(self, places: Array) -> Array:
        """(customers,) the columns of places, by row."""
        by_row = np.empty(self.order.size, np.int16)
        by_row[self.order] = places - 1
        return by_row

    def worth_of(self, places: Array) -> int:
        return int(self.worth[self.rows, places].sum())

    def cost_of(self, places: Array) -> int:
        return int(self.cost[self.rows, places].sum())

    def counts_of(self, places: Array, tree: Tree) -> Array:
        """(nodes,) customers at each limit."""
        counts = np.zeros(tree.nodes, np.int64)
        node = self.node[self.rows, places]
        while node.any():
            counts += np.bincount(node, minlength=tree.nodes)
            node = np.where(node > 0, tree.parent[node], 0)
        counts[0] = 0
        return counts

    def better(self, one: Assignment, other: Assignment) -> Assignment:
        """That of larger value, or of equal value and larger hash."""

        def rank(solution: Assignment) -> tuple[int, int]:
            places = self.places(solution.choice)
            return self.worth_of(places), int(self.tie[self.rows, places].sum())

        return other if rank(other) > rank(one) else one


@njit(nogil=True, cache=True)
def _hashes(keys: Array, tie: Array) -> None:
    for i in range(keys.size):
        for column in range(tie.shape[1] - 1):
            tie[i, column + 1] = tie_hash(keys[i], column)


class Prices(NamedTuple):
    """Prices with the losses they imply, in grid units of value."""

    node: Array  # (nodes,) of each limit
    rate: float  # of one grid unit of cost
    loss: Array  # (customers, places), ∞ where not eligible
    bound: float  # D
    rounding: float  # far above what the rounding of these numbers may add up to

    @classmethod
    def of(cls, lagrangian: Lagrangian, best: Priced, table: OptionTable) -> "Prices":
        """Only such prices as limits can have, and the bound that follows from them."""
        problem, tree = lagrangian.problem, best.solution.tree
        potentials = best.solution.potentials
        price = np.zeros(tree.nodes)
        price[1:] = potentials[1:] - potentials[tree.parent[1:]]
        price[1:] = np.where(tree.low[1:] > 0, price[1:], np.maximum(price[1:], 0.0))
        price[1:] = np.where(tree.high[1:] < UNLIMITED, price[1:], np.minimum(price[1:], 0.0))
        place = price.copy()
        place[1:] += np.where(tree.parent[1:] > 0, price[tree.parent[1:]], 0.0)
        net = np.zeros((table.order.size, problem.columns + 1))
        costs = lagrangian.costs[:, table.order].T.astype(np.float64)
        net[:, 1:] = problem.values[:, table.order].T - best.rate * costs
        net -= place[table.node]
        if problem.eligible is not None:
            net[:, 1:][~problem.eligible[:, table.order].T] = -np.inf
        top = net.max(axis=1)
        limits = np.where(price[1:] > 0.0, price[1:] * tree.high[1:], price[1:] * tree.low[1:])
        bound = math.fsum([*top.tolist(), *limits.tolist(), best.rate * lagrangian.most])
        scale = lagrangian.value_scale
        rounding = _ROUNDING * (float(np.abs(table.worth).max(initial=0)) * table.order.size + abs(bound * scale))
        rate = best.rate * scale / table.cost_scale
        return cls(price * scale, rate, (top[:, None] - net) * scale, bound * scale, rounding)

    def lost(self, table: OptionTable, tree: Tree, places: Array) -> float:
        """D - value, less what the money left is worth."""
        counts = table.counts_of(places, tree)
        unused = np.where(self.node > 0.0, tree.high - counts, tree.low - counts)[1:]
        return float(self.loss[table.rows, places].sum() + (self.node[1:] * unused).sum())


def keeps_limits(counts: Array, tree: Tree) -> bool:
    return bool((counts[1:] >= tree.low[1:]).all() and (counts[1:] <= tree.high[1:]).all())
