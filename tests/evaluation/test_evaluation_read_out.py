"""The read-out of campaigns and of tables: by hand, against SciPy, over simulated tests, and at its edges."""

import math
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from scipy.stats import chisquare

from disco.allocation import allocate
from disco.evaluation.estimates import uplift
from disco.evaluation.read_out import MetricColumns, Verdict, ab_test, experiment, sample_ratio
from disco.records.errors import InputError

NONE = np.nan


def simulated(rng, rows=4000, lift=0.0, holdout=0.0):
    arm = rng.choice(["decided", "control", "holdout"], rows, p=[0.6 - holdout, 0.4, holdout])
    depth = np.where(arm == "holdout", NONE, rng.choice([0.1, 0.3], rows))
    bought = (rng.random(rows) < 0.3) & (arm != "holdout")
    price = np.where(bought, rng.gamma(4, 10, rows) * np.where(arm == "decided", 1 + lift, 1.0), NONE)
    return arm, depth, price


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_a_campaign_by_hand():
    arm = ["decided"] * 4 + ["control"] * 4
    depth = [0.2, 0.2, 0.5, NONE, 0.2, 0.2, 0.5, 0.5]
    price = [100, NONE, 60, NONE, 50, NONE, NONE, 40]
    found = ab_test(arm, depth, price, revenue_weight=3.0)
    revenue = found.finding("revenue").comparison
    assert (revenue.decided, revenue.control) == (pytest.approx(110 / 4), pytest.approx(60 / 4))
    assert found.finding("revenue", "recipient").comparison.decided == pytest.approx(110 / 3)
    assert found.finding("revenue", "purchaser").comparison.decided == pytest.approx(110 / 2)
    # reward R − C: 80 − 20, 30 − 30 against 40 − 10, 20 − 20
    assert found.finding("reward").comparison.difference.value == pytest.approx((60 - 30) / 4)
    assert found.finding("objective").comparison.decided == pytest.approx((3 * 110 - 50) / 4)
    assert found.finding("engagement").comparison.decided == 0.5
    assert found.finding("engagement", "recipient").comparison.decided == pytest.approx(2 / 3)
    assert found.arms["decided"].recipients == 3
    assert found.arms["control"].markdown == pytest.approx(10 + 20)
    assert found.primary == "objective"
    with pytest.raises(InputError, match="engagement per purchaser"):
        found.finding("engagement", "purchaser")


def test_revenue_per_customer_is_the_uplift_of_the_demo():
    rng = np.random.default_rng(1)
    arm, depth, price = simulated(rng, lift=0.2)
    revenue = np.nan_to_num(price * (1 - depth))
    plain = uplift(revenue[arm == "decided"], revenue[arm == "control"])
    found = ab_test(arm, depth, price).finding("revenue").comparison
    assert found.relative.value == pytest.approx(plain.relative.value)
    assert (found.relative.lower, found.p_value) == (pytest.approx(plain.relative.lower), pytest.approx(plain.p_value))


def test_undifferentiated_codes_are_the_parts_of_control():
    rng = np.random.default_rng(2)
    arm, depth, price = simulated(rng)
    found = ab_test(arm, depth, price)
    assert set(found.undifferentiated) == {0.1, 0.3}
    revenue = np.nan_to_num(price * (1 - depth))
    part = revenue[(arm == "control") & (depth == 0.3)]
    entry = found.undifferentiated[0.3][0]
    assert entry.comparison.control == pytest.approx(part.mean())
    assert entry.comparison.decided == pytest.approx(revenue[arm == "decided"].mean())
    alone = uplift(revenue[arm == "decided"], part, level=0.975)  # one of two depths, by Bonferroni
    assert entry.comparison.p_value == pytest.approx(min(1.0, 2 * alone.p_value))
    assert entry.comparison.relative.lower == pytest.approx(alone.relative.lower)
    assert entry.comparison.difference.level == 0.95


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_an_interval_against_one_code_for_everybody_excludes_zero_exactly_when_its_p_is_below_the_level(level):
    """Random campaigns of few customers, so that either happens often; adjusted by the year before, and not."""
    excluded = covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        arm, depth, price = simulated(rng, rows=int(rng.integers(150, 900)))
        before = rng.gamma(2, 20, arm.size) if seed % 2 else None
        found = ab_test(arm, depth, price * (1 + (arm == "decided")), revenue_weight=2.0, before=before, level=level)
        for findings in found.undifferentiated.values():
            assert {one.metric for one in findings} == {"revenue", "markdown", "reward", "objective", "engagement"}
            for one in findings:
                for read in (one.comparison, one.decisive):
                    clear = read.p_value < 1 - level
                    assert clear is not read.difference.covers(0), (seed, one.metric)
                    excluded, covered = excluded + clear, covered + (not clear)
    assert min(excluded, covered) > 50


