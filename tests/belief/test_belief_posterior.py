"""The posterior: by hand, against scikit-learn and SciPy, by moments, never NaN; and the spread of ln F by depth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import BayesianRidge

from disco.belief import BasketModel, LinearDepth, Posterior, Prior, RadialBasis, algebra, demand_curve
from disco.belief.algebra import shifted
from disco.belief.elementary import stream_normals
from disco.belief.posterior import REACH, TAUS, DepthSpread, shrunk
from disco.records.errors import IllConditionedError, InputError

NU0, S0 = 2.0, 0.7  # the documented noise prior


def system(rows=60, d=4, seed=5, noise=0.6):
    generator = np.random.default_rng(seed)
    psi = generator.normal(size=(rows, d)) * np.array([1, 0.3, 2, 5])[:d]
    y = psi @ generator.normal(size=d) + 2.0 + noise * generator.normal(size=rows)
    return psi, y


def posterior_of(psi, y, v0, m0=None, noise_sd=None):
    return Posterior.of(
        psi.T @ psi, psi.T @ y, square=float(y @ y), rows=len(y), prior_precision=v0, prior_mean=m0, noise_sd=noise_sd
    )


def add_row(covariance_factor, mean, *, psi, log_full_price):
    """V⁻¹ and V⁻¹B after one more row (Sherman, Morrison and Woodbury), O(d²).

    V⁻¹ ← V⁻¹ − ggᵀ/(1 + ψᵀg) with g = V⁻¹ψ; mean ← mean + g·(lnF − ψᵀmean)/(1 + ψᵀg).

    """
    gain = covariance_factor @ psi
    scale = 1.0 + float(psi @ gain)
    return (
        covariance_factor - np.outer(gain, gain) / scale,
        mean + gain * ((log_full_price - float(psi @ mean)) / scale),
    )


# ---- mean and sd -----------------------------------------------------------------------------------------------------


def test_one_parameter_by_hand():
    # V = 0.5 + 1² + 2² = 5.5, B = 1·3 + 2·4 + 0.5·0.2 = 11.1
    p = posterior_of(np.array([[1.0], [2.0]]), np.array([3.0, 4.0]), np.array([0.5]), np.array([0.2]), noise_sd=1.3)
    assert p.mean[0] == pytest.approx(11.1 / 5.5)
    assert p.noise_sd * np.sqrt(p.variance_factor(np.array([[3.0]]))[0]) == pytest.approx(1.3 * 3 / np.sqrt(5.5))


def test_agrees_with_bayesian_ridge_at_fixed_precisions():
    psi, y = system()
    noise, weight = 0.6, 2.7  # precision of θ relative to the noise: weight = λ/α
    alpha, lam, sure = noise**-2, weight * noise**-2, 1e14
    ridge = BayesianRidge(
        fit_intercept=False, alpha_1=sure * alpha, alpha_2=sure, lambda_1=sure * lam, lambda_2=sure, compute_score=False
    ).fit(psi, y)
    p = posterior_of(psi, y, np.full(4, weight), noise_sd=noise)
    at = system(20, seed=6)[0]
    mean, sd = ridge.predict(at, return_std=True)
    np.testing.assert_allclose(at @ p.mean, mean, rtol=1e-8)
    # scikit-learn's sd includes the noise of an observation
    np.testing.assert_allclose(noise * np.sqrt(1 + p.variance_factor(at)), sd, rtol=1e-8)


def test_block_priors_agree_with_augmented_least_squares():
    psi, y = system()
    v0, m0 = np.array([1e-6, 0.4, 3.0, 12.0]), np.array([0.0, 1.0, -0.5, 0.1])
    root = np.sqrt(v0)
    expected = np.linalg.lstsq(np.vstack((psi, np.diag(root))), np.concatenate((y, root * m0)), rcond=None)[0]
    np.testing.assert_allclose(posterior_of(psi, y, v0, m0).mean, expected, rtol=1e-9)


def test_draws_have_the_posteriors_moments():
    psi, y = system()
    p = posterior_of(psi, y, np.array([0.2, 0.4, 3.0, 12.0]), noise_sd=0.8)
    count = 100_000
    z = stream_normals(np.uint64(99), 4 * count).reshape(count, 4)
    draws = np.array([shifted(p.mean, p.root, row, 1.5 * p.noise_sd) for row in z])
    covariance = 1.5**2 * 0.8**2 * np.linalg.inv(psi.T @ psi + np.diag([0.2, 0.4, 3.0, 12.0]))
    error = np.sqrt(np.diag(covariance) / count)
    assert (np.abs(draws.mean(axis=0) - p.mean) < 5 * error).all()
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert (np.abs(np.cov(draws.T) - covariance) < 5 * scale * np.sqrt(2 / count)).all()


# ---- noise and evidence ----------------------------------------------------------------------------------------------


def test_noise_by_hand():
    # one parameter, ψ = 1: misfit = Σy² − B²/V with V = 0.5 + 2, B = 7
    p = posterior_of(np.ones((2, 1)), np.array([3.0, 4.0]), np.array([0.5]))
    assert p.noise_sd**2 == pytest.approx((NU0 * S0**2 + 25 - 49 / 2.5) / (NU0 + 2))
    assert p.degrees_of_freedom == NU0 + 2


def test_noise_estimate_finds_the_noise():
    psi, y = system(rows=20_000, noise=0.45)
    assert posterior_of(np.column_stack((np.ones(20_000), psi)), y, np.full(5, 0.3)).noise_sd == pytest.approx(
        0.45, rel=4 / np.sqrt(2 * 20_000)
    )


def test_log_evidence_is_the_density_of_the_rows():
    psi, y = system(rows=25)
    v0, m0 = np.array([0.3, 0.4, 3.0, 12.0]), np.array([0.5, 1.0, -0.5, 0.1])
    shape = np.eye(25) + psi @ np.diag(1 / v0) @ psi.T
    fixed = posterior_of(psi, y, v0, m0, noise_sd=0.8).log_evidence
    assert fixed == pytest.approx(stats.multivariate_normal(psi @ m0, 0.64 * shape).logpdf(y), rel=1e-9)
    estimated = posterior_of(psi, y, v0, m0).log_evidence
    assert estimated == pytest.approx(stats.multivariate_t(psi @ m0, S0**2 * shape, df=NU0).logpdf(y), rel=1e-9)


def test_log_evidence_by_hand_for_one_row():
    # y ~ N(0, σ²(1 + 1/V0)) with ψ = 1
    p = posterior_of(np.ones((1, 1)), np.array([1.5]), np.array([0.25]), noise_sd=0.7)
    assert p.log_evidence == pytest.approx(stats.norm(0, 0.7 * np.sqrt(5)).logpdf(1.5))


@pytest.mark.parametrize("estimated", [False, True])
def test_coverage_of_ninety_percent_intervals(estimated):
    """5,000 truths drawn from the prior: the interval covers as often as it says, within the 99.9 % binomial band."""
    generator = np.random.default_rng(11)
    repeats, rows = 5000, 12
    v0 = np.array([0.3, 2.0, 7.0])
    at = np.array([[1.0, -0.4, 0.8]])
    hits = 0
    for _ in range(repeats):
        sigma = np.sqrt(NU0 * S0**2 / generator.chisquare(NU0)) if estimated else 0.9
        theta = sigma * generator.normal(size=3) / np.sqrt(v0)
        psi = generator.normal(size=(rows, 3))
        y = psi @ theta + sigma * generator.normal(size=rows)
        p = posterior_of(psi, y, v0, noise_sd=None if estimated else sigma)
        reach = stats.t(p.degrees_of_freedom).ppf(0.95) if estimated else stats.norm.ppf(0.95)
        hits += abs((at @ p.mean - at @ theta)[0]) <= reach * p.noise_sd * np.sqrt(p.variance_factor(at)[0])
    low, high = stats.binom(repeats, 0.9).interval(0.999)
    assert low <= hits <= high


def test_rank_one_path_equals_the_cholesky_path():
    psi, y = system(rows=40)
    v0 = np.array([0.3, 0.4, 3.0, 12.0])
    inverse, mean = np.diag(1 / v0), np.zeros(4)
    for row, value in zip(psi, y, strict=True):
        inverse, mean = add_row(inverse, mean, psi=row, log_full_price=value)
    p = posterior_of(psi, y, v0)
    np.testing.assert_allclose(mean, p.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(inverse, algebra.inverse(p.root), rtol=1e-12, atol=1e-12)


# ---- hard conditions -------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    exponents=st.lists(st.integers(-6, 6), min_size=5, max_size=5),
    twin=st.sampled_from([0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0]),
    weight=st.sampled_from([1e-12, 1e-6, 1e-2, 1.0, 1e3]),
    rows=st.sampled_from([0, 1, 3, 200, 100_000]),
)
def test_collinear_features_of_any_scale_are_solved_or_refused_but_never_nan(seed, exponents, twin, weight, rows):
    generator = np.random.default_rng(seed)
    psi = generator.normal(size=(min(rows, 200), 5))
    psi[:, 1] = psi[:, 0] + twin * psi[:, 1]  # nearly or exactly the same feature twice
    psi *= 10.0 ** np.array(exponents)
    y = generator.normal(4.0, 0.7, len(psi))
    repeats = max(rows // 200, 1)
    try:
        p = Posterior.of(
            repeats * psi.T @ psi,
            repeats * psi.T @ y,
            square=repeats * float(y @ y),
            rows=float(repeats * len(y)),
            prior_precision=np.full(5, weight),
        )
    except IllConditionedError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "condition number" in refusal
        assert "prior" in refusal
        return
    assert np.isfinite(p.mean).all()
    assert np.isfinite(p.root).all()
    assert np.isfinite(p.log_evidence)
    assert p.noise_sd > 0
    assert (p.variance_factor(np.eye(5)) > 0).all()
    identity = p.root @ p.precision @ p.root.T
    np.testing.assert_allclose(identity, np.eye(5), atol=10 * 2.2e-16 * p.condition + 1e-10)


def test_a_hopeless_state_names_the_reason():
    psi = np.ones((3, 2))
    with pytest.raises(IllConditionedError, match=r"most alike features are number \d and \d.*raise the prior"):
        posterior_of(1e8 * psi, np.ones(3), np.array([1e-3, 1e-3]))


def test_depths_in_any_unit_give_the_same_prediction():
    generator = np.random.default_rng(2)
    context = generator.normal(size=(300, 2)).clip(-4, 4)
    depth = generator.choice([0.1, 0.3, 0.6], 300)
    price = np.exp(3 + depth + 0.5 * generator.normal(size=300))
    found = []
    for scale in (1e-6, 1.0, 1e6):
        weak = Prior(depth=1e-9 * scale**-2, interaction=1e-9 * scale**-2)
        model = BasketModel(encoding=LinearDepth(), prior_precision=weak, depth_scale=scale, noise_sd=0.5)
        found.append(model.update(context, depth, price).predict(context[:5], depth[:5]))
    for mean, sd in found[1:]:
        np.testing.assert_allclose(mean, found[0][0], rtol=1e-6)
        np.testing.assert_allclose(sd, found[0][1], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_a_prior_that_is_none_is_refused(bad):
    with pytest.raises(InputError):
        posterior_of(np.ones((2, 1)), np.ones(2), np.array([bad]))
    with pytest.raises(InputError):
        BasketModel(prior_precision=bad)
    with pytest.raises(InputError):
        Prior(interaction=bad)


@pytest.mark.parametrize("bad", ["wide", None, (), ((1.0, 2.0), (3.0, 4.0))])
def test_a_prior_that_is_no_number_is_refused_by_name(bad):
    with pytest.raises(InputError, match="prior of the depth block"):
        Prior(depth=bad)


def test_sums_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="not finite"):
        Posterior.of(np.array([[np.nan]]), np.ones(1), square=1.0, rows=1.0, prior_precision=np.ones(1))


def test_literal_model_of_the_paper_leaves_the_constant_out():
    generator = np.random.default_rng(8)
    x, depth = generator.normal(size=(80, 2)).clip(-4, 4), generator.choice([0.2, 0.5], 80)
    price = np.exp(4.2 + 0.5 * generator.normal(size=80))
    encoding = RadialBasis(alpha=20)
    model = BasketModel(encoding=encoding, constant_precision=None, prior_precision=1.4, noise_sd=0.6)
    model = model.update(x, depth, price)
    x, y = np.round(x * 65536) / 65536, np.round(np.log(price) * 65536) / 65536
    a = encoding.features(depth)
    psi = np.column_stack((x, a, *(x[:, [i]] * a for i in range(2))))
    v = 1.4 * np.eye(psi.shape[1]) + psi.T @ psi
    mean, sd = model.predict(x, depth)
    np.testing.assert_allclose(mean, psi @ np.linalg.solve(v, psi.T @ y), rtol=1e-9)
    np.testing.assert_allclose(sd, 0.6 * np.sqrt((psi * np.linalg.solve(v, psi.T).T).sum(axis=1)), rtol=1e-8)


# ---- the spread of ln F by depth -------------------------------------------------------------------------------------


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
    assert model._spread_factor([0.1, 0.25, 0.9]) is None
    assert BasketModel()._spread_factor([0.1, 0.9]) is None
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
