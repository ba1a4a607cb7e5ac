"""Engagement rates: learned shrinkage, monotone, defined everywhere, personal by the score."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from disco.adapters.engines import LocalEngine
from disco.belief import Engagement, EngagementCounts, ScoreBins
from disco.records.compiled import without_compiler
from disco.records.errors import InputError

DEPTHS = np.array([0.1, 0.2, 0.3, 0.4])
ASKED = np.array([0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5])


def expit(x):
    return 1 / (1 + np.exp(-np.asarray(x)))


def logit(p):
    return np.log(np.asarray(p) / (1 - np.asarray(p)))


def personal(*, codes=400, seed=1, slope=4.0, tilt=0.8, bins=8):
    """Counts of codes whose receivers answer by their score, with bumps and a column without a score."""
    generator = np.random.default_rng(seed)
    cut = ScoreBins.of(generator.normal(size=5000), count=bins)
    sent = generator.integers(codes // 2, codes, (DEPTHS.size, bins + 1))
    offset = np.append(tilt * cut.centres + 0.15 * generator.normal(size=bins), -1.0)
    rate = expit(-2.5 + slope * DEPTHS[:, None] + offset)
    return EngagementCounts(DEPTHS, sent, generator.binomial(sent, rate), cut)


def test_much_data_is_what_was_seen():
    seen = np.array([0.031, 0.12, 0.31, 0.33])
    sent = np.full(4, 10**7)
    engagement = Engagement(counts=EngagementCounts(DEPTHS, sent, np.rint(seen * sent).astype(int)))
    np.testing.assert_allclose(engagement.rates(DEPTHS), seen, rtol=2e-3)
    between = expit((logit(seen[0]) + logit(seen[1])) / 2)  # a straight line of the logit
    np.testing.assert_allclose(engagement.rates([0.15]), between, rtol=2e-3)


def test_outside_the_played_depths_the_trend_of_the_logit_goes_on():
    truth = expit(-2.5 + 3.0 * np.array([0.1, 0.2, 0.3]))
    sent = np.full(3, 10**8)
    engagement = Engagement(counts=EngagementCounts([0.1, 0.2, 0.3], sent, np.rint(truth * sent).astype(int)))
    np.testing.assert_allclose(engagement.rates([0.0, 0.5]), expit(-2.5 + 3.0 * np.array([0.0, 0.5])), rtol=0.03)


def test_a_strong_response_is_not_shrunk_away():
    """150 codes of 10% off used 3% of the time beside 30–40% at deep ones: the interval contains what was seen."""
    for used in (3, 4, 5):
        engagement = Engagement(counts=EngagementCounts(DEPTHS, [150] * 4, [used, 45, 52, 60]))
        low, high = engagement.interval([0.1])
        assert low[0] <= used / 150 <= high[0]


def test_few_codes_that_lie_on_a_line_are_drawn_towards_it():
    sent = [2000, 40, 2000]
    seen = [100, 8, 400]  # 5%, 20% of 40 codes, 20%: a line says 10% at the middle
    rate = Engagement(counts=EngagementCounts([0.1, 0.2, 0.3], sent, seen)).rates([0.2])[0]
    assert 0.1 < rate < 0.17


def test_however_many_codes_were_played_elsewhere_an_unplayed_depth_stays_unsure():
    counts = EngagementCounts([0.1, 0.2], [10**9, 10**9], [10**8, 2 * 10**8])
    engagement = Engagement(counts=counts, drift=0.8)
    for depth, distance in ((0.3, 0.1), (0.15, 0.05)):
        _, variance = engagement._curve(np.array([depth])).population()
        assert variance[0] > 0.8**2 * distance
    low, high = engagement.interval([0.2, 0.21, 0.3])
    assert (np.diff(high - low) > 0).all()
    assert (low >= 0.2 - 1e-4).all()  # engagement does not fall with depth


def test_no_draw_falls_with_depth_and_draws_agree_with_means_and_intervals():
    for counts in (personal(), personal().margin, EngagementCounts([0.1, 0.3], [80, 120], [8, 32])):
        engagement = Engagement(counts=counts)
        draws = engagement.draws(ASKED, count=20_000, generator=np.random.default_rng(1))
        assert (np.diff(draws, axis=1) >= -1e-12).all()
        low, high = engagement.interval(ASKED)
        played = np.isin(ASKED, counts.depths)
        np.testing.assert_allclose(draws.mean(axis=0)[played], engagement.rates(ASKED)[played], rtol=0.05)
        np.testing.assert_allclose(np.quantile(draws, 0.05, axis=0)[played], low[played], rtol=0.1)
        np.testing.assert_allclose(np.quantile(draws, 0.95, axis=0)[played], high[played], rtol=0.1)


def test_shared_draws_have_the_posteriors_moments():
    engagement = Engagement(counts=personal())
    state = engagement.posterior
    draws = engagement.shared_draws(DEPTHS, count=50_000, generator=np.random.default_rng(2))
    sd = np.sqrt(np.diag(state.covariance))
    assert (np.abs(draws.level.mean(axis=0) - state.levels) < 5 * sd[:4] / np.sqrt(50_000) + 1e-3).all()
    np.testing.assert_allclose(draws.level.std(axis=0), sd[:4], rtol=0.03)
    np.testing.assert_allclose(draws.tilt.std(), sd[5], rtol=0.03)
    np.testing.assert_allclose(np.cov(draws.bump.T), state.covariance[6:, 6:], atol=0.04 * sd[6:].max() ** 2)


@pytest.mark.parametrize(("sent", "redeemed"), [(1000, [0, 0]), (100_000, [100, 200]), (1000, [999, 1000])])
def test_rates_near_none_or_all_go_on_without_a_jump(sent, redeemed):
    """E-mail engages a few in a thousand: beyond the played depths the curve must start from there."""
    engagement = Engagement(counts=EngagementCounts([0.2, 0.3], [sent, sent], redeemed))
    rates = engagement.rates([0.0, 0.2 - 1e-9, 0.2, 0.3, 0.3 + 1e-9, 0.9])
    assert (np.diff(rates) >= -1e-12).all()
    np.testing.assert_allclose(rates[[1, 4]], rates[[2, 3]], rtol=1e-6)


def test_a_few_codes_without_a_purchase_do_not_mean_never():
    engagement = Engagement(counts=EngagementCounts([0.1], [10], [0]), prior_rate=0.08, prior_codes=30)
    assert 0.03 < engagement.rates([0.1])[0] < 0.08
    assert engagement.interval([0.1])[1][0] > 0.05


@settings(max_examples=60, deadline=None)
@given(
    counts=st.dictionaries(
        st.integers(0, 90), st.tuples(st.integers(1, 5000), st.floats(0, 1)), min_size=1, max_size=6
    ),
    columns=st.sampled_from([0, 1, 3]),
)
def test_nothing_served_falls_with_depth(counts, columns):
    depths = [depth / 100 for depth in counts]
    sent = np.array([n for n, _ in counts.values()])
    redeemed = np.array([int(n * share) for n, share in counts.values()])
    bins = None
    if columns:
        bins = ScoreBins(np.arange(1.0, columns) - 0.5, np.arange(columns) + 0.0)
        sent, redeemed = (np.stack([a // (b + 1) for b in range(columns + 1)], axis=1) for a in (sent, redeemed))
    engagement = Engagement(counts=EngagementCounts(depths, sent, redeemed, bins))
    grid = np.linspace(0, 0.95, 60)
    rates = engagement.rates(grid)
    low, high = engagement.interval(grid)
    draws = engagement.draws(grid, count=20, generator=np.random.default_rng(1))
    own = engagement.rates_of([-0.7, 0.4, 7.0, np.nan], grid)
    for served in (rates, low, high, draws, own):
        assert (np.diff(served) >= -1e-12).all()
        assert ((served >= 0) & (served <= 1)).all()
    assert (low <= high).all()
    assert ((low <= rates) & (rates <= high)).all()


def test_an_unplayed_depth_is_not_more_certain_than_its_neighbours_interpolated():
    engagement = Engagement(counts=EngagementCounts([0.1, 0.3], [50, 5000], [5, 1000]))
    grid = np.linspace(0.1, 0.3, 21)
    variance = engagement._curve(grid).line_variance
    assert (variance[1:-1] > np.interp(grid, [0.1, 0.3], variance[[0, -1]])[1:-1]).all()


def test_uncertainty_grows_with_distance_from_the_depths_played():
    engagement = Engagement(counts=EngagementCounts([0.4, 0.5], [1000, 1000], [80, 120]))
    for side in ([0.5, 0.55, 0.7, 0.9], [0.4, 0.35, 0.2, 0.0]):
        assert (np.diff(engagement._curve(np.array(side)).line_variance) > 0).all()
    low, high = engagement.interval([0.5, 0.55, 0.7, 0.9])
    assert (np.diff(high - low) > 0).all()


def test_before_any_code_it_says_the_prior():
    engagement = Engagement(prior_rate=0.07, prior_codes=50)
    assert engagement.rates([0.1, 0.5]).tolist() == [0.07, 0.07]
    low, high = engagement.interval([0.1])
    assert low[0] < 0.07 < high[0]
    draws = engagement.draws([0.1], count=20_000, generator=np.random.default_rng(1))
    assert draws.mean() == pytest.approx(0.07, rel=0.02)


def test_before_any_code_customers_differ_by_their_score():
    bins = ScoreBins.of(np.random.default_rng(1).normal(size=4000))
    engagement = Engagement(counts=EngagementCounts(bins=bins), prior_rate=0.07)
    rates = engagement.rates_of(bins.centres, [0.1, 0.3])
    assert rates.mean() == pytest.approx(0.07, rel=0.03)
    assert (np.diff(rates, axis=0) > 0).all()
    odds = logit(rates[:, 0])
    assert np.polyfit(bins.centres, odds, 1)[0] == pytest.approx(1.0, abs=0.15)
    assert engagement.shared_draws([0.1], count=3, generator=np.random.default_rng(1)).level.shape == (3, 1)


@pytest.mark.parametrize("prior_rate", [0.0, 0.001, 0.005, 0.02, 0.1, 0.5, 0.98, 0.999, 1.0])
@pytest.mark.parametrize("prior_codes", [0.5, 20.0, 1000.0])
def test_before_any_code_customers_have_the_prior_rate_on_average(prior_rate, prior_codes):
    """Also for rare events, of which few codes say so little that the logit's prior would be wider than any belief."""
    bins = ScoreBins([0.0], [-0.5, 0.5])
    engagement = Engagement(counts=EngagementCounts(bins=bins), prior_rate=prior_rate, prior_codes=prior_codes)
    own = engagement.rates_of([-0.5, 0.5], [0.1])[:, 0]
    assert own.mean() == pytest.approx(engagement.rates([0.1])[0], rel=0.06, abs=1e-5)
    assert own[0] <= own[1]


