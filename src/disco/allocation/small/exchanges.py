"""Filling a budget to the last penny where many customers lose nothing by another place.

Where value and cost are in proportion, as they are at one depth, hundreds of customers are indifferent between two
places at the prices of the limits and of the budget. Any exchange among them is as good as any other, and all that
counts is how exactly costs add up to the budget. An exchange moves as many customers from one place to the other as
back, so that it keeps every limit; where no limit is near, a single customer may move.

One attempt has three steps. Many moves by chance, that keep the limits and stay near the budget, lead to an allocation
with many exchanges (`random_restart`): the filled budget itself is full of large baskets, and nearly all its exchanges
give money back. Four groups of customers are formed, and all exchanges within each are listed. Sums of the first two
lists near one amount and of the last two near the rest of the budget are listed in turn and joined: L exchanges per
group and J sums leave about 1 / (J · L²) of what exchanges can change, which is 10⁻¹² of the value in 4 ms. Where this
is still too much, other groups are tried. Chance comes from hashes of the customers, so that it is the same everywhere.
"""

import math
from typing import NamedTuple

import numpy as np

from disco.allocation.lagrangian import Lagrangian
from disco.allocation.limits import Tree
from disco.allocation.small.options import OptionTable, Prices, hashes
from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.identity import mix

# How exchanges are listed. Decision 135 has what these mechanisms buy, and which of the numbers were measured alone.
_GROUPS = 4  # lists that are joined two by two, of two customers at least
_GROUP_MEMBERS = 62  # at most: which of them move is one word
_FREE_MOVES = 3  # customers of a group who move the way that most could, at most, where numbers do not matter
_SAFE_ROOM = 5  # customers: a limit with as much room on either side is not broken by a few exchanges, as a rule
_LOSSLESS = 2.0**-6  # of what may be lost in all: whoever loses less is indifferent

# How a start is left by chance
_RANDOM_MOVES = 20  # per customer, on the way to another allocation
_SMALL_CHANGES = 0.75  # of the customers, whose changes of the cost say how far from the budget random moves may lead
_FIRST_CHANCE = 1_000  # numbers from which chance is hashed begin here: no depth has such a number
_HOPELESS = 1e6  # times what may be lost in all: a start whose second attempt leaves more is given up


class _Attempt(NamedTuple):
    """How many sums an attempt looks at, and from which starts."""

    listed: int  # exchanges per group, about
    joined: int  # sums of two exchanges on either side, about
    near: float = math.inf  # times what may be lost: from the best start alone, where no more is left; ∞: from all


_QUICK = (*[_Attempt(4_000, 16_000)] * 4, *[_Attempt(20_000, 60_000, _HOPELESS)] * 6)
_THOROUGH = (*[_Attempt(4_000, 16_000)] * 2, *[_Attempt(50_000, 400_000, 1e3)] * 4)  # after lists had no room


class Indifferent(NamedTuple):
    """Customers who lose nothing by one other place, and the limits that this concerns.

    They are called members below: of the round first, and then of a group.
    """

    who: Array  # (members,) customers
    place: Array  # (members,) the other place
    change: Array  # (members,) of the cost, grid units
    kind: Array  # (members,) between which two places, from 0
    sign: Array  # (members,) which way, +1 or -1; 0: the numbers at the two places do not matter


class Filling(NamedTuple):
    """What exchanges found."""

    places: Array | None  # (customers,) within all limits; None: none of the starts has enough exchanges
    work: int  # exchanges and sums that were looked at


