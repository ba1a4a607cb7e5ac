"""What a hostile table or a careless caller could do: each case once gave a wrong answer, a crash or no answer."""

import math

import numpy as np
import pytest

from disco.allocation import Segments, Status, allocate, frontier, paths, solve
from disco.allocation.limits import Tree, tree_of
from disco.allocation.problem import read_problem
from disco.allocation.table import TableInMemory
from disco.records.errors import LimitError


def table(customers: int, depths: int = 3, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0.0, 1.0, (customers, depths))


@pytest.mark.parametrize("customers", [5, 150, 1_000, 20_000])
@pytest.mark.parametrize("price", [1e300, -1e300, 1e12, -3.0])
def test_nonsense_as_a_warm_start_changes_nothing(customers, price):
    values, caps = table(customers), [customers // 5] * 3
    cold = allocate(values, caps)
    warm = allocate(values, caps, warm_prices=[price] * 3)
    assert (warm.choice == cold.choice).all()
    assert (warm.prices == cold.prices).all()
    assert warm.status is Status.OPTIMAL


@pytest.mark.parametrize("customers", [5, 1_000, 20_000])
@pytest.mark.parametrize("floors", [None, [1, 0, 0]])
def test_what_stands_in_an_ineligible_cell_does_not_matter(customers, floors):
    values, caps = table(customers), [customers // 5] * 3
    eligible = np.random.default_rng(1).random(values.shape) < 0.7
    eligible[:3, 0] = True
    eligible[3, 1] = False
    plain = allocate(values, caps, eligible=eligible, floors=floors)
    values[3, 1] = 1e300
    with_sentinel = allocate(values, caps, eligible=eligible, floors=floors)
    assert with_sentinel.status is Status.OPTIMAL
    assert (with_sentinel.choice == plain.choice).all()
    costs = np.where(eligible, 1.0, 1e300)
    within = allocate(values, caps, eligible=eligible, floors=floors, costs=costs, budget=2.0)
    assert within.cost == 2.0
    assert within.value > 0.0


@pytest.mark.parametrize("customers", [10, 300, 5_000, 60_000])
def test_a_budget_that_is_met_to_the_last_bit(customers):
    values, costs = table(customers), table(customers, seed=1)
    caps = [customers // 5] * 3
    free = allocate(values, caps, costs=costs)
    assert (allocate(values, caps, costs=costs, budget=free.cost).choice == free.choice).all()
    short = np.nextafter(free.cost, 0.0)
    assert allocate(values, caps, costs=costs, budget=short).cost <= short
    taken = allocate(-costs, caps, floors=caps).choice
    rows = np.flatnonzero(taken >= 0)
    least = math.fsum(costs[rows, taken[rows]])
    tight = allocate(values, caps, floors=caps, costs=costs, budget=least)
    assert tight.status is not Status.INFEASIBLE
    assert tight.cost <= least


def test_single_precision_costs_meet_a_budget_in_double_precision():
    costs = np.full((3, 1), 0.1, np.float32)  # a little more than 0.1
    assert allocate(np.ones((3, 1)), [None], costs=costs, budget=0.1).choice.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("customers", [5, 3_000])
def test_segments_without_limits_are_no_segments(customers):
    values, caps = table(customers), [customers // 5] * 3
    nothing = Segments(np.arange(customers) % 2, {})
    assert (allocate(values, caps, segments=nothing).choice == allocate(values, caps).choice).all()


def test_nobody_with_a_second_choice():
    # one depth each, values that tie, and a start above all of them: Newton has no direction to go
    values = np.random.default_rng(2).integers(-2, 6, (2_000, 3)).astype(float)
    eligible = np.arange(3) == (np.arange(2_000) % 3)[:, None]
    result = allocate(values, [500, None, None], floors=[0, 0, 1], eligible=eligible, warm_prices=[5.0] * 3)
    best = np.where(eligible, np.maximum(values, 0.0), 0.0)
    assert result.value == np.sort(best[:, 0])[::-1][:500].sum() + best[:, 1:].sum()
    assert result.status is Status.OPTIMAL


def test_amounts_too_small_to_be_money_count_as_nothing():
    result = allocate([[5e-324, 1e-310]], [1, 1])
    assert result.status is Status.OPTIMAL
    assert result.gap == 0.0


def test_a_depth_named_twice_is_refused():
    with pytest.raises(LimitError, match="twice"):
        allocate(np.ones((2, 1)), {"0.1": 1, "0.10": 2}, depths=[0.1])


@pytest.mark.parametrize("proportional", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_budget_where_a_whole_depth_becomes_worthless_at_one_price(proportional, share):
    # value 3 R - C and cost C of one basket: at λ = 3 / depth - 4 nobody wants that depth any more
    rng = np.random.default_rng(3)
    depth = np.linspace(0.05, 0.4, 8)
    engagement = 0.02 + 0.1 * depth
    basket = np.exp(3.65 + 0.5 * rng.standard_normal((60_000, 1)))
    if not proportional:
        basket = basket * np.exp(0.7 * depth + 0.05 * rng.standard_normal((60_000, 8)))
    costs = np.asfortranarray(basket * depth * engagement)
    values = np.asfortranarray(3.0 * basket * (1.0 - depth) * engagement - costs)
    caps = np.full(8, 6_000)
    budget = share * allocate(values, caps, costs=costs).cost
    result = allocate(values, caps, costs=costs, budget=budget)
    assert result.cost <= budget
    assert result.gap <= 5e-6
    order = rng.permutation(60_000)
    other = allocate(values[order], caps, costs=costs[order], budget=budget, ids=order)
    assert (other.choice == result.choice[order]).all()


@pytest.mark.parametrize("budget", [1e308, 1.7e308])
def test_a_budget_without_bounds_is_no_budget(budget):
    values, costs = [[8.0, 9.0], [3.0, 5.0]], [[1.0, 3.0], [1.0, 2.0]]
    free = frontier(values, costs, [1, 1], revenue_weights=[3.0])
    bounded = frontier(values, costs, [1, 1], revenue_weights=[3.0], budgets=[budget])
    assert [(point.revenue, point.markdown) for point in bounded] == [(point.revenue, point.markdown) for point in free]


@pytest.mark.parametrize("customers", [4, 200, 5_000])
@pytest.mark.parametrize("largest", [1e12, 1e15, 1e18])
def test_a_cell_beyond_the_grid_is_never_called_optimal_without_being_so(customers, largest):
    values, caps = table(customers), [customers // 4, customers // 4, 0]
    without = allocate(values[:, :2], caps[:2])
    values[customers // 2, 2] = largest  # nobody may have it
    result = allocate(values, caps)
    assert result.bound >= without.value * (1 - 1e-12)
    if result.status is Status.OPTIMAL:
        assert result.value == pytest.approx(without.value, rel=1e-11)


def test_a_pass_of_tied_values_is_not_repeated_around_the_same_prices(monkeypatch):
    """The rule settles more customers than a limit allows: no other prices are found."""
    table_ = TableInMemory(read_problem(np.round(table(9_000)), [2_000] * 3), 0.0)
    passes = []
    screen = TableInMemory.screen
    monkeypatch.setattr(TableInMemory, "screen", lambda *given, **more: passes.append(given) or screen(*given, **more))
    monkeypatch.setattr(Tree, "left_after", lambda tree, counts: (tree.low, np.full(tree.nodes, -1)))
    placed, _ = solve._by_ties(table_.keyed(), tree_of(table_.problem.limits), None)
    assert placed is None
    assert len(passes) == 1


def test_interpreted_moves_are_the_fewer_the_more_limits_there_are(monkeypatch):
    """Each move looks at all pairs of limits; a call must end before the patience of a person has."""

    class Patient:
        def __init__(self) -> None:
            self.steps: list[int] = []

        def is_patient(self) -> bool:
            return True

        def __call__(self, network: paths.Network, steps: int) -> int:
            self.steps.append(steps)
            return 0

    asked = []
    for segments in (1, 30):
        monkeypatch.setattr(paths, "_search", Patient())
        labels = np.arange(300) % segments
        limits = Segments(labels, {label: {"caps": [5] * 8} for label in range(segments)})
        problem = read_problem(table(300, 8), [20] * 8, segments=limits)
        solve.solve(problem)
        asked += paths._search.steps
    assert asked == [64, 2**18 // tree_of(problem.limits).nodes ** 2]
