"""Means, ratios, comparisons and campaigns read together: by hand, against SciPy and other references, by coverage."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, halfnorm, kurtosis, norm, sem, ttest_ind
from scipy.stats import t as student

from disco.evaluation.estimates import (
    Look,
    Mean,
    always_valid_p_value,
    always_valid_quantile,
    compare,
    compare_adjusted,
    error_of_sum,
    estimate_around,
    mean_estimate,
    pool,
    quantile,
    random_effects,
    ratio_estimate,
    reach_into_tail,
    root_between,
    uplift,
)
from disco.records.errors import InputError
from disco.records.estimate import Estimate


def test_ratio_by_hand():
    found = ratio_estimate(np.array([0.0, 30.0, 50.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]), level=0.9)
    # residuals 0, -10, 10, 0; four customers, of whom two count
    error = np.sqrt(4 / 3 * 200) / 2
    assert found.value == 40
    assert found.standard_error == pytest.approx(error)
    assert found.upper - found.value == pytest.approx(student.ppf(0.95, 1) * error)


def test_the_reach_into_a_tail_solves_halls_polynomial():
    for level, skewness in ((0.95, 0.05), (0.95, 0.3), (0.99, -0.2)):
        size, t, z = abs(skewness), -reach_into_tail(skewness, level=level), quantile(level)
        assert t + size * t**2 / 3 + size**2 * t**3 / 27 + size / 6 == pytest.approx(-z)
    z = quantile(0.95)
    assert reach_into_tail(1e-4, level=0.95) == pytest.approx(z + 1e-4 * (1 + 2 * z**2) / 6, abs=1e-7)
    assert reach_into_tail(0.0, level=0.95) == z
    assert reach_into_tail(0.99, level=0.95) == reach_into_tail(0.5, level=0.95)


def test_a_mean_is_scipys():
    figures = np.random.default_rng(3).gamma(2.0, 7.0, 200)
    found = mean_estimate(figures, level=0.8)
    assert found.value == pytest.approx(figures.mean())
    assert found.standard_error == pytest.approx(sem(figures))
    freedom = 400 / (kurtosis(figures, fisher=False) - 1)
    assert freedom < 199
    assert (found.lower, found.upper) == pytest.approx(student.interval(0.8, freedom, figures.mean(), sem(figures)))


def test_the_spread_of_normal_figures_is_known_as_textbooks_say():
    found = mean_estimate(np.random.default_rng(3).normal(5, 2, 20_000))
    reach = (found.upper - found.value) / found.standard_error
    assert reach == pytest.approx(1.96, abs=0.001)


def test_degrees_of_freedom_are_those_of_the_variance_estimate():
    """By moments: over many samples the mean square varies as a χ² with that many degrees of freedom would."""
    rng = np.random.default_rng(9)
    terms = rng.exponential(1.0, (20_000, 50)) - 1
    squares = (terms**2).mean(axis=1)
    seen = 2 * squares.mean() ** 2 / squares.var()
    assert seen == pytest.approx(2 * 50 / (9 - 1), rel=0.1)  # the exponential's kurtosis is 9
    assert error_of_sum(terms.ravel())[1] == pytest.approx(2 * terms.size / (9 - 1), rel=0.1)


def test_rows_of_one_customer_count_as_one():
    rng = np.random.default_rng(4)
    customer = rng.integers(0, 60, 300)
    numerator, denominator = rng.gamma(2, 3, 300), rng.integers(1, 3, 300).astype(float)
    together = [np.bincount(customer, weights=column, minlength=60) for column in (numerator, denominator)]
    by_row = ratio_estimate(numerator, denominator, customers=customer)
    by_customer = ratio_estimate(*together)
    assert by_row.value == pytest.approx(by_customer.value)
    assert by_row.standard_error == pytest.approx(by_customer.standard_error)


def test_the_interval_of_a_ratio_covers_at_its_rate():
    rng = np.random.default_rng(5)
    runs, covered = 2_000, 0
    for _ in range(runs):
        bought = rng.random(600) < 0.4
        covered += ratio_estimate(bought * rng.gamma(3, 10, 600), bought.astype(float), level=0.9).covers(30.0)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= covered <= high


def test_one_row_that_counts_says_nothing_about_its_spread():
    found = ratio_estimate(np.array([5.0, 0.0]), np.array([1.0, 0.0]))
    assert found.value == 5
    assert np.isinf(found.standard_error)
    assert found.covers(1e9)


def test_quantiles():
    assert quantile(0.99) == pytest.approx(2.5758293035489004)
    assert quantile(0.9, freedom=4) == pytest.approx(student.ppf(0.95, 4))
    assert estimate_around(3.0, 2.0, level=0.9, freedom=4).lower == pytest.approx(3 - 2 * student.ppf(0.95, 4))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, np.nan])
def test_a_level_is_a_share(level):
    with pytest.raises(InputError, match="level"):
        quantile(level)


def test_nothing_that_counts_is_refused():
    with pytest.raises(InputError, match="denominator of 0"):
        ratio_estimate(np.ones(3), np.zeros(3))


# ---- two arms --------------------------------------------------------------------------------------------------------


def test_welch_against_scipy():
    rng = np.random.default_rng(1)
    test, control = rng.lognormal(1, 1, 300), rng.lognormal(1.1, 0.7, 900)
    found = compare(Mean.of(test), Mean.of(control), level=0.9)
    reference = ttest_ind(test, control, equal_var=False)
    assert found.p_value == pytest.approx(reference.pvalue)
    interval = reference.confidence_interval(0.9)
    assert (found.difference.lower, found.difference.upper) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("unit", [1.0, 1e-90, 1e90])
def test_welchs_degrees_of_freedom_do_not_depend_on_the_unit(unit):
    rng = np.random.default_rng(2)
    test, control = rng.lognormal(1, 1, 30), rng.lognormal(1.1, 0.7, 9)
    found = compare(Mean.of(unit * test), Mean.of(unit * control))
    reference = ttest_ind(test, control, equal_var=False)
    reach = (found.difference.upper - found.difference.value) / found.difference.standard_error
    assert reach == pytest.approx(student.ppf(0.975, reference.df))
    assert found.p_value == pytest.approx(reference.pvalue)
    unscaled = compare(Mean.of(test), Mean.of(control))
    assert found.relative.ends == pytest.approx(unscaled.relative.ends)


def test_an_interval_is_bounded_where_both_ends_are_known_and_finite():
    assert Estimate(1.0, 0.0, 2.0).bounded
    assert not any(one.bounded for one in (Estimate(1.0), Estimate(1.0, 0.0, np.inf), Estimate(1.0, -np.inf, 2.0)))


def test_a_ratio_of_sums_by_hand():
    mean = Mean.of(np.array([0.0, 60.0, 20.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]))
    # 40 per purchaser; linear terms 0, 40, -40, 0 after scaling by 4 customers / 2 purchasers
    assert mean.value == 40
    assert mean.variance == pytest.approx((40**2 + 40**2) / 3 / 4)


def test_the_ratio_of_ratios_covers_at_its_rate():
    """Revenue per purchaser, where the number of purchasers varies too."""
    rng = np.random.default_rng(2)
    runs, covered = 2_000, 0
    for _ in range(runs):
        arms = []
        for rows, rate, scale in ((800, 0.4, 12.0), (500, 0.3, 10.0)):
            bought = rng.random(rows) < rate
            arms.append(Mean.of(bought * rng.gamma(4, scale, rows), bought.astype(float)))
        covered += compare(*arms, level=0.9).relative.covers(0.2)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= covered <= high


def test_a_negative_control_has_a_difference_but_no_percentage():
    found = compare(Mean(1.0, 0.1, 50), Mean(-2.0, 0.1, 50))
    assert found.relative is None
    assert found.difference.value == 3


def test_equal_constants_and_different_constants():
    assert compare(Mean(2.0, 0.0, 5), Mean(2.0, 0.0, 5)).p_value == 1
    assert compare(Mean(3.0, 0.0, 5), Mean(2.0, 0.0, 5)).p_value == 0


def world(rng, rows, effect):
    before = rng.normal(size=(rows, 2))
    return before, 20 + effect + before @ [4.0, -2.0] + rng.normal(0, 2, rows)


def test_adjustment_is_the_regression_on_arm_and_pre_period():
    rng = np.random.default_rng(3)
    (x1, test), (x2, control) = world(rng, 300, 1.0), world(rng, 200, 0.0)
    found = compare_adjusted(test, control, before=(x1, x2))
    design = np.column_stack([np.ones(500), np.arange(500) < 300, np.concatenate([x1, x2])])
    effect = np.linalg.lstsq(design, np.concatenate([test, control]), rcond=None)[0][1]
    assert found.comparison.difference.value == pytest.approx(effect)
    assert found.variance_reduction == pytest.approx(20 / 24, abs=0.05)  # 16 + 4 of 24


def test_adjusted_intervals_cover_the_same_truth():
    rng = np.random.default_rng(4)
    runs, absolute, relative = 1_500, 0, 0
    for _ in range(runs):
        (x1, test), (x2, control) = world(rng, 150, 8.0), world(rng, 100, 0.0)
        found = compare_adjusted(test, control, before=(x1, x2), level=0.9).comparison
        absolute += found.difference.covers(8.0)
        relative += found.relative.covers(0.4)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= absolute <= high
    assert low <= relative <= high


def test_useless_pre_period_figures_cost_nothing():
    rng = np.random.default_rng(5)
    test, control = rng.gamma(2, 3, 400), rng.gamma(2, 3, 400)
    found = compare_adjusted(test, control, before=(np.ones((400, 1)), np.ones((400, 1))))
    assert found.variance_reduction == pytest.approx(0.0, abs=1e-9)
    assert found.comparison.difference.value == pytest.approx(test.mean() - control.mean())


# ---- always valid ----------------------------------------------------------------------------------------------------


def test_quantile_by_hand():
    log_odds = 2 * np.log(10)  # level 90 %
    x = 0.5 * (log_odds + np.log(log_odds + 1))
    expected = np.sqrt((1 + 1 / x) * (log_odds + np.log(1 + x)))
    assert always_valid_quantile(0.5, level=0.9) == pytest.approx(expected)


def test_a_brownian_motion_stays_inside_at_its_rate():
    """The boundary holds for all times at once: crossings over a fine grid of information from 1 % to 300 %."""
    rng = np.random.default_rng(6)
    information = np.geomspace(0.01, 3.0, 400)
    steps = rng.normal(size=(4000, 400)) * np.sqrt(np.diff(information, prepend=0.0))
    z = np.abs(steps.cumsum(axis=1)) / np.sqrt(information)
    quantiles = np.array([always_valid_quantile(share, level=0.8) for share in information])
    crossed = (z > quantiles).any(axis=1).mean()
    assert crossed < binom.ppf(0.9995, 4000, 0.2) / 4000
    assert crossed > 0.05  # and it is no empty promise: it does get close


def test_the_interval_and_the_p_value_agree():
    for z in (2.9, 3.2):
        found = compare(Mean(10 + z, 0.5, 900), Mean(10.0, 0.5, 900), look=Look(information=0.8))
        assert (found.p_value < 0.05) == (not found.difference.covers(0.0)) == (not found.relative.covers(0.0))
    assert 0.05 < always_valid_p_value(2.0, 1.0, information=0.8, level=0.95) < 1


def test_it_is_tightest_near_the_planned_end():
    widths = {share: always_valid_quantile(share) / np.sqrt(share) for share in (0.25, 0.5, 1.0, 2.0)}
    assert list(widths.values()) == sorted(widths.values(), reverse=True)
    planned_elsewhere = [always_valid_quantile(factor) for factor in (0.3, 3.0)]
    assert min(planned_elsewhere) > always_valid_quantile(1.0) - 0.01


@pytest.mark.parametrize(("share", "level"), [(0.0, 0.95), (-1.0, 0.95), (np.inf, 0.95), (0.5, 1.0)])
def test_nonsense_is_refused(share, level):
    with pytest.raises(InputError):
        always_valid_quantile(share, level=level)


# ---- percentages -----------------------------------------------------------------------------------------------------


def _pair(rng: np.random.Generator) -> tuple[Mean, Mean, float]:
    """Two means of any size and certainty, and the variance of what both contain."""
    sizes = rng.integers(3, 2000, 2)
    decided, control = (Mean(rng.normal(3, 3), rng.gamma(0.5, 0.5), int(size)) for size in sizes)
    return decided, control, float(rng.choice([0.0, rng.gamma(0.5, 0.3)]))


def test_a_percentage_excludes_zero_exactly_when_the_difference_does():
    rng = np.random.default_rng(14)
    seen = {True: 0, False: 0}
    for _ in range(4000):
        decided, control, shared = _pair(rng)
        level, information = rng.uniform(0.6, 0.999), rng.choice([None, rng.uniform(0.05, 2.0)])
        found = compare(decided, control, level=level, shared_variance=shared, look=Look(information=information))
        if found.relative is None or np.isinf(found.relative.upper):
            continue
        seen[found.relative.covers(0.0)] += 1
        assert found.relative.covers(0.0) == found.difference.covers(0.0)
    assert min(seen.values()) > 200  # both happen


def test_the_ends_of_a_percentage_are_where_the_test_of_that_ratio_turns():
    """Each end δ is a root of |m_d − (1+δ)·m_c| = q·(error of that), found by bisection; q is the difference's own."""
    rng = np.random.default_rng(15)
    bounded = unbounded = 0
    for _ in range(1500):
        decided, control, shared = _pair(rng)
        found = compare(decided, control, level=0.9, shared_variance=shared)
        if found.relative is None:
            continue
        q = (found.difference.upper - found.difference.value) / found.difference.standard_error

        def away(change: float, arms=(decided, control), shared=shared, q=q) -> float:
            (one, other), ratio = arms, 1 + change
            own = one.variance + shared + ratio**2 * (other.variance + shared) - 2 * ratio * shared
            return abs(one.value - ratio * other.value) - q * np.sqrt(own)

        middle, (lower, upper) = found.relative.value, found.relative.ends
        if np.isinf(upper):
            assert control.value <= q * np.sqrt(control.variance + shared)  # it may be 0, or of either sign
            unbounded += 1
            continue
        bounded += 1
        for end, side in ((lower, -1), (upper, 1)):
            reach = 1e-3
            while away(middle + side * reach) < 0:
                reach *= 2
            assert end == pytest.approx(brentq(away, middle, middle + side * reach), rel=1e-6, abs=1e-9)
    assert min(bounded, unbounded) > 50  # both happen


