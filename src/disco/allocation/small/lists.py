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

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.small.options import Core, Nodes, sums_after
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-48  # of the budget and of all that options cost, in grid units: above what floats lose of sums
_COUNTS_ROOM = 300_000  # counts at the limits, of all customers together, that are looked at
_TRIAL_STATES = 20_000  # of a list, about, at which the two orders are compared
_MOVES_PER_STATE = 8  # moves that are remembered of a list and of those before it
_WAYS = 4_096  # in which the customers between two lists get their places, at most
_PASSED_PER_STATE = 100  # states that joins pass over, at most, per state of a list
_PASSED_PER_MADE = 16  # states that a join passes over in the time in which one is made
_MADE_PER_STATE = 6  # states made, per state that a list may have, for it to take another customer
_FIRST_SHARE = 0.03  # of the room for a list: where it is filled, what is left to do can be told
_HOPELESS_WAYS = 1e20  # that are left then: too many to go on
_SKIP = 32  # states that a join passes over at once, where the two lists are not of one length


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
    """Groups of states; in each group cost and worth rise.

    States of one group have the same customers at every limit, so that whatever the remaining customers get is
    possible for all of them or for none. One that costs no less and is worth no more than another of its group
    can therefore be left out.
    """

    words: Array  # (groups, 2) customers at each limit
    start: Array  # (groups + 1,) where the states of each group begin
    cost: Array  # (states,) grid units, more than if nobody had moved
    worth: Array  # (states,) grid units
    last: Array  # (states,) number of the last move


class Reach(NamedTuple):
    """The counts after each customer with which all limits can still be met, in their order, and the costs that can.

    It is about counts alone, of which there are far fewer than states, and is computed before any state is made. A
    group whose cost is outside of [low, high] cannot end within the budget with as little money left as the allowed
    loss requires.
    """

    start: Array  # (open + 2,) where those after each customer begin
    words: Array  # (counts, 2)
    low: Array  # (counts,) the least cost; above the largest one: there is none
    high: Array  # (counts,)
    lost: Array  # (counts,) what the remaining customers and unused limits lose at least


@njit(nogil=True, cache=True)
def tie_of(core: Core, moves: Moves, last: int) -> int:
    """Σ hashes of the moves up to one, more than if nobody had moved."""
    total = 0
    while last > 0:
        i, o = moves.who[last], moves.option[last]
        total += core.tie[i, o] - core.tie[i, 0]
        last = moves.parent[last]
    return total


@njit(nogil=True, cache=True)
def _can_meet_limits(first: int, second: int, nodes: Nodes, least: Array, most: Array) -> bool:
    """Whether counts in two words can meet all limits; least, most: (limits,) what the remaining customers add."""
    for node in range(nodes.word.size):
        count = ((first if nodes.word[node] == 0 else second) >> nodes.shift[node]) & nodes.mask[node]
        if count + least[node] > nodes.high[node] or count + most[node] < nodes.low[node]:
            return False
    return True


