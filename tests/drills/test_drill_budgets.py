"""The short form of `./run drill budgets`, and proof that it can fail."""

from dataclasses import replace

import numpy as np
import pytest
from budget_drill import check, instance, recomputed

from disco.allocation import Status
from disco.allocation.allocate import solve_problem
from disco.allocation.highs import solve_with_highs


def test_small_budgets_are_proved_and_truly_what_they_say() -> None:
    ends = [check(instance(2, number)[1]) for number in range(20)]  # the drill itself takes others, and more
    solved = [end.allocation for end in ends if end.allocation.status is not Status.INFEASIBLE]
    assert len(solved) > 15
    proved = sum(one.status is Status.OPTIMAL for one in solved)
    assert proved >= 0.9 * len(solved)  # 4% were, when budgets were filled and not finished
    assert all(one.gap < 1e-3 for one in solved)


def test_small_budgets_are_no_worse_than_those_of_highs() -> None:
    """HiGHS keeps a budget within its tolerance, and so may be a little above what keeps it to the last bit."""
    compared = 0
    for number in (3, 4, 8, 13, 18):  # kinds that HiGHS solves quickly
        _, problem = instance(3, number)
        if problem.customers > 200:
            continue
        ours, theirs = solve_problem(problem), solve_with_highs(problem)
        assert (ours.status is Status.INFEASIBLE) == (theirs.status is Status.INFEASIBLE)
        if ours.status is Status.INFEASIBLE:
            continue
        assert ours.value >= theirs.value - 1e-6 * abs(theirs.value) - (ours.bound - ours.value)
        assert ours.bound >= theirs.value - 1e-9 * abs(theirs.value)
        compared += 1
    assert compared


def test_a_budget_that_is_exceeded_by_one_code_is_noticed() -> None:
    _, problem = instance(2, 0)
    found = solve_problem(problem)
    assert problem.costs is not None
    more = found.choice.copy()
    idle = np.flatnonzero(more < 0)
    more[idle] = 0
    with pytest.raises(AssertionError):
        recomputed(problem, more)


def test_a_wrong_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import budget_drill

    _, problem = instance(2, 1)
    found = solve_problem(problem)
    monkeypatch.setattr(budget_drill, "solve_problem", lambda _: replace(found, value=found.value * (1.0 + 1e-9)))
    with pytest.raises(AssertionError, match="value"):
        check(problem)