def test_a_percentage_of_a_small_control_group_covers_the_truth():
    """Control's mean is known to a fifth of its size: an even interval of the delta method covers too seldom."""
    rng = np.random.default_rng(16)
    runs, covered, even = 20_000, 0, 0
    for _ in range(runs):
        found = compare(Mean(rng.normal(6.0, 0.4), 0.16, 10**6), Mean(rng.normal(3.0, 0.6), 0.36, 10**6)).relative
        covered += found is not None and found.covers(1.0)
        even += found is not None and abs(found.value - 1.0) <= quantile(0.95) * found.standard_error
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.95)
    assert low <= covered <= high
    assert even < low


# ---- uplift ----------------------------------------------------------------------------------------------------------


def test_an_uplift_by_hand():
    decided, control = np.array([3.0, 5.0]), np.array([2.0, 2.0, 5.0])
    result = uplift(decided, control, level=0.5)
    assert result.relative.value == pytest.approx(1 / 3)
    # delta method: sd of the ratio 4/3 with errors 1 of 4 and 1 of 3
    assert result.relative.standard_error == pytest.approx(4 / 3 * np.sqrt((1 / 4) ** 2 + (1 / 3) ** 2))
    # Fieller: (4 − 3ρ)² = q²·(1 + ρ²), 2²/(1 + 1/2) degrees of freedom
    square = student.ppf(0.75, 8 / 3) ** 2
    lower, upper = sorted(np.roots([9 - square, -24, 16 - square]) - 1)
    assert result.relative.ends == (pytest.approx(lower), pytest.approx(upper))
    assert uplift(decided, control, level=0.95).relative.ends == (-np.inf, np.inf)  # control: 3 ± 1 × 3.4


