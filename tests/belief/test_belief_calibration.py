"""Forecasts learn from earlier ones, depth by depth: a steady error is found, and its interval is honest."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm, poisson

from disco.belief.calibration import EXPECTED, Backtest, backtest, calibrate
from disco.belief.movement import MOVES, usual_moves
from disco.records.plan_summary import Calibration

rng = np.random.default_rng(11)
KINDS = list(EXPECTED)
DEPTHS = [0.1, 0.3]


def seen(*ratios, purchases=600.0, depths=DEPTHS):
    """A campaign with as many purchases expected at each depth; amounts in baskets."""
    expected = np.full(len(ratios), float(purchases))
    return Backtest(
        depths=np.asarray(depths[: len(ratios)]), expected=expected, actual=expected * np.array(ratios), basket=1.0
    )


def known(*ratios):
    """A campaign so large that its ratios have no noise."""
    return seen(*ratios, purchases=1e12)


def of_decided(past, depths=DEPTHS, personal=False):
    return calibrate(past, depths, decided=True, personal=personal)


def test_one_campaign_at_one_depth_by_hand():
    """c + d + ωε has the prior N(0, v), v = τ² + τ_d² + ω²; its mode m solves 720 − 600·exp(m) = m/v."""
    usual, found = EXPECTED[True, False], of_decided([seen(1.2)], [0.1])
    depth = usual.common**2 + usual.depth**2
    whole = depth + usual.campaign**2
    mode = found.log_factors[0.1] * whole / depth
    assert 720 - 600 * np.exp(mode) == pytest.approx(mode / whole, rel=1e-6)
    assert found.campaigns == 1


def grid_over_all(past, usual):
    """Sums over ω, c + d and ε of each campaign at one depth: (ω,) weights, moments 0 to 2 of c + d given ω."""
    line = np.linspace(-1.2, 1.2, 601)
    weight, moments = usual_moves(usual.campaign).copy(), []
    for place, omega in enumerate(np.hypot(usual.campaign, MOVES)):
        chance = norm.pdf(line, 0, np.hypot(usual.common, usual.depth))
        for one in past:
            effect, density = np.linspace(-4, 4, 81), norm.pdf(np.linspace(-4, 4, 81))
            rate = one.expected[0] * np.exp(line[:, None] + omega * effect)
            chance = chance * (poisson.pmf(one.actual[0], rate) @ (density / density.sum()))
        weight[place] *= chance.sum()
        moments.append([(chance * line**power).sum() / chance.sum() for power in (0, 1, 2)])
    return weight / weight.sum(), np.array(moments)


@pytest.mark.parametrize("ratios", [(1.2,), (1.0, 1.05), (1.5, 0.7, 1.2), (1.02, 0.97, 1.0, 1.04)])
def test_how_far_campaigns_move_is_what_a_grid_over_all_unknowns_says(ratios):
    usual, past = EXPECTED[True, True], [seen(ratio) for ratio in ratios]
    found, (weight, moments) = of_decided(past, [0.1], personal=True), grid_over_all(past, usual)
    kept = found.log_factors[0.1]
    about = moments[:, 2] - 2 * kept * moments[:, 1] + kept**2  # (c + d − the factor that is kept)²
    assert found.log_covariance[0][0] - found.campaign_log_sd**2 == pytest.approx(weight @ about, rel=0.05)
    reach = 1.645 * np.sqrt(found.log_covariance[0][0])
    inside = weight @ (2 * norm.cdf(reach / np.sqrt(about + usual.campaign**2 + MOVES**2)) - 1)
    assert inside == pytest.approx(0.9, abs=0.01)


def test_campaigns_that_move_widen_the_next_forecast_and_steady_ones_narrow_it():
    first = of_decided([], personal=True).campaign_log_sd
    steady = [of_decided([seen(1.0, 1.0)] * count, personal=True).campaign_log_sd for count in (1, 3, 6)]
    moved = of_decided([seen(r, r) for r in (1.3, 0.8, 1.2, 0.75, 1.25, 0.9)], personal=True).campaign_log_sd
    assert [first, *steady] == sorted([first, *steady], reverse=True)
    assert steady[-1] > EXPECTED[True, True].campaign, "never narrower than usual"
    assert 0.15 < moved < 0.4


def test_the_factors_are_those_of_the_usual_movement():
    """What a budget counts with does not depend on how far campaigns seem to move."""
    usual = EXPECTED[True, True]
    depth = usual.common**2 + usual.depth**2
    for ratios in ((1.3,), (1.4, 0.7)):
        found = of_decided([known(ratio) for ratio in ratios], [0.1], personal=True)
        by_hand = depth * np.log(ratios).sum() / (len(ratios) * depth + usual.campaign**2)
        assert found.log_factors[0.1] == pytest.approx(by_hand, rel=1e-6)


def test_groups_of_one_campaign_move_together():
    found = of_decided([], personal=True)
    one, other = (found.draws(40_000, [0.1], 7, "spring", arm, campaign=(7, "spring")) for arm in ("a", "b"))
    both = np.cov(np.log(one[:, 0]), np.log(other[:, 0]))
    assert both[0, 1] == pytest.approx(found.campaign_log_sd**2, rel=0.06)
    assert both[0, 0] == pytest.approx(found.log_covariance[0][0], rel=0.04)
    alone = found.draws(40_000, [0.1], 7, "spring", "a")
    assert abs(np.corrcoef(np.log(alone[:, 0]), np.log(other[:, 0]))[0, 1]) < 0.03


def test_it_is_the_posterior_that_a_sampler_finds():
    """Against importance sampling of c, d and ε with the Poisson likelihood, at two depths of which one was played."""
    usual, one = EXPECTED[True, False], seen(1.15)
    draws = np.random.default_rng(3).standard_normal((400_000, 4)) * [
        usual.common,
        usual.depth,
        usual.depth,
        usual.campaign,
    ]
    played, other = draws[:, 0] + draws[:, 1], draws[:, 0] + draws[:, 2]
    line = played + draws[:, 3]
    chance = one.actual[0] * line - one.expected[0] * np.exp(line)
    weight = np.exp(chance - chance.max())
    found = of_decided([one])
    means = [np.average(part, weights=weight) for part in (played, other)]
    assert list(found.log_factors.values()) == pytest.approx(means, abs=0.002)
    assert found.log_factor == pytest.approx(np.average(draws[:, 0], weights=weight), abs=0.002)
    assert found.log_covariance[1][1] > found.log_covariance[0][0], "a depth that was not played is less certain"


@pytest.mark.parametrize("kind", KINDS)
def test_a_steady_error_of_one_depth_is_found_and_stays_with_it(kind):
    found = calibrate([known(1.0, 1.4)] * 6, DEPTHS, decided=kind[0], personal=kind[1])
    shallow, deep = found.factors(DEPTHS)
    assert shallow == pytest.approx(1.0, abs=0.05)
    assert deep == pytest.approx(1.4, abs=0.08)


def test_a_depth_that_was_never_played_has_the_common_part_alone():
    found = of_decided([known(1.3, 1.3)] * 6, [0.1, 0.2, 0.3])
    at = dict(zip([0.1, 0.2, 0.3], np.diag(found.log_covariance), strict=True))
    assert 1.1 < found.factors([0.2])[0] < found.factors([0.1])[0]
    assert found.factors([0.2])[0] == pytest.approx(np.exp(found.log_factor), abs=1e-6)
    assert at[0.2] > 2 * at[0.1]


def test_more_campaigns_narrow_it_down_to_the_difference_between_campaigns():
    widths = [of_decided([seen(1.17, 1.17)] * count).log_covariance[0][0] for count in (0, 1, 3, 6)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > of_decided([seen(1.17, 1.17)] * 6).campaign_log_sd ** 2 > 0
    assert of_decided([known(1.17, 1.17)] * 6).factors(DEPTHS) == pytest.approx([1.17, 1.17], abs=0.01)


def test_what_all_depths_of_one_campaign_share_counts_once():
    """Ten depths of one campaign are no ten campaigns: what a season does to all of them is one observation."""
    depths = [round(0.05 * (1 + number), 2) for number in range(10)]
    one, many = (
        of_decided([seen(*[1.2] * count, depths=depths, purchases=1e12)], [0.05]) for count in (1, len(depths))
    )
    assert many.log_covariance[0][0] > 0.8 * one.log_covariance[0][0]


def test_campaigns_with_few_purchases_count_less():
    loud = of_decided([seen(1.5, purchases=4), seen(1.0, purchases=5000)], [0.1])
    assert loud.factors([0.1])[0] < 1.05


def test_few_purchases_do_not_pull_the_factor_to_one_side():
    """Right forecasts of three purchases each, some of which bring none: on average the factor stays at 1."""
    times = Counter(tuple(sorted(bought)) for bought in rng.poisson(3.0, (3000, 6)).tolist())  # the order is no matter
    found = []
    for bought in times:
        past = [
            Backtest(depths=np.array([0.1]), expected=np.array([3.0]), actual=np.array([float(count)]), basket=1.0)
            for count in bought
        ]
        found.append(of_decided(past, [0.1]).log_factors[0.1])
    assert np.average(found, weights=list(times.values())) == pytest.approx(0.0, abs=0.02)


def test_forecasts_with_engagement_per_customer_are_trusted_more_from_the_start():
    one, other = (of_decided([], personal=personal).log_sd for personal in (True, False))
    assert one < other


def test_the_order_of_campaigns_and_depths_does_not_matter():
    past = [seen(*ratio) for ratio in ((1.1, 1.0), (1.3, 0.8), (0.9,))]
    one, other = of_decided(past), of_decided(past[::-1], DEPTHS[::-1])
    assert one.factors(DEPTHS) == pytest.approx(other.factors(DEPTHS))
    assert np.asarray(one.log_covariance) == pytest.approx(np.asarray(other.log_covariance)[::-1, ::-1])


def test_draws_have_the_factors_as_mean_and_depend_on_the_names_alone():
    found = of_decided([seen(1.2, 0.9)])
    drawn = found.draws(80_000, DEPTHS, 7, "spring", "test")
    assert drawn.mean(axis=0) == pytest.approx(found.factors(DEPTHS), rel=0.01)
    assert np.cov(np.log(drawn).T) == pytest.approx(np.asarray(found.log_covariance), rel=0.04)
    assert (drawn[:5] == found.draws(5, DEPTHS, 7, "spring", "test")).all()
    assert (drawn[:5] != found.draws(5, DEPTHS, 7, "summer", "test")).all()


def test_a_correction_of_an_earlier_version_is_one_factor_for_all_depths():
    found = Calibration(log_factor=0.1, log_sd=0.05, campaigns=2)
    drawn = found.draws(1000, DEPTHS, 7, "spring", "test")
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert found.factors(DEPTHS).tolist() == [1.105171] * 2  # e^0.1, to six digits


def test_a_backtest_is_made_of_codes_and_counts_those_without_a_purchase():
    depth, expected = np.array([0.3, 0.1, 0.1, 0.1]), np.array([5.0, 4.0, 3.0, 2.0])
    found = backtest(depth, expected, np.array([0.0, 60.0, 0.0, 20.0]))
    assert (found.depths.tolist(), found.expected.tolist(), found.actual.tolist()) == ([0.1, 0.3], [9.0, 5.0], [80, 0])
    assert found.basket == pytest.approx((60**2 + 20**2) / 80)
    assert backtest(depth, expected, np.zeros(4)) is None, "outcomes may be missing altogether"


@pytest.mark.parametrize("kind", KINDS)
def test_its_interval_covers_what_comes_when_the_world_is_as_it_assumes(kind):
    """Errors drawn as in the model: a 90% interval after four campaigns holds the fifth about nine times in ten."""
    usual, inside = EXPECTED[kind], 0
    for _ in range(1000):
        error = rng.normal(0, usual.common) + rng.normal(0, usual.depth, 2)
        moves = np.hypot(usual.campaign, rng.choice(MOVES, p=usual_moves(usual.campaign)))
        rates = np.exp(error + rng.normal(0, moves, (5, 1)))
        bought = rng.poisson(200 * rates).astype(float)
        past = [
            Backtest(depths=np.array(DEPTHS), expected=np.full(2, 200.0), actual=row, basket=1.0) for row in bought[:4]
        ]
        found = calibrate(past, DEPTHS, decided=kind[0], personal=kind[1])
        width = 1.645 * np.sqrt(found.log_covariance[1][1] + 1 / 200)  # the fifth has purchases of its own, too
        inside += abs(np.log((bought[4, 1] + 0.5) / 200.5) - found.log_factors[0.3]) < width
    assert 0.87 < inside / 1000 < 0.93  # 3.2 standard errors
