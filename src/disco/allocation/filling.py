"""Filling a budget from two allocations, one that spends too much and one that does not, and searching exactly."""

from dataclasses import replace

import numpy as np

from disco.allocation.cycles import fill_budget, split_into_cycles
from disco.allocation.enumeration import search
from disco.allocation.lagrangian import Lagrangian, Priced, spent
from disco.allocation.solution import Solution

CLOSE_ENOUGH = 4e-7  # relative gap at which the search for the budget price may stop
_VISITS = 2_000_000


def fill_best(lagrangian: Lagrangian, best: Priced, above: list[Priced], below: list[Priced]) -> Solution:
    """Fill from the narrowest bracket; a wider one has more cycles to choose from, and may leave less unspent."""
    filled: list[Priced] = []
    for back in (1, 2, 3, 4, 6, 8, 12):
        for back_above, back_below in ((1, back), (back, 1)) if back > 1 else ((1, 1),):
            rich, poor = above[-min(back_above, len(above))], below[-min(back_below, len(below))]
            filled.append(lagrangian.priced(0.0, fill(lagrangian, rich, poor)))
            most = max(filled, key=lambda priced: priced.worth)
            if best.bound - most.worth <= CLOSE_ENOUGH * abs(most.worth):
                return most.solution
    return most.solution


def fill(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> Solution:
    """Start from what the budget allows and apply the cycles towards the other that bring most."""
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
    for column in range(problem.columns):
        for side, sign in ((after, 1.0), (before, -1.0)):
            here = side[moved] == column
            np.add.at(gain, cycle_of[here], sign * problem.values[column, moved[here]].astype(np.float64))
            np.add.at(cost, cycle_of[here], sign * lagrangian.costs[column, moved[here]].astype(np.float64))
    taken = np.zeros(count, np.int64)
    budget = float(problem.limits.budget or 0.0)
    left = (lagrangian.budget - poor.spent) / lagrangian.cost_scale
    for reserve in (0.0, 1e-12, 1e-9):  # sums of floats may exceed the budget in the last bits: then keep a little back
        fill_budget(gain, cost, left - reserve * budget, taken)
        choice = before.copy()
        apply = taken[cycle_of] == 1
        choice[moved[apply]] = after[moved[apply]]
        if spent(lagrangian.costs, choice) <= budget:
            return replace(poor.solution, choice=choice)
    return poor.solution


def search_exactly(lagrangian: Lagrangian, known: Solution, best: Priced) -> tuple[Solution, bool]:
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
