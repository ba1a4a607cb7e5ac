"""Every way to solve an allocation, one contract: within the limits, as good as brute force and as HiGHS, with prices
that prove it; and among our own, the same customers get the same depths to the last tie."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from disco.allocation import Allocation, Segments, Status
from disco.allocation import solve as solver
from disco.allocation.allocate import certified, solve_problem
from disco.allocation.conflicts import infeasible
from disco.allocation.highs import solve_with_highs
from disco.allocation.limits import tree_of
from disco.allocation.problem import AllocationProblem, read_problem
from disco.allocation.solve import solve_on_grid

Solve = Callable[[AllocationProblem], Allocation]


def by_integers(problem: AllocationProblem) -> Allocation:
    """Shortest paths on grid integers, without any floating-point guess."""
    return _proved(problem, solve_on_grid(problem, tree_of(problem.limits)))


def by_newton(problem: AllocationProblem) -> Allocation:
    """Newton and a box over everybody, however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_FEW", 0)
        patch.setattr(solver, "_FEW_IN_SEGMENTS", 0)
        patch.setattr(solver, "_FEW_KNOWN_IN_SEGMENTS", 0)
        patch.setattr(solver._PATHS_BEFORE_COMPILING, "left", 0)
        return _proved(problem, solver.solve(problem))


def by_paths_until_compiled(problem: AllocationProblem) -> Allocation:
    """Where nothing was compiled yet, small tables go the way that needs the fewest kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_FEW", 0)
        patch.setattr(solver.descend, "is_ready", lambda: False)
        left = 100 * problem.customers
        patch.setattr(solver._PATHS_BEFORE_COMPILING, "left", left)
        found = _proved(problem, solver.solve(problem))
        left -= problem.customers if problem.limits.segment is None and not problem.limits.has_floors else 0
        assert solver._PATHS_BEFORE_COMPILING.left == left
        return found


def by_passes(problem: AllocationProblem) -> Allocation:
    """Newton on a sample, then screening passes, however few customers there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_FEW", 0)
        patch.setattr(solver, "_FEW_IN_SEGMENTS", 0)
        patch.setattr(solver, "_FEW_KNOWN_IN_SEGMENTS", 0)
        patch.setattr(solver, "_ALL_AT_ONCE", 0)
        return _proved(problem, solver.solve(problem))


