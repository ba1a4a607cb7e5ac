"""Lists of partial allocations that are sorted by cost, for customers who lose next to nothing by another place.

Such states rarely beat each other, so there are many, and each must take little time. They are kept in groups of equal
customers at all limits, sorted by cost. What the remaining customers could add bounds a whole group at once: a range of
costs, whose ends are cut off. A customer's options shift the groups, and shifted groups with the same counts are
merged, which needs no sorting. Two halves of the customers are listed, and joined at the end.
"""

from typing import NamedTuple

import numpy as np

from disco.allocation.states import Core, Nodes
from disco.records.arrays import Array
from disco.records.compiled import njit

_ROUNDING = 2.0**-48  # of a budget in grid units, above what floats lose of it


class Moves(NamedTuple):
    """Who moved where, state by state; 0: nobody has moved yet."""

    parent: Array  # (moves,) the move before
    who: Array  # (moves,) number among the customers of the list
    option: Array  # (moves,)

    @classmethod
    def room(cls, most: int) -> "Moves":
        return cls(np.empty(most, np.int32), np.empty(most, np.int16), np.empty(most, np.int8))

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
def most_saved(core: Core, opened: int, allowed: float) -> Array:
    """(open + 1,) by how much the first customers from each one on could lower the cost, if they may lose so much."""
    room = core.place.size
    ratio, saved, lost, who = np.empty(room), np.empty(room), np.empty(room), np.empty(room, np.int64)
    cells = 0
    for i in range(opened):
        for o in range(1, core.options[i]):
            if core.cost[i, o] < 0:
                saved[cells], lost[cells], who[cells] = -float(core.cost[i, o]), core.loss[i, o], i
                ratio[cells] = lost[cells] / saved[cells]
                cells += 1
    order = np.argsort(ratio[:cells], kind="mergesort")
    most = np.zeros(opened + 1)
    for i in range(opened):
        left = allowed
        for at in order:
            if who[at] < i:
                continue
            share = 1.0 if lost[at] <= left else left / lost[at]
            most[i] += share * saved[at]
            left -= share * lost[at]
            if share < 1.0:
                break
    return most


@njit(nogil=True, cache=True)
def least_costs(core: Core, nodes: Nodes, moves: int) -> tuple[Array, Array]:
    """(open + 1, limits, moves) what so many more, or fewer, at a limit cost the customers from each one on at
    least, if nobody saves anything."""
    opened, limits = core.options.size, nodes.word.size
    more, fewer = np.full((opened + 1, limits, moves), np.inf), np.full((opened + 1, limits, moves), np.inf)
    for i in range(opened - 1, -1, -1):
        for node in range(limits):
            word, shift, mask = nodes.word[node], nodes.shift[node], nodes.mask[node]
            own = (core.words[i, 0, word] >> shift) & mask
            up = down = np.inf
            for o in range(1, core.options[i]):
                count = (core.words[i, o, word] >> shift) & mask
                if count > own:
                    up = min(up, max(float(core.cost[i, o]), 0.0))
                elif count < own:
                    down = min(down, max(float(core.cost[i, o]), 0.0))
            more[i, node], fewer[i, node] = more[i + 1, node], fewer[i + 1, node]
            for at in range(moves):  # in their order
                if np.isinf(up) and np.isinf(down):
                    break
                if up < more[i, node, at]:
                    up, more[i, node, at] = more[i, node, at], up
                if down < fewer[i, node, at]:
                    down, fewer[i, node, at] = fewer[i, node, at], down
    for stage in range(opened + 1):
        for node in range(limits):
            for at in range(1, moves):
                more[stage, node, at] += more[stage, node, at - 1]
                fewer[stage, node, at] += fewer[stage, node, at - 1]
    return more, fewer