@njit(nogil=True, cache=True)
def reach(core: Core, nodes: Nodes, budget: int, unspent: float, room: int) -> tuple[Reach, bool]:
    """What states may have and cost, if no more money than this is left at the end; also whether there was room.

    Forth, customer by customer: the counts that their options can lead to, merged in the order of the two words, so
    that equal counts become one entry without a search. Back, from the last customer: the costs from which the end can
    be reached, and the least that the remaining customers and unused limits lose on the way.
    """
    opened, limits = core.options.size, nodes.word.size
    start = np.zeros(opened + 2, np.int64)
    words = np.empty((room, 2), np.int64)
    low, high, lost = np.empty(room), np.empty(room), np.empty(room)
    at = np.empty(core.place.shape[1], np.int64)
    words[0], start[1] = 0, 1
    count = 1
    for i in range(opened):  # forth: the counts, merged in their order
        at[:] = start[i]
        while True:
            ended = True
            first = second = 0
            for o in range(core.options[i]):
                if at[o] < start[i + 1]:
                    one, two = words[at[o], 0] + core.words[i, o, 0], words[at[o], 1] + core.words[i, o, 1]
                    if ended or one < first or (one == first and two < second):
                        ended, first, second = False, one, two
            if ended:
                break
            for o in range(core.options[i]):
                if (
                    at[o] < start[i + 1]
                    and words[at[o], 0] + core.words[i, o, 0] == first
                    and words[at[o], 1] + core.words[i, o, 1] == second
                ):
                    at[o] += 1
            if _can_meet_limits(first, second, nodes, nodes.least[i + 1], nodes.most[i + 1]):
                if count == room:
                    return Reach(start, words[:0], low[:0], high[:0], lost[:0]), False
                words[count, 0], words[count, 1] = first, second
                count += 1
        start[i + 2] = count
    size = float(abs(budget))
    for i in range(opened):
        size += float(np.abs(core.cost[i, : core.options[i]]).max())
    for w in range(start[opened], count):
        low[w], high[w] = budget - unspent - _ROUNDING * size, budget + _ROUNDING * size
        lost[w] = 0.0
        for node in range(limits):
            own = (words[w, nodes.word[node]] >> nodes.shift[node]) & nodes.mask[node]
            price = nodes.price[node]
            lost[w] += price * (nodes.high[node] - own) if price > 0.0 else price * (nodes.low[node] - own)
    for i in range(opened - 1, -1, -1):  # back: the costs
        at[:] = start[i + 1]
        for w in range(start[i], start[i + 1]):
            low[w], high[w], lost[w] = np.inf, -np.inf, np.inf
            for o in range(core.options[i]):
                one, two = words[w, 0] + core.words[i, o, 0], words[w, 1] + core.words[i, o, 1]
                while at[o] < start[i + 2] and (
                    words[at[o], 0] < one or (words[at[o], 0] == one and words[at[o], 1] < two)
                ):
                    at[o] += 1
                if at[o] < start[i + 2] and words[at[o], 0] == one and words[at[o], 1] == two:
                    low[w] = min(low[w], low[at[o]] - core.cost[i, o])
                    high[w] = max(high[w], high[at[o]] - core.cost[i, o])
                    lost[w] = min(lost[w], lost[at[o]] + core.loss[i, o])
    return Reach(start, words[:count], low[:count], high[:count], lost[:count]), True


@njit(nogil=True, cache=True)
def _first_at(cost: Array, start: int, end: int, least: float) -> int:
    """The first state of a range that costs as much."""
    while start < end:
        middle = (start + end) // 2
        if cost[middle] < least:
            start = middle + 1
        else:
            end = middle
    return start