def test_the_p_value_is_welchs():
    rng = np.random.default_rng(3)
    decided, control = rng.lognormal(1, 1, 300), rng.lognormal(1.1, 0.7, 900)
    assert uplift(decided, control).p_value == pytest.approx(ttest_ind(decided, control, equal_var=False).pvalue)


def test_the_interval_covers_the_true_ratio_at_its_rate():
    rng = np.random.default_rng(11)
    runs = 2_000
    covered = 0
    for _ in range(runs):
        result = uplift(rng.gamma(4, 2.5, 400), rng.gamma(4, 2.0, 150), level=0.9)
        covered += result.relative.covers(0.25)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= covered <= high


def test_equal_constant_arms_show_no_difference():
    result = uplift(np.full(5, 2.0), np.full(4, 2.0))
    assert (result.relative, result.p_value) == (Estimate(0, 0, 0, 0.95, 0), 1)


@pytest.mark.parametrize(
    ("decided", "control", "named"),
    [
        ([1.0], [1.0, 2.0], "decided arm"),
        ([1.0, 2.0], [np.nan, 2.0], "control arm"),
        ([1.0, 2.0], [0.0, 0.0], "control mean"),
        ([0.0, 0.0, 0.0], [2.0, 2.0, 5.0], "decided arm: found zeros alone"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused_by_name(decided, control, named):
    with pytest.raises(InputError, match=named):
        uplift(decided, control)


# ---- several campaigns -----------------------------------------------------------------------------------------------


def test_one_campaign_stands_for_itself() -> None:
    alone = compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.04, 900))
    found = pool([alone], [1000])
    assert found.relative == alone.relative
    assert found.relative is not None
    assert found.relative.value == pytest.approx(0.2)
    assert found.between_campaigns is None
    assert found.total.value == pytest.approx(1000.0)
    assert found.total.standard_error == pytest.approx(1000 * math.sqrt(0.08))


def test_a_percentage_without_limits_gets_none_by_pooling() -> None:
    doubtful = compare(Mean(30.0, 16.0, 60), Mean(0.85, 0.36, 60))
    assert doubtful.relative is not None
    assert doubtful.relative.ends == (-math.inf, math.inf)
    assert pool([doubtful], [60]).relative == doubtful.relative
    clear = compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.04, 900))
    found = pool([clear, doubtful], [900, 60])
    assert (found.relative, found.between_campaigns) == (None, None)
    assert found.total.value == pytest.approx(900 * 1.0 + 60 * 29.15)


