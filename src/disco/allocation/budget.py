"""A budget on top of the limits: Lagrangian bound, then the budget filled cycle by cycle.

For a budget price λ ≥ 0 the problem with values v - λ·c is exact and canonical, and

    L(λ) = max Σ (v - λ·c) + λ·budget   bounds the optimum.

λ is bracketed between an allocation that spends too much and one that does not; the difference between the two is split
into cycles, and the best subset that the budget allows is applied. Few customers: searched exactly.
"""

import math
from dataclasses import dataclass, replace

import numba as nb
import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.cycles import fill_budget, split_into_cycles
from disco.allocation.enumeration import search
from disco.allocation.problem import Problem, largest_of
from disco.allocation.solution import Solution
from disco.allocation.solver import solve

_MOVES = 400  # a bracket whose ends differ in fewer customers is narrow enough to fill the budget from
_STEPS = 60
_TO_THE_END = 20_000  # customers, at most, for whom λ is found exactly, so that a looser limit cannot lower the bound
_CLOSE_ENOUGH = 4e-7  # relative gap at which the search for the budget price may stop
_VISITS = 2_000_000
_SEARCHED = 48  # customers, at most, for the exact search


@dataclass(frozen=True, slots=True)
class Priced:
    """A solution at a budget price; worth and spent are sums in grid units that depend on the table alone.

    fits: within the budget to the last bit, as the certificate counts it.
    """

    rate: float
    solution: Solution
    worth: int
    spent: int
    fits: bool


@dataclass(frozen=True, slots=True)
class BudgetSolution:
    """solution: feasible · bound_from: the solution and rate whose prices give the lowest bound · exact: proved."""

    solution: Solution
    bound_from: Priced
    exact: bool = False


@nb.njit(nogil=True, cache=True)
def _total(matrix: Array, choice: Array, scale: float) -> int:
    """Σ round(matrix[choice[i], i] · scale): an integer, so the order of customers cannot change it."""
    total = 0
    for i in range(choice.size):
        if choice[i] >= 0:
            total += int(np.rint(np.float64(matrix[choice[i], i]) * scale))
    return total


@nb.njit(nogil=True, cache=True)
def spent(costs: Array, choice: Array) -> float:
    """Σ costs[choice[i], i] with its rounding error carried along."""
    total = low = 0.0
    for i in range(choice.size):
        if choice[i] >= 0:
            term = np.float64(costs[choice[i], i])
            larger = total + term
            low += (total - larger) + term if total >= term else (term - larger) + total
            total = larger
    return total + low


def _sum_scale(largest: float, customers: int) -> float:
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    return math.ldexp(1.0, min(61 - customers.bit_length() - exponent, 1000))


class Lagrangian:
    """The problem at any budget price, warm-started from the last one."""

    def __init__(self, problem: Problem, *, warm: Array | None, threads: int) -> None:
        assert problem.costs is not None
        assert problem.limits.budget is not None
        self.problem, self.threads, self.warm = problem, threads, warm
        self.costs: Array = problem.costs
        self.value_scale = _sum_scale(largest_of(problem.values, problem.eligible), problem.customers)
        self.cost_scale = _sum_scale(problem.largest_cost, problem.customers)
        self.most = problem.limits.budget
        self.budget = math.floor(self.most * self.cost_scale) if problem.largest_cost > 0 else 0

    def at(self, rate: float) -> Priced:
        solution = solve(self.problem, rate=rate, warm=self.warm, threads=self.threads)
        self.warm = solution.potentials[1 : self.problem.columns + 1]
        return self.priced(rate, solution)

    def priced(self, rate: float, solution: Solution) -> Priced:
        worth = _total(self.problem.values, solution.choice, self.value_scale)
        cost = _total(self.costs, solution.choice, self.cost_scale)
        return Priced(rate, solution, worth, cost, spent(self.costs, solution.choice) <= self.most)

    def bound(self, priced: Priced) -> float:
        """L(rate), in grid units of value."""
        unit = self.value_scale / self.cost_scale
        return priced.worth + priced.rate * unit * (self.budget - priced.spent)

    def crossing(self, rich: Priced, poor: Priced) -> float:
        """The rate at which two allocations are worth the same."""
        unit = self.value_scale / self.cost_scale
        return (rich.worth - poor.worth) / (rich.spent - poor.spent) / unit


def solve_budget(problem: Problem, *, warm: Array | None = None, threads: int = 1) -> BudgetSolution | None:
    """An allocation within the budget, and the prices that bound what any could reach; None: floors cost too much."""
    lagrangian = Lagrangian(_affordable(problem), warm=warm, threads=threads)
    rich = lagrangian.at(0.0)
    if not rich.solution.feasible:
        return None
    if rich.fits:
        return BudgetSolution(rich.solution, rich, exact=True)
    poor = _cheapest(lagrangian, rich)
    if not poor.fits:
        return None
    best, above, below = _bracket(lagrangian, rich, poor)
    filled = _fill_best(lagrangian, best, above, below)
    if problem.customers <= _SEARCHED:
        filled, exact = _search(lagrangian, filled, best)
        return BudgetSolution(filled, best, exact)
    return BudgetSolution(filled, best)


