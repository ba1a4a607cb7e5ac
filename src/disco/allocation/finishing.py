"""A budget for few customers, solved to the end: every allocation that could be better is looked at, or bounded.

For prices p ≥ 0 of the limits and a budget price λ, with D the bound they give, each allocation x within the limits has

    D - value(x) = Σ_i loss(i, x_i) + Σ_limits price · (what x leaves unused) + λ · (budget - cost(x)),   all terms ≥ 0.

So a cell that loses more than D - (best value known) is in no better allocation. What is left are a few customers with
a few cells each. They are taken one after the other, and all partial allocations are kept that could still become
better: *states*, sorted by (customers at each limit, cost). Of two states with the same customers at each limit, the
one that costs no less and is worth no more is dropped; so is a state whose losses, with those that the remaining
customers cannot avoid, exceed D - best. Sums are integers, and ties go by hash.

A pass keeps only so many states, the most promising. If it had to drop none, its answer is proved; otherwise what the
dropped ones could reach at most is the bound. Where values and costs are in proportion, thousands of allocations lose
next to nothing by the prices, and what counts is how exactly costs add up to the budget: some customers, in four parts,
are then searched for sums that do, which takes far fewer states than there are sums.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import tie_hash
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import UNLIMITED, Tree
from disco.allocation.paths import Assignment
from disco.allocation.states import Core, Nodes, States, Trail, cheapest_moves, join, near_sums, visit
from disco.records.arrays import Array
from disco.records.compiled import njit


class _Pass(NamedTuple):
    """How one pass is made. Counts, not seconds, end it: an answer must not depend on how fast a machine is."""

    width: int  # states that are kept after each customer
    parts: int  # of the customers, whose states are joined at the end
    customers: int = 0  # only so many may change from the best known; 0: everybody
    offset: float = 0.0  # which of them, from 0 (a small change of cost) to 1 (a large one)
    alike: bool = False  # only those who change between the same two places, with counts as they are


BRIEFLY = (
    _Pass(300, parts=1),
    _Pass(4_000, parts=4, customers=48, offset=0.3),
    _Pass(4_000, parts=4, customers=48),
    _Pass(4_000, parts=4, customers=48, alike=True),
    _Pass(1_000, parts=2),
)
THOROUGHLY = (
    *(
        _Pass(8_000, parts=4, customers=60, offset=offset, alike=alike)
        for offset in (0.15, 0.6, 0.45, 0.0, 0.8)
        for alike in (False, True)
    ),
    _Pass(3_000, parts=1),
    _Pass(6_000, parts=2),
    _Pass(20_000, parts=1),
)
_WORK = 2_500_000  # states times options, about, after which no pass is begun
_NEAR = 60_000  # sums of two states, about, when four parts are joined
_HOPELESS = 1e-3  # a pass that drops states which lose a smaller share of what they may is not worth a larger one
_PAIRS = 3_000_000  # pairs of counts, at most, that are looked at when two halves are joined
_TRIES = 8  # allocations that keep the budget on the grid only, before a pass is given up
_PROVED = 1e-12  # relative gap at which a certificate calls a value optimal
_ROOM = 1_500_000  # states in all, at most, of one pass over everybody
_WORD = 62  # bits of a word that holds customers per limit
_WORDS = 2  # words, at most
_MOVES = 6  # customers whose cheapest moves into or out of a limit are known one by one
_ROUNDING = 2.0**-44  # of the sums in a bound, far above what their rounding may be


@dataclass(frozen=True, slots=True)
class Finished:
    """The best allocation found, and what no allocation exceeds."""

    solution: Assignment
    value: float  # on the grid
    bound: float  # what no allocation exceeds; below the value that was asked for at least, it means nothing
    exact: bool  # proved optimal


class _Prices(NamedTuple):
    """Prices with the losses they imply, for customers in the order of their keys."""

    node: Array  # (nodes,) price of each limit, grid units
    loss: Array  # (customers, 1 + depths), ∞ where not eligible; the first is no code
    bound: float  # D, grid units


def _priced(lagrangian: Lagrangian, best: Priced, order: Array, group: Array) -> _Prices:
    """Only such prices as limits can have, and the bound that follows from them."""
    problem, tree = lagrangian.problem, best.solution.tree
    potentials = best.solution.potentials
    price = np.zeros(tree.nodes)
    price[1:] = potentials[1:] - potentials[tree.parent[1:]]
    price[1:] = np.where(tree.low[1:] > 0, price[1:], np.maximum(price[1:], 0.0))
    price[1:] = np.where(tree.high[1:] < UNLIMITED, price[1:], np.minimum(price[1:], 0.0))
    place = price.copy()
    place[1:] += np.where(tree.parent[1:] > 0, price[tree.parent[1:]], 0.0)
    net = np.zeros((order.size, problem.columns + 1))
    net[:, 1:] = problem.values[:, order].T - best.rate * lagrangian.costs[:, order].T.astype(np.float64)
    net[:, 1:] -= place[tree.leaf][group]
    if problem.eligible is not None:
        net[:, 1:][~problem.eligible[:, order].T] = -np.inf
    top = net.max(axis=1)
    limits = np.where(price[1:] > 0.0, price[1:] * tree.high[1:], price[1:] * tree.low[1:])
    bound = math.fsum([*top.tolist(), *limits.tolist(), best.rate * lagrangian.most])
    scale = lagrangian.value_scale
    return _Prices(price * scale, (top[:, None] - net) * scale, bound * scale)


class OptionTable(NamedTuple):
    """The customers in the order of their keys, on the grid; column 0 is no code."""

    order: Array  # (customers,) row numbers
    group: Array  # (customers,)
    worth: Array  # (customers, 1 + depths)
    cost: Array
    tie: Array

    @classmethod
    def of(cls, lagrangian: Lagrangian) -> "OptionTable":
        problem = lagrangian.problem
        keys = problem.keys_of(np.arange(problem.customers))
        order = np.argsort(keys, kind="stable")
        group = np.zeros(order.size, np.int64) if problem.limits.segment is None else problem.limits.segment[order]
        worth, cost, tie = (np.zeros((order.size, problem.columns + 1), np.int64) for _ in range(3))
        values, costs = problem.values[:, order], lagrangian.costs[:, order]
        if problem.eligible is not None:  # what stands in an ineligible cell may be any number
            allowed = problem.eligible[:, order]
            values, costs = np.where(allowed, values, 0.0), np.where(allowed, costs, 0.0)
        worth[:, 1:] = np.rint(values.T.astype(np.float64) * lagrangian.value_scale)
        cost[:, 1:] = np.rint(costs.T.astype(np.float64) * lagrangian.cost_scale)
        _hashes(keys[order], tie)
        return cls(order, group, worth, cost, tie)

    def worth_of(self, choice: Array) -> int:
        return int(self.worth[np.arange(self.order.size), choice + 1].sum())

    def value_of(self, solution: Assignment, scale: float) -> float:
        return self.worth_of(solution.choice[self.order].astype(np.int64)) / scale

    def better(self, one: Assignment, other: Assignment) -> Assignment:
        """That of larger value, or of equal value and larger hash."""

        def rank(solution: Assignment) -> tuple[int, int]:
            choice = solution.choice[self.order].astype(np.int64)
            return self.worth_of(choice), int(self.tie[np.arange(self.order.size), choice + 1].sum())

        return other if rank(other) > rank(one) else one

    def by_row(self, choice: Array) -> Array:
        rows = np.empty(self.order.size, np.int16)
        rows[self.order] = choice
        return rows


@njit(nogil=True, cache=True)
def _hashes(keys: Array, tie: Array) -> None:
    for i in range(keys.size):
        for column in range(tie.shape[1] - 1):
            tie[i, column + 1] = tie_hash(keys[i], column)


def finish(
    lagrangian: Lagrangian, known: Assignment, best: Priced, *, passes: tuple[_Pass, ...], least: float = -math.inf
) -> Finished:
    """The optimum of few customers with a budget, proved where a pass comes to its end.

    known: an allocation within the budget. best: prices that bound well.
    least: what a better one is worth at least; below it, what is returned need not be the optimum.
    """
    table = OptionTable.of(lagrangian)
    prices = _priced(lagrangian, best, table.order, table.group)
    choice = known.choice[table.order].astype(np.int64)
    bound, exact = prices.bound, False
    rounding = _ROUNDING * (float(np.abs(table.worth).max(initial=0)) * table.order.size + abs(prices.bound))
    wanted = least * lagrangian.value_scale if math.isfinite(least) else -math.inf
    worth = table.worth_of(choice)
    everybody, left, hopeless = np.ones(table.order.size, np.bool_), _WORK, False
    for kind in passes:
        if hopeless and not kind.customers:
            continue
        beat = max(float(worth), wanted)
        if bound - beat <= _PROVED * abs(beat) or left <= 0:
            break
        allowed = prices.bound - beat + rounding
        if allowed < 0.0:
            bound, exact = beat, True
            break
        free = _near(table, prices, choice, allowed, kind) if kind.customers else everybody
        found = _pass(lagrangian, table, known.tree, prices, choice, free, best.rate, allowed, kind)
        if found is None:
            continue
        left -= found.work
        if found.choice is not None and table.worth_of(found.choice) >= beat:
            choice, worth = found.choice, table.worth_of(found.choice)
        if kind.customers:
            continue
        hopeless = found.dropped < _HOPELESS * allowed
        beat = max(float(worth), wanted)
        bound = min(bound, max(found.most, prices.bound - found.dropped + rounding, beat))
        exact = math.isinf(found.dropped) and found.most <= beat
        if exact:
            break
    beat = max(float(worth), wanted)
    exact = exact or bound - beat <= _PROVED * abs(beat)
    scale = lagrangian.value_scale
    return Finished(replace(known, choice=table.by_row(choice)), worth / scale, bound / scale, exact)


class _Passed(NamedTuple):
    """What one pass found."""

    choice: Array | None  # (customers,) the best that keeps the budget to the last bit
    most: float  # what those are worth at most that the pass looked at
    dropped: float  # the least loss of those that it did not; infinite: none
    work: int  # states visited


def _near(table: OptionTable, prices: _Prices, choice: Array, allowed: float, kind: _Pass) -> Array:
    """Customers who would lose next to nothing by another place than they have, neighbours by the change of cost.

    The less they change, the finer their sums; but the more they change, the more of the budget they can fill.
    """
    rows = np.arange(choice.size)
    other = prices.loss.copy()
    other[rows, choice + 1] = np.inf
    place = other.argmin(axis=1)
    regret = other[rows, place] - prices.loss[rows, choice + 1]
    change = table.cost[rows, place] - table.cost[rows, choice + 1]
    near = (regret <= allowed) & (change != 0)
    if kind.alike and near.any():
        both = np.sort(np.stack([place, choice + 1]), axis=0) * [[prices.loss.shape[1]], [1]]
        swap = table.group * prices.loss.shape[1] ** 2 + both.sum(axis=0)
        kinds, counts = np.unique(swap[near], return_counts=True)
        near &= swap == kinds[counts.argmax()]
    free = np.zeros(choice.size, np.bool_)
    room = kind.customers
    for sign in (-1, 1):  # as many who give money back as take it, where there are enough of both
        side = np.flatnonzero(near & (sign * change > 0))
        side = side[np.lexsort((np.abs(change[side]), np.maximum(regret[side], allowed / 64.0)))]
        level = int(np.count_nonzero(regret[side] <= allowed / 64.0))
        wanted = room // 2 if sign < 0 else room
        first = max(int(kind.offset * (level - wanted)), 0)
        picked = side[first : first + wanted]
        free[picked] = True
        room -= picked.size
    return free


def _pass(
    lagrangian: Lagrangian, table: OptionTable, tree: Tree, prices: _Prices, choice: Array, free: Array, rate: float,
    allowed: float, kind: _Pass,
) -> _Passed | None:  # fmt: skip
    """Visit the states of two halves of the open customers, or of all of them, and join them."""
    fixed = np.where(free, prices.loss.argmin(axis=1) - 1, choice)
    core, nodes, cells = _core(tree, table, prices, fixed, free, allowed)
    if core is None or nodes is None:
        return None
    opened = cells.size
    rows = np.arange(fixed.size)
    budget = lagrangian.budget + fixed.size // 2 + 1 - int(table.cost[rows, fixed + 1].sum())
    width = kind.width if kind.customers else min(kind.width, _ROOM // (opened + 1))
    parts = [np.arange(first, opened, kind.parts) for first in range(kind.parts)]
    ends, trails, dropped, work = [], [], math.inf, 0
    for part in parts:
        rest = np.setdiff1d(np.arange(opened), part)
        turned, limits = _turned(core, nodes, np.concatenate([part, rest]))
        size = (part.size + 1) * width + 2
        trail = Trail(np.empty(size, np.int32), np.empty(size, np.int8), np.zeros(part.size + 2, np.int64))
        end, least = visit(
            turned, limits, *_by_ratio(turned), budget, rate * lagrangian.unit, allowed, part.size, width, trail
        )
        work += int(trail.start[part.size]) * int(core.place.shape[1])
        if not end.cost.size:
            return _Passed(None, -math.inf, min(dropped, least), work)
        ends.append(end)
        trails.append(trail)
        dropped = min(dropped, least)
    most, ceiling = -math.inf, budget
    has = np.argmax(core.place == choice[cells][:, None], axis=1)  # the first option where theirs is out: then a guess
    pairs = _paired(core, parts, ends, has if kind.alike else None, budget)
    for _ in range(_TRIES):
        complete, one, other = join(pairs[0].states, pairs[1].states, nodes, ceiling, _PAIRS)
        if not complete:
            return None
        if one < 0:
            return _Passed(None, most, dropped, work)
        tried = fixed.copy()
        numbers = [numbers[at] for pair, at in zip(pairs, (one, other), strict=True) for numbers in pair.numbers]
        for part, trail, number in zip(parts, trails, numbers, strict=True):
            _trace(core, part, trail, int(number), cells, tried)
        most = max(most, float(table.worth_of(tried)))
        if lagrangian.keeps_budget(table.by_row(tried)):
            return _Passed(tried, most, dropped, work)
        # within the budget on the grid, but not to the last bit
        ceiling = int(pairs[0].states.cost[one] + pairs[1].states.cost[other]) - 1
    return _Passed(None, most, dropped, work)


class _Pair(NamedTuple):
    """States of some customers, and the numbers of the states of their parts."""

    states: States
    numbers: tuple[Array, ...]


def _paired(
    core: Core, parts: list[Array], ends: list[States], known: Array | None, budget: int
) -> tuple[_Pair, _Pair]:
    """Two lists to be joined. Of four parts: sums of the first two near one amount, and of the last two near the rest
    of the budget.

    known: (open,) the option that each customer has in the best known allocation; sums then have its counts, and about
    its costs, so that they keep the limits. None: any counts.
    """
    nobody = States(np.zeros((1, 2), np.int64), *(np.zeros(1, np.int64) for _ in range(3)))
    if len(ends) < 4:
        one, other = ends[0], ends[1] if len(ends) > 1 else nobody
        numbers = (np.arange(other.cost.size),) if len(ends) > 1 else ()
        return _Pair(one, (np.arange(one.cost.size),)), _Pair(other, numbers)
    if known is None:
        middle = [float(end.cost.mean()) for end in ends]
        centre = middle[0] + middle[1] + 0.5 * (budget - sum(middle))
        return _sums(ends[0], ends[1], None, centre), _sums(ends[2], ends[3], None, budget - centre)
    half = np.concatenate(parts[:2]), np.concatenate(parts[2:])
    words = [core.words[rows, known[rows]].sum(axis=0) for rows in half]
    centre = float(core.cost[half[0], known[half[0]]].sum())
    return _sums(ends[0], ends[1], words[0], centre), _sums(ends[2], ends[3], words[1], budget - centre)


def _sums(one: States, other: States, words: Array | None, centre: float) -> _Pair:
    """About `_NEAR` sums of two states, with these counts or any, the nearest to an amount of money."""
    spread = math.hypot(float(one.cost.std()), float(other.cost.std())) + 1.0
    away, none = spread, np.empty(0, np.int64)
    narrow, wide = 0.0, math.inf  # with too few sums, with too many
    for _ in range(16):
        count = near_sums(one, other, words, centre - away, centre + away, none, none)
        if count > 2 * _NEAR:
            wide = away
        elif count < _NEAR // 4 and away < 8.0 * spread:
            narrow = away
        else:
            break
        if math.isinf(wide):
            away *= 2.0
        else:
            away = math.sqrt(narrow * wide) if narrow > 0.0 else max(_NEAR / count, 1e-3) * wide
    count = min(near_sums(one, other, words, centre - away, centre + away, none, none), 4 * _NEAR)
    first, second = np.empty(count, np.int64), np.empty(count, np.int64)
    near_sums(one, other, words, centre - away, centre + away, first, second)
    summed = States(*(left[first] + right[second] for left, right in zip(one, other, strict=True)))
    order = np.lexsort((summed.tie, summed.worth, summed.cost, summed.words[:, 1], summed.words[:, 0]))
    return _Pair(States(*(part[order] for part in summed)), (first[order], second[order]))


def _turned(core: Core, nodes: Nodes, turn: Array) -> tuple[Core, Nodes]:
    """Customers in another order."""
    fewest, largest = nodes.least[:-1] - nodes.least[1:], nodes.most[:-1] - nodes.most[1:]
    turned = Core(*(np.ascontiguousarray(part[turn]) for part in core))
    shape = nodes.least.shape
    usual, more, fewer = np.empty(shape, np.int64), np.empty((*shape, _MOVES)), np.empty((*shape, _MOVES))
    cheapest_moves(turned, nodes, usual, more, fewer)
    limits = nodes._replace(least=_after(fewest[turn]), most=_after(largest[turn]), usual=usual, more=more, fewer=fewer)
    return turned, limits


def _trace(core: Core, half: Array, trail: Trail, state: int, cells: Array, choice: Array) -> None:
    """The places of a state at the end, written into choice."""
    for stage in range(half.size - 1, -1, -1):
        at = trail.start[stage + 1] + state
        choice[cells[half[stage]]] = core.place[half[stage], trail.option[at]]
        state = int(trail.parent[at])


def _by_ratio(core: Core) -> tuple[Array, Array, Array]:
    """Cells that lose something or nothing by changing the cost, by loss per change."""
    who, what = np.nonzero(np.arange(core.place.shape[1])[None, :] < core.options[:, None])
    change = np.abs(core.cost[who, what]).astype(np.float64)
    moved = change > 0.0
    who, what, change = who[moved], what[moved], change[moved]
    return np.argsort(core.loss[who, what] / change, kind="stable"), who, what


def _core(
    tree: Tree, table: OptionTable, prices: _Prices, fixed: Array, free: Array, allowed: float
) -> tuple[Core | None, Nodes | None, Array]:
    """Customers with more than one cell that could be in a better allocation; None: their counts need too many bits."""
    group, worth, cost, tie = table.group, table.worth, table.cost, table.tie
    loss = prices.loss
    options = (loss <= allowed).sum(axis=1)
    cells = np.flatnonzero((options > 1) & free)
    second = np.sort(loss[cells], axis=1)[:, 1]
    cells = cells[np.argsort(second, kind="stable")]
    most = int(options[cells].max(initial=1))
    picked = np.argsort(loss[cells], axis=1, kind="stable")[:, :most]
    rows = cells[:, None]
    leaf = np.concatenate([np.zeros((tree.leaf.shape[0], 1), np.int64), tree.leaf], axis=1)
    opened = cells.size
    # which limits a place counts towards, as (open, options, nodes)
    counted = np.zeros((opened, most, tree.nodes), np.int64)
    node = leaf[group[cells][:, None], picked]
    for _ in range(2):
        i, o = np.nonzero(node > 0)
        counted[i, o, node[i, o]] += 1
        node = np.where(node > 0, tree.parent[node], 0)
    base = np.zeros(tree.nodes, np.int64)
    settled = np.ones(worth.shape[0], np.bool_)
    settled[cells] = False
    own = leaf[group[settled], fixed[settled] + 1]
    for _ in range(2):
        np.add.at(base, own[own > 0], 1)
        own = np.where(own > 0, tree.parent[own], 0)
    possible = np.arange(most)[None, :, None] < options[cells][:, None, None]
    fewest = np.where(possible, counted, 1).min(axis=1)
    largest = np.where(possible, counted, 0).max(axis=1)
    least, top = _after(fewest), _after(largest)
    low, high = tree.low - base, tree.high - base
    matters = (least[0] < low) | (top[0] > high) | (prices.node != 0.0)
    matters[0] = False
    chosen = np.flatnonzero(matters)
    bits = [int(top[0, one]).bit_length() + 1 for one in chosen]
    word, shift, used = [], [], [0] * _WORDS
    for size in bits:
        at = next((one for one in range(_WORDS) if used[one] + size <= _WORD), -1)
        if at < 0:
            return None, None, cells
        word.append(at)
        shift.append(used[at])
        used[at] += size
    increments = np.zeros((opened, most, _WORDS), np.int64)
    for one, in_word, by in zip(chosen, word, shift, strict=True):
        increments[:, :, in_word] += counted[:, :, one] << by
    nodes = Nodes(
        np.array(word, np.int64), np.array(shift, np.int64), np.array([(1 << size) - 1 for size in bits], np.int64),
        low[chosen], high[chosen], prices.node[chosen],
        np.ascontiguousarray(least[:, chosen]), np.ascontiguousarray(top[:, chosen]),
        np.zeros((opened + 1, chosen.size), np.int64), *(np.zeros((opened + 1, chosen.size, _MOVES)) for _ in range(2)),
    )  # fmt: skip
    core = Core(
        options[cells], picked - 1, worth[rows, picked], cost[rows, picked] - cost[cells, picked[:, 0]][:, None],
        tie[rows, picked], loss[rows, picked], increments,
    )  # fmt: skip
    return core, nodes, cells


def _after(per_customer: Array) -> Array:
    """(open + 1, …) sums from each customer on."""
    sums = np.zeros((per_customer.shape[0] + 1, *per_customer.shape[1:]), np.int64)
    sums[:-1] = per_customer[::-1].cumsum(axis=0)[::-1]
    return sums
