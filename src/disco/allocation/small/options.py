"""What few customers with a budget could get, on the grid, and what each place loses against prices.

For prices p of the limits and a budget price λ, with D the bound they give, each allocation x within the limits has

    D - value(x) = Σ_i loss(i, x_i) + Σ_limits price · (what x leaves unused) + λ · (budget - cost(x)),   all terms ≥ 0.

So a cell that loses more than g is in no allocation that is worth more than D - g. What is left for a small g are a few
customers with a few cells each: they are open (`open_customers`), and everybody else keeps the place that loses
nothing.
"""

import math
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import tie_hash
from disco.allocation.lagrangian import Lagrangian, LimitPrices, Priced
from disco.allocation.limits import Tree
from disco.allocation.paths import Assignment
from disco.allocation.problem import Pennies
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-44  # of the sums in a bound, far above what their rounding may be
_WORD_BITS = 62  # of a word that holds customers per limit


class OptionTable(NamedTuple):
    """The customers in the order of their keys, on the grid; place 0 is no code, place 1 the first depth.

    Integers make every sum exact, and keys make it the same whatever the order of rows. Costs that are no decimals are
    rounded to the grid: an allocation up to `surely` is within the budget, one above `budget` is not, and one between
    the two is added up as floats.
    """

    tree: Tree  # of the limits
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
        keys = problem.all_keys
        order = np.argsort(keys, kind="stable")
        group = np.zeros(order.size, np.int64) if problem.limits.segment is None else problem.limits.segment[order]
        node, worth, cost, tie = (np.zeros((order.size, problem.columns + 1), np.int64) for _ in range(4))
        values, costs = problem.values[:, order], lagrangian.costs[:, order]
        if problem.eligible is not None:  # what stands in an ineligible cell may be any number
            allowed = problem.eligible[:, order]
            values, costs = np.where(allowed, values, 0.0), np.where(allowed, costs, 0.0)
        node[:, 1:] = tree.leaf[group]
        worth[:, 1:] = np.rint(values.T.astype(np.float64) * grid.value_scale)
        tie[:, 1:] = hashes(keys[order], 0, problem.columns)
        if pennies is not None:
            cost[:, 1:] = pennies.counted(costs.T)
            scale, budget, hidden = pennies.per_unit, pennies.budget, 0
        else:
            cost[:, 1:] = np.rint(costs.T.astype(np.float64) * grid.cost_scale)
            scale, budget, hidden = grid.cost_scale, grid.budget, order.size // 2 + 1  # what rounding could hide
        return cls(tree, order, keys[order], node, worth, cost, tie, scale, budget + hidden, budget - hidden)

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

    def counts_of(self, places: Array) -> Array:
        """(nodes,) customers at each limit."""
        tree = self.tree
        counts = np.zeros(tree.nodes, np.int64)
        node = self.node[self.rows, places]
        while node.any():
            counts += np.bincount(node, minlength=tree.nodes)
            node = np.where(node > 0, tree.parent[node], 0)
        counts[0] = 0
        return counts

    def keeps_limits(self, places: Array) -> bool:
        tree, counts = self.tree, self.counts_of(places)
        return bool((counts[1:] >= tree.low[1:]).all() and (counts[1:] <= tree.high[1:]).all())

    def better(self, one: Assignment, other: Assignment) -> Assignment:
        """That of larger value, or of equal value and larger hash."""

        def rank(solution: Assignment) -> tuple[int, int]:
            places = self.places(solution.choice)
            return self.worth_of(places), int(self.tie[self.rows, places].sum())

        return other if rank(other) > rank(one) else one


@njit(nogil=True, cache=True)
def hashes(keys: Array, first: int, columns: int) -> Array:
    """(customers, columns) hashes of customers and of so many numbers from the first one on."""
    table = np.empty((keys.size, columns), np.int64)
    for i in range(keys.size):
        for column in range(columns):
            table[i, column] = tie_hash(keys[i], first + column)
    return table


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
        price, paid, limits = LimitPrices.of(tree, best.solution.potentials)
        net = np.zeros((table.order.size, problem.columns + 1))
        costs = lagrangian.costs[:, table.order].T.astype(np.float64)
        net[:, 1:] = problem.values[:, table.order].T - best.rate * costs
        net -= paid[table.node]
        if problem.eligible is not None:
            net[:, 1:][~problem.eligible[:, table.order].T] = -np.inf
        top = net.max(axis=1)
        bound = math.fsum([*top.tolist(), *limits.tolist(), best.rate * grid.money])
        scale = grid.value_scale
        rounding = _ROUNDING * (float(np.abs(table.worth).max(initial=0)) * table.order.size + abs(bound * scale))
        rate = best.rate * scale / table.cost_scale
        return cls(price * scale, rate, (top[:, None] - net) * scale, bound * scale, rounding)

    def lost(self, table: OptionTable, places: Array) -> float:
        """D - value, less what the money left is worth."""
        tree, counts = table.tree, table.counts_of(places)
        unused = np.where(self.node > 0.0, tree.high - counts, tree.low - counts)[1:]
        return float(self.loss[table.rows, places].sum() + (self.node[1:] * unused).sum())


