"""What few customers with a budget could get, on the grid, and what each place loses against prices.

For prices p of the limits and a budget price λ, with D the bound they give, each allocation x within the limits has

    D - value(x) = Σ_i loss(i, x_i) + Σ_limits price · (what x leaves unused) + λ · (budget - cost(x)),   all terms ≥ 0.

So a cell that loses more than g is in no allocation that is worth more than D - g. What is left for a small g are a few
customers with a few cells each: they are open (`open_customers`), and everybody else keeps the place that loses
nothing.
"""

import math
from enum import Enum
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import tie_hash
from disco.allocation.lagrangian import Lagrangian, Priced, limit_prices, place_prices, worth_of_limits
from disco.allocation.limits import Tree
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-44  # of the sums in a bound, far above what their rounding may be
_INDIFFERENT = 2.0**-6  # of what may be lost in all: customers who lose less are ordered by their cost alone
_WORD_BITS = 62  # of a word that holds customers per limit
_WORDS = 2  # that hold them


class OptionTable(NamedTuple):
    """The customers in the order of their keys, on the grid; place 0 is no code, place 1 the first depth.

    Integers make every sum exact, and keys make it the same whatever the order of rows. Costs that are no decimals are
    rounded to the grid: an allocation up to `surely` is within the budget, one above `budget` is not, and one between
    the two is added up as floats.
    """

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
        problem, grid = lagrangian.problem, lagrangian.grid
        keys = problem.keys_of(np.arange(problem.customers))
        order = np.argsort(keys, kind="stable")
        group = np.zeros(order.size, np.int64) if problem.limits.segment is None else problem.limits.segment[order]
        node, worth, cost, tie = (np.zeros((order.size, problem.columns + 1), np.int64) for _ in range(4))
        values, costs = problem.values[:, order], lagrangian.costs[:, order]
        if problem.eligible is not None:  # what stands in an ineligible cell may be any number
            allowed = problem.eligible[:, order]
            values, costs = np.where(allowed, values, 0.0), np.where(allowed, costs, 0.0)
        node[:, 1:] = tree.leaf[group]
        worth[:, 1:] = np.rint(values.T.astype(np.float64) * grid.value_scale)
        _hashes(keys[order], tie)
        if pennies is not None:
            cost[:, 1:] = pennies.counted(costs.T)
            return cls(order, keys[order], node, worth, cost, tie, pennies.per_unit, pennies.budget, pennies.budget)
        cost[:, 1:] = np.rint(costs.T.astype(np.float64) * grid.cost_scale)
        hidden = order.size // 2 + 1  # what rounding to the grid could hide
        budget = grid.budget
        return cls(order, keys[order], node, worth, cost, tie, grid.cost_scale, budget + hidden, budget - hidden)

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

    def left(self, places: Array) -> int:
        """Money left, less than what rounding to the grid could hide."""
        return self.surely - self.cost_of(places)

    def counts_of(self, places: Array, tree: Tree) -> Array:
        """(nodes,) customers at each limit."""
        counts = np.zeros(tree.nodes, np.int64)
        node = self.node[self.rows, places]
        while node.any():
            counts += np.bincount(node, minlength=tree.nodes)
            node = np.where(node > 0, tree.parent[node], 0)
        counts[0] = 0
        return counts

    def keeps_limits(self, places: Array, tree: Tree) -> bool:
        counts = self.counts_of(places, tree)
        return bool((counts[1:] >= tree.low[1:]).all() and (counts[1:] <= tree.high[1:]).all())

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
    """Prices with the losses they imply, in grid units of value.

    They are those of the lowest bound that `budget` found. Losses are floats, while values and costs are integers:
    `rounding` is added to every loss that is allowed, so that nothing is left out because of the last bits.
    """

    node: Array  # (nodes,) of each limit
    rate: float  # of one grid unit of cost
    loss: Array  # (customers, places), ∞ where not eligible
    bound: float  # D
    rounding: float  # far above what the rounding of these numbers may add up to

    @classmethod
    def of(cls, lagrangian: Lagrangian, best: Priced, table: OptionTable) -> "Prices":
        """Only such prices as limits can have, and the bound that follows from them."""
        problem, tree, grid = lagrangian.problem, best.solution.tree, lagrangian.grid
        price = limit_prices(tree, best.solution.potentials)
        place = place_prices(tree, price)
        net = np.zeros((table.order.size, problem.columns + 1))
        costs = lagrangian.costs[:, table.order].T.astype(np.float64)
        net[:, 1:] = problem.values[:, table.order].T - best.rate * costs
        net -= place[table.node]
        if problem.eligible is not None:
            net[:, 1:][~problem.eligible[:, table.order].T] = -np.inf
        top = net.max(axis=1)
        bound = math.fsum([*top.tolist(), *worth_of_limits(tree, price).tolist(), best.rate * grid.money])
        scale = grid.value_scale
        rounding = _ROUNDING * (float(np.abs(table.worth).max(initial=0)) * table.order.size + abs(bound * scale))
        rate = best.rate * scale / table.cost_scale
        return cls(price * scale, rate, (top[:, None] - net) * scale, bound * scale, rounding)

    def lost(self, table: OptionTable, tree: Tree, places: Array) -> float:
        """D - value, less what the money left is worth."""
        counts = table.counts_of(places, tree)
        unused = np.where(self.node > 0.0, tree.high - counts, tree.low - counts)[1:]
        return float(self.loss[table.rows, places].sum() + (self.node[1:] * unused).sum())