def test_money_adds_up_and_its_errors_add_in_squares() -> None:
    campaigns = [
        compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.05, 900)),
        compare(Mean(4.0, 0.01, 900), Mean(4.5, 0.02, 900)),
    ]
    found = pool(campaigns, [1000, 3000])
    assert found.total.value == pytest.approx(1000 * 1.0 - 3000 * 0.5)
    assert found.total.standard_error == pytest.approx(math.sqrt(1000**2 * 0.09 + 3000**2 * 0.03))
    assert found.total.upper == pytest.approx(found.total.value + 1.959964 * found.total.standard_error)


def test_a_ratio_and_its_inverse_are_pooled_alike() -> None:
    """Averaging logarithms: which of the two arms is called control changes the sign and nothing else."""
    one, other = [Mean(6.0, 0.04, 900), Mean(5.0, 0.09, 900)], [Mean(5.0, 0.04, 900), Mean(4.5, 0.02, 900)]
    there = pool([compare(*one), compare(*other)], [1, 1]).relative
    back = pool([compare(*one[::-1]), compare(*other[::-1])], [1, 1]).relative
    assert there is not None
    assert back is not None
    assert there.upper is not None
    assert back.lower is not None
    assert 1 + there.value == pytest.approx(1 / (1 + back.value))
    assert 1 + there.upper == pytest.approx(1 / (1 + back.lower))


