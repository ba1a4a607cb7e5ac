"""Demand curves, shares of monotone steps, totals of a campaign."""

import numpy as np
import pytest
from scipy import stats

from disco.belief import (
    BasketModel,
    Engagement,
    EngagementCounts,
    RadialBasis,
    SmoothSpline,
    curves,
    demand_curve,
    draw_full_price_totals,
    elementary,
    monotone_shares,
)
from disco.records.errors import InputError
from disco.records.identity import customer_keys
from disco.records.score import EngagementHead, ScoreBins


def learned(encoding, count=2000, noise_sd=None, monotone=False):
    generator = np.random.default_rng(1)
    context = generator.normal(size=(count, 3)).clip(-4, 4)
    depth = generator.choice([0.3, 0.4, 0.5], count)
    log_price = 3.6 + 0.4 * context[:, 0] + depth + 0.6 * generator.normal(size=count)
    model = BasketModel(encoding=encoding, noise_sd=noise_sd, monotone=monotone)
    return model.update(context, depth, np.exp(log_price))


MODEL = learned(RadialBasis(gamma=2))
DEPTHS = np.array([0.1, 0.3, 0.5, 0.9])


def test_a_customers_curve_is_its_prediction():
    customer = np.array([0.5, -1.0, 2.0])
    curve = demand_curve(MODEL, customer, DEPTHS, level=0.8)
    mean, sd = MODEL.predict(np.repeat(customer[None], 4, axis=0), DEPTHS)
    reach = stats.t(MODEL.posterior.degrees_of_freedom).ppf(0.9)
    np.testing.assert_allclose(curve.log_full_price.mean, mean)
    np.testing.assert_allclose(curve.log_full_price.upper, mean + reach * sd)
    np.testing.assert_allclose(curve.full_price.mean, MODEL.expected_full_price(customer[None], DEPTHS)[0])
    np.testing.assert_allclose(curve.revenue.mean, curve.full_price.mean * (1 - DEPTHS))
    np.testing.assert_allclose(curve.markdown.lower, curve.full_price.lower * DEPTHS)


def test_draws_of_a_curve_have_its_moments():
    model = learned(RadialBasis(gamma=2), noise_sd=0.6)
    curve = demand_curve(model, np.array([0.5, -1.0, 2.0]), DEPTHS, draws=20_000)
    _, sd = model.predict(np.repeat([[0.5, -1.0, 2.0]], 4, axis=0), DEPTHS)
    draws = curve.log_full_price.draws
    assert draws.shape == (20_000, 4)
    assert (np.abs(draws.mean(axis=0) - curve.log_full_price.mean) < 5 * sd / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.03)
    np.testing.assert_allclose(curve.full_price.draws, np.exp(draws + 0.6**2 / 2), rtol=1e-9)
    estimated = demand_curve(MODEL, np.array([0.5, -1.0, 2.0]), DEPTHS, draws=20_000)
    extra = np.log(estimated.full_price.draws) - estimated.log_full_price.draws
    np.testing.assert_allclose(extra.mean(axis=0), MODEL.spread(DEPTHS) ** 2 / 2, rtol=0.02)
    assert (extra.std(axis=0) > 0.001).all()  # the spread is estimated, so that money is less certain than ln F


def test_a_segments_money_is_the_average_over_its_customers():
    segment = np.random.default_rng(2).normal(size=(500, 3)).clip(-4, 4)
    curve = demand_curve(MODEL, segment, DEPTHS, draws=50)
    np.testing.assert_allclose(curve.full_price.mean, MODEL.expected_full_price(segment, DEPTHS).mean(axis=0))
    means = np.array([MODEL.predict(segment, depth)[0].mean() for depth in DEPTHS])
    np.testing.assert_allclose(curve.log_full_price.mean, means, atol=1e-9)
    assert (curve.full_price.lower < curve.full_price.mean).all()


