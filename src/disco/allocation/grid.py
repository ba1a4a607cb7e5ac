"""Exact integers: values on a grid, ties by hash, and who would lose least by moving from one place to another.

Values are rounded once to a grid of 52 bits below the largest (48 with the 240 limits that boxes take), so that sums,
comparisons and therefore decisions cannot depend on the order of anything. Costs of moves are pairs (value, hash),
compared lexicographically. The lists of cheapest movers are short and sorted, and refilled when they run out: a list
holds everybody cheaper than its `unlisted_from`; a customer beyond that need not be in it.

Why integers prove what floats do: rounding changes the value of a customer by half a grid unit at most. With up to 14
depths that is about 2⁻⁵³ of the largest value, which is what a float64 of that size is uncertain by itself; each
doubling of the nodes takes a bit more, so that 240 limits make it 2⁻⁴⁹. The certificate works on the values as they
were given, and drops only what is rounding of a customer's own values and prices, so that a gap above `result.PROVED`
would show.

Why hashes: several optimal allocations are common (two customers who are worth the same), and which of them is found
would depend on the order of rows, on the number of threads, and on the guess. The pair (value, hash) has one optimum.
Hashes are negative, so that of two equal values "no code" wins over a code that brings nothing.

Byte-critical: `grid_scale`, `to_grid` and `tie_hash` decide who gets a code. A change here changes decisions.
"""

import math
from typing import NamedTuple

import numpy as np

from disco.records.arrays import Array
from disco.records.compiled import inner_kernel, njit
from disco.records.identity import mix

# The grid value of an ineligible cell.
NEVER = -(2**61)
_STRIDE = np.uint64(0x9E3779B97F4A7C15)


@njit("int64(uint64, int64)", cache=True)
def tie_hash(key: np.uint64, column: int) -> int:
    """hash(customer id, depth) in [-2⁴⁹, 0): below "no code", whose hash is 0, so an idle code is not given away."""
    return int(np.int64(mix(key + np.uint64(column + 1) * _STRIDE) >> np.uint64(15)) - np.int64(2**49))


@inner_kernel("boolean(int64, int64, int64, int64)", cache=True)
def less(a_value: int, a_hash: int, b_value: int, b_hash: int) -> bool:
    return a_value < b_value or (a_value == b_value and a_hash < b_hash)


@inner_kernel(cache=True)
def move_cost(worth: Array, keys: Array, i: int, a: int, b: int) -> tuple[int, int]:
    """(value, hash) lost when customer i moves from a to b (columns, -1 = none)."""
    value = 0
    tie = 0
    if a >= 0:
        value += worth[i, a]
        tie += tie_hash(keys[i], a)
    if b >= 0:
        value -= worth[i, b]
        tie -= tie_hash(keys[i], b)
    return value, tie


class Movers(NamedTuple):
    """Per ordered pair of places the customers who would lose least by that move, cheapest first; lists, room each."""

    nearest: Array  # (lists, room) customers
    cost: Array  # (lists, room, 2) (value, hash) of their moves
    size: Array  # (lists,) how many are listed
    may_be_others: Array  # (lists,) 1: customers who are not listed, none cheaper than `unlisted_from`
    unlisted_from: Array  # (lists, 2) (value, hash)


@inner_kernel(cache=True)
def _insert(row: int, count: int, i: int, value: int, tie: int, movers: Movers) -> None:
    """Put a customer into a list of so many, which is sorted by the cost of the move."""
    nearest, cost = movers.nearest, movers.cost
    at = count
    while at > 0 and less(value, tie, cost[row, at - 1, 0], cost[row, at - 1, 1]):
        nearest[row, at] = nearest[row, at - 1]
        cost[row, at, 0] = cost[row, at - 1, 0]
        cost[row, at, 1] = cost[row, at - 1, 1]
        at -= 1
    nearest[row, at] = i
    cost[row, at, 0] = value
    cost[row, at, 1] = tie


