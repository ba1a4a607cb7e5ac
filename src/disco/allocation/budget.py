"""A budget on top of the limits: Lagrangian bound, then the budget filled cycle by cycle.

For a budget price λ ≥ 0 the problem with values v - λ·c is exact and canonical, and

    L(λ) = max Σ (v - λ·c) + λ·budget   bounds the optimum.

λ is bracketed between an allocation that spends too much and one that does not; the difference between the two is split
into cycles, and the best subset that the budget allows is applied. Of many customers, passes over all of them first
settle those whose place does not depend on λ (`contended`), and the search is among the others. Few customers are
solved to the end (`branching`, `finishing`), fewer where hundreds of rounds are solved for one answer (`brief`).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from disco.allocation.branching import branch
from disco.allocation.contended import Narrowing, narrowed
from disco.allocation.filling import CLOSE_ENOUGH, fill, fill_best, search_exactly
from disco.allocation.finishing import Relaxed
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, largest_of
from disco.allocation.solver import solve
from disco.records.arrays import Array
from disco.records.identity import customer_keys
from disco.records.ports import Engine

_MOVES = 400  # a bracket whose ends differ in fewer customers is narrow enough to fill the budget from
_STEPS = 60  # solves at most, on the way to the budget price
_SAMPLED = 3_000  # customers among whom a first budget price is looked for
_REACH = 0.01  # relative error of that price, at least
_TO_THE_END = 20_000  # customers, at most, for whom λ is found exactly, so that a looser limit cannot lower the bound
_SEARCHED_AT_ONCE = 14_000  # contended customers, at most, among whom the budget price is searched without another pass
_SPREADS = (3.5, 9.0)  # half-widths of ranges, in standard errors: the second where the first does not hold
_WORTH_FILLING = 2e-5  # relative gap of an even mixture of two allocations, from where on a budget is filled from them
_FILLED = 1e-9  # relative gap at which few contended customers need no better filling
_KEPT = 11  # allocations remembered on either side of the budget: a wider bracket may fill the budget better
_SEARCHED = 48  # customers, at most, among whom a round among hundreds is searched exactly
_FINISHED = 400  # customers, at most, whose budget is solved to the end


@dataclass(frozen=True, slots=True)
class BudgetSolution:
    """An allocation within the budget, and what proves how good it is."""

    solution: Assignment  # feasible
    bound_from: Priced  # whose prices and rate give the lowest bound
    exact: bool = False  # proved optimal by search
    bound: float = math.inf  # what no allocation exceeds, where a search knows better than the prices


def solve_budget(
    problem: AllocationProblem, *, warm: Array | None = None, engine: Engine | None = None, brief: bool = False
) -> BudgetSolution | None:
    """An allocation within the budget, and the prices that bound what any could reach; None: floors cost too much.

    brief: only rounds of `_SEARCHED` customers are searched to the end. A plan with a risk to keep, propensities and
        replays solve hundreds of rounds, and a search of 400 customers may take seconds.
    """
    if problem.keys is None and problem.customers > _TO_THE_END:  # they are asked for again and again
        problem = replace(problem, keys=customer_keys(np.arange(problem.customers), engine=engine))
    if problem.customers <= _FINISHED and not brief:
        warm = None  # where floors bind, prices depend on where they began, and what a search finds on prices
    lagrangian = Lagrangian(_affordable(problem), warm=warm, engine=engine)
    if problem.customers > _TO_THE_END:
        found = among_contended(lagrangian)
        if found is not None:
            return found
    relaxed = _relaxed(lagrangian)
    if relaxed is None:
        return None
    if relaxed.exact:
        return BudgetSolution(relaxed.filled, relaxed.best, exact=True)
    if brief:
        if problem.customers > _SEARCHED:
            return BudgetSolution(relaxed.filled, relaxed.best)
        searched, exact = search_exactly(lagrangian, relaxed.filled, relaxed.best)
        return BudgetSolution(searched, relaxed.best, exact)
    if problem.customers <= _FINISHED:
        finished = branch(lagrangian, relaxed, _relaxed_part)
        return BudgetSolution(finished.solution, relaxed.best, finished.exact, finished.bound)
    return BudgetSolution(relaxed.filled, relaxed.best)


def _relaxed(lagrangian: Lagrangian) -> Relaxed | None:
    """Prices for the budget, and an allocation filled from the two on either side of it; None: floors cost too much."""
    few = lagrangian.problem.customers <= _TO_THE_END
    guess = 0.0 if few else _sampled_rate(lagrangian)
    *below, rich = _until_rich(lagrangian, guess)
    if not rich.solution.feasible:
        return None
    if rich.fits:
        choice = rich.solution.choice
        return Relaxed(rich, rich.solution, choice, choice, choice, exact=True)
    poor = _cheapest(lagrangian, rich)
    if not poor.fits:
        return None
    best, above, below = _bracket(lagrangian, rich, poor) if few else _approach(lagrangian, rich, [poor, *below], guess)
    near = fill(lagrangian, above[-1], below[-1])
    filled = fill_best(lagrangian, best, above, below)
    if rich.rate > 0.0 and best.bound - (worth := lagrangian.priced(0.0, filled).worth) > CLOSE_ENOUGH * abs(worth):
        wider = fill_best(lagrangian, best, [lagrangian.at(0.0), *above], below)
        filled = max(filled, wider, key=lambda one: lagrangian.priced(0.0, one).worth)
    rich_choice, poor_choice = above[-1].solution.choice, below[-1].solution.choice
    return Relaxed(best, filled, near.choice, rich_choice, poor_choice, exact=False)


def _until_rich(lagrangian: Lagrangian, guess: float) -> list[Priced]:
    """Allocations at falling rates from somewhat below a guess on; the last spends too much, if any does.

    At a rate of 0, depths are worth the same to everybody more often than elsewhere, and solves take longer.
    """
    found: list[Priced] = []
    reach = _REACH  # relative error of the guess: step beyond it, for it may itself be a kink
    while guess > 0.0 and reach <= 0.3:
        found.append(lagrangian.at(guess * (1.0 - reach)))
        if not found[-1].fits or not found[-1].solution.feasible:
            return found
        reach *= 3.0
    return [*found, lagrangian.at(0.0)]


def _relaxed_part(problem: AllocationProblem) -> tuple[Lagrangian, Relaxed] | None:
    """`_relaxed` of a part of a problem."""
    lagrangian = Lagrangian(_affordable(problem), warm=None)
    relaxed = _relaxed(lagrangian)
    return None if relaxed is None else (lagrangian, relaxed)


def among_contended(lagrangian: Lagrangian, *, narrow: Narrowing | None = None) -> BudgetSolution | None:
    """By passes that settle all customers whom the budget price does not concern, and a search among the others.

    narrow: how a range is found and a pass is made; None: as `contended.narrowed` does it.
    """
    for spread in _SPREADS:
        here, ends = lagrangian, None
        while here.problem.customers > _SEARCHED_AT_ONCE:
            found = (narrow or narrowed)(here, within=ends, spread=spread)
            if found is None:
                break
            here, ends = found
            if ends[0].jumps_to(ends[1]):  # a whole depth moves at one budget price: another pass could not part them
                break
        if ends is None:
            return None
        rich, poor = here.at(ends[0].rate), here.at(ends[1].rate)
        if rich.fits or not poor.fits or not rich.solution.feasible or not poor.solution.feasible:
            continue
        few = here.problem.customers <= _TO_THE_END
        best, above, below = (_bracket if few else _approach_between)(here, rich, poor)
        enough = _FILLED if few else CLOSE_ENOUGH
        filled = here.priced(0.0, fill_best(here, best, above, below, enough=enough))
        if here.holds or lagrangian.bound_at(best) - filled.worth <= CLOSE_ENOUGH * abs(filled.worth):
            return BudgetSolution(here.for_everybody(filled.solution), best)
    return None


def _affordable(problem: AllocationProblem) -> AllocationProblem:
    """Cells that cost more than the whole budget can never be taken: costs are not negative."""
    budget = problem.limits.budget
    if budget is None or problem.costs is None or problem.largest_cost <= budget:
        return problem
    within = problem.costs <= np.float64(budget)  # a plain float would be rounded to the precision of the costs
    eligible = within if problem.eligible is None else within & problem.eligible
    return replace(problem, eligible=eligible, largest_cost=largest_of(problem.costs, eligible))


def _cheapest(lagrangian: Lagrangian, rich: Priced) -> Priced:
    """The allocation that spends least: nobody gets a code, or with floors the cheapest way to meet them."""
    problem = lagrangian.problem
    if not problem.limits.has_floors:
        nobody = np.full(problem.customers, -1, np.int16)
        return lagrangian.priced(math.inf, replace(rich.solution, choice=nobody))
    negative = replace(problem, values=-lagrangian.costs, costs=None, largest_cost=0.0)
    return lagrangian.priced(math.inf, solve(negative, engine=lagrangian.engine))


def _bracket(
    lagrangian: Lagrangian, rich: Priced, poor: Priced, *, enough: float = 0.0
) -> tuple[Priced, list[Priced], list[Priced]]:
    """Narrow (spends too much, does not) until nothing lies between, or their rates differ by a share of `enough`.

    Returns the solution with the best bound, and the last few on either side, the narrowest last.
    """
    best = rich
    above, below = [rich], [poor]
    jump = False
    for step in range(_STEPS):
        if rich.spent <= poor.spent:  # they differ in the last bits only
            break
        rate = lagrangian.crossing(rich, poor)
        interpolated = math.isfinite(poor.rate) and step % 3 != 2 and not jump
        if interpolated:
            rate = _interpolated(lagrangian, rich, poor)
        if not rich.rate < rate < poor.rate:
            break
        found = lagrangian.at(rate)
        best = min(best, found, key=lambda priced: priced.bound)
        same = found.spent in (rich.spent, poor.spent)
        before = rich.spent - poor.spent
        if found.fits:
            poor = found
            below = [*below[-_KEPT:], poor]
        else:
            rich = found
            above = [*above[-_KEPT:], rich]
        jump = math.isfinite(poor.rate) and step > 1 and rich.spent - poor.spent > 0.8 * before  # a kink in between
        if same and not interpolated:  # at the crossing of the two, neither is beaten: nothing lies between
            break
        if found.spent == lagrangian.budget or poor.rate - rich.rate < enough * poor.rate:
            break
    return best, above, below


def _interpolated(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> float:
    """Spending falls smoothly with the rate, as a rule."""
    share = (rich.spent - lagrangian.budget) / (rich.spent - poor.spent)
    return rich.rate + min(max(share, 0.02), 0.98) * (poor.rate - rich.rate)


def _approach(
    lagrangian: Lagrangian, rich: Priced, below: list[Priced], guess: float
) -> tuple[Priced, list[Priced], list[Priced]]:
    """`_bracket` for many customers: from the rate of a sample, and only until the budget can be filled well.

    below: allocations within the budget by falling rates, the first the cheapest there is.
    """
    best, above, poor = min([rich, *below], key=lambda priced: priced.bound), [rich], below[-1]
    reach = _REACH
    for _ in range(_STEPS):
        if rich.spent <= poor.spent or math.isfinite(poor.rate):
            break
        rate = guess * (1.0 + reach)
        reach = min(3.0 * reach, 0.3)
        if not rich.rate < rate < poor.rate:
            rate = lagrangian.crossing(rich, poor)
            if not rich.rate < rate < poor.rate:
                return best, above, below
        found = lagrangian.at(rate)
        best = min(best, found, key=lambda priced: priced.bound)
        if found.fits:
            poor = found
            below.append(poor)
        else:
            rich = found
            above.append(rich)
        if found.spent == lagrangian.budget:
            return best, above, below
    better, above_it, below_it = _approach_between(lagrangian, rich, poor)
    best = min(best, better, key=lambda priced: priced.bound)
    return best, [*above[:-1], *above_it], [*below[:-1], *below_it]


def _approach_between(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> tuple[Priced, list[Priced], list[Priced]]:
    """Narrow (spends too much, does not), both at finite rates, until the budget can be filled well from the two."""
    best = min(rich, poor, key=lambda priced: priced.bound)
    above, below = [rich], [poor]
    kept = _KEPT if lagrangian.problem.customers <= 1_000_000 else 3  # each takes two bytes per customer
    kink = poor.rate - rich.rate <= 5e-2 * poor.rate and _jumps(lagrangian, rich, poor)
    for _ in range(_STEPS):
        if rich.spent <= poor.spent:
            break
        width = poor.rate - rich.rate
        if width <= 5e-2 * poor.rate:  # perhaps the budget can be filled well already
            best = min(best, lagrangian.between(above, below), key=lambda priced: priced.bound)
            share = (lagrangian.budget - poor.spent) / (rich.spent - poor.spent)
            even = poor.worth + share * (rich.worth - poor.worth)  # what any filling reaches, nearly
            if best.bound - even <= _WORTH_FILLING * abs(even):
                worth = lagrangian.priced(0.0, fill(lagrangian, rich, poor)).worth
                if best.bound - worth <= CLOSE_ENOUGH * abs(worth):
                    break
        if width <= 1e-3 * poor.rate:
            moves = int(np.count_nonzero(rich.solution.choice != poor.solution.choice))
            if moves <= max(40, min(_MOVES, int(np.count_nonzero(poor.solution.choice >= 0)) // 100)):
                break
        rate = _interpolated(lagrangian, rich, poor)
        if kink:  # close in on it, but do not solve there
            centre = lagrangian.crossing(rich, poor)
            ahead, behind = centre - rich.rate, poor.rate - centre
            rate = centre - 0.3 * ahead if ahead > behind else centre + 0.3 * behind
        if not rich.rate < rate < poor.rate:
            rate = lagrangian.crossing(rich, poor)
            if not rich.rate < rate < poor.rate:
                break
        found = lagrangian.at(rate)
        best = min(best, found, key=lambda priced: priced.bound)
        before = rich.spent - poor.spent
        if found.fits:
            poor = found
            below = [*below[-kept:], poor]
        else:
            rich = found
            above = [*above[-kept:], rich]
        if found.spent == lagrangian.budget:
            break
        kink = rich.spent - poor.spent > 0.8 * before  # in between
    return best, above, below


def _jumps(lagrangian: Lagrangian, rich: Priced, poor: Priced) -> bool:
    """Whether spending falls by more than its share between two rates close to each other."""
    return (rich.spent - poor.spent) * poor.rate > 5.0 * lagrangian.budget * (poor.rate - rich.rate)


def _sampled_rate(lagrangian: Lagrangian) -> float:
    """The budget price of a sample, chosen by key so that the order of rows does not matter.

    The search among all customers then begins at the sample's prices.
    """
    problem = lagrangian.problem
    keys = problem.keys_of(np.arange(problem.customers))
    sample = problem.part(np.argpartition(keys, _SAMPLED)[:_SAMPLED])
    small = Lagrangian(sample, warm=lagrangian.warm)
    rich = small.at(0.0)
    if rich.fits or not rich.solution.feasible:
        return 0.0
    poor = _cheapest(small, rich)
    if not poor.fits:
        return 0.0
    best = _bracket(small, rich, poor, enough=5e-3)[0]
    if not problem.limits.has_floors:  # where floors bind, which prices are shown depends on where they began
        lagrangian.begin_at(best.solution)
    return best.rate
