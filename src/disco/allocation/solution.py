"""Values that the parts of the solver hand to each other, and the step all of them end with."""

from dataclasses import dataclass

import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.network import settle
from disco.allocation.tree import Tree


@dataclass(frozen=True, slots=True)
class PriceBox:
    """Prices p = centre ± width, up to a common shift of ± none_width per group; arrays (groups, depths)."""

    centre: Array
    width: Array
    none_width: float

    def holds(self, prices: Array) -> bool:
        """Whether some common shift within none_width brings every price within its width, group by group.

        >>> box = PriceBox(np.array([[1.0, 2.0]]), np.array([[0.1, 0.1]]), 1.0)
        >>> box.holds(np.array([[1.5, 2.55]])), box.holds(np.array([[1.5, 2.0]]))
        (True, False)
        """
        off = prices - self.centre
        least = np.maximum((off - self.width).max(axis=1), -self.none_width)
        most = np.minimum((off + self.width).min(axis=1), self.none_width)
        return bool((least <= most).all())


@dataclass(frozen=True, slots=True)
class Solution:
    """choice: (customers,) · potentials: (nodes,) prices summed up to each node of `tree` · feasible."""

    choice: Array
    potentials: Array
    tree: Tree
    feasible: bool = True


@dataclass(frozen=True, slots=True)
class Settled:
    """Choice and place (group · depths + depth, -1: none) of a few customers, potentials in money and on the grid."""

    choice: Array
    places: Array
    potentials: Array
    values: Array
    hashes: Array


def settle_from(
    worth: Array,
    keys: Array,
    group: Array | None,
    tree: Tree,
    low: Array,
    high: Array,
    scale: float,
    prices: Array | None,
    start: Settled | None = None,
) -> Settled | None:
    """Shortest paths from prices per depth, or from an earlier result; None when the limits cannot be met."""
    columns = worth.shape[1]
    if start is not None:
        values, hashes = start.values.copy(), start.hashes.copy()
    else:
        values, hashes = np.zeros(tree.nodes, np.int64), np.zeros(tree.nodes, np.int64)
        if prices is not None:
            most = worth.max(initial=0)  # prices from elsewhere may be nonsense
            values[1 : columns + 1] = np.rint(np.clip(prices, -most / scale, most / scale) * scale)
            if tree.leaf.shape[0] > 1:
                values[tree.leaf] = values[1 : columns + 1]
    choice = np.empty(worth.shape[0], np.int64)
    groups = np.zeros(worth.shape[0], np.int64) if group is None else group
    if not settle(worth, keys, groups, tree.leaf, tree.parent, low, high, values, hashes, choice)[0]:
        return None
    places = np.where(choice < 0, -1, groups * columns + choice)
    return Settled(choice, places, values / scale, values, hashes)
