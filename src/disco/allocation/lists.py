"""Lists of partial allocations that are sorted by cost, for customers who lose next to nothing by another place.

Such states rarely beat each other, so there are many, and each must take little time. They are kept in groups of equal
customers at all limits, sorted by cost. A customer's options shift the groups, and shifted groups with the same counts
are merged, which needs no sorting.

Which counts can still meet all limits, and what the remaining customers then add at least and at most, is known before
(`Reach`): it cuts off the ends of a whole group. Two lists are made, from the first customer on and from the last one
back, and the shorter one takes the next customer. They are joined in the middle. Where both are full before they meet,
the customers between them are given their places in every way, and each way is one more join.
"""

from typing import NamedTuple

import numpy as np

from disco.allocation.opening import Core, Nodes
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-48  # of the budget and of all that options cost, in grid units: above what floats lose of sums
_FAR = 32  # states that are passed over at once, where the two lists are not of one length


class Moves(NamedTuple):
    """Who moved where, state by state; 0: nobody has moved yet."""

    parent: Array  # (moves,) the move before
    who: Array  # (moves,) number among the customers of the list
    option: Array  # (moves,)

    @classmethod
    def room(cls, most: int) -> "Moves":
        return cls(np.empty(most, np.int32), np.empty(most, np.int16), np.empty(most, np.int16))

    def of(self, last: int) -> list[tuple[int, int]]:
        """(customer, option) of those who moved, up to a move."""
        found = []
        while last > 0:
            found.append((int(self.who[last]), int(self.option[last])))
            last = int(self.parent[last])
        return found


class Lists(NamedTuple):
    """Groups of states; in each group cost and worth rise."""

    words: Array  # (groups, 2) customers at each limit
    start: Array  # (groups + 1,) where the states of each group begin
    cost: Array  # (states,) grid units, more than if nobody had moved
    worth: Array  # (states,) grid units
    last: Array  # (states,) number of the last move


class Reach(NamedTuple):
    """The counts after each customer with which all limits can still be met, in their order, and the costs that can."""

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
def reach(core: Core, nodes: Nodes, budget: int, unspent: float, room: int) -> tuple[Reach, bool]:
    """What states may have and cost, if no more money than this is left at the end; also whether there was room."""
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
            found = False
            first = second = 0
            for o in range(core.options[i]):
                if at[o] < start[i + 1]:
                    one, two = words[at[o], 0] + core.words[i, o, 0], words[at[o], 1] + core.words[i, o, 1]
                    if not found or one < first or (one == first and two < second):
                        found, first, second = True, one, two
            if not found:
                break
            for o in range(core.options[i]):
                if (
                    at[o] < start[i + 1]
                    and words[at[o], 0] + core.words[i, o, 0] == first
                    and words[at[o], 1] + core.words[i, o, 1] == second
                ):
                    at[o] += 1
            kept = True
            for node in range(limits):
                word = first if nodes.word[node] == 0 else second
                own = (word >> nodes.shift[node]) & nodes.mask[node]
                if own + nodes.least[i + 1, node] > nodes.high[node] or own + nodes.most[i + 1, node] < nodes.low[node]:
                    kept = False
                    break
            if kept:
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

    Of two states in a group, the one that costs no less and is worth no more is left out.
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
    """All ways in which the customers between two lists get their places."""

    words: Array  # (ways, 2)
    cost: Array  # (ways,)
    worth: Array  # (ways,)
    tie: Array  # (ways,) more than if nobody had moved
    options: Array  # (ways, customers)


@njit(nogil=True, cache=True)
def _exact_bits(nodes: Nodes) -> tuple[int, int, int, int]:
    """The bits of limits that must be met exactly, in either word, and what they must be."""
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
    """
    bits0, bits1, wanted0, wanted1 = _exact_bits(nodes)
    groups = other.words.shape[0]
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
                fits = True
                for node in range(nodes.word.size):
                    word = nodes.word[node]
                    mine = own0 if word == 0 else own1
                    count = ((mine + other.words[b, word]) >> nodes.shift[node]) & nodes.mask[node]
                    if count < nodes.low[node] or count > nodes.high[node]:
                        fits = False
                        break
                if not fits:
                    continue
                j = high - 1
                at_least = _first_at(one.cost, begin, end, float(left - other.cost[j]) - unspent - 1e6)
                steps += end - at_least
                for i in range(at_least, end):
                    rest = left - one.cost[i]
                    while j - low > _FAR and other.cost[j - _FAR] > rest:
                        j -= _FAR
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