def test_extrapolation_is_flagged_by_plays_also_where_the_sd_falls_again():
    model = learned(RadialBasis(gamma=60), noise_sd=0.6)
    curve = demand_curve(model, np.zeros(3), [0.0, 0.3, 0.4, 0.5, 0.63, 0.75, 1.0])
    assert curve.extrapolated.tolist() == [True, False, False, False, True, True, True]
    width = curve.log_full_price.upper - curve.log_full_price.lower
    assert width[-1] < width[-2]  # the trap: at the far end every bump has vanished and the sd falls again
    nothing = demand_curve(BasketModel(), np.zeros(3), [0.1, 0.2])
    assert nothing.extrapolated.all()


def test_monotone_shares_by_hand():
    generator = np.random.default_rng(3)
    context = generator.normal(size=(4000, 3)).clip(-4, 4)
    keys = customer_keys(np.arange(4000))
    mean_share, draw_share = monotone_shares(MODEL, context, [0.5, 0.3, 0.4], keys=keys)
    prices = MODEL.expected_full_price(context, [0.3, 0.4, 0.5])
    assert mean_share == np.mean([prices[:, 1] >= prices[:, 0], prices[:, 2] >= prices[:, 1]])
    # in theory: a step of a drawn curve is normal, with the posterior's mean and variance of the difference
    offered = MODEL.encoded(np.array([0.3, 0.4, 0.5]))
    x = np.column_stack((np.ones(4000), np.round(context * 65536) / 65536))
    expected = []
    for step in np.diff(offered, axis=0):
        psi = (x[:, :, None] * step).reshape(4000, -1)
        sd = MODEL.posterior.noise_sd * np.sqrt(MODEL.posterior.variance_factor(psi))
        expected.append(stats.norm.cdf(psi @ MODEL.posterior.mean / sd).mean())
    assert 0.6 < np.mean(expected) < 0.999  # otherwise there is nothing to see
    assert draw_share == pytest.approx(np.mean(expected), abs=5 * 0.5 / np.sqrt(4000))
    projected = learned(RadialBasis(gamma=20), count=100, monotone=True)
    assert monotone_shares(projected, context, [0.1, 0.3, 0.5, 0.7], keys=keys) == (1.0, 1.0)


def test_the_spline_is_monotone_at_the_mean_where_the_truth_is():
    keys = customer_keys(np.arange(1000))
    context = np.random.default_rng(4).normal(size=(1000, 3)).clip(-4, 4)
    model = learned(SmoothSpline(), count=20_000).tuned()
    assert monotone_shares(model, context, np.linspace(0.2, 0.6, 9), keys=keys)[0] > 0.99


# ---- totals ----------------------------------------------------------------------------------------------------------


