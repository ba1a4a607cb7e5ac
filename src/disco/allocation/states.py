"""States: partial allocations of few customers, taken one after the other, and how two lists of them are joined.

A state says how many customers it has at each limit (packed into two words), what it costs, what it is worth, its hash
that breaks ties, and what it has lost against the prices (`finishing`). Lists are sorted by (counts, cost), which
adding an option to all states of a list does not change: a new list is a merge of as many lists as there are options.
"""

from typing import NamedTuple

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import njit


class Core(NamedTuple):
    """The customers who are still open, in the order in which they are taken, and what they may get (their options)."""

    options: Array  # (open,) how many; the first one loses nothing
    place: Array  # (open, options) column, -1 for no code
    worth: Array  # (open, options) grid units
    cost: Array  # (open, options) more than the first one, grid units
    tie: Array  # (open, options) hashes
    loss: Array  # (open, options) grid units of value
    words: Array  # (open, options, 2) one customer more at the limits of this place


class Nodes(NamedTuple):
    """The limits that open customers could break or leave unused."""

    word: Array  # (limits,) in which word its customers are counted
    shift: Array  # (limits,) and from which bit on
    mask: Array  # (limits,)
    low: Array  # (limits,) least number of open customers
    high: Array  # (limits,) largest number
    price: Array  # (limits,) grid units of value
    least: Array  # (open + 1, limits) customers whom the remaining ones add at least
    most: Array  # (open + 1, limits) and at most
    usual: Array  # (open + 1, limits) and where none of them loses anything
    more: Array  # (open + 1, limits, moves) what the next one more loses at least, cheapest first
    fewer: Array  # (open + 1, limits, moves) the same for one less
    others: Array  # (open + 1, limits) what the remaining ones could cost more without one more at this limit
    dearest: Array  # (open + 1, limits, 1 + moves) and with so many more, at most; the last one: with any number


class States(NamedTuple):
    """Partial allocations, sorted by (customers at each limit, cost); within equal counts worth rises with cost."""

    words: Array  # (states, 2)
    cost: Array  # (states,) grid units, more than if nobody lost anything
    worth: Array  # (states,)
    tie: Array  # (states,)


class Trail(NamedTuple):
    """Where each state of a pass came from."""

    parent: Array  # (states of all customers,) number among the states of the customer before
    option: Array  # (states of all customers,)
    start: Array  # (customers + 2,) where the states after each customer begin


@njit(nogil=True, cache=True)
def _suffix(core: Core, order: Array, who: Array, what: Array, stage: int, sign: int, moved: Array, lost: Array) -> int:
    """moved, lost: cumulated changes of cost and losses of the customers from `stage` on, best ratio first."""
    count = 1
    moved[0] = 0.0
    lost[0] = 0.0
    for at in order:
        i, o = who[at], what[at]
        if i < stage:
            continue
        change = sign * core.cost[i, o]
        if change <= 0:
            continue
        moved[count] = moved[count - 1] + change
        lost[count] = lost[count - 1] + core.loss[i, o]
        count += 1
    return count


@njit(nogil=True, cache=True)
def _at_least(need: float, moved: Array, lost: Array, count: int, rate: float) -> float:
    """The least loss of changing the cost by `need`; what is not changed loses `rate` (∞: it has to be)."""
    if need <= 0.0:
        return 0.0
    low, high = 0, count - 1  # the last place whose cumulated change is below the need
    while low < high:
        middle = (low + high + 1) // 2
        if moved[middle] < need:
            low = middle
        else:
            high = middle - 1
    rest = need - moved[low]
    if low + 1 < count:
        return float(lost[low] + rest * min((lost[low + 1] - lost[low]) / (moved[low + 1] - moved[low]), rate))
    return float(lost[low] + rest * rate)


@njit(nogil=True, cache=True)
def _cut(moved: Array, lost: Array, count: int, rate: float) -> int:
    """How many of the changes cost less than leaving money unspent."""
    for at in range(1, count):
        if lost[at] - lost[at - 1] >= rate * (moved[at] - moved[at - 1]):
            return at
    return count


