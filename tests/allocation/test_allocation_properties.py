"""What prices mean, what the certificate refuses, who gets a late code, how the frontier runs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.adapters.engines.local import LocalEngine
from disco.allocation import Segments, Status, allocate, certificate, decide_late, frontier
from disco.allocation.certificate import certify
from disco.allocation.highs import solve_with_highs
from disco.allocation.problem import read_problem
from disco.records.errors import CertificateError, InputError, UsageError


def table(seed: int, rows: int, columns: int, *, whole: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, (rows, columns)).astype(float) if whole else rng.lognormal(1.0, 0.8, (rows, columns))


tables = st.builds(table, st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 5), whole=st.booleans())


@settings(max_examples=150, deadline=None)
@given(tables, st.data())
def test_price_lies_between_the_worth_of_the_next_code_and_of_the_last(values, data):
    columns = values.shape[1]
    caps = np.array([data.draw(st.integers(0, len(values))) for _ in range(columns)])
    result = allocate(values, caps)
    tolerance = 1e-9 * max(1.0, result.value)
    for column in range(columns):
        step = np.eye(columns, dtype=int)[column]
        assert allocate(values, caps + step).value - result.value <= result.prices[column] + tolerance
        if caps[column] > 0:
            assert result.prices[column] <= result.value - allocate(values, caps - step).value + tolerance


crowds = st.builds(table, st.integers(0, 10**6), st.integers(60, 150), st.integers(1, 5), whole=st.booleans())


@settings(max_examples=20, deadline=None)
@given(crowds, st.data())
def test_a_looser_limit_never_lowers_the_value_by_more_than_the_gap(values, data):
    """Nor is its bound below what the tighter one reaches. Bounds of two solves that are not proved optimal need not be
    in order: the search of either may have tightened its own."""
    columns = values.shape[1]
    costs = values * 0.3 + 0.1
    caps = np.array([data.draw(st.integers(0, len(values))) for _ in range(columns)])
    budget = data.draw(st.floats(0.0, float(costs.sum())))
    tight = allocate(values, caps, costs=costs, budget=budget)
    for looser in (
        allocate(values, caps + 1, costs=costs, budget=budget),
        allocate(values, caps, costs=costs, budget=budget * 1.1 + 0.1),
    ):
        rounding = 1e-9 * max(1.0, abs(tight.bound))
        assert looser.bound >= tight.value - rounding
        assert looser.value >= tight.value - (looser.bound - looser.value) - rounding


def test_certificate_refuses_what_is_wrong():
    values = np.array([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]])
    problem = read_problem(values, [2, 1], eligible=np.array([[True, True], [False, True], [True, True]]))
    prices = np.array([0.0, 2.0])
    with pytest.raises(CertificateError, match="limits"):
        certify(problem, np.array([1, 1, 0]), prices)
    with pytest.raises(CertificateError, match="eligible"):
        certify(problem, np.array([0, 0, -1]), prices)
    with pytest.raises(CertificateError, match="eligible"):
        certify(problem, np.array([0, 7, -1]), prices)
    with pytest.raises(CertificateError, match="shape"):
        certify(problem, np.array([0, 1]), prices)
    worse = certify(problem, np.array([0, 1, -1]), prices)
    assert worse.status is Status.WITHIN_GAP
    assert worse.bound == 16.0
    assert worse.gap == pytest.approx(4 / 16)
    with pytest.raises(CertificateError, match="budget"):
        certify(read_problem(values, [2, 1], costs=values, budget=10.0), np.array([0, 1, 0]), prices, budget_price=0.0)


def test_bound_holds_at_any_prices():
    rng = np.random.default_rng(0)
    values = rng.normal(1.0, 1.0, (50, 3))
    best = allocate(values, [10, 5, 20]).value
    problem = read_problem(values, [10, 5, 20])
    for _ in range(50):
        assert certify(problem, np.full(50, -1), rng.exponential(1.0, 3)).bound >= best - 1e-12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certificate_sums_exactly_whatever_the_chunks_and_threads(dtype, monkeypatch):
    rng = np.random.default_rng(3)
    values = (rng.lognormal(0.0, 4.0, (9000, 5)) * rng.choice([-1.0, 1.0], (9000, 5))).astype(dtype)
    costs = rng.lognormal(0.0, 3.0, (9000, 5))
    eligible = rng.random((9000, 5)) < 0.9
    choice = rng.integers(-1, 5, 9000).astype(np.int16)
    rows = np.flatnonzero(choice >= 0)
    choice[rows[~eligible[rows, choice[rows]]]] = -1
    rows = np.flatnonzero(choice >= 0)
    prices, rate = rng.exponential(1.0, 5), 0.25
    problem = read_problem(values, [9000] * 5, costs=costs, budget=1e9, eligible=eligible)
    net = np.where(eligible, values.astype(np.float64) - prices - rate * costs, -np.inf)
    own = np.zeros(9000)
    own[rows] = net[rows, choice[rows]]
    left = [Fraction(x) for x in (np.maximum(net.max(axis=1), 0.0) - own).tolist()]
    value = float(sum(map(Fraction, values[rows, choice[rows]].tolist())))
    cost = float(sum(map(Fraction, costs[rows, choice[rows]].tolist())))
    counts = np.bincount(choice[rows], minlength=5)
    lost = float(sum(left)) + float((prices * (9000 - counts)).sum()) + rate * (1e9 - cost)
    for chunk, engine in ((262_144, None), (2500, None), (700, LocalEngine(threads=3))):
        monkeypatch.setattr(certificate, "CHUNK", chunk)
        found = certify(problem, choice, prices, budget_price=rate, engine=engine)
        assert (found.value, found.cost, found.counts.tolist()) == (value, cost, counts.tolist())
        assert found.bound == value + lost


def test_late_arrivals_get_what_the_solve_would_have_given():
    values = np.random.default_rng(1).lognormal(1.0, 0.7, (2000, 4))
    result = allocate(values, [200, 150, 100, 50])
    agree = [
        decide_late(row, result.prices, [1, 1, 1, 1]) == took for row, took in zip(values, result.choice, strict=True)
    ]
    assert sum(agree) >= 2000 - 4  # only the customers on whom the prices hang may differ
    row = np.array([5.0, 6.0])
    assert decide_late(row, [1.0, 1.0], [5, 5]) == 1
    assert decide_late(row, [1.0, 1.0], [5, 0]) == 0
    assert decide_late(row, [5.0, 6.0], [5, 5]) == -1
    assert decide_late(row, [0.0, 0.0], [5, 5], eligible=[True, False]) == 0
    assert decide_late(row, [0.0, 0.0], [5, 5], costs=[1.0, 3.0], budget_price=1.0) == 0
    assert decide_late(row, [0.0, 0.0], [5, 5], costs=[1.0, 3.0], remaining_budget=2.0) == 0
    with pytest.raises(InputError):
        decide_late([np.nan, 1.0], [0.0, 0.0], [1, 1])
    with pytest.raises(InputError):
        decide_late([1.0], [0.0, 0.0], [1, 1])


def test_frontier_trades_markdown_for_revenue():
    rng = np.random.default_rng(2)
    markdown = rng.lognormal(0.0, 0.5, (400, 3)) * [1.0, 2.0, 3.0]
    revenue = markdown * rng.lognormal(0.5, 0.5, (400, 3)) + 1.0
    by_weight = frontier(revenue, markdown, [100, 100, 100], revenue_weights=[0.5, 1.0, 2.0, 8.0])
    spent = [point.markdown for point in by_weight]
    assert spent == sorted(spent)
    for point in by_weight:
        alone = allocate(point.revenue_weight * revenue - markdown, [100, 100, 100])
        assert point.value == pytest.approx(alone.value, rel=1e-12)
        assert point.value == pytest.approx(point.revenue_weight * point.revenue - point.markdown)
    by_budget = frontier(revenue, markdown, [100, 100, 100], revenue_weights=[2.0], budgets=[0.0, 50.0, 200.0, None])
    assert [point.markdown <= (point.budget or np.inf) for point in by_budget] == [True] * 4
    worth = [point.value for point in by_budget]
    assert worth == sorted(worth)
    with pytest.raises(UsageError):
        frontier(revenue, markdown, [1, 1, 1], revenue_weights=[1, 2], budgets=[1, 2])


def test_conflicts_name_the_limits_and_the_smallest_way_out():
    values = np.ones((10, 3))
    depths = [0.1, 0.2, 0.3]
    (conflict,) = allocate(values, [5, 5, 5], floors=[5, 4, 4], depths=depths).conflicts
    assert conflict.limits == ("floor 5 of depth 0.1", "floor 4 of depth 0.2", "floor 4 of depth 0.3")
    assert conflict.change == "Lower the floor of depth 0.2 from 4 to 1"  # 13 asked of 10: three fewer, of any
    eligible = np.ones((10, 3), bool)
    eligible[3:, 0] = False
    (conflict,) = allocate(values, [5, 5, 5], floors=[4, 0, 0], depths=depths, eligible=eligible).conflicts
    assert conflict.limits == ("floor 4 of depth 0.1",)
    assert "3 eligible" in conflict.found
    assert conflict.change == "Lower the floor of depth 0.1 from 4 to 3"
    segments = Segments(["a"] * 5 + ["b"] * 5, {"a": {"caps": [1, 1, 1]}, "b": {"caps": [2, None, None]}})
    (conflict,) = allocate(values, [5, 5, 5], floors=[4, 0, 0], depths=depths, segments=segments).conflicts
    assert conflict.change is not None
    assert "cap 1 of depth 0.1 in segment 'a'" in conflict.limits
    # what it proposes does
    segments = Segments(["a"] * 5 + ["b"] * 5, {"a": {"caps": [2, 1, 1]}, "b": {"caps": [2, None, None]}})
    assert allocate(values, [5, 5, 5], floors=[4, 0, 0], segments=segments).status is Status.OPTIMAL


def test_a_floor_above_its_own_cap_is_a_conflict():
    values, depths = np.ones((10, 2)), [0.1, 0.2]
    for budget in ({}, {"costs": np.ones((10, 2)), "budget": 9.0}):
        result = allocate(values, [1, 5], floors=[3, 0], depths=depths, **budget)
        assert result.status is Status.INFEASIBLE
        (conflict,) = result.conflicts
        assert set(conflict.limits) == {"floor 3 of depth 0.1", "cap 1 of depth 0.1"}
        assert conflict.found == "the floor is above its own cap"
        assert conflict.change == "Raise the cap of depth 0.1 from 1 to 3"
    segments = Segments(np.array(["a"] * 5 + ["b"] * 5), {np.str_("b"): {"caps": [1, 1], "floors": [2, 0]}})
    (conflict,) = allocate(values, None, segments=segments, depths=depths).conflicts
    assert conflict.change == "Raise the cap of depth 0.1 in segment 'b' from 1 to 2"


def test_a_conflict_counts_the_customers_of_its_segments():
    segments = Segments(["a"] * 7 + ["b"] * 3, {"b": {"floors": [4, 0]}})
    (conflict,) = allocate(np.ones((10, 2)), None, segments=segments).conflicts
    assert conflict.found == "cannot hold with 3 eligible customers"
    (conflict,) = allocate(np.ones((10, 2)), [2, None], segments=segments).conflicts
    assert conflict.found == "cannot hold with 3 eligible customers"


def test_a_way_out_of_a_conflict_is_one_that_the_budget_pays():
    """Ten customers, eleven wanted; each costs 1, and the budget pays for eight of them."""
    values, costs = np.ones((10, 2)), np.ones((10, 2))
    result = allocate(values, None, floors=[7, 4], costs=costs, budget=8.0)
    (conflict,) = result.conflicts
    assert conflict.change == "Lower the floor of column 1 from 4 to 1"  # one fewer would do without the budget
    assert allocate(values, None, floors=[7, 1], costs=costs, budget=8.0).status is Status.OPTIMAL
    assert allocate(values, None, floors=[7, 2], costs=costs, budget=8.0).status is Status.INFEASIBLE
    (conflict,) = allocate(values, None, floors=[7, 4], costs=costs, budget=3.0).conflicts
    assert conflict.change is None  # without either floor, the other still costs more


def test_the_reference_solver_explains_conflicts_too():
    problem = read_problem(np.ones((3, 2)), None, floors=[2, 2])
    assert solve_with_highs(problem).conflicts == allocate(np.ones((3, 2)), None, floors=[2, 2]).conflicts


def test_budget_conflict_names_a_budget_that_would_do():
    values, costs = np.ones((10, 2)), np.full((10, 2), 0.1)
    result = allocate(values, [5, 5], floors=[3, 4], costs=costs, budget=0.45, depths=[0.1, 0.2])
    assert result.status is Status.INFEASIBLE
    (conflict,) = result.conflicts
    assert "Raise the budget from 0.45 to 0.70" in conflict.change
    assert "lower the floor of depth 0.1 from 3 to 0" in conflict.change
    assert allocate(values, [5, 5], floors=[3, 4], costs=costs, budget=0.70).status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(6))
def test_the_floor_that_a_budget_conflict_names_is_the_one_to_be_lowered_least(seed):
    """Against every floor lowered one by one, each time with a solve of everybody."""
    rng = np.random.default_rng(seed)
    customers, groups, columns = 60, 3, 2
    labels = np.arange(customers) % groups
    costs = rng.gamma(2.0, 2.0, (customers, columns))
    floors = rng.integers(2, 7, (groups, columns))
    whole = [0, 0] if seed % 2 else [5, 0]

    def least(lowered, depth_floors=whole):
        limits = {group: {"floors": lowered[group].tolist()} for group in range(groups)}
        found = allocate(-costs, [40, 40], floors=depth_floors, segments=Segments(labels, limits))
        return math.fsum(costs[row, column] for row, column in enumerate(found.choice) if column >= 0)

    budget = least(floors) - 0.6
    ways = []
    for group in range(groups):
        for column in range(columns):
            for amount in range(1, floors[group, column] + 1):
                lowered = floors.copy()
                lowered[group, column] -= amount
                if least(lowered) <= budget:
                    was = floors[group, column]
                    place = f"column {column} in segment {group}"
                    ways.append((amount, f"floor {was} of {place}", f"floor of {place} from {was} to {was - amount}"))
                    break
    limits = {group: {"floors": floors[group].tolist()} for group in range(groups)}
    result = allocate(costs, [40, 40], floors=whole, segments=Segments(labels, limits), costs=costs, budget=budget)
    assert result.status is Status.INFEASIBLE
    assert ways
    assert result.conflicts[0].change.endswith(min(ways)[2])
