"""Exact search under a budget for few customers: every allocation whose loss against the bound is below the best known.

For prices p, budget price λ and bound D, each allocation x has D - value(x) = Σ_i loss(i, x_i) + (unused limits), with
loss ≥ 0. So a better one than the best known has Σ loss < D - best, and only such combinations are visited.
"""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array


@nb.njit(nogil=True, cache=True)
def _spent(cost: Array, options: Array, at: Array) -> float:
    """Σ cost of the options tried, with its rounding error carried along: budgets are kept to the last bit."""
    total = low = 0.0
    for i in range(at.size):
        term = cost[i, options[i, at[i]]]
        larger = total + term
        low += (total - larger) + term if total >= term else (term - larger) + total
        total = larger
    return total + low


@nb.njit(nogil=True, cache=True)
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
