"""σ per depth: residuals by hand, how far spreads are shrunk, what happens between and beyond depths, and coverage."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from disco.belief import BasketModel, LinearDepth, RadialBasis, demand_curve
from disco.belief.spread import REACH, TAUS, DepthSpread, shrunk

DEPTHS = np.array([0.1, 0.2, 0.3, 0.4])
EQUAL, RISING = np.full(4, 0.7), np.array([0.5, 0.65, 0.8, 1.0])


def purchases(count, spread, *, seed=1, noise=np.random.Generator.standard_normal):
    generator = np.random.default_rng(seed)
    context = generator.normal(size=(count, 3)).clip(-4, 4)
    which = generator.integers(0, 4, count)
    mean = 3.7 + 0.3 * context[:, 0] + DEPTHS[which] * (0.5 + 0.3 * context[:, 1])
    return context, DEPTHS[which], np.exp(mean + spread[which] * noise(generator, count))


def learned(count, spread, **settings):
    return BasketModel(encoding=LinearDepth(), **settings).update(*purchases(count, spread))


def test_spread_by_hand_from_the_residuals_of_every_row():
    """With τ = 0.8 alone, so that the shrinkage has a figure: κ = 1/(0.32 + 1/rows of the others)."""
    context, depth, price = purchases(600, RISING)
    model = BasketModel(encoding=RadialBasis(gamma=2)).update(context, depth, price)
    grid = np.round(context * 65536) / 65536
    x, y = np.column_stack((np.ones(600), grid)), np.round(np.log(price) * 65536) / 65536
    encoded = np.column_stack((np.ones(600), model.encoding.features(depth)))
    psi = (x[:, :, None] * encoded[:, None, :]).reshape(600, -1)
    residual = y - psi @ model.posterior.mean
    leverage = model.posterior.variance_factor(psi)
    rows = np.array([(1 - leverage[depth == a]).sum() for a in DEPTHS])
    misfit = np.array([(residual[depth == a] ** 2).sum() for a in DEPTHS])
    others_rows, others = rows.sum() + 2 - rows, misfit.sum() + 2 * 0.7**2 - misfit
    kappa = 1 / (0.32 + 1 / others_rows)
    expected = (kappa * others / others_rows + misfit) / (kappa + rows)
    spread = model.depth_spread
    np.testing.assert_allclose(spread.variance[-1], expected, rtol=1e-9)
    np.testing.assert_allclose(spread.rows[-1], kappa + rows, rtol=1e-9)
    np.testing.assert_allclose(spread.common, (misfit.sum() + 0.98) / (rows.sum() + 2), rtol=1e-9)


def test_the_weight_of_tau_is_its_marginal_likelihood():
    """By an independent reference: the normal density with the unknown mean integrated out by a flat prior."""
    rows, misfit = np.array([40.0, 80.0, 200.0]), np.array([12.0, 50.0, 90.0])
    found = shrunk(rows, misfit, TAUS)[2]
    seen, noise = np.log(misfit / rows) + 1 / rows, 2 / rows + 2 / rows**2
    grid = np.linspace(-8, 6, 20_001)
    density = [stats.norm(grid[:, None], np.sqrt(noise + t * t)).pdf(seen).prod(axis=1).sum() for t in TAUS]
    np.testing.assert_allclose(found, density / np.sum(density), rtol=1e-6)


@pytest.mark.parametrize("count", [400, 4000, 40_000])
def test_equal_spreads_give_a_factor_of_one(count):
    factor = learned(count, EQUAL)._spread_factor(DEPTHS)
    assert np.abs(np.log(factor)).max() < 2 / np.sqrt(count)
    assert np.log(factor).std() < 0.5 / np.sqrt(count)  # choices between depths stay as they were


def test_spreads_that_differ_are_found():
    model = learned(20_000, RISING)
    np.testing.assert_allclose(model.spread(DEPTHS), RISING, rtol=0.03)
    common = model.posterior.noise_sd
    np.testing.assert_allclose(model._spread_factor(DEPTHS), np.exp((model.spread(DEPTHS) ** 2 - common**2) / 2))


def test_money_is_the_mean_basket_at_each_depth():
    """By moments: with one σ it would be 15% too high at the first depth and 20% too low at the last."""
    context, depth, price = purchases(60_000, RISING)
    model = BasketModel(encoding=LinearDepth()).update(context, depth, price)
    for at in DEPTHS:
        expected = model.expected_full_price(context[depth == at], [at]).mean()
        assert expected == pytest.approx(price[depth == at].mean(), rel=0.03)


def test_between_played_depths_it_is_a_line_and_beyond_them_the_common_spread():
    model = learned(20_000, RISING)
    spread, variance = model.depth_spread, model.spread([0.1, 0.2, 0.3, 0.4]) ** 2
    between = [variance[:2].mean(), variance[2:] @ [0.75, 0.25]]
    np.testing.assert_allclose(spread.variances(np.array([0.15, 0.325])), between)
    ends = spread.variances(np.array([0.0, 0.1 - REACH / 2, 0.4 + REACH / 2, 0.4 + REACH, 0.9]))
    halfway = (variance[[0, 3]] + spread.common) / 2
    np.testing.assert_allclose(ends, [spread.common, *halfway, spread.common, spread.common])


def test_a_given_spread_holds_at_every_depth():
    model = learned(2000, RISING, noise_sd=0.6)
    assert model.spread([0.1, 0.25, 0.9]).tolist() == [0.6] * 3
    assert model._spread_factor([0.1, 0.25, 0.9]).tolist() == [1.0] * 3
    assert BasketModel()._spread_factor([0.1, 0.9]).tolist() == [1.0, 1.0]
    draws = model.depth_spread.draws(DEPTHS, count=3, generator=np.random.default_rng(1))
    assert (draws == 0.6**2).all()


def test_one_depth_alone_has_the_common_spread():
    context, _, price = purchases(500, EQUAL)
    model = BasketModel().update(context, np.full(500, 0.2), price)
    assert model.spread([0.2])[0] == pytest.approx(np.sqrt(model.depth_spread.common), rel=1e-4)


def test_the_order_and_the_split_of_purchases_change_no_bit():
    context, depth, price = purchases(3000, RISING)
    whole = BasketModel().update(context, depth, price)
    order = np.random.default_rng(3).permutation(3000)
    split = BasketModel()
    for rows in np.array_split(order, 7):
        split = split.update(context[rows], depth[rows], price[rows])
    offered = [0.05, 0.1, 0.17, 0.4, 0.8]
    assert split.spread(offered).tobytes() == whole.spread(offered).tobytes()


def test_what_is_forgotten_counts_less():
    """A campaign of half the weight counts as half as many rows."""
    context, depth, price = purchases(3000, RISING)
    model = BasketModel(encoding=LinearDepth())
    halved = replace(model, forgetting=0.5).update(context, depth, price, campaign="old")
    before = halved.depth_spread.freedom
    halved = halved.update(context, depth, price, campaign="new")
    assert halved.depth_spread.freedom == pytest.approx(1.5 * before, rel=0.01)
    np.testing.assert_allclose(halved.spread(DEPTHS), replace(halved, forgetting=1.0).spread(DEPTHS), rtol=0.01)


def test_draws_have_the_moments_of_their_law():
    spread = learned(2000, RISING).depth_spread
    one = replace(spread, weight=np.array([0.0, 0, 0, 0, 1.0, 0]))  # τ = 0.4
    drawn = one.draws(DEPTHS, count=40_000, generator=np.random.default_rng(1))
    freedom = one.rows[4]
    np.testing.assert_allclose(drawn.mean(axis=0), one.variance[4] * freedom / (freedom - 2), rtol=0.005)
    np.testing.assert_allclose(np.log(drawn).std(axis=0), np.sqrt(2 / freedom), rtol=0.03)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 0.03


def test_an_unplayed_depth_is_never_more_certain_than_its_neighbours():
    spread = learned(2000, RISING).depth_spread
    drawn = spread.draws(np.array([0.1, 0.15, 0.2, 0.45, 0.9]), count=20_000, generator=np.random.default_rng(1))
    sd = np.log(drawn).std(axis=0)
    assert sd[1] > max(sd[0], sd[2])
    assert sd[4] > sd[3] > sd[0]


def test_draws_of_theta_have_the_covariance_of_unequal_spreads():
    """Against least squares on fresh purchases: the sd of θ̂ over repetitions, which one σ misses."""
    x, depth = purchases(400, RISING)[:2]
    generator, found = np.random.default_rng(5), []
    model = BasketModel(encoding=LinearDepth(), prior_precision=1e-3)
    which = np.searchsorted(DEPTHS, depth)
    for _ in range(800):
        noise = RISING[which] * generator.normal(size=400)
        found.append(model.update(x, depth, np.exp(3.7 + noise)).posterior.mean[:2])
    seen = np.cov(np.array(found).T)
    drawn = np.cov(model.update(*purchases(400, RISING)).theta_draws(20_000, generator)[:, :2].T)
    np.testing.assert_allclose(drawn, seen, rtol=0.35)
    level = np.array([1.0, 0.1])  # at 10% off the true spread is 0.5, at 40% it is 1
    assert np.sqrt(level @ drawn @ level) == pytest.approx(np.sqrt(level @ seen @ level), rel=0.15)


@pytest.mark.parametrize(("spread", "count"), [(EQUAL, 300), (EQUAL, 3000), (RISING, 300), (RISING, 3000)])
def test_ninety_percent_intervals_of_money_hold_the_truth(spread, count):
    """Customers and curves drawn from the prior, over 300 posteriors: 90% of 1,200 within five standard errors."""
    generator, inside = np.random.default_rng(7), 0
    for run in range(300):
        level = np.array([3.7, *0.3 * generator.normal(size=3)])
        slope = 0.7 * generator.normal(size=4)
        context = generator.normal(size=(count, 3)).clip(-4, 4)
        which = generator.integers(0, 4, count)
        x = np.column_stack((np.ones(count), context))
        log_price = x @ level + DEPTHS[which] * (x @ slope) + spread[which] * generator.normal(size=count)
        model = BasketModel(encoding=LinearDepth()).update(context, DEPTHS[which], np.exp(log_price))
        customer = np.array([1.0, *generator.normal(size=3).clip(-4, 4)])
        money = demand_curve(model, customer[1:], DEPTHS, seed=run).full_price
        truth = np.exp(customer @ level + DEPTHS * (customer @ slope) + spread**2 / 2)
        inside += int(((money.lower <= truth) & (truth <= money.upper)).sum())
    assert inside / 1200 == pytest.approx(0.9, abs=5 * np.sqrt(0.9 * 0.1 / 300) / 2)


def test_without_depths_nothing_is_learned():
    fixed = DepthSpread.fixed(0.25)
    assert fixed.variances(np.array([0.1, 0.5])).tolist() == [0.25, 0.25]
