"""The problem at a budget price λ: with values v - λ·c it is exact and canonical, and it bounds the optimum."""

import math
from dataclasses import dataclass, replace

import numpy as np

from disco.allocation.limits import UNLIMITED
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, largest_of
from disco.allocation.solver import solve
from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True)
class Priced:
    """A solution at a budget price. Worth and spent are sums in grid units that depend on the table alone."""

    rate: float  # the budget price λ
    solution: Assignment
    worth: int  # Σ values, grid units of value
    spent: int  # Σ costs, grid units of cost
    fits: bool  # within the budget to the last bit, as the certificate counts it
    bound: float  # L(rate), or what other prices at this rate give; grid units of value


@njit(nogil=True, cache=True)
def _totals(
    values: Array, costs: Array, choice: Array, value_scale: float, cost_scale: float
) -> tuple[int, int, float]:
    """Σ round(value · scale), Σ round(cost · scale) and `spent` of a choice, in one pass.

    The first two are integers, so the order of customers cannot change them.
    """
    worth = 0
    cost = 0
    total = low = 0.0
    for i in range(choice.size):
        if choice[i] >= 0:
            worth += int(np.rint(np.float64(values[choice[i], i]) * value_scale))
            term = np.float64(costs[choice[i], i])
            cost += int(np.rint(term * cost_scale))
            larger = total + term
            low += (total - larger) + term if total >= term else (term - larger) + total
            total = larger
    return worth, cost, total + low


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _wanted(
    values: Array, eligible: Array | None, costs: Array, segment: Array | None, prices: Array, rate: float
) -> float:
    """Σ_i max(0, max_k value - rate · cost - price), prices: (groups, depths)."""
    total = 0.0
    best = np.empty(2048)
    for start in range(0, values.shape[1], best.size):
        count = min(best.size, values.shape[1] - start)
        best[:] = 0.0
        for k in range(values.shape[0]):
            for j in range(count):
                i = start + j
                net = np.float64(values[k, i]) - rate * np.float64(costs[k, i])
                net -= prices[0, k] if segment is None else prices[segment[i], k]
                if net > best[j] and (eligible is None or eligible[k, i]):
                    best[j] = net
        total += best.sum()
    return total


def _drawn_on(far: Priced, near: Priced, rate: float) -> Array:
    """Potentials on the line through those of two rates."""
    share = (rate - near.rate) / (near.rate - far.rate)
    drawn: Array = near.solution.potentials + share * (near.solution.potentials - far.solution.potentials)
    return drawn


def _sum_scale(largest: float, customers: int) -> float:
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    return math.ldexp(1.0, min(61 - customers.bit_length() - exponent, 1000))


class Lagrangian:
    """The problem at any budget price, warm-started from the last one."""

    def __init__(self, problem: AllocationProblem, *, warm: Array | None, engine: Engine | None = None) -> None:
        assert problem.costs is not None
        assert problem.limits.budget is not None
        self.problem, self.engine, self.warm = problem, engine, warm
        self.costs: Array = problem.costs
        self.value_scale = _sum_scale(largest_of(problem.values, problem.eligible), problem.customers)
        self.cost_scale = _sum_scale(problem.largest_cost, problem.customers)
        self.most = problem.limits.budget
        # no sum of scaled costs reaches 2⁶², so a larger budget never binds
        self.budget = math.floor(min(self.most * self.cost_scale, 2.0**62)) if problem.largest_cost > 0 else 0

    def at(self, rate: float) -> Priced:
        solution = solve(self.problem, rate=rate, warm=self.warm, engine=self.engine)
        self.begin_at(solution)
        return self.priced(rate, solution)

    def begin_at(self, solution: Assignment) -> None:
        """The next solve begins at these prices: of all limits, or with floors of the depths alone, as it always did,
        for where floors bind, which prices are shown depends on where they began."""
        shown = self.problem.columns + 1 if self.problem.limits.has_floors else solution.potentials.size
        self.warm = solution.potentials[1:shown]

    def priced(self, rate: float, solution: Assignment) -> Priced:
        worth, cost, paid = _totals(self.problem.values, self.costs, solution.choice, self.value_scale, self.cost_scale)
        fits = paid <= self.most
        slack = self.budget - cost
        bound = worth + rate * (self.value_scale / self.cost_scale) * slack if math.isfinite(rate) else math.inf
        return Priced(rate, solution, worth, cost, fits, bound)

    def between(self, above: list[Priced], below: list[Priced]) -> Priced:
        """The bound where the narrowest of two sides cross, at prices drawn on from either side: any prices bound.

        Where a whole depth becomes worthless at one rate, solving next to that rate is dear, and this is as good.
        """
        rich, poor = above[-1], below[-1]
        rate = min(max(self.crossing(rich, poor), rich.rate), poor.rate)
        pairs = [(rich, poor), *((side[-2], side[-1]) for side in (above, below) if len(side) > 1)]
        near = [(a, b) for a, b in pairs if abs(a.rate - b.rate) < 0.1 * rate]
        found = [self._at_prices(rate, poor, _drawn_on(a, b, rate)) for a, b in near]
        return min(found, key=lambda priced: priced.bound, default=poor)

    def _at_prices(self, rate: float, poor: Priced, potentials: Array) -> Priced:
        """Σ_i max(0, max_k v - rate · c - price) + what the limits are worth + rate · budget, as the bound."""
        tree, problem = poor.solution.tree, self.problem
        price = potentials[1:] - potentials[tree.parent[1:]]
        price = np.where(tree.low[1:] > 0, price, np.maximum(price, 0.0))
        price = np.where(tree.high[1:] < UNLIMITED, price, np.minimum(price, 0.0))
        allowed = np.zeros(tree.nodes)
        allowed[1:] = price
        allowed[1:] += allowed[tree.parent[1:]] * (tree.parent[1:] > 0)  # two levels at most
        limits = np.where(price > 0.0, price * tree.high[1:], price * tree.low[1:]).sum()
        wanted = _wanted(problem.values, problem.eligible, self.costs, problem.limits.segment, allowed[tree.leaf], rate)
        bound = (wanted + float(limits) + rate * self.most) * self.value_scale
        return replace(poor, rate=rate, solution=replace(poor.solution, potentials=allowed), bound=bound)

    def crossing(self, rich: Priced, poor: Priced) -> float:
        """The rate at which two allocations are worth the same."""
        unit = self.value_scale / self.cost_scale
        return (rich.worth - poor.worth) / (rich.spent - poor.spent) / unit