def fill_exactly(
    lagrangian: Lagrangian, table: OptionTable, prices: Prices, starts: list[Array], enough: float, *, thorough: bool
) -> Filling:  # fmt: skip
    """Places that lose next to nothing by the prices and leave next to no money, within all limits.

    starts: (customers,) places each, near the budget, that lose nothing.
    enough: what may be lost in all.
    thorough: whether more sums are looked at, from other allocations, after all else has failed.
    """
    best, least, work = None, math.inf, 0
    open_to = list({start.tobytes(): start for start in starts}.values())
    open_to = [start for start in open_to if prices.lost(table, start) <= 0.5 * enough]
    nearest: list[Array] = []
    first = len(_QUICK) if thorough else 0  # numbers of attempts are seeds of chance
    for number, attempt in enumerate(_THOROUGH if thorough else _QUICK, first):
        if attempt.near < math.inf:
            open_to = nearest if least <= attempt.near * enough else []
        hopeful = []
        for start in open_to:
            places = random_restart(table, prices, start, enough, number)
            members = indifferent(table, prices, places, enough)
            if members.who.size < 2 * _GROUPS:
                continue
            moved = _exchanged(members, table, table.left(places), number, attempt)
            work += _GROUPS * attempt.listed + 2 * attempt.joined
            exchanged = places.copy()
            exchanged[members.who[moved]] = members.place[moved]
            if table.keeps_limits(exchanged):
                places = exchanged
            left = table.left(places)
            loses = prices.lost(table, places) + left * prices.rate if left >= 0 else math.inf
            if loses < least and lagrangian.keeps_budget(table.choice(places)):
                best, least, nearest = places, loses, [start]
            if least <= enough:
                return Filling(best, work)
            if number == first or loses <= _HOPELESS * enough:
                hopeful.append(start)
        open_to = hopeful
    return Filling(best, work)


def indifferent(table: OptionTable, prices: Prices, places: Array, enough: float) -> Indifferent:
    """Who could move at next to no loss. Of several places, that of the kind with most to exchange.

    A kind is a pair of places, up to limits that do not matter: customers of one kind who move in opposite directions
    leave all counts as they were. Where neither place has a limit that matters, any number may move.
    """
    merged = _merged(table.tree, prices.node, table.counts_of(places))
    tied = prices.loss <= _LOSSLESS * enough
    tied[table.rows, places] = False
    who, place = np.nonzero(tied)
    change = table.cost[who, place] - table.cost[who, places[who]]
    moving = change != 0
    who, place, change = who[moving], place[moving], change[moving]
    here, there = merged[table.node[who, places[who]]], merged[table.node[who, place]]
    sign = np.sign(there - here)
    between = np.where(sign == 0, -1, np.minimum(here, there) * table.tree.nodes + np.maximum(here, there))
    kinds, kind = np.unique(between, return_inverse=True)
    forth, back = (np.bincount(kind[sign == one], minlength=kinds.size) for one in (1, -1))
    exchanges = np.where(kinds < 0, np.bincount(kind, minlength=kinds.size), 2 * np.minimum(forth, back))
    order = np.lexsort((place, -exchanges[kind], who))
    first = order[np.unique(who[order], return_index=True)[1]] if order.size else order
    first = first[exchanges[kind[first]] > 0]
    return Indifferent(who[first], place[first], change[first], kind[first], sign[first])


def _merged(tree: Tree, prices: Array, counts: Array) -> Array:
    """(nodes,) each limit that is neither priced nor near counts as the one above it.

    What such a limit leaves unused costs nothing, and a few customers more or less do not break it.
    """
    merged = np.arange(tree.nodes)
    below = np.where(tree.low > 0, counts - tree.low, _SAFE_ROOM)
    slack = np.minimum(tree.high - counts, below)
    for node in range(1, tree.nodes):  # parents have smaller numbers
        if prices[node] == 0.0 and slack[node] >= _SAFE_ROOM:
            merged[node] = merged[tree.parent[node]]
    return merged


def random_restart(table: OptionTable, prices: Prices, start: Array, enough: float, number: int) -> Array:
    """Other places that lose nothing and cost about the budget: after many moves by chance, and a few towards it.

    Most allocations about the budget have far more exchanges than those at the ends of what is possible.
    """
    members = indifferent(table, prices, start, enough)
    if members.who.size < 2 * _GROUPS:
        return start
    moved = np.zeros(members.who.size, np.bool_)
    tree, counts = table.tree, table.counts_of(start)
    priced = prices.node != 0.0
    low, high = np.where(priced, counts, tree.low), np.where(priced, counts, tree.high)
    ends = np.stack([table.node[members.who, start[members.who]], table.node[members.who, members.place]])
    chance = _by_chance(table, members, number)
    near = int(np.quantile(np.abs(members.change), _SMALL_CHANGES))
    left = _move_by_chance(members, ends, (tree.parent, low, high), counts, chance, table.left(start), near, moved)
    _approach(members, left, moved)
    places = start.copy()
    places[members.who[moved]] = members.place[moved]
    return places if table.keeps_limits(places) else start