@njit(nogil=True, cache=True)
def _least_loss(
    words0: int, words1: int, cost: int, loss: float, nodes: Nodes, stage: int, budget: int, rate: float,
    up_moved: Array, up_lost: Array, ups: int, down_moved: Array, down_lost: Array, downs: int,
) -> float:  # fmt: skip
    """What a state loses at least by the end; ∞: it breaks a limit."""
    total = loss
    if cost > budget:
        total += _at_least(float(cost - budget), down_moved, down_lost, downs, np.inf)
    else:
        need = float(budget - cost)
        unspent = 0.0
        for node in range(nodes.word.size):
            word = words0 if nodes.word[node] == 0 else words1
            count = (word >> nodes.shift[node]) & nodes.mask[node]
            room = min(max(nodes.high[node] - count - nodes.least[stage, node], 0), nodes.dearest.shape[2] - 1)
            unspent = max(unspent, need - nodes.others[stage, node] - nodes.dearest[stage, node, room])
        total += max(_at_least(need, up_moved, up_lost, ups, rate), rate * unspent)
    single = 0.0  # of the limit that forces most; one move may serve two limits, so these do not add up
    for node in range(nodes.word.size):
        word = words0 if nodes.word[node] == 0 else words1
        count = (word >> nodes.shift[node]) & nodes.mask[node]
        fewest, most = count + nodes.least[stage, node], count + nodes.most[stage, node]
        if fewest > nodes.high[node] or most < nodes.low[node]:
            return np.inf
        price = nodes.price[node]
        usual = count + nodes.usual[stage, node]
        term = 0.0
        if usual < nodes.low[node]:
            term = _forced(nodes.low[node] - usual, nodes.more[stage, node], np.inf)
        elif usual > nodes.high[node]:
            term = _forced(usual - nodes.high[node], nodes.fewer[stage, node], np.inf)
        elif price > 0.0:
            term = _forced(nodes.high[node] - usual, nodes.more[stage, node], price)
        elif price < 0.0:
            term = _forced(usual - nodes.low[node], nodes.fewer[stage, node], -price)
        single = max(single, term)
        if price > 0.0 and most < nodes.high[node]:
            total += price * (nodes.high[node] - most)
        elif price < 0.0 and fewest > nodes.low[node]:
            total -= price * (fewest - nodes.low[node])
    return max(total, loss + single)


@njit(nogil=True, cache=True)
def _forced(moves: int, cheapest: Array, price: float) -> float:
    """The least loss of so many moves, each of which may be left out at a price."""
    total = 0.0
    for move in range(min(moves, cheapest.size)):
        if cheapest[move] >= price:
            return total + (moves - move) * price
        total += cheapest[move]
    if moves > cheapest.size:
        total += (moves - cheapest.size) * min(cheapest[cheapest.size - 1], price)
    return total


@njit(nogil=True, cache=True)
def know_moves(core: Core, nodes: Nodes) -> None:
    """Fill what `Nodes` says about the moves of the remaining customers, from the last customer to the first."""
    opened, moves, listed = core.options.size, nodes.more.shape[2], nodes.dearest.shape[2]
    usual, more, fewer, others, dearest = nodes.usual, nodes.more, nodes.fewer, nodes.others, nodes.dearest
    usual[opened] = 0
    more[opened], fewer[opened] = np.inf, np.inf
    others[opened], dearest[opened] = 0.0, 0.0
    top = np.zeros((nodes.word.size, listed))  # the largest, in their order; the last one is the sum of all
    for i in range(opened - 1, -1, -1):
        for node in range(nodes.word.size):
            word, shift, mask = nodes.word[node], nodes.shift[node], nodes.mask[node]
            own = (core.words[i, 0, word] >> shift) & mask
            up = down = np.inf
            with_it = without_it = 0.0
            for o in range(1, core.options[i]):
                count = (core.words[i, o, word] >> shift) & mask
                if count > own:
                    up = min(up, core.loss[i, o])
                    with_it = max(with_it, float(core.cost[i, o]))
                else:
                    without_it = max(without_it, float(core.cost[i, o]))
                    if count < own:
                        down = min(down, core.loss[i, o])
            usual[i, node] = usual[i + 1, node] + own
            more[i, node], fewer[i, node] = more[i + 1, node], fewer[i + 1, node]
            for at in range(moves):  # in their order
                if up < more[i, node, at]:
                    up, more[i, node, at] = more[i, node, at], up
                if down < fewer[i, node, at]:
                    down, fewer[i, node, at] = fewer[i, node, at], down
            others[i, node] = others[i + 1, node] + without_it
            extra = max(with_it - without_it, 0.0)
            top[node, listed - 1] += extra
            for at in range(listed - 1):
                if extra > top[node, at]:
                    extra, top[node, at] = top[node, at], extra
            dearest[i, node, 0] = 0.0
            for at in range(1, listed - 1):
                dearest[i, node, at] = dearest[i, node, at - 1] + top[node, at - 1]
            dearest[i, node, listed - 1] = top[node, listed - 1]