def by_prices_of_paths(problem: AllocationProblem) -> Allocation:
    """Passes whose boxes are around the prices of shortest paths on samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_SAMPLED_FOR_PATHS", (4, 16, 64))
        patch.setattr(solver, "guess_prices", lambda *_, **__: None)
        return by_passes(problem)


def _proved(problem: AllocationProblem, found: Any) -> Allocation:
    return certified(problem, found, seconds=0.0) if found.feasible else infeasible(problem, (), 0.0)


OURS: dict[str, Solve] = {
    "the default": solve_problem,
    "integers alone": by_integers,
    "newton": by_newton,
    "paths until compiled": by_paths_until_compiled,
    "passes": by_passes,
    "prices of paths": by_prices_of_paths,
}
SOLVERS: dict[str, Solve] = {**OURS, "highs": solve_with_highs}
FOR_BUDGETS: dict[str, Solve] = {"the default": solve_problem, "highs": solve_with_highs}


def table(kind: str, rows: int) -> tuple[Any, list[int | None], dict[str, Any]]:
    """values (rows, 3), caps, and the other limits of one kind of problem."""
    rng = np.random.default_rng(rows)
    values = rng.lognormal(0.0, 0.8, (rows, 3))
    caps: list[int | None] = [rows // 3, rows // 4, rows // 6]
    whole = rng.integers(0, 4, (rows, 3)).astype(float)
    labels = rng.integers(0, 2, rows)
    few = max(1, rows // 6)
    by_segment = Segments(labels, {0: {"caps": [few, None, 1]}, 1: {"floors": [0, 1, 0]}})
    capped = Segments(labels, {0: {"caps": [few, None, 1]}, 1: {"caps": [None, few, None]}})
    closed = Segments(labels, {0: {"caps": [0, None, few]}, 1: {"caps": [None, 0, 0]}})
    return {
        "money": (values, caps, {}),
        "money in float32": (values.astype(np.float32), caps, {}),
        "losses": (values - 1.5, caps, {}),
        "caps that do not bind": (values, [None, rows, rows], {}),
        "one code each": (values, [1, 1, 1], {}),
        "ties": (whole, caps, {}),
        "everything equal": (np.ones((rows, 3)), caps, {}),
        "eligible": (values, caps, {"eligible": rng.random((rows, 3)) < 0.6}),
        "nobody eligible": (values, caps, {"eligible": np.zeros((rows, 3), np.bool_)}),
        "floors": (values - 1.5, [None, None, few], {"floors": [few, 0, few]}),
        "segments": (values, caps, {"segments": by_segment}),
        "caps in segments": (values, caps, {"segments": capped}),
        "a closed depth": (values, [rows // 3, 0, rows // 6], {}),
        "depths closed to segments": (values, [rows // 3, 0, None], {"segments": closed}),
        "floors beyond the customers": (values, [None] * 3, {"floors": [rows, 1, 0]}),
    }[kind]  # fmt: skip


KINDS = (
    "money", "money in float32", "losses", "caps that do not bind", "one code each", "ties", "everything equal",
    "eligible", "nobody eligible", "floors", "segments", "caps in segments", "a closed depth",
    "depths closed to segments", "floors beyond the customers",
)  # fmt: skip


def brute_force(problem: AllocationProblem) -> tuple[float, list[tuple[int, ...]]]:
    """The best value over every allocation within the limits (-inf: there is none), and all that reach it."""
    best, reached = -np.inf, []
    for choice in itertools.product(range(-1, problem.columns), repeat=problem.customers):
        value = _value(problem, choice)
        if value is None or value < best - 1e-9:
            continue
        if value > best + 1e-9:
            best, reached = value, []
        reached.append(choice)
    return best, reached


@cache
def few_customers(
    kind: str, budget_share: float | None = None
) -> tuple[AllocationProblem, float, list[tuple[int, ...]]]:
    """A problem of six customers and what `brute_force` says about it, which is the same for every solver."""
    values, caps, limits = table(kind, 6)
    if budget_share is not None:
        costs = np.random.default_rng(5).random((6, 3))
        limits = {**limits, "costs": costs, "budget": float(budget_share * costs.sum() / 3)}
    problem = read_problem(values, caps, **limits)
    return problem, *brute_force(problem)


def _value(problem: AllocationProblem, choice: tuple[int, ...]) -> float | None:
    """What an allocation is worth; None where it breaks a limit. Written for few customers and nothing else."""
    limits, taken = problem.limits, [(row, column) for row, column in enumerate(choice) if column >= 0]
    groups = np.zeros(problem.customers, int) if limits.segment is None else limits.segment
    if problem.eligible is not None and not all(problem.eligible[column, row] for row, column in taken):
        return None
    for column in range(problem.columns):
        count = sum(at == column for _, at in taken)
        if not limits.floors[column] <= count <= limits.caps[column]:
            return None
        for group in range(0 if limits.segment_caps is None else len(limits.segment_caps)):
            inside = sum(at == column and groups[row] == group for row, at in taken)
            if not limits.segment_floors[group, column] <= inside <= limits.segment_caps[group, column]:
                return None
    if limits.budget is not None and sum(float(problem.costs[column, row]) for row, column in taken) > limits.budget:
        return None
    return float(sum(float(problem.values[column, row]) for row, column in taken))


@pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_as_good_as_every_allocation_there_is(solve, kind):
    problem, best, reached = few_customers(kind)
    found = solve(problem)
    if best == -np.inf:
        assert found.status is Status.INFEASIBLE
        return
    assert found.status is Status.OPTIMAL
    assert tuple(found.choice.tolist()) in reached
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.value <= found.bound <= found.value + 1e-9


@pytest.mark.parametrize("solve", [*OURS.values()][1:], ids=[*OURS][1:])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [40, 700, 5000])
def test_every_algorithm_of_ours_gives_everybody_the_same_depth(solve, kind, rows):
    values, caps, limits = table(kind, rows)
    problem = read_problem(values, caps, **limits)
    one, other = solve_problem(problem), solve(problem)
    assert one.status is other.status
    np.testing.assert_array_equal(one.choice, other.choice)
    assert one.value == other.value
    if not problem.limits.has_floors:  # where one binds, several prices prove the same optimum
        np.testing.assert_array_equal(one.prices, other.prices)
        np.testing.assert_array_equal(one.segment_prices, other.segment_prices)


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_of_highs_on_many_customers(kind):
    values, caps, limits = table(kind, 700)
    problem = read_problem(values, caps, **limits)
    one, other = solve_problem(problem), solve_with_highs(problem)
    assert one.status is other.status
    if one.status is not Status.INFEASIBLE:
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.gap <= 1e-12


@pytest.mark.parametrize("solve", OURS.values(), ids=OURS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_changes_nobodys_depth(solve, kind):
    values, caps, limits = table(kind, 700)
    order = np.random.default_rng(1).permutation(700)
    moved = dict(limits)
    if "eligible" in moved:
        moved["eligible"] = moved["eligible"][order]
    if "segments" in moved:
        moved["segments"] = Segments(moved["segments"].of_customer[order], moved["segments"].limits)
    one = solve(read_problem(values, caps, ids=np.arange(700), **limits))
    other = solve(read_problem(values[order], caps, ids=order, **moved))
    np.testing.assert_array_equal(other.choice, one.choice[order])


@pytest.mark.parametrize("solve", FOR_BUDGETS.values(), ids=FOR_BUDGETS.keys())
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["money", "ties", "eligible", "segments", "depths closed to segments"])
def test_a_budget_is_kept_and_used_as_well_as_can_be(solve, share, kind):
    problem, best, _ = few_customers(kind, share)
    found = solve(problem)
    if best == -np.inf:
        assert found.status is Status.INFEASIBLE
        return
    assert _value(problem, tuple(found.choice.tolist())) == pytest.approx(best, abs=1e-9)
    assert found.cost <= problem.limits.budget