@njit(nogil=True, cache=True)
def _shift(ends: Array, i: int, way: int, tree: tuple[Array, Array, Array], counts: Array) -> int:
    """Customer i leaves their place (way 1) or comes back to it (way -1). Returns how many more limits are broken.

    ends: (2, members) limits of the place and of the other place. tree: parent, least and largest count of each limit.
    """
    parent, low, high = tree
    broken = 0
    for end in range(2):
        node, step = ends[end, i], way if end == 1 else -way
        while node > 0:
            broken -= counts[node] < low[node] or counts[node] > high[node]
            counts[node] += step
            broken += counts[node] < low[node] or counts[node] > high[node]
            node = parent[node]
    return broken


@njit(nogil=True, cache=True)
def _move_by_chance(
    members: Indifferent, ends: Array, tree: tuple[Array, Array, Array], counts: Array, chance: Array, left: int,
    near: int, moved: Array,
) -> int:  # fmt: skip
    """Moves by chance of one customer, or of two, that keep the limits, and the cost near the budget.

    A customer drawn by chance moves alone where the limits allow it, and otherwise against a second one of their kind.
    A move is taken back where it breaks a limit or leads farther from the budget than most customers change the cost.

    chance: (members,) numbers from which those by chance follow. Returns what is left of the budget.
    """
    size, change = members.change.size, members.change
    seed = np.uint64(0)
    for i in range(size):
        seed = mix(seed + np.uint64(chance[i]))
    for _ in range(_RANDOM_MOVES * size):
        seed = mix(seed)
        i, j = int(seed % np.uint64(size)), int((seed >> np.uint64(32)) % np.uint64(size))
        farthest = max(near, abs(left))
        way, back = -1 if moved[i] else 1, -1 if moved[j] else 1
        alone = left - way * change[i]
        both = alone - back * change[j]
        broken = _shift(ends, i, way, tree, counts)
        if broken == 0 and abs(alone) <= farthest:
            left, moved[i] = alone, not moved[i]
            continue
        if i != j and members.kind[i] == members.kind[j]:
            if broken + _shift(ends, j, back, tree, counts) == 0 and abs(both) <= farthest:
                left, moved[i], moved[j] = both, not moved[i], not moved[j]
                continue
            _shift(ends, j, -back, tree, counts)
        _shift(ends, i, -way, tree, counts)
    return left


@njit(nogil=True, cache=True)
def _approach(members: Indifferent, left: int, moved: Array) -> None:
    """Mark who moves: one customer, or two against each other, as long as this brings what is left nearer to 0.

    Exchanges change the cost by little, so that they must begin near the budget.
    """
    change, sign = members.change.copy(), members.sign.copy()
    change[moved], sign[moved] = -change[moved], -sign[moved]
    while True:
        best, first, second = left, -1, -1
        for i in range(change.size):
            alone = left - change[i]
            if sign[i] == 0 and abs(alone) < abs(best):
                best, first, second = alone, i, i
            for j in range(i + 1, change.size):
                if members.kind[j] == members.kind[i] and sign[i] + sign[j] == 0 and abs(alone - change[j]) < abs(best):
                    best, first, second = alone - change[j], i, j
        if first < 0:
            break
        left = best
        for i in {first, second}:
            moved[i], change[i], sign[i] = not moved[i], -change[i], -sign[i]