@njit(nogil=True, cache=True)
def _ahead(words: Array, cost: Array, worth: Array, tie: Array, a: int, w: Array, c: int, v: int, t: int) -> bool:
    """Whether state a comes before another: fewer at the limits, cheaper, worth more, larger hash."""
    if words[a, 0] != w[0]:
        return bool(words[a, 0] < w[0])
    if words[a, 1] != w[1]:
        return bool(words[a, 1] < w[1])
    if cost[a] != c:
        return bool(cost[a] < c)
    if worth[a] != v:
        return bool(worth[a] > v)
    return bool(tie[a] > t)


@njit(nogil=True, cache=True)
def visit(
    core: Core, nodes: Nodes, order: Array, who: Array, what: Array, budget: int, rate: float, allowed: float,
    stages: int, width: int, most: int, trail: Trail,
) -> tuple[States, float, float]:  # fmt: skip
    """All states of the first customers (`stages`) that lose no more than is allowed by the end of all.

    Also the least loss of one that was dropped for want of room, and of one that loses more than is allowed. After
    `most` states no more are visited.
    order: (cells,) numbers into who and what, by loss per change of cost.
    """
    parent, option, start = trail
    places = core.place.shape[1]
    room = width * places + 1
    words, words_next = np.zeros((room, 2), np.int64), np.zeros((room, 2), np.int64)
    cost, cost_next = np.zeros(room, np.int64), np.zeros(room, np.int64)
    worth, worth_next = np.zeros(room, np.int64), np.zeros(room, np.int64)
    tie, tie_next = np.zeros(room, np.int64), np.zeros(room, np.int64)
    loss, loss_next = np.zeros(room), np.zeros(room)
    least_next = np.zeros(room)
    came, came_next = np.zeros(room, np.int32), np.zeros(room, np.int8)
    moved, lost = np.empty((2, order.size + 1)), np.empty((2, order.size + 1))
    at, seen = np.zeros(places, np.int64), np.zeros(places, np.int64)
    key = np.empty(2, np.int64)
    dropped = beyond = np.inf
    states = 1
    start[0] = 0
    parent[0] = -1
    option[0] = 0
    begin = 0
    for i in range(stages):
        ups = _suffix(core, order, who, what, i + 1, 1, moved[0], lost[0])
        ups = _cut(moved[0], lost[0], ups, rate)
        downs = _suffix(core, order, who, what, i + 1, -1, moved[1], lost[1])
        options = core.options[i]
        at[:] = 0
        seen[:] = -1  # the state of each option that was last found to be worth keeping
        count = 0
        while True:
            pick = -1
            for o in range(options):
                while at[o] < states and seen[o] != at[o]:
                    s = at[o]
                    least = loss[s] + core.loss[i, o]
                    if least <= allowed:
                        least = _least_loss(
                            words[s, 0] + core.words[i, o, 0], words[s, 1] + core.words[i, o, 1],
                            cost[s] + core.cost[i, o], least, nodes, i + 1, budget, rate,
                            moved[0], lost[0], ups, moved[1], lost[1], downs,
                        )  # fmt: skip
                    if least <= allowed:
                        seen[o] = s
                    else:
                        beyond = min(beyond, least)
                        at[o] += 1
                if at[o] == states:
                    continue
                s = at[o]
                if pick >= 0:
                    p = at[pick]
                    key[0] = words[p, 0] + core.words[i, pick, 0] - core.words[i, o, 0]
                    key[1] = words[p, 1] + core.words[i, pick, 1] - core.words[i, o, 1]
                    if not _ahead(
                        words, cost, worth, tie, s, key,
                        cost[p] + core.cost[i, pick] - core.cost[i, o],
                        worth[p] + core.worth[i, pick] - core.worth[i, o],
                        tie[p] + core.tie[i, pick] - core.tie[i, o],
                    ):  # fmt: skip
                        continue
                pick = o
            if pick < 0:
                break
            s = at[pick]
            at[pick] += 1
            first, second = words[s, 0] + core.words[i, pick, 0], words[s, 1] + core.words[i, pick, 1]
            new_worth, new_tie = worth[s] + core.worth[i, pick], tie[s] + core.tie[i, pick]
            if count > 0 and words_next[count - 1, 0] == first and words_next[count - 1, 1] == second:
                before = count - 1
                if worth_next[before] > new_worth or (worth_next[before] == new_worth and tie_next[before] >= new_tie):
                    continue
            words_next[count, 0], words_next[count, 1] = first, second
            cost_next[count] = cost[s] + core.cost[i, pick]
            worth_next[count], tie_next[count] = new_worth, new_tie
            loss_next[count] = loss[s] + core.loss[i, pick]
            came[count], came_next[count] = s, pick
            count += 1
        if count > width:
            for s in range(count):
                least_next[s] = _least_loss(
                    words_next[s, 0], words_next[s, 1], cost_next[s], loss_next[s], nodes, i + 1, budget, rate,
                    moved[0], lost[0], ups, moved[1], lost[1], downs,
                )  # fmt: skip
            limit = np.partition(least_next[:count], width)[width]
            dropped = min(dropped, limit)
            below = 0
            for s in range(count):
                below += 1 if least_next[s] < limit else 0
            kept = 0
            equal = width - below  # of those who lose as much as the limit, so many have room
            for s in range(count):
                if least_next[s] == limit:
                    equal -= 1
                if least_next[s] < limit or (least_next[s] == limit and equal >= 0):
                    words_next[kept, 0], words_next[kept, 1] = words_next[s, 0], words_next[s, 1]
                    cost_next[kept], worth_next[kept], tie_next[kept] = cost_next[s], worth_next[s], tie_next[s]
                    loss_next[kept], came[kept], came_next[kept] = loss_next[s], came[s], came_next[s]
                    kept += 1
            count = kept
        begin = start[i] + states
        start[i + 1] = begin
        if begin + count > most:
            dropped, states = 0.0, 0
            break
        for s in range(count):
            parent[begin + s] = came[s]
            option[begin + s] = came_next[s]
        words, words_next = words_next, words
        cost, cost_next = cost_next, cost
        worth, worth_next = worth_next, worth
        tie, tie_next = tie_next, tie
        loss, loss_next = loss_next, loss
        states = count
        if states == 0:
            break
    last = States(words[:states].copy(), cost[:states].copy(), worth[:states].copy(), tie[:states].copy())
    return last, dropped, beyond


