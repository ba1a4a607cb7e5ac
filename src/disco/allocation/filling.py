"""Filling a budget from two allocations, one that spends too much and one that does not, and searching exactly.

The difference between the two is split into cycles on the tree of places: customers who sit elsewhere are edges from
the old leaf to the new one, and where a limit's count differs, extra edges along the tree make every node balanced. Any
subset of the cycles keeps every limit, for each count stays between its two ends.

Few customers are searched exactly. For prices p, budget price λ and bound D, each allocation x has
D - value(x) = Σ_i loss(i, x_i) + (unused limits), with loss ≥ 0. So a better one than the best known has
Σ loss < D - best, and only such combinations are visited.
"""

from dataclasses import replace

import numpy as np

from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.paths import Assignment
from disco.records.arrays import Array
from disco.records.compiled import njit


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _add_up(
    values: Array, costs: Array, before: Array, after: Array, moved: Array, cycle_of: Array, gain: Array, cost: Array
) -> None:
    """gain, cost (cycles,): what the moves of each cycle bring and cost, depth by depth, in the order of `moved`."""
    for k in range(values.shape[0]):
        for e in range(moved.size):
            if after[moved[e]] == k:
                gain[cycle_of[e]] += np.float64(values[k, moved[e]])
                cost[cycle_of[e]] += np.float64(costs[k, moved[e]])
        for e in range(moved.size):
            if before[moved[e]] == k:
                gain[cycle_of[e]] -= np.float64(values[k, moved[e]])
                cost[cycle_of[e]] -= np.float64(costs[k, moved[e]])


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _spent(cost: Array, options: Array, at: Array) -> float:
    """Σ cost of the options tried, with its rounding error carried along: budgets are kept to the last bit."""
    total = low = 0.0
    for i in range(at.size):
        term = cost[i, options[i, at[i]]]
        larger = total + term
        low += (total - larger) + term if total >= term else (term - larger) + total
        total = larger
    return total + low


@njit(nogil=True, cache=True)
def search(
    value: Array,
    cost: Array,
    loss: Array,
    leaf: Array,
    group: Array,
    parent: Array,
    low: Array,
    high: Array,
    budget: float,
    allowed: float,
    best_value: float,
    most_visits: int,
    choice: Array,
) -> tuple[bool, float]:
    """Depth-first over customers (rows; column 0 is "no code"); choice holds the best known and is improved.

    value, cost, loss: (customers, 1 + depths), loss ∞ where ineligible. Returns (finished, best value).
    """
    customers, places = value.shape
    options = np.empty((customers, places), np.int64)
    for i in range(customers):
        options[i] = np.argsort(loss[i], kind="mergesort")
    least_value_left = np.zeros(customers + 1)  # the most value the remaining customers could add
    for i in range(customers - 1, -1, -1):
        most = -np.inf
        for place in range(places):
            if loss[i, place] <= allowed:
                most = max(most, value[i, place])
        least_value_left[i] = least_value_left[i + 1] + most
    at = np.zeros(customers, np.int64)  # the option now tried
    flow = np.zeros(parent.size, np.int64)
    total_value = np.zeros(customers + 1)
    total_cost = np.zeros(customers + 1)
    total_loss = np.zeros(customers + 1)
    i = 0
    at[0] = -1
    visits = 0
    while i >= 0:
        if at[i] >= 0:  # take back the option tried last
            place = options[i, at[i]]
            node = leaf[group[i], place - 1] if place > 0 else 0
            while node > 0:
                flow[node] -= 1
                node = parent[node]
        at[i] += 1
        visits += 1
        if visits > most_visits:
            return False, best_value
        if at[i] == places:
            at[i] = -1
            i -= 1
            continue
        place = options[i, at[i]]
        node = leaf[group[i], place - 1] if place > 0 else 0
        up = node
        fits = True
        while up > 0:
            flow[up] += 1
            if flow[up] > high[up]:
                fits = False
            up = parent[up]
        new_loss = total_loss[i] + loss[i, place]
        new_cost = total_cost[i] + cost[i, place]
        new_value = total_value[i] + value[i, place]
        if new_loss > allowed:  # options come by loss: the others are worse
            while node > 0:
                flow[node] -= 1
                node = parent[node]
            at[i] = -1
            i -= 1
            continue
        if not fits or new_cost > budget * (1.0 + 1e-12) or new_value + least_value_left[i + 1] <= best_value:
            continue
        if i + 1 < customers:
            total_loss[i + 1] = new_loss
            total_cost[i + 1] = new_cost
            total_value[i + 1] = new_value
            i += 1
            at[i] = -1
            continue
        enough = True
        for node in range(1, parent.size):
            if flow[node] < low[node]:
                enough = False
        if enough and new_value > best_value and _spent(cost, options, at) <= budget:
            allowed -= new_value - best_value
            best_value = new_value
            for j in range(customers):
                choice[j] = options[j, at[j]] - 1
    return True, best_value


