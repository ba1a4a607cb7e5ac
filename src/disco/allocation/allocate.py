"""`allocate`: values and limits in, one depth or none per customer out; and what is made of it.

`frontier`: allocations over a grid of revenue weights or budgets, each with its own proof. Neighbours begin at each
other's prices, which saves time. `decide_late`: customers who arrive after the solve.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from disco.allocation.budget import BudgetSolution, solve_budget
from disco.allocation.certificate import certify
from disco.allocation.conflicts import conflicts_of, infeasible
from disco.allocation.grid import tie_hash
from disco.allocation.limits import CountsLike, Segments
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, agreed_ids, read_problem
from disco.allocation.result import Allocation, Status, relative_gap
from disco.allocation.small import PROVED
from disco.allocation.solve import solve
from disco.records.arguments import column_labels
from disco.records.arrays import Floats, Vector
from disco.records.decisions import Audience, Offer
from disco.records.errors import InputError, UsageError
from disco.records.frames import without_ids
from disco.records.identity import customer_keys
from disco.records.ports import Engine


def allocate(
    values: ArrayLike,
    caps: CountsLike | None,
    *,
    depths: Iterable[float | str] | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    floors: CountsLike | None = None,
    segments: Segments | None = None,
    eligible: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    warm_prices: ArrayLike | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """Give each customer one depth or none, so that the total value is as high as the limits allow.

        max Σ_i values[i, choice[i]]   with   floors[k] ≤ customers at k ≤ caps[k],   Σ_i costs[i, choice[i]] ≤ budget

    The result is exact and comes with its proof (`Allocation.bound`, `prices`). Without a budget, among allocations of
    equal value the one with the largest sum of hash(customer id, depth) is taken. With a budget, ties within the gap
    are broken by ids as well, but not always by that sum. Either way the order of rows changes nobody's depth.

    values: (customers, depths) what a customer is worth at a depth, float64 or float32, finite; a loss is negative. A
        table whose columns are named by depths names the depths; its column customer_id, or a pandas index of that
        name, are the ids. Column-major memory (order="F") is read as it is, other layouts are copied once.
    caps: most customers per depth: one whole number per column (None: no cap), or {depth: number}, or a pandas Series;
        a depth that a mapping leaves out has no cap.
    depths: (depths,) names of the columns, such as [0.1, 0.2]; needed for limits by depth.
    costs: (customers, depths) what the budget pays, 0 or more.
    budget: most money that the chosen cells may cost together; needs `costs`.
    floors: least customers per depth, in the form of `caps`.
    segments: caps and floors for parts of the customers.
    eligible: (customers, depths) Booleans; False: this customer may not get this depth.
    ids: (customers,) whole numbers or text, each once, which break ties; without them the row numbers do.
    warm_prices: (depths,) prices of an earlier, similar solve. They save time and change nothing.
    engine: what the customers are spread over. None is this thread; `disco.allocate` uses this machine's processors.

    >>> result = allocate([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]], [2, 1])
    >>> result.choice.tolist(), result.value, result.status.name
    ([0, 1, 0], 16.0, 'OPTIMAL')
    """
    problem = read_problem(
        values,
        caps,
        depths=depths,
        costs=costs,
        budget=budget,
        floors=floors,
        segments=segments,
        eligible=eligible,
        ids=ids,
    )
    found = solve_problem(problem, warm=_read_warm(warm_prices, columns=problem.columns), engine=engine)
    return replace(found, ids=problem.ids)


def solve_problem(
    problem: AllocationProblem, *, warm: Vector | None = None, engine: Engine | None = None
) -> Allocation:
    """The allocation of a problem that was read, checked by its certificate."""
    start = time.perf_counter()
    if problem.limits.contradict:
        return infeasible(problem, conflicts_of(problem), start)
    if problem.limits.budget is not None:
        filled = solve_budget(problem, warm=warm, engine=engine)
        if filled is None:
            return infeasible(problem, conflicts_of(problem), start)
        return certified_budget(problem, filled, seconds=time.perf_counter() - start, engine=engine)
    found = solve(problem, warm=warm, engine=engine)
    if not found.feasible:
        return infeasible(problem, conflicts_of(problem), start)
    return certified(problem, found, seconds=time.perf_counter() - start, engine=engine)


def certified_budget(
    problem: AllocationProblem, filled: BudgetSolution, *, seconds: float, engine: Engine | None = None
) -> Allocation:
    """The filled budget with the bound of its Lagrangian prices, or with its own value where the search proved it."""
    priced = filled.bound_from
    prices = replace(priced.solution, choice=filled.solution.choice)
    allocation = certified(problem, prices, seconds=seconds, budget_price=priced.rate, engine=engine)
    if filled.exact or filled.bound < allocation.bound:  # the search knows better than the prices
        bound = allocation.value if filled.exact else max(filled.bound, allocation.value)
        gap = relative_gap(allocation.value, bound)
        status = Status.OPTIMAL if gap <= PROVED else allocation.status
        return replace(allocation, bound=bound, gap=gap, status=status)
    return allocation


def certified(
    problem: AllocationProblem,
    found: Assignment,
    *,
    seconds: float,
    budget_price: float | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """A solution with its proof: prices per depth, and per segment on top of them."""
    columns = problem.columns
    prices = found.potentials[1 : columns + 1]
    on_top = None
    if problem.limits.segment_caps is not None:
        on_top = found.potentials[found.tree.leaf] - prices
    return certify(
        problem,
        found.choice,
        prices,
        segment_prices=on_top,
        budget_price=budget_price,
        seconds=seconds,
        engine=engine,
    )


def _read_warm(prices: ArrayLike | None, *, columns: int) -> Vector | None:
    """One price per column: of an earlier solve, or a guess."""
    if prices is None:
        return None
    try:
        given = np.asarray(prices, np.float64)
    except (TypeError, ValueError):  # text, or rows of several lengths
        raise InputError(
            "warm_prices", found=repr(prices), expected=f"{columns} finite prices, one per column"
        ) from None
    if given.shape != (columns,) or not np.isfinite(given).all():
        raise InputError("warm_prices", found=f"{given.tolist()}", expected=f"{columns} finite prices, one per column")
    return given


def allocate_offer(
    values: Floats,
    audience: Audience,
    offer: Offer,
    *,
    costs: Floats | None,
    where: str,
    warm_prices: Vector | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """`allocate` within the limits of an offer; an InfeasibleError about `where`, if they contradict each other.

    values, costs: (customers, depths of the offer); costs only where it has a budget.
    warm_prices: (depths,) prices of an earlier, similar solve.
    """
    problem = read_problem(
        values,
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        costs=costs,
        budget=offer.budget,
        segments=Segments.of(audience, offer),
        eligible=None,
        ids=audience.ids,
    )
    warm = _read_warm(warm_prices, columns=problem.columns)
    allocation = replace(solve_problem(problem, warm=warm, engine=engine), ids=problem.ids)
    allocation.require_feasible(where=where)
    return allocation


def decide_late(
    values: ArrayLike,
    prices: ArrayLike,
    remaining: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    budget_price: float = 0.0,
    remaining_budget: float | None = None,
    eligible: ArrayLike | None = None,
    customer_id: int | str = 0,
) -> int:
    """The column one customer who arrives after the solve gets, at the solve's prices; -1 for none.

    It is the argmax of value - price - budget_price · cost, where that is positive. A customer of the solve would be
    given what the solve gave, unless they tied.

    values: (depths,) what this customer is worth at each depth.
    prices: (depths,) `Allocation.prices`; with segments, plus those of the customer's segment.
    remaining: (depths,) codes left.
    costs: (depths,) what the budget pays.
    budget_price: `Allocation.budget_price`.
    remaining_budget: money left; None: no budget.
    eligible: (depths,) Booleans.
    customer_id: breaks ties between depths.

    >>> decide_late([5.0, 9.0], [1.0, 6.0], [10, 0]), decide_late([5.0, 9.0], [1.0, 6.0], [0, 0])
    (0, -1)
    """
    value, price = np.asarray(values, np.float64), np.asarray(prices, np.float64)
    left = np.asarray(remaining)
    if value.ndim != 1 or price.shape != value.shape or left.shape != value.shape:
        raise InputError(
            "late arrival",
            found=f"{value.shape} values, {price.shape} prices, {left.shape} remaining caps",
            expected="one of each per depth",
        )
    net = value - price
    open_to = left > 0
    if costs is not None:
        cost = np.asarray(costs, np.float64)
        net = net - budget_price * cost
        if remaining_budget is not None:
            open_to = open_to & (cost <= remaining_budget)
    if eligible is not None:
        open_to = open_to & np.asarray(eligible, np.bool_)
    if not np.isfinite(net).all():
        raise InputError("late arrival", found=value.tolist(), expected="finite values, prices and costs")
    best = max(net[open_to], default=0.0)
    if best <= 0.0:
        return -1
    tied = np.flatnonzero(open_to & (net == best))
    key = customer_keys([customer_id])[0]
    return max(tied.tolist(), key=lambda column: tie_hash(key, column))


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One point of the frontier."""

    revenue_weight: float
    budget: float | None  # money; None: no budget
    revenue: float  # money, of its allocation
    markdown: float  # money, of its allocation
    value: float  # revenue_weight · revenue - markdown
    allocation: Allocation


