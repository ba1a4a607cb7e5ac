"""A budget for few customers, solved to the end: every allocation that could be better is looked at, or bounded.

For prices of the limits and a budget price, with D the bound they give, D - value is a sum of losses, none of them
negative (`options`). So a cell that loses more than g is in no allocation that is worth more than D - g. What is left
for a small g are a few customers with a few cells each. They are taken one after the other, and all partial allocations
are kept that could still lose no more than g: *states*, sorted by (customers at each limit, cost). Of two states with
the same customers at each limit, the one that costs no less and is worth no more is dropped. If one is left at the end,
it is the optimum. If none is, the bound is D - g, and a larger g is tried: most of the work is that of the last one.

With two parts, the states of either half of the customers are joined at the end. Where many customers lose nothing by
another place, states are only listed: they would not beat each other.

Sums are integers, and ties go by hash. A pass keeps only so many states. Where it would have to drop one, it proves
nothing, and the bound of the pass before it stands.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.exchanging import fill_exactly
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import Tree
from disco.allocation.options import OptionTable, Prices
from disco.allocation.paths import Assignment
from disco.allocation.states import Core, Nodes, States, Trail, best_at_each_cost, join, know_moves, list_states, visit
from disco.records.arrays import Array

_FIRST = 12  # customers, about, who are open in the first pass
_WIDER = 1.6  # by how much more may be lost in the next pass, at least
_MORE = 6  # cells, at least, that are open in the next pass and were not before
_LITTLE = 2.0**-6  # of what may be lost
_TRIES = 8  # allocations that keep the budget on the grid only, before a pass is given up
PROVED = 1e-12  # relative gap at which a certificate calls a value optimal
_WORD = 62  # bits of a word that holds customers per limit
_WORDS = 2  # words, at most
_MOVES = 6  # customers whose cheapest moves into or out of a limit are known one by one
_DEAREST = 34  # those whose moves into a limit cost most, likewise
_PAIRS = 3_000_000  # pairs of counts, at most, that are looked at when two halves are joined
_QUICKER = 10  # states that are listed in the time in which one is visited
_SUMS = 5  # exchanges and sums of them, likewise
_NONE = np.empty(0)
_NOBODY = States(np.zeros((1, 2), np.int64), *(np.zeros(1, np.int64) for _ in range(3)))


class Size(NamedTuple):
    """How many states a pass may have. Counts, not seconds, end it: an answer must not depend on a machine's speed."""

    width: int  # that are kept after each customer
    parts: int  # 2: of two halves of the customers, joined at the end
    most: int  # that are visited in each part of a pass, and before no other pass is begun
    plain: bool = False  # whether states are not compared with each other


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
    def of(cls, lagrangian: Lagrangian, relaxed: Relaxed) -> "Search":
        table = OptionTable.of(lagrangian, relaxed.filled.tree)
        prices = Prices.of(lagrangian, relaxed.best, table)
        places = table.places(relaxed.filled.choice)
        return cls(lagrangian, relaxed, table, prices, places, table.worth_of(places), prices.bound, 0.0)

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

    def fill(self) -> int:
        """Exchanges among customers who lose nothing. Returns the number of states that could be visited meanwhile."""
        relaxed = self.relaxed
        starts = [self.table.places(choice) for choice in (relaxed.near, relaxed.rich, relaxed.poor)]
        enough = 0.8 * PROVED * abs(self.prices.bound)
        found, work = fill_exactly(self.lagrangian, self.table, self.tree, self.prices, starts, enough)
        if found is not None and self.table.worth_of(found) > self.worth:
            self.places, self.worth = found, self.table.worth_of(found)
        return work // _SUMS

    def deepen(self, wanted: float, size: Size) -> int:
        """Passes in each of which more may be lost, until one finds the optimum or needs too much room.

        wanted: what others are worth already. Returns the number of states visited.
        """
        prices, visited = self.prices, 0
        levels = np.sort(prices.loss, axis=1)[:, 1:].ravel()  # of the cells that lose something
        levels = np.sort(levels[np.isfinite(levels)])
        allowed = max(_level(levels, prices.rounding, _FIRST), _WIDER * self.lost, PROVED * abs(prices.bound))
        while not self.proved(wanted) and visited < size.most:
            full = prices.bound - max(float(self.worth), wanted)
            allowed = min(allowed, full)
            found = _pass(self, allowed + prices.rounding, size)
            if found is None:
                break
            visited += found.visited
            if found.places is not None and self.table.worth_of(found.places) > self.worth:
                self.places, self.worth = found.places, self.table.worth_of(found.places)
            if math.isfinite(found.dropped):
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


class _Passed(NamedTuple):
    """What one pass found."""

    places: Array | None  # (customers,) the best that keeps the budget to the last bit
    most: float  # what those are worth at most that the pass looked at
    dropped: float  # the least loss of those that there was no room for; infinite: none
    beyond: float  # the least loss of those that lose more than was allowed
    visited: int  # states


