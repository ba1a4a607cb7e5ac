"""All allocations of the open customers that lose next to nothing, from two lists of partial ones that meet.

A state is a partial allocation: what the first so many customers get. States rarely beat each other, so there are many,
and each must take little time. They are kept in groups of equal customers at all limits, sorted by cost. A customer's
options shift the groups, and shifted groups with the same counts are merged, which needs no sorting.

Which counts can still meet all limits, and what the remaining customers then add at least and at most, is known before
(`Reach`): it cuts off the ends of a whole group. Two lists are made, from the first customer on and from the last one
back, and the shorter one takes the next customer. They are joined in the middle. Where both are full before they meet,
the customers between them are given their places in every way, and each way is one more join.

A customer who is dear narrows what the others may cost, and a customer of a rare kind what they may have. So the
customers are taken in one of two orders, the dear first or the rare first, whichever leaves fewer of them when both
lists have some thousand states. Then the lists grow on.

Work is counted in states made. A state that a join passes over counts as the sixteenth part of one.
"""

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.small.options import Core, Nodes
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-48  # of the budget and of all that options cost, in grid units: above what floats lose of sums
_NO_WORD = 2**62  # more than any word that packs counts
_COUNTS_ROOM = 300_000  # counts at the limits, of all customers together, that are looked at
_TRIAL_STATES = 20_000  # of a list, about, at which the two orders are compared
_MOVES_PER_STATE = 8  # moves that are remembered of a list and of those before it
_WAYS = 4_096  # in which the customers between two lists get their places, at most
_PASSED_PER_STATE = 100  # states that joins pass over, at most, per state of a list
_PASSED_PER_MADE = 16  # states that a join passes over in the time in which one is made
_HOPELESS_WAYS = 1e20  # that are left when two orders are compared: too many to go on


class Moves(NamedTuple):
    """Who moved where, state by state; 0: nobody has moved yet.

    A state does not hold what its customers get: it holds the number of its last move, and each move that of the one
    before it. States that share a beginning share its moves, and a state takes 20 bytes however many customers it has.
    """

    parent: Array  # (moves,) the move before
    who: Array  # (moves,) number among the customers of the list
    option: Array  # (moves,)

    @classmethod
    def room(cls, most: int) -> "Moves":
        return cls(np.empty(most, np.int32), np.empty(most, np.int16), np.empty(most, np.int16))

    def of(self, last: int) -> list[tuple[int, int]]:
        """(customer, option) of those who moved, up to a move."""
        moves = []
        while last > 0:
            moves.append((int(self.who[last]), int(self.option[last])))
            last = int(self.parent[last])
        return moves


class Lists(NamedTuple):
    """States in groups of equal counts at all limits; in each group cost and worth rise.

    Whatever the remaining customers get is possible for all states of a group or for none. One that costs no less and
    is worth no more than another of its group can therefore be left out.
    """

    word: Array  # (groups,) the packed counts, rising
    start: Array  # (groups + 1,) where the states of each group begin
    cost: Array  # (states,) grid units, more than if nobody had moved
    worth: Array  # (states,) grid units, more than if nobody had moved
    last: Array  # (states,) number of the last move


class Reach(NamedTuple):
    """The counts after each customer with which all limits can still be met, and the costs that can end at the budget.

    It is about counts alone, of which there are far fewer than states, and is computed before any state is made. A
    group whose cost is outside of [low, high] cannot end within the budget with as little money left as the allowed
    loss requires.
    """

    start: Array  # (open + 2,) where those after each customer begin
    word: Array  # (counts,) rising after each customer
    before: Array  # (counts, options) number of the counts to which an option adds to reach these; -1: there are none
    low: Array  # (counts,) the least cost; above the largest one: there is none
    high: Array  # (counts,)
    lost: Array  # (counts,) all that is lost but for rate · cost - worth, if the remaining customers lose least
    complete: bool  # whether there was room for all counts


@njit(nogil=True, cache=True)
def tie_of(core: Core, moves: Moves, last: int) -> int:
    """Σ hashes of the moves up to one."""
    total = 0
    while last > 0:
        total += core.tie[moves.who[last], moves.option[last]]
        last = moves.parent[last]
    return total


@njit(nogil=True, cache=True)
def _can_meet_limits(word: int, nodes: Nodes, more: Array) -> bool:
    """Whether packed counts can meet all limits; more: (limits,) what the remaining customers add at most."""
    for node in range(nodes.shift.size):
        count = (word >> nodes.shift[node]) & nodes.mask[node]
        if count > nodes.high[node] or count + more[node] < nodes.low[node]:
            return False
    return True