def _exchanged(members: Indifferent, table: OptionTable, left: int, number: int, attempt: _Attempt) -> Array:
    """Numbers of members whose moves cost as nearly what is left as four lists can make it; none: too few to choose.

    The longest list goes with the shortest one, so that there are about as many sums on either side. Each side aims at
    half of what is left; of the sums near that, the two that together leave least are found by one pass over both.
    """
    many = np.zeros(members.who.size, np.bool_)
    order = np.argsort(_by_chance(table, members, number), kind="stable")
    groups = _groups(members, order, attempt.listed, many)
    lists = [
        list_exchanges(members.change[group], members.kind[group], members.sign[group], many[group], 8 * attempt.listed)
        for group in groups
    ]
    nobody = np.zeros(0, np.int64)
    if max(costs.size for costs, _ in lists) < 2:
        return nobody
    by_size = sorted(range(_GROUPS), key=lambda g: -lists[g][0].size)  # about as many sums on either side
    turn = [by_size[0], by_size[3], by_size[1], by_size[2]]
    groups, lists = [groups[g] for g in turn], [lists[g] for g in turn]
    centre = left // 2
    one, one_first, one_second = near_sums(lists[0][0], lists[1][0], centre, attempt.joined)
    other, other_first, other_second = near_sums(lists[2][0], lists[3][0], left - centre, attempt.joined)
    first, second = best_sum(one, other, left)
    if first < 0:
        return nobody
    numbers = (one_first[first], one_second[first], other_first[second], other_second[second])
    moved = [
        group[at]
        for group, (_, masks), number in zip(groups, lists, numbers, strict=True)
        for at in range(group.size)
        if (int(masks[number]) >> at) & 1
    ]
    return np.array(moved, np.int64)


def _by_chance(table: OptionTable, members: Indifferent, number: int) -> Array:
    """(members,) numbers by chance, other ones in each attempt: hashes of keys, the same on every machine."""
    numbers: Array = hashes(table.keys[members.who], _FIRST_CHANCE + number, 1)[:, 0]
    return numbers