class Core(NamedTuple):
    """The customers who are open, in the order in which they are taken, and what they may get (their options).

    Counts at the limits are packed into two words, some bits for each limit, so that adding a customer is two additions
    and comparing the counts of two states two comparisons.
    """

    options: Array  # (open,) how many; the first one loses nothing
    place: Array  # (open, options) column, -1 for no code
    worth: Array  # (open, options) grid units
    cost: Array  # (open, options) more than the first one, grid units
    tie: Array  # (open, options) hashes
    loss: Array  # (open, options) grid units of value
    words: Array  # (open, options, 2) one customer more at the limits of this place


class Nodes(NamedTuple):
    """The limits that open customers could break or leave unused."""

    word: Array  # (limits,) in which word its customers are counted
    shift: Array  # (limits,) and from which bit on
    mask: Array  # (limits,)
    low: Array  # (limits,) least number of open customers
    high: Array  # (limits,) largest number
    price: Array  # (limits,) grid units of value
    least: Array  # (open + 1, limits) customers whom the remaining ones add at least
    most: Array  # (open + 1, limits) and at most

    def within(self, allowed: float) -> "Nodes":
        """Without counts that lose more by what they leave unused of a limit with a price."""
        price = np.abs(self.price)
        unused = np.floor(np.minimum(allowed / np.where(price > 0.0, price, 1.0), 2.0**40)).astype(np.int64)
        low = np.where(self.price > 0.0, np.maximum(self.low, self.high - unused), self.low)
        high = np.where(self.price < 0.0, np.minimum(self.high, self.low + unused), self.high)
        return self._replace(low=low, high=high)


class Opened(NamedTuple):
    """The customers who are open, and the limits that depend on what they get."""

    core: Core
    nodes: Nodes
    cells: Array  # (open,) customers
    lost: float  # by limits that do not depend on what they get


class Unlisted(Enum):
    """Why allocations of open customers cannot be listed."""

    IMPOSSIBLE = "A limit is broken whatever they get."
    TOO_MANY = "There are too many counts at the limits."


def open_customers(tree: Tree, table: OptionTable, prices: Prices, usual: Array, allowed: float) -> Opened | Unlisted:
    """Customers with more than one cell that could be in an allocation that loses no more than is allowed.

    usual: (customers,) the place of each that loses nothing.
    """
    worth, cost, tie, loss = table.worth, table.cost, table.tie, prices.loss
    options = (loss <= allowed).sum(axis=1)
    cells = np.flatnonzero(options > 1)
    second = np.partition(loss[cells], 1, axis=1)[:, 1]
    change = np.where(loss[cells] <= allowed, np.abs(cost[cells] - cost[cells, usual[cells]][:, None]), 0).max(axis=1)
    # of those who lose next to nothing the dearest first: what the others could add is then soon too little
    cells = cells[np.lexsort((-change, np.where(second <= _INDIFFERENT * allowed, 0.0, second)))]
    opened, width = cells.size, int(options[cells].max(initial=1))
    ranks = loss[cells].copy()
    ranks[np.arange(opened), usual[cells]] = -1.0
    picked = np.argsort(ranks, axis=1, kind="stable")[:, :width]
    rows = cells[:, None]
    # which limits a place counts towards, as (open, options, nodes)
    counted = np.zeros((opened, width, tree.nodes), np.int64)
    node = table.node[rows, picked]
    for _ in range(2):
        i, o = np.nonzero(node > 0)
        counted[i, o, node[i, o]] += 1
        node = np.where(node > 0, tree.parent[node], 0)
    settled = usual.copy()
    settled[cells] = 0
    base = table.counts_of(settled, tree)
    possible = np.arange(width)[None, :, None] < options[cells][:, None, None]
    fewest = np.where(possible, counted, 1).min(axis=1)
    largest = np.where(possible, counted, 0).max(axis=1)
    least, most = sums_after(fewest), sums_after(largest)
    low, high = tree.low - base, tree.high - base
    touched = (fewest != largest).any(axis=0)
    fixed = ~touched
    touched[0] = fixed[0] = False
    if (fixed & ((least[0] < low) | (least[0] > high))).any():
        return Unlisted.IMPOSSIBLE
    unused = np.where(prices.node > 0.0, high - least[0], low - least[0])[fixed]
    lost = float((prices.node[fixed] * unused).sum())
    chosen = np.flatnonzero(touched & ((least[0] < low) | (most[0] > high) | (prices.node != 0.0)))
    sizes = [int(most[0, one]).bit_length() + 1 for one in chosen]
    word, shift, used = [], [], [0] * _WORDS
    for size in sizes:
        at = next((one for one in range(_WORDS) if used[one] + size <= _WORD_BITS), -1)
        if at < 0:
            return Unlisted.TOO_MANY
        word.append(at)
        shift.append(used[at])
        used[at] += size
    increments = np.zeros((opened, width, _WORDS), np.int64)
    for one, in_word, by in zip(chosen, word, shift, strict=True):
        increments[:, :, in_word] += counted[:, :, one] << by
    nodes = Nodes(
        np.array(word, np.int64), np.array(shift, np.int64), np.array([(1 << size) - 1 for size in sizes], np.int64),
        low[chosen], high[chosen], prices.node[chosen],
        np.ascontiguousarray(least[:, chosen]), np.ascontiguousarray(most[:, chosen]),
    )  # fmt: skip
    core = Core(
        options[cells], np.ascontiguousarray(picked), worth[rows, picked],
        cost[rows, picked] - cost[cells, picked[:, 0]][:, None], tie[rows, picked], loss[rows, picked], increments,
    )  # fmt: skip
    return Opened(core, nodes, cells, lost)


def sums_after(per_customer: Array) -> Array:
    """(open + 1, …) sums from each customer on."""
    sums = np.zeros((per_customer.shape[0] + 1, *per_customer.shape[1:]), np.int64)
    sums[:-1] = per_customer[::-1].cumsum(axis=0)[::-1]
    return sums