def test_random_effects_equal_a_double_integral() -> None:
    values, errors = np.array([0.1, 0.35, 0.6]), np.array([0.08, 0.1, 0.2])

    def given(tau: float) -> tuple[float, float, float]:
        weights = 1 / (tau**2 + errors**2)
        mean, spread = float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)
        seen = math.prod(norm.pdf(values, mean, (tau**2 + errors**2) ** 0.5)) * spread  # over a flat μ
        return seen * float(halfnorm.pdf(tau, scale=0.25)), mean, spread

    whole = quad(lambda tau: given(tau)[0], 0, np.inf)[0]
    expected = quad(lambda tau: given(tau)[0] * given(tau)[1], 0, np.inf)[0] / whole
    found, between = random_effects(values, errors)
    assert found.lower is not None
    assert found.upper is not None
    below = [
        quad(lambda tau, at=at: given(tau)[0] * float(norm.cdf(at, *given(tau)[1:])), 0, np.inf)[0] / whole
        for at in (found.lower, found.upper)
    ]
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert below == pytest.approx([0.025, 0.975], abs=1e-4)
    assert between == pytest.approx(quad(lambda tau: tau * given(tau)[0], 0, np.inf)[0] / whole, rel=1e-3)


@pytest.mark.parametrize("campaigns", [2, 4, 11])
@pytest.mark.parametrize("between", [0.0, 0.1, 0.25])
def test_intervals_hold_the_mean_uplift_nine_times_in_ten(campaigns: int, between: float) -> None:
    """Errors of 5% to 25%, as campaigns of some thousand customers have them; the level asked for is 95%."""
    rng = np.random.default_rng(campaigns)
    inside = 0
    for _ in range(300):
        errors = rng.uniform(0.05, 0.25, campaigns)
        found, _ = random_effects(rng.normal(0.3, np.sqrt(between**2 + errors**2)), errors)
        inside += found.covers(0.3)
    assert inside >= 0.9 * 300