def test_all_intervals_against_one_code_for_everybody_hold_together():
    """No difference between the groups: at least 95% of the tests have every depth's interval cover 0."""
    rng, misses, tests = np.random.default_rng(8), 0, 400
    for _ in range(tests):
        arm = rng.choice(["decided", "control"], 1200, p=[0.5, 0.5])
        depth = np.where(arm == "control", rng.choice([0.1, 0.2, 0.3, 0.4], 1200), 0.25)
        paid = np.where(rng.random(1200) < 0.5, rng.gamma(4, 10, 1200), np.nan)
        found = ab_test(arm, depth, paid / (1 - depth))
        revenue = [findings[0].decisive.difference for findings in found.undifferentiated.values()]
        misses += not all(one.covers(0) for one in revenue)
    assert misses <= 0.05 * tests + 3 * np.sqrt(0.05 * 0.95 * tests)


def test_a_holdout_shows_what_would_have_happened_anyway():
    rng = np.random.default_rng(3)
    arm, depth, price = simulated(rng, rows=30_000, holdout=0.1)
    anyway = np.where(rng.random(30_000) < 0.2, rng.gamma(4, 10, 30_000), 0.0)
    found = ab_test(arm, depth, price, other_revenue=anyway)
    paid = np.nan_to_num(price * (1 - depth)) + anyway
    for name in ("decided", "control"):
        effect = found.incremental[name].difference
        assert effect.value == pytest.approx(paid[arm == name].mean() - paid[arm == "holdout"].mean())
        assert effect.covers(0.3 * 40 * 0.8)  # nothing but the codes differs
    with pytest.raises(InputError, match="other_revenue"):
        ab_test(arm, depth, price)


def test_without_a_control_arm_the_holdout_decides():
    rng = np.random.default_rng(13)
    arm, depth, price = simulated(rng, rows=6000, holdout=0.2)
    rows = arm != "control"
    anyway = np.where(rng.random(6000) < 0.2, rng.gamma(4, 10, 6000), 0.0)[rows]
    found = ab_test(arm[rows], depth[rows], price[rows], other_revenue=anyway, revenue_weight=3.0)
    assert (found.findings, found.undifferentiated, found.primary) == ((), {}, "revenue")
    assert set(found.incremental) == {"decided"}
    assert found.verdict is Verdict.BETTER
    early = ab_test(
        arm[rows], depth[rows], price[rows], other_revenue=anyway, final=False, planned_purchasers=10 * rows.sum()
    )
    assert "to date" in early.reason


def test_arms_may_have_any_names():
    rng = np.random.default_rng(14)
    arm, depth, price = simulated(rng, holdout=0.1)
    anyway = rng.gamma(4, 10, arm.size)
    plain = ab_test(arm, depth, price, other_revenue=anyway, shares={"decided": 0.5, "control": 0.4, "holdout": 0.1})
    named = np.select([arm == "decided", arm == "control"], ["B", "A"], "nobody")
    shares = {"B": 0.5, "A": 0.4, "nobody": 0.1}
    found = ab_test(named, depth, price, other_revenue=anyway, shares=shares, control="A", holdout="nobody")
    assert found.findings == plain.findings
    assert list(found.arms) == ["B", "A", "nobody"]
    assert found.incremental["B"] == plain.incremental["decided"]
    assert found.sample_ratio.p_value == plain.sample_ratio.p_value


def test_further_arms_are_summed_up_but_not_compared():
    rng = np.random.default_rng(15)
    arm, depth, price = simulated(rng)
    third = np.where((arm == "control") & (rng.random(arm.size) < 0.3), "C", arm)
    found = ab_test(third, depth, price, decided="decided", shares={"decided": 0.6, "control": 0.28, "C": 0.12})
    two = third != "C"
    assert found.findings == ab_test(third[two], depth[two], price[two]).findings
    assert list(found.arms) == ["decided", "control", "C"]
    assert found.sample_ratio.ok