@njit(nogil=True, cache=True)
def _groups(states: States) -> Array:
    """Where the states with the same counts begin, and where the last ones end."""
    begins = np.empty(states.cost.size + 1, np.int64)
    count = 0
    for s in range(states.cost.size):
        if s == 0 or states.words[s, 0] != states.words[s - 1, 0] or states.words[s, 1] != states.words[s - 1, 1]:
            begins[count] = s
            count += 1
    begins[count] = states.cost.size
    return begins[: count + 1]


@njit(nogil=True, cache=True)
def join(one: States, other: States, nodes: Nodes, budget: int, most_pairs: int) -> tuple[bool, int, int]:
    """The best two states of different customers within the limits: (whether all pairs were looked at, their numbers).

    -1: there are none.
    """
    ones, others = _groups(one), _groups(other)
    first, second = -1, -1
    if (ones.size - 1) * (others.size - 1) > most_pairs:
        return False, first, second
    best_worth = best_tie = 0
    for a in range(ones.size - 1):
        for b in range(others.size - 1):
            fits = True
            for node in range(nodes.word.size):
                word = nodes.word[node]
                both = one.words[ones[a], word] + other.words[others[b], word]
                count = (both >> nodes.shift[node]) & nodes.mask[node]
                if count < nodes.low[node] or count > nodes.high[node]:
                    fits = False
                    break
            if not fits:
                continue
            j = others[b + 1] - 1
            for i in range(ones[a], ones[a + 1]):
                while j >= others[b] and other.cost[j] > budget - one.cost[i]:
                    j -= 1
                if j < others[b]:
                    break
                worth, tie = one.worth[i] + other.worth[j], one.tie[i] + other.tie[j]
                if first < 0 or worth > best_worth or (worth == best_worth and tie > best_tie):
                    first, second, best_worth, best_tie = i, j, worth, tie
    return True, first, second
