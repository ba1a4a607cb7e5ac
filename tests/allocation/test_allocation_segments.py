"""Many customers in segments, and depths that a cap of 0 closes: boxes of prices give the places, and the prices, that
shortest paths over everybody give."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.adapters.engines import LocalEngine
from disco.allocation import Segments, allocate
from disco.allocation import solve as solver
from disco.allocation.limits import tree_of
from disco.allocation.problem import read_problem
from disco.allocation.solve import solve, solve_on_grid


def money(rng, customers, depths):
    """(values, markdown) as campaigns have them: baskets and chances to buy differ by customer."""
    depth = np.linspace(0.05, 0.05 * depths, depths)
    basket = np.exp(3.65 + 0.5 * rng.standard_normal((customers, 1)) + 0.05 * rng.standard_normal((customers, depths)))
    full_price = basket * np.exp(0.7 * np.exp(0.35 * rng.standard_normal((customers, 1))) * depth)
    chance = (0.02 + 0.1 * depth) * np.exp(0.3 * rng.standard_normal((customers, 1)))
    markdown = full_price * depth * chance
    return np.asfortranarray(3.0 * full_price * (1 - depth) * chance - markdown), np.asfortranarray(markdown)


def problem_of(rng, *, segments=True):
    """Caps from far too few codes to more than enough; some depths closed, for everybody or for a segment."""
    depths, customers = int(rng.integers(2, 9)), int(rng.integers(2_500, 60_000))
    values, costs = money(rng, customers, depths)
    if rng.random() < 0.4:
        values -= np.quantile(values, rng.uniform(0.0, 0.6))
    labels = rng.integers(0, int(rng.integers(2, 6)), customers)
    plenty = rng.uniform(0.2, 1.5)

    def cap(share, *, unlimited, closed):
        kind = rng.random()
        if kind < unlimited:
            return None
        return 0 if kind < unlimited + closed else int(rng.uniform(0.0, 2.0) * plenty * customers / depths * share)

    caps = [cap(1.0, unlimited=0.15, closed=0.15) for _ in range(depths)]
    limited = range(int(labels.max()) + int(rng.integers(0, 2)))
    own = {label: {"caps": [cap(0.3, unlimited=0.4, closed=0.06) for _ in range(depths)]} for label in limited}
    eligible = rng.random((customers, depths)) < 0.8 if rng.random() < 0.2 else None
    return read_problem(
        values, caps, segments=Segments(labels, own) if segments else None, costs=costs, eligible=eligible
    )


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=15, deadline=None)
def test_boxes_find_the_places_and_prices_of_shortest_paths(seed, segments):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, segments=segments)
    tree, rate = tree_of(problem.limits), float(rng.choice([0.0, 0.3, 1.0]))
    expected = solve_on_grid(problem, tree, rate=rate)
    size = int(rng.choice([problem.columns, tree.nodes - 1]))
    for warm in (None, rng.uniform(0.0, problem.values.max(), size), expected.potentials[1:]):
        found = solve(problem, rate=rate, warm=warm, engine=LocalEngine(threads=2))
        np.testing.assert_array_equal(found.choice, expected.choice)
        np.testing.assert_array_equal(found.potentials, expected.potentials)


def test_segments_of_a_campaign_are_settled_by_boxes(monkeypatch):
    """Not by shortest paths over everybody, which take ten times as long."""
    rng = np.random.default_rng(0)
    values, costs = money(rng, 60_000, 6)
    labels = rng.integers(0, 4, 60_000)
    own = {label: {"caps": [1500, None, 900, None, 2500, 700]} for label in (0, 1, 2)}
    problem = read_problem(values, [6000] * 6, segments=Segments(labels, own), costs=costs)
    tree = tree_of(problem.limits)
    for rate in (0.0, 0.5):
        expected = solve_on_grid(problem, tree, rate=rate)
        with monkeypatch.context() as patch:
            patch.setattr(solver, "solve_on_grid", None)
            found = solve(problem, rate=rate)
        np.testing.assert_array_equal(found.potentials, expected.potentials)


def test_the_price_of_a_closed_depth_is_what_its_first_code_brings():
    rng = np.random.default_rng(1)
    values, _ = money(rng, 20_000, 4)
    caps = [3000, 0, 2000, 0]
    now = allocate(values, caps)
    assert now.counts[1] == now.counts[3] == 0
    for column in (1, 3):
        more = list(caps)
        more[column] = 1
        gained = allocate(values, more).value - now.value
        assert gained > 0
        np.testing.assert_allclose(now.prices[column], gained, rtol=1e-9)


def test_a_budget_over_segments_is_the_same_from_any_prices():
    rng = np.random.default_rng(2)
    values, costs = money(rng, 30_000, 5)
    labels = rng.integers(0, 3, 30_000)
    limits = {
        "segments": Segments(labels, {0: {"caps": [900, None, 400, 0, None]}, 1: {"caps": [None, 700, None, None, 0]}}),
        "costs": costs,
        "budget": 0.4 * allocate(values, [3000, 3000, 0, 3000, 3000], costs=costs, budget=1e12).cost,
    }
    caps = [3000, 3000, 0, 3000, 3000]
    one = allocate(values, caps, **limits)
    for warm in (rng.uniform(0, 5, 5), np.full(5, 1e9), one.prices):
        other = allocate(values, caps, warm_prices=warm, engine=LocalEngine(threads=2), **limits)
        np.testing.assert_array_equal(one.choice, other.choice)
        np.testing.assert_array_equal(one.prices, other.prices)
        np.testing.assert_array_equal(one.segment_prices, other.segment_prices)
