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
machine nor on who asks. A gap that stays wide ends it earlier (`_WIDE_GAP`). Sums are integers, and ties go by hash.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import Limits
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, Pennies
from disco.allocation.result import PROVED
from disco.allocation.small.exchanges import fill_exactly
from disco.allocation.small.lists import Meeting
from disco.allocation.small.options import OptionTable, Prices, open_customers
from disco.records.arrays import Array

# The limit of work, and what is counted towards it: a state is the time in which one state of a list is made
WORK = 20_000_000  # states, in all
# A gap that is still wide after this much of the work hardly narrows, and the work is ended: 85 customers with caps and
# a budget took 3.2 s for a gap of 0.67% and take 0.4 s for 0.71%; of 1,000 rounds of the drill two fewer are proved
_TRIAL_WORK, _WIDE_GAP = WORK // 10, 1e-3  # states, relative gap
_STATES_PER_SUM = 2  # an exchange, or a sum of two
# of a list, about: the second where only sums are left. Prices of one part take as long as a brief list
_BRIEF_STATES, _THOROUGH_STATES = 100_000, 3_500_000

_MORE_CELLS = 6  # at least, that are open in the next pass and were not before; in the first one twice as many
_OVER_IN_LAST_BIT = 8  # allocations that keep the budget on the grid only, before a pass is given up
_MET = 0.9  # of the gap at which a value is called optimal: a join of lists goes no further
_SUMS_LEFT = 1e-6  # relative gap from which on what is left is how well sums fill the budget


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
    return _Search(whole, relaxed, relax).run()


class _Listed(NamedTuple):
    """What one pass found."""

    places: Array | None  # (customers,) the best that keeps the budget to the last bit; None: there is none
    most: float  # what those are worth at most that the pass looked at
    complete: bool  # whether there was room for all
    beyond: float  # the least loss of those that lose more than was allowed
    work: int  # states


@dataclass(slots=True, eq=False)
class _Part:
    """A problem in which some customers have their places, and what is known about the others so far.

    `fill` and `list` raise the best known from below and lower the bound from above. Both may be called again with
    more room, and go on from what they know. Amounts are in grid units of the part unless they are of the whole table.
    """

    lagrangian: Lagrangian
    relaxed: Relaxed
    pennies: Pennies | None  # how costs are counted that are decimals; None: they are not
    rows: Array  # (customers left,) their numbers in the whole table
    choice: Array  # (all customers,) of those who have their places
    settled_value: float  # Σ values of those who have their places
    parent_ceiling: float  # of the part that this one is of
    step: int = 0  # what was tried
    lost: float = 0.0  # what every better allocation than the best known loses at least
    table: OptionTable = field(init=False)
    prices: Prices = field(init=False)
    places: Array = field(init=False)  # (customers left,) the best known
    worth: float = field(init=False)  # of the best known; -∞: none is known
    bound: float = field(init=False)  # what no allocation is worth more than

    def __post_init__(self) -> None:
        self.table = OptionTable.of(self.lagrangian, self.relaxed.filled.tree, self.pennies)
        self.prices = Prices.of(self.lagrangian, self.relaxed.best, self.table)
        self.places = self.table.places(self.relaxed.filled.choice)
        fits = self.table.cost_of(self.places) <= self.table.budget  # floats of its budget may allow a little too much
        self.worth = self.table.worth_of(self.places) if fits else -math.inf
        self.bound = self.prices.bound

    @property
    def scale(self) -> float:
        return self.lagrangian.grid.value_scale

    @property
    def ceiling(self) -> float:
        """What no allocation of all customers that belongs to this part is worth more than."""
        return min(self.parent_ceiling, self.bound / self.scale + self.settled_value)

    def proved(self, rival: float) -> bool:
        """Whether nothing is worth more than the best known here or elsewhere.

        rival: what others are worth already.
        """
        best = max(self.worth, rival)
        return self.bound - best <= PROVED * abs(best)

    def improve(self, places: Array | None) -> None:
        """Remember places that are worth more than the best known."""
        if places is not None and self.table.worth_of(places) > self.worth:
            self.places, self.worth = places, self.table.worth_of(places)

    def fill(self, *, thorough: bool = False) -> int:
        """Exchanges among customers who lose nothing. Returns the work."""
        relaxed, enough = self.relaxed, 0.8 * PROVED * abs(self.prices.bound)
        choices = (relaxed.near, relaxed.over_budget, relaxed.within_budget)
        starts = [self.table.places(choice) for choice in choices]
        filling = fill_exactly(self.lagrangian, self.table, self.prices, starts, enough, thorough=thorough)
        self.improve(filling.places)
        return _STATES_PER_SUM * filling.work

    def list(self, rival: float, room: int, work_left: int) -> int:
        """Passes in each of which more may be lost, until one finds the optimum or needs too much room.

        After a pass that had room for everything, whatever is better than the best known loses more than was allowed:
        the bound falls to D less that. The next pass allows twice as much, or as much as opens six more cells, but
        never more than the best known loses: what loses more is not better.

        rival: what others are worth already. room: states of a list, about. Returns the work.
        """
        prices, work = self.prices, 0
        losses = np.sort(prices.loss[prices.loss > prices.rounding])
        allowed = max(_beyond(losses, 0.0, 2 * _MORE_CELLS), 2.0 * self.lost, PROVED * abs(prices.bound))
        while not self.proved(rival) and work < work_left:
            full = prices.bound - max(self.worth, rival)
            allowed = min(allowed, full)
            listed = self._within(allowed + prices.rounding, room)
            if listed is None:
                break
            work += listed.work
            self.improve(listed.places)
            if not listed.complete:
                break
            left_out = _beyond(losses, allowed + prices.rounding, 0)
            self.lost = max(allowed, min(listed.beyond, left_out) - prices.rounding)
            self.bound = min(self.bound, max(listed.most, prices.bound - self.lost))
            if allowed >= full:  # all that could be better was looked at
                break
            allowed = max(2.0 * self.lost, _beyond(losses, self.lost, _MORE_CELLS))
        return work

    def _within(self, allowed: float, room: int) -> _Listed | None:
        """The best allocation that loses no more than is allowed; None: there are too many counts at the limits.

        Everybody begins with the cheapest place that loses nothing, so that costs of options count upwards. On the
        grid the budget is as large as rounding could make it; an allocation that keeps it there but not to the last
        bit is set aside, and the next one is asked for.
        """
        table, prices = self.table, self.prices
        lossless = prices.loss <= prices.rounding / (4.0 * table.order.size)
        usual = np.where(lossless, table.cost, 2**62).argmin(axis=1)
        opened = open_customers(table, prices, usual, allowed)
        if opened is None:
            return None
        core, nodes, cells, lost = opened
        if lost > allowed:
            return _Listed(None, -math.inf, complete=True, beyond=lost, work=0)
        enough = prices.bound * (1.0 - _MET * PROVED) - table.worth_of(usual)
        budget = table.budget - table.cost_of(usual)
        meeting = Meeting.of(core, nodes, budget, prices.rate, allowed - lost, room)
        if meeting is None:
            return None
        best, most, complete = None, -math.inf, True
        for _ in range(_OVER_IN_LAST_BIT):
            joined = meeting.joined(budget, enough, room)
            complete = complete and joined.complete
            if joined.options is None:
                break
            places = usual.copy()
            places[cells] = core.place[np.arange(cells.size), joined.options]
            most = max(most, float(table.worth_of(places)))
            if self.lagrangian.keeps_budget(table.choice(places)):
                best = places
                break
            budget = joined.cost - 1  # within the budget on the grid, but not to the last bit
        return _Listed(best, most, complete, allowed, meeting.made)