def _groups(members: Indifferent, order: Array, listed: int, of_many: Array) -> list[Array]:
    """The members of each group, kind by kind and of each kind the direction that fewer can take first.

    Those who move against each other change the cost by about as much, so that exchanges cost about nothing: sums then
    lie close together around what is left of the budget, instead of far apart on either side of it. Kinds with most
    members come first, and share the room for exchanges among the four groups.
    of_many: (members,) filled with who can take the other direction.
    """
    change = np.log(np.abs(members.change))
    groups: list[list[int]] = [[] for _ in range(_GROUPS)]
    lengths = [1] * _GROUPS
    counts = np.bincount(members.kind)
    for kind in np.argsort(-counts, kind="stable"):
        mine = order[members.kind[order] == kind]
        if not mine.size:
            continue
        free = bool(members.sign[mine[0]] == 0)
        way = np.sign(members.change[mine]) if free else members.sign[mine]
        few, many = sorted((mine[way > 0], mine[way < 0]), key=len)
        of_many[many] = True
        taken = [
            _shares(few[g::_GROUPS].size, many.size // _GROUPS, listed // lengths[g], free=free) for g in range(_GROUPS)
        ]
        taken = [
            one if sum(one[:2]) + len(group) <= _GROUP_MEMBERS else (0, 0, 1)
            for one, group in zip(taken, groups, strict=True)
        ]
        own = [few[g::_GROUPS][: taken[g][0]] for g in range(_GROUPS)]
        others = _alike([change[one] for one in own], change[many], [one[1] for one in taken])
        for g, group in enumerate(groups):
            group += [*own[g], *many[others[g]]]
            lengths[g] *= taken[g][2]
    return [np.array(group, np.int64) for group in groups]


def _alike(own: list[Array], others: Array, wanted: list[int]) -> list[list[int]]:
    """For each group numbers of others who are next to its own ones, each in turn, and in no other group.

    own, others: logarithms of what their moves cost, so that next to means by proportion.
    """
    unused = np.ones(others.size, np.bool_)
    chosen: list[list[int]] = [[] for _ in own]
    for turn in range(max(wanted)):
        for g, mine in enumerate(own):
            if turn < wanted[g]:
                away = np.abs(others - mine[turn % mine.size]) if mine.size else np.zeros(others.size)
                chosen[g].append(int(np.where(unused, away, np.inf).argmin()))
                unused[chosen[g][-1]] = False
    return chosen


def _shares(few: int, many: int, most: int, *, free: bool) -> tuple[int, int, int]:
    """How many of either direction have at most so many exchanges, and how many these are.

    free: numbers do not matter, so that any of the few and up to three of the many move.
    """
    one = other = 0
    exchanges = 1
    while True:
        grown = (one + 1, other) if one < few and (one <= other or other == many) else (one, other + 1)
        # Σ_j C(one, j) · C(other, j) = C(one + other, one)
        count = math.comb(sum(grown), grown[0])
        if free:
            count = 2 ** grown[0] * sum(math.comb(grown[1], moved) for moved in range(_FREE_MOVES + 1))
        if grown[0] > few or grown[1] > many or count > most or sum(grown) > _GROUP_MEMBERS:
            return one, other, exchanges
        one, other, exchanges = *grown, count


@njit(nogil=True, cache=True)
def list_exchanges(change: Array, kind: Array, sign: Array, many: Array, most: int) -> tuple[Array, Array]:
    """All exchanges among the members of a group, by cost: (changes of the cost, which members move as bits).

    Members come kind by kind, and of each kind those first who move the one way, then the others (many). As many move
    either way; where the numbers do not matter, any of the first and up to `_FREE_MOVES` of the others. No more than
    `most` are listed at a time.
    """
    cost, mask, balance = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    count = 1
    at = 0
    while at < change.size:
        end = at
        while end < change.size and kind[end] == kind[at]:
            end += 1
        for member in range(at, end):
            for s in range(count):
                after = balance[s] + (sign[member] if sign[member] != 0 else many[member])
                # nobody is left who could move against them
                if count == most or after * sign[at] < 0 or (sign[at] == 0 and after > _FREE_MOVES):
                    continue
                cost[count] = cost[s] + change[member]
                mask[count] = mask[s] | (np.int64(1) << member)
                balance[count] = after
                count += 1
        kept = 0
        for s in range(count):
            if balance[s] == 0 or sign[at] == 0:
                cost[kept], mask[kept], balance[kept] = cost[s], mask[s], 0
                kept += 1
        count = kept
        at = end
    order = np.argsort(cost[:count], kind="mergesort")
    return cost[:count][order], mask[:count][order]


@njit(nogil=True, cache=True)
def _within(one: Array, other: Array, least: int, most: int, first: Array, second: Array) -> int:
    """How many sums of two sorted lists are in a range, and the numbers of as many as there is room for."""
    count = 0
    low = high = other.size
    for i in range(one.size):
        while high > 0 and one[i] + other[high - 1] > most:
            high -= 1
        while low > 0 and one[i] + other[low - 1] >= least:
            low -= 1
        for at in range(low, min(high, low + max(first.size - count, 0))):
            first[count + at - low], second[count + at - low] = i, at
        count += max(high - low, 0)
    return count


@njit(nogil=True, cache=True)
def near_sums(one: Array, other: Array, centre: int, wanted: int) -> tuple[Array, Array, Array]:
    """Up to so many sums of two sorted lists, the nearest to an amount, in their order, and their numbers.

    How many sums are in a range is counted in one pass over both lists. The range is widened fourfold until it holds
    too many, and then halved: no sum is listed before the range is known.
    """
    none = np.empty(0, np.int64)
    narrow, wide = 0, 1
    while wide < 2**61 and _within(one, other, centre - wide, centre + wide, none, none) <= wanted:
        if wide > one[-1] - one[0] + other[-1] - other[0] + abs(centre - one[0] - other[0]):
            break
        narrow, wide = wide, 4 * wide
    for _ in range(12):
        middle = narrow + (wide - narrow) // 2
        if _within(one, other, centre - middle, centre + middle, none, none) <= wanted:
            narrow = middle
        else:
            wide = middle
    count = _within(one, other, centre - narrow, centre + narrow, none, none)
    first, second = np.empty(count, np.int64), np.empty(count, np.int64)
    _within(one, other, centre - narrow, centre + narrow, first, second)
    sums = one[first] + other[second]
    order = np.argsort(sums, kind="mergesort")
    return sums[order], first[order], second[order]


@njit(nogil=True, cache=True)
def best_sum(one: Array, other: Array, most: int) -> tuple[int, int]:
    """The numbers of the largest sum of two sorted lists that is not above an amount; -1: there is none."""
    first, second, best = -1, -1, 0
    j = other.size - 1
    for i in range(one.size):
        while j >= 0 and one[i] + other[j] > most:
            j -= 1
        if j < 0:
            break
        if first < 0 or one[i] + other[j] > best:
            best, first, second = one[i] + other[j], i, j
    return first, second