def test_without_a_positive_figure_there_is_money_but_no_percentage() -> None:
    found = pool([compare(Mean(6.0, 0.04, 900), Mean(-1.0, 0.05, 900))], [10])
    assert found.relative is None
    assert found.total.value == pytest.approx(70.0)


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(InputError, match="one or more, with one number each"):
        pool([], [])
    with pytest.raises(InputError, match="positive standard errors"):
        random_effects(np.array([0.1, 0.2]), np.array([0.1, 0.0]))
    with pytest.raises(InputError, match="one error per value"):
        random_effects(np.array([0.1, 0.2]), np.array([0.1]))


# ---- roots -----------------------------------------------------------------------------------------------------------


def test_roots_have_the_bits_of_scipys():
    rng = np.random.default_rng(3)
    for _ in range(300):
        centre, scale, share = rng.normal(0, 3), rng.lognormal(0, 2), rng.uniform(0.001, 0.999)
        functions = (
            lambda x, c=centre, s=scale, p=share: float(ndtr((x - c) / s)) - p,
            lambda x, c=centre, s=scale: math.tanh((x - c) / s) + (x - c) ** 3,
        )
        for function in functions:
            low, high = centre - 40 * scale, centre + 37 * scale
            for absolute, relative in ((2e-12, 4 * 2.0**-52), (1e-15, 1e-12)):
                found = root_between(function, low, high, absolute=absolute, relative=relative)
                assert found == brentq(function, low, high, xtol=absolute, rtol=relative)


def test_a_root_at_an_end_is_found_and_equal_signs_are_refused():
    assert root_between(lambda x: x, 0.0, 2.0) == 0.0
    assert root_between(lambda x: x - 2, 0.0, 2.0) == 2.0
    with pytest.raises(InputError, match="different signs"):
        root_between(lambda x: x * x + 1, -1.0, 2.0)
