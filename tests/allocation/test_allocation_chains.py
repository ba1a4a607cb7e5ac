"""Depths that everybody ranks alike: values are one number per customer times one per depth.

Such depths compete in a chain, each with the next one only. Who gets what is then known without a solver: the customers
with the largest numbers get the depth with the largest factor, and so on.
"""

import numpy as np
import pytest

from disco.allocation import allocate, rules
from disco.allocation.lagrangian import least_losses, prices_from
from disco.allocation.problem import Rows
from disco.allocation.rules import PriceGaps

CUSTOMERS = 30_000


def sorted_choice(size: np.ndarray, factors: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """The reference: by falling size into depths of falling factor."""
    choice = np.full(size.size, -1)
    waiting = np.argsort(-size)
    for depth in np.argsort(-factors):
        if factors[depth] > 0:
            choice[waiting[: caps[depth]]] = depth
            waiting = waiting[caps[depth] :]
    return choice


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("crowded", [False, True], ids=["some without a code", "the best depths hold all exactly"])
def test_a_chain_of_depths_is_filled_by_size(seed, crowded):
    rng = np.random.default_rng([seed, crowded])
    size = np.exp(0.5 * rng.standard_normal(CUSTOMERS))
    factors = np.sort(rng.uniform(0.5, 1.5, 6))
    factors[1] = factors[0] * (1.0 + 10.0 ** rng.uniform(-7.0, -1.0))  # two that are nearly worth the same
    rng.shuffle(factors)
    caps = np.full(6, CUSTOMERS // 4) if crowded else rng.integers(1, CUSTOMERS // 5, 6)
    values = size[:, None] * factors
    result = allocate(np.asfortranarray(values), caps)
    expected = sorted_choice(size, factors, caps)
    assert result.gap <= 1e-15
    assert np.array_equal(result.choice, expected)


@pytest.mark.parametrize("seed", range(4))
def test_a_budget_of_proportional_values_is_filled_between_two_allocations(seed):
    """Spending jumps where two depths trade places in the chain; a mixture of both sides is as good as the bound."""
    rng = np.random.default_rng(seed)
    size = np.exp(0.5 * rng.standard_normal(CUSTOMERS))
    depth = np.linspace(0.05, 0.4, 8)
    engaged = 0.02 + 0.1 * depth
    costs = np.asfortranarray(size[:, None] * (depth * engaged))
    values = np.asfortranarray(size[:, None] * (3.0 * (1.0 - depth) * engaged)) - costs
    caps = np.maximum(CUSTOMERS * 10.0 ** rng.uniform(-2.0, -0.5, 8), 1.0).astype(int)
    free = allocate(values, caps, costs=costs).cost
    result = allocate(values, caps, costs=costs, budget=0.6 * free)
    assert result.cost <= 0.6 * free
    assert (result.counts <= caps).all()
    assert result.gap <= 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_whom_the_distances_between_prices_settle_has_the_best_place_at_all_such_prices(seed):
    rng = np.random.default_rng(seed)
    depths, customers = 4, 3_000
    values = np.ascontiguousarray(rng.gamma(2.0, 5.0, (depths, customers)))
    centre = rng.uniform(5.0, 15.0, depths)
    root = 0.3 * rng.standard_normal((depths, depths)) + 1.0  # prices that move together
    cover = np.zeros((depths + 1, depths + 1))
    cover[1:, 1:] = root @ root.T
    single = np.diag(cover)
    every = np.append(0.0, centre)
    off = np.sqrt(np.maximum(single[:, None] + single - 2.0 * cover, 0.0))
    gaps = PriceGaps(every[:, None] - every + off)
    reach = gaps.most.copy()
    np.fill_diagonal(reach, -np.inf)  # as the pass has it: nobody competes with themselves
    place = np.vstack([np.zeros(customers), values - centre[:, None]]).argmax(axis=0)
    near = np.arange(customers)
    cells = Rows(np.empty(0, np.uint64), values, None, None, None).cells()
    left = rules._left_apart.__wrapped__(cells, 0.0, 0, reach, place, near)
    settled = np.ones(customers, np.bool_)
    settled[near[:left]] = False
    assert 0.02 < settled.mean() < 0.98
    draws = centre + rng.standard_normal((4_000, depths)) @ root.T * 0.5
    draws = [prices for prices in draws if gaps.holds(prices)]
    assert len(draws) > 50
    for prices in draws:
        best = np.vstack([np.zeros(customers), values - prices[:, None]]).argmax(axis=0)
        assert np.array_equal(best[settled], place[settled])


@pytest.mark.parametrize("seed", range(4))
def test_who_is_settled_by_distances_wins_by_more_than_rounding_at_all_prices_that_are_accepted(seed):
    """Prices at the very end of what `InBox.holds` forgives, and customers who win by hardly more than they must."""
    rng = np.random.default_rng(seed)
    depths, margin = 3, 1e-3
    prices = rng.uniform(5.0, 10.0, depths)
    every = np.append(0.0, prices)
    gaps = PriceGaps(every[:, None] - every)
    rule = rules.InBox(rules.PriceBox(prices[None, :], np.full((1, depths), 2.0), 2.0), margin, gaps)
    worth = every[1:, None] + rng.uniform(-2.0, 2.0, (1, 400)) + margin * rng.uniform(-2.0, 2.0, (depths, 400))
    rows = Rows(np.empty(0, np.uint64), np.ascontiguousarray(worth), None, None, None)
    settled = rule.settle(rows, slice(0, 400), 400)
    closed = np.setdiff1d(np.arange(400), settled.rows)
    assert 20 < closed.size < 380
    accepted = 0
    for _ in range(2_000):
        trial = prices + margin * rng.uniform(-1.0, 1.0, depths)
        if not rule.holds(trial[None, :]):
            continue
        accepted += 1
        net = np.vstack([np.zeros(400), worth - trial[:, None]])[:, closed]
        mine = settled.choice[closed] + 1
        own = net[mine, np.arange(closed.size)]
        net[mine, np.arange(closed.size)] = -np.inf
        assert (own - net.max(axis=0)).min() > 0.49 * margin
    assert accepted > 100


@pytest.mark.parametrize("seed", range(5))
def test_prices_from_an_allocation_are_those_of_the_solve(seed):
    rng = np.random.default_rng(seed)
    values, caps = np.asfortranarray(rng.gamma(2.0, 5.0, (2_000, 5))), rng.integers(50, 600, 5)
    result = allocate(values, caps)
    least = np.full((6, 6), np.inf)
    by_depth = np.ascontiguousarray(values.T)
    cells = Rows(np.empty(0, np.uint64), by_depth, None, np.zeros_like(by_depth), None).cells()
    least_losses(cells, result.choice, 0.0, 0, 2_000, least)
    assert prices_from(least) == pytest.approx(result.prices, rel=1e-12, abs=1e-12)
