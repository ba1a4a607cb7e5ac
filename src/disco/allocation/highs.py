"""The same problem as an LP or MIP for HiGHS: slow, independent, used by tests and `--solver highs`.

max Σ v_ik x_ik   s.t.   Σ_k x_ik ≤ 1,   floor_k ≤ Σ_i x_ik ≤ cap_k,   the same per segment,   Σ c_ik x_ik ≤ budget
"""

import time
from typing import Any

import numpy as np

from disco.allocation.certificate import certify
from disco.allocation.conflicts import conflicts_of, infeasible
from disco.allocation.limits import UNLIMITED
from disco.allocation.problem import AllocationProblem, refuse_non_finite
from disco.allocation.result import Allocation
from disco.records.arrays import Integers, Vector
from disco.records.errors import CertificateError


def solve_with_highs(problem: AllocationProblem) -> Allocation:
    """Without a budget the LP (its optimum is integral), with one the MIP; prices are the LP's row duals."""
    if not np.isfinite(problem.values).all():
        refuse_non_finite(problem.values, name="values")
    start = time.perf_counter()
    limits = problem.limits
    relaxed = _run(problem, integral=False)
    if relaxed is None:
        return infeasible(problem, conflicts_of(problem), start)
    duals = relaxed[1]
    found = _run(problem, integral=True) if limits.budget is not None else relaxed
    if found is None:
        return infeasible(problem, conflicts_of(problem), start)
    choice = _choice(problem, found[0])
    columns = problem.columns
    prices = duals[:columns]
    segment_prices = None
    if limits.segment_caps is not None:
        segment_prices = duals[columns : columns + limits.segment_caps.size].reshape(limits.segment_caps.shape)
    budget_price = float(max(duals[-1], 0.0)) if limits.budget is not None else None
    seconds = time.perf_counter() - start
    return certify(
        problem,
        choice,
        prices,
        segment_prices=segment_prices,
        budget_price=budget_price,
        tolerance=1e-9,
        seconds=seconds,
    )


def _cells(problem: AllocationProblem) -> tuple[Integers, Integers]:
    """(rows, columns) of the eligible cells, customer by customer."""
    if problem.eligible is None:
        rows, columns = np.indices((problem.customers, problem.columns))
        return rows.ravel(), columns.ravel()
    rows, columns = np.nonzero(problem.eligible.T)
    return rows, columns


def _run(problem: AllocationProblem, *, integral: bool) -> tuple[Vector, Vector] | None:
    """Cell values of the solution and duals of [depths, segments × depths, budget]; None when infeasible."""
    import highspy

    limits = problem.limits
    customers, columns = problem.customers, problem.columns
    row_of, column_of = _cells(problem)
    cells = row_of.size
    if cells == 0:  # HiGHS calls a model without columns empty, not solved
        limit_rows = columns + (0 if limits.segment_caps is None else limits.segment_caps.size) + 1
        return None if limits.has_floors else (np.zeros((columns, customers)), np.zeros(limit_rows))
    lower = [np.full(customers, -np.inf), limits.floors.astype(float)]
    upper = [np.ones(customers), np.where(limits.caps >= UNLIMITED, np.inf, limits.caps)]
    row_index = [row_of, customers + column_of]
    coefficient = [np.ones(cells), np.ones(cells)]
    if limits.segment is not None and limits.segment_caps is not None and limits.segment_floors is not None:
        lower.append(limits.segment_floors.ravel().astype(float))
        upper.append(np.where(limits.segment_caps >= UNLIMITED, np.inf, limits.segment_caps).ravel())
        row_index.append(customers + columns + limits.segment[row_of] * columns + column_of)
        coefficient.append(np.ones(cells))
    if limits.budget is not None and problem.costs is not None:
        lower.append(np.array([-np.inf]))
        upper.append(np.array([limits.budget]))
        row_index.append(np.full(cells, sum(part.size for part in lower) - 1))
        coefficient.append(problem.costs[column_of, row_of].astype(float))
    low, high = np.concatenate(lower), np.concatenate(upper)
    per_cell = len(row_index)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = cells, low.size
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = problem.values[column_of, row_of].astype(float)
    lp.col_lower_, lp.col_upper_ = np.zeros(cells), np.ones(cells)
    lp.row_lower_, lp.row_upper_ = low, high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.arange(cells + 1, dtype=np.int32) * per_cell
    lp.a_matrix_.index_ = np.stack(row_index, axis=1).ravel().astype(np.int32)
    lp.a_matrix_.value_ = np.stack(coefficient, axis=1).ravel()
    if integral:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * cells
    new_solver: Any = highspy.Highs
    solver = new_solver()
    solver.silent()
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.0)
    if not integral:
        solver.setOptionValue("solver", "simplex")
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise CertificateError("HiGHS", found=solver.modelStatusToString(status), expected="an optimal solution")
    solution = solver.getSolution()
    shares = np.zeros((columns, customers))
    shares[column_of, row_of] = np.asarray(solution.col_value)
    duals = np.zeros(low.size) if integral else np.asarray(solution.row_dual)
    return shares, duals[customers:]


def _choice(problem: AllocationProblem, shares: Vector) -> Integers:
    best = shares.argmax(axis=0)
    taken = shares[best, np.arange(problem.customers)]
    if np.abs(shares - np.rint(shares)).max(initial=0.0) > 1e-6:
        raise CertificateError("HiGHS", found="a fractional allocation", expected="integers")
    return np.where(taken > 0.5, best, -1)
