"""Small budgets, solved to the end: how many are proved optimal, how long each takes, and whether the proof is true.

    ./run drill budgets [--instances 500] [--seed 1]
    ./run drill budgets decisions [--offers 1000] [--seed 1] [--spark 0]    see `decision_drill`

Rounds of 49 to 400 customers: random and heavy-tailed baskets, floors, segments, closed cells, value and cost in
proportion or not, money in whole pennies or not, tight and loose budgets. Feasibility and value of each answer are
recomputed with rational numbers by `recomputed`, which shares nothing with the solver or its certificate. Seconds are
those of one processor.
"""

import argparse
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from disco.allocation import Allocation, Segments, Status
from disco.allocation.allocate import solve_problem
from disco.allocation.limits import UNLIMITED
from disco.allocation.problem import AllocationProblem, read_problem

SHAPES = ("lognormal", "heavy", "pareto", "one giant")
RELATIONS = ("own response", "proportional", "nearly proportional", "unrelated", "pennies")


def _baskets(rng: np.random.Generator, shape: str, customers: int) -> np.ndarray:
    if shape == "lognormal":
        return rng.lognormal(3.6, 0.5, customers)
    if shape == "heavy":
        return rng.lognormal(2.5, 1.6, customers)
    if shape == "pareto":
        return 10.0 * (1.0 + rng.pareto(1.1, customers))
    baskets = rng.lognormal(3.0, 0.7, customers)
    baskets[rng.integers(customers)] *= 200.0
    return baskets


def _money(rng: np.random.Generator, shape: str, relation: str, customers: int, columns: int) -> tuple[Any, Any]:
    """Values and costs (customers, depths)."""
    depth = np.linspace(0.05, 0.05 * columns, columns)
    take_up = 0.02 + 0.1 * depth
    basket = _baskets(rng, shape, customers)[:, None]
    if relation == "unrelated":
        costs = _baskets(rng, shape, customers)[:, None] * depth * rng.uniform(0.5, 1.5, (customers, columns))
        return basket * rng.uniform(0.1, 1.0, (customers, columns)) * (1.0 + depth), costs
    full = np.broadcast_to(basket, (customers, columns)).copy()
    if relation != "proportional":
        slope = 0.7 * rng.lognormal(0.0, 0.35, customers)[:, None]
        noise = 0.002 if relation == "nearly proportional" else 0.05
        full *= np.exp((slope if noise > 0.01 else 0.0) * depth + noise * rng.standard_normal((customers, columns)))
    costs = full * depth * take_up
    if relation == "pennies":
        costs = np.round(costs, 2)
    return 3.0 * full * (1.0 - depth) * take_up - costs, costs


def instance(seed: int, number: int) -> tuple[str, AllocationProblem]:
    """One random round with a budget, and what kind it is."""
    rng = np.random.default_rng([seed, number, 49])
    customers, columns = int(rng.integers(49, 401)), int(rng.integers(1, 9))
    shape, relation = SHAPES[number % 4], RELATIONS[number % 5]
    values, costs = _money(rng, shape, relation, customers, columns)
    kind = [shape, relation]
    shares = 10.0 ** rng.uniform(-1.5, 0.0, columns)
    caps = np.maximum((rng.uniform(0.2, 1.2) * customers * shares / shares.sum()).astype(np.int64), 1)
    arguments: dict[str, Any] = {}
    if rng.random() < 0.35:
        kind.append("floors")
        arguments["floors"] = (caps * rng.uniform(0.0, 0.6, columns) * (rng.random(columns) < 0.6)).astype(np.int64)
    if rng.random() < 0.3:
        kind.append("segments")
        labels = rng.integers(0, 3, customers)
        arguments["segments"] = Segments(
            labels,
            {label: {"caps": np.ceil(caps * rng.uniform(0.2, 0.8, columns)).astype(np.int64)} for label in (0, 1)},
        )
    if rng.random() < 0.2:
        kind.append("eligible")
        arguments["eligible"] = rng.random((customers, columns)) < 0.8
    ids = rng.permutation(customers)
    free = solve_problem(read_problem(values, caps, ids=ids, costs=costs, **arguments))
    least = 0.0
    if "floors" in arguments and free.status is not Status.INFEASIBLE:
        cheapest = solve_problem(read_problem(-costs, caps, ids=ids, **arguments))
        least = -cheapest.value
    spent = 1.0 if free.cost is None else free.cost
    tight = rng.random() < 0.3
    kind.append("tight" if tight else "loose")
    share = rng.uniform(0.01, 0.15) if tight else rng.uniform(0.15, 0.98)
    budget = least + share * max(spent - least, 0.0)
    if relation == "pennies":
        budget = round(budget, 2)
    return ", ".join(kind), read_problem(values, caps, ids=ids, costs=costs, budget=float(budget), **arguments)