def test_totals_agree_with_a_full_simulation():
    """By moments: against drawing θ, a rate, buyers and their baskets one by one."""
    model = learned(RadialBasis(gamma=2), count=300)
    generator = np.random.default_rng(5)
    context = generator.normal(size=(400, 3)).clip(-4, 4)
    choice = generator.integers(-1, 2, 400)
    depths = np.array([0.3, 0.5])
    engagement = Engagement(counts=EngagementCounts([0.3, 0.5], [200, 300], [40, 90]))
    found = draw_full_price_totals(model, context, choice, depths, engagement=engagement, draws=20_000, seed=3)
    posterior = model.posterior
    simulated = []
    for rates in engagement.draws(depths, count=4000, generator=generator):
        theta = posterior.mean + posterior.noise_sd * posterior.root.T @ generator.normal(size=posterior.mean.size)
        total = []
        for column, depth in enumerate(depths):
            x = np.column_stack((np.ones(400), np.round(context * 65536) / 65536))[choice == column]
            mean = (x @ theta.reshape(4, 4)) @ np.concatenate(([1.0], model.encoding.features(np.array([depth]))[0]))
            baskets = np.exp(mean + posterior.noise_sd * generator.normal(size=len(x)))
            total.append((baskets * (generator.random(len(x)) < rates[column])).sum())
        simulated.append(total)
    simulated = np.array(simulated)
    np.testing.assert_allclose(found.mean(axis=0), simulated.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(found.std(axis=0), simulated.std(axis=0), rtol=0.1)


def test_one_theta_for_everybody_keeps_the_uncertainty_of_a_total():
    """Per-customer draws would average out: the relative width must not vanish as the campaign grows."""
    model = learned(RadialBasis(gamma=2), count=300)
    engagement = Engagement(override={0.9: 1.0})
    widths = []
    for size in (1000, 16_000):
        context = np.zeros((size, 3))
        totals = draw_full_price_totals(model, context, np.zeros(size, int), [0.9], engagement=engagement, draws=1000)
        widths.append(totals.std() / totals.mean())
    assert widths[1] > 0.7 * widths[0]


def test_totals_around_an_expectation_keep_their_relative_spread():
    """Also of a single code, whose draws are mostly cut at 0: they are scaled before the cut."""
    model = learned(RadialBasis(gamma=2), count=300)
    context = np.random.default_rng(5).normal(size=(400, 3)).clip(-4, 4)
    choice = np.r_[np.zeros(399, int), 1]
    engagement = Engagement(counts=EngagementCounts([0.3, 0.5], [200, 300], [40, 90]))
    free = draw_full_price_totals(model, context, choice, [0.3, 0.5, 0.7], engagement=engagement, draws=4000)
    expected = np.array([0.9, 1.0, 0.0]) * free.mean(axis=0)
    found = draw_full_price_totals(
        model, context, choice, [0.3, 0.5, 0.7], engagement=engagement, expected=expected, draws=4000
    )
    assert found[:, 0].mean() == pytest.approx(expected[0], rel=0.01)
    ratio = found[:, :2].max(axis=0) / free[:, :2].max(axis=0)
    np.testing.assert_allclose(found[:, :2], ratio * free[:, :2], rtol=1e-12)
    assert ratio[0] == pytest.approx(0.9, rel=0.01)
    assert ratio[1] > 1.2, "the cut raised the mean of the free draws, so to reach it the spread must grow"
    assert (found[:, 2] == 0).all()


# ---- who buys --------------------------------------------------------------------------------------------------------


def answering(count=20_000):
    """Engagement that rises with the first context feature, with the head that knows it."""
    generator = np.random.default_rng(8)
    context = generator.normal(size=(count, 3)).clip(-4, 4)
    head = EngagementHead([0.0, 0.9, 0.0, 0.0], ScoreBins.of(0.9 * context[:, 0], count=16))
    score, depth = head.scores(context), generator.choice([0.3, 0.4, 0.5], count)
    used = generator.random(count) < 1 / (1 + np.exp(-(-2 + 2 * (depth - 0.4) + score)))
    return Engagement(counts=EngagementCounts.of(depth, used, score=score, bins=head.bins)), head


ENGAGEMENT, HEAD = answering()


def test_totals_with_own_rates_agree_with_a_full_simulation():
    """By moments: against drawing θ, σ_a and the parameters of engagement once for all, then buyers and baskets."""
    generator = np.random.default_rng(5)
    context = generator.normal(size=(600, 3)).clip(-4, 4)
    choice, depths, score = generator.integers(-1, 2, 600), np.array([0.3, 0.5]), HEAD.scores(context)
    score[:40] = np.nan
    found = draw_full_price_totals(
        MODEL, context, choice, depths, engagement=ENGAGEMENT, score=score, draws=20_000, seed=3
    )
    place, simulated, runs = HEAD.bins.places(score), [], 3000
    thetas = MODEL.theta_draws(runs, generator)
    spreads = np.sqrt(MODEL.depth_spread.draws(depths, count=runs, generator=generator))
    shared = ENGAGEMENT.shared_draws(depths, count=runs, generator=generator)
    x = np.column_stack((np.ones(600), np.round(context * 65536) / 65536))
    for theta, spread, level, tilt, bump in zip(thetas, spreads, shared.level, shared.tilt, shared.bump, strict=True):
        total = []
        for column in range(2):
            rows = choice == column
            mean = (x[rows] @ theta.reshape(4, 4)) @ MODEL.encoded(depths)[column]
            chance = 1 / (1 + np.exp(-(level[column] + tilt * np.nan_to_num(score[rows]) + bump[place[rows]])))
            baskets = np.exp(mean + spread[column] * generator.normal(size=rows.sum()))
            total.append((baskets * (generator.random(rows.sum()) < chance)).sum())
        simulated.append(total)
    np.testing.assert_allclose(found.mean(axis=0), np.mean(simulated, axis=0), rtol=0.02)
    np.testing.assert_allclose(found.std(axis=0), np.std(simulated, axis=0), rtol=0.08)


@pytest.mark.parametrize("told_apart", [False, True])
def test_totals_are_summed_customer_by_customer_in_their_order(told_apart):
    """To the last bit: forecasts of plans are made again, and blocks of customers must not round differently."""
    generator = np.random.default_rng(6)
    context, choice = generator.normal(size=(1500, 3)).clip(-4, 4), generator.integers(-1, 4, 1500)
    choice[choice == 2] = 1
    thetas, encoded = MODEL.theta_draws(3, generator).reshape(3, 4, -1), MODEL.encoded(DEPTHS)
    shared, score = ENGAGEMENT.shared_draws(DEPTHS, count=3, generator=generator), HEAD.scores(context)
    score[::50] = np.nan
    place = HEAD.bins.places(score)
    parts = (np.ascontiguousarray(shared.level), np.ascontiguousarray(shared.tilt), np.ascontiguousarray(shared.bump))
    nobody = np.zeros(0), np.zeros(0, np.int64)
    answering = (score, place) if told_apart else nobody
    people = curves._ByDepth.of(context, choice, *answering, depths=DEPTHS.size)
    found = curves._sums(people, encoded, thetas, *parts)
    expected = np.zeros((3, 3, DEPTHS.size))
    for draw in range(3):
        for row in np.flatnonzero(choice >= 0):
            a = choice[row]
            weights = [sum(thetas[draw, i, j] * encoded[a, j] for j in range(encoded.shape[1])) for i in range(4)]
            line = weights[0]
            for i in range(1, 4):
                line += weights[i] * (np.rint(context[row, i - 1] * 65536) / 65536)
            money, rate = elementary.exponential(line), 1.0
            if told_apart:
                x = parts[0][draw, a] + parts[2][draw, place[row]]
                rate = elementary.logistic(x + (parts[1][draw] * score[row] if score[row] == score[row] else 0.0))
            expected[:, draw, a] += rate * money, rate * money * money, rate * money * (rate * money)
    for sums, by_hand in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sums, by_hand)