def test_the_operator_has_the_last_word():
    engagement = Engagement(counts=EngagementCounts([0.1], [1000], [100]), override={0.2: 0.5})
    assert engagement.rates([0.2]).tolist() == [0.5]
    low, high = engagement.interval([0.2])
    assert low.tolist() == high.tolist() == [0.5]
    assert (engagement.draws([0.1, 0.2], count=9, generator=np.random.default_rng(1))[:, 1] == 0.5).all()


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.4, 1.0])
def test_an_operators_rate_is_the_populations_and_keeps_the_customers_order(rate):
    counts = personal()
    engagement = Engagement(counts=counts, override={0.2: rate})
    state = engagement.posterior
    own = engagement.rates_of(np.append(counts.bins.centres, np.nan), [0.1, 0.2, 0.3])
    assert state.shares @ own[:, 1] == pytest.approx(rate, abs=1e-9)
    learned = Engagement(counts=counts).rates_of(np.append(counts.bins.centres, np.nan), [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(own[:, [0, 2]], learned[:, [0, 2]])
    if 0 < rate < 1:
        assert (np.argsort(own[:, 1]) == np.argsort(learned[:, 1])).all()
    law = engagement.law([0.1, 0.2, 0.3])
    assert (law.roots[:, 1] == 0).all()
    assert law.order.tolist() == [0, 2]
    shared = engagement.shared_draws([0.2], count=5, generator=np.random.default_rng(1))
    np.testing.assert_allclose(shared.rates(state.centres, state.shares), rate, atol=1e-9)


def test_the_population_is_the_customers_weighted_by_codes_sent():
    counts = personal()
    engagement = Engagement(counts=counts)
    own = engagement.rates_of(np.append(counts.bins.centres, np.nan), ASKED)
    shares = counts.sent.sum(axis=0) / counts.sent.sum()
    np.testing.assert_allclose(engagement.rates(ASKED), shares @ own, rtol=1e-8)


def test_without_bins_everybody_has_the_populations_rate():
    engagement = Engagement(counts=personal().margin)
    rates = engagement.rates(ASKED)
    assert engagement.rates_of([0.5, np.nan], ASKED).tolist() == [rates.tolist()] * 2
    assert engagement.rates_of(None, ASKED).tolist() == [rates.tolist()]


def reference_rates(engagement, score, depths):
    """`rates_of` in plain NumPy."""
    law = engagement.law(depths)
    place = engagement.counts.bins.places(score)
    h = np.where(np.isnan(score), 0.0, score)
    rates = expit(law.attenuation[place] * (law.logits[place] + law.tilt * h[:, None]))
    rates[:, law.order] = np.maximum.accumulate(rates[:, law.order], axis=1)
    return rates


def test_rates_of_customers_equal_a_plain_reference_and_do_not_depend_on_chunks():
    generator = np.random.default_rng(4)
    score = generator.normal(size=70_001)
    score[::17] = np.nan
    engagement = Engagement(counts=personal(), override={0.25: 0.2})
    depths = [0.4, 0.05, 0.25, 0.1]
    rates = engagement.rates_of(score, depths)
    assert rates.flags.f_contiguous
    np.testing.assert_allclose(rates, reference_rates(engagement, score, depths), rtol=1e-13)
    spread = engagement.rates_of(score, depths, engine=LocalEngine(threads=2))
    assert spread.tobytes() == rates.tobytes()
    part = engagement.rates_of(score[69_990:], depths)
    assert part.tobytes() == np.asfortranarray(rates[69_990:]).tobytes()
    with without_compiler():
        alone = Engagement(counts=personal(), override={0.25: 0.2}).rates_of(score[5:6], depths)
    assert alone.tolist() == rates[5:6].tolist()


def test_the_laws_mean_is_that_of_its_draws():
    """E expit(N(m, v)) over the law's own covariance, for every column and depth, by drawing."""
    counts = personal(codes=60)
    engagement = Engagement(counts=counts)
    law = engagement.law(ASKED)
    normals = np.random.default_rng(5).normal(size=(200_000, law.roots.shape[2]))
    for column, centre in enumerate(np.append(counts.bins.centres, 0.0)):
        middle = law.logits[column] + law.tilt * centre
        drawn = expit(middle + normals @ law.roots[column].T).mean(axis=0)
        np.testing.assert_allclose(drawn, expit(law.attenuation[column] * middle), rtol=0.005)


def test_the_laws_roots_are_those_of_the_covariances():
    for counts in (personal(), personal(codes=30), personal().margin):
        engagement = Engagement(counts=counts)
        law, curve = engagement.law(ASKED), engagement._curve(ASKED)
        exact = curve.covariances()
        np.testing.assert_allclose(law.roots @ np.swapaxes(law.roots, 1, 2), exact, rtol=1e-9)
        assert (np.triu(law.roots, 1) == 0).all()


def test_the_law_of_a_depth_does_not_depend_on_the_order_in_which_depths_are_asked_for():
    engagement, order = Engagement(counts=personal(), override={0.25: 0.2}), np.array([6, 0, 4, 2, 7, 1, 5, 3])
    law, other = engagement.law(ASKED), engagement.law(ASKED[order])
    for name in ("logits", "attenuation", "roots"):
        assert np.array_equal(getattr(law, name)[:, order], getattr(other, name)), name
    assert ASKED[law.order].tolist() == ASKED[order][other.order].tolist()


def test_contradictions_are_named_in_a_sentence():
    counts = EngagementCounts([0.1, 0.2, 0.3], [5000, 5000, 5000], [500, 900, 600])
    (found,) = Engagement(counts=counts).contradictions()
    assert found[:2] == (0.2, 0.3)
    assert str(found) == (
        "Codes of 30% off are used less often than codes of 20% off, beyond chance: an estimated 12.0% of the same "
        "customers instead of 17.9%"
    )
    assert Engagement(counts=EngagementCounts([0.1, 0.2], [50, 50], [6, 5])).contradictions() == ()
    assert Engagement().contradictions() == ()


def test_many_distinct_depths_are_pooled_with_their_neighbours():
    generator = np.random.default_rng(6)
    depth = generator.uniform(0.05, 0.5, 20_000)
    counts = EngagementCounts.of(depth, generator.random(20_000) < expit(-3 + 5 * depth))
    engagement = Engagement(counts=counts)
    assert engagement.posterior.size <= 40
    asked = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(engagement.rates(asked), expit(-3 + 5 * asked), rtol=0.1)


def test_the_order_of_adding_changes_no_bit():
    parts = [personal(seed=1), personal(seed=1), personal(seed=1, codes=90)]
    score = np.random.default_rng(1).normal(size=100)
    forward, backward = parts[0] + parts[1] + parts[2], parts[2] + parts[1] + parts[0]
    one, two = (Engagement(counts=counts).rates_of(score, ASKED) for counts in (forward, backward))
    assert one.tobytes() == two.tobytes()


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
        lambda: Engagement().rates_of([[0.1]], [0.1]),
        lambda: Engagement().draws([0.1], count=0, generator=np.random.default_rng(1)),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("rates", [(0.05, 0.1, 0.17, 0.25), (0.03, 0.2, 0.35, 0.4)])
def test_coverage_of_the_interval(rates):
    """The short form of `./run bench engagement`: 90% intervals, within the 99.9% binomial band of 86% to 94%."""
    generator = np.random.default_rng(3)
    repeats, hits = 300, np.zeros(4, int)
    for _ in range(repeats):
        sent = generator.integers(100, 1000, 4)
        counts = EngagementCounts(DEPTHS, sent, generator.binomial(sent, rates))
        low, high = Engagement(counts=counts).interval(DEPTHS)
        hits += (low <= rates) & (rates <= high)
    least, most = stats.binom(repeats, 0.86).ppf(0.0005), stats.binom(repeats, 0.94).ppf(0.9995)
    assert ((least <= hits) & (hits <= most)).all(), hits / repeats