def recomputed(problem: AllocationProblem, choice: np.ndarray) -> tuple[Fraction, Fraction]:
    """Value and cost of a choice with rational numbers; AssertionError where it breaks a limit."""
    limits = problem.limits
    value, cost = Fraction(0), Fraction(0)
    counts: dict[tuple[int, int], int] = {}
    for customer, column in enumerate(choice.tolist()):
        if column < 0:
            continue
        assert problem.eligible is None or problem.eligible[column, customer], f"row {customer} may not have {column}"
        value += Fraction(float(problem.values[column, customer]))
        assert problem.costs is not None
        cost += Fraction(float(problem.costs[column, customer]))
        places = [(-1, column)]
        if limits.segment is not None:
            places.append((int(limits.segment[customer]), column))
        for place in places:
            counts[place] = counts.get(place, 0) + 1
    for column in range(problem.columns):
        given = counts.get((-1, column), 0)
        assert limits.floors[column] <= given <= limits.caps[column], f"{given} at {column}"
        if limits.segment_caps is None or limits.segment_floors is None:
            continue
        for group in range(limits.segment_caps.shape[0]):
            given, most = counts.get((group, column), 0), limits.segment_caps[group, column]
            assert limits.segment_floors[group, column] <= given <= min(most, UNLIMITED), f"{given} at {group, column}"
    # a sum of floats that rounds to the budget is within it; that of pennies has an allowance far below a penny
    assert limits.budget is not None
    assert float(cost) <= limits.budget, f"{float(cost)} of {limits.budget}"
    return value, cost


class Ended(NamedTuple):
    """How one instance ended."""

    kind: str
    customers: int
    allocation: Allocation
    seconds: float


def check(problem: AllocationProblem, kind: str = "") -> Ended:
    """Solve one instance; AssertionError where the answer is not what it says it is."""
    start = time.process_time()  # of one core, whatever else runs on the machine
    found = solve_problem(problem)
    seconds = time.process_time() - start
    if found.status is not Status.INFEASIBLE:
        value, cost = recomputed(problem, found.choice)
        rounding = 1e-12 * max(1.0, abs(found.value))
        assert abs(float(value) - found.value) <= rounding, f"value {float(value)}, said {found.value}"
        assert found.cost is not None
        assert abs(float(cost) - found.cost) <= 1e-12 * max(1.0, found.cost), f"cost {float(cost)}, said {found.cost}"
        assert found.bound >= found.value
        assert (found.gap <= 1e-12) == (found.status is Status.OPTIMAL)
    return Ended(kind, problem.customers, found, seconds)


def drill(*, instances: int, seed: int, say: Callable[[str], None] = lambda _: None) -> list[Ended]:
    """How each instance ended."""
    ends = []
    for number in range(instances):
        kind, problem = instance(seed, number)
        try:
            ends.append(check(problem, kind))
        except AssertionError as error:
            raise AssertionError(f"instance {number} of seed {seed} ({kind}): {error}") from error
        if (number + 1) % 100 == 0:
            say(f"{number + 1:>5} instances")
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run drill budgets", description=__doc__)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    check(instance(asked.seed, 0)[1])  # the first solve compiles
    ends = drill(instances=asked.instances, seed=asked.seed, say=lambda text: print(text, file=sys.stderr, flush=True))
    for number, end in enumerate(ends):
        gap = end.allocation.gap
        if end.allocation.status is Status.WITHIN_GAP or end.seconds > 1.0:
            print(f"{number:>5} {end.customers:>4} customers {end.seconds:6.2f} s gap {gap:.1e}  {end.kind}")
    solved = [end for end in ends if end.allocation.status is not Status.INFEASIBLE]
    proved = sum(end.allocation.status is Status.OPTIMAL for end in solved)
    quickly = sum(end.allocation.status is Status.OPTIMAL and end.seconds < 1.0 for end in solved)
    seconds = np.array([end.seconds for end in solved])
    gaps = np.array([end.allocation.gap for end in solved])
    print(f"{len(ends) - len(solved)} of {len(ends)} have no allocation")
    print(f"{proved} of {len(solved)} ({proved / len(solved):.1%}) proved optimal, {quickly} of them within 1 s")
    bands = ", ".join(
        f"above {level:.0e}: {np.count_nonzero(gaps > level)}" for level in (1e-12, 1e-11, 1e-9, 1e-6, 1e-4)
    )
    print(f"largest gap {gaps.max():.1e}; {bands}")
    late = np.quantile(seconds, 0.99)
    print(f"seconds: median {np.median(seconds):.4f}, 99% {late:.3f}, longest {seconds.max():.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["decisions"]:
        import decision_drill

        decision_drill.main(sys.argv[2:])
    else:
        main()