# ---- how it reads ----------------------------------------------------------------------------------------------------


def test_it_reads_in_a_line_in_words_and_as_a_table():
    rng = np.random.default_rng(16)
    arm, depth, price = simulated(rng, lift=0.5, holdout=0.1)
    found = ab_test(arm, depth, price, other_revenue=rng.gamma(4, 10, arm.size), before=rng.gamma(4, 10, arm.size))
    assert repr(found).startswith("AbTest(better; customers: decided ")
    assert len(repr(found)) < 100
    lines = found.summary().splitlines()
    assert lines[0].startswith("Better. Revenue per customer: the 95% interval of the difference excludes 0")
    assert lines[1].startswith(f"decided: {(arm == 'decided').sum():,} customers, ")
    assert any(line.startswith("all revenue, control against the holdout, per customer: ") for line in lines)
    table = found.to_pandas()
    assert len(table) == len(found.findings)
    revenue = table[(table.metric == "revenue") & (table.per == "customer")].iloc[0]
    decisive = found.finding("revenue").decisive
    assert (revenue.difference, revenue.relative_upper) == (decisive.difference.value, decisive.relative.upper)
    assert bool(revenue.adjusted)


def test_data_frames_and_arrow_are_read_as_arrays_are():
    rng = np.random.default_rng(17)
    arm, depth, price = simulated(rng)
    frame = pd.DataFrame({"arm": arm, "depth": depth, "price": price})
    table = pa.Table.from_pandas(frame)
    expected = ab_test(arm, depth, price).findings
    assert ab_test(frame["arm"], frame["depth"], frame["price"]).findings == expected
    assert ab_test(table["arm"], table["depth"], table["price"]).findings == expected


# ---- verdicts --------------------------------------------------------------------------------------------------------


def test_a_table_says_by_its_columns_what_the_arrays_are():
    arm, depth, price = simulated(np.random.default_rng(2), lift=0.2, holdout=0.1)
    spend, other = np.arange(arm.size) % 7, np.ones(arm.size)
    frame = pd.DataFrame({"arm": arm, "depth": depth, "full_price": price, "other_revenue": other, "spend": spend})
    expected = ab_test(arm, depth, price, other_revenue=other, before=spend).findings
    assert ab_test(frame, before="spend").findings == expected
    assert ab_test(pa.Table.from_pandas(frame), before=["spend"]).findings == expected
    with pytest.raises(InputError, match=r"no column full_price, visits among arm.*disco\.ab"):
        ab_test(frame.drop(columns="full_price"), before="visits")
    with pytest.raises(InputError, match="beside a table"):
        ab_test(frame, depth)
    with pytest.raises(InputError, match="depth and full_price"):
        ab_test(arm)


def test_verdicts_of_a_campaign():
    rng = np.random.default_rng(4)
    shares = {"decided": 0.6, "control": 0.4}
    assert ab_test(*simulated(rng, lift=0.5), shares=shares).verdict is Verdict.BETTER
    assert ab_test(*simulated(rng, lift=-0.5), shares=shares).verdict is Verdict.WORSE
    assert ab_test(*simulated(rng, rows=40, lift=0.02), shares=shares).verdict is Verdict.UNDECIDED


def test_a_broken_assignment_blocks_the_verdict():
    rng = np.random.default_rng(5)
    arm, depth, price = simulated(rng, lift=0.5)
    keep = (arm == "control") | (rng.random(arm.size) < 0.75)  # some of the test arm went missing
    found = ab_test(arm[keep], depth[keep], price[keep], shares={"decided": 0.6, "control": 0.4})
    assert found.verdict is Verdict.BLOCKED
    assert "planned shares" in found.reason
    assert found.finding("revenue").comparison.p_value < 0.05  # the figure looks fine, and must not be believed


def test_an_arm_that_lost_everybody_blocks_the_verdict():
    """A holdout was planned and nobody is in it: the figures of the others cannot be trusted either."""
    rng = np.random.default_rng(3)
    arm = np.repeat(["decided", "control"], [900, 80])
    shares = {"decided": 0.9, "control": 0.08, "holdout": 0.02}
    result = ab_test(arm, np.full(980, 0.2), rng.lognormal(3, 1, 980), shares=shares)
    assert result.sample_ratio is not None
    assert result.sample_ratio.found["holdout"] == 0
    assert result.verdict is Verdict.BLOCKED
    assert "holdout 0 for 20" in result.reason


