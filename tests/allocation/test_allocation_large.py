"""Instances too large for a reference: the certificate is the proof, and nothing but the table decides the result."""

import numpy as np
import pytest

from disco.adapters.engines import LocalEngine
from disco.allocation import Status, allocate, budget
from disco.allocation import solve as solver
from disco.allocation import table as tables
from disco.allocation.allocate import solve_problem
from disco.allocation.limits import tree_of
from disco.allocation.problem import read_problem
from disco.allocation.rules import InBox, PriceBox
from disco.allocation.solve import solve, solve_on_grid

PROFILES = ("equal", "below", "far_below", "above", "scarce")


def caps_of(profile: str, customers: int, depths: int) -> np.ndarray:
    """Σ caps equal to, below, far below, above the customers; deep depths scarce."""
    even = {"below": 0.8, "far_below": 0.1, "above": 1.6}
    if profile in even:
        return np.full(depths, int(even[profile] * customers / depths))
    if profile == "scarce":
        return np.array([int(0.9 * customers * 0.5 ** (k + 1)) for k in range(depths)])
    caps = np.full(depths, customers // depths)
    caps[0] += customers - caps.sum()
    return caps


def money(customers: int, depths: int, *, seed: int = 0, proportional: bool = False):
    """(values, markdown): lognormal baskets whose response to depth differs by customer, or does not."""
    rng = np.random.default_rng(seed)
    depth = np.linspace(0.05, 0.05 * depths, depths)
    engagement = 0.02 + 0.1 * depth
    basket = np.exp(3.65 + 0.5 * rng.standard_normal((customers, 1)))
    slope = 0.7 * np.exp(0.35 * rng.standard_normal((customers, 1)))
    if not proportional:
        basket = basket * np.exp(slope * depth + 0.05 * rng.standard_normal((customers, depths)))
    full_price = basket + np.zeros((customers, depths))
    markdown = full_price * depth * engagement
    return np.asfortranarray(3.0 * full_price * (1 - depth) * engagement - markdown), np.asfortranarray(markdown)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("customers", [5_000, 50_000, 500_000])
def test_certified_to_the_last_digits_for_every_profile(profile, customers):
    values, _ = money(customers, 8)
    caps = caps_of(profile, customers, 8)
    result = allocate(values, caps)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-12
    assert (result.counts <= caps).all()
    assert (np.bincount(result.choice[result.choice >= 0], minlength=8) == result.counts).all()


def unequal_caps(kind: str, number: int, customers: int) -> np.ndarray:
    """Caps of eight depths: one tiny cap, each a ratio below the last, or random shares over three orders."""
    if kind == "one tiny cap":
        caps = np.full(8, customers // 8)
        caps[4] = number
        return caps
    if kind == "unequal":
        shares = np.sort(10.0 ** np.random.default_rng(number).uniform(-3.0, 0.0, 8))[::-1]
    else:
        shares = float(number) ** -np.arange(8.0)
    return (0.9 * customers * shares / shares.sum()).astype(np.int64)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("one tiny cap", cap) for cap in (0, 1, 5, 100)]
    + [("geometric", ratio) for ratio in (2, 5, 10)]
    + [("unequal", seed) for seed in range(3)],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_scarce_depth_does_not_send_everybody_to_shortest_paths(kind, number, dtype, monkeypatch):
    values = np.asfortranarray(money(60_000, 8)[0].astype(dtype))
    caps = unequal_caps(kind, number, 60_000)
    problem = read_problem(values, caps)
    slow = solve_on_grid(problem, tree_of(problem.limits))
    most = []
    route_from = solver.route_from

    def counted(worth, *arguments):
        most.append(len(worth))
        return route_from(worth, *arguments)

    def everybody(*_, **__):
        raise AssertionError("the boxes did not hold")

    monkeypatch.setattr(solver, "route_from", counted)
    monkeypatch.setattr(solver, "solve_on_grid", everybody)
    found = solver.solve(problem)
    assert max(most) <= 4_000
    assert (found.choice == slow.choice).all()
    assert (found.potentials == slow.potentials).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_ties_of_whole_numbers(profile):
    values = np.asfortranarray(np.random.default_rng(1).integers(0, 10, (60_000, 8)).astype(float))
    caps = caps_of(profile, 60_000, 8)
    result = allocate(values, caps)
    assert result.gap == 0.0
    order = np.random.default_rng(2).permutation(60_000)
    other = allocate(np.ascontiguousarray(values[order]), caps, ids=order)
    assert (other.choice == result.choice[order]).all()
    assert (other.prices == result.prices).all()


def test_every_route_finds_the_same_allocation():
    # Newton, boxes and passes on one side; integers alone on the other; both memory orders; one and two threads
    values, _ = money(300_000, 5)
    caps = caps_of("scarce", 300_000, 5)
    problem = read_problem(values, caps)
    by_newton = solve(problem)
    exactly = solve_on_grid(problem, tree_of(problem.limits))
    row_major = solve(read_problem(np.ascontiguousarray(values), caps), engine=LocalEngine(threads=2))
    assert (by_newton.choice == exactly.choice).all()
    assert (by_newton.choice == row_major.choice).all()
    assert (by_newton.potentials == exactly.potentials).all()


def test_float32_is_read_as_the_numbers_it_holds():
    values = money(40_000, 6)[0].astype(np.float32)
    caps = caps_of("below", 40_000, 6)
    narrow, wide = allocate(values, caps), allocate(values.astype(np.float64), caps)
    assert (narrow.choice == wide.choice).all()
    assert narrow.value == wide.value


def test_chunks_do_not_change_what_a_pass_finds(monkeypatch):
    values, _ = money(20_000, 4)
    problem = read_problem(values, [3000] * 4, eligible=np.random.default_rng(3).random((20_000, 4)) < 0.8)
    rule = InBox(PriceBox(np.full((1, 4), 5.0), np.full((1, 4), 0.3), 0.1), 1e-9)
    table = tables.TableInMemory(problem)
    whole = table.screen(rule)
    assert 100 < whole.opened < 10_000
    for chunk in (777, 4096):
        monkeypatch.setattr(tables, "CHUNK", chunk)
        spread_out = tables.TableInMemory(problem, engine=LocalEngine(threads=2))
        parts = spread_out.screen(rule, open_share=0.01)
        assert (parts.choice == whole.choice).all()
        assert (parts.rows == whole.rows).all()
        assert (spread_out.net(parts).values == table.net(whole).values).all()
        assert (parts.counts == whole.counts).all()
        assert parts.grid == whole.grid


def test_warm_prices_change_the_way_but_not_the_result():
    values, _ = money(30_000, 8)
    caps = caps_of("below", 30_000, 8)
    cold = allocate(values, caps)
    for guess in (cold.prices, np.zeros(8), np.full(8, 50.0), cold.prices * 1.3):
        warm = allocate(values, caps, warm_prices=guess)
        assert (warm.choice == cold.choice).all()
        assert (warm.prices == cold.prices).all()


def test_sorted_tables_and_heavy_tails():
    values, _ = money(120_000, 6)
    ordered = np.asfortranarray(values[np.argsort(values[:, 0])])
    caps = caps_of("below", 120_000, 6)
    assert allocate(ordered, caps).value == pytest.approx(allocate(values, caps).value, rel=1e-12)
    wild = np.asfortranarray(np.random.default_rng(5).pareto(0.7, (120_000, 6)))
    assert allocate(wild, caps).gap <= 1e-12


def test_segments_and_floors_on_many_customers():
    from disco.allocation import Segments

    values, _ = money(30_000, 4)
    labels = np.random.default_rng(4).integers(0, 3, 30_000)
    segments = Segments(labels, {0: {"caps": [800, 500, 300, 100]}, 1: {"floors": [0, 0, 0, 3000]}})
    result = allocate(values, [6000, 5000, 4000, None], floors=[0, 4500, 0, 0], segments=segments)
    assert result.gap <= 1e-12
    assert (np.bincount(result.choice[(labels == 0) & (result.choice >= 0)], minlength=4) <= [800, 500, 300, 100]).all()
    assert (result.choice[labels == 1] == 3).sum() >= 3000
    assert result.counts[1] >= 4500


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("proportional", [False, True])
def test_budget_gap_is_small_for_every_profile(profile, proportional):
    values, markdown = money(50_000, 8, proportional=proportional)
    caps = caps_of(profile, 50_000, 8)
    free = solve_problem(read_problem(values, caps, costs=markdown))
    budget = 0.6 * free.cost
    result = allocate(values, caps, costs=markdown, budget=budget)
    assert result.gap <= 5e-6
    assert result.cost <= budget
    assert (result.counts <= caps).all()


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.5, 1.0, 2.0])
def test_budget_edges_with_equal_values(share):
    values, costs = np.full((3000, 3), 2.0), np.full((3000, 3), 1.5)
    budget = share * 1.5 * 900
    result = allocate(values, [300, 300, 300], costs=costs, budget=budget)
    affordable = min(900, int(budget / 1.5))
    assert result.counts.sum() == affordable
    assert result.cost <= budget
    assert result.bound >= result.value


