"""The A/B read-out: by hand, over simulated tests, and at its edges."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from disco.allocation import allocate
from disco.evaluation.estimates import uplift
from disco.evaluation.read_out import Verdict, ab_test, sample_ratio
from disco.records.errors import InputError

NONE = np.nan


def simulated(rng, rows=4000, lift=0.0, holdout=0.0):
    arm = rng.choice(["decided", "control", "holdout"], rows, p=[0.6 - holdout, 0.4, holdout])
    depth = np.where(arm == "holdout", NONE, rng.choice([0.1, 0.3], rows))
    bought = (rng.random(rows) < 0.3) & (arm != "holdout")
    price = np.where(bought, rng.gamma(4, 10, rows) * np.where(arm == "decided", 1 + lift, 1.0), NONE)
    return arm, depth, price


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_by_hand():
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


def test_verdicts():
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
def test_bad_input_is_refused_by_name(change, message):
    given = {**GOOD, **change}
    with pytest.raises(InputError, match=message):
        ab_test(given.pop("arm"), given.pop("depth"), given.pop("full_price"), **given)