def _pass(search: Search, allowed: float, size: Size) -> _Passed | None:
    """The best allocation that loses no more than is allowed; None: counts need too many bits, or are too many."""
    table, lagrangian = search.table, search.lagrangian
    usual = np.where(search.lossless, table.cost, 2**62).argmin(axis=1)  # the cheapest place of those that lose nothing
    opened = _core(search.tree, table, search.prices, usual, allowed)
    if opened is None:
        return None
    core, nodes, cells, lost = opened
    if core is None or nodes is None or lost > allowed:
        return _Passed(None, -math.inf, math.inf, lost, 0)
    budget = lagrangian.budget + usual.size // 2 + 1 - table.cost_of(usual)
    parts = [np.arange(first, cells.size, size.parts) for first in range(size.parts)]
    ends, dropped, beyond, visited = [], math.inf, math.inf, 0
    for part in parts:
        turned, limits = _turned(core, nodes, part)
        end = (_listed if size.plain else _visited)(
            turned, limits, budget, search.prices.rate, allowed - lost, part.size, size
        )
        visited += end.visited
        dropped, beyond = min(dropped, end.dropped + lost), min(beyond, end.beyond + lost)
        if not end.states.cost.size:
            return _Passed(None, -math.inf, dropped, beyond, visited)
        ends.append(end)
    most = -math.inf
    for _ in range(_TRIES):
        complete, *numbers = join(ends[0].states, ends[1].states if ends[1:] else _NOBODY, nodes, budget, _PAIRS)
        if not complete:
            return None
        if numbers[0] < 0:
            break
        tried = usual.copy()
        for part, end, number in zip(parts, ends, numbers, strict=False):
            for stage, option in _moves(end, number, part.size):
                tried[cells[part[stage]]] = core.place[part[stage], option]
        most = max(most, float(table.worth_of(tried)))
        if lagrangian.keeps_budget(table.choice(tried)):
            return _Passed(tried, most, dropped, beyond, visited)
        # within the budget on the grid, but not to the last bit
        budget = sum(int(end.states.cost[number]) for end, number in zip(ends, numbers, strict=False)) - 1
    return _Passed(None, most, dropped, beyond, visited)


class _End(NamedTuple):
    """The states of one part of the customers."""

    states: States
    trail: Trail
    number: Array | None  # (states,) in the trail, where states are listed and not visited customer by customer
    dropped: float  # as of `_Passed`
    beyond: float
    visited: int


def _visited(
    core: Core, limits: Nodes, budget: int, rate: float, allowed: float, stages: int, size: Size
) -> _End:  # fmt: skip
    room = min(size.most, (stages + 1) * size.width) + 2
    trail = Trail(np.empty(room, np.int32), np.empty(room, np.int8), np.zeros(stages + 2, np.int64))
    states, dropped, beyond = visit(
        core, limits, *_by_ratio(core), budget, rate, allowed, stages, size.width, size.most, trail
    )
    return _End(states, trail, None, dropped, beyond, int(trail.start.max()) + 1)


def _listed(core: Core, limits: Nodes, budget: int, rate: float, allowed: float, stages: int, size: Size) -> _End:
    trail = Trail(np.empty(size.most, np.int32), np.empty(size.most, np.int8), np.zeros(size.most, np.int64))
    states, number, complete, beyond = list_states(core, limits, budget, rate, allowed, stages, size.most, trail)
    visited = number.size // 2 if complete else size.most // _QUICKER  # sorting takes longest
    if not complete:
        return _End(States(*(one[:0] for one in states)), trail, number[:0], 0.0, beyond, visited)
    order = np.argsort(states.cost, kind="stable")
    for words in states.words.T[::-1]:
        if words.size and (words != words[0]).any():
            order = order[np.argsort(words[order], kind="stable")]
    order = best_at_each_cost(states, order)
    kept = States(*(one[order] for one in states))
    return _End(kept, trail, number[order], math.inf, beyond, visited)


def _moves(end: _End, state: int, stages: int) -> list[tuple[int, int]]:
    """(customer, option) of those whom a state gives their places, by number among the part's customers."""
    moves, trail = [], end.trail
    if end.number is not None:
        at = int(end.number[state])
        while at > 0:
            moves.append((int(trail.start[at]), int(trail.option[at])))
            at = int(trail.parent[at])
        return moves
    for stage in range(stages - 1, -1, -1):
        at = int(trail.start[stage + 1]) + state
        moves.append((stage, int(trail.option[at])))
        state = int(trail.parent[at])
    return moves


def _turned(core: Core, nodes: Nodes, part: Array) -> tuple[Core, Nodes]:
    """These customers before the others."""
    turn = np.concatenate([part, np.setdiff1d(np.arange(core.options.size), part)])
    fewest, largest = nodes.least[:-1] - nodes.least[1:], nodes.most[:-1] - nodes.most[1:]
    turned = Core(*(np.ascontiguousarray(one[turn]) for one in core))
    shape = nodes.least.shape
    limits = nodes._replace(
        least=_after(fewest[turn]), most=_after(largest[turn]), usual=np.empty(shape, np.int64),
        more=np.empty((*shape, _MOVES)), fewer=np.empty((*shape, _MOVES)), others=np.empty(shape),
        dearest=np.empty((*shape, _DEAREST)),
    )  # fmt: skip
    know_moves(turned, limits)
    return turned, limits


