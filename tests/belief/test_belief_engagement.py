"""Engagement rates: shrunk, monotone, defined everywhere, matured codes only, the operator's word last."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from disco.belief import Engagement, EngagementCounts
from disco.records.errors import InputError


def test_by_hand():
    engagement = Engagement(counts=EngagementCounts([0.1, 0.3], [80, 120], [8, 32]), prior_codes=40)
    pooled = (40 + 40 * 0.1) / (200 + 40)  # the rate over all depths, itself shrunk towards prior_rate
    expected = [(8 + 40 * pooled) / 120, (32 + 40 * pooled) / 160]
    np.testing.assert_allclose(engagement.rates([0.1, 0.3]), expected)
    np.testing.assert_allclose(engagement.rates([0.2]), [np.mean(expected)])  # a straight line between


def test_outside_the_played_depths_the_trend_of_the_logit_goes_on():
    truth = 1 / (1 + np.exp(-(-2.5 + 3.0 * np.array([0.1, 0.2, 0.3]))))
    sent = np.full(3, 10**8)
    engagement = Engagement(counts=EngagementCounts([0.1, 0.2, 0.3], sent, np.rint(truth * sent).astype(int)))
    expected = 1 / (1 + np.exp(-(-2.5 + 3.0 * np.array([0.0, 0.5]))))
    np.testing.assert_allclose(engagement.rates([0.0, 0.5]), expected, rtol=1e-4)


def test_however_many_codes_were_played_elsewhere_an_unplayed_depth_stays_unsure():
    counts = EngagementCounts([0.1, 0.2], [10**9, 10**9], [10**8, 10**8])
    engagement = Engagement(counts=counts, drift=0.8)
    low, high = engagement.interval([0.3], level=0.6827)
    logit = np.log(0.1 / 0.9)
    expected = 1 / (1 + np.exp(-(logit + 0.8 * np.sqrt(0.1) * np.array([-1, 1]))))
    np.testing.assert_allclose([low[0], high[0]], expected, rtol=0.05)
    near, _ = engagement.interval([0.21])
    assert near[0] > low[0]


def test_interval_is_the_betas():
    engagement = Engagement(counts=EngagementCounts([0.1, 0.3], [80, 120], [8, 32]), prior_codes=40)
    rate = engagement.rates([0.3])[0]
    low, high = engagement.interval([0.3], level=0.8)
    expected = stats.beta(rate * 160, (1 - rate) * 160).interval(0.8)
    np.testing.assert_allclose([low[0], high[0]], expected, rtol=1e-9)


def test_draws_have_the_betas_moments():
    engagement = Engagement(
        counts=EngagementCounts([0.1, 0.3], [80, 120], [8, 32]), prior_codes=40, override={0.5: 0.4}
    )
    draws = engagement.draws([0.1, 0.3, 0.5], count=100_000, generator=np.random.default_rng(1))
    rates = engagement.rates([0.1, 0.3])
    sizes = np.array([120, 160])
    sd = np.sqrt(rates * (1 - rates) / (sizes + 1))
    assert (np.abs(draws[:, :2].mean(axis=0) - rates) < 5 * sd / np.sqrt(100_000)).all()
    np.testing.assert_allclose(draws[:, :2].std(axis=0), sd, rtol=0.02)
    assert (draws[:, 2] == 0.4).all()


def test_coverage_of_the_interval():
    """Rates drawn from the prior the shrinkage assumes: 90 % intervals cover 90 %, within the 99.9 % binomial band."""
    generator = np.random.default_rng(3)
    hits, repeats = 0, 5000
    truths = generator.beta(0.15 * 200, 0.85 * 200, repeats)  # sd 0.025
    for truth in truths:
        # very many codes on both sides pin the rate over all depths at 0.15, and are too far away to be pooled with
        redeemed = [2 * 10**6, generator.binomial(300, truth), 28 * 10**6]
        counts = EngagementCounts([0.1, 0.2, 0.3], [10**8, 300, 10**8], redeemed)
        low, high = Engagement(counts=counts, prior_codes=200).interval([0.2], level=0.9)
        hits += low[0] <= truth <= high[0]
    least, most = stats.binom(repeats, 0.9).interval(0.999)
    assert least <= hits <= most


@pytest.mark.parametrize(("sent", "redeemed"), [(1000, [0, 0]), (100_000, [100, 200]), (1000, [999, 1000])])
def test_rates_near_none_or_all_go_on_without_a_jump(sent, redeemed):
    """E-mail engages a few in a thousand: beyond the played depths the curve must start from there."""
    engagement = Engagement(counts=EngagementCounts([0.2, 0.3], [sent, sent], redeemed))
    rates = engagement.rates([0.0, 0.2 - 1e-9, 0.2, 0.3, 0.3 + 1e-9, 0.9])
    assert (np.diff(rates) >= -1e-12).all()
    np.testing.assert_allclose(rates[[1, 4]], rates[[2, 3]], rtol=1e-6)


def test_a_low_rate_wanders_like_any_other():
    """logit(e) ± drift·√distance, also where e is 0.2 %."""
    counts = EngagementCounts([0.1, 0.2], [10**9, 10**9], [2 * 10**6, 2 * 10**6])
    low, high = Engagement(counts=counts, drift=0.5).interval([0.3], level=0.6827)
    expected = 0.002 * np.exp(0.5 * np.sqrt(0.1) * np.array([-1, 1]))
    np.testing.assert_allclose([low[0], high[0]], expected, rtol=0.05)


def test_a_few_codes_without_a_purchase_do_not_mean_never():
    engagement = Engagement(counts=EngagementCounts([0.1], [10], [0]), prior_rate=0.08, prior_codes=30)
    pooled = 30 * 0.08 / 40
    assert engagement.rates([0.1])[0] == pytest.approx(30 * pooled / 40)
    assert engagement.interval([0.1])[1][0] > 0.05


@settings(max_examples=100, deadline=None)
@given(
    counts=st.dictionaries(st.integers(0, 90), st.tuples(st.integers(1, 5000), st.floats(0, 1)), min_size=1, max_size=6)
)
def test_rates_never_fall_with_depth_and_unplayed_depths_are_less_sure(counts):
    depths = [depth / 100 for depth in counts]
    sent = [n for n, _ in counts.values()]
    redeemed = [int(n * share) for n, share in counts.values()]
    engagement = Engagement(counts=EngagementCounts(depths, sent, redeemed))
    grid = np.linspace(0, 0.95, 200)
    rates = engagement.rates(grid)
    assert (np.diff(rates) >= -1e-12).all()
    assert ((rates >= 0) & (rates <= 1)).all()
    low, high = engagement.interval(grid)
    assert (low <= high).all()
    _, sizes = engagement._learned(np.array(sorted({*depths, *grid})))
    at = dict(zip(sorted({*depths, *grid}), sizes, strict=True))
    played = np.array(sorted(depths))
    for depth in grid:
        if depth in depths:
            continue
        neighbours = [*played[played < depth][-1:], *played[played > depth][:1]]
        assert at[depth] < min(at[n] for n in neighbours)


def test_uncertainty_grows_with_distance_from_the_depths_played():
    engagement = Engagement(counts=EngagementCounts([0.4, 0.5], [1000, 1000], [100, 100]))
    for side in ([0.5, 0.55, 0.7, 0.9], [0.4, 0.35, 0.2, 0.0]):
        low, high = engagement.interval(side)
        assert (np.diff(high - low) > 0).all()


def test_before_any_code_it_says_the_prior():
    engagement = Engagement(prior_rate=0.07, prior_codes=50)
    assert engagement.rates([0.1, 0.5]).tolist() == [0.07, 0.07]
    low, high = engagement.interval([0.1])
    assert low[0] < 0.07 < high[0]


def test_the_operator_has_the_last_word():
    engagement = Engagement(counts=EngagementCounts([0.1], [1000], [100]), override={0.2: 0.5})
    assert engagement.rates([0.2]).tolist() == [0.5]
    low, high = engagement.interval([0.2])
    assert low.tolist() == high.tolist() == [0.5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Engagement(override={0.1: 1.2}),
        lambda: Engagement(override={0.1: float("nan")}),
        lambda: Engagement(override={20: 0.1}),
        lambda: Engagement(prior_rate=-0.1),
        lambda: Engagement(prior_codes=0),
        lambda: Engagement().rates([np.inf]),
        lambda: Engagement().interval([0.1], level=1.0),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(InputError):
        make()
