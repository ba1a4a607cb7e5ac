"""A budget on top of the limits: a budget price that bounds the optimum, then the budget filled cycle by cycle.

For a budget price λ ≥ 0 the problem with values v - λ·c is exact and canonical, and L(λ) bounds the optimum
(`lagrangian`). λ is bracketed between an allocation that spends too much (over budget) and one that does not (within
budget).

The bound is exact only where some allocation meets the budget to the penny. Otherwise a gap is left between the bound
and the best allocation, less than what one customer is worth, as a rule: it is small among many and wide among few.

The difference between the two is split into cycles on the tree of places: customers who sit elsewhere are edges from
the old leaf to the new one, and where a limit's count differs, extra edges along the tree make every node balanced. Any
subset of the cycles keeps every limit, for each count stays between its two ends. The best subset that the budget
allows is applied.

Three sizes of tables go through the same steps:

- up to 400 customers: the rest of the gap is closed by a search (`small`), whoever asks;
- up to 20,000: λ is found exactly;
- more: passes over all customers first settle those whose place does not depend on λ (`rate_range`), in memory or in
  chunks, and the search is among the others. Where that settles too few, a sample gives λ, and a few exact solves
  beside it are enough to fill the budget.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, largest_of
from disco.allocation.rate_range import FIRST_SAMPLED, BudgetTable, Ends, become_nothing, contested_part
from disco.allocation.small import Relaxed, search_to_the_end
from disco.allocation.solve import SPREADS, solve
from disco.allocation.table import Pass, TableInChunks, affordable
from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.identity import customer_keys
from disco.records.ports import Engine

# What decides how a table is solved.

# Customers, at most, whose budget is searched to the end: 99% of such rounds are proved, most in 8 ms (decision 135).
SEARCHED_TO_THE_END = 400
# Customers, at most, for whom λ is found exactly, so that a looser limit cannot lower the bound.
EXACT_RATE = 20_000
# Contested customers, at most, among whom λ is searched without another pass.
CONTESTED_AT_ONCE = 14_000

# When a search for λ may stop, as relative gaps or widths. None of these makes a bound wrong.
# Gap at which a filled budget of many customers is good enough.
_CLOSE_ENOUGH = 4e-7
# Gap at which few contested customers need no better filling.
_FILLED = 1e-9
# Gap of an even mixture of two allocations, from where on filling from them may reach the above.
_WORTH_FILLING = 2e-5
# Customers in whom two allocations differ, from where on no λ between them helps.
_FILLED_MOVES = 400
# Exact solves, at most, on the way to λ.
_SOLVES = 60
# Relative error of the λ of a sample, at least.
_SAMPLED_ERROR = 0.01
# Allocations remembered on either side: a wider bracket may fill the budget better.
_FILLED_FROM = 12
# The same beyond a million customers: each takes two bytes per customer.
_FILLED_FROM_OF_MANY = 4
# Swaps of one cycle for another, and the cycles next to break-even they are among.
_SWAPS, _SWAPPED_AMONG = 40, 600


@dataclass(frozen=True, slots=True)
class BudgetSolution:
    """An allocation within the budget, and what proves how good it is."""

    solution: Assignment  # feasible
    bound_from: Priced  # whose prices and rate give the lowest bound
    exact: bool = False  # proved optimal by search
    bound: float = math.inf  # what no allocation exceeds, where a search knows better than the prices


@dataclass(slots=True)
class _Bracket:
    """Allocations on either side of the budget, the narrowest last, and the one with the lowest bound.

    Costs fall as λ rises, so that rates rise in `above` and fall in `below` towards the λ at which the budget is met.
    The one with the lowest bound may be on either side, or have prices that were drawn on from both.
    """

    lagrangian: Lagrangian
    best: Priced
    above: list[Priced]  # spend too much
    below: list[Priced]  # do not
    most: int = _FILLED_FROM  # that are remembered on either side

    @property
    def ends(self) -> tuple[Priced, Priced]:
        """The narrowest two: over the budget, and within it."""
        return self.above[-1], self.below[-1]

    @property
    def crossing(self) -> float:
        """The rate at which these two are worth the same."""
        return self.lagrangian.crossing(*self.ends)

    @property
    def interpolated(self) -> float:
        """The rate at which the budget is met if spending falls evenly, as it does as a rule."""
        over_budget, within_budget = self.ends
        share = (over_budget.spent - self.lagrangian.grid.budget) / (over_budget.spent - within_budget.spent)
        return over_budget.rate + min(max(share, 0.02), 0.98) * (within_budget.rate - over_budget.rate)

    def surrounds(self, rate: float) -> bool:
        over_budget, within_budget = self.ends
        return over_budget.rate < rate < within_budget.rate

    def solve(self, rate: float) -> Priced:
        """The allocation at one more rate, which is put on its side; the widest there is forgotten beyond `most`."""
        between = self.lagrangian.at(rate)
        self.best = _lower(self.best, between)
        side = self.below if between.fits else self.above
        side.append(between)
        del side[: -self.most]
        return between

    def hardly_closer_than(self, over_budget: Priced, within_budget: Priced) -> bool:
        """Whether the last solve left most of what the spending of two differed by: a kink is in between."""
        over, within = self.ends
        return over.spent - within.spent > 0.8 * (over_budget.spent - within_budget.spent)


def _lower(*priced: Priced) -> Priced:
    return min(priced, key=lambda one: one.bound)


def solve_budget(
    problem: AllocationProblem, *, warm: Array | None = None, engine: Engine | None = None
) -> BudgetSolution | None:
    """An allocation within the budget, and the prices that bound what any could reach; None: floors cost too much."""
    if problem.keys is None and problem.customers > EXACT_RATE:  # they are asked for again and again
        problem = replace(problem, keys=customer_keys(np.arange(problem.customers), engine=engine))
    few = problem.customers <= SEARCHED_TO_THE_END
    if few:
        warm = None  # where floors bind, prices depend on where they began, and what a search finds on prices
    lagrangian = Lagrangian(_affordable(problem), warm=warm, engine=engine)
    if problem.customers > EXACT_RATE:
        settled = _among_contested(BudgetTable.of(lagrangian))
        if settled is not None:
            return settled
    relaxed = _relaxed(lagrangian)
    if relaxed is None:
        return None
    if relaxed.exact or not few:
        return BudgetSolution(relaxed.filled, relaxed.best)  # where the budget does not bind, prices prove it
    ended = search_to_the_end(lagrangian, relaxed, _relaxed_part)
    return BudgetSolution(ended.solution, relaxed.best, ended.exact, ended.bound)


class ChunkedSolution(NamedTuple):
    """The same for a table in chunks: `solution` is about those whom the last pass left open."""

    solution: BudgetSolution
    last_pass: Pass


def solve_budget_in_chunks(table: TableInChunks, budget: float) -> ChunkedSolution | None:
    """By passes over chunks; None: no range of budget prices settles enough customers."""
    looked_at = BudgetTable.in_chunks(table, budget)
    settled = _among_contested(looked_at)
    return None if settled is None or looked_at.last_pass is None else ChunkedSolution(settled, looked_at.last_pass)


def _among_contested(table: BudgetTable) -> BudgetSolution | None:
    """By passes that settle all customers whom the budget price does not concern, and a search among the others; None:
    they settle too few.

    Each pass leaves a smaller table, of which a sharper sample can be taken, until the others are few enough. If then
    a solve among them finds prices outside of a box, somebody may have been settled wrongly: the result stands
    only where its own prices bound the whole table closely, and otherwise wider boxes are tried: first of prices that
    become 0 within the range, then of all.
    """
    ends: Ends | None = None
    for spread, to_nothing in ((SPREADS[0], False), (SPREADS[0], True), (SPREADS[1], False)):
        if to_nothing and (ends is None or not become_nothing(*ends).any()):
            continue
        looked_at, ends = table, None
        here: Lagrangian | None = None
        while looked_at.customers > CONTESTED_AT_ONCE:
            part = contested_part(looked_at, within=ends, spread=spread, to_nothing=to_nothing)
            if part is None:
                break
            here, ends = part
            looked_at = BudgetTable.of(here)
            if ends[0].jumps_to(ends[1]):  # a whole depth moves at one budget price: another pass could not part them
                break
        if ends is None or here is None:
            if to_nothing:  # these boxes are wider than the first and may be too wide, where those of all are not
                continue
            return None
        over_budget, within_budget = here.at(ends[0].rate), here.at(ends[1].rate)
        feasible = over_budget.solution.feasible and within_budget.solution.feasible
        if over_budget.fits or not within_budget.fits or not feasible:
            continue
        few = here.problem.customers <= EXACT_RATE
        bracket = (_narrowest if few else _narrow_enough)(here, over_budget, within_budget)
        filled = here.priced(0.0, _fill_best(here, bracket, enough=_FILLED if few else _CLOSE_ENOUGH))
        if here.holds or table.bound_at(bracket.best) - filled.worth <= _CLOSE_ENOUGH * abs(filled.worth):
            return BudgetSolution(here.for_everybody(filled.solution), bracket.best)
    return None


def _relaxed(lagrangian: Lagrangian) -> Relaxed | None:
    """Prices for the budget, and an allocation filled from the two on either side of it; None: floors cost too much."""
    few = lagrangian.problem.customers <= EXACT_RATE
    guess = 0.0 if few else _sampled_rate(lagrangian)
    *cheaper, over_budget = _until_over_budget(lagrangian, guess)
    if not over_budget.solution.feasible:
        return None
    if over_budget.fits:
        choice = over_budget.solution.choice
        return Relaxed(over_budget, over_budget.solution, choice, choice, choice, exact=True)
    cheapest = _cheapest(lagrangian, over_budget)
    if not cheapest.fits:
        return None
    if few:
        bracket = _narrowest(lagrangian, over_budget, cheapest)
    else:
        bracket = _from_guess(lagrangian, over_budget, [cheapest, *cheaper], guess)
    best, (over_budget_end, within_budget_end) = bracket.best, bracket.ends
    near = fill(lagrangian, over_budget_end, within_budget_end)
    filled = _fill_best(lagrangian, bracket)
    worth = lagrangian.priced(0.0, filled).worth
    if over_budget.rate > 0.0 and best.bound - worth > _CLOSE_ENOUGH * abs(worth):
        wider = _fill_best(lagrangian, replace(bracket, above=[lagrangian.at(0.0), *bracket.above]))
        filled = max(filled, wider, key=lambda one: lagrangian.priced(0.0, one).worth)
    return Relaxed(
        best, filled, near.choice, over_budget_end.solution.choice, within_budget_end.solution.choice, exact=False
    )  # fmt: skip


def _relaxed_part(problem: AllocationProblem) -> tuple[Lagrangian, Relaxed] | None:
    """`_relaxed` of a part of a problem."""
    lagrangian = Lagrangian(_affordable(problem), warm=None)
    relaxed = _relaxed(lagrangian)
    return None if relaxed is None else (lagrangian, relaxed)


def _until_over_budget(lagrangian: Lagrangian, guess: float) -> list[Priced]:
    """Allocations at falling rates from somewhat below a guess on; the last spends too much, if any does.

    At a rate of 0, depths are worth the same to everybody more often than elsewhere, and solves take longer.
    """
    tried: list[Priced] = []
    error = _SAMPLED_ERROR  # of the guess: step beyond it, for it may itself be a kink
    while guess > 0.0 and error <= 0.3:
        tried.append(lagrangian.at(guess * (1.0 - error)))
        if not tried[-1].fits or not tried[-1].solution.feasible:
            return tried
        error *= 3.0
    return [*tried, lagrangian.at(0.0)]


def _affordable(problem: AllocationProblem) -> AllocationProblem:
    """Cells that cost more than the whole budget can never be taken: costs are not negative.

    Without them the largest cost is smaller, so that the grid of sums is finer and the prices bound more tightly.
    """
    budget = problem.limits.budget
    if budget is None or problem.costs is None or problem.largest_cost <= budget:
        return problem
    eligible = affordable(problem.rows, budget)
    return replace(problem, eligible=eligible, largest_cost=largest_of(problem.costs, eligible))


def _cheapest(lagrangian: Lagrangian, like: Priced) -> Priced:
    """The allocation that spends least: nobody gets a code, or with floors the cheapest way to meet them."""
    problem = lagrangian.problem
    if not problem.limits.has_floors:
        nobody = np.full(problem.customers, -1, np.int16)
        return lagrangian.priced(math.inf, replace(like.solution, choice=nobody))
    negative = replace(problem, values=-lagrangian.costs, costs=None, largest_cost=0.0)
    return lagrangian.priced(math.inf, solve(negative, engine=lagrangian.engine))


def _narrowest(
    lagrangian: Lagrangian, over_budget: Priced, within_budget: Priced, *, enough: float = 0.0
) -> _Bracket:  # fmt: skip
    """Narrow the two until nothing lies between, or their rates differ by a share of `enough`.

    Two tries in three interpolate what is spent; the third, and every one after a jump of spending, solves where the
    lines of the two cross. If neither is beaten there, that is the minimum of L(λ).
    """
    bracket, jump = _Bracket(lagrangian, over_budget, [over_budget], [within_budget]), False
    for step in range(_SOLVES):
        over_budget, within_budget = bracket.ends
        if over_budget.spent <= within_budget.spent:  # they differ in the last bits only
            break
        interpolated = math.isfinite(within_budget.rate) and step % 3 != 2 and not jump
        rate = bracket.interpolated if interpolated else bracket.crossing
        if not bracket.surrounds(rate):
            break
        between = bracket.solve(rate)
        same = between.spent in (over_budget.spent, within_budget.spent)
        over, within = bracket.ends
        jump = math.isfinite(within.rate) and step > 1 and bracket.hardly_closer_than(over_budget, within_budget)
        if same and not interpolated:  # at the crossing of the two, neither is beaten: nothing lies between
            break
        if between.spent == lagrangian.grid.budget or within.rate - over.rate < enough * within.rate:
            break
    return bracket


def _from_guess(lagrangian: Lagrangian, over_budget: Priced, below: list[Priced], guess: float) -> _Bracket:
    """A bracket of many customers: from the rate of a sample, and only until the budget can be filled well.

    below: allocations within the budget by falling rates, the first the cheapest there is.
    """
    bracket = _Bracket(lagrangian, _lower(over_budget, *below), [over_budget], below, most=_SOLVES)
    error = _SAMPLED_ERROR
    for _ in range(_SOLVES):
        over_budget, within_budget = bracket.ends
        if over_budget.spent <= within_budget.spent or math.isfinite(within_budget.rate):
            break
        rate = guess * (1.0 + error)
        error = min(3.0 * error, 0.3)
        rate = rate if bracket.surrounds(rate) else bracket.crossing
        if not bracket.surrounds(rate):
            return bracket
        if bracket.solve(rate).spent == lagrangian.grid.budget:
            return bracket
    narrow = _narrow_enough(lagrangian, *bracket.ends)
    narrow.best = _lower(bracket.best, narrow.best)
    narrow.above, narrow.below = [*bracket.above[:-1], *narrow.above], [*bracket.below[:-1], *narrow.below]
    return narrow


def _narrow_enough(lagrangian: Lagrangian, over_budget: Priced, within_budget: Priced) -> _Bracket:
    """Narrow the two, both at finite rates, until the budget can be filled well from them.

    Of many customers a solve is dear, and two allocations differ in so many that cycles fill the budget to nearly the
    bound long before λ is exact. Where spending jumps, solves close in on the jump from the side that is farther away,
    and do not touch it: there, whole depths tie.
    """
    most = _FILLED_FROM if lagrangian.problem.customers <= 1_000_000 else _FILLED_FROM_OF_MANY
    best = _lower(over_budget, within_budget)
    bracket = _Bracket(lagrangian, best, [over_budget], [within_budget], most)
    kink = _rates_near(over_budget, within_budget) and _jumps(lagrangian, over_budget, within_budget)
    for _ in range(_SOLVES):
        over_budget, within_budget = bracket.ends
        if over_budget.spent <= within_budget.spent:
            break
        if _rates_near(over_budget, within_budget):  # perhaps the budget can be filled well already
            bracket.best = _lower(bracket.best, lagrangian.between(bracket.above, bracket.below))
            if _fills_well(lagrangian, bracket.best, over_budget, within_budget):
                break
        if within_budget.rate - over_budget.rate <= 1e-3 * within_budget.rate:
            moves = int(np.count_nonzero(over_budget.solution.choice != within_budget.solution.choice))
            codes = int(np.count_nonzero(within_budget.solution.choice >= 0))
            if moves <= max(40, min(_FILLED_MOVES, codes // 100)):
                break
        rate = bracket.interpolated
        if kink:  # close in on it, but do not solve there
            centre = bracket.crossing
            ahead, behind = centre - over_budget.rate, within_budget.rate - centre
            rate = centre - 0.3 * ahead if ahead > behind else centre + 0.3 * behind
        rate = rate if bracket.surrounds(rate) else bracket.crossing
        if not bracket.surrounds(rate) or bracket.solve(rate).spent == lagrangian.grid.budget:
            break
        kink = bracket.hardly_closer_than(over_budget, within_budget)
    return bracket


def _rates_near(over_budget: Priced, within_budget: Priced) -> bool:
    return within_budget.rate - over_budget.rate <= 5e-2 * within_budget.rate


def _fills_well(lagrangian: Lagrangian, best: Priced, over_budget: Priced, within_budget: Priced) -> bool:
    """Whether the budget filled from two allocations is close enough to the bound; tried where it can be."""
    share = (lagrangian.grid.budget - within_budget.spent) / (over_budget.spent - within_budget.spent)
    even = within_budget.worth + share * (over_budget.worth - within_budget.worth)  # what any filling reaches, nearly
    if best.bound - even > _WORTH_FILLING * abs(even):
        return False
    worth = lagrangian.priced(0.0, fill(lagrangian, over_budget, within_budget)).worth
    return best.bound - worth <= _CLOSE_ENOUGH * abs(worth)


def _jumps(lagrangian: Lagrangian, over_budget: Priced, within_budget: Priced) -> bool:
    """Whether spending falls by more than its share between two rates close to each other."""
    fall = (over_budget.spent - within_budget.spent) * within_budget.rate
    return fall > 5.0 * lagrangian.grid.budget * (within_budget.rate - over_budget.rate)


def _sampled_rate(lagrangian: Lagrangian) -> float:
    """The budget price of a sample, chosen by key so that the order of rows does not matter.

    The search among all customers then begins at the sample's prices.
    """
    problem = lagrangian.problem
    sample = problem.part(np.argpartition(problem.all_keys, FIRST_SAMPLED)[:FIRST_SAMPLED])
    small = Lagrangian(sample, warm=lagrangian.warm)
    over_budget = small.at(0.0)
    if over_budget.fits or not over_budget.solution.feasible:
        return 0.0
    cheapest = _cheapest(small, over_budget)
    if not cheapest.fits:
        return 0.0
    best = _narrowest(small, over_budget, cheapest, enough=5e-3).best
    if not problem.limits.has_floors:  # where floors bind, which prices are shown depends on where they began
        lagrangian.begin_at(best.solution.potentials[1:])
    return best.rate


def _fill_best(lagrangian: Lagrangian, bracket: _Bracket, *, enough: float = _CLOSE_ENOUGH) -> Assignment:
    """Fill from the narrowest bracket; a wider one has more cycles to choose from, and may leave less unspent.

    enough: a relative gap at which no wider one is tried.
    """
    best, above, below = bracket.best, bracket.above, bracket.below
    filled: list[Priced] = []
    for back in (1, 2, 3, 4, 6, 8, 12):
        for back_above, back_below in ((1, back), (back, 1)) if back > 1 else ((1, 1),):
            ends = above[-min(back_above, len(above))], below[-min(back_below, len(below))]
            filled.append(lagrangian.priced(0.0, fill(lagrangian, *ends)))
            dearest = max(filled, key=lambda priced: priced.worth)
            if best.bound - dearest.worth <= enough * abs(dearest.worth):
                return dearest.solution
    return dearest.solution


def fill(lagrangian: Lagrangian, over_budget: Priced, within_budget: Priced) -> Assignment:
    """Start from what the budget allows and apply the cycles towards the other that bring most.

    The last result is remembered: a search asks for the same two again when it ends.
    """
    rates = (over_budget.rate, within_budget.rate)
    if lagrangian.filled is None or lagrangian.filled[:2] != rates:
        lagrangian.filled = (*rates, _fill(lagrangian, over_budget, within_budget))
    return lagrangian.filled[2]


def _fill(lagrangian: Lagrangian, over_budget: Priced, within_budget: Priced) -> Assignment:
    problem, grid = lagrangian.problem, lagrangian.grid
    before, after = within_budget.solution.choice, over_budget.solution.choice
    moved = np.flatnonzero(before != after)
    moved = moved[np.argsort(problem.keys_of(moved), kind="stable")]
    if not moved.size:
        return within_budget.solution
    tree = within_budget.solution.tree
    group = np.zeros(moved.size, np.int64) if problem.limits.segment is None else problem.limits.segment[moved]
    nodes = np.concatenate([np.zeros((tree.leaf.shape[0], 1), np.int64), tree.leaf], axis=1)
    cycle_of = np.empty(moved.size, np.int64)
    origin, target = nodes[group, before[moved] + 1], nodes[group, after[moved] + 1]
    count = split_into_cycles(origin, target, tree.parent, cycle_of)
    gain, cost = (
        _added_up(cells, before, after, moved, cycle_of, count) for cells in (problem.values, lagrangian.costs)
    )
    taken = np.zeros(count, np.int64)
    left = (grid.budget - within_budget.spent) / grid.cost_scale
    order = np.argsort(-np.divide(gain, cost, out=np.full(count, -np.inf), where=cost > 0.0), kind="stable")
    for reserve in (0.0, 1e-12, 1e-9):  # sums of floats may exceed the budget in the last bits: then keep a little back
        fill_budget(gain, cost, order, left - reserve * grid.money, taken)
        choice = before.copy()
        apply = taken[cycle_of] == 1
        choice[moved[apply]] = after[moved[apply]]
        if lagrangian.keeps_budget(choice):
            return replace(within_budget.solution, choice=choice)
    return within_budget.solution


def _added_up(cells: Array, before: Array, after: Array, moved: Array, cycle_of: Array, cycles: int) -> Array:
    """(cycles,) what the moves of each cycle add, depth by depth, in the order of `moved`; cells: values, or costs."""
    total = np.zeros(cycles)
    target, origin = after[moved], before[moved]
    for k in range(cells.shape[0]):
        to, away = np.flatnonzero(target == k), np.flatnonzero(origin == k)
        np.add.at(total, cycle_of[to], cells[k, moved[to]].astype(np.float64))
        np.subtract.at(total, cycle_of[away], cells[k, moved[away]].astype(np.float64))
    return total


@njit(nogil=True, cache=True, patient=True)
def split_into_cycles(origin: Array, target: Array, parent: Array, cycle_of: Array) -> int:
    """Fill cycle_of (edges,) for customers moving origin[e] → target[e] (nodes); returns the number of cycles.

    Where more customers arrive at a node than leave it, edges up the tree carry the difference away: as many edges come
    to each node as go from it, so that a walk along unused edges always returns, and what it returns along is a cycle.
    Cycles of such extra edges alone move nobody and are not counted.
    """
    nodes = parent.size
    moves = origin.size
    surplus = np.zeros(nodes, np.int64)
    for e in range(moves):
        surplus[target[e]] += 1
        surplus[origin[e]] -= 1
    upward = np.zeros(nodes, np.int64)  # what leaves each node towards its parent
    extra = 0
    for node in range(nodes - 1, 0, -1):
        upward[node] = surplus[node]
        extra += abs(surplus[node])
        surplus[parent[node]] += surplus[node]
    tail = np.empty(moves + extra, np.int64)
    head = np.empty(moves + extra, np.int64)
    for e in range(moves):
        tail[e] = origin[e]
        head[e] = target[e]
    at = moves
    for node in range(nodes - 1, 0, -1):
        for _ in range(abs(upward[node])):
            tail[at] = node if upward[node] > 0 else parent[node]
            head[at] = parent[node] if upward[node] > 0 else node
            at += 1
    following = np.full(at, -1, np.int64)
    first = np.full(nodes, -1, np.int64)
    for e in range(at - 1, -1, -1):
        following[e] = first[tail[e]]
        first[tail[e]] = e
    on_walk = np.full(nodes, -1, np.int64)  # position of a node on the walk
    walk = np.empty(nodes + 1, np.int64)  # edges of the walk
    cycles = 0
    for start in range(nodes):
        node = start
        length = 0
        on_walk[node] = 0
        while True:
            e = first[node]
            if e < 0:
                break
            first[node] = following[e]
            walk[length] = e
            length += 1
            node = head[e]
            if on_walk[node] >= 0:
                customers = False
                while length > on_walk[node]:
                    length -= 1
                    edge = walk[length]
                    if tail[edge] != node:
                        on_walk[tail[edge]] = -1
                    if edge < moves:
                        cycle_of[edge] = cycles
                        customers = True
                cycles += 1 if customers else 0
            else:
                on_walk[node] = length
        on_walk[start] = -1
    return cycles


@njit(nogil=True, cache=True, patient=True, work=5e-5)
def fill_budget(gain: Array, cost: Array, order: Array, budget: float, taken: Array) -> None:
    """Choose cycles with Σ cost ≤ budget and Σ gain as high as greed and swaps of one for one can make it.

    Cycles that gain and cost nothing, or give money back, come first, then those with the largest gain per cost. Where
    the next one no longer fits, smaller ones fill what is left, and swaps near that point improve it.

    order: the cycles, those with the largest gain per cost first.
    """
    count = gain.size
    left = budget
    for c in range(count):
        taken[c] = 0
        if cost[c] <= 0.0 and gain[c] >= 0.0:
            taken[c] = 1
            left -= cost[c]
    stopped = -1
    for at in range(count):
        c = order[at]
        if taken[c] == 0 and gain[c] > 0.0:
            if cost[c] <= left:
                taken[c] = 1
                left -= cost[c]
            elif stopped < 0:
                stopped = at
    if stopped < 0:
        return
    reach = _SWAPPED_AMONG // 2  # only cycles near the break-even can profit from a swap
    near = order[max(0, stopped - reach) : stopped + reach]
    for _ in range(_SWAPS):
        best = 0.0
        out = -1
        into = -1
        for i in near:
            if taken[i] == 1 or gain[i] <= best:
                continue
            if cost[i] <= left:
                best, out, into = gain[i], -1, i
        for j in near:
            if taken[j] == 0:
                continue
            room = left + cost[j]
            for i in near:
                if taken[i] == 0 and cost[i] <= room and gain[i] - gain[j] > best:
                    best, out, into = gain[i] - gain[j], j, i
        if into < 0:
            break
        taken[into] = 1
        left -= cost[into]
        if out >= 0:
            taken[out] = 0
            left += cost[out]