def _beyond(losses: Array, loss: float, cells: int) -> float:
    """The loss of the next cell after so many that lose more than this; ∞: there are no more.

    losses: (cells,) rising.
    """
    at = int(np.searchsorted(losses, loss, side="right")) + cells
    return float(losses[at]) if at < losses.size else math.inf


@dataclass(slots=True)
class _Search:
    """The parts that are open, and the best allocation of all.

    The bound of all is the largest of what open parts could be worth, of what was given up without a proof, and of
    the best value.
    """

    whole: Lagrangian
    relaxed: Relaxed
    relax: Relax
    work_left: int = WORK
    given_up: float = -math.inf  # a bound of parts that were ended, proved or not
    table: OptionTable = field(init=False)
    best: Assignment = field(init=False)
    open: list[_Part] = field(init=False)

    def __post_init__(self) -> None:
        problem, costs = self.whole.problem, self.whole.costs
        costs = costs if problem.eligible is None else np.where(problem.eligible, costs, 0.0)
        pennies = Pennies.of(costs, self.whole.grid.money)
        rows, nobody = np.arange(problem.customers), np.full(problem.customers, -1, np.int16)
        self.best = self.relaxed.filled
        self.open = [_Part(self.whole, self.relaxed, pennies, rows, nobody, 0.0, math.inf)]
        self.table = self.open[0].table

    @property
    def value(self) -> float:
        return self.table.worth_of(self.table.places(self.best.choice)) / self.whole.grid.value_scale

    def run(self) -> SearchEnd:
        while self.work_left > 0:
            value = self.value
            self.open = [part for part in self.open if part.ceiling > value]
            part = max(self.open, key=lambda part: part.ceiling, default=None)
            if part is None or part.ceiling - value <= PROVED * abs(value):
                break
            if self.work_left < WORK - _TRIAL_WORK and part.ceiling - value > _WIDE_GAP * abs(value):
                break
            self.open.remove(part)
            self._advance(part)
        value = self.value
        bound = max([value, self.given_up, *(part.ceiling for part in self.open)])
        return SearchEnd(self.best, bound, exact=bound <= value)

    def _advance(self, part: _Part) -> None:
        """The next step of one part, after which it is closed, open, or made of others.

        Exchanges, a brief list, where only sums are left a thorough list and larger exchanges, and then parts of it.
        """
        rival = (self.value - part.settled_value) * part.scale
        only_sums_left = part.ceiling - self.value <= _SUMS_LEFT * abs(self.value)
        if part.step == 0:
            self.work_left -= part.fill()
        elif part.step == 1:
            self.work_left -= part.list(rival, _BRIEF_STATES, self.work_left)
        elif part.step == 2 and only_sums_left:
            self.work_left -= part.list(rival, _THOROUGH_STATES, self.work_left)
            if not part.proved(rival):
                self.work_left -= part.fill(thorough=True)
        elif part.rows.size > 1:
            self._branch(part)
            return
        else:  # nobody would be left
            self.given_up = max(self.given_up, part.ceiling)
            return
        self._take(part, part.table.choice(part.places))
        part.step += 1
        if part.proved(rival):
            self.given_up = max(self.given_up, part.ceiling)
        else:
            self.open.append(part)

    def _branch(self, part: _Part) -> None:
        """Open a part for each place of one more customer, where the budget then binds.

        Where it does not bind, prices are exact, and the part is done as soon as its allocation was taken.
        """
        problem, costs = part.lagrangian.problem, part.lagrangian.costs  # its cells are those that the budget can pay
        row = _branching_row(part)
        others = np.delete(np.arange(problem.customers), row)
        rows = problem.taken(others)
        for place in range(-1, problem.columns):
            if place >= 0 and problem.eligible is not None and not problem.eligible[place, row]:
                continue
            value, cost = (float(cells[place, row]) if place >= 0 else 0.0 for cells in (problem.values, costs))
            limits = _limits_of_others(problem.limits, row, place, cost)
            if limits is None:
                continue
            self.work_left -= _BRIEF_STATES
            priced = self.relax(AllocationProblem.of(rows, limits, problem.depths, problem.largest_cost))
            if priced is None:
                continue
            choice = part.choice.copy()
            choice[part.rows[row]] = place
            pennies = None if part.pennies is None else part.pennies.after(cost)
            smaller = _Part(*priced, pennies, part.rows[others], choice, part.settled_value + value, part.ceiling)
            fits = self._take(smaller, smaller.relaxed.filled.choice)
            if not smaller.relaxed.exact or (pennies is not None and not fits):
                self.open.append(smaller)

    def _take(self, part: _Part, choice_of_others: Array) -> bool:
        """The best of a part may be the best of all. Returns whether it keeps the budget.

        choice_of_others: (customers left,) what those get who had no place yet.
        """
        choice = part.choice.copy()
        choice[part.rows] = choice_of_others
        if self.whole.keeps_budget(choice):
            self.best = self.table.better(self.best, replace(self.best, choice=choice))
            return True
        # the budget of a part is a little larger, not to lose what meets it to the last bit; costs in pennies are exact
        value = self.table.worth_of(self.table.places(choice)) / self.whole.grid.value_scale
        if part.pennies is None and value > self.value:
            self.given_up = max(self.given_up, value)
        return False