@njit(nogil=True, cache=True)
def reach(core: Core, nodes: Nodes, budget: int, unspent: float, room: int) -> Reach:
    """What states may have and cost, if no more money than this is left at the end.

    Forth, customer by customer: the counts that their options can lead to, merged in their order, so that equal counts
    become one entry without a search. Back, from the last customer: the costs from which the end can be reached, and
    the least that the remaining customers and unused limits lose on the way.
    """
    opened, width = core.place.shape
    start, at = np.zeros(opened + 2, np.int64), np.empty(width, np.int64)
    word, price = np.empty(room, np.int64), np.empty(room)
    before = np.empty((room, width), np.int32)
    word[0], price[0] = 0, 0.0
    more = core.most.sum(axis=0)
    start[1] = count = 1
    for i in range(opened):
        at[:] = start[i]
        more -= core.most[i]
        while count < room:
            smallest = _NO_WORD
            for o in range(core.options[i]):
                if at[o] < start[i + 1]:
                    smallest = min(smallest, word[at[o]] + core.word[i, o])
            if smallest == _NO_WORD:
                break
            before[count] = -1
            for o in range(core.options[i]):
                if at[o] < start[i + 1] and word[at[o]] + core.word[i, o] == smallest:
                    before[count, o] = at[o]
                    price[count] = price[at[o]] + core.price[i, o]
                    at[o] += 1
            if _can_meet_limits(smallest, nodes, more):
                word[count] = smallest
                count += 1
        start[i + 2] = count
    low, high, lost = np.full(count, np.inf), np.full(count, -np.inf), np.full(count, np.inf)
    size = float(abs(budget))
    for i in range(opened):
        size += float(np.abs(core.cost[i, : core.options[i]]).max())
    for end in range(start[opened], count):
        low[end], high[end], lost[end] = budget - unspent - _ROUNDING * size, budget + _ROUNDING * size, 0.0
        for node in range(nodes.shift.size):
            own = (word[end] >> nodes.shift[node]) & nodes.mask[node]
            limit = nodes.high[node] if nodes.price[node] > 0.0 else nodes.low[node]
            lost[end] += nodes.price[node] * (limit - own)
    for i in range(opened - 1, -1, -1):
        for after in range(start[i + 1], start[i + 2]):
            for o in range(core.options[i]):
                entry = before[after, o]
                if entry >= 0:
                    low[entry] = min(low[entry], low[after] - core.cost[i, o])
                    high[entry] = max(high[entry], high[after] - core.cost[i, o])
                    lost[entry] = min(lost[entry], lost[after] + core.loss[i, o])
    return Reach(start, word[:count], before[:count], low, high, lost + price[:count], count < room)


@njit(nogil=True, cache=True)
def extend(
    lists: Lists, i: int, core: Core, reached: Reach, rate: float, allowed: float, most: int, moves: Moves, made: int
) -> tuple[Lists, int]:  # fmt: skip
    """The states of the first customers with those of customer i, and how many moves are remembered; -1: no room.

    The counts that are possible after customer i come in their order (`Reach`). Each is reached from as many groups as
    the customer has options, and these are sorted by cost: they are merged as runs, the cheapest state first, and
    nothing is sorted. A state is left out where its cost cannot end at the budget, where it loses more than is allowed
    together with what the others lose at least, and where another one of its group costs no more and is worth no
    less; of two that are equal, the one with the larger hash stays.
    """
    options = core.options[i]
    room = min(most, options * lists.cost.size)
    cost, worth, last = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32)
    first, end = reached.start[i + 1], reached.start[i + 2]
    start = np.zeros(end - first + 1, np.int64)
    option, at, stop = np.empty(options, np.int64), np.empty(options, np.int64), np.empty(options, np.int64)
    count = 0
    for entry in range(first, end):
        high, groups_first, runs = reached.high[entry], count, 0
        for o in range(options):
            group = reached.before[entry, o] - reached.start[i]
            if group < 0:
                continue
            begin, to = lists.start[group], lists.start[group + 1]
            cheapest = begin + np.searchsorted(lists.cost[begin:to], reached.low[entry] - core.cost[i, o])
            if cheapest < to and lists.cost[cheapest] + core.cost[i, o] <= high:
                option[runs], at[runs], stop[runs] = o, cheapest, to
                runs += 1
        while runs > 0:
            pick, o = 0, option[0]
            c, v = lists.cost[at[0]] + core.cost[i, o], lists.worth[at[0]] + core.worth[i, o]
            for run in range(1, runs):
                p = option[run]
                d, u = lists.cost[at[run]] + core.cost[i, p], lists.worth[at[run]] + core.worth[i, p]
                if d < c or (d == c and u > v):
                    pick, o, c, v = run, p, d, u
            state = at[pick]
            at[pick] += 1
            if at[pick] == stop[pick] or c > high:
                runs -= 1
                option[pick], at[pick], stop[pick] = option[runs], at[runs], stop[runs]
            if c > high or reached.lost[entry] + rate * float(c) - float(v) > allowed:
                continue
            if count > groups_first and worth[count - 1] >= v:
                if worth[count - 1] > v:
                    continue
                if tie_of(core, moves, last[count - 1]) >= tie_of(core, moves, lists.last[state]) + core.tie[i, o]:
                    continue
            if count == room or made == moves.parent.size:
                return lists, -1
            cost[count], worth[count], last[count] = c, v, lists.last[state]
            if o != 0:
                moves.parent[made], moves.who[made], moves.option[made] = lists.last[state], i, o
                last[count] = made
                made += 1
            count += 1
        start[entry - first + 1] = count
    return Lists(reached.word[first:end], start, cost[:count], worth[:count], last[:count]), made