@inner_kernel(cache=True)
def refill(row: int, a: int, b: int, member: int, worth: Array, keys: Array, movers: Movers, following: Array) -> None:
    """Collect the cheapest movers a → b among the members of a place, cheapest first."""
    cost, size, may_be_others, unlisted_from = movers.cost, movers.size, movers.may_be_others, movers.unlisted_from
    room = cost.shape[1]
    count = 0
    more = 0
    low_value = 0
    low_hash = 0
    i = member
    while i >= 0:
        if b >= 0 and worth[i, b] == NEVER:
            i = following[i]
            continue
        value, tie = move_cost(worth, keys, i, a, b)
        if count == room:
            if not less(value, tie, cost[row, room - 1, 0], cost[row, room - 1, 1]):
                if more == 0 or less(value, tie, low_value, low_hash):
                    low_value, low_hash = value, tie
                more = 1
                i = following[i]
                continue
            last_value, last_hash = cost[row, room - 1, 0], cost[row, room - 1, 1]
            if more == 0 or less(last_value, last_hash, low_value, low_hash):
                low_value, low_hash = last_value, last_hash
            more = 1
            count -= 1
        _insert(row, count, i, value, tie, movers)
        count += 1
        i = following[i]
    size[row] = count
    may_be_others[row] = more
    unlisted_from[row, 0] = low_value
    unlisted_from[row, 1] = low_hash


@inner_kernel(cache=True)
def forget(row: int, i: int, movers: Movers) -> None:
    """Take customer i out of a list."""
    nearest, cost, size = movers.nearest, movers.cost, movers.size
    for at in range(size[row]):
        if nearest[row, at] == i:
            for next_at in range(at, size[row] - 1):
                nearest[row, next_at] = nearest[row, next_at + 1]
                cost[row, next_at, 0] = cost[row, next_at + 1, 0]
                cost[row, next_at, 1] = cost[row, next_at + 1, 1]
            size[row] -= 1
            return


@inner_kernel(cache=True)
def remember(row: int, i: int, value: int, tie: int, movers: Movers) -> None:
    """Insert a newcomer, unless their move costs more than the list answers for."""
    cost, size, may_be_others, unlisted_from = movers.cost, movers.size, movers.may_be_others, movers.unlisted_from
    if may_be_others[row] and not less(value, tie, unlisted_from[row, 0], unlisted_from[row, 1]):
        return
    room = cost.shape[1]
    if size[row] == room:
        last = room - 1
        if not less(value, tie, cost[row, last, 0], cost[row, last, 1]):
            may_be_others[row] = 1
            unlisted_from[row, 0] = value
            unlisted_from[row, 1] = tie
            return
        may_be_others[row] = 1
        unlisted_from[row, 0] = cost[row, last, 0]
        unlisted_from[row, 1] = cost[row, last, 1]
        size[row] = last
    _insert(row, size[row], i, value, tie, movers)
    size[row] += 1


def grid_scale(largest: float, *, nodes: int) -> float:
    """The power of two that takes values of at most `largest` to integers whose path sums stay below 2⁶².

    A path visits each node once, and no step of it is longer than two values, so that sums stay below 2⁵⁷. The bits
    between are room for potentials, and for distances that are measured beyond them.

    >>> grid_scale(3.0, nodes=9) == 2.0 ** (52 - 2)
    True
    """
    if largest <= 0.0:
        return 1.0
    return math.ldexp(1.0, min(56 - nodes.bit_length() - math.frexp(largest)[1], 1000))


@njit(nogil=True, cache=True, patient=True)
def to_grid(kept: Array, scale: float, keep_negative: bool, out: Array) -> None:
    """out[i, k] = round(kept[k, i] · scale); NEVER for -∞, and for a loss where no floor could ask for it."""
    for i in range(kept.shape[1]):
        for k in range(kept.shape[0]):
            x = kept[k, i]
            if x == -np.inf or (x < 0.0 and not keep_negative):
                out[i, k] = NEVER
            else:
                out[i, k] = np.int64(np.rint(x * scale))