class Core(NamedTuple):
    """The customers who are open, and what they may get (their options).

    Worth, cost, tie and price of an option are counted from those of the customer's first option, so that a customer
    who does not move adds nothing to a sum. Counts are what an option adds to a limit beyond what all options of the
    customer add. They are packed into one word, some bits for each limit: adding a customer is one addition, and
    comparing the counts of two states one comparison.
    """

    options: Array  # (open,) how many; the first one loses nothing
    place: Array  # (open, options)
    worth: Array  # (open, options) grid units
    cost: Array  # (open, options) grid units
    tie: Array  # (open, options) hashes
    loss: Array  # (open, options) grid units of value
    price: Array  # (open, options) Σ prices of the limits of the place, grid units of value
    word: Array  # (open, options) the packed counts
    most: Array  # (open, limits) what any option of the customer adds at most


class Nodes(NamedTuple):
    """The limits that open customers could break or leave unused."""

    shift: Array  # (limits,) from which bit of a word on customers are counted
    mask: Array  # (limits,) as many bits as the count of all open customers may need
    low: Array  # (limits,) least count
    high: Array  # (limits,) largest count
    price: Array  # (limits,) grid units of value


class Opened(NamedTuple):
    """The customers who are open, and the limits that depend on what they get."""

    core: Core
    nodes: Nodes
    cells: Array  # (open,) customers
    lost: float  # by limits that do not depend on what they get; ∞: one of these is broken


def open_customers(table: OptionTable, prices: Prices, usual: Array, allowed: float) -> Opened | None:
    """Customers with more than one cell that could be in an allocation that loses no more than is allowed.

    usual: (customers,) the place of each that loses nothing. None: counts at the limits do not fit into a word.
    """
    tree, options = table.tree, (prices.loss <= allowed).sum(axis=1)
    cells = np.flatnonzero(options > 1)
    options, rows = options[cells], cells[:, None]
    ranks = prices.loss[cells]
    ranks[np.arange(cells.size), usual[cells]] = -1.0
    place = np.argsort(ranks, axis=1, kind="stable")[:, : options.max(initial=1)]
    counted = np.zeros((*place.shape, tree.nodes), np.int64)  # whether a place counts towards a limit
    node = table.node[rows, place]
    while node.any():
        np.put_along_axis(counted, node[:, :, None], 1, axis=2)
        node = np.where(node > 0, tree.parent[node], 0)
    counted[:, :, 0] = 0
    possible = (np.arange(place.shape[1]) < options[:, None])[:, :, None]
    always = np.where(possible, counted, 1).min(axis=1)
    counted -= always[:, None]
    most = np.where(possible, counted, 0).max(axis=1)
    settled = usual.copy()
    settled[cells] = 0
    base = table.counts_of(settled) + always.sum(axis=0)
    low, high = tree.low - base, tree.high - base
    total = most.sum(axis=0)
    fixed = total == 0
    fixed[0] = False
    unused = np.where(prices.node > 0.0, high, low)
    lost = float((prices.node * unused)[fixed].sum())
    if (fixed & ((low > 0) | (high < 0))).any():
        lost = math.inf
    # a limit with a price may leave so many unused, and no more
    price = np.where(prices.node == 0.0, 1.0, np.abs(prices.node))
    most_unused = np.floor(np.minimum(max(allowed - lost, 0.0) / price, 2.0**40))
    low, high = (
        np.where(prices.node > 0.0, np.maximum(low, high - most_unused), low).astype(np.int64),
        np.where(prices.node < 0.0, np.minimum(high, low + most_unused), high).astype(np.int64),
    )
    limits = np.flatnonzero((total > 0) & ((low > 0) | (total > high) | (prices.node != 0.0)))
    bits = [int(count).bit_length() for count in total[limits]]
    if sum(bits) > _WORD_BITS:
        return None
    shift = np.cumsum([0, *bits])[:-1]
    nodes = Nodes(shift, (1 << np.array(bits, np.int64)) - 1, low[limits], high[limits], prices.node[limits])
    worth, cost, tie = (_from_first(cell[rows, place]) for cell in (table.worth, table.cost, table.tie))
    price, word = _from_first(counted[:, :, limits] @ prices.node[limits]), (counted[:, :, limits] << shift).sum(axis=2)
    core = Core(options, place, worth, cost, tie, prices.loss[rows, place], price, word, most[:, limits])
    return Opened(core, nodes, cells, lost)


def _from_first(amounts: Array) -> Array:
    """(open, options) more than the customer's first option."""
    difference: Array = amounts - amounts[:, :1]
    return difference