def test_the_sample_ratio_check_is_the_chi_square_test():
    counts, shares = (
        {"decided": 700, "control": 280, "holdout": 20},
        {"decided": 14.0, "control": 5.0, "holdout": 1.0},
    )
    found = sample_ratio(counts, shares)
    assert found.p_value == pytest.approx(chisquare([700, 280, 20], [700, 250, 50]).pvalue)
    assert not found.ok


def test_before_the_end_the_verdict_takes_the_always_valid_interval():
    rng = np.random.default_rng(6)
    arm, depth, price = simulated(rng, rows=3000, lift=0.13)
    final = ab_test(arm, depth, price)
    early = ab_test(arm, depth, price, final=False, planned_purchasers=3000)
    running = early.finding("revenue").to_date
    assert running.difference.upper - running.difference.lower > 1.4 * (
        final.finding("revenue").comparison.difference.upper - final.finding("revenue").comparison.difference.lower
    )
    assert "to date" in early.reason
    with pytest.raises(InputError, match="planned_purchasers"):
        ab_test(arm, depth, price, final=False)


@pytest.mark.parametrize("adjusted", [False, True], ids=["as measured", "adjusted"])
def test_before_the_end_text_and_table_show_the_interval_that_is_valid_at_every_look(adjusted):
    rng = np.random.default_rng(17)
    arm, depth, price = simulated(rng, rows=1000, lift=0.5, holdout=0.1)
    given = {"other_revenue": rng.gamma(4, 10, 1000), "before": rng.gamma(4, 10, 1000) if adjusted else None}
    early = ab_test(arm, depth, price, final=False, planned_purchasers=400, **given)
    lines = early.summary().splitlines()
    for (_, row), found in zip(early.to_pandas().iterrows(), early.findings, strict=True):
        running = found.to_date
        assert running.difference.upper > found.decisive.difference.upper
        assert (row.difference_lower, row.difference_upper) == (running.difference.lower, running.difference.upper)
        assert (row.p_value, row.adjusted) == (running.p_value, found.adjusted is not None)
        if running.relative is not None:
            assert (row.relative_lower, row.relative_upper) == (running.relative.lower, running.relative.upper)
        if found.per == "customer":
            (line,) = (line for line in lines if line.startswith(f"{found.metric} per customer: "))
            assert f"interval {running.difference.lower:+,.3f} to {running.difference.upper:+,.3f}, p" in line
    against_holdout = [line for line in lines if "against the holdout" in line]
    assert len(against_holdout) == 2
    assert all(line.endswith("; this interval is for one look, at the end") for line in against_holdout)
    assert "one look" not in ab_test(arm, depth, price, **given).summary()


def test_a_percentage_without_limits_is_not_said():
    """Control's mean is 100 ± 100: any percentage may be true, though the difference is clear."""
    price = np.concatenate([np.full(100, 4000.0) + np.arange(100), [10_000.0], np.full(99, NONE)])
    found = ab_test(["decided"] * 100 + ["control"] * 100, np.full(200, 0.1), price)
    relative = found.finding("revenue").comparison.relative
    assert relative.ends == (-np.inf, np.inf)
    assert found.verdict is Verdict.BETTER
    (line,) = (line for line in found.summary().splitlines() if line.startswith("revenue per customer"))
    assert re.search(r"against 90\.000; difference \+3,", line)


def test_pre_period_figures_decide_where_they_are_given():
    rng = np.random.default_rng(7)
    arm, depth, price = simulated(rng, rows=3000)
    before = np.nan_to_num(price) + rng.normal(0, 5, 3000)
    found = ab_test(arm, depth, price, before=before).finding("revenue")
    assert found.decisive is found.adjusted.comparison
    assert found.adjusted.variance_reduction > 0.8


# ---- nobody is better ------------------------------------------------------------------------------------------------


def test_tests_of_equal_arms_reject_at_their_rate(offline, experiments):
    runs = 400
    low, high = offline.band(runs, 0.05)
    for name, rejected in experiments.aa_rejections(runs).items():
        if name.startswith("sample ratio"):
            assert rejected / runs <= offline.band(runs, 0.001)[1]
        else:
            assert low <= rejected / runs <= high, name


