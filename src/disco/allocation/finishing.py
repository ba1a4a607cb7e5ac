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
from typing import Any, NamedTuple

import numpy as np

from disco.allocation.exchanging import fill_exactly
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import Tree
from disco.allocation.lists import Lists, Moves, join_lists, list_states
from disco.allocation.options import OptionTable, Prices
from disco.allocation.paths import Assignment
from disco.allocation.pennies import Pennies
from disco.allocation.sampling import opened_cells
from disco.allocation.states import Core, Nodes, States, Trail, join, know_moves, visit
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
_DEAREST_LISTED = 160  # the same where states are listed, and bounded group by group
_PAIRS = 3_000_000  # pairs of counts, at most, that are looked at when two halves are joined
_QUICKER = 10  # states that are listed in the time in which one is visited
_MOST = 0.6  # of the customers: a kind beside which the others are few
_LARGE = 0.3  # of the customers: a kind that is divided between two halves
_SUMS = 5  # exchanges and sums of them, likewise
_NONE = np.empty(0)
_OPENED = 40  # customers whose allocations are listed first, where those of all are too many
_FEWER, _MORE_OPEN, _ROOMY = 0.87, 1.35, 0.4  # and how many next: where there was no room, or much
_RARE = 2  # customers whom the same limits concern: few
_FAR = 10.0  # times the money that half of the customers change: far more
_WAYS = 16  # in which such customers are given their places, at most
_NOT_KNOWN = -(2**62)  # less than any allocation is worth
_NOBODY = States(np.zeros((1, 2), np.int64), *(np.zeros(1, np.int64) for _ in range(3)))
_UNKNOWN = (-math.inf, math.inf)
_NOTHING = Lists(
    np.zeros((1, 2), np.int64), np.arange(2), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)
)


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
    def of(cls, lagrangian: Lagrangian, relaxed: Relaxed, pennies: Pennies | None) -> "Search":
        table = OptionTable.of(lagrangian, relaxed.filled.tree, pennies)
        prices = Prices.of(lagrangian, relaxed.best, table)
        places = table.places(relaxed.filled.choice)
        known = table.cost_of(places) <= table.budget  # the floats of a part's budget may allow a little too much
        worth = table.worth_of(places) if known else _NOT_KNOWN
        return cls(lagrangian, relaxed, table, prices, places, worth, prices.bound, 0.0)

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

    def fill(self, *, large: bool = False) -> int:
        """Exchanges among customers who lose nothing. Returns the number of states that could be visited meanwhile."""
        relaxed = self.relaxed
        starts = [self.table.places(choice) for choice in (relaxed.near, relaxed.rich, relaxed.poor)]
        enough = 0.8 * PROVED * abs(self.prices.bound)
        found, work = fill_exactly(self.lagrangian, self.table, self.tree, self.prices, starts, enough, large=large)
        if found is not None and self.table.worth_of(found) > self.worth:
            self.places, self.worth = found, self.table.worth_of(found)
        return work // _SUMS

    def sample(self, wanted: float, size: Size, attempts: int) -> int:
        """Lists of some of the customers who lose nothing, chosen by chance. Returns the number of states visited."""
        relaxed, prices, visited = self.relaxed, self.prices, 0
        enough = 0.8 * PROVED * abs(prices.bound)
        starts = [self.table.places(choice) for choice in (relaxed.near, relaxed.rich, relaxed.poor)]
        starts = list({start.tobytes(): start for start in starts}.values())
        starts = [start for start in starts if prices.lost(self.table, self.tree, start) <= 0.5 * enough]
        count = _OPENED
        for attempt in range(attempts if starts else 0):
            start = starts[attempt // 3 % len(starts)]
            among = opened_cells(self.table, self.tree, prices, start, enough, attempt, count)
            if among is None:
                continue
            allowed = prices.bound - max(float(self.worth), wanted)
            found = _passed(self, allowed + prices.rounding, size, among)
            visited += size.most // _QUICKER if found is None else found.visited
            if found is None or math.isfinite(found.dropped):
                count = max(int(count * _FEWER), 2)
            elif found.visited * _QUICKER < _ROOMY * size.most:
                count = int(count * _MORE_OPEN)
            if found is not None and found.places is not None and self.table.worth_of(found.places) > self.worth:
                self.places, self.worth = found.places, self.table.worth_of(found.places)
            if self.proved(wanted):
                break
        return visited

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


def _halves(core: Core) -> list[Array]:
    """Two halves of the customers. Those who could break the same limits are together, so that few counts are possible
    once all of them have their places. Where most are of one kind, the others come first, and what these cost at least
    is known when the rest is listed."""
    words = core.words.reshape(core.options.size, -1)
    kinds, counts = np.unique(words, axis=0, return_inverse=True, return_counts=True)[1:]
    order = np.argsort(-counts, kind="stable")
    members = [np.flatnonzero(kinds.ravel() == kind) for kind in order]
    if members and members[0].size > _MOST * core.options.size:
        first = [one for group in members[1:] for one in group.tolist()]
        return [np.array([*first, *members[0][1::2]], np.int64), members[0][0::2]]
    whole: tuple[list[int], list[int]] = ([], [])
    split: tuple[list[int], list[int]] = ([], [])
    for group in members:
        less = int(len(whole[1]) + len(split[1]) < len(whole[0]) + len(split[0]))
        if group.size > _LARGE * core.options.size:
            split[less].extend(group[0::2].tolist())
            split[1 - less].extend(group[1::2].tolist())
        else:
            whole[less].extend(group.tolist())
    return [np.array([*whole[half], *split[half]], np.int64) for half in (0, 1)]


class _Passed(NamedTuple):
    """What one pass found."""

    places: Array | None  # (customers,) the best that keeps the budget to the last bit
    most: float  # what those are worth at most that the pass looked at
    dropped: float  # the least loss of those that there was no room for; infinite: none
    beyond: float  # the least loss of those that lose more than was allowed
    visited: int  # states


def _pass(search: Search, allowed: float, size: Size) -> _Passed | None:
    """The best allocation that loses no more than is allowed; None: counts need too many bits, or are too many.

    Where states are listed, those few customers whose place concerns other limits than that of most, or far more money,
    are given each of their places in turn: what is left to the others is then known while these are listed.
    """
    if not size.plain:
        return _passed(search, allowed, size, None)
    best = _Passed(None, -math.inf, math.inf, math.inf, 0)
    ways = _apart(search, allowed)
    for number, among in enumerate(ways, start=1):
        found = _passed(search, allowed, size, among)
        if found is None:
            return None
        places = best.places
        if found.places is not None and (
            places is None or search.table.worth_of(found.places) >= search.table.worth_of(places)
        ):
            places = found.places
        best = _Passed(
            places, max(best.most, found.most), min(best.dropped, found.dropped), min(best.beyond, found.beyond),
            best.visited + found.visited,
        )  # fmt: skip
        worked_enough = best.visited > 2 * size.most // _QUICKER and number < len(ways)
        if math.isfinite(best.dropped) or worked_enough:
            return best._replace(dropped=0.0)
    return best


def _apart(search: Search, allowed: float) -> list[Array]:
    """(customers, places) cells that lose no more than is allowed: for each way in which few are given their places."""
    table = search.table
    cells = search.prices.loss <= allowed
    options = cells.sum(axis=1)
    opened = np.flatnonzero(options > 1)
    if not opened.size:
        return [cells]
    node = np.where(cells[opened], table.node[opened], -1)
    kinds, counts = np.unique(node, axis=0, return_inverse=True, return_counts=True)[1:]
    cost = np.where(cells[opened], table.cost[opened], table.cost[opened].max(axis=1, keepdims=True))
    change = np.where(cells[opened], table.cost[opened], 0).max(axis=1) - cost.min(axis=1)
    rare = counts[kinds.ravel()] <= _RARE
    large = change > _FAR * np.median(change)
    ways = [cells]
    for at in np.lexsort((table.keys[opened], -change, ~rare)):
        if not (rare[at] or large[at]) or len(ways) * options[opened[at]] > _WAYS:
            continue
        who, split = opened[at], []
        for place in np.flatnonzero(cells[who]):
            for way in ways:
                one = way.copy()
                one[who] = False
                one[who, place] = True
                split.append(one)
        ways = split
    return ways


def _passed(search: Search, allowed: float, size: Size, among: Array | None) -> _Passed | None:
    """`_pass` with some cells only; None: all."""
    table, lagrangian, prices = search.table, search.lagrangian, search.prices
    lossless = search.lossless
    if among is not None:
        prices = prices._replace(loss=np.where(among, prices.loss, math.inf))
        lossless = np.where((lossless & among).any(axis=1, keepdims=True), lossless & among, among)
    usual = np.where(lossless, table.cost, 2**62).argmin(axis=1)  # the cheapest place of those that lose nothing
    opened = _core(search.tree, table, prices, usual, allowed)
    if opened is None:
        return None
    core, nodes, cells, lost = opened
    if core is None or nodes is None or lost > allowed:
        return _Passed(None, -math.inf, math.inf, lost, 0)
    if size.plain:
        nodes = _needed(nodes, allowed)
    budget = table.budget - table.cost_of(usual)
    parts = [np.arange(cells.size)] if size.parts == 1 else _halves(core)
    dropped, beyond, visited = math.inf, math.inf, 0
    ends: list[Any] = []  # all of one of two kinds
    for part in parts:
        turned, limits = _turned(core, nodes, part, _DEAREST_LISTED if size.plain else _DEAREST)
        args = (turned, limits, budget, search.prices.rate, allowed - lost, part.size, size)
        end = _Listed.of(*args, ends[0].reach if ends else _UNKNOWN) if size.plain else _Visited.of(*args)
        visited += end.visited
        dropped, beyond = min(dropped, end.dropped + lost), min(beyond, end.beyond + lost)
        if not end.size:
            return _Passed(None, -math.inf, dropped, beyond, visited)
        ends.append(end)
    most = -math.inf
    for _ in range(_TRIES):
        found = ends[0].joined(ends[1] if ends[1:] else None, nodes, budget)
        if found is None:
            return None
        if found[0] < 0:
            break
        tried = usual.copy()
        for part, end, number in zip(parts, ends, found, strict=False):
            for stage, option in end.moves(number):
                tried[cells[part[stage]]] = core.place[part[stage], option]
        most = max(most, float(table.worth_of(tried)))
        if lagrangian.keeps_budget(table.choice(tried)):
            return _Passed(tried, most, dropped, beyond, visited)
        # within the budget on the grid, but not to the last bit
        budget = sum(end.cost_of(number) for end, number in zip(ends, found, strict=False)) - 1
    return _Passed(None, most, dropped, beyond, visited)


@dataclass(slots=True)
class _Visited:
    """The states of one part of the customers, taken one customer after the other."""

    states: States
    trail: Trail
    stages: int
    dropped: float  # as of `_Passed`
    beyond: float
    visited: int

    @classmethod
    def of(
        cls, core: Core, limits: Nodes, budget: int, rate: float, allowed: float, stages: int, size: Size
    ) -> "_Visited":
        room = min(size.most, (stages + 1) * size.width) + 2
        trail = Trail(np.empty(room, np.int32), np.empty(room, np.int8), np.zeros(stages + 2, np.int64))
        states, dropped, beyond = visit(
            core, limits, *_by_ratio(core), budget, rate, allowed, stages, size.width, size.most, trail
        )
        return cls(states, trail, stages, dropped, beyond, int(trail.start.max()) + 1)

    @property
    def size(self) -> int:
        return int(self.states.cost.size)

    def cost_of(self, number: int) -> int:
        return int(self.states.cost[number])

    def joined(self, other: "_Visited | None", nodes: Nodes, budget: int) -> tuple[int, int] | None:
        """The numbers of the best two states; -1: there are none; None: there are too many."""
        complete, *numbers = join(self.states, _NOBODY if other is None else other.states, nodes, budget, _PAIRS)
        return (numbers[0], numbers[1]) if complete else None

    def moves(self, state: int) -> list[tuple[int, int]]:
        """(customer, option) of a state, by number among the part's customers."""
        moves, trail = [], self.trail
        for stage in range(self.stages - 1, -1, -1):
            at = int(trail.start[stage + 1]) + state
            moves.append((stage, int(trail.option[at])))
            state = int(trail.parent[at])
        return moves


@dataclass(slots=True)
class _Listed:
    """The same by sorted lists, where states rarely beat each other."""

    core: Core
    lists: Lists
    trail: Moves
    dropped: float
    beyond: float
    visited: int

    @classmethod
    def of(
        cls, core: Core, limits: Nodes, budget: int, rate: float, allowed: float, stages: int, size: Size,
        others: tuple[float, float],
    ) -> "_Listed":  # fmt: skip
        """others: what the other part costs at least and at most."""
        trail = Moves.room(2 * size.most)
        lists, complete = list_states(core, limits, others, budget, rate, allowed, stages, size.most, trail)
        visited = lists.cost.size // _QUICKER if complete else size.most // _QUICKER
        return cls(core, lists, trail, math.inf if complete else 0.0, allowed, visited)

    @property
    def size(self) -> int:
        return int(self.lists.cost.size)

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the largest cost of a state."""
        return float(self.lists.cost.min()), float(self.lists.cost.max())

    def cost_of(self, number: int) -> int:
        return int(self.lists.cost[number])

    def joined(self, other: "_Listed | None", nodes: Nodes, budget: int) -> tuple[int, int] | None:
        lists, core, trail = (
            (_NOTHING, self.core, self.trail) if other is None else (other.lists, other.core, other.trail)
        )
        first, second = join_lists(self.lists, lists, nodes, budget, (self.core, core), (self.trail, trail))
        return int(first), int(second)

    def moves(self, state: int) -> list[tuple[int, int]]:
        return self.trail.of(int(self.lists.last[state]))


def _turned(core: Core, nodes: Nodes, part: Array, dearest: int) -> tuple[Core, Nodes]:
    """These customers before the others. dearest: moves whose costs are known one by one."""
    turn = np.concatenate([part, np.setdiff1d(np.arange(core.options.size), part)])
    fewest, largest = nodes.least[:-1] - nodes.least[1:], nodes.most[:-1] - nodes.most[1:]
    turned = Core(*(np.ascontiguousarray(one[turn]) for one in core))
    shape = nodes.least.shape
    limits = nodes._replace(
        least=_after(fewest[turn]), most=_after(largest[turn]), usual=np.empty(shape, np.int64),
        more=np.empty((*shape, _MOVES)), fewer=np.empty((*shape, _MOVES)), others=np.empty(shape),
        dearest=np.empty((*shape, dearest)),
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


def _needed(nodes: Nodes, allowed: float) -> Nodes:
    """The limits, without counts that lose more by what they leave unused of a limit with a price."""
    price = np.abs(nodes.price)
    unused = np.floor(np.minimum(allowed / np.where(price > 0.0, price, 1.0), 2.0**40)).astype(np.int64)
    low = np.where(nodes.price > 0.0, np.maximum(nodes.low, nodes.high - unused), nodes.low)
    high = np.where(nodes.price < 0.0, np.minimum(nodes.high, nodes.low + unused), nodes.high)
    return nodes._replace(low=low, high=high)


def _after(per_customer: Array) -> Array:
    """(open + 1, …) sums from each customer on."""
    sums = np.zeros((per_customer.shape[0] + 1, *per_customer.shape[1:]), np.int64)
    sums[:-1] = per_customer[::-1].cumsum(axis=0)[::-1]
    return sums
