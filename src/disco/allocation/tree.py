"""Limits as the tree that `network.settle` walks: no code ← depths ← (segment, depth)."""

from dataclasses import dataclass

import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.limits import Limits


@dataclass(frozen=True, slots=True)
class Tree:
    """leaf: (groups, depths) node of each place · parent, low, high: (nodes,); node 0 is "no code", 1 + k depth k."""

    leaf: Array
    parent: Array
    low: Array
    high: Array

    @property
    def nodes(self) -> int:
        return int(self.parent.size)

    def less(self, counts: Array, low: Array | None = None, high: Array | None = None) -> tuple[Array, Array]:
        """low and high after `counts` (groups, depths) customers have taken their places."""
        taken = np.zeros(self.parent.size, np.int64)
        columns = counts.shape[1]
        if self.leaf.shape[0] > 1:
            taken[columns + 1 :] = counts.ravel()
            taken[1 : columns + 1] = counts.sum(axis=0)
        else:
            taken[1:] = counts[0]
        return (self.low if low is None else low) - taken, (self.high if high is None else high) - taken

    def scaled(self, share: float) -> tuple[Array, Array]:
        """Limits for a sample with this share of the customers, rounded so that no floor asks more than its cap."""
        high = np.maximum(np.rint(self.high * share), self.high > 0).astype(np.int64)
        low = np.minimum(np.floor(self.low * share), high).astype(np.int64)
        return low, high


def tree_of(limits: Limits) -> Tree:
    """
    >>> caps, floors = np.array([3, 4]), np.array([0, 1])
    >>> tree_of(Limits(caps, floors)).leaf.tolist()
    [[1, 2]]
    """
    columns = limits.caps.size
    if limits.segment_caps is None or limits.segment_floors is None:
        parent = np.zeros(columns + 1, np.int64)
        parent[0] = -1
        leaf = np.arange(1, columns + 1)[None, :]
        return Tree(leaf, parent, _with_root(limits.floors, 0), _with_root(limits.caps, 2**50))
    groups = limits.segment_caps.shape[0]
    leaf = np.arange(columns + 1, columns + 1 + groups * columns).reshape(groups, columns)
    parent = np.concatenate([[-1], np.zeros(columns, np.int64), np.tile(np.arange(1, columns + 1), groups)])
    low = _with_root(np.concatenate([limits.floors, limits.segment_floors.ravel()]), 0)
    high = _with_root(np.concatenate([limits.caps, limits.segment_caps.ravel()]), 2**50)
    return Tree(leaf, parent, low, high)


def _with_root(limits: Array, root: int) -> Array:
    with_root = np.empty(limits.size + 1, np.int64)
    with_root[0] = root
    with_root[1:] = limits
    return with_root
