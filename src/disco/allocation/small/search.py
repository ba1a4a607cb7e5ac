"""A budget for few customers, solved to the end: every allocation that could be better is looked at, or bounded.

A problem gets prices and a bound D (`budget`), and then up to three steps, until its bound is met:

1. Exchanges (`exchanges`): where many customers lose nothing by another place, an allocation that meets the bound.
2. Growing losses: all allocations that lose no more than g are looked at (`lists`), for a g that grows until one is
   within the budget. That one is the optimum; as long as there is none, the bound is D - g. Most of the work is that
   of the last g.
3. Branching: one customer with a large basket can make D useless, for no budget price gives them half a code. The
   customer whose change costs most between the allocations on either side of the budget is given each place they could
   have, and each of the parts is a problem with prices of its own. Where the bound is met but for the last digits, what
   is left is how well sums fill the budget, and larger lists and more exchanges are tried before.

The problem that could be worth most comes first. One limit of work ends the search (`WORK`): states of lists that are
made, sums of exchanges and relaxations of parts are counted, not seconds, so that an answer depends neither on the
machine nor on who asks. Sums are integers, and ties go by hash.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import UNLIMITED, Limits, Tree
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.allocation.problem import AllocationProblem
from disco.allocation.small.exchanges import fill_exactly
from disco.allocation.small.lists import Meeting
from disco.allocation.small.options import OptionTable, Prices, Unlisted, open_customers
from disco.records.arrays import Array

PROVED = 1e-12  # relative gap at which a certificate calls a value optimal

# The limit of work and what it counts. One unit is the time in which ten states of a list are made.
WORK = 2_000_000  # units, in all
_STATES_PER_UNIT = 10
_SUMS_PER_UNIT = 5  # exchanges, or sums of them
_RELAXED_UNITS = 10_000  # for the prices of one part
_BRIEF_STATES, _THOROUGH_STATES = 100_000, 3_500_000  # of a list, about: the second where only sums are left

# How losses grow
_FIRST_OPEN = 12  # customers, about, who are open in the first pass
_WIDER = 1.6  # times as much may be lost in the next pass, at least
_MORE_CELLS = 6  # at least, that are open in the next pass and were not before
_OVER_IN_LAST_BIT = 8  # allocations that keep the budget on the grid only, before a pass is given up
_MET = 0.9  # of the gap at which a value is called optimal: a join of lists goes no further
_SUMS_LEFT = 1e-6  # relative gap from which on what is left is how well sums fill the budget
_UNKNOWN = -(2**62)  # less than any allocation is worth


class Relaxed(NamedTuple):
    """What prices say about a problem.

    The two allocations on either side of the budget are both optimal at the same prices, or nearly so. Exchanges begin
    at them, and branching takes the customer in whom they differ most.
    """

    best: Priced  # whose prices give the lowest bound
    filled: Assignment  # within the budget
    near: Array  # (customers,) the choice filled from the two next to the budget alone
    over_budget: Array  # (customers,) the choice that spends a little too much
    within_budget: Array  # (customers,) the choice that does not
    exact: bool  # whether the budget does not bind


Relax = Callable[[AllocationProblem], tuple[Lagrangian, Relaxed] | None]
"""Prices of a part of a problem; None: no allocation meets its limits."""


class SearchEnd(NamedTuple):
    """The best allocation found, and what no allocation exceeds."""

    solution: Assignment
    bound: float
    exact: bool  # proved optimal


def search_to_the_end(whole: Lagrangian, relaxed: Relaxed, relax: Relax) -> SearchEnd:
    """The optimum of few customers with a budget, proved where the work suffices."""
    return _Branches(whole, relaxed, relax).search()


@dataclass(slots=True)
class _Problem:
    """One problem, and what is known about it so far; amounts are in its grid units of value.

    `fill` and `list` raise what is known from below and lower the bound from above. Both may be called again with more
    room, and go on from what they know.
    """

    lagrangian: Lagrangian
    relaxed: Relaxed
    table: OptionTable
    prices: Prices
    places: Array  # (customers,) the best known
    worth: int  # of the best known
    bound: float  # what no allocation is worth more than
    lost: float = 0.0  # what every better allocation than the best known loses at least

    @classmethod
    def of(cls, lagrangian: Lagrangian, relaxed: Relaxed, pennies: Pennies | None) -> "_Problem":
        table = OptionTable.of(lagrangian, relaxed.filled.tree, pennies)
        prices = Prices.of(lagrangian, relaxed.best, table)
        places = table.places(relaxed.filled.choice)
        fits = table.cost_of(places) <= table.budget  # the floats of a part's budget may allow a little too much
        worth = table.worth_of(places) if fits else _UNKNOWN
        return cls(lagrangian, relaxed, table, prices, places, worth, prices.bound)

    @property
    def tree(self) -> Tree:
        return self.relaxed.filled.tree

    def proved(self, rival: float) -> bool:
        """Whether nothing is worth more than the best known here or elsewhere.

        rival: what others are worth already, in these grid units.
        """
        beat = max(float(self.worth), rival)
        return self.bound - beat <= PROVED * abs(beat)

    def improve(self, places: Array | None) -> None:
        """Remember places that are worth more than the best known."""
        if places is not None and self.table.worth_of(places) > self.worth:
            self.places, self.worth = places, self.table.worth_of(places)

    def fill(self, *, thorough: bool = False) -> int:
        """Exchanges among customers who lose nothing. Returns units of work."""
        relaxed, enough = self.relaxed, 0.8 * PROVED * abs(self.prices.bound)
        starts = [
            self.table.places(choice) for choice in (relaxed.near, relaxed.over_budget, relaxed.within_budget)
        ]  # fmt: skip
        filling = fill_exactly(
            self.lagrangian, self.table, self.tree, self.prices, starts, enough, thorough=thorough
        )  # fmt: skip
        self.improve(filling.places)
        return filling.work // _SUMS_PER_UNIT

    def list(self, rival: float, room: int) -> int:
        """Passes in each of which more may be lost, until one finds the optimum or needs too much room.

        After a pass that had room for everything, whatever is better than the best known loses more than was allowed:
        the bound falls to D less that. The next pass allows 1.6 times as much, or as much as opens six more cells, but
        never more than the best known loses: what loses more is not better.

        rival: what others are worth already. room: states of a list, about. Returns units of work.
        """
        prices, work = self.prices, 0
        levels = np.sort(prices.loss, axis=1)[:, 1:].ravel()  # of the cells that lose something
        levels = np.sort(levels[np.isfinite(levels)])
        allowed = max(_level(levels, prices.rounding, _FIRST_OPEN), _WIDER * self.lost, PROVED * abs(prices.bound))
        while not self.proved(rival) and work < room:
            full = prices.bound - max(float(self.worth), rival)
            allowed = min(allowed, full)
            listed = _listed(self, allowed + prices.rounding, room)
            if listed is Unlisted.TOO_MANY:
                break
            work += listed.work
            self.improve(listed.places)
            if not listed.complete:
                break
            others = _level(levels, allowed + prices.rounding, 0)  # cells that were left out lose as much at least
            self.lost = max(allowed, min(listed.beyond, others) - prices.rounding)
            self.bound = min(self.bound, max(listed.most, prices.bound - self.lost))
            if allowed >= full:  # all that could be better was looked at
                break
            allowed = max(_WIDER * self.lost, _level(levels, self.lost, _MORE_CELLS))
        return work


def _level(levels: Array, loss: float, more: int) -> float:
    """The loss at which so many more cells than lose this much are open."""
    at = int(np.searchsorted(levels, loss, side="right")) + more
    return float(levels[at]) if at < levels.size else math.inf


class _Listed(NamedTuple):
    """What one pass found."""

    places: Array | None  # (customers,) the best that keeps the budget to the last bit; None: there is none
    most: float  # what those are worth at most that the pass looked at
    complete: bool  # whether there was room for all
    beyond: float  # the least loss of those that lose more than was allowed
    work: int  # units


def _listed(problem: _Problem, allowed: float, room: int) -> _Listed | Literal[Unlisted.TOO_MANY]:
    """The best allocation that loses no more than is allowed.

    Everybody begins with the cheapest place that loses nothing, so that costs of options count upwards. On the grid the
    budget is as large as rounding could make it; an allocation that keeps it there but not to the last bit is
    set aside, and the next one is asked for.
    """
    table, prices = problem.table, problem.prices
    lossless = prices.loss <= prices.rounding / (4.0 * table.order.size)
    usual = np.where(lossless, table.cost, 2**62).argmin(axis=1)
    opened = open_customers(problem.tree, table, prices, usual, allowed)
    if opened is Unlisted.TOO_MANY:
        return Unlisted.TOO_MANY
    if opened is Unlisted.IMPOSSIBLE or opened.lost > allowed:
        beyond = math.inf if opened is Unlisted.IMPOSSIBLE else opened.lost
        return _Listed(None, -math.inf, complete=True, beyond=beyond, work=0)
    core, nodes, cells, lost = opened
    settled = table.worth_of(usual) - int(core.worth[:, 0].sum())
    enough = prices.bound * (1.0 - _MET * PROVED) - settled
    budget = table.budget - table.cost_of(usual)
    meeting = Meeting.of(core, nodes.within(allowed - lost), budget, prices.rate, allowed - lost, room)
    if meeting is None:
        return Unlisted.TOO_MANY
    places, most, complete = None, -math.inf, True
    for _ in range(_OVER_IN_LAST_BIT):
        joined = meeting.joined(budget, enough, room)
        complete = complete and joined.complete
        if joined.options is None:
            break
        tried = usual.copy()
        tried[cells] = core.place[np.arange(core.options.size), joined.options]
        most = max(most, float(table.worth_of(tried)))
        if problem.lagrangian.keeps_budget(table.choice(tried)):
            places = tried
            break
        budget = joined.cost - 1  # within the budget on the grid, but not to the last bit
    return _Listed(places, most, complete, allowed, meeting.made // _STATES_PER_UNIT)


@dataclass(slots=True)
class _Branch:
    """A problem in which some customers have their places; amounts are those of all customers together."""

    problem: _Problem
    rows: Array  # (customers left,) their numbers in the whole table
    choice: Array  # (all customers,) of those who have their places
    worth: float  # Σ values of those who have their places
    bound: float  # what no allocation of this branch is worth more than
    pennies: Pennies | None  # how costs are counted that are decimals
    step: int = 0  # what was tried

    @property
    def scale(self) -> float:
        return self.problem.lagrangian.grid.value_scale


@dataclass(slots=True)
class _Branches:
    """The branches that are open, and the best allocation of all.

    The bound of all is the largest of what open branches could be worth, of what was given up without a proof, and of
    the best value.
    """

    whole: Lagrangian
    relaxed: Relaxed
    relax: Relax
    left: int = WORK
    given_up: float = -math.inf  # a bound of branches that were ended, proved or not
    table: OptionTable = field(init=False)
    best: Assignment = field(init=False)
    open: list[_Branch] = field(init=False)

    def __post_init__(self) -> None:
        pennies = _pennies(self.whole)
        self.table = OptionTable.of(self.whole, self.relaxed.filled.tree, pennies)
        self.best = self.relaxed.filled
        customers = self.whole.problem.customers
        nobody = np.full(customers, -1, np.int16)
        problem = _Problem.of(self.whole, self.relaxed, pennies)
        bound = problem.prices.bound / self.whole.grid.value_scale
        self.open = [_Branch(problem, np.arange(customers), nobody, 0.0, bound, pennies)]

    @property
    def value(self) -> float:
        return self.table.worth_of(self.table.places(self.best.choice)) / self.whole.grid.value_scale

    def search(self) -> SearchEnd:
        while self.open and self.left > 0:
            value = self.value
            self.open = [branch for branch in self.open if branch.bound > value]
            if not self.open or max(branch.bound for branch in self.open) - value <= PROVED * abs(value):
                break
            at = max(range(len(self.open)), key=lambda one: self.open[one].bound)
            self._advance(self.open.pop(at))
        value = self.value
        bound = max([value, self.given_up, *(branch.bound for branch in self.open)])
        return SearchEnd(self.best, bound, exact=bound <= value)

    def _advance(self, branch: _Branch) -> None:
        """The next step of one branch, after which it is closed, open, or made of others.

        Exchanges, a brief list, where only sums are left a thorough list and larger exchanges, and then parts of it.
        """
        problem = branch.problem
        rival = (self.value - branch.worth) * branch.scale
        only_sums_left = branch.bound - self.value <= _SUMS_LEFT * abs(self.value)
        if branch.step == 0:
            self.left -= problem.fill()
        elif branch.step == 1:
            self.left -= problem.list(rival, _BRIEF_STATES)
        elif branch.step == 2 and only_sums_left:
            self.left -= problem.list(rival, _THOROUGH_STATES)
            if not problem.proved(rival):
                self.left -= problem.fill(thorough=True)
        elif branch.rows.size > 1:
            self.open += self._parts(branch)
            return
        else:  # nobody would be left
            self.given_up = max(self.given_up, branch.bound)
            return
        self._take(branch, problem.table.choice(problem.places))
        branch.step += 1
        branch.bound = min(branch.bound, problem.bound / branch.scale + branch.worth)
        if problem.proved(rival):
            self.given_up = max(self.given_up, branch.bound)
        else:
            self.open.append(branch)

    def _parts(self, branch: _Branch) -> list[_Branch]:
        """The branch with one more customer given each of their places, where the budget then binds.

        Where it does not bind, prices are exact, and the part is done as soon as its allocation was taken.
        """
        parts = []
        for placed in _placed(branch):
            self.left -= _RELAXED_UNITS
            priced = self.relax(placed.problem)
            if priced is None:
                continue
            lagrangian, relaxed = priced
            pennies = None if branch.pennies is None else branch.pennies.after(placed.cost)
            problem = _Problem.of(lagrangian, relaxed, pennies)
            bound = min(branch.bound, problem.prices.bound / lagrangian.grid.value_scale + placed.worth)
            part = _Branch(problem, placed.rows, placed.choice, placed.worth, bound, pennies)
            fits = self._take(part, relaxed.filled.choice)
            if not relaxed.exact or (pennies is not None and not fits):
                parts.append(part)
        return parts

    def _take(self, branch: _Branch, inner: Array) -> bool:
        """The best of a branch may be the best of all. Returns whether it keeps the budget.

        inner: (customers left,) what those of the branch get who had no place yet.
        """
        tried = branch.choice.copy()
        tried[branch.rows] = inner
        if self.whole.keeps_budget(tried):
            self.best = self.table.better(self.best, replace(self.best, choice=tried))
            return True
        # the budget of a part is a little larger, not to lose what meets it to the last bit; costs in pennies are exact
        value = self.table.worth_of(self.table.places(tried)) / self.whole.grid.value_scale
        if branch.pennies is None and value > self.value:
            self.given_up = max(self.given_up, value)
        return False


def _pennies(whole: Lagrangian) -> Pennies | None:
    problem = whole.problem
    costs = whole.costs if problem.eligible is None else np.where(problem.eligible, whole.costs, 0.0)
    return Pennies.of(costs, whole.grid.money)


class _Placed(NamedTuple):
    """A problem once one more customer has a place."""

    problem: AllocationProblem  # of the others
    rows: Array  # (customers left,) their numbers in the whole table
    choice: Array  # (all customers,) of those who have their places
    worth: float  # Σ values of those who have their places
    cost: float  # of the place


def _placed(branch: _Branch) -> list[_Placed]:
    """The customer whose change costs most between the two sides of the budget, at each of their places.

    They are the one for whom the linear relaxation wants half a code. Ties go by key. Where the two sides are equal,
    the dearest customer is taken.
    """
    lagrangian, relaxed = branch.problem.lagrangian, branch.problem.relaxed
    problem, costs = lagrangian.problem, lagrangian.costs  # its cells are those that the budget can pay
    rows = np.arange(problem.customers)

    def cost_of(choice: Array) -> Array:
        return np.where(choice >= 0, costs[np.maximum(choice, 0), rows], 0.0).astype(np.float64)

    change = np.abs(cost_of(relaxed.over_budget) - cost_of(relaxed.within_budget))
    keys = problem.keys_of(rows)
    if not change.any():
        change = costs.max(axis=0).astype(np.float64)
    row = int(np.lexsort((keys, -change))[0])
    others = np.delete(rows, row)
    parts = []
    for place in range(-1, problem.columns):
        if place >= 0 and problem.eligible is not None and not problem.eligible[place, row]:
            continue
        cost = float(costs[place, row]) if place >= 0 else 0.0
        limits = _without(problem.limits, row, place, cost)
        if limits is None:
            continue
        choice = branch.choice.copy()
        choice[branch.rows[row]] = place
        worth = branch.worth + (float(problem.values[place, row]) if place >= 0 else 0.0)
        part = AllocationProblem(
            np.ascontiguousarray(problem.values[:, others]),
            limits,
            None if problem.eligible is None else np.ascontiguousarray(problem.eligible[:, others]),
            np.ascontiguousarray(costs[:, others]),
            keys[others],
            problem.depths,
            problem.largest_cost,
        )
        parts.append(_Placed(part, branch.rows[others], choice, worth, cost))
    return parts


def _without(limits: Limits, row: int, place: int, cost: float) -> Limits | None:
    """The limits of the others once one customer has a place; None: they are broken.

    Floors fall with the caps: a customer at a place counts towards both.
    """
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