CLOSE_ENOUGH = 4e-7  # relative gap at which the search for the budget price may stop
_VISITS = 2_000_000


def fill_best(
    lagrangian: Lagrangian, best: Priced, above: list[Priced], below: list[Priced], *, enough: float = CLOSE_ENOUGH
) -> Assignment:
    """Fill from the narrowest bracket; a wider one has more cycles to choose from, and may leave less unspent.

    enough: a relative gap at which no wider one is tried.
    """
    filled: list[Priced] = []
    for back in (1, 2, 3, 4, 6, 8, 12):
        for back_above, back_below in ((1, back), (back, 1)) if back > 1 else ((1, 1),):
            rich, poor = above[-min(back_above, len(above))], below[-min(back_below, len(below))]
            filled.append(lagrangian.priced(0.0, fill(lagrangian, rich, poor)))
            most = max(filled, key=lambda priced: priced.worth)
            if best.bound - most.worth <= enough * abs(most.worth):
                return most.solution
    return most.solution


def fill(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> Assignment:
    """Start from what the budget allows and apply the cycles towards the other that bring most."""
    if lagrangian.filled is None or lagrangian.filled[:2] != (rich.rate, poor.rate):
        lagrangian.filled = (rich.rate, poor.rate, _fill(lagrangian, rich, poor))
    return lagrangian.filled[2]


def _fill(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> Assignment:
    problem = lagrangian.problem
    before, after = poor.solution.choice, rich.solution.choice
    moved = np.flatnonzero(before != after)
    moved = moved[np.argsort(problem.keys_of(moved), kind="stable")]
    if not moved.size:
        return poor.solution
    tree = poor.solution.tree
    group = np.zeros(moved.size, np.int64) if problem.limits.segment is None else problem.limits.segment[moved]
    nodes = np.concatenate([np.zeros((tree.leaf.shape[0], 1), np.int64), tree.leaf], axis=1)
    cycle_of = np.empty(moved.size, np.int64)
    origin, target = nodes[group, before[moved] + 1], nodes[group, after[moved] + 1]
    count = split_into_cycles(origin, target, tree.parent, cycle_of)
    gain, cost = np.zeros(count), np.zeros(count)
    _add_up(problem.values, lagrangian.costs, before, after, moved, cycle_of, gain, cost)
    taken = np.zeros(count, np.int64)
    left = (lagrangian.budget - poor.spent) / lagrangian.cost_scale
    for reserve in (0.0, 1e-12, 1e-9):  # sums of floats may exceed the budget in the last bits: then keep a little back
        fill_budget(gain, cost, left - reserve * lagrangian.most, taken)
        choice = before.copy()
        apply = taken[cycle_of] == 1
        choice[moved[apply]] = after[moved[apply]]
        if lagrangian.keeps_budget(choice):
            return replace(poor.solution, choice=choice)
    return poor.solution


def search_exactly(lagrangian: Lagrangian, known: Assignment, best: Priced) -> tuple[Assignment, bool]:
    """Exact optimum for few customers, in the order of their keys; the second value says whether it was proved."""
    problem = lagrangian.problem
    order = np.argsort(problem.keys_of(np.arange(problem.customers)), kind="stable")
    columns = problem.columns
    tree = known.tree
    group = np.zeros(order.size, np.int64) if problem.limits.segment is None else problem.limits.segment[order]
    value, cost = np.zeros((order.size, columns + 1)), np.zeros((order.size, columns + 1))
    value[:, 1:], cost[:, 1:] = problem.values[:, order].T, lagrangian.costs[:, order].T
    net = value - best.rate * cost
    net[:, 1:] -= best.solution.potentials[tree.leaf][group]
    if problem.eligible is not None:
        net[:, 1:][~problem.eligible[:, order].T] = -np.inf
    loss = net.max(axis=1)[:, None] - net
    bound = best.bound / lagrangian.value_scale
    choice = known.choice[order].astype(np.int64)
    best_value = float(value[np.arange(order.size), choice + 1].sum())
    allowed = (bound - best_value) * (1.0 + 1e-9) + 1e-9 * abs(bound)
    finished, _ = search(
        value, cost, loss, tree.leaf, group, tree.parent, tree.low, tree.high,
        float(problem.limits.budget or 0.0), allowed, best_value, _VISITS, choice,
    )  # fmt: skip
    improved = known.choice.copy()
    improved[order] = choice
    return replace(known, choice=improved), finished