@njit(nogil=True, cache=True)
def extend(
    lists: Lists, i: int, core: Core, nodes: Nodes, reached: Reach, rate: float, allowed: float, most: int,
    moves: Moves, made: int,
) -> tuple[Lists, int]:  # fmt: skip
    """The states of the first customers with those of customer i, and how many moves are remembered; -1: no room.

    The counts that are possible after customer i come in their order (`Reach`). Each is reached from as many groups as
    the customer has options, and these are sorted by cost: they are merged as runs, the cheapest state first, and
    nothing is sorted. A state is left out where its cost cannot end at the budget, where it loses more than is allowed
    together with what the others lose at least, and where another one of its group costs no more and is worth no
    less; of two that are equal, the one with the larger hash stays.
    """
    parent, who, option = moves
    words, start, cost, worth, last = lists
    groups, options, places = words.shape[0], core.options[i], core.place.shape[1]
    room = min(most, options * cost.size)
    cost_next, worth_next, last_next = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32)
    most_groups = reached.start[i + 2] - reached.start[i + 1]
    words_next, start_next = np.empty((most_groups, 2), np.int64), np.empty(most_groups + 1, np.int64)
    usual = np.zeros(nodes.word.size, np.int64)  # counts if nobody moves
    usual_worth = 0
    for one in range(i + 1):
        usual_worth += core.worth[one, 0]
        for node in range(nodes.word.size):
            usual[node] += (core.words[one, 0, nodes.word[node]] >> nodes.shift[node]) & nodes.mask[node]
    group, at, end = np.zeros(places, np.int64), np.empty(places, np.int64), np.empty(places, np.int64)
    run = np.empty(places, np.int64)
    count = groups_next = 0
    for w in range(reached.start[i + 1], reached.start[i + 2]):
        first, second = reached.words[w, 0], reached.words[w, 1]
        low, high = reached.low[w], reached.high[w]
        runs = 0
        for o in range(options):
            one, two = first - core.words[i, o, 0], second - core.words[i, o, 1]
            g = group[o]
            while g < groups and (words[g, 0] < one or (words[g, 0] == one and words[g, 1] < two)):
                g += 1
            group[o] = g
            if g == groups or words[g, 0] != one or words[g, 1] != two:
                continue
            begin = _first_at(cost, start[g], start[g + 1], low - core.cost[i, o])
            if begin < start[g + 1] and cost[begin] + core.cost[i, o] <= high:
                run[runs], at[runs], end[runs] = o, begin, start[g + 1]
                runs += 1
        base = reached.lost[w]  # what the group loses but for cost and worth
        for node in range(nodes.word.size):
            word = first if nodes.word[node] == 0 else second
            own = (word >> nodes.shift[node]) & nodes.mask[node]
            base += nodes.price[node] * (own - usual[node])
        begin = count
        while runs > 0:
            pick = 0
            o = run[0]
            c, v = cost[at[0]] + core.cost[i, o], worth[at[0]] + core.worth[i, o]
            for other in range(1, runs):
                p = run[other]
                d, u = cost[at[other]] + core.cost[i, p], worth[at[other]] + core.worth[i, p]
                if d < c or (d == c and u > v):
                    pick, o, c, v = other, p, d, u
            s = at[pick]
            at[pick] += 1
            if at[pick] == end[pick] or c > high:
                runs -= 1
                run[pick], at[pick], end[pick] = run[runs], at[runs], end[runs]
                if c > high:
                    continue
            if base + rate * float(c) - float(v - usual_worth) > allowed:
                continue
            if count > begin and worth_next[count - 1] >= v:
                if worth_next[count - 1] > v:
                    continue
                mine = tie_of(core, moves, last[s]) + (core.tie[i, o] - core.tie[i, 0])
                if tie_of(core, moves, last_next[count - 1]) >= mine:
                    continue
            if count == room or made == parent.size:
                return lists, -1
            cost_next[count], worth_next[count] = c, v
            if o == 0:
                last_next[count] = last[s]
            else:
                parent[made], who[made], option[made] = last[s], i, o
                last_next[count] = made
                made += 1
            count += 1
        if count > begin:
            words_next[groups_next, 0], words_next[groups_next, 1] = first, second
            start_next[groups_next] = begin
            groups_next += 1
    start_next[groups_next] = count
    made_lists = Lists(
        words_next[:groups_next], start_next[: groups_next + 1], cost_next[:count], worth_next[:count],
        last_next[:count],
    )  # fmt: skip
    return made_lists, made


class Ways(NamedTuple):
    """All ways in which the customers between two lists get their places.

    Where both lists are full, some customers may be left between them. Few of them are tried in every way.
    """

    words: Array  # (ways, 2)
    cost: Array  # (ways,)
    worth: Array  # (ways,)
    tie: Array  # (ways,) more than if nobody had moved
    options: Array  # (ways, customers)


