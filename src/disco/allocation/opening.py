"""The customers who are open: those with more than one cell that could be in a better allocation, and their limits."""

import math
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import Tree
from disco.allocation.options import OptionTable, Prices
from disco.records.arrays import Array

_LITTLE = 2.0**-6  # of what may be lost
_WORD = 62  # bits of a word that holds customers per limit
_WORDS = 2  # words, at most


class Core(NamedTuple):
    """The customers who are still open, in the order in which they are taken, and what they may get (their options)."""

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


class Opened(NamedTuple):
    """The customers who are open, and the limits that depend on what they get."""

    core: Core | None
    nodes: Nodes | None  # None: they cannot meet the limits
    cells: Array  # (open,) customers
    lost: float  # by limits that do not depend on what they get


def open_customers(tree: Tree, table: OptionTable, prices: Prices, usual: Array, allowed: float) -> Opened | None:
    """Customers with more than one cell that could be in a better allocation; None: their counts need too many bits.

    usual: (customers,) the place of each that loses nothing.
    """
    worth, cost, tie, loss = table.worth, table.cost, table.tie, prices.loss
    options = (loss <= allowed).sum(axis=1)
    cells = np.flatnonzero(options > 1)
    second = np.partition(loss[cells], 1, axis=1)[:, 1]
    change = np.where(loss[cells] <= allowed, np.abs(cost[cells] - cost[cells, usual[cells]][:, None]), 0).max(axis=1)
    # of those who lose next to nothing the dearest first: what the others could add is then soon too little
    cells = cells[np.lexsort((-change, np.where(second <= _LITTLE * allowed, 0.0, second)))]
    most = int(options[cells].max(initial=1))
    ranks = loss[cells].copy()
    ranks[np.arange(cells.size), usual[cells]] = -1.0
    picked = np.argsort(ranks, axis=1, kind="stable")[:, :most]
    rows = cells[:, None]
    opened = cells.size
    # which limits a place counts towards, as (open, options, nodes)
    counted = np.zeros((opened, most, tree.nodes), np.int64)
    node = table.node[rows, picked]
    for _ in range(2):
        i, o = np.nonzero(node > 0)
        counted[i, o, node[i, o]] += 1
        node = np.where(node > 0, tree.parent[node], 0)
    settled = usual.copy()
    settled[cells] = 0
    base = table.counts_of(settled, tree)
    possible = np.arange(most)[None, :, None] < options[cells][:, None, None]
    fewest = np.where(possible, counted, 1).min(axis=1)
    largest = np.where(possible, counted, 0).max(axis=1)
    least, top = sums_after(fewest), sums_after(largest)
    low, high = tree.low - base, tree.high - base
    touched = (fewest != largest).any(axis=0)
    touched[0] = False
    fixed = ~touched
    fixed[0] = False
    if (fixed & ((least[0] < low) | (least[0] > high))).any():
        return Opened(None, None, cells, math.inf)
    unused = np.where(prices.node > 0.0, high - least[0], low - least[0])[fixed]
    lost = float((prices.node[fixed] * unused).sum())  # whatever the open customers get
    chosen = np.flatnonzero(touched & ((least[0] < low) | (top[0] > high) | (prices.node != 0.0)))
    bits = [int(top[0, one]).bit_length() + 1 for one in chosen]
    word, shift, used = [], [], [0] * _WORDS
    for size in bits:
        at = next((one for one in range(_WORDS) if used[one] + size <= _WORD), -1)
        if at < 0:
            return None
        word.append(at)
        shift.append(used[at])
        used[at] += size
    increments = np.zeros((opened, most, _WORDS), np.int64)
    for one, in_word, by in zip(chosen, word, shift, strict=True):
        increments[:, :, in_word] += counted[:, :, one] << by
    nodes = Nodes(
        np.array(word, np.int64), np.array(shift, np.int64), np.array([(1 << size) - 1 for size in bits], np.int64),
        low[chosen], high[chosen], prices.node[chosen],
        np.ascontiguousarray(least[:, chosen]), np.ascontiguousarray(top[:, chosen]),
    )  # fmt: skip
    core = Core(
        options[cells], np.ascontiguousarray(picked), worth[rows, picked],
        cost[rows, picked] - cost[cells, picked[:, 0]][:, None], tie[rows, picked], loss[rows, picked], increments,
    )  # fmt: skip
    return Opened(core, nodes, cells, lost)


def needed(nodes: Nodes, allowed: float) -> Nodes:
    """The limits, without counts that lose more by what they leave unused of a limit with a price."""
    price = np.abs(nodes.price)
    unused = np.floor(np.minimum(allowed / np.where(price > 0.0, price, 1.0), 2.0**40)).astype(np.int64)
    low = np.where(nodes.price > 0.0, np.maximum(nodes.low, nodes.high - unused), nodes.low)
    high = np.where(nodes.price < 0.0, np.minimum(nodes.high, nodes.low + unused), nodes.high)
    return nodes._replace(low=low, high=high)


def sums_after(per_customer: Array) -> Array:
    """(open + 1, …) sums from each customer on."""
    sums = np.zeros((per_customer.shape[0] + 1, *per_customer.shape[1:]), np.int64)
    sums[:-1] = per_customer[::-1].cumsum(axis=0)[::-1]
    return sums