def _affordable(problem: Problem) -> Problem:
    """Cells that cost more than the whole budget can never be taken: costs are not negative."""
    budget = problem.limits.budget
    if budget is None or problem.costs is None or problem.largest_cost <= budget:
        return problem
    within = problem.costs <= np.float64(budget)  # a plain float would be rounded to the precision of the costs
    eligible = within if problem.eligible is None else within & problem.eligible
    return replace(problem, eligible=eligible, largest_cost=largest_of(problem.costs, eligible))


def _cheapest(lagrangian: Lagrangian, rich: Priced) -> Priced:
    """The allocation that spends least: nobody gets a code, or with floors the cheapest way to meet them."""
    problem = lagrangian.problem
    if not problem.limits.has_floors:
        nobody = np.full(problem.customers, -1, np.int16)
        return lagrangian.priced(math.inf, replace(rich.solution, choice=nobody))
    negative = replace(problem, values=-lagrangian.costs, costs=None, largest_cost=0.0)
    return lagrangian.priced(math.inf, solve(negative, threads=lagrangian.threads))


def _bracket(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> tuple[Priced, list[Priced], list[Priced]]:
    """Narrow (spends too much, does not) until their difference is small or nothing lies between.

    Returns the solution with the best bound, and the last few on either side, the narrowest last.
    """
    best = rich
    above, below = [rich], [poor]
    jump = False
    kept = 11 if lagrangian.problem.customers <= 1_000_000 else 3
    for step in range(_STEPS):
        if rich.spent <= poor.spent:  # they differ in the last bits only
            break
        rate = lagrangian.crossing(rich, poor)
        interpolated = math.isfinite(poor.rate) and step % 3 != 2 and not jump
        if interpolated:  # spending falls smoothly with the rate
            share = (rich.spent - lagrangian.budget) / (rich.spent - poor.spent)
            rate = rich.rate + min(max(share, 0.02), 0.98) * (poor.rate - rich.rate)
        if not rich.rate < rate < poor.rate:
            break
        found = lagrangian.at(rate)
        if lagrangian.bound(found) < lagrangian.bound(best):
            best = found
        same = found.spent in (rich.spent, poor.spent)
        before = rich.spent - poor.spent
        if found.fits:
            poor = found
            below = [*below[-kept:], poor]
        else:
            rich = found
            above = [*above[-kept:], rich]
        jump = math.isfinite(poor.rate) and step > 1 and rich.spent - poor.spent > 0.8 * before  # a kink in between
        if same and not interpolated:  # at the crossing of the two, neither is beaten: nothing lies between
            break
        if found.spent == lagrangian.budget:
            break
        if lagrangian.problem.customers <= _TO_THE_END:
            continue
        if step >= 4 and poor.rate - rich.rate <= 5e-2 * poor.rate:  # perhaps the budget can be filled well already
            worth = lagrangian.priced(0.0, _fill(lagrangian, rich, poor)).worth
            if lagrangian.bound(best) - worth <= _CLOSE_ENOUGH * abs(worth):
                break
        if math.isfinite(poor.rate) and poor.rate - rich.rate <= 1e-3 * poor.rate:
            moves = int(np.count_nonzero(rich.solution.choice != poor.solution.choice))
            if moves <= max(40, min(_MOVES, int(np.count_nonzero(poor.solution.choice >= 0)) // 100)):
                break
    return best, above, below


def _fill_best(lagrangian: Lagrangian, best: Priced, above: list[Priced], below: list[Priced]) -> Solution:
    """Fill from the narrowest bracket; a wider one has more cycles to choose from, and may leave less unspent."""
    filled: list[Priced] = []
    for back in (1, 2, 3, 4, 6, 8, 12):
        for back_above, back_below in ((1, back), (back, 1)) if back > 1 else ((1, 1),):
            rich, poor = above[-min(back_above, len(above))], below[-min(back_below, len(below))]
            filled.append(lagrangian.priced(0.0, _fill(lagrangian, rich, poor)))
            most = max(filled, key=lambda priced: priced.worth)
            if lagrangian.bound(best) - most.worth <= _CLOSE_ENOUGH * abs(most.worth):
                return most.solution
    return most.solution


def _fill(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> Solution:
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


def _search(lagrangian: Lagrangian, known: Solution, best: Priced) -> tuple[Solution, bool]:
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
    bound = lagrangian.bound(best) / lagrangian.value_scale
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