def frontier(
    revenue: ArrayLike,
    markdown: ArrayLike,
    caps: CountsLike | None,
    *,
    revenue_weights: Sequence[float] = (1.0,),
    budgets: Iterable[float | None] | None = None,
    depths: Iterable[float | str] | None = None,
    floors: CountsLike | None = None,
    segments: Segments | None = None,
    eligible: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    engine: Engine | None = None,
) -> tuple[FrontierPoint, ...]:
    """Exact allocations of value = weight · revenue - markdown over a grid, each started from its neighbour's prices.

    Points without a feasible allocation carry its conflicts and no money.

    revenue, markdown: (customers, depths) expected money per cell.
    caps, depths, floors, segments, eligible, ids: as in `allocate`.
    revenue_weights: what a unit of revenue is worth in units of markdown; several of them, or one and several budgets.
    budgets: on markdown, in money; None among them is no budget.
    engine: what the customers are spread over. None is this thread; `disco.frontier` uses this machine's processors.

    >>> points = frontier([[8.0, 9.0]], [[1.0, 3.0]], [1, 1], revenue_weights=[1.0, 3.0])
    >>> [(point.revenue, point.markdown) for point in points]
    [(8.0, 1.0), (9.0, 3.0)]
    """
    weights = list(revenue_weights)
    limits = [None] if budgets is None else list(budgets)
    if len(weights) > 1 and len(limits) > 1:
        raise UsageError("frontier", found="several weights and several budgets", expected="a grid of one of them")
    (revenue, own_ids), (markdown, other_ids) = without_ids(revenue), without_ids(markdown)
    ids = agreed_ids(agreed_ids(ids, own_ids, where="revenue"), other_ids, where="markdown")
    gained, given = np.asarray(revenue), np.asarray(markdown)
    labels, others = column_labels(revenue), column_labels(markdown)
    if labels is not None and others is not None and labels != others:
        raise InputError("columns of markdown", found=others, expected=f"those of revenue: {labels}")
    named = labels if depths is None else list(depths)
    points: list[FrontierPoint] = []
    warm = None
    for weight in weights:
        values = np.asfortranarray(weight * gained - given)
        for budget in limits:
            problem = read_problem(
                values, caps, depths=named, costs=given, budget=budget, floors=floors, segments=segments,
                eligible=eligible, ids=ids,
            )  # fmt: skip
            found = solve_problem(problem, warm=warm, engine=engine)
            if found.status is not Status.INFEASIBLE:
                warm = found.prices
            taken = np.flatnonzero(found.choice >= 0)
            columns = found.choice[taken]
            points.append(
                FrontierPoint(
                    float(weight),
                    budget,
                    float(gained[taken, columns].sum(dtype=np.float64)),
                    float(given[taken, columns].sum(dtype=np.float64)),
                    found.value,
                    found,
                )
            )
    return tuple(points)
