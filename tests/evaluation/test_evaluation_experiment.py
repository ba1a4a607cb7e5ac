"""Arms of a file of one's own: against SciPy, by hand, and by how often the intervals hold."""

import math

import numpy as np
import pytest
from scipy import stats

from disco.errors import InputError
from disco.evaluation.read_out import MetricColumns, Verdict, experiment


def metric(values, counts=None, name="revenue"):
    counts = None if counts is None else np.asarray(counts, float)
    return MetricColumns(name=name, numerator=np.asarray(values, float), denominator=counts)


def two_arms(first, second):
    return ["new"] * len(first) + ["control"] * len(second), np.concatenate([first, second])


def one(arm, values, counts=None, **options):
    return experiment(arm, [metric(values, counts)], **options).differences[0]


def test_a_mean_is_welchs_test():
    rng = np.random.default_rng(1)
    first, second = rng.gamma(2, 20, 300), rng.gamma(2, 25, 170)
    found = one(*two_arms(first, second))
    expected = stats.ttest_ind(first, second, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.kind == "mean"
    assert found.difference.value == pytest.approx(first.mean() - second.mean())
    assert (found.difference.lower, found.difference.upper) == pytest.approx(tuple(interval))
    assert found.p_value == found.holm == pytest.approx(expected.pvalue)


def test_a_ratio_is_the_ratio_of_sums_and_its_error_that_of_a_bootstrap():
    rng = np.random.default_rng(2)
    orders = rng.poisson(1.5, 1000).astype(float)
    revenue = orders * rng.gamma(3, 10, 1000)
    arm = np.where(np.arange(1000) < 600, "new", "control")
    found = one(arm, revenue, orders)
    new, control = arm == "new", arm == "control"
    assert found.value == pytest.approx(revenue[new].sum() / orders[new].sum())
    assert found.control == pytest.approx(revenue[control].sum() / orders[control].sum())
    draws = []
    for _ in range(2000):
        ratios = []
        for part in (new, control):
            rows = rng.choice(np.flatnonzero(part), part.sum())
            ratios.append(revenue[rows].sum() / orders[rows].sum())
        draws.append(ratios[0] - ratios[1])
    assert found.difference.standard_error == pytest.approx(np.std(draws), rel=0.06)


def test_figures_known_before_take_their_share_of_the_variance_away():
    rng = np.random.default_rng(3)
    before = rng.normal(size=2000)
    revenue = 10 + 3 * before + rng.normal(size=2000)
    arm = rng.choice(["new", "control"], 2000)
    plain, adjusted = one(arm, revenue), one(arm, revenue, before=before)
    assert adjusted.variance_reduction == pytest.approx(0.9, abs=0.02)
    assert adjusted.difference.standard_error < 0.35 * plain.difference.standard_error
    assert (adjusted.value, adjusted.control) == (plain.value, plain.control)
    # figures as measured and an adjusted difference may have different signs, so the sentence says which it is
    assert "; adjusted difference " in adjusted.sentence
    assert "; difference " in plain.sentence


def test_what_was_not_known_before_is_a_figure_of_its_own():
    rng = np.random.default_rng(4)
    before = rng.normal(size=2000)
    revenue = 10 + 3 * before + rng.normal(size=2000)
    unknown = rng.random(2000) < 0.3
    arm = rng.choice(["new", "control"], 2000)
    found = one(arm, revenue, before=np.where(unknown, np.nan, before))
    flagged = np.column_stack([np.where(unknown, 0, before), unknown])
    assert found.difference == one(arm, revenue, before=flagged).difference
    assert 0.5 < found.variance_reduction < 0.75


def test_several_arms_and_metrics_are_adjusted_for_together():
    rng = np.random.default_rng(5)
    arm = rng.choice(["control", "mail", "app"], 3000)
    revenue = rng.gamma(2, 20, 3000) * np.where(arm == "mail", 1.15, 1.0)
    bought = (rng.random(3000) < 0.2).astype(float)
    found = experiment(arm, [metric(revenue), metric(bought, name="bought")])
    assert [(row.metric, row.arm) for row in found.differences] == [
        ("revenue", "app"),
        ("revenue", "mail"),
        ("bought", "app"),
        ("bought", "mail"),
    ]
    p_values = sorted(row.p_value for row in found.differences)
    assert min(row.holm for row in found.differences) == pytest.approx(4 * p_values[0])
    mail = found.differences[1]
    assert mail.verdict is Verdict.HIGHER
    assert "mail is higher than control by" in mail.sentence
    assert found.differences[3].kind == "rate"


def test_a_difference_that_only_many_comparisons_hide_is_said_to_be_so():
    rng = np.random.default_rng(6)
    arm = np.repeat(["control", "new"], 500)
    shifted = rng.normal(size=1000)
    shifted[500:] += shifted[:500].mean() - shifted[500:].mean() + 0.14  # p is about 0.03
    others = [metric(rng.permutation(shifted), name=f"m{number}") for number in range(9)]
    found = experiment(arm, [metric(shifted), *others]).differences[0]
    assert 0.01 < found.p_value < 0.05
    assert found.verdict is Verdict.UNDECIDED
    assert "once all comparisons are adjusted for" in found.sentence


def test_looks_hold_together_and_widen_the_interval():
    rng = np.random.default_rng(7)
    arm, values = two_arms(rng.normal(0.2, 1, 400), rng.normal(0, 1, 400))
    once, often = one(arm, values), one(arm, values, looks=5)
    assert often.p_value == pytest.approx(1 - (1 - once.p_value) ** 5)
    half = often.difference.upper - often.difference.value
    assert half / often.difference.standard_error == pytest.approx(stats.t.ppf(0.5 + 0.95**0.2 / 2, 798), rel=1e-3)
    assert often.difference.level == 0.95


def test_five_looks_at_no_difference_raise_at_most_the_stated_false_alarms():
    rng = np.random.default_rng(8)
    alarms, repeats = 0, 400
    for _ in range(repeats):
        values, arm = rng.normal(size=500), rng.choice(["new", "control"], 500)
        alarms += any(
            one(arm[:rows], values[:rows], looks=5).verdict != "undecided" for rows in (100, 200, 300, 400, 500)
        )
    assert alarms <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize(("successes", "others"), [(0, 0), (0, 3), (4, 0)])
def test_few_successes_never_give_an_interval_of_one_point(successes, others):
    first, second = np.zeros(80), np.zeros(60)
    first[:successes], second[:others] = 1, 1
    found = one(*two_arms(first, second))
    assert found.kind == "rate"
    assert (
        -1 <= found.difference.lower < found.difference.value < found.difference.upper <= 1 or successes + others == 0
    )
    assert found.difference.upper - found.difference.lower > 0.03
    assert found.relative is None


def test_intervals_of_rare_rates_hold():
    """Agresti and Caffo's interval over binomial counts, exactly: the probability of every pair of counts."""
    n, rate = 60, 0.03
    chances = stats.binom.pmf(np.arange(13), n, rate)
    covered = 0.0
    for x, y in np.ndindex(13, 13):
        found = one(*two_arms(np.arange(n) < x, np.arange(n) < y))
        covered += chances[x] * chances[y] * found.difference.covers(0.0)
    assert covered / chances.sum() ** 2 >= 0.95


def test_lost_customers_block_every_verdict():
    arm = ["new"] * 4000 + ["control"] * 5000
    found = experiment(arm, [metric(np.r_[np.ones(4000) * 5 + np.arange(4000) % 3, np.arange(5000) % 3])])
    assert not found.sample_ratio.ok
    assert found.differences[0].verdict is Verdict.BLOCKED
    assert "no verdict about new" in found.differences[0].sentence
    stated = experiment(arm, [metric(np.arange(9000) % 7)], shares={"new": 4, "control": 5})
    assert stated.sample_ratio.p_value == 1.0


def test_what_cannot_be_told_is_said():
    constant = one(["new"] * 5 + ["control"] * 5, np.full(10, 3.0))
    assert constant.difference.lower == -math.inf
    assert "does not vary" in constant.sentence
    nothing = one(["new"] * 5 + ["control"] * 5, np.arange(10), np.r_[np.zeros(5), np.ones(5)])
    assert nothing.value is None
    assert "the denominator is 0" in nothing.sentence


def test_an_arm_in_which_nobody_bought_has_no_percentage_of_one_point():
    control = np.r_[np.full(10, 30.0) + np.arange(10), np.zeros(290)]
    found = one(*two_arms(np.zeros(300), control))
    assert found.relative is None
    assert found.difference.upper < 0


def test_a_column_of_nothing_but_zeros_may_be_an_amount():
    found = one(["new"] * 300 + ["control"] * 300, np.zeros(600))
    assert found.difference.lower < 0 < found.difference.upper
    assert "read as a rate; of an amount nothing could be said" in found.sentence


def test_the_detectable_difference_counts_the_comparisons():
    """With a true difference of that size, the first of several comparisons is shown in about 80 of 100 tests."""
    rng = np.random.default_rng(12)
    arm = np.repeat(["control", "a", "b", "c"], 250)
    shown = []
    for _ in range(400):
        figures = rng.normal(size=1000)
        least = experiment(arm, [metric(figures)]).differences[0].detectable
        found = experiment(arm, [metric(figures + least * (arm == "a"))])
        shown.append(found.differences[0].verdict is Verdict.HIGHER)
    assert np.mean(shown) == pytest.approx(0.8, abs=0.07)


def test_an_end_near_zero_is_written_with_its_sign():
    rng = np.random.default_rng(3)
    first, second = rng.normal(5, 1, 400), rng.normal(5, 1, 400)
    edge = one(*two_arms(first, second)).difference
    found = one(*two_arms(first - edge.lower - 0.0004, second))  # the lower end is now −0.0004
    assert "interval −0.0004 to +" in found.sentence


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": ["a", "a", "b", "b"]}, "'control' and at least one other arm"),
        ({"arm": ["control"] * 4}, "at least one other arm"),
        ({"arm": ["control", "control", "control", "b"]}, "arm b: found 1 customer"),
        ({"metrics": [metric([1, 2, np.nan, 4])]}, "revenue, row 3"),
        ({"metrics": [metric([1, 2, 3, 4], [1, 1, -1, 1])]}, "a denominator of 0 or more"),
        ({"metrics": [metric([1, 2, 3])]}, "revenue"),
        ({"before": [1, 2, np.inf, 3]}, "before"),
        ({"looks": 0}, "looks"),
        ({"level": 1.0}, "level"),
        ({"shares": {"control": 1}}, "shares"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"arm": ["control", "control", "b", "b"], "metrics": [metric([1, 2, 3, 5])]} | change
    with pytest.raises(InputError, match=message):
        experiment(given.pop("arm"), given.pop("metrics"), **given)


def test_a_percentage_of_a_control_that_may_be_nothing_is_not_stated():
    """Three small purchases in control: the difference is clear, and any percentage may be true."""
    revenue = np.zeros(120)
    revenue[:3], revenue[60:90] = (20.0, 1.0, 30.0), np.linspace(40.0, 80.0, 30)
    found = experiment(["control"] * 60 + ["new"] * 60, [MetricColumns(name="revenue", numerator=revenue)])
    one = found.differences[0]
    assert one.verdict is Verdict.HIGHER
    assert one.relative.ends == (-np.inf, np.inf)
    assert "new is higher than control (" in one.sentence