@njit(nogil=True, cache=True)
def _range(
    words0: int, words1: int, nodes: Nodes, more: Array, fewer: Array, stage: int, budget: int, saved: float,
    unspent: float,
) -> tuple[float, float]:  # fmt: skip
    """The least and the largest cost of a state that can still end well, by its counts; the first above the second:
    none can.

    more, fewer: as of `least_costs`. saved: by how much the remaining customers could lower the cost. unspent: money
    that may be left.
    """
    adds = np.inf
    needs = 0.0
    for node in range(nodes.word.size):
        word = words0 if nodes.word[node] == 0 else words1
        count = (word >> nodes.shift[node]) & nodes.mask[node]
        room = nodes.high[node] - count - nodes.least[stage, node]
        if room < 0 or count + nodes.most[stage, node] < nodes.low[node]:
            return 1.0, 0.0
        room = min(room, nodes.dearest.shape[2] - 1)
        adds = min(adds, nodes.others[stage, node] + nodes.dearest[stage, node, room])
        usual = count + nodes.usual[stage, node]
        if usual < nodes.low[node]:
            needs = max(needs, more[stage, node, min(nodes.low[node] - usual, more.shape[2]) - 1])
        elif usual > nodes.high[node]:
            needs = max(needs, fewer[stage, node, min(usual - nodes.high[node], fewer.shape[2]) - 1])
    return budget - unspent - adds, budget + saved - needs + _ROUNDING * abs(budget)


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
def list_states(
    core: Core, nodes: Nodes, others: tuple[float, float], budget: int, rate: float, allowed: float, stages: int,
    most: int, moves: Moves,
) -> tuple[Lists, bool]:  # fmt: skip
    """All states of the first customers (`stages`) that could lose no more than is allowed by the end of all.

    Also whether there was room for all of them. others: what the customers after these cost at least and at most, where
    that is known from their list. Of two states in a group, the one that costs no less and is worth no more is left
    out.
    """
    parent, who, option = moves
    places = core.place.shape[1]
    # memory that is not written to is not taken
    cost, cost_next = np.empty(most, np.int64), np.empty(most, np.int64)
    worth, worth_next = np.empty(most, np.int64), np.empty(most, np.int64)
    last, last_next = np.empty(most, np.int32), np.empty(most, np.int32)
    words, words_next = np.empty((most + 1, 2), np.int64), np.empty((most + 1, 2), np.int64)
    start, start_next = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    groups, made = 1, 1
    cost[0], worth[0], last[0], words[0, 0], words[0, 1], start[0], start[1] = 0, 0, 0, 0, 0, 0, 1
    usual = np.zeros(nodes.word.size, np.int64)  # counts if nobody moves
    usual_worth = 0
    unspent = allowed / rate if rate > 0.0 else np.inf
    more, fewer = least_costs(core, nodes, nodes.dearest.shape[2])
    saved, own_saved = most_saved(core, core.options.size, allowed), most_saved(core, stages, allowed)
    adds = np.zeros(stages + 1)
    for i in range(stages - 1, -1, -1):
        adds[i] = adds[i + 1] + core.cost[i, : core.options[i]].max()
    group, at, end = np.empty(places, np.int64), np.empty(places, np.int64), np.empty(places, np.int64)
    run = np.empty(places, np.int64)
    for i in range(stages):
        options = core.options[i]
        usual_worth += core.worth[i, 0]
        for node in range(nodes.word.size):
            usual[node] += (core.words[i, 0, nodes.word[node]] >> nodes.shift[node]) & nodes.mask[node]
        group[:] = 0
        count = groups_next = 0
        while True:
            found = False
            first = second = 0
            for o in range(options):  # the smallest counts of all options
                if group[o] < groups:
                    one = words[group[o], 0] + core.words[i, o, 0]
                    two = words[group[o], 1] + core.words[i, o, 1]
                    if not found or one < first or (one == first and two < second):
                        found, first, second = True, one, two
            if not found:
                break
            low, high = _range(first, second, nodes, more, fewer, i + 1, budget, saved[i + 1], unspent)
            low = max(low, budget - unspent - adds[i + 1] - others[1])
            high = min(high, budget + own_saved[i + 1] - others[0] + _ROUNDING * abs(budget))
            base = 0.0  # what the group loses but for cost and worth
            for node in range(nodes.word.size):
                word = first if nodes.word[node] == 0 else second
                own = (word >> nodes.shift[node]) & nodes.mask[node]
                base += nodes.price[node] * (own - usual[node])
            runs = 0
            for o in range(options):
                g = group[o]
                if (
                    g == groups
                    or words[g, 0] + core.words[i, o, 0] != first
                    or words[g, 1] + core.words[i, o, 1] != second
                ):
                    continue
                group[o] += 1
                if low > high:
                    continue
                begin = _first_at(cost, start[g], start[g + 1], low - core.cost[i, o])
                if begin < start[g + 1] and cost[begin] + core.cost[i, o] <= high:
                    run[runs], at[runs], end[runs] = o, begin, start[g + 1]
                    runs += 1
            begin = count
            while runs > 0:
                pick = 0
                o = run[0]
                c, w = cost[at[0]] + core.cost[i, o], worth[at[0]] + core.worth[i, o]
                for other in range(1, runs):
                    p = run[other]
                    d, v = cost[at[other]] + core.cost[i, p], worth[at[other]] + core.worth[i, p]
                    if d < c or (d == c and v > w):
                        pick, o, c, w = other, p, d, v
                s = at[pick]
                at[pick] += 1
                if at[pick] == end[pick] or c > high:
                    runs -= 1
                    run[pick], at[pick], end[pick] = run[runs], at[runs], end[runs]
                    if c > high:
                        continue
                if base + rate * float(c) - float(w - usual_worth) > allowed:
                    continue
                if count > begin and worth_next[count - 1] >= w:
                    if worth_next[count - 1] > w:
                        continue
                    mine = tie_of(core, moves, last[s]) + (core.tie[i, o] - core.tie[i, 0])
                    if tie_of(core, moves, last_next[count - 1]) >= mine:
                        continue
                if count == most or made == parent.size:
                    return Lists(words[:0], start[:1], cost[:0], worth[:0], last[:0]), False
                cost_next[count], worth_next[count] = c, w
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
        cost, cost_next = cost_next, cost
        worth, worth_next = worth_next, worth
        last, last_next = last_next, last
        words, words_next = words_next, words
        start, start_next = start_next, start
        groups = groups_next
        if groups == 0:
            break
    states = start[groups]
    return Lists(
        words[:groups].copy(), start[: groups + 1].copy(), cost[:states].copy(), worth[:states].copy(),
        last[:states].copy(),
    ), True  # fmt: skip


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
    one: Lists, other: Lists, nodes: Nodes, budget: int, cores: tuple[Core, Core], moves: tuple[Moves, Moves]
) -> tuple[int, int]:
    """The numbers of the best two states of different customers within the limits and the budget; -1: there are none.

    The best is worth most, and of those with the largest hash.
    """
    bits0, bits1, wanted0, wanted1 = _exact_bits(nodes)
    groups = other.words.shape[0]
    by_first = np.argsort(other.words[:, 0] & bits0, kind="mergesort")
    keys = (other.words[:, 0] & bits0)[by_first]
    first, second = -1, -1
    best = best_tie = 0
    for a in range(one.words.shape[0]):
        begin, end = one.start[a], one.start[a + 1]
        key = wanted0 - (one.words[a, 0] & bits0)
        at = np.searchsorted(keys, key)
        while at < groups and keys[at] == key:
            b = by_first[at]
            at += 1
            if (one.words[a, 1] & bits1) + (other.words[b, 1] & bits1) != wanted1:
                continue
            low, high = other.start[b], other.start[b + 1]
            if one.cost[begin] + other.cost[low] > budget:
                continue
            if first >= 0 and one.worth[end - 1] + other.worth[high - 1] < best:
                continue
            fits = True
            for node in range(nodes.word.size):
                word = nodes.word[node]
                count = ((one.words[a, word] + other.words[b, word]) >> nodes.shift[node]) & nodes.mask[node]
                if count < nodes.low[node] or count > nodes.high[node]:
                    fits = False
                    break
            if not fits:
                continue
            j = high - 1
            at_least = begin
            if first >= 0:
                at_least = _first_at(one.worth, begin, end, float(best - other.worth[high - 1]) - 1e6)
            for i in range(at_least, end):
                most = budget - one.cost[i]
                if j - low > 64 and other.cost[j] > most:  # far away
                    j = min(j, _first_at(other.cost, low, j + 1, float(most) + 1e6))
                while j >= low and other.cost[j] > most:
                    j -= 1
                if j < low:
                    break
                worth = one.worth[i] + other.worth[j]
                if first >= 0 and worth < best:
                    continue
                tie = 0
                if first >= 0 and worth == best:
                    tie = tie_of(cores[0], moves[0], one.last[i]) + tie_of(cores[1], moves[1], other.last[j])
                    if best_tie == 0:
                        best_tie = tie_of(cores[0], moves[0], one.last[first])
                        best_tie += tie_of(cores[1], moves[1], other.last[second])
                    if tie <= best_tie:
                        continue
                first, second, best, best_tie = i, j, worth, tie
    return first, second
