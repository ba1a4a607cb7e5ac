"""Exact allocation of customers who are at hand, as a rule few, by successive shortest paths.

The graph is that of depths, and costs are pairs of integers.

Nodes form a tree: 0 is "no code", its children are the depths, and with segments each depth has one child per segment.
A customer sits at a leaf (or at 0). Potentials are pairs (value, hash) and are compared lexicographically, so ties in
value are settled by the hash and never by rounding or by order. Conventions, for every residual arc u → w of cost c:

    potential[u] ≤ potential[w] + c      a customer moving from a to b costs v_a - v_b;   a limit's arc costs 0
    price of a limit = potential[node] - potential[parent];   positive only when full, negative only when at its floor

The first line says that nobody gains by moving from their place to another at these prices, the second that only a
limit which binds has one. Together they make the allocation optimal (docs/maths.md), and they hold at every step for
whoever sits rightly: `route` begins with everybody at their best place and the limits ignored, and then moves what is
too much at one node to where there is room, each time along the path that costs least. Costs along a path are measured
beyond the potentials, so that they are never negative and Dijkstra's search finds the cheapest. Moving along it and
lowering the potentials by the distances keeps both lines true. When nothing is too much any more, the allocation is
optimal. Where no path is left, the limits cannot be met.

One more search at the end lowers each price as far as the conditions allow. Of several optimal prices these are the
smallest, so that prices do not depend on where the search began, but for floors.

There are a few dozen nodes and any number of customers: a customer is an arc, and of all arcs between two places only
the cheapest matter. `grid.Movers` keeps these.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import NEVER, Movers, forget, less, move_cost, refill, remember, tie_hash
from disco.allocation.limits import Tree
from disco.records.arrays import Array
from disco.records.compiled import njit

_FAR = 2**62
# Nearest movers remembered per pair of places: a refill reads all who sit there.
_KEPT = (12, 32, 96)


class Network(NamedTuple):
    """The graph, its limits, and where everybody is; the searches change all but the first seven."""

    worth: Array  # (customers, depths) grid integers, NEVER = ineligible
    keys: Array
    group: Array  # (customers,)
    leaf: Array  # (groups, depths) node of each place
    parent: Array  # (nodes,)
    low: Array  # (nodes,) limits on how many customers may sit below each node
    high: Array
    values: Array  # (nodes,) potentials: at first a start, at last the smallest optimal ones
    hashes: Array
    choice: Array  # (customers,)
    flow: Array  # (nodes,) customers below each node, as many as its limits let through
    excess: Array  # (nodes,) customers too many at a node; negative: so many are missing
    first: Array  # (groups · (1 + depths),) the first customer at each place, "no code" before the depths
    following: Array  # (customers,) the next one there, -1: none
    previous: Array
    movers: Movers
    group_of: Array  # (nodes,) -1: no leaf
    column_of: Array

    @classmethod
    def of(
        cls, worth: Array, keys: Array, group: Array, tree: Tree, low: Array, high: Array, values: Array, hashes: Array
    ) -> "Network":
        (customers, columns), nodes, groups = worth.shape, tree.nodes, tree.leaf.shape[0]
        places = groups * (columns + 1)
        lists = places * (columns + 1)
        room = _KEPT[0] if customers < 500 else _KEPT[1] if customers < 5000 else _KEPT[2]
        movers = Movers(
            np.empty((lists, room), np.int64), np.empty((lists, room, 2), np.int64), np.zeros(lists, np.int64),
            np.ones(lists, np.int64), np.full((lists, 2), -_FAR),
        )  # fmt: skip
        group_of, column_of = np.full(nodes, -1), np.full(nodes, -1)
        group_of[tree.leaf] = np.arange(groups)[:, None]
        column_of[tree.leaf] = np.arange(columns)
        return cls(
            worth, keys, group, tree.leaf, tree.parent, low, high, values, hashes, np.empty(customers, np.int64),
            np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.full(places, -1), np.full(customers, -1),
            np.full(customers, -1), movers, group_of, column_of,
        )  # fmt: skip


@njit(nogil=True, cache=True, patient=True)
def _begin(network: Network) -> None:
    """Everybody takes their best place at the potentials, and limits what flow their prices allow."""
    worth, keys, group, leaf, parent = network.worth, network.keys, network.group, network.leaf, network.parent
    low, high, value_potential, hash_potential = network.low, network.high, network.values, network.hashes
    choice, flow, excess = network.choice, network.flow, network.excess
    first, following, previous = network.first, network.following, network.previous
    customers, columns = worth.shape
    nodes, places = parent.size, columns + 1
    for i in range(customers - 1, -1, -1):
        g = group[i]
        best = -1
        best_value = 0
        best_hash = 0
        for k in range(columns):
            if worth[i, k] == NEVER:
                continue
            node = leaf[g, k]
            value = worth[i, k] - (value_potential[node] - value_potential[0])
            if value < best_value:
                continue
            tie = tie_hash(keys[i], k) - (hash_potential[node] - hash_potential[0])
            if less(best_value, best_hash, value, tie):
                best, best_value, best_hash = k, value, tie
        choice[i] = best
        slot = g * places + best + 1
        following[i] = first[slot]
        if first[slot] >= 0:
            previous[first[slot]] = i
        first[slot] = i
        if best >= 0:
            flow[leaf[g, best]] += 1

    # limits take the flow their price allows; what does not fit is the imbalance to be routed
    total = 0
    for node in range(nodes - 1, 0, -1):  # children have larger numbers than their parents
        price_value = value_potential[node] - value_potential[parent[node]]
        price_hash = hash_potential[node] - hash_potential[parent[node]]
        inflow = flow[node]
        if less(0, 0, price_value, price_hash):
            allowed = high[node]
        elif less(price_value, price_hash, 0, 0):
            allowed = low[node]
        else:
            allowed = min(max(inflow, low[node]), high[node])
        flow[node] = allowed
        excess[node] = inflow - allowed
        total += excess[node]
        if parent[node] > 0:
            flow[parent[node]] += allowed
    excess[0] = -total


@njit(nogil=True, cache=True, patient=True)
def _search(network: Network, steps: int) -> int:
    """So many moves along shortest paths, or all that there are; the last search lowers the prices.

    Returns 1 where there may be more, 0 at the end, and -1 where the limits contradict each other.
    """
    worth, keys, group, leaf, parent = network.worth, network.keys, network.group, network.leaf, network.parent
    low, high, value_potential, hash_potential = network.low, network.high, network.values, network.hashes
    choice, flow, excess = network.choice, network.flow, network.excess
    first, following, previous, movers = network.first, network.following, network.previous, network.movers
    group_of, column_of = network.group_of, network.column_of
    cost, size, nearest, may_be_others = movers.cost, movers.size, movers.nearest, movers.may_be_others
    groups, columns = leaf.shape
    nodes, places = parent.size, columns + 1
    far_value = np.empty(nodes, np.int64)
    far_hash = np.empty(nodes, np.int64)
    done = np.empty(nodes, np.bool_)
    came_from = np.empty(nodes, np.int64)
    carried_by = np.empty(nodes, np.int64)  # the customer moved along the arc, -1: a limit's arc
    for _ in range(steps):
        # nothing is too much anywhere: the allocation is optimal, and what is left is to lower the prices
        final = True
        for node in range(nodes):
            if excess[node] > 0:
                final = False
        if final:  # one more search, from "no code": how far each price can still fall
            for node in range(1, nodes):
                below = value_potential[node] < value_potential[parent[node]] or (
                    value_potential[node] == value_potential[parent[node]]
                    and hash_potential[node] < hash_potential[parent[node]]
                )
                if low[node] <= 0 and flow[node] == 0 and below:
                    value_potential[node] = value_potential[parent[node]]
                    hash_potential[node] = hash_potential[parent[node]]
        # Dijkstra from all nodes with too much (at the end from "no code"), to the nearest that has too little
        for node in range(nodes):
            done[node] = False
            started = node == 0 if final else excess[node] > 0
            far_value[node] = 0 if started else _FAR
            far_hash[node] = 0
            came_from[node] = -1
        target = -1
        while True:
            u = -1
            for node in range(nodes):
                if (
                    not done[node]
                    and far_value[node] < _FAR
                    and (u < 0 or less(far_value[node], far_hash[node], far_value[u], far_hash[u]))
                ):
                    u = node
            if u < 0:
                break
            done[u] = True
            if not final and excess[u] < 0:
                target = u
                break
            # limits: up to the parent while there is room, down to a child while it may lose flow
            for w in range(nodes):
                if done[w] or w == u:
                    continue
                arc = False
                if u > 0 and parent[u] == w and flow[u] < high[u]:
                    arc = True
                if w > 0 and parent[w] == u and (flow[w] > low[w] or (final and low[w] <= 0)):
                    arc = True
                if arc:
                    value = far_value[u] + value_potential[w] - value_potential[u]
                    tie = far_hash[u] + hash_potential[w] - hash_potential[u]
                    if less(value, tie, far_value[w], far_hash[w]):
                        far_value[w], far_hash[w] = value, tie
                        came_from[w] = u
                        carried_by[w] = -1
            # customers who sit at u
            first_group = 0
            last_group = groups
            a = -1
            if u > 0:
                if group_of[u] < 0:
                    continue
                first_group = group_of[u]
                last_group = first_group + 1
                a = column_of[u]
            for g in range(first_group, last_group):
                slot = g * places + a + 1
                if first[slot] < 0:
                    continue
                for b in range(-1, columns):
                    w = 0 if b < 0 else leaf[g, b]
                    if b == a or done[w]:
                        continue
                    row = slot * places + b + 1
                    if size[row] == 0:
                        if not may_be_others[row]:
                            continue
                        refill(row, a, b, first[slot], worth, keys, movers, following)
                        if size[row] == 0:
                            continue
                    value = far_value[u] + cost[row, 0, 0] + value_potential[w] - value_potential[u]
                    tie = far_hash[u] + cost[row, 0, 1] + hash_potential[w] - hash_potential[u]
                    if less(value, tie, far_value[w], far_hash[w]):
                        far_value[w], far_hash[w] = value, tie
                        came_from[w] = u
                        carried_by[w] = nearest[row, 0]
        if final:
            last_value = 0
            last_hash = 0
            for node in range(nodes):
                if far_value[node] < _FAR and less(last_value, last_hash, far_value[node], far_hash[node]):
                    last_value, last_hash = far_value[node], far_hash[node]
            for node in range(1, nodes):
                reached = far_value[node] < _FAR  # the others may fall as far as anybody, which keeps their order
                value_potential[node] -= far_value[node] if reached else last_value
                hash_potential[node] -= far_hash[node] if reached else last_hash
            for node in range(nodes - 1, -1, -1):
                value_potential[node] -= value_potential[0]
                hash_potential[node] -= hash_potential[0]
            return 0
        if target < 0:  # too much somewhere, and no way to any room: the limits contradict each other
            return -1
        # distances become part of the potentials, so that the arcs of this path cost nothing beyond them
        for node in range(nodes):
            if done[node]:
                value_potential[node] -= far_value[node]
                hash_potential[node] -= far_hash[node]
            else:
                value_potential[node] -= far_value[target]
                hash_potential[node] -= far_hash[target]

        # push along the path: one customer, or many where only limits' arcs are crossed
        amount = -excess[target]
        node = target
        while came_from[node] >= 0:
            u = came_from[node]
            if carried_by[node] >= 0:
                amount = 1
            elif parent[u] == node and u > 0:
                amount = min(amount, high[u] - flow[u])
            else:
                amount = min(amount, flow[node] - low[node])
            node = u
        amount = min(amount, excess[node])
        excess[node] -= amount
        excess[target] += amount
        node = target
        while came_from[node] >= 0:
            u = came_from[node]
            i = carried_by[node]
            if i >= 0:
                g = group[i]
                a = choice[i]
                b = -1 if node == 0 else column_of[node]
                slot = g * places + a + 1
                for c in range(-1, columns):
                    if c != a:
                        forget(slot * places + c + 1, i, movers)
                if previous[i] >= 0:
                    following[previous[i]] = following[i]
                else:
                    first[slot] = following[i]
                if following[i] >= 0:
                    previous[following[i]] = previous[i]
                slot = g * places + b + 1
                previous[i] = -1
                following[i] = first[slot]
                if first[slot] >= 0:
                    previous[first[slot]] = i
                first[slot] = i
                choice[i] = b
                for c in range(-1, columns):
                    if c == b or (c >= 0 and worth[i, c] == NEVER):
                        continue
                    value, tie = move_cost(worth, keys, i, b, c)
                    remember(slot * places + c + 1, i, value, tie, movers)
            elif u > 0 and parent[u] == node:
                flow[u] += amount
            else:
                flow[node] -= amount
            node = u
    return 1


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where everybody goes, and the prices that prove it."""

    choice: Array  # (customers,) column, -1 = none
    potentials: Array  # (nodes,) prices summed up to each node of `tree`, money
    tree: Tree
    feasible: bool = True  # False: no allocation meets the limits, and nobody gets a code

    @property
    def prices(self) -> Array:
        """(depths,) those of the depths."""
        return self.potentials[1 : self.tree.leaf.shape[1] + 1]

    @property
    def segment_prices(self) -> Array | None:
        """(groups, depths) on top of these; None: there are no segments."""
        return None if self.tree.leaf.shape[0] == 1 else self.potentials[self.tree.leaf] - self.prices


