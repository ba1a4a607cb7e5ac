"""Budgets of few customers: each way of searching against all allocations, one by one; exchanges against all sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from disco.allocation import Segments, Status, allocate
from disco.allocation.allocate import solve_problem
from disco.allocation.problem import AllocationProblem, Pennies, read_problem
from disco.allocation.small import search
from disco.allocation.small.exchanges import best_sum, list_exchanges, near_sums
from disco.allocation.small.lists import Meeting
from disco.allocation.small.options import Core, Nodes


def _tiny(number: int) -> AllocationProblem:
    """Seven customers, two depths: own values or in proportion, floors and segments now and then."""
    rng = np.random.default_rng([7, number])
    customers, columns = 7, 2
    basket = rng.lognormal(3.0, 1.0, customers)[:, None]
    depth = np.array([0.1, 0.3])
    costs = basket * depth
    values = 3.0 * costs * np.array([1.0, 0.8]) if number % 2 else basket * rng.uniform(0.1, 0.5, (customers, columns))
    caps = rng.integers(1, 5, columns)
    floors = np.minimum(caps, [1, 0]) if number % 3 == 0 else None
    segments = None
    if number % 4 == 1:
        labels = np.arange(customers) % 2
        segments = Segments(labels, {0: {"caps": [2, 1]}})
    budget = float(rng.uniform(0.1, 0.6) * costs.max(axis=1).sum())
    return read_problem(
        values, caps, costs=costs, budget=budget, floors=floors, segments=segments, ids=np.arange(customers)
    )


def _best_of_all(problem: AllocationProblem) -> float:
    """The value of the best allocation within all limits; -∞: there is none."""
    limits, rows = problem.limits, np.arange(problem.customers)
    assert problem.costs is not None
    assert limits.budget is not None
    best = -np.inf
    for choice in itertools.product(range(-1, problem.columns), repeat=problem.customers):
        chosen = np.array(choice)
        given = chosen >= 0
        if problem.costs[chosen[given], rows[given]].sum() > limits.budget:
            continue
        counts = np.bincount(chosen[given], minlength=problem.columns)
        if (counts > limits.caps).any() or (counts < limits.floors).any():
            continue
        if limits.segment is not None and limits.segment_caps is not None:
            for group, most in enumerate(limits.segment_caps):
                own = chosen[given & (limits.segment == group)]
                if (np.bincount(own, minlength=problem.columns) > most).any():
                    break
            else:
                best = max(best, problem.values[chosen[given], rows[given]].sum())
            continue
        best = max(best, problem.values[chosen[given], rows[given]].sum())
    return float(best)


@pytest.mark.parametrize(
    ("brief", "thorough"),
    [
        (100_000, 3_500_000),
        (4, 10_000),  # next to no room at first: customers between the lists, branching, then thoroughly
        (4, 4),  # next to no room at all: mostly branching
    ],
)
def test_each_way_of_searching_finds_the_best_of_all(
    monkeypatch: pytest.MonkeyPatch, brief: int, thorough: int
) -> None:
    monkeypatch.setattr(search, "_BRIEF_STATES", brief)
    monkeypatch.setattr(search, "_THOROUGH_STATES", thorough)
    solved = 0
    for number in range(12):
        problem = _tiny(number)
        found = solve_problem(problem)
        best = _best_of_all(problem)
        if found.status is Status.INFEASIBLE:
            assert best == -np.inf
            continue
        assert found.value == pytest.approx(best, rel=1e-12)
        assert found.bound >= best * (1.0 - 1e-12)
        assert found.status is Status.OPTIMAL
        solved += 1
    assert solved >= 8


def test_the_order_of_rows_changes_nobodys_depth_in_a_small_budget() -> None:
    rng = np.random.default_rng(3)
    customers = 90
    costs = rng.lognormal(3.0, 0.8, customers)[:, None] * np.array([0.1, 0.2, 0.3])
    values = 2.0 * costs * np.array([1.0, 0.9, 0.8])
    ids = rng.permutation(customers)
    order = rng.permutation(customers)
    caps, budget = [20, 15, 10], 0.3 * float(costs[:, 2].sum())
    one = solve_problem(read_problem(values, caps, costs=costs, budget=budget, ids=ids))
    other = solve_problem(read_problem(values[order], caps, costs=costs[order], budget=budget, ids=ids[order]))
    np.testing.assert_array_equal(one.choice[order], other.choice)


def _random_core(number: int) -> tuple[Core, Nodes, int, float]:
    """Eight customers, up to three places, two limits: (customers, limits, budget, its price)."""
    rng = np.random.default_rng([11, number])
    opened, places, rate = 8, 3, 2.0
    options = rng.integers(2, places + 1, opened)
    cost = rng.integers(1, 1_000, (opened, places))
    cost[:, 0] = 0
    loss = np.where(rng.random((opened, places)) < 0.5, 0, rng.integers(0, 300, (opened, places))).astype(np.float64)
    loss[:, 0] = 0.0
    worth = (rate * cost - loss).astype(np.int64)
    counted = np.zeros((opened, places, 2), np.int64)
    counted[:, 1, 0], counted[:, 2, 1] = 1, 1
    word = counted[:, :, 0] + (counted[:, :, 1] << 8)
    possible = np.arange(places)[None, :, None] < options[:, None, None]
    most = np.where(possible, counted, 0).max(axis=1)
    nodes = Nodes(np.array([0, 8]), np.array([255, 255]), np.array([1, 0]), np.array([4, 2]), np.zeros(2))
    tie = rng.integers(1, 2**40, (opened, places))
    tie[:, 0] = 0
    price = np.zeros((opened, places))
    core = Core(options, np.tile(np.arange(places), (opened, 1)), worth, cost, tie, loss, price, word, most)
    return core, nodes, int(rng.integers(500, 3_000)), rate


@pytest.mark.parametrize("room", [10_000, 6, 2])
@pytest.mark.parametrize("number", range(8))
def test_two_lists_that_meet_find_the_best_of_all(number: int, room: int) -> None:
    core, nodes, budget, rate = _random_core(number)
    allowed = 900.0
    best = None
    for chosen in itertools.product(*(range(options) for options in core.options)):
        rows, options = np.arange(core.options.size), np.array(chosen)
        word = int(core.word[rows, options].sum())
        cost, worth = int(core.cost[rows, options].sum()), int(core.worth[rows, options].sum())
        lost = float(core.loss[rows, options].sum()) + rate * (budget - cost)
        if cost <= budget and 1 <= word % 256 <= 4 and word >> 8 <= 2 and lost <= allowed:
            best = max(best or (0, 0), (worth, int(core.tie[rows, options].sum())))
    meeting = Meeting.of(core, nodes, budget, rate, allowed, room)
    assert meeting is not None
    found = meeting.joined(budget, math.inf, 10_000)
    assert found.complete
    if best is None:
        assert found.options is None
        return
    assert found.options is not None
    rows = np.arange(core.options.size)
    assert int(core.cost[rows, found.options].sum()) == found.cost <= budget
    assert (int(core.worth[rows, found.options].sum()), int(core.tie[rows, found.options].sum())) == best


def test_lists_know_more_options_than_a_byte_has_numbers() -> None:
    """Three customers with 200 depths, each worth three times what it costs: every budget up to 600 is spent."""
    costs = np.tile(np.arange(1.0, 201.0), (3, 1))
    for budget in (250.0, 333.0, 401.0):
        found = allocate(3.0 * costs, [None] * 200, costs=costs, budget=budget, ids=np.arange(3))
        assert (found.value, found.cost, found.status) == (3.0 * budget, budget, Status.OPTIMAL)


def test_a_budget_that_is_met_exactly_is_found_among_costs_far_above_it() -> None:
    """Sums of floats lose whole grid units here: costs of both signs up to 2**57 leave a budget of a few."""
    missed = 0
    for number in range(60):
        rng = np.random.default_rng([17, number])
        core, nodes, _, rate = _random_core(number)
        cost = rng.integers(1, 2**57, core.cost.shape) * rng.choice([-1, 1], core.cost.shape)
        cost[:, 0] = 0
        rows, chosen = np.arange(core.options.size), np.array([int(rng.integers(0, size)) for size in core.options])
        chosen[-1] = 1
        cost[-1, 1] = int(rng.integers(0, 9)) - int(cost[rows[:-1], chosen[:-1]].sum())
        counts = np.bincount(chosen, minlength=3)[1:]
        nodes = nodes._replace(low=counts, high=counts)
        core = core._replace(cost=cost, worth=np.rint(rate * cost - core.loss).astype(np.int64))
        budget = int(cost[rows, chosen].sum())
        allowed = float(core.loss.max() * core.options.size + 2.0**40)  # what the chosen ones lose, and rounding
        meeting = Meeting.of(core, nodes, budget, rate, allowed, (10_000, 6)[number % 2])
        assert meeting is not None
        found = meeting.joined(budget, math.inf, 10_000)
        assert found.complete
        missed += found.options is None or int(core.worth[rows, found.options].sum()) < int(
            core.worth[rows, chosen].sum()
        )
    assert missed == 0


def test_exchanges_are_all_those_that_move_as_many_either_way() -> None:
    rng = np.random.default_rng(5)
    change = rng.integers(-1_000, 1_000, 7)
    sign = np.array([1, 1, -1, -1, -1, 0, 0])
    kind = np.array([0, 0, 0, 0, 0, 1, 1])
    many = np.array([False, False, True, True, True, False, True])
    costs, masks = list_exchanges(change, kind, sign, many, 1_000)
    expected = {}
    for bits in range(2**7):
        moved = np.array([(bits >> at) & 1 for at in range(7)], bool)
        if sign[moved].sum() == 0:
            expected[bits] = int(change[moved].sum())
    assert dict(zip(masks.tolist(), costs.tolist(), strict=True)) == expected
    assert (np.diff(costs) >= 0).all()


def test_sums_near_an_amount_are_the_nearest_and_the_best_is_the_largest_not_above_it() -> None:
    rng = np.random.default_rng(6)
    one, other = np.sort(rng.integers(-10_000, 10_000, 40)), np.sort(rng.integers(-10_000, 10_000, 50))
    every = np.sort((one[:, None] + other[None, :]).ravel())
    sums, first, second = near_sums(one, other, 1_234, 300)
    np.testing.assert_array_equal(sums, one[first] + other[second])
    assert 100 <= sums.size <= 300
    away = np.abs(every - 1_234)
    assert np.abs(sums - 1_234).max() <= np.sort(away)[sums.size - 1]
    i, j = best_sum(one, other, 777)
    assert one[i] + other[j] == every[every <= 777].max()
    assert best_sum(one, other, int(every[0]) - 1) == (-1, -1)


def test_sums_of_pennies_are_within_the_budget_as_decimals_are() -> None:
    for number in range(40):
        rng = np.random.default_rng([number, 100])
        customers = int(rng.integers(3, 60))
        costs = np.round(rng.lognormal(0.0, 2.0, (2, customers)), 2)
        met = np.where(rng.random(customers) < 0.5, 0, -1)
        budget = round(float(costs[0][met == 0].sum()), 2)
        pennies = Pennies.of(costs, budget)
        assert pennies is not None
        assert Pennies.of(costs, pennies.allowed) == pennies
        numbers = pennies.counted(costs)
        for choice in [met, *rng.integers(-1, 2, (10, customers))]:
            chosen = [(int(column), row) for row, column in enumerate(choice) if column >= 0]
            within = sum((Fraction(str(costs[cell])) for cell in chosen), Fraction(0)) <= Fraction(str(budget))
            assert (sum(int(numbers[cell]) for cell in chosen) <= pennies.budget) == within
            assert (sum(float(costs[cell]) for cell in chosen) <= pennies.allowed) == within


def test_a_budget_is_met_to_the_penny_where_floats_exceed_it_in_the_last_bit() -> None:
    assert 0.1 + 0.2 > 0.3
    found = allocate([[5.0], [5.0]], [None], costs=[[0.1], [0.2]], budget=0.3)
    assert (found.counts.tolist(), found.status) == ([2], Status.OPTIMAL)
    assert allocate([[5.0], [5.0]], [None], costs=[[0.1], [0.21]], budget=0.3).counts.tolist() == [1]
    three = {"costs": np.full((3, 1), 1.1), "floors": [3]}
    assert math.fsum([1.1, 1.1, 1.1]) > 3.3
    assert allocate(np.ones((3, 1)), [None], budget=3.3, **three).counts.tolist() == [3]
    short = allocate(np.ones((3, 1)), [None], budget=3.29, **three)
    assert short.status is Status.INFEASIBLE
    assert "Raise the budget from 3.29 to 3.30" in str(short.conflicts[0])


def test_what_the_budget_cannot_pay_says_nothing_about_its_decimals() -> None:
    for dear in (100.0 + 1.0 / 3.0, 1e15):
        found = allocate([[5.0], [4.0], [9.0]], None, costs=[[0.1], [0.2], [dear]], budget=0.3)
        assert (found.value, found.status) == (9.0, Status.OPTIMAL)


def test_a_conflict_names_the_budget_as_it_was_given() -> None:
    found = allocate(np.ones((3, 1)), None, costs=np.full((3, 1), 2.0), budget=2.5, floors=[3])
    assert "Raise the budget from 2.50 to 6.00" in str(found.conflicts[0])


def test_budgets_in_pennies_are_those_of_whole_numbers() -> None:
    for number in range(12):
        rng = np.random.default_rng([number, 101])
        customers = int(rng.integers(2, 60))
        minor = rng.integers(1, 2_000, (customers, 3))
        values = rng.lognormal(2.0, 1.0, (customers, 3)) + minor / 50
        caps, largest = [customers // 2 + 1, None, customers // 3 + 1], int(minor.max(axis=1).sum())
        budget = int(rng.integers(100, largest + 1))
        money = allocate(values, caps, costs=minor / 100, budget=budget / 100)
        whole = allocate(values, caps, costs=minor.astype(float), budget=float(budget))
        assert money.value == pytest.approx(whole.value, rel=1e-9)
        assert money.status is whole.status


def test_costs_with_many_digits_are_not_pennies() -> None:
    assert Pennies.of(np.array([[0.1, 1.0 / 3.0]]), 1.0) is None