@njit(nogil=True, cache=True)
def _exact_bits(nodes: Nodes) -> tuple[int, int, int, int]:
    """The bits of limits that must be met exactly, in either word, and what they must be.

    Limits with a price are met exactly as a rule, for what they leave unused would lose too much.
    """
    bits = np.zeros(2, np.int64)
    wanted = np.zeros(2, np.int64)
    for node in range(nodes.word.size):
        if nodes.low[node] == nodes.high[node]:
            bits[nodes.word[node]] |= nodes.mask[node] << nodes.shift[node]
            wanted[nodes.word[node]] |= nodes.high[node] << nodes.shift[node]
    return bits[0], bits[1], wanted[0], wanted[1]


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
    by binary search. Two groups that meet are passed through once, the one from its cheapest state up and the other
    from its dearest state down, for worth rises with cost in both.
    """
    bits0, bits1, wanted0, wanted1 = _exact_bits(nodes)
    groups, nobody = other.words.shape[0], np.zeros(nodes.word.size, np.int64)
    by_first = np.argsort(other.words[:, 0] & bits0, kind="mergesort")
    keys = (other.words[:, 0] & bits0)[by_first]
    first, second, best_way = -1, -1, -1
    best = best_tie = 0
    steps = 0
    for way in range(ways.cost.size):
        if first >= 0 and best >= enough:
            return first, second, best_way, False, steps
        left = budget - ways.cost[way]
        for a in range(one.words.shape[0]):
            if steps > most:
                return first, second, best_way, False, steps
            begin, end = one.start[a], one.start[a + 1]
            own0, own1 = one.words[a, 0] + ways.words[way, 0], one.words[a, 1] + ways.words[way, 1]
            key = wanted0 - (own0 & bits0)
            at = np.searchsorted(keys, key)
            while at < groups and keys[at] == key:
                b = by_first[at]
                at += 1
                if (own1 & bits1) + (other.words[b, 1] & bits1) != wanted1:
                    continue
                low, high = other.start[b], other.start[b + 1]
                if one.cost[begin] + other.cost[low] > left:
                    continue
                if one.cost[end - 1] + other.cost[high - 1] < left - unspent:
                    continue
                if first >= 0 and one.worth[end - 1] + other.worth[high - 1] + ways.worth[way] < best:
                    continue
                if not _can_meet_limits(own0 + other.words[b, 0], own1 + other.words[b, 1], nodes, nobody, nobody):
                    continue
                j = high - 1
                at_least = _first_at(one.cost, begin, end, float(left - other.cost[j]) - unspent - 1e6)
                steps += end - at_least
                for i in range(at_least, end):
                    rest = left - one.cost[i]
                    while j - low > _SKIP and other.cost[j - _SKIP] > rest:
                        j -= _SKIP
                        steps += 1
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
                        tie = tie_of(cores[0], moves[0], one.last[i]) + tie_of(cores[1], moves[1], other.last[j])
                        tie += ways.tie[way]
                        if best_tie == 0:  # not asked for yet: walking back through the moves takes long
                            best_tie = tie_of(cores[0], moves[0], one.last[first])
                            best_tie += tie_of(cores[1], moves[1], other.last[second]) + ways.tie[best_way]
                        if tie <= best_tie:
                            continue
                    first, second, best_way, best, best_tie = i, j, way, worth, tie
    return first, second, best_way, True, steps


_NOBODY = Lists(
    np.zeros((1, 2), np.int64), np.arange(2), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)
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
        if self.size * self.growth > most or self.made > _MADE_PER_STATE * most:
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
    """Two lists that grow towards each other.

    Of n customers with two options each, one list would have up to 2ⁿ states, and two that meet have 2^(n/2) each. A
    join therefore looks at about the square of what can be stored.
    """

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
        meetings = []
        for order in _orders(core):
            sides = []
            for turn in (order, order[::-1]):
                turned, limits = _turned(core, nodes, turn)
                reached, complete = reach(turned, limits, budget, _unspent(rate, allowed), _COUNTS_ROOM)
                if not complete:
                    break
                sides.append(_Side(turned, limits, reached, Moves.room(_MOVES_PER_STATE * most)))
            if len(sides) == 2:
                meeting = cls(order, core, nodes, rate, allowed, (sides[0], sides[1]))
                meeting.grow(min(_TRIAL_STATES, most))
                meetings.append(meeting)
        if not meetings:
            return None
        best = min(meetings, key=lambda one: one.ways)
        best.passed = _PASSED_PER_MADE * sum(side.made for one in meetings if one is not best for side in one.sides)
        best.grow(max(int(_FIRST_SHARE * most), min(_TRIAL_STATES, most)))
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
        ways = _ways_of(self.core, self.between)
        unspent = _unspent(self.rate, self.allowed)
        first, second, way, complete, passed = join_lists(
            one.lists, other.lists, ways, self.nodes, budget, unspent, enough, _PASSED_PER_STATE * most,
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


def _unspent(rate: float, allowed: float) -> float:
    """Money, at most, that is left where no more than this is lost."""
    return allowed / rate if rate > 0.0 else math.inf


def _orders(core: Core) -> list[Array]:
    """Two orders of the customers: the dear first, and those of rare kinds first.

    A kind is the set of limits that a customer's options count towards. With rare kinds at one end, the other list has
    few counts to keep apart.
    """
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
