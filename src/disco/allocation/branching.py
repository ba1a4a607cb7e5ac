"""A budget for few customers, by branching over those whom the linear relaxation splits between two places.

One customer with a large basket can make the bound of the prices useless: no budget price gives them half a code. With
their place fixed, the rest is a smaller problem with prices of its own, which bound it well. So as long as a problem
is not finished (`finishing`), the customer whose change costs most between the allocations on either side of the budget
is given each place they could have. The problem that could be worth most comes first.

Counts of problems and states end the search, not seconds, so that an answer does not depend on the machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from disco.allocation.finishing import PROVED, Relaxed, Search
from disco.allocation.lagrangian import Lagrangian
from disco.allocation.limits import UNLIMITED, Limits
from disco.allocation.options import OptionTable
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.allocation.problem import AllocationProblem
from disco.records.arrays import Array

_WORK = 2_000_000  # states, about, that are visited in all
_RELAXED = 10_000  # states that could be visited while one problem gets its prices
_TRIED, _STEPS = 2, 5  # fill, search, branch where it helps, search, branch
_BRIEF, _THOROUGH = 100_000, 3_500_000  # states of a list, about: before branching, and after it does not help
_TIED = 24  # customers who lose nothing by another place: with so many, branching may take some steps to help
_DEEP = 8  # steps, at most, until it must
_COARSE = 1e-6  # relative gap from which on it does not wait for that
_FINE = 1e-6  # relative gap from which on chance finds an allocation that needs no other proof
_SAMPLE, _SAMPLED = 800_000, 2_000_000  # lists for some of the customers, and states of all
_HELPS = 0.25  # of the gap, by which branching has to lower the bound
_DECIDED = 1e-9  # relative gap from which on branching tells no more: what is left is how well sums fill the budget

Relax = Callable[[AllocationProblem], tuple[Lagrangian, Relaxed] | None]


@dataclass(frozen=True, slots=True)
class Finished:
    """The best allocation found, and what no allocation exceeds."""

    solution: Assignment
    bound: float
    exact: bool  # proved optimal


@dataclass(slots=True)
class _Part:
    """A problem in which some customers have their places; amounts are those of all customers together."""

    search: Search
    rows: Array  # (customers left,) their numbers in the whole table
    choice: Array  # (all customers,) of those who have their places
    worth: float  # Σ values of those who have their places
    bound: float  # what no allocation of this part is worth more than
    pennies: Pennies | None  # how costs are counted that are decimals
    step: int = 0  # what was tried
    children: "list[_Part] | None" = None  # with one more customer at one place, where that was tried

    @property
    def scale(self) -> float:
        return self.search.lagrangian.value_scale


def branch(whole: Lagrangian, relaxed: Relaxed, relax: Relax) -> Finished:
    """The optimum of few customers with a budget, proved where the work suffices.

    relax: prices of a part; None: no allocation meets its limits.
    """
    return _Tree(whole, relaxed, relax).finished()


class _Tree:
    """The parts that are open, and the best allocation of all."""

    def __init__(self, whole: Lagrangian, relaxed: Relaxed, relax: Relax) -> None:
        self.whole, self.relax = whole, relax
        pennies = _pennies(whole)
        self.table = OptionTable.of(whole, relaxed.filled.tree, pennies)
        self.best = relaxed.filled
        self.unsure = -math.inf  # a bound of what was given up
        self.left = _WORK
        nobody = np.full(whole.problem.customers, -1, np.int16)
        search = Search.of(whole, relaxed, pennies)
        bound = search.prices.bound / whole.value_scale
        self.parts = [_Part(search, np.arange(whole.problem.customers), nobody, 0.0, bound, pennies)]

    @property
    def value(self) -> float:
        return self.table.worth_of(self.table.places(self.best.choice)) / self.whole.value_scale

    def finished(self) -> Finished:
        while self.parts and self.left > 0:
            value = self.value
            self.parts = [part for part in self.parts if part.bound > value]
            if not self.parts or max(part.bound for part in self.parts) - value <= PROVED * abs(value):
                break
            at = max(range(len(self.parts)), key=lambda one: self.parts[one].bound)
            self._advance(self.parts.pop(at))
        value = self.value
        bound = max([value, self.unsure, *(part.bound for part in self.parts)])
        return Finished(self.best, bound, exact=bound <= value)

    def _advance(self, part: _Part) -> None:
        """The next step of one part, after which it is closed, open, or made of others."""
        search = part.search
        wanted = (self.value - part.worth) * part.scale
        if part.step == 0:
            self.left -= search.fill()
        elif part.step == 1:
            self.left -= search.deepen(wanted, _BRIEF)
        elif part.step == _TRIED + 1:
            self.left -= search.deepen(wanted, _THOROUGH)
            if search.tied >= _TIED and not search.proved(wanted):
                self.left -= self._chance(search, wanted)
        elif self._split(part):
            return
        self._take(part, search.table.choice(search.places))
        part.step += 1
        part.bound = min(part.bound, search.bound / part.scale + part.worth)
        if part.step == _STEPS or search.proved(wanted):
            self.unsure = max(self.unsure, part.bound)
        else:
            self.parts.append(part)

    def _chance(self, search: Search, wanted: float) -> int:
        """What chance finds where a proof has no room. Returns the number of states that could be visited meanwhile."""
        if search.bound - max(float(search.worth), wanted) > _FINE * abs(search.bound):
            return 0
        visited = search.fill(large=True)
        if not search.proved(wanted):
            visited += search.sample(wanted, _SAMPLE, _SAMPLED)
        return visited

    def _split(self, part: _Part) -> bool:
        """Whether the part is made of others now, each with one more customer at one place."""
        if part.bound - self.value <= _DECIDED * abs(self.value):
            return False
        if part.children is None:
            part.children = self._children(part)
        value = self.value  # perhaps that of a child
        bound = max((child.bound for child in part.children), default=-math.inf)
        helps = bound - value <= (1.0 - _HELPS) * (part.bound - value)
        may_help = (
            part.bound - value > _COARSE * abs(value)
            and part.search.tied >= _TIED
            and part.choice.size - part.rows.size < _DEEP
        )
        if part.step == _TRIED and not helps and not may_help:
            return False
        for child in part.children:
            child.bound = min(child.bound, part.bound)
        self.parts += part.children
        return True

    def _children(self, part: _Part) -> "list[_Part]":
        """The part with one more customer given each of their places, where the budget then binds."""
        children = []
        for problem, rows, choice, worth, cost in _placed(part):
            self.left -= _RELAXED
            found = self.relax(problem)
            if found is None:
                continue
            lagrangian, inner = found
            pennies = None if part.pennies is None else part.pennies.less(cost)
            search = Search.of(lagrangian, inner, pennies)
            bound = min(part.bound, search.prices.bound / lagrangian.value_scale + worth)
            child = _Part(search, rows, choice, worth, bound, pennies)
            kept = self._take(child, inner.filled.choice)
            if not inner.exact or (pennies is not None and not kept):
                children.append(child)
        return children

    def _take(self, part: _Part, inner: Array) -> bool:
        """The best of a part may be the best of all. Returns whether it keeps the budget."""
        tried = part.choice.copy()
        tried[part.rows] = inner
        if self.whole.keeps_budget(tried):
            self.best = self.table.better(self.best, replace(self.best, choice=tried))
            return True
        # the budget of a part is a little larger, not to lose what meets it to the last bit; costs in pennies are exact
        value = self.table.worth_of(self.table.places(tried)) / self.whole.value_scale
        if part.pennies is None and value > self.value:
            self.unsure = max(self.unsure, value)
        return False


def _pennies(whole: Lagrangian) -> Pennies | None:
    problem = whole.problem
    costs = whole.costs if problem.eligible is None else np.where(problem.eligible, whole.costs, 0.0)
    return Pennies.of(costs, whole.most)


def _placed(part: _Part) -> list[tuple[AllocationProblem, Array, Array, float, float]]:
    """The part with one more customer given each of their places: (problem, rows, choice, worth, cost of the place)."""
    lagrangian = part.search.lagrangian
    problem, costs = lagrangian.problem, lagrangian.costs  # its cells are those that the budget can pay
    rows = np.arange(problem.customers)

    def cost_of(choice: Array) -> Array:
        return np.where(choice >= 0, costs[np.maximum(choice, 0), rows], 0.0).astype(np.float64)

    change = np.abs(cost_of(part.search.relaxed.rich) - cost_of(part.search.relaxed.poor))
    keys = problem.keys_of(rows)
    if not change.any():
        change = costs.max(axis=0).astype(np.float64)
    row = int(np.lexsort((keys, -change))[0])
    kept = np.delete(rows, row)
    children = []
    for place in range(-1, problem.columns):
        if place >= 0 and problem.eligible is not None and not problem.eligible[place, row]:
            continue
        cost = float(costs[place, row]) if place >= 0 else 0.0
        limits = _without(problem.limits, row, place, cost)
        if limits is None:
            continue
        choice = part.choice.copy()
        choice[part.rows[row]] = place
        worth = part.worth + (float(problem.values[place, row]) if place >= 0 else 0.0)
        child = AllocationProblem(
            np.ascontiguousarray(problem.values[:, kept]),
            limits,
            None if problem.eligible is None else np.ascontiguousarray(problem.eligible[:, kept]),
            np.ascontiguousarray(costs[:, kept]),
            keys[kept],
            problem.depths,
            problem.largest_cost,
        )
        children.append((child, part.rows[kept], choice, worth, cost))
    return children


def _without(limits: Limits, row: int, place: int, cost: float) -> Limits | None:
    """The limits of the others once one customer has a place; None: they are broken."""
    taken = np.zeros(limits.caps.size, np.int64)
    if place >= 0:
        taken[place] = 1
    caps = np.where(limits.caps >= UNLIMITED, UNLIMITED, limits.caps - taken)
    floors = np.maximum(limits.floors - taken, 0)
    assert limits.budget is not None
    budget = limits.budget - cost
    budget += 2.0**-51 * limits.budget if cost > 0.0 else 0.0  # not to lose what meets the budget to the last bit
    if (caps < 0).any() or budget < 0.0:
        return None
    if limits.segment is None or limits.segment_caps is None or limits.segment_floors is None:
        return Limits(caps, floors, budget=budget)
    group = int(limits.segment[row])
    segment_caps, segment_floors = limits.segment_caps.copy(), limits.segment_floors.copy()
    segment_caps[group] = np.where(segment_caps[group] >= UNLIMITED, UNLIMITED, segment_caps[group] - taken)
    segment_floors[group] = np.maximum(segment_floors[group] - taken, 0)
    if (segment_caps < 0).any():
        return None
    segment = np.delete(limits.segment, row)
    return Limits(caps, floors, segment_caps, segment_floors, segment, limits.segment_labels, budget)
