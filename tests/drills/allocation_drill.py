"""Random allocations against HiGHS: caps over three orders of magnitude, tiny ones, floors, segments, budgets.

    ./run drill allocation [--instances 2000] [--seed 1]

Every instance is solved by each route of the solver, however few its customers are, and by HiGHS. Without a budget the
values must be equal, and all routes must choose the same depths. With a budget the value may stay below that of HiGHS
by no more than the result says (`bound - value`), and never lies above it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from disco.allocation import Allocation, Segments, Status
from disco.allocation import solve as solver
from disco.allocation.allocate import certified, solve_problem
from disco.allocation.conflicts import infeasible
from disco.allocation.highs import solve_with_highs
from disco.allocation.limits import tree_of
from disco.allocation.problem import AllocationProblem, read_problem
from disco.allocation.solve import solve_on_grid

ROUNDING = 1e-9  # relative: HiGHS works with tolerances


def instance(seed: int, number: int) -> tuple[str, AllocationProblem]:
    """One random problem, and what kind it is."""
    rng = np.random.default_rng([seed, number])
    budgeted = number % 4 == 3  # HiGHS needs a MIP for these
    customers = int(rng.integers(2, 60) if budgeted else rng.integers(2, 500))
    columns = int(rng.integers(1, 9))
    values = rng.lognormal(0.0, 0.8, (customers, columns)) * np.sort(rng.lognormal(0.0, 0.5, columns))
    if rng.random() < 0.2:
        values -= np.median(values)
    if rng.random() < 0.2:
        values = np.rint(4.0 * values) / 4.0
    if rng.random() < 0.2:
        values = values.astype(np.float32)
    shares = 10.0 ** rng.uniform(-3.0, 0.0, columns)
    caps = (rng.uniform(0.3, 1.2) * customers * shares / shares.sum()).astype(np.int64)
    tiny = rng.random(columns) < 0.15
    caps[tiny] = rng.integers(0, 6, int(tiny.sum()))
    kind = ["caps"]
    arguments: dict[str, Any] = {}
    if rng.random() < 0.25:
        kind.append("floors")
        floors = (caps * rng.random(columns) * (rng.random(columns) < 0.4)).astype(np.int64)
        arguments["floors"] = floors
    if rng.random() < 0.3:
        kind.append("segments")
        labels = rng.integers(0, 3, customers)
        limits: dict[int, dict[str, Any]] = {
            label: {"caps": (caps * rng.uniform(0.0, 1.0, columns)).astype(np.int64)}
            for label in np.unique(labels)[:2].tolist()
        }
        if "floors" in kind and rng.random() < 0.5:
            one = next(iter(limits.values()))
            one["floors"] = (one["caps"] * 0.3 * rng.random(columns)).astype(np.int64)
        arguments["segments"] = Segments(labels, limits)
    if rng.random() < 0.2:
        kind.append("eligible")
        arguments["eligible"] = rng.random((customers, columns)) < 0.8
    if budgeted:
        kind.append("budget")
        costs = np.abs(values.astype(np.float64)) * rng.uniform(0.1, 0.6) + rng.random((customers, columns))
        most = np.sort(costs.max(axis=1))[::-1][: int(caps.sum())].sum()
        arguments |= {"costs": costs, "budget": float(most * rng.uniform(0.05, 0.9))}
    values = np.asfortranarray(values) if rng.random() < 0.7 else values
    return " + ".join(kind), read_problem(values, caps, ids=rng.permutation(customers), **arguments)


@contextmanager
def _without_short_cuts(*, levels: bool, newton: bool) -> Iterator[None]:
    """Newton and boxes however few the customers are; with `levels`, by samples and passes down to eight of them.

    newton: False: prices of samples are those of shortest paths.
    """
    sizes: dict[tuple[Any, str], Any]
    sizes = {(solver, "_FEW"): 0, (solver, "_FEW_IN_SEGMENTS"): 0, (solver, "_FEW_KNOWN_IN_SEGMENTS"): 0}
    if levels:
        sizes |= {(solver, "_ALL_AT_ONCE"): 8, (solver, "_SAMPLED_FOR_PATHS"): (4, 16, 64)}
    if not newton:
        sizes |= {(solver, "guess_prices"): lambda *_, **__: None}
    before = {place: getattr(*place) for place in sizes}
    for (module, name), size in sizes.items():
        setattr(module, name, size)
    try:
        yield
    finally:
        for (module, name), size in before.items():
            setattr(module, name, size)


def by_integers(problem: AllocationProblem) -> Allocation:
    found = solve_on_grid(problem, tree_of(problem.limits))
    return certified(problem, found, seconds=0.0) if found.feasible else infeasible(problem, (), 0.0)


def by_boxes(problem: AllocationProblem, *, levels: bool, newton: bool = True) -> Allocation:
    with _without_short_cuts(levels=levels, newton=newton):
        found = solver.solve(problem)
    return certified(problem, found, seconds=0.0) if found.feasible else infeasible(problem, (), 0.0)


ROUTES: dict[str, Callable[[AllocationProblem], Allocation]] = {
    "integers alone": by_integers,
    "newton": lambda problem: by_boxes(problem, levels=False),
    "passes": lambda problem: by_boxes(problem, levels=True),
    "prices of paths": lambda problem: by_boxes(problem, levels=True, newton=False),
}


def check(problem: AllocationProblem, *, solve: Callable[[AllocationProblem], Allocation] = solve_problem) -> str:
    """How one instance ended; AssertionError where HiGHS and the solver differ by more than they may."""
    ours, theirs = solve(problem), solve_with_highs(problem)
    assert (ours.status is Status.INFEASIBLE) == (theirs.status is Status.INFEASIBLE), (ours, theirs)
    if ours.status is Status.INFEASIBLE:
        return "no allocation meets the limits"
    within = ROUNDING * max(1.0, abs(theirs.value))
    assert ours.value <= theirs.value + within, f"{ours} is above the optimum {theirs}"
    assert ours.bound >= theirs.value - within, f"the bound of {ours} is below the optimum {theirs}"
    if problem.limits.budget is not None:
        return "budget: proved optimal" if ours.status is Status.OPTIMAL else "budget: within its bound"
    assert ours.status is Status.OPTIMAL, ours
    assert ours.value >= theirs.value - within, f"{ours} is below the optimum {theirs}"
    for name, route in ROUTES.items():
        found = route(problem)
        assert np.array_equal(found.choice, ours.choice), f"another choice by {name}"
        assert found.value == ours.value, f"another value by {name}"
    return "optimal, by every route the same choice"


def drill(*, instances: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """Ends by kind of instance."""
    ends: Counter[str] = Counter()
    for number in range(instances):
        kind, problem = instance(seed, number)
        try:
            ends[f"{kind}: {check(problem)}"] += 1
        except AssertionError as error:
            raise AssertionError(f"instance {number} of seed {seed} ({kind}): {error}") from error
        if (number + 1) % 200 == 0:
            say(f"{number + 1:>5} instances")
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run drill allocation", description=__doc__)
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    started = time.monotonic()
    ends = drill(instances=asked.instances, seed=asked.seed, say=lambda text: print(text, file=sys.stderr, flush=True))
    for end, times in sorted(ends.items()):
        print(f"{times:>5}  {end}")
    print(f"{ends.total()} instances, all as HiGHS solves them ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
