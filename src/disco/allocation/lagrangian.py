"""The problem at a budget price λ: with values v - λ·c it is exact and canonical, and it bounds the optimum."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import UNLIMITED, Tree, tree_of
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, largest_of
from disco.allocation.screen import PriceBox
from disco.allocation.solver import solve
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
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
def wanted(
    values: Array, eligible: Array | None, costs: Array, segment: Array | None, prices: Array, rate: float,
    start: int = 0, stop: int = -1,
) -> float:  # fmt: skip
    """Σ_i max(0, max_k value - rate · cost - price) over the customers start to stop (-1: to the last), prices:
    (groups, depths)."""
    total = 0.0
    best = np.empty(2048)
    last = values.shape[1] if stop < 0 else stop
    for base in range(start, last, best.size):
        count = min(best.size, last - base)
        best[:] = 0.0
        end = base + count
        for k in range(values.shape[0]):
            worth, paid = values[k, base:end], costs[k, base:end]
            for j in range(count):
                net = np.float64(worth[j]) - rate * np.float64(paid[j])
                net -= prices[0, k] if segment is None else prices[segment[base + j], k]
                better = net > best[j]
                if eligible is not None:
                    better = better and eligible[k, base + j]
                best[j] = net if better else best[j]
        total += best.sum()
    return total


@njit(nogil=True, cache=True)
def least_losses(
    values: Array, eligible: Array | None, costs: Array, choice: Array, rate: float, start: int, stop: int, least: Array
) -> None:
    """least[a + 1, b + 1] ← the least that a customer start to stop who has a would lose by moving to b (-1: no code),
    at a budget price and without prices of the limits."""
    columns = values.shape[0]
    for i in range(start, stop):
        own = choice[i]
        worth = 0.0
        if own >= 0:
            worth = np.float64(values[own, i]) - rate * np.float64(costs[own, i])
        if worth < least[own + 1, 0]:
            least[own + 1, 0] = worth
        for k in range(columns):
            if eligible is None or eligible[k, i]:
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


def _drawn_on(far: Priced, near: Priced, rate: float) -> Array:
    """Potentials on the line through those of two rates."""
    share = (rate - near.rate) / (near.rate - far.rate)
    drawn: Array = near.solution.potentials + share * (near.solution.potentials - far.solution.potentials)
    return drawn


def worth_of_limits(tree: Tree, potentials: Array) -> tuple[Array, float]:
    """Potentials without prices that no limit could have, and what the limits are worth at them."""
    price = potentials[1:] - potentials[tree.parent[1:]]
    price = np.where(tree.low[1:] > 0, price, np.maximum(price, 0.0))
    price = np.where(tree.high[1:] < UNLIMITED, price, np.minimum(price, 0.0))
    allowed = np.zeros(tree.nodes)
    allowed[1:] = price
    allowed[1:] += allowed[tree.parent[1:]] * (tree.parent[1:] > 0)  # two levels at most
    return allowed, float(np.where(price > 0.0, price * tree.high[1:], price * tree.low[1:]).sum())


def sum_scale(largest: float, customers: int) -> float:
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    return math.ldexp(1.0, min(61 - customers.bit_length() - exponent, 1000))


class RateRange(NamedTuple):
    """Budget prices from one end to the other, with a box of prices at either end."""

    rates: tuple[float, float]
    boxes: tuple[PriceBox, PriceBox]

    def holds(self, rate: float, prices: Array) -> bool:
        """Whether prices (groups, depths) at a budget price of the range are in the box drawn between those of its
        ends."""
        low, high = self.rates
        if not low <= rate <= high:
            return False
        part = (rate - low) / (high - low)
        one, other = self.boxes
        centre = (1.0 - part) * one.centre + part * other.centre
        width = (1.0 - part) * one.width + part * other.width
        return PriceBox(centre, width, (1.0 - part) * one.none_width + part * other.none_width).holds(prices)


@dataclass(frozen=True, slots=True)
class Outside:
    """The customers of a whole table who are settled at every budget price that is still looked at.

    The others are a smaller table, whose limits are what these leave of the limits. Sums are in the grid units of the
    whole table.
    """

    whole: "Lagrangian"  # the whole table
    rows: Array  # (open,) row numbers of the smaller table's customers in the whole table
    choice: Array  # (customers of the whole table,) of those who are settled; not yet known of the others
    worth: int  # Σ values of the settled
    spent: int  # Σ costs of the settled
    ranges: tuple[RateRange, ...]  # where they are settled, the narrowest last

    def holds(self, rate: float, prices: Array) -> bool:
        """Whether they are settled at these prices (groups, depths)."""
        return all(one.holds(rate, prices) for one in self.ranges)

    def with_open(self, choice: Array) -> Array:
        """(customers of the whole table,) the choice of everybody, from that of the open ones."""
        everybody = self.choice.copy()
        everybody[self.rows] = choice
        return everybody


class Lagrangian:
    """The problem at any budget price, warm-started from the last one; what it adds up is of the whole table.

    outside: the customers who were settled before; None: the problem is the whole table.
    """

    def __init__(
        self,
        problem: AllocationProblem,
        *,
        warm: Array | None,
        engine: Engine | None = None,
        outside: Outside | None = None,
    ) -> None:
        assert problem.costs is not None
        assert problem.limits.budget is not None
        self.problem, self.engine, self.warm, self.outside = problem, engine, warm, outside
        self.costs: Array = problem.costs
        self.filled: tuple[float, float, Assignment] | None = None  # the two rates filled from last, and the result
        self.value_scale: float  # grid units per unit of value
        self.cost_scale: float  # grid units per unit of cost
        self.most: float  # the budget, money
        self.budget: int  # the budget, grid units
        self.grid_top: float  # no smaller than `AllocationProblem.grid_top` of any part of the table
        self.holds = True  # whether everybody outside was settled rightly at all budget prices so far
        if outside is not None:
            whole = outside.whole
            self.value_scale, self.cost_scale = whole.value_scale, whole.cost_scale
            self.most, self.budget, self.grid_top = whole.most, whole.budget, whole.grid_top
            return
        largest = largest_of(problem.values, problem.eligible)
        self.grid_top = max(largest, problem.least_top)
        self.value_scale = sum_scale(largest, problem.customers)
        self.cost_scale = sum_scale(problem.largest_cost, problem.customers)
        self.most = problem.limits.budget
        self.budget = self._in_grid_units(problem.largest_cost)

    def _in_grid_units(self, largest_cost: float) -> int:
        """The budget; no sum of scaled costs reaches 2⁶², so a larger one never binds."""
        return math.floor(min(self.most * self.cost_scale, 2.0**62)) if largest_cost > 0 else 0

    def at(self, rate: float) -> Priced:
        solution = solve(self.problem, rate=rate, warm=self.warm, engine=self.engine)
        self.begin_at(solution)
        if self.outside is not None:
            prices = solution.potentials[solution.tree.leaf]
            self.holds = self.holds and solution.feasible and self.outside.holds(rate, prices)
        return self.priced(rate, solution)

    def begin_at(self, solution: Assignment) -> None:
        """The next solve begins at these prices: of all limits, or with floors of the depths alone, as it always did,
        for where floors bind, which prices are shown depends on where they began."""
        shown = self.problem.columns + 1 if self.problem.limits.has_floors else solution.potentials.size
        self.warm = solution.potentials[1:shown]

    def priced(self, rate: float, solution: Assignment) -> Priced:
        worth, cost, paid = _totals(self.problem.values, self.costs, solution.choice, self.value_scale, self.cost_scale)
        fits = paid <= self.most
        if self.outside is not None:
            worth, cost = worth + self.outside.worth, cost + self.outside.spent
            fits = self._fits(solution.choice, cost)
        slack = self.budget - cost
        bound = worth + rate * self.unit * slack if math.isfinite(rate) else math.inf
        return Priced(rate, solution, worth, cost, fits, bound)

    def _fits(self, choice: Array, cost: int) -> bool:
        """Whether a choice that costs this much, in grid units, is within the budget to the last bit."""
        assert self.outside is not None
        slack = self.budget - cost
        customers = self.outside.whole.problem.customers
        if abs(slack) > customers + 2**12:  # more than the rounding of all terms and of their sum
            return slack > 0
        return self.outside.whole.pays(self.outside.with_open(choice))

    def pays(self, choice: Array) -> bool:
        """Whether a choice of everybody here is within the budget to the last bit."""
        return spent(self.costs, choice) <= self.most

    def keeps_budget(self, choice: Array) -> bool:
        """Whether everybody together is within the budget to the last bit, as the certificate counts it."""
        if self.outside is None:
            return self.pays(choice)
        cost = _totals(self.problem.values, self.costs, choice, self.value_scale, self.cost_scale)[1]
        return self._fits(choice, cost + self.outside.spent)

    def for_everybody(self, solution: Assignment) -> Assignment:
        """A solution of this problem with the customers outside."""
        if self.outside is None:
            return solution
        return replace(solution, choice=self.outside.with_open(solution.choice).astype(np.int16))

    def between(self, above: list[Priced], below: list[Priced]) -> Priced:
        """The bound where the narrowest of two sides cross, at prices drawn on from either side: any prices bound.

        Where a whole depth becomes worthless at one rate, or trades places with another, solving next to that rate is
        dear, and this is as good. With one allocation on either side, there are also the prices that these have there:
        they are exact if values and costs are proportional, for an allocation is then optimal up to that rate.
        """
        rich, poor = above[-1], below[-1]
        rate = min(max(self._meeting(above[-2:], below[-2:]), rich.rate), poor.rate)
        pairs = [(rich, poor), *((side[-2], side[-1]) for side in (above, below) if len(side) > 1)]
        near = [(a, b) for a, b in pairs if abs(a.rate - b.rate) < 0.1 * rate]
        found = [self._at_prices(rate, poor, _drawn_on(a, b, rate)) for a, b in near]
        alone = len(above) == len(below) == 1 and math.isfinite(poor.rate)
        if alone and poor.solution.tree.leaf.shape[0] == 1 and not self.problem.limits.has_floors:
            found += [self._kept_to(side, rate) for side in (rich, poor)]
        return min(found, key=lambda priced: priced.bound, default=poor)

    def _meeting(self, above: list[Priced], below: list[Priced]) -> float:
        """Where the bounds of two sides meet.

        Both are curved, so the crossing of two of their tangents is off by the difference of the squares of its
        distances from the two. The most even of the pairs tells best.
        """

        def uneven(pair: tuple[Priced, Priced]) -> float:
            rich, poor = pair
            rate = self.crossing(rich, poor)
            return abs((rate - rich.rate) ** 2 - (poor.rate - rate) ** 2)

        return self.crossing(*min(((rich, poor) for rich in above for poor in below), key=uneven))

    def _kept_to(self, side: Priced, rate: float) -> Priced:
        """The bound at another rate with the prices that an allocation has there, as if it were optimal."""
        problem, columns = self.problem, self.problem.columns

        def lost(rows: slice) -> Array:
            least = np.full((columns + 1, columns + 1), np.inf)
            least_losses(
                problem.values, problem.eligible, self.costs, side.solution.choice, rate, rows.start, rows.stop, least
            )
            return least

        parts = list(spread(lost, row_chunks(problem.customers), engine=self.engine))
        potentials = np.append(0.0, prices_from(np.min(parts, axis=0)))
        return self._at_prices(rate, side, potentials)

    def bound_at(self, priced: Priced) -> float:
        """The bound that the prices of a part of the table give for all of it."""
        whole = replace(priced, solution=replace(priced.solution, tree=tree_of(self.problem.limits)))
        return self._at_prices(priced.rate, whole, priced.solution.potentials).bound

    def _at_prices(self, rate: float, poor: Priced, potentials: Array) -> Priced:
        """Σ_i max(0, max_k v - rate · c - price) + what the limits are worth + rate · budget, as the bound."""
        tree, problem = poor.solution.tree, self.problem
        allowed, limits = worth_of_limits(tree, potentials)

        def added(rows: slice) -> float:
            return wanted(
                problem.values, problem.eligible, self.costs, problem.limits.segment, allowed[tree.leaf], rate,
                rows.start, rows.stop,
            )  # fmt: skip

        total = sum(spread(added, row_chunks(problem.customers), engine=self.engine))
        bound = (total + limits + rate * self.most) * self.value_scale
        if self.outside is not None:  # their prices are part of what the limits of the whole table are worth
            bound += self.outside.worth - rate * self.unit * self.outside.spent
        return replace(poor, rate=rate, solution=replace(poor.solution, potentials=allowed), bound=bound)

    def crossing(self, rich: Priced, poor: Priced) -> float:
        """The rate at which two allocations are worth the same."""
        return (rich.worth - poor.worth) / (rich.spent - poor.spent) / self.unit

    @property
    def unit(self) -> float:
        """Grid units of value per value, over grid units of cost per cost."""
        return self.value_scale / self.cost_scale