@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [50.0, 0.0, 3.0]])
def test_the_prices_at_which_the_search_for_a_budget_begins_change_nothing(monkeypatch, start):
    """One of the depths is worth too little for anybody."""
    rng = np.random.default_rng(5)
    values, costs = rng.gamma(2.0, 5.0, (24_000, 3)), rng.gamma(2.0, 2.0, (24_000, 3))
    values[:, 2] *= 0.01
    arguments = {"costs": costs, "budget": 9_000.0, "ids": np.arange(24_000)}
    found = allocate(values, [5_000, 7_000, 9_000], **arguments)
    sampled = budget._sampled_rate

    def elsewhere(lagrangian):
        rate = sampled(lagrangian)
        lagrangian.warm = np.array(start)
        return rate

    monkeypatch.setattr(budget, "_sampled_rate", elsewhere)
    other = allocate(values, [5_000, 7_000, 9_000], **arguments)
    assert found.budget_price > 0
    assert (other.choice == found.choice).all()
    assert (other.prices == found.prices).all()
    assert other.budget_price == found.budget_price


@pytest.mark.parametrize("short", [0, 1, 3, 50, -1], ids=lambda short: f"{short} codes too few")
def test_codes_for_nearly_everybody_are_settled_by_boxes(short, monkeypatch):
    """The level of all prices is then that of the few who get nothing: a box that knows it needs no shortest paths
    over everybody."""
    customers, depths = 60_000, 8
    values = np.random.default_rng(3).gamma(2.0, 5.0, (customers, depths)) - 3.0
    caps = [customers // depths] * depths
    caps[0] -= short
    problem = read_problem(values, caps)
    expected = solve_on_grid(problem, tree_of(problem.limits))
    monkeypatch.setattr(solver, "solve_on_grid", None)
    found = allocate(values, caps)
    assert found.status is Status.OPTIMAL
    assert found.counts.sum() == customers - max(short, 0)
    assert (found.choice == expected.choice).all()


@pytest.mark.parametrize("kind", ["floors", "caps for all and few more"])
def test_where_newton_finds_no_prices_those_of_samples_settle_the_table(kind, monkeypatch):
    rng = np.random.default_rng(9)
    customers, depths = 40_000, 5
    values = np.exp(rng.normal(1.0, 0.5, (customers, 1))) * (
        1 + np.arange(depths) * rng.uniform(0.1, 0.3, (customers, depths))
    )
    caps, floors = np.full(depths, customers // depths), None
    if kind == "floors":
        caps, floors = np.full(depths, customers), np.array([9_000, 6_000, 0, 0, 0])
    else:
        caps[0] += 40
    problem = read_problem(values, caps, floors=floors)
    by_integers = solve_on_grid(problem, tree_of(problem.limits), ties=False)
    guesses, guess_of_paths = [], solver._guess_of_paths

    def watched(*arguments, **named):
        guesses.append(guess_of_paths(*arguments, **named))
        return guesses[-1]

    def no_other_way(*_, **__):
        raise AssertionError("the boxes did not settle the table")

    monkeypatch.setattr(solver, "_guess_of_paths", watched)
    monkeypatch.setattr(solver, "_by_ties", no_other_way)
    found = solver.solve(problem)
    assert any(guess is not None for guess in guesses)
    assert (found.choice == by_integers.choice).all()
    assert floors is not None or (found.potentials == by_integers.potentials).all()