@dataclass(frozen=True, slots=True)
class Routed:
    """The exact places of a few customers, with the potentials that prove them."""

    choice: Array  # (customers,) column, -1 = none
    places: Array  # (customers,) group · depths + column, -1 = none
    potentials: Array  # (nodes,) money
    values: Array  # (nodes,) the same on the grid
    hashes: Array  # (nodes,) potentials of the tie hashes


def route_from(
    worth: Array,
    keys: Array,
    group: Array | None,
    tree: Tree,
    low: Array,
    high: Array,
    scale: float,
    prices: Array | None,
    start: Routed | None = None,
) -> Routed | None:
    """Shortest paths; None: the limits cannot be met.

    prices: per depth or per node without the root, to begin with; None: 0.
    start: an earlier result, which replaces the prices.
    """
    columns = worth.shape[1]
    if start is not None:
        values, hashes = start.values.copy(), start.hashes.copy()
    else:
        values, hashes = np.zeros(tree.nodes, np.int64), np.zeros(tree.nodes, np.int64)
        if prices is not None:
            most = worth.max(initial=0)  # prices from elsewhere may be nonsense
            values[1 : prices.size + 1] = np.rint(np.clip(prices, -most / scale, most / scale) * scale)
            if tree.leaf.shape[0] > 1 and prices.size == columns:
                values[tree.leaf] = values[1 : columns + 1]
    groups = np.zeros(worth.shape[0], np.int64) if group is None else group
    network = Network.of(worth, keys, groups, tree, low, high, values, hashes)
    _begin(network)
    few = max(1, min(64, 2**18 // tree.nodes**2))  # moves at a time, while interpreted: each takes all pairs of nodes
    while (end := _search(network, few if _search.is_patient() else _FAR)) == 1:
        pass
    if end < 0:
        return None
    choice = network.choice
    places = np.where(choice < 0, -1, groups * columns + choice)
    return Routed(choice, places, values / scale, values, hashes)