class Ways(NamedTuple):
    """All ways in which the customers between two lists get their places.

    Where both lists are full, some customers may be left between them. Few of them are tried in every way.
    """

    options: Array  # (ways, customers)
    word: Array  # (ways,)
    cost: Array  # (ways,)
    worth: Array  # (ways,)
    tie: Array  # (ways,)

    @classmethod
    def of(cls, core: Core, who: Array) -> "Ways":
        options = np.array(list(itertools.product(*map(range, core.options[who]))), np.int64)
        sums = (amounts[who, options].sum(axis=1) for amounts in (core.word, core.cost, core.worth, core.tie))
        return cls(options, *sums)


@njit(nogil=True, cache=True)
def join_lists(
    one: Lists, other: Lists, ways: Ways, nodes: Nodes, budget: int, unspent: float, enough: float, most: int,
    cores: tuple[Core, Core], moves: tuple[Moves, Moves],
) -> tuple[int, int, int, bool, int]:  # fmt: skip
    """The best two states of different customers and way of those between them, within the limits and the budget.

    Returns their numbers, -1: there are none; whether all were looked at; and how many states were. The best is worth
    most, and of those with the largest hash. Once one is worth enough, no other way is looked at, and none at all once
    so many states were.

    Limits that must be met exactly decide which groups of the two lists can meet: the bits of such counts, looked up
    by binary search. Limits with a price are among them as a rule, for what they leave unused would lose too much. Two
    groups that meet are passed through once, the one from its cheapest state up and the other from its dearest state
    down, for worth rises with cost in both.
    """
    bits = exact = 0
    for node in range(nodes.shift.size):
        if nodes.low[node] == nodes.high[node]:
            bits |= nodes.mask[node] << nodes.shift[node]
            exact |= nodes.high[node] << nodes.shift[node]
    nobody = np.zeros(nodes.shift.size, np.int64)
    by_bits = np.argsort(other.word & bits, kind="mergesort")
    keys = (other.word & bits)[by_bits]
    first, second, best_way = -1, -1, -1
    best = best_tie = 0
    steps = 0
    for way in range(ways.cost.size):
        if first >= 0 and best >= enough:
            return first, second, best_way, False, steps
        left = budget - ways.cost[way]
        for a in range(one.word.size):
            if steps > most:
                return first, second, best_way, False, steps
            begin, end = one.start[a], one.start[a + 1]
            own = one.word[a] + ways.word[way]
            key = exact - (own & bits)
            at = np.searchsorted(keys, key) if begin < end else keys.size
            while at < keys.size and keys[at] == key:
                b = by_bits[at]
                at += 1
                low, high = other.start[b], other.start[b + 1]
                if (
                    low == high
                    or one.cost[begin] + other.cost[low] > left
                    or one.cost[end - 1] + other.cost[high - 1] < left - unspent
                    or (first >= 0 and one.worth[end - 1] + other.worth[high - 1] + ways.worth[way] < best)
                    or not _can_meet_limits(own + other.word[b], nodes, nobody)
                ):
                    continue
                j = high - 1
                least = float(left - other.cost[j]) - unspent - 1e6
                cheapest = begin + np.searchsorted(one.cost[begin:end], least)
                steps += end - cheapest
                for i in range(cheapest, end):
                    rest = left - one.cost[i]
                    while j >= low and other.cost[j] > rest:
                        j -= 1
                        steps += 1
                    if j < low:
                        break
                    worth = one.worth[i] + other.worth[j] + ways.worth[way]
                    if first >= 0 and worth < best:
                        continue
                    tie = 0
                    if first >= 0 and worth == best:
                        if best_tie == 0:  # not asked for yet: walking back through the moves takes long
                            best_tie = ways.tie[best_way] + tie_of(cores[0], moves[0], one.last[first])
                            best_tie += tie_of(cores[1], moves[1], other.last[second])
                        tie = ways.tie[way] + tie_of(cores[0], moves[0], one.last[i])
                        tie += tie_of(cores[1], moves[1], other.last[j])
                        if tie <= best_tie:
                            continue
                    first, second, best_way, best, best_tie = i, j, way, worth, tie
    return first, second, best_way, True, steps


