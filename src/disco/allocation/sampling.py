"""Which customers are open when too many lose nothing by another place for all of their allocations to be listed.

From an allocation near the budget, as many customers are opened as lists of their allocations have room for: hundreds
of thousands for either half of them, so that 10¹¹ sums are looked at in a tenth of a second. All others keep their
places. Where exchanges in four groups (`exchanging`) are few, because few customers have a code or many limits bind,
this finds what they miss.
"""

import numpy as np

from disco.allocation.exchanging import indifferent, shuffled, wandered
from disco.allocation.limits import Tree
from disco.allocation.options import OptionTable, Prices
from disco.records.arrays import Array

_SMALL = 0.6  # of the customers: those who change the cost least, among whom every other time all are chosen


def opened_cells(
    table: OptionTable, tree: Tree, prices: Prices, start: Array, enough: float, attempt: int, count: int
) -> Array | None:
    """(customers, places) the cells that are looked at, with so many customers open; None: nobody could move.

    start: (customers,) places near the budget that lose nothing. enough: what may be lost in all.
    """
    places = wandered(table, tree, prices, start, enough, attempt, few=attempt % 3 == 2)
    members = indifferent(table, tree, prices, places, enough)
    if members.who.size < 2:
        return None
    chosen = np.argsort(shuffled(table.keys[members.who], attempt), kind="stable")
    if members.who.size * _SMALL >= count and attempt % 2 == 0:
        size = np.abs(members.change[chosen])
        chosen = chosen[size <= np.quantile(size, _SMALL)]
    chosen = chosen[:count]
    among = np.zeros(table.cost.shape, np.bool_)
    among[table.rows, places] = True
    among[members.who[chosen], members.place[chosen]] = True
    return among
