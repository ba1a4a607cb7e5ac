"""`allocate`: values and limits in, one depth or none per customer out; `decide_late`: customers after the solve."""

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from disco.allocation.budget import BudgetSolution, solve_budget
from disco.allocation.certificate import certify
from disco.allocation.conflicts import budget_conflict, count_conflicts
from disco.allocation.grid import tie_hash
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, read_problem
from disco.allocation.reference import infeasible
from disco.allocation.result import Allocation, Status
from disco.allocation.solver import solve
from disco.records.arrays import Vector
from disco.records.errors import InputError
from disco.records.identity import customer_keys
from disco.records.ports import Engine


def allocate(
    values: object,
    caps: object,
    *,
    depths: Iterable[object] | None = None,
    costs: object = None,
    budget: object = None,
    floors: object = None,
    segments: object = None,
    eligible: object = None,
    ids: object = None,
    warm_prices: object = None,
    engine: Engine | None = None,
) -> Allocation:
    """Maximise Σ values[i, choice[i]] with at most one depth per customer and caps[k] customers at k.

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
    return solve_problem(problem, warm=_read_warm(warm_prices, columns=problem.columns), engine=engine)


def solve_problem(
    problem: AllocationProblem, *, warm: Vector | None = None, engine: Engine | None = None
) -> Allocation:
    """The allocation of a problem that has passed the door, checked by its certificate."""
    start = time.perf_counter()
    if problem.limits.budget is not None:
        filled = solve_budget(problem, warm=warm, engine=engine)
        if filled is None:
            return infeasible(problem, budget_conflict(problem), start)
        return certified_budget(problem, filled, seconds=time.perf_counter() - start)
    found = solve(problem, warm=warm, engine=engine)
    if not found.feasible:
        return infeasible(problem, count_conflicts(problem), start)
    return certified(problem, found, seconds=time.perf_counter() - start)


def certified_budget(problem: AllocationProblem, filled: BudgetSolution, *, seconds: float) -> Allocation:
    """The filled budget with the bound of its Lagrangian prices, or with its own value where the search proved it."""
    priced = filled.bound_from
    prices = replace(priced.solution, choice=filled.solution.choice)
    allocation = certified(problem, prices, seconds=seconds, budget_price=priced.rate)
    if filled.exact and allocation.status is not Status.OPTIMAL:
        return replace(allocation, bound=allocation.value, gap=0.0, status=Status.OPTIMAL)
    return allocation


def certified(
    problem: AllocationProblem, found: Assignment, *, seconds: float, budget_price: float | None = None
) -> Allocation:
    """A solution with its proof: prices per depth, and per segment on top of them."""
    columns = problem.columns
    prices = found.potentials[1 : columns + 1]
    on_top = None
    if problem.limits.segment_caps is not None:
        on_top = found.potentials[found.tree.leaf] - prices
    return certify(problem, found.choice, prices, segment_prices=on_top, budget_price=budget_price, seconds=seconds)


def _read_warm(prices: object, *, columns: int) -> Vector | None:
    """One price per column: of an earlier solve, or a guess."""
    if prices is None:
        return None
    given = np.asarray(prices, np.float64)
    if given.shape != (columns,) or not np.isfinite(given).all():
        raise InputError("warm_prices", found=f"{given.tolist()}", expected=f"{columns} finite prices, one per column")
    return given


def decide_late(
    values: object,
    prices: object,
    remaining: object,
    *,
    costs: object = None,
    budget_price: float = 0.0,
    remaining_budget: float | None = None,
    eligible: object = None,
    customer_id: object = 0,
) -> int:
    """The column this customer gets, -1 for none: argmax of value - price - budget_price · cost where that is positive.

    values, prices, remaining (and costs, eligible): one entry per depth; with segments, prices are those of the
    customer's segment plus the depth's. A customer of the solve would be given what the solve gave, unless it tied.

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
