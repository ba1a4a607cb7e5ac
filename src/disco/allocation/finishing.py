"""A budget for few customers, solved to the end: every allocation that could be better is looked at, or bounded.

For prices of the limits and a budget price, with D the bound they give, D - value is a sum of losses, none of them
negative (`options`). So a cell that loses more than g is in no allocation that is worth more than D - g. What is left
for a small g are a few customers with a few cells each (`opening`). All their allocations are looked at (`listing`). If
one is within the budget, the best of them is the optimum. If none is, the bound is D - g, and a larger g is tried:
most of the work is that of the last one. Where there is no room for all, the pass proves nothing, and the bound of the
pass before it stands.

Where many customers lose nothing by another place, exchanges among them (`exchanging`) or lists of some of them find
what needs no other proof: an allocation that meets the bound.

Sums are integers, and ties go by hash.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.exchanging import fill_exactly, indifferent, shuffled, wandered
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import Tree
from disco.allocation.listing import Meeting
from disco.allocation.opening import needed, open_customers
from disco.allocation.options import OptionTable, Prices
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.records.arrays import Array

_FIRST = 12  # customers, about, who are open in the first pass
_WIDER = 1.6  # by how much more may be lost in the next pass, at least
_MORE = 6  # cells, at least, that are open in the next pass and were not before
_TRIES = 8  # allocations that keep the budget on the grid only, before a pass is given up
_CLOSED = 0.9  # of the gap at which a value is called optimal: a search among lists goes no further
PROVED = 1e-12  # relative gap at which a certificate calls a value optimal
_QUICKER = 10  # states that are listed for one unit of work
_SUMS = 5  # exchanges and sums of them, likewise
_SMALL = 0.6  # of the customers: those who change the cost least, among whom every other time all are chosen
_ATTEMPTS = 24  # allocations near which some customers are opened, at most
_OPENED = 40  # customers whose allocations are listed first, where those of all are too many
_FEWER, _MORE_OPEN = 0.93, 1.25  # times as many next: where there was no room for all of them, or much
_ROOMY = 0.3  # of the room: less was needed, so there was much
_NOT_KNOWN = -(2**62)  # less than any allocation is worth


class Relaxed(NamedTuple):
    """What prices say about a problem."""

    best: Priced  # whose prices give the lowest bound
    filled: Assignment  # within the budget
    near: Array  # (customers,) the choice filled from the two next to the budget alone
    rich: Array  # (customers,) the choice that spends a little too much
    poor: Array  # (customers,) the choice that does not
    exact: bool  # whether the budget does not bind


@dataclass(slots=True)
class Search:
    """One problem, and what is known about it so far; amounts are in its grid units of value."""

    lagrangian: Lagrangian
    relaxed: Relaxed
    table: OptionTable
    prices: Prices
    places: Array  # (customers,) the best known
    worth: int  # of the best known
    bound: float  # what no allocation is worth more than
    lost: float  # what every better allocation than the best known loses at least

    @classmethod
    def of(cls, lagrangian: Lagrangian, relaxed: Relaxed, pennies: Pennies | None) -> "Search":
        table = OptionTable.of(lagrangian, relaxed.filled.tree, pennies)
        prices = Prices.of(lagrangian, relaxed.best, table)
        places = table.places(relaxed.filled.choice)
        known = table.cost_of(places) <= table.budget  # the floats of a part's budget may allow a little too much
        worth = table.worth_of(places) if known else _NOT_KNOWN
        return cls(lagrangian, relaxed, table, prices, places, worth, prices.bound, 0.0)

    @property
    def tree(self) -> Tree:
        return self.relaxed.filled.tree

    @property
    def tied(self) -> int:
        """Customers who lose nothing by another place."""
        return int(np.count_nonzero(self.lossless.sum(axis=1) > 1))

    @property
    def lossless(self) -> Array:
        """(customers, places) cells that lose nothing but rounding."""
        lossless: Array = self.prices.loss <= self.prices.rounding / (4.0 * self.table.order.size)
        return lossless

    def proved(self, wanted: float) -> bool:
        """Whether nothing is worth more than the best known here or elsewhere."""
        beat = max(float(self.worth), wanted)
        return self.bound - beat <= PROVED * abs(beat)

    def fill(self, *, large: bool = False) -> int:
        """Exchanges among customers who lose nothing. Returns the number of states that could be visited meanwhile."""
        relaxed = self.relaxed
        starts = [self.table.places(choice) for choice in (relaxed.near, relaxed.rich, relaxed.poor)]
        enough = 0.8 * PROVED * abs(self.prices.bound)
        found, work = fill_exactly(self.lagrangian, self.table, self.tree, self.prices, starts, enough, large=large)
        if found is not None and self.table.worth_of(found) > self.worth:
            self.places, self.worth = found, self.table.worth_of(found)
        return work // _SUMS

    def sample(self, wanted: float, room: int, work: int) -> int:
        """Lists of some of the customers who lose nothing, chosen by chance. Returns the number of states visited."""
        relaxed, prices, visited = self.relaxed, self.prices, 0
        enough = 0.8 * PROVED * abs(prices.bound)
        starts = [self.table.places(choice) for choice in (relaxed.near, relaxed.rich, relaxed.poor)]
        starts = list({start.tobytes(): start for start in starts}.values())
        starts = [start for start in starts if prices.lost(self.table, self.tree, start) <= 0.5 * enough]
        count = _OPENED
        for attempt in range(_ATTEMPTS if starts else 0):
            if visited > work:
                break
            start = starts[attempt // 3 % len(starts)]
            among = _opened_cells(self.table, self.tree, prices, start, enough, attempt, count)
            if among is None:
                continue
            allowed = prices.bound - max(float(self.worth), wanted)
            found = _pass(self, allowed + prices.rounding, room, among)
            visited += room // _QUICKER if found is None else found.visited
            if found is None or not found.complete:
                count = max(int(count * _FEWER), 2)
            elif found.visited * _QUICKER < _ROOMY * room:
                count = int(count * _MORE_OPEN)
            if found is not None and found.places is not None and self.table.worth_of(found.places) > self.worth:
                self.places, self.worth = found.places, self.table.worth_of(found.places)
            if self.proved(wanted):
                break
        return visited

    def deepen(self, wanted: float, room: int) -> int:
        """Passes in each of which more may be lost, until one finds the optimum or needs too much room.

        wanted: what others are worth already. Returns the number of states visited.
        """
        prices, visited = self.prices, 0
        levels = np.sort(prices.loss, axis=1)[:, 1:].ravel()  # of the cells that lose something
        levels = np.sort(levels[np.isfinite(levels)])
        allowed = max(_level(levels, prices.rounding, _FIRST), _WIDER * self.lost, PROVED * abs(prices.bound))
        while not self.proved(wanted) and visited < room:
            full = prices.bound - max(float(self.worth), wanted)
            allowed = min(allowed, full)
            found = _pass(self, allowed + prices.rounding, room)
            if found is None:
                break
            visited += found.visited
            if found.places is not None and self.table.worth_of(found.places) > self.worth:
                self.places, self.worth = found.places, self.table.worth_of(found.places)
            if not found.complete:
                break
            others = _level(levels, allowed + prices.rounding, 0)  # cells that were left out lose as much at least
            self.lost = max(allowed, min(found.beyond, others) - prices.rounding)
            self.bound = min(self.bound, max(found.most, prices.bound - self.lost))
            if allowed >= full:  # all that could be better was looked at
                break
            allowed = max(_WIDER * self.lost, _level(levels, self.lost, _MORE))
        return visited


def _level(levels: Array, loss: float, more: int) -> float:
    """The loss at which so many more cells than lose this much are open."""
    at = int(np.searchsorted(levels, loss, side="right")) + more
    return float(levels[at]) if at < levels.size else math.inf


def _opened_cells(
    table: OptionTable, tree: Tree, prices: Prices, start: Array, enough: float, attempt: int, count: int
) -> Array | None:
    """(customers, places) cells with so many customers open, chosen by chance; None: nobody could move.

    All others keep their places in an allocation near the budget.

    start: (customers,) places near the budget that lose nothing. enough: what may be lost in all.
    """
    places = wandered(table, tree, prices, start, enough, attempt, few=attempt % 3 == 2)
    members = indifferent(table, tree, prices, places, enough)
    if members.who.size < 2:
        return None
    chosen = np.argsort(shuffled(table.keys[members.who], attempt), kind="stable")
    if members.who.size * _SMALL >= count and attempt % 2 == 0:
        size = np.abs(members.change[chosen])
        chosen = chosen[size <= np.quantile(size, _SMALL)]
    chosen = chosen[:count]
    among = np.zeros(table.cost.shape, np.bool_)
    among[table.rows, places] = True
    among[members.who[chosen], members.place[chosen]] = True
    return among


class _Passed(NamedTuple):
    """What one pass found."""

    places: Array | None  # (customers,) the best that keeps the budget to the last bit
    most: float  # what those are worth at most that the pass looked at
    complete: bool  # whether there was room for all
    beyond: float  # the least loss of those that lose more than was allowed
    visited: int  # states


def _pass(search: Search, allowed: float, room: int, among: Array | None = None) -> _Passed | None:
    """The best allocation that loses no more than is allowed; None: counts need too many bits, or are too many.

    among: (customers, places) the cells that are looked at; None: all.
    """
    table, prices = search.table, search.prices
    lossless = search.lossless
    if among is not None:
        prices = prices._replace(loss=np.where(among, prices.loss, math.inf))
        lossless = np.where((lossless & among).any(axis=1, keepdims=True), lossless & among, among)
    usual = np.where(lossless, table.cost, 2**62).argmin(axis=1)
    opened = open_customers(search.tree, table, prices, usual, allowed)
    if opened is None:
        return None
    core, nodes, cells, lost = opened
    if core is None or nodes is None or lost > allowed:
        return _Passed(None, -math.inf, True, lost, 0)
    settled = table.worth_of(usual) - int(core.worth[:, 0].sum())
    enough = prices.bound * (1.0 - _CLOSED * PROVED) - settled
    budget = table.budget - table.cost_of(usual)
    meeting = Meeting.of(core, needed(nodes, allowed - lost), budget, prices.rate, allowed - lost, room)
    if meeting is None:
        return None
    places, most, complete = None, -math.inf, True
    for _ in range(_TRIES):
        found = meeting.joined(budget, enough, room)
        complete = complete and found.complete
        if found.options is None:
            break
        tried = usual.copy()
        tried[cells] = core.place[np.arange(core.options.size), found.options]
        most = max(most, float(table.worth_of(tried)))
        if search.lagrangian.keeps_budget(table.choice(tried)):
            places = tried
            break
        budget = found.cost - 1  # within the budget on the grid, but not to the last bit
    return _Passed(places, most, complete, allowed, meeting.made // _QUICKER)