def test_who_gets_the_codes_matters_to_a_total():
    """The same number of codes for those who answer and for those who do not: one rate per depth sees no difference."""
    context = np.zeros((400, 3))
    context[:, 1] = 1.0
    context[:200, 0], context[200:, 0] = 1.5, -1.5
    flat = BasketModel(noise_sd=0.5).update(np.zeros((2, 3)), [0.3, 0.5], [30.0, 30.0])
    choices = np.repeat([[0, -1], [-1, 0]], 200, axis=1)
    for choice, expected in zip(choices, ENGAGEMENT.rates_of([1.35, -1.35], [0.3])[:, 0], strict=True):
        own = draw_full_price_totals(
            flat, context, choice, [0.3], engagement=ENGAGEMENT, score=HEAD.scores(context), draws=400
        )
        one = draw_full_price_totals(flat, context, choice, [0.3], engagement=ENGAGEMENT, draws=400)
        assert own.mean() / one.mean() == pytest.approx(expected / ENGAGEMENT.rates([0.3])[0], rel=0.1)


def test_a_curve_with_engagement_says_what_a_code_brings():
    segment = np.random.default_rng(2).normal(size=(300, 3)).clip(-4, 4)
    curve = demand_curve(MODEL, segment, DEPTHS, engagement=ENGAGEMENT, head=HEAD, draws=300)
    rates, prices = ENGAGEMENT.rates_of(HEAD.scores(segment), DEPTHS), MODEL.expected_full_price(segment, DEPTHS)
    np.testing.assert_allclose(curve.engagement.mean, rates.mean(axis=0))
    np.testing.assert_allclose(curve.revenue_per_code.mean, (rates * prices).mean(axis=0) * (1 - DEPTHS))
    # those who answer spend more here: the product of the averages would be too small
    assert (curve.revenue_per_code.mean > 1.05 * curve.engagement.mean * curve.revenue.mean).all()
    for band in (curve.engagement, curve.revenue_per_code):
        assert ((band.lower < band.mean) & (band.mean < band.upper)).all()
        assert band.draws.shape == (300, 4)
    table = curve.to_pandas()
    np.testing.assert_array_equal(table["revenue_per_code_upper"], curve.revenue_per_code.upper)
    np.testing.assert_array_equal(table["engagement"], curve.engagement.mean)