def _branching_row(part: _Part) -> int:
    """The customer whose change costs most between the two sides of the budget.

    They are the one for whom the linear relaxation wants half a code. Ties go by key. Where the two sides are equal,
    the dearest customer is taken.
    """
    costs, relaxed = part.lagrangian.costs, part.relaxed
    rows = np.arange(costs.shape[1])
    over, within = (
        np.where(choice >= 0, costs[np.maximum(choice, 0), rows], 0.0).astype(np.float64)
        for choice in (relaxed.over_budget, relaxed.within_budget)
    )
    change = np.abs(over - within)
    if not change.any():
        change = costs.max(axis=0).astype(np.float64)
    return int(np.lexsort((part.lagrangian.problem.keys_of(rows), -change))[0])


def _limits_of_others(limits: Limits, row: int, place: int, cost: float) -> Limits | None:
    """The limits of the others once one customer has a place; None: they are broken.

    Floors fall with the caps: a customer at a place counts towards both.
    """
    assert limits.budget is not None
    budget = limits.budget - cost
    budget += 2.0**-51 * limits.budget if cost > 0.0 else 0.0  # not to lose what meets the budget to the last bit
    counts = np.zeros((limits.groups, limits.caps.size), np.int64)
    if place >= 0:
        counts[0 if limits.segment is None else limits.segment[row], place] = 1
    others = limits.left_by(counts, budget=budget)
    caps = others.caps if others.segment_caps is None else np.append(others.caps, others.segment_caps)
    return others if caps.min() >= 0 and budget >= 0.0 else None
