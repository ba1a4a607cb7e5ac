"""The problem at a budget price λ: with values v - λ·c it is exact and canonical, and it bounds the optimum.

    L(λ) = max Σ (v - λ·c) + λ·budget   is at least the value of every allocation within the budget, for every λ ≥ 0.

Why: an allocation within the budget has Σ c ≤ budget, so that λ · (budget - Σ c) is at least 0 and its value no more
than Σ (v - λ·c) + λ·budget, which is at most L(λ). L is convex and made of straight pieces, one for each allocation
that is best somewhere, and the slope of a piece is what its allocation leaves of the budget. Its minimum is where this
changes its sign: between an allocation that spends too much and one that does not.

`Lagrangian.at(λ)` solves that problem and says what its allocation is worth and what it costs (`Priced`). Sums are
integers on a grid that depends on the whole table alone (`SumGrid`), so that neither the order of rows nor the part of
the table that is still looked at changes them.

Of a large table only a part is looked at (`rate_range`): the customers whose place depends on λ. The others are
settled (`SettledRest`), and every sum here is that of both together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import UNLIMITED, Tree
from disco.allocation.paths import Assignment
from disco.allocation.problem import BLOCK, AllocationProblem, TableCells, largest_of
from disco.allocation.rules import RateRange, choice_sums
from disco.allocation.solve import solve
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit
from disco.records.ports import Engine

# Relative distance of two budget prices whose prices may be drawn on to a third one between them.
_NEAR_RATES = 0.1


@dataclass(frozen=True, slots=True)
class Priced:
    """A solution at a budget price. Worth and spent are sums in grid units that depend on the table alone."""

    rate: float  # the budget price λ
    solution: Assignment
    worth: int  # Σ values, grid units of value
    spent: int  # Σ costs, grid units of cost
    fits: bool  # within the budget to the last bit, as the certificate counts it
    bound: float  # L(rate), or what other prices at this rate give; grid units of value


@dataclass(frozen=True, slots=True)
class SumGrid:
    """Grid units in which values and costs of a whole table are added up, and its budget."""

    customers: int  # of the whole table
    value_scale: float  # grid units per unit of value
    cost_scale: float  # grid units per unit of cost
    money: float  # the budget, as it was given
    budget: int  # the budget, grid units of cost
    grid_top: float  # no smaller than `AllocationProblem.grid_top` of any part of the table

    @classmethod
    def of(cls, customers: int, largest: float, largest_cost: float, budget: float, least_top: float) -> "SumGrid":
        """largest, largest_cost: magnitudes of values and costs that customers are eligible for."""
        value_scale, cost_scale = _sum_scale(largest, customers), _sum_scale(largest_cost, customers)
        # no sum of scaled costs reaches 2⁶², so a larger budget never binds
        units = math.floor(min(budget * cost_scale, 2.0**62)) if largest_cost > 0 else 0
        return cls(customers, value_scale, cost_scale, budget, units, max(largest, least_top))

    @property
    def unit(self) -> float:
        """Grid units of value per value, over grid units of cost per cost."""
        return self.value_scale / self.cost_scale


def _sum_scale(largest: float, customers: int) -> float:
    """The power of two at which sums over all customers stay below 2⁶²."""
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    return math.ldexp(1.0, min(61 - customers.bit_length() - exponent, 1000))


@dataclass(frozen=True, slots=True)
class SettledRest:
    """The customers of a table who are settled at every budget price that is still looked at.

    The others are a smaller table, whose limits are what these leave of the limits. Sums are in the grid units of the
    whole table. `rows` and `choice` are about the customers at hand: everybody of a table in memory, and of a table in
    chunks those whom the first pass left open.
    """

    grid: SumGrid  # of the whole table
    pays: Callable[[Array], bool]  # whether a choice of all customers at hand is within the budget to the last bit
    rows: Array  # (open,) row numbers of the smaller table's customers among those at hand
    choice: Array  # (customers at hand,) of those who are settled; not yet known of the others
    worth: int  # Σ values of the settled
    spent: int  # Σ costs of the settled
    ranges: tuple[RateRange, ...]  # where they are settled, the narrowest last

    def holds(self, rate: float, prices: Array) -> bool:
        """Whether they are settled at these prices (groups, depths)."""
        return all(one.holds(rate, prices) for one in self.ranges)

    def with_open(self, choice: Array) -> Array:
        """(customers at hand,) the choice of everybody, from that of the open ones."""
        everybody = self.choice.copy()
        everybody[self.rows] = choice
        return everybody


@njit(nogil=True, cache=True)
def wanted(cells: TableCells, prices: Array, rate: float, start: int, stop: int) -> float:
    """Σ_i max(0, max_k value - rate · cost - price) over the customers start to stop, prices: (groups, depths)."""
    values, eligible, costs, segment = cells
    total = 0.0
    best, price = np.empty(BLOCK), np.empty(BLOCK)
    for base in range(start, stop, best.size):
        count = min(best.size, stop - base)
        best[:] = 0.0
        end = base + count
        for k in range(values.shape[0]):
            worth, paid = values[k, base:end], costs[k, base:end]
            if segment.size == 0 and eligible.size == 0:  # a loop of its own: one price for all is read once
                same = prices[0, k]
                for j in range(count):
                    net = np.float64(worth[j]) - rate * np.float64(paid[j]) - same
                    best[j] = net if net > best[j] else best[j]
                continue
            for j in range(count):
                price[j] = prices[segment[base + j] if segment.size > 0 else 0, k]
                if eligible.size > 0 and not eligible[k, base + j]:
                    price[j] = np.inf
            for j in range(count):
                net = np.float64(worth[j]) - rate * np.float64(paid[j]) - price[j]
                best[j] = net if net > best[j] else best[j]
        total += best.sum()
    return total


@njit(nogil=True, cache=True)
def least_losses(cells: TableCells, choice: Array, rate: float, start: int, stop: int, least: Array) -> None:
    """least[a + 1, b + 1] ← the least that a customer start to stop who has a would lose by moving to b (-1: no code),
    at a budget price and without prices of the limits."""
    values, eligible, costs, _ = cells
    columns, everybody = values.shape[0], eligible.size == 0
    for i in range(start, stop):
        own = choice[i]
        worth = 0.0
        if own >= 0:
            worth = np.float64(values[own, i]) - rate * np.float64(costs[own, i])
        if worth < least[own + 1, 0]:
            least[own + 1, 0] = worth
        for k in range(columns):
            if everybody or eligible[k, i]:
                lost = worth - (np.float64(values[k, i]) - rate * np.float64(costs[k, i]))
                if lost < least[own + 1, k + 1]:
                    least[own + 1, k + 1] = lost


def prices_from(least: Array) -> Array:
    """(depths,) the smallest prices at which nobody would rather move; about right, if an allocation is not optimal.

    p_b ≥ p_a - least[a, b] for all a and b, where "no code" has the price 0: longest paths from it.

    >>> prices_from(np.array([[0.0, -2.0, 1.0], [3.0, 0.0, 1.0], [np.inf, np.inf, 0.0]])).tolist()
    [2.0, 1.0]
    """
    prices = np.zeros(least.shape[0])
    for _ in range(prices.size):
        higher = np.maximum((prices[:, None] - least).max(axis=0), 0.0)
        higher[0] = 0.0
        if (higher <= prices).all():
            break
        prices = np.maximum(prices, higher)
    return prices[1:]


class LimitPrices(NamedTuple):
    """Prices of limits, and what follows from them."""

    price: Array  # (nodes,) of each limit
    paid: Array  # (nodes,) what a customer below each node pays
    worth: Array  # (nodes - 1,) what each limit is worth at its price

    @classmethod
    def of(cls, tree: Tree, potentials: Array) -> "LimitPrices":
        """Without prices that no limit could have."""
        price = np.zeros(tree.nodes)
        price[1:] = potentials[1:] - potentials[tree.parent[1:]]
        price[1:] = np.where(tree.low[1:] > 0, price[1:], np.maximum(price[1:], 0.0))
        price[1:] = np.where(tree.high[1:] < UNLIMITED, price[1:], np.minimum(price[1:], 0.0))
        worth = np.where(price[1:] > 0.0, price[1:] * tree.high[1:], price[1:] * tree.low[1:])
        return cls(price, tree.summed(price), worth)


def _drawn_on(far: Priced, near: Priced, rate: float) -> Array:
    """Potentials on the line through those of two rates."""
    share = (rate - near.rate) / (near.rate - far.rate)
    drawn: Array = near.solution.potentials + share * (near.solution.potentials - far.solution.potentials)
    return drawn


class Lagrangian:
    """The problem at any budget price, warm-started from the last one; what it adds up is of the whole table.

    rest: the customers who were settled before; None: the problem is the whole table.
    """

    def __init__(
        self,
        problem: AllocationProblem,
        *,
        warm: Array | None,
        engine: Engine | None = None,
        rest: SettledRest | None = None,
    ) -> None:
        assert problem.costs is not None
        assert problem.limits.budget is not None
        self.problem, self.engine, self.warm, self.rest = problem, engine, warm, rest
        self.costs: Array = problem.costs
        self.filled: tuple[float, float, Assignment] | None = None  # the two rates filled from last, and the result
        self.holds = True  # whether everybody else was settled rightly at all budget prices so far
        if rest is None:
            largest, money = largest_of(problem.values, problem.eligible), problem.limits.budget
            problem.refuse_unless_finite(largest)  # before sums in whole numbers, which could not hold it
            self.grid = SumGrid.of(problem.customers, largest, problem.largest_cost, money, problem.least_top)
        else:
            self.grid = rest.grid

    def at(self, rate: float) -> Priced:
        """The exact solution at a budget price."""
        solution = solve(self.problem, rate=rate, warm=self.warm, engine=self.engine)
        self.begin_at(solution.potentials[1:])
        if self.rest is not None:
            prices = solution.potentials[solution.tree.leaf]
            self.holds = self.holds and solution.feasible and self.rest.holds(rate, prices)
        return self.priced(rate, solution)

    def begin_at(self, potentials: Array) -> None:
        """The next solve begins at these prices (nodes - 1,): of all limits, or with floors of the depths alone, for
        where floors bind, which prices are shown depends on where they began."""
        self.warm = potentials[: self.problem.columns] if self.problem.limits.has_floors else potentials

    def priced(self, rate: float, solution: Assignment) -> Priced:
        """What a solution is worth and costs."""
        worth, cost, paid = self._totals(solution.choice)
        fits = paid <= self.grid.money
        if self.rest is not None:
            worth, cost = worth + self.rest.worth, cost + self.rest.spent
            fits = self._fits(self.rest, solution.choice, cost)
        slack = self.grid.budget - cost
        bound = worth + rate * self.grid.unit * slack if math.isfinite(rate) else math.inf
        return Priced(rate, solution, worth, cost, fits, bound)

    def _totals(self, choice: Array) -> tuple[int, int, float]:
        given = np.asarray(choice, np.int16)
        return choice_sums(self.problem.values, self.costs, given, 0, self.grid.value_scale, self.grid.cost_scale)

    def _fits(self, rest: SettledRest, choice: Array, cost: int) -> bool:
        """Whether a choice with which everybody costs this much, in grid units, is within the budget to the last
        bit."""
        slack = self.grid.budget - cost
        if abs(slack) > self.grid.customers + 2**12:  # more than the rounding of all terms and of their sum
            return slack > 0
        return rest.pays(rest.with_open(choice))

    def pays(self, choice: Array) -> bool:
        """Whether the customers of this problem alone are within the budget to the last bit."""
        given = np.asarray(choice, np.int16)
        # costs in place of values, which would be read from memory for nothing
        return choice_sums(self.costs, self.costs, given, 0, 0.0, 0.0)[2] <= self.grid.money

    def keeps_budget(self, choice: Array) -> bool:
        """Whether everybody together is within the budget to the last bit, as the certificate counts it."""
        if self.rest is None:
            return self.pays(choice)
        return self._fits(self.rest, choice, self._totals(choice)[1] + self.rest.spent)

    def for_everybody(self, solution: Assignment) -> Assignment:
        """A solution of this problem with the customers who were settled before."""
        if self.rest is None:
            return solution
        return replace(solution, choice=self.rest.with_open(solution.choice).astype(np.int16))

    def between(self, above: list[Priced], below: list[Priced]) -> Priced:
        """The bound where the narrowest of two sides cross, at prices drawn on from either side: any prices bound, at
        which the customers who were settled before are settled.

        Where a whole depth becomes worthless at one rate, or trades places with another, solving next to that rate is
        dear, and this is as good. With one allocation on either side, there are also the prices that these have there:
        they are exact if values and costs are proportional, for an allocation is then optimal up to that rate.
        """
        over_budget, within_budget = above[-1], below[-1]
        rate = min(max(self._meeting(above[-2:], below[-2:]), over_budget.rate), within_budget.rate)
        pairs = [(over_budget, within_budget), *((side[-2], side[-1]) for side in (above, below) if len(side) > 1)]
        near = [(a, b) for a, b in pairs if abs(a.rate - b.rate) < _NEAR_RATES * rate]
        bounds = [self._at_prices(rate, within_budget, _drawn_on(a, b, rate)) for a, b in near]
        alone = len(above) == len(below) == 1 and math.isfinite(within_budget.rate)
        if alone and within_budget.solution.tree.leaf.shape[0] == 1 and not self.problem.limits.has_floors:
            bounds += [self._kept_to(side, rate) for side in (over_budget, within_budget)]
        bounds = [one for one in bounds if self._settled_at(one)]
        return min(bounds, key=lambda priced: priced.bound, default=within_budget)

    def _settled_at(self, priced: Priced) -> bool:
        """Whether everybody else is settled at these prices; if not, the bound may be too low for the whole table."""
        prices = priced.solution.potentials[priced.solution.tree.leaf]
        return self.rest is None or self.rest.holds(priced.rate, prices)

    def _meeting(self, above: list[Priced], below: list[Priced]) -> float:
        """Where the bounds of two sides meet.

        Both are curved, so the crossing of two of their tangents is off by the difference of the squares of its
        distances from the two. The most even of the pairs tells best.
        """

        def uneven(pair: tuple[Priced, Priced]) -> float:
            over_budget, within_budget = pair
            rate = self.crossing(over_budget, within_budget)
            return abs((rate - over_budget.rate) ** 2 - (within_budget.rate - rate) ** 2)

        pairs = [(over_budget, within_budget) for over_budget in above for within_budget in below]
        return self.crossing(*min(pairs, key=uneven))

    def _kept_to(self, side: Priced, rate: float) -> Priced:
        """The bound at another rate with the prices that an allocation has there, as if it were optimal."""
        problem, columns = self.problem, self.problem.columns
        cells = problem.rows.cells()

        def lost(rows: slice) -> Array:
            least = np.full((columns + 1, columns + 1), np.inf)
            least_losses(cells, side.solution.choice, rate, rows.start, rows.stop, least)
            return least

        parts = list(spread(lost, row_chunks(problem.customers), engine=self.engine))
        potentials = np.append(0.0, prices_from(np.min(parts, axis=0)))
        return self._at_prices(rate, side, potentials)

    def _at_prices(self, rate: float, side: Priced, potentials: Array) -> Priced:
        """Σ_i max(0, max_k v - rate · c - price) + what the limits are worth + rate · budget, as the bound."""
        tree, problem = side.solution.tree, self.problem
        prices = LimitPrices.of(tree, potentials)
        allowed, limits = prices.paid, float(prices.worth.sum())
        cells = problem.rows.cells()

        def added(rows: slice) -> float:
            return wanted(cells, allowed[tree.leaf], rate, rows.start, rows.stop)

        total = sum(spread(added, row_chunks(problem.customers), engine=self.engine))
        bound = (total + limits + rate * self.grid.money) * self.grid.value_scale
        if self.rest is not None:  # their prices are part of what the limits of the whole table are worth
            bound += self.rest.worth - rate * self.grid.unit * self.rest.spent
        return replace(side, rate=rate, solution=replace(side.solution, potentials=allowed), bound=bound)

    def crossing(self, over_budget: Priced, within_budget: Priced) -> float:
        """The rate at which two allocations are worth the same."""
        gained = over_budget.worth - within_budget.worth
        return gained / (over_budget.spent - within_budget.spent) / self.grid.unit