def test_one_customers_curve_is_that_of_a_segment_of_one():
    customer = np.array([0.5, -1.0, 2.0])
    one = demand_curve(MODEL, customer, DEPTHS, engagement=ENGAGEMENT, head=HEAD, draws=50)
    twice = demand_curve(MODEL, np.stack((customer, customer)), DEPTHS, engagement=ENGAGEMENT, head=HEAD, draws=50)
    np.testing.assert_allclose(one.revenue_per_code.draws, twice.revenue_per_code.draws, rtol=1e-12)
    np.testing.assert_allclose(one.engagement.draws, twice.engagement.draws, rtol=1e-12)


def test_without_a_head_a_curve_takes_the_populations_rates():
    for engagement in (ENGAGEMENT, Engagement(counts=ENGAGEMENT.counts.margin)):
        curve = demand_curve(MODEL, np.zeros(3), DEPTHS, engagement=engagement)
        np.testing.assert_allclose(curve.engagement.mean, engagement.rates(DEPTHS))
        np.testing.assert_allclose(curve.revenue_per_code.mean, curve.engagement.mean * curve.revenue.mean)
    plain = demand_curve(MODEL, np.zeros(3), DEPTHS)
    assert plain.engagement is None
    assert plain.revenue_per_code is None
    assert "engagement" not in plain.to_pandas()


def test_nobody_chosen_costs_nothing():
    totals = draw_full_price_totals(MODEL, np.zeros((5, 3)), np.full(5, -1), [0.3], engagement=Engagement())
    assert (totals == 0).all()


@pytest.mark.parametrize("choice", [[0, 1], [0, 1, 7], [0, -2, 0], [0, 0.7, 1], [0, 1, np.nan], ["a", "b", "c"]])
def test_choices_that_name_no_depth_are_refused(choice):
    with pytest.raises(InputError, match="choice"):
        draw_full_price_totals(MODEL, np.zeros((3, 3)), choice, [0.3, 0.4], engagement=Engagement())


def test_curves_refuse_nonsense():
    with pytest.raises(InputError):
        demand_curve(MODEL, np.zeros(3), DEPTHS, level=0)
    with pytest.raises(InputError):
        demand_curve(MODEL, np.zeros(3), DEPTHS, draws=0)
    with pytest.raises(InputError):
        demand_curve(MODEL, np.empty((0, 3)), DEPTHS)
    with pytest.raises(InputError):
        demand_curve(MODEL, np.zeros(3), [])
    with pytest.raises(InputError):
        demand_curve(MODEL, ["a", "b", "c"], DEPTHS)
    with pytest.raises(InputError):
        demand_curve(MODEL, [[0.0, 1.0, 2.0], [0.0]], DEPTHS)
    with pytest.raises(InputError):
        draw_full_price_totals(MODEL, np.zeros((1, 3)), [0], [0.3], engagement=Engagement(), draws=0)
    with pytest.raises(InputError):
        monotone_shares(MODEL, np.zeros((1, 3)), [0.1], keys=np.zeros(1, np.uint64))


def test_a_curve_reads_in_a_line_and_as_a_table():
    curve = demand_curve(MODEL, np.zeros(3), DEPTHS)
    assert repr(curve).startswith("DemandCurve(full price by depth: 0.1: ")
    assert len(repr(curve)) < 100
    table = curve.to_pandas()
    assert table["depth"].tolist() == DEPTHS.tolist()
    np.testing.assert_allclose(table["revenue"] + table["markdown"], table["full_price"])
    np.testing.assert_array_equal(table["full_price_upper"], curve.full_price.upper)
    np.testing.assert_array_equal(table["extrapolated"], curve.extrapolated)
