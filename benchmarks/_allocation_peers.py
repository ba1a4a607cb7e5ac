"""The same instance through other solvers: each returns (value, seconds), model building included.

Each runs in a process of its own: OR-Tools and highspy carry copies of HiGHS that cannot live in one.
"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np


def min_cost_flow(values: np.ndarray, caps: np.ndarray) -> tuple[float, float]:
    from ortools.graph.python import min_cost_flow as flow

    start = time.perf_counter()
    rows, columns = values.shape
    scale = 2.0**20
    worth = np.rint(values * scale).astype(np.int64)
    solver = flow.SimpleMinCostFlow()
    customer = np.repeat(np.arange(rows), columns)
    depth = rows + np.tile(np.arange(columns), rows)
    sink = rows + columns
    solver.add_arcs_with_capacity_and_unit_cost(customer, depth, np.ones(rows * columns, np.int64), -worth.ravel())
    solver.add_arcs_with_capacity_and_unit_cost(
        np.arange(rows), np.full(rows, sink), np.ones(rows, np.int64), np.zeros(rows, np.int64)
    )
    solver.add_arcs_with_capacity_and_unit_cost(
        rows + np.arange(columns), np.full(columns, sink), caps.astype(np.int64), np.zeros(columns, np.int64)
    )
    solver.set_nodes_supplies(np.append(np.arange(rows), sink), np.append(np.ones(rows, np.int64), -rows))
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(f"min-cost flow ended with {status}")
    return -solver.optimal_cost() / scale, time.perf_counter() - start


def _program(values: np.ndarray, caps: np.ndarray):
    from scipy.sparse import csr_matrix

    rows, columns = values.shape
    cells = rows * columns
    customer = np.repeat(np.arange(rows), columns)
    depth = rows + np.tile(np.arange(columns), rows)
    matrix = csr_matrix(
        (np.ones(2 * cells), (np.concatenate([customer, depth]), np.tile(np.arange(cells), 2))),
        shape=(rows + columns, cells),
    )
    return matrix, np.concatenate([np.ones(rows), caps])


def highs(values: np.ndarray, caps: np.ndarray, *, solver: str, integral: bool = False) -> tuple[float, float]:
    import highspy

    start = time.perf_counter()
    matrix, upper = _program(values, caps)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.shape[1], matrix.shape[0]
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.ascontiguousarray(values).ravel()
    lp.col_lower_, lp.col_upper_ = np.zeros(matrix.shape[1]), np.ones(matrix.shape[1])
    lp.row_lower_, lp.row_upper_ = np.full(matrix.shape[0], -np.inf), upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    if integral:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * matrix.shape[1]
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("threads", 1)
    if not integral:
        model.setOptionValue("solver", solver)
    model.passModel(lp)
    model.run()
    return model.getInfo().objective_function_value, time.perf_counter() - start


def scipy_linprog(values: np.ndarray, caps: np.ndarray) -> tuple[float, float]:
    from scipy.optimize import linprog

    start = time.perf_counter()
    matrix, upper = _program(values, caps)
    found = linprog(-np.ascontiguousarray(values).ravel(), A_ub=matrix, b_ub=upper, bounds=(0, 1), method="highs")
    return -found.fun, time.perf_counter() - start


def scipy_milp(values: np.ndarray, caps: np.ndarray) -> tuple[float, float]:
    from scipy.optimize import Bounds, LinearConstraint, milp

    start = time.perf_counter()
    matrix, upper = _program(values, caps)
    found = milp(
        -np.ascontiguousarray(values).ravel(),
        constraints=LinearConstraint(matrix, -np.inf, upper),
        integrality=np.ones(matrix.shape[1]),
        bounds=Bounds(0, 1),
    )
    return -found.fun, time.perf_counter() - start


def pdlp(values: np.ndarray, caps: np.ndarray) -> tuple[float, float]:
    from ortools.linear_solver.python import model_builder

    start = time.perf_counter()
    rows, columns = values.shape
    model = model_builder.Model()
    cells = np.array([model.new_num_var(0.0, 1.0, "") for _ in range(rows * columns)], object).reshape(rows, columns)
    for row in cells:
        model.add(model_builder.LinearExpr.sum(row.tolist()) <= 1)
    for column in range(columns):
        model.add(model_builder.LinearExpr.sum(cells[:, column].tolist()) <= int(caps[column]))
    model.maximize(model_builder.LinearExpr.weighted_sum(cells.ravel().tolist(), values.ravel().tolist()))
    solver = model_builder.Solver("PDLP")
    solver.solve(model)
    return solver.objective_value, time.perf_counter() - start


def cp_sat(values: np.ndarray, caps: np.ndarray) -> tuple[float, float]:
    from ortools.sat.python import cp_model

    start = time.perf_counter()
    rows, columns = values.shape
    scale = 2.0**20
    worth = np.rint(values * scale).astype(np.int64)
    model = cp_model.CpModel()
    share = [[model.new_bool_var("") for _ in range(columns)] for _ in range(rows)]
    for row in share:
        model.add_at_most_one(row)
    for column in range(columns):
        model.add(sum(row[column] for row in share) <= int(caps[column]))
    flat = [cell for row in share for cell in row]
    model.maximize(cp_model.LinearExpr.weighted_sum(flat, worth.ravel().tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 120
    solver.solve(model)
    return solver.objective_value / scale, time.perf_counter() - start


Peer = Callable[[np.ndarray, np.ndarray], tuple[float, float]]

# name, solver, largest number of customers at which it ends within about a minute here
PEERS: tuple[tuple[str, Peer, int], ...] = (
    ("OR-Tools min-cost flow", min_cost_flow, 500_000),
    ("HiGHS simplex", lambda v, c: highs(v, c, solver="simplex"), 50_000),
    ("HiGHS IPM", lambda v, c: highs(v, c, solver="ipm"), 50_000),
    ("HiGHS MIP", lambda v, c: highs(v, c, solver="", integral=True), 5_000),
    ("scipy linprog", scipy_linprog, 5_000),
    ("scipy milp", scipy_milp, 5_000),
    ("OR-Tools PDLP", pdlp, 5_000),
    ("OR-Tools CP-SAT", cp_sat, 5_000),
)


def _run(name: str, values: np.ndarray, caps: np.ndarray, tries: int) -> list[tuple[float, float]]:
    solve = next(peer for known, peer, _ in PEERS if known == name)
    solve(values[:64], np.minimum(caps, 8))  # imports and first calls are not what is measured
    return [solve(values, caps) for _ in range(tries)]


def run_peer(name: str, values: np.ndarray, caps: np.ndarray, tries: int) -> list[tuple[float, float]]:
    """(value, seconds) of each try."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run, name, values, caps, tries).result()
