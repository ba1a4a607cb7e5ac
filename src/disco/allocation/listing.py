"""All allocations of customers who lose next to nothing by another place, from two lists that meet.

A customer who is dear narrows what the others may cost, and a customer of a rare kind what they may have. So the
customers are taken in one of two orders, the dear first or the rare first, whichever leaves fewer of them when both
lists have some thousand states. Then the lists grow on (`lists`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.lists import Lists, Moves, Reach, Ways, extend, join_lists, reach
from disco.allocation.opening import Core, Nodes, sums_after
from disco.records.arrays import Array

_COUNTS = 300_000  # customers at each limit, after each customer: how many such counts there may be
_TRIAL = 20_000  # states of a list, about, at which the two orders are compared
_MOVES = 8  # times the states of a list: moves that are remembered of it and of those before it
_WAYS = 4_096  # in which the customers between two lists get their places, at most
_JOINED = 100  # times the states of a list: those that are passed over, at most
_PASSED = 16  # states of lists that are passed over in the time in which one is made
_AGAIN = 6  # times the states of a list that those before it may have, for it to take another customer
_FIRST = 0.03  # of the room for a list: where it is filled, what is left to do can be told
_HOPELESS = 1e20  # ways that are left then: too many
_NOBODY = Lists(
    np.zeros((1, 2), np.int64), np.arange(2), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)
)


class Found(NamedTuple):
    """What a join found."""

    options: Array | None  # (open,) of the best; None: there is none
    cost: int
    complete: bool  # whether nothing better is left


@dataclass(slots=True)
class _Side:
    """One of two lists, and the customers in the order in which it takes them."""

    core: Core
    nodes: Nodes
    reached: Reach
    moves: Moves
    lists: Lists = _NOBODY
    taken: int = 0  # customers
    remembered: int = 1  # moves
    growth: float = 1.0  # times the states before the last customer
    made: int = 0  # states, of all customers
    full: bool = False

    @property
    def size(self) -> int:
        return int(self.lists.cost.size)

    def take(self, rate: float, allowed: float, most: int) -> None:
        """One more customer, where there is room."""
        if self.size * self.growth > most or self.made > _AGAIN * most:
            self.full = True
            return
        before = self.size
        lists, remembered = extend(
            self.lists, self.taken, self.core, self.nodes, self.reached, rate, allowed, 2 * most, self.moves,
            self.remembered,
        )  # fmt: skip
        if remembered < 0:
            self.full = True
            self.made += 2 * most
            return
        self.lists, self.remembered = lists, remembered
        self.taken += 1
        self.made += self.size
        self.growth = self.size / before


@dataclass(slots=True)
class Meeting:
    """Two lists that grow towards each other."""

    order: Array  # (open,) customers
    core: Core
    nodes: Nodes
    rate: float
    allowed: float
    sides: tuple[_Side, _Side]
    passed: int = 0  # states that joins passed over

    @classmethod
    def of(cls, core: Core, nodes: Nodes, budget: int, rate: float, allowed: float, most: int) -> "Meeting | None":
        """None: counts at the limits are too many."""
        found = []
        for order in _orders(core):
            sides = []
            for turn in (order, order[::-1]):
                turned, limits = _turned(core, nodes, turn)
                reached, complete = reach(turned, limits, budget, _unspent(rate, allowed), _COUNTS)
                if not complete:
                    break
                sides.append(_Side(turned, limits, reached, Moves.room(_MOVES * most)))
            if len(sides) == 2:
                meeting = cls(order, core, nodes, rate, allowed, (sides[0], sides[1]))
                meeting.grow(min(_TRIAL, most))
                found.append(meeting)
        if not found:
            return None
        best = min(found, key=lambda one: one.ways)
        best.passed = _PASSED * sum(side.made for one in found if one is not best for side in one.sides)
        best.grow(max(int(_FIRST * most), min(_TRIAL, most)))
        if best.ways <= _HOPELESS:
            best.grow(most)
        return best

    @property
    def between(self) -> Array:
        """Customers whom neither list has taken."""
        return self.order[self.sides[0].taken : self.order.size - self.sides[1].taken]

    @property
    def ways(self) -> float:
        """In which these get their places."""
        return float(np.prod(self.core.options[self.between].astype(np.float64)))

    @property
    def made(self) -> int:
        """States, about, that were made, and could be in the time of all joins."""
        return self.sides[0].made + self.sides[1].made + self.passed // _PASSED

    def grow(self, most: int) -> None:
        for side in self.sides:
            side.full = False
        while self.between.size:
            growing = [side for side in self.sides if not side.full]
            if not growing or not all(side.size for side in self.sides):
                break
            min(growing, key=lambda side: side.size).take(self.rate, self.allowed, most)

    def joined(self, budget: int, enough: float, most: int) -> Found:
        """The best allocation within a budget; enough: what need not be surpassed; most: states of a list, about."""
        one, other = self.sides
        if not one.size or not other.size:
            return Found(None, 0, complete=True)
        if self.ways > _WAYS:
            return Found(None, 0, complete=False)
        ways = _ways_of(self.core, self.between)
        unspent = _unspent(self.rate, self.allowed)
        first, second, way, complete, passed = join_lists(
            one.lists, other.lists, ways, self.nodes, budget, unspent, enough, _JOINED * most,
            (one.core, other.core), (one.moves, other.moves),
        )  # fmt: skip
        self.passed += passed
        if first < 0:
            return Found(None, 0, complete)
        options = np.zeros(self.order.size, np.int64)
        options[self.between] = ways.options[way]
        for side, turn, number in ((one, self.order, first), (other, self.order[::-1], second)):
            for who, option in side.moves.of(int(side.lists.last[number])):
                options[turn[who]] = option
        cost = int(one.lists.cost[first] + other.lists.cost[second] + ways.cost[way])
        return Found(options, cost, complete)


def _unspent(rate: float, allowed: float) -> float:
    """Money, at most, that is left where no more than this is lost."""
    return allowed / rate if rate > 0.0 else math.inf


def _orders(core: Core) -> list[Array]:
    """Two orders of the customers: the dear first, and those of rare kinds first."""
    cells = np.arange(core.place.shape[1])[None, :] < core.options[:, None]
    change = np.where(cells, core.cost, 0).max(axis=1) - np.where(cells, core.cost, 0).min(axis=1)
    dear = np.argsort(-change, kind="stable")
    words = np.where(cells[:, :, None], core.words, -1).reshape(core.options.size, -1)
    kinds, counts = np.unique(words, axis=0, return_inverse=True, return_counts=True)[1:]
    kind = kinds.ravel()
    rare = np.lexsort((-change, kind, counts[kind]))
    return [dear] if (dear == rare).all() else [dear, rare]


def _turned(core: Core, nodes: Nodes, turn: Array) -> tuple[Core, Nodes]:
    """The customers in another order."""
    fewest, largest = nodes.least[:-1] - nodes.least[1:], nodes.most[:-1] - nodes.most[1:]
    turned = Core(*(np.ascontiguousarray(one[turn]) for one in core))
    return turned, nodes._replace(least=sums_after(fewest[turn]), most=sums_after(largest[turn]))


def _ways_of(core: Core, who: Array) -> Ways:
    options = np.indices(core.options[who].tolist()).reshape(who.size, -1).T if who.size else np.zeros((1, 0), np.int64)
    rows = np.broadcast_to(who[None, :], options.shape)
    tie = core.tie[rows, options] - core.tie[rows, 0]
    return Ways(
        np.ascontiguousarray(core.words[rows, options].sum(axis=1)), core.cost[rows, options].sum(axis=1),
        core.worth[rows, options].sum(axis=1), tie.sum(axis=1), np.ascontiguousarray(options),
    )  # fmt: skip