_NOBODY = Lists(
    np.zeros(1, np.int64), np.arange(2), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)
)


class Joined(NamedTuple):
    """What a join found."""

    options: Array | None  # (open,) of the best; None: there is none
    cost: int
    complete: bool  # whether nothing better is left


@dataclass(slots=True)
class _Side:
    """One of two lists, and the customers in the order in which it takes them.

    It is full when another customer would probably make it too long, or when the lists before it took too much work.
    """

    core: Core
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
        if self.size * self.growth > most:
            self.full = True
            return
        before = self.size
        lists, remembered = extend(
            self.lists, self.taken, self.core, self.reached, rate, allowed, 2 * most, self.moves, self.remembered
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
    """Two lists that grow towards each other.

    Of n customers with two options each, one list would have up to 2ⁿ states, and two that meet have 2^(n/2) each. A
    join therefore looks at about the square of what can be stored.
    """

    order: Array  # (open,) customers
    core: Core
    nodes: Nodes
    rate: float  # grid units of value per one of cost
    allowed: float  # loss
    unspent: float  # money, at most, that is left where no more than this is lost
    sides: tuple[_Side, _Side]
    passed: int = 0  # states that joins passed over

    @classmethod
    def of(cls, core: Core, nodes: Nodes, budget: int, rate: float, allowed: float, most: int) -> "Meeting | None":
        """None: counts at the limits are too many."""
        unspent = allowed / rate if rate > 0.0 else math.inf
        meetings = []
        for order in _orders(core):
            sides = []
            for turn in (order, order[::-1]):
                turned = Core(*(np.ascontiguousarray(amounts[turn]) for amounts in core))
                reached = reach(turned, nodes, budget, unspent, _COUNTS_ROOM)
                if not reached.complete:
                    break
                sides.append(_Side(turned, reached, Moves.room(_MOVES_PER_STATE * most)))
            if len(sides) == 2:
                meeting = cls(order, core, nodes, rate, allowed, unspent, (sides[0], sides[1]))
                meeting.grow(min(_TRIAL_STATES, most))
                meetings.append(meeting)
        if not meetings:
            return None
        best = min(meetings, key=lambda one: one.ways)
        best.passed = _PASSED_PER_MADE * sum(side.made for one in meetings if one is not best for side in one.sides)
        if best.ways <= _HOPELESS_WAYS:
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
        return self.sides[0].made + self.sides[1].made + self.passed // _PASSED_PER_MADE

    def grow(self, most: int) -> None:
        for side in self.sides:
            side.full = False
        while self.between.size:
            growing = [side for side in self.sides if not side.full]
            if not growing or not all(side.size for side in self.sides):
                break
            min(growing, key=lambda side: side.size).take(self.rate, self.allowed, most)

    def joined(self, budget: int, enough: float, most: int) -> Joined:
        """The best allocation within a budget; enough: what need not be surpassed; most: states of a list, about."""
        one, other = self.sides
        if not one.size or not other.size:
            return Joined(None, 0, complete=True)
        if self.ways > _WAYS:
            return Joined(None, 0, complete=False)
        ways = Ways.of(self.core, self.between)
        first, second, way, complete, passed = join_lists(
            one.lists, other.lists, ways, self.nodes, budget, self.unspent, enough, _PASSED_PER_STATE * most,
            (one.core, other.core), (one.moves, other.moves),
        )  # fmt: skip
        self.passed += passed
        if first < 0:
            return Joined(None, 0, complete)
        options = np.zeros(self.order.size, np.int64)
        options[self.between] = ways.options[way]
        for side, turn, number in ((one, self.order, first), (other, self.order[::-1], second)):
            for who, option in side.moves.of(int(side.lists.last[number])):
                options[turn[who]] = option
        cost = int(one.lists.cost[first] + other.lists.cost[second] + ways.cost[way])
        return Joined(options, cost, complete)


def _orders(core: Core) -> list[Array]:
    """Two orders of the customers: the dear first, and those of rare kinds first.

    A kind is the set of limits that a customer's options count towards. With rare kinds at one end, the other list has
    few counts to keep apart.
    """
    cells = np.arange(core.place.shape[1])[None, :] < core.options[:, None]
    change = np.where(cells, core.cost, 0).max(axis=1) - np.where(cells, core.cost, 0).min(axis=1)
    dear = np.argsort(-change, kind="stable")
    kinds, counts = np.unique(np.where(cells, core.word, -1), axis=0, return_inverse=True, return_counts=True)[1:]
    kind = kinds.ravel()
    rare = np.lexsort((-change, kind, counts[kind]))
    return [dear] if (dear == rare).all() else [dear, rare]
