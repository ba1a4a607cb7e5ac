"""The short form of `./run drill allocation`, and proof that it can fail."""

from dataclasses import replace

import pytest
from allocation_drill import check, drill, instance

from disco.allocation import Allocation
from disco.allocation.allocate import solve_problem
from disco.allocation.problem import AllocationProblem


def test_random_limits_are_solved_as_highs_solves_them() -> None:
    ends = drill(instances=24, seed=2)  # the same instances every time; the drill itself takes others
    assert ends.total() == 24
    for kind in ("floors", "segments", "budget", "eligible"):
        assert any(kind in end for end in ends), kind
    assert sum(times for end, times in ends.items() if "every route" in end) > 12


def test_a_value_that_is_not_the_optimum_ends_the_drill() -> None:
    def careless(problem: AllocationProblem) -> Allocation:
        found = solve_problem(problem)
        return replace(found, value=found.value * (1.0 - 1e-6))

    _, problem = instance(2, 0)
    with pytest.raises(AssertionError, match="below the optimum"):
        check(problem, solve=careless)
