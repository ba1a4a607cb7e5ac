"""From one allocation to another in steps that each keep every limit: the difference as cycles on the tree of places.

Customers who sit elsewhere are edges from the old leaf to the new one; where a limit's count differs, extra edges along
the tree make every node balanced. The edges then split into simple cycles. Any subset of the cycles can be applied:
each count stays between its two ends.
"""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array


@nb.njit(nogil=True, cache=True)
def split_into_cycles(origin: Array, target: Array, parent: Array, cycle_of: Array) -> int:
    """Fill cycle_of (edges,) for customers moving origin[e] → target[e] (nodes); returns the number of cycles."""
    nodes = parent.size
    moves = origin.size
    surplus = np.zeros(nodes, np.int64)
    for e in range(moves):
        surplus[target[e]] += 1
        surplus[origin[e]] -= 1
    upward = np.zeros(nodes, np.int64)  # what leaves each node towards its parent
    extra = 0
    for node in range(nodes - 1, 0, -1):
        upward[node] = surplus[node]
        extra += abs(surplus[node])
        surplus[parent[node]] += surplus[node]
    tail = np.empty(moves + extra, np.int64)
    head = np.empty(moves + extra, np.int64)
    tail[:moves] = origin
    head[:moves] = target
    at = moves
    for node in range(nodes - 1, 0, -1):
        for _ in range(abs(upward[node])):
            tail[at] = node if upward[node] > 0 else parent[node]
            head[at] = parent[node] if upward[node] > 0 else node
            at += 1
    following = np.full(at, -1, np.int64)
    first = np.full(nodes, -1, np.int64)
    for e in range(at - 1, -1, -1):
        following[e] = first[tail[e]]
        first[tail[e]] = e
    on_walk = np.full(nodes, -1, np.int64)  # position of a node on the walk
    walk = np.empty(nodes + 1, np.int64)  # edges of the walk
    cycles = 0
    for start in range(nodes):
        node = start
        length = 0
        on_walk[node] = 0
        while True:
            e = first[node]
            if e < 0:
                break
            first[node] = following[e]
            walk[length] = e
            length += 1
            node = head[e]
            if on_walk[node] >= 0:
                customers = False
                while length > on_walk[node]:
                    length -= 1
                    edge = walk[length]
                    if tail[edge] != node:
                        on_walk[tail[edge]] = -1
                    if edge < moves:
                        cycle_of[edge] = cycles
                        customers = True
                cycles += 1 if customers else 0
            else:
                on_walk[node] = length
        on_walk[start] = -1
    return cycles


@nb.njit(nogil=True, cache=True)
def fill_budget(gain: Array, cost: Array, budget: float, taken: Array) -> None:
    """Choose cycles with Σ cost ≤ budget and Σ gain as high as greed and swaps of one for one can make it."""
    count = gain.size
    left = budget
    ratio = np.empty(count)
    for c in range(count):
        taken[c] = 0
        if cost[c] <= 0.0 and gain[c] >= 0.0:
            taken[c] = 1
            left -= cost[c]
        ratio[c] = gain[c] / cost[c] if cost[c] > 0.0 else -np.inf
    order = np.argsort(-ratio, kind="mergesort")
    stopped = -1
    for at in range(count):
        c = order[at]
        if taken[c] == 0 and gain[c] > 0.0:
            if cost[c] <= left:
                taken[c] = 1
                left -= cost[c]
            elif stopped < 0:
                stopped = at
    if stopped < 0:
        return
    near = order[max(0, stopped - 300) : stopped + 300]  # only cycles near the break-even can profit from a swap
    for _ in range(40):
        best = 0.0
        out = -1
        into = -1
        for i in near:
            if taken[i] == 1 or gain[i] <= best:
                continue
            if cost[i] <= left:
                best, out, into = gain[i], -1, i
        for j in near:
            if taken[j] == 0:
                continue
            room = left + cost[j]
            for i in near:
                if taken[i] == 0 and cost[i] <= room and gain[i] - gain[j] > best:
                    best, out, into = gain[i] - gain[j], j, i
        if into < 0:
            break
        taken[into] = 1
        left -= cost[into]
        if out >= 0:
            taken[out] = 0
            left += cost[out]