def _by_ratio(core: Core) -> tuple[Array, Array, Array]:
    """Cells that lose something or nothing by changing the cost, by loss per change."""
    who, what = np.nonzero(np.arange(core.place.shape[1])[None, :] < core.options[:, None])
    change = np.abs(core.cost[who, what]).astype(np.float64)
    moved = change > 0.0
    who, what, change = who[moved], what[moved], change[moved]
    return np.argsort(core.loss[who, what] / change, kind="stable"), who, what


class _Open(NamedTuple):
    """The customers who are open, and the limits that depend on what they get."""

    core: Core | None
    nodes: Nodes | None  # None: they cannot meet the limits
    cells: Array  # (open,) customers
    lost: float  # by limits that do not depend on what they get


def _core(tree: Tree, table: OptionTable, prices: Prices, usual: Array, allowed: float) -> _Open | None:
    """Customers with more than one cell that could be in a better allocation; None: their counts need too many bits.

    usual: (customers,) the place of each that loses nothing.
    """
    worth, cost, tie, loss = table.worth, table.cost, table.tie, prices.loss
    options = (loss <= allowed).sum(axis=1)
    cells = np.flatnonzero(options > 1)
    second = np.partition(loss[cells], 1, axis=1)[:, 1]
    change = np.where(loss[cells] <= allowed, np.abs(cost[cells] - cost[cells, usual[cells]][:, None]), 0).max(axis=1)
    # of those who lose next to nothing the dearest first: what the others could add is then soon too little
    cells = cells[np.lexsort((-change, np.where(second <= _LITTLE * allowed, 0.0, second)))]
    most = int(options[cells].max(initial=1))
    ranks = loss[cells].copy()
    ranks[np.arange(cells.size), usual[cells]] = -1.0
    picked = np.argsort(ranks, axis=1, kind="stable")[:, :most]
    rows = cells[:, None]
    opened = cells.size
    # which limits a place counts towards, as (open, options, nodes)
    counted = np.zeros((opened, most, tree.nodes), np.int64)
    node = table.node[rows, picked]
    for _ in range(2):
        i, o = np.nonzero(node > 0)
        counted[i, o, node[i, o]] += 1
        node = np.where(node > 0, tree.parent[node], 0)
    settled = usual.copy()
    settled[cells] = 0
    base = table.counts_of(settled, tree)
    possible = np.arange(most)[None, :, None] < options[cells][:, None, None]
    fewest = np.where(possible, counted, 1).min(axis=1)
    largest = np.where(possible, counted, 0).max(axis=1)
    least, top = _after(fewest), _after(largest)
    low, high = tree.low - base, tree.high - base
    touched = (fewest != largest).any(axis=0)
    touched[0] = False
    fixed = ~touched
    fixed[0] = False
    if (fixed & ((least[0] < low) | (least[0] > high))).any():
        return _Open(None, None, cells, math.inf)
    unused = np.where(prices.node > 0.0, high - least[0], low - least[0])[fixed]
    lost = float((prices.node[fixed] * unused).sum())  # whatever the open customers get
    chosen = np.flatnonzero(touched & ((least[0] < low) | (top[0] > high) | (prices.node != 0.0)))
    bits = [int(top[0, one]).bit_length() + 1 for one in chosen]
    word, shift, used = [], [], [0] * _WORDS
    for size in bits:
        at = next((one for one in range(_WORDS) if used[one] + size <= _WORD), -1)
        if at < 0:
            return None
        word.append(at)
        shift.append(used[at])
        used[at] += size
    increments = np.zeros((opened, most, _WORDS), np.int64)
    for one, in_word, by in zip(chosen, word, shift, strict=True):
        increments[:, :, in_word] += counted[:, :, one] << by
    nodes = Nodes(
        np.array(word, np.int64), np.array(shift, np.int64), np.array([(1 << size) - 1 for size in bits], np.int64),
        low[chosen], high[chosen], prices.node[chosen],
        np.ascontiguousarray(least[:, chosen]), np.ascontiguousarray(top[:, chosen]), *[_NONE] * 5,
    )  # fmt: skip
    core = Core(
        options[cells], np.ascontiguousarray(picked), worth[rows, picked],
        cost[rows, picked] - cost[cells, picked[:, 0]][:, None], tie[rows, picked], loss[rows, picked], increments,
    )  # fmt: skip
    return _Open(core, nodes, cells, lost)


def _after(per_customer: Array) -> Array:
    """(open + 1, …) sums from each customer on."""
    sums = np.zeros((per_customer.shape[0] + 1, *per_customer.shape[1:]), np.int64)
    sums[:-1] = per_customer[::-1].cumsum(axis=0)[::-1]
    return sums