def test_daily_looks_keep_the_level_only_with_the_always_valid_interval(offline, experiments):
    runs = 500
    _, high = offline.band(runs, 0.05)
    for name, rejected in experiments.sequential_rejections(runs).items():
        if "always valid" in name:
            assert rejected / runs <= high, name
        else:
            assert rejected / runs > 2 * high, name  # why it is needed


def test_shared_caps_bias_the_comparison_and_own_caps_do_not():
    """Deep codes are scarce. If the policy picks first from one pool, control gets the leavings: it is not the control
    of the same campaign, and the uplift is too large. With its own share of caps each arm is a campaign in small."""
    rng = np.random.default_rng(8)
    rows, deep = 4000, 800
    price = np.column_stack([np.full(rows, 50.0), rng.gamma(9, 10, rows)])  # worth of the two depths
    own, shared = [], []

    def at_random(count, codes):
        choice = np.zeros(count, int)
        choice[rng.permutation(count)[:codes]] = 1
        return choice

    def earned(who, choice):
        return price[who, choice].mean()

    everybody = np.arange(rows)
    best = allocate(price, [rows, deep]).choice
    truth = earned(everybody, best) / np.mean([earned(everybody, at_random(rows, deep)) for _ in range(200)])
    for _ in range(60):
        order = rng.permutation(rows)
        test, control = order[:2000], order[2000:]
        chosen = allocate(price[test], [rows, deep // 2]).choice
        own.append(earned(test, chosen) / earned(control, at_random(2000, deep // 2)))
        greedy = allocate(price[test], [rows, deep]).choice
        left = deep - int((greedy == 1).sum())
        shared.append(earned(test, greedy) / earned(control, at_random(2000, left)))
    error = np.std(own, ddof=1) / np.sqrt(60)
    assert abs(np.mean(own) - truth) < 4 * error
    assert np.mean(shared) - truth > 10 * error


# ---- few or no purchases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, np.arange(80.0)])
def test_nobody_bought_gives_no_interval_of_one_point(before):
    arm, nothing = ["decided"] * 40 + ["control"] * 40, np.full(80, NONE)
    found = ab_test(arm, np.full(80, 0.1), nothing, before=before)
    for metric in ("revenue", "reward"):
        difference = found.finding(metric).decisive.difference
        assert (difference.value, difference.lower, difference.upper) == (0, -np.inf, np.inf)
    rate = found.finding("engagement").decisive.difference
    assert 0.02 < rate.upper < 0.2
    assert rate.lower == -rate.upper
    assert found.verdict is Verdict.UNDECIDED


def test_an_extreme_rate_stays_within_its_bounds():
    arm, price = ["decided"] * 3 + ["control"] * 3, [10.0, 10.0, 10.0, NONE, NONE, NONE]
    rate = ab_test(arm, [0.1] * 6, price).finding("engagement").decisive.difference
    assert rate.value == 1
    assert -1 <= rate.lower < rate.upper <= 1


def test_nobody_bought_in_either_of_the_arms_with_a_holdout():
    arm, nothing = ["decided"] * 20 + ["holdout"] * 20, np.full(40, NONE)
    depth = np.repeat([0.1, NONE], 20)
    found = ab_test(arm, depth, nothing, other_revenue=np.zeros(40), before=np.arange(40.0))
    assert found.incremental_of("decided").difference.covers(100.0)
    assert found.incremental_adjusted == {}


def test_the_printed_incremental_figure_is_the_adjusted_one():
    rng = np.random.default_rng(3)
    before = rng.lognormal(3, 1, 600)
    arm = rng.choice(["decided", "holdout"], 600)
    other = before * rng.uniform(0.5, 1.5, 600)
    found = ab_test(arm, np.where(arm == "decided", 0.1, NONE), np.full(600, NONE), other_revenue=other, before=before)
    measured, used = found.incremental["decided"], found.incremental_of("decided")
    assert used == found.incremental_adjusted["decided"].comparison
    assert used.difference.standard_error < measured.difference.standard_error / 2
    assert f"{used.difference.value:+,.3f}" in found.summary()


# ---- bad input -------------------------------------------------------------------------------------------------------

GOOD = {"arm": ["decided", "decided", "control", "control"], "depth": [0.1] * 4, "full_price": [10.0, NONE, 20.0, NONE]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": []}, "one label per customer"),
        (
            {"arm": ["decided"] * 4},
            "found 'decided'; expected 'decided', and 'control' or 'holdout' to compare it with",
        ),
        ({"arm": ["control", "holdout"] * 2}, "found 'control', 'holdout'; expected one decided arm beside"),
        ({"arm": ["decided", "control", "placebo", "decided"]}, "'placebo'; expected one decided arm .* decided='B'"),
        ({"decided": "B"}, "found 'control', 'decided'; expected 'B', and 'control'"),
        ({"decided": "control"}, "expected 'control', and 'control' or 'holdout'"),
        ({"arm": ["decided", None, "control", "control"]}, "arm, row 2: found null"),
        ({"arm": [["decided"], ["control"]]}, "arm: found shape"),
        ({"arm": ["decided", "control", "control", "holdout"]}, "no codes in the holdout"),
        ({"arm": ["decided", "control", "control", "control"]}, "at least two"),
        ({"depth": [0.1] * 3}, "one figure for each of 4 rows"),
        ({"depth": [0.1, 20, 0.1, 0.1]}, "depth, row 2"),
        ({"full_price": [-1.0, 2, 3, 4]}, "full_price, row 1"),
        ({"full_price": [np.inf, 2, 3, 4]}, "full_price, row 1"),
        ({"full_price": ["x"] * 4}, "full_price: found text"),
        ({"depth": [NONE, 0.1, 0.1, 0.1]}, "a customer who got none"),
        ({"before": [1.0, 2.0]}, "before"),
        ({"before": [1.0, 2.0, NONE, 1.0]}, "before"),
        ({"shares": {"decided": 1.0}}, "shares"),
        ({"revenue_weight": -2.0}, "revenue_weight"),
        ({"level": 1.5}, "level"),
        ({"planned_purchasers": 0}, "planned_purchasers"),
    ],
)
def test_a_bad_campaign_is_refused_by_name(change, message):
    given = {**GOOD, **change}
    with pytest.raises(InputError, match=message):
        ab_test(given.pop("arm"), given.pop("depth"), given.pop("full_price"), **given)


# ---- tables of one's own ---------------------------------------------------------------------------------------------


def metric(values, counts=None, name="revenue"):
    counts = None if counts is None else np.asarray(counts, float)
    return MetricColumns(name=name, numerator=np.asarray(values, float), denominator=counts)


def two_arms(first, second):
    return ["new"] * len(first) + ["control"] * len(second), np.concatenate([first, second])


def difference(arm, values, counts=None, **options):
    return experiment(arm, [metric(values, counts)], **options).differences[0]


def test_a_mean_is_welchs_test():
    rng = np.random.default_rng(1)
    first, second = rng.gamma(2, 20, 300), rng.gamma(2, 25, 170)
    found = difference(*two_arms(first, second))
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
    found = difference(arm, revenue, orders)
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
    plain, adjusted = difference(arm, revenue), difference(arm, revenue, before=before)
    assert adjusted.variance_reduction == pytest.approx(0.9, abs=0.02)
    assert adjusted.difference.standard_error < 0.35 * plain.difference.standard_error
    assert (adjusted.value, adjusted.control) == (plain.value, plain.control)


def test_what_was_not_known_before_is_a_figure_of_its_own():
    rng = np.random.default_rng(4)
    before = rng.normal(size=2000)
    revenue = 10 + 3 * before + rng.normal(size=2000)
    unknown = rng.random(2000) < 0.3
    arm = rng.choice(["new", "control"], 2000)
    found = difference(arm, revenue, before=np.where(unknown, np.nan, before))
    flagged = np.column_stack([np.where(unknown, 0, before), unknown])
    assert found.difference == difference(arm, revenue, before=flagged).difference
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
    assert found.differences[3].kind == "rate"


def test_looks_hold_together_and_widen_the_interval():
    rng = np.random.default_rng(7)
    arm, values = two_arms(rng.normal(0.2, 1, 400), rng.normal(0, 1, 400))
    once, often = difference(arm, values), difference(arm, values, looks=5)
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
            difference(arm[:rows], values[:rows], looks=5).verdict != "undecided" for rows in (100, 200, 300, 400, 500)
        )
    assert alarms <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize(("successes", "others"), [(0, 0), (0, 3), (4, 0)])
def test_few_successes_never_give_an_interval_of_one_point(successes, others):
    first, second = np.zeros(80), np.zeros(60)
    first[:successes], second[:others] = 1, 1
    found = difference(*two_arms(first, second))
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
        found = difference(*two_arms(np.arange(n) < x, np.arange(n) < y))
        covered += chances[x] * chances[y] * found.difference.covers(0.0)
    assert covered / chances.sum() ** 2 >= 0.95


def test_lost_customers_block_every_verdict():
    arm = ["new"] * 4000 + ["control"] * 5000
    found = experiment(arm, [metric(np.r_[np.ones(4000) * 5 + np.arange(4000) % 3, np.arange(5000) % 3])])
    assert not found.sample_ratio.ok
    assert found.differences[0].verdict is Verdict.BLOCKED
    stated = experiment(arm, [metric(np.arange(9000) % 7)], shares={"new": 4, "control": 5})
    assert stated.sample_ratio.p_value == 1.0


def test_what_cannot_be_told_has_no_limits():
    constant = difference(["new"] * 5 + ["control"] * 5, np.full(10, 3.0))
    assert constant.difference.lower == -math.inf
    nothing = difference(["new"] * 5 + ["control"] * 5, np.arange(10), np.r_[np.zeros(5), np.ones(5)])
    assert nothing.value is None


def test_an_arm_in_which_nobody_bought_has_no_percentage_of_one_point():
    control = np.r_[np.full(10, 30.0) + np.arange(10), np.zeros(290)]
    found = difference(*two_arms(np.zeros(300), control))
    assert found.relative is None
    assert found.difference.upper < 0


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
def test_a_bad_table_is_refused_by_name(change, message):
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


# ---- one way of reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [False, True], ids=["as measured", "adjusted"])
def test_a_campaign_and_a_table_of_the_same_figures_say_the_same(before):
    arm, depth, price = simulated(np.random.default_rng(5), lift=0.3)
    revenue = np.nan_to_num(price * (1 - depth))
    options = {"shares": {"decided": 0.6, "control": 0.4}}
    if before:
        options["before"] = np.random.default_rng(6).normal(size=arm.size)
    campaign, table = ab_test(arm, depth, price, **options), difference(arm, revenue, **options)
    used = campaign.deciding.decisive
    assert (used.difference, used.relative, used.p_value) == (table.difference, table.relative, table.p_value)
    assert (campaign.verdict, table.verdict) == (Verdict.BETTER, Verdict.HIGHER)


def test_figures_explained_wholly_by_earlier_ones_are_not_adjusted():
    """The rest is rounding: read as an error, it would show a difference in every seventh test of equal arms."""
    for seed in range(20):
        before = np.random.default_rng(seed).lognormal(3, 1, 400)
        found = difference(*two_arms(3.7 * before[:200] + 1, 3.7 * before[200:] + 1), before=before)
        assert found.variance_reduction is None
        assert found.difference.standard_error > 1


@pytest.mark.parametrize("customers", [5, 7, 50])
def test_figures_that_do_not_vary_show_nothing_whatever_the_rounding_of_their_mean(customers):
    """The mean of seven times 8.19 is not 8.19, so the variance is not 0: it must not become an error of 7e-16."""
    arm = ["decided"] * customers + ["control"] * customers
    price = np.repeat([9.1, 9.3], customers)
    campaign = ab_test(arm, np.full(price.size, 0.1), price)
    for per in ("customer", "recipient", "purchaser"):
        used = campaign.finding("revenue", per).comparison
        assert (used.difference.lower, used.difference.upper, used.p_value) == (-math.inf, math.inf, 1.0)
    assert campaign.verdict is Verdict.UNDECIDED
    orders = np.tile(np.arange(1.0, customers + 1), 2)
    for figures in ((price,), (price * orders, orders)):
        found = difference(arm, *figures)
        assert (found.difference.lower, found.p_value) == (-math.inf, 1.0)


def test_an_arm_of_one_customer_is_refused_by_its_name_in_both():
    arm = ["decided"] * 3 + ["control"]
    for read in (lambda: ab_test(arm, [0.1] * 4, [1.0, 2.0, 3.0, 4.0]), lambda: difference(arm, [1.0, 2.0, 3.0, 4.0])):
        with pytest.raises(InputError, match=r"arm control: found 1 customer; expected at least two"):
            read()


def test_a_column_may_have_braces_in_its_name():
    with pytest.raises(InputError, match=r"spend {gbp}, row 2: found inf"):
        experiment(["a", "a", "control", "control"], [metric([1.0, np.inf, 2.0, 3.0], name="spend {gbp}")])
