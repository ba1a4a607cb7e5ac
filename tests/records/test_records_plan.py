"""A plan is read whole or refused with every problem named."""

import json
from datetime import UTC, date, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import PlanError
from disco.records.money import read_currency
from disco.records.plan import Plan, limit_count, read_plan

TEXT = """
campaign: spring-27
customers: {table: data/customers.parquet, eligible: "country = 'GB'", as_of: 2027-03-01}
depths: {0.30: {at_most: 5000}, 0.10: {at_most: 20000}, 0.20: {at_most: 40%, at_least: 10}}
objective: {revenue_weight: 3}
budget: 250000
policy: {name: thompson, exploration: 1, scope: customer}
control: {share: 10%}
holdout: {share: 2%}
reserve: {share: 0.02}
valid: {from: 2027-03-08, days: 14}
seed: 42
"""


def content(**more):
    return {**yaml.safe_load(TEXT), **more}


def refusal(**more):
    with pytest.raises(PlanError) as caught:
        read_plan(content(**more), file="plan.yaml")
    return str(caught.value)


def test_the_shop_says_how_far_thompson_explores_where_the_plan_does_not():
    def found(**policy: object) -> float:
        return read_plan(content(policy=policy), exploration=0.1).policy.exploration

    assert (found(), found(name="thompson"), found(name="thompson", exploration=1)) == (0.1, 0.1, 1.0)
    assert found(name="ucb") == 1.0
    assert read_plan(content(policy={})).policy.exploration == 1.0


def test_the_documented_plan_is_read():
    plan = read_plan(content())
    assert plan.offered == (0.1, 0.2, 0.3)
    assert plan.caps(1000) == (20000, 400, 5000)
    assert plan.floors(1000) == (0, 10, 0)
    assert (plan.control.share, plan.holdout.share, plan.reserve.share) == (0.1, 0.02, 0.02)
    assert plan.valid.end == date(2027, 3, 22)


def test_a_saved_plan_reads_back_equal():
    plan = read_plan(content())
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


def test_a_depth_of_twenty_is_asked_about():
    assert "Did you mean 0.20?" in refusal(depths={20: {"at_most": 5}})


def test_every_problem_is_named_at_once():
    text = refusal(
        campaign="a b",
        depths={"0.1": {"at_most": -1}},
        objective={"revenue_weight": float("nan")},
        budget=-1,
        policy={"name": "thomson"},
        control={"share": "100%"},
        valid={"from": "2027-13-01", "days": 0},
        polcy={},
    )
    for place in (
        "campaign",
        "depths.0.1.at_most",
        "objective.revenue_weight",
        "budget",
        "policy.name",
        "control.share",
        "valid.from",
        "valid.days",
        "polcy",
    ):
        assert f"plan.yaml, {place}: found" in text


@pytest.mark.parametrize("missing", ["campaign", "customers", "depths", "objective", "valid"])
def test_a_missing_part_is_named(missing):
    broken = content()
    del broken[missing]
    with pytest.raises(PlanError, match=f"plan.yaml, {missing}: found nothing"):
        read_plan(broken, file="plan.yaml")


def test_arms_must_leave_customers_and_features_must_precede_the_campaign():
    assert "leave customers" in refusal(control={"share": "60%"}, holdout={"share": "40%"})
    assert "future" in refusal(customers={"as_of": date(2027, 3, 9)})


@pytest.mark.parametrize("text", [None, [], "spring", 3])
def test_what_is_no_plan_at_all_is_refused(text):
    with pytest.raises(PlanError, match="keys and values"):
        read_plan(text)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(0, 10**7))
def test_shares_up_to_everybody_never_give_more_codes_than_customers(percents, eligible):
    shares = [percent / max(100, sum(percents)) for percent in percents]
    assert sum(limit_count(share, eligible=eligible) for share in shares) <= eligible


def test_every_wrong_depth_is_named():
    text = refusal(depths={20: {}, 30: {}, 0.1: {}})
    assert "found 20, 30;" in text
    assert "Did you mean 0.20? Did you mean 0.30?" in text


def test_a_bare_nought_is_no_limit_by_accident():
    """`0.20: 0` surely means none; read as "no limits given" it would mean as many as there are."""
    assert "depths.0.2" in refusal(depths={0.2: 0})
    assert read_plan(content(depths={0.2: None})).caps(9) == (None,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("depths", {0.1: {"at_most": "1.2.3%"}}),
        ("depths", {0.1: {"at_most": 10**30}}),
        ("control", {"share": "1..0%"}),
        ("valid", {"from": date(2027, 3, 8), "days": 10**9}),
        ("valid", {"from": date(9999, 12, 30), "days": 2}),
    ],
)
def test_nonsense_is_refused_by_name(key, value):
    assert f"plan.yaml, {key}" in refusal(**{key: value})
    assert "could not convert" not in refusal(**{key: value})


def test_codes_have_a_prefix_or_come_from_a_pool():
    assert read_plan(content()).codes.prefix is None
    assert read_plan(content(codes={"prefix": "SPRING27"})).codes.prefix == "SPRING27"
    assert read_plan(content(codes={"pool": "codes.txt"})).codes.pool == "codes.txt"
    assert read_plan(content(codes={"prefix": "SPRING", "pool": "codes.txt"})).codes.pool == "codes.txt"
    for wrong in ("spring", "=SPRING", "A B", "", "X" * 17, 7):
        assert "capital letters" in refusal(codes={"prefix": wrong})


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("objective.revenue_weight", {"objective": {"revenue_weight": True}}),
        ("objective.revenue_weight", {"objective": {"revenue_weight": "3"}}),
        ("budget", {"budget": "1e6"}),
        ("budget", {"budget": True}),
        ("policy.exploration", {"policy": {"exploration": "1"}}),
        ("seed", {"seed": "7"}),
        ("seed", {"seed": True}),
        ("valid.days", {"valid": {"from": "2027-03-08", "days": "14"}}),
        ("valid.days", {"valid": {"from": "2027-03-08", "days": True}}),
    ],
)
def test_truths_and_quoted_numbers_are_no_numbers(place, more):
    assert f"plan.yaml, {place}" in refusal(**more)


@pytest.mark.parametrize("depth", [0, 1e-9, 5e-324, 0.0009])
def test_depths_that_would_be_shown_as_nothing_are_refused(depth):
    assert "at least 0.001, which is 0.1% off" in refusal(depths={depth: {}, 0.1: {}})


def test_the_number_of_depths_is_bounded():
    offered = {(number + 1) / 100: {} for number in range(65)}
    assert "found 65 depths; expected at most 64" in refusal(depths=offered)
    offered.popitem()
    assert len(read_plan(content(depths=offered)).offered) == 64


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("customers.as_of", {"customers": {"as_of": "0001-01-01"}}),
        ("valid.from", {"valid": {"from": "9999-11-30T08:00", "days": 14}}),
        ("seed", {"seed": 10**20}),
        ("valid.days", {"valid": {"from": "2027-03-08", "days": 16**5000}}),
    ],
)
def test_days_and_numbers_at_the_ends_of_what_can_be_counted_are_refused_by_name(place, more):
    assert f"plan.yaml, {place}: found " in refusal(**more)
    assert read_plan(content(seed=2**64 - 1)).seed == 2**64 - 1


def test_a_plan_that_was_kept_with_such_depths_can_still_be_read():
    kept = read_plan(content()).model_dump(mode="json", by_alias=True)
    assert Plan.model_validate({**kept, "depths": {"0.0005": {}}}).offered == (0.0005,)


@pytest.mark.parametrize(
    ("written", "kept", "start", "last", "closes"),
    [
        ("2027-12-04", "2027-12-04", date(2027, 12, 4), date(2027, 12, 17), date(2027, 12, 18)),
        (date(2027, 12, 4), "2027-12-04", date(2027, 12, 4), date(2027, 12, 17), date(2027, 12, 18)),
        ("2027-12-04T00:00", "2027-12-04", date(2027, 12, 4), date(2027, 12, 17), date(2027, 12, 18)),
        *(
            (form, "2027-12-04T08:00:00", date(2027, 12, 4), date(2027, 12, 18), datetime(2027, 12, 18, 8))
            for form in ("2027-12-04T08:00", "2027-12-04 08:00", datetime(2027, 12, 4, 8))
        ),
    ],
)
def test_codes_may_begin_at_a_time_of_day(written, kept, start, last, closes):
    plan = read_plan(content(valid={"from": written, "days": 14}))
    assert (plan.valid.start, plan.valid.last, plan.valid.closes) == (start, last, closes)
    assert json.loads(plan.model_dump_json(by_alias=True))["valid"] == {"from": kept, "days": 14}
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("2027-12-04T08:00+01:00", "time_zone"),
        (datetime(2027, 12, 4, 8, tzinfo=UTC), "time_zone"),
        ("soon", "2026-12-04T08:00"),
        (20271204, "2026-12-04T08:00"),
        (None, "2026-12-04T08:00"),
    ],
)
def test_a_start_that_is_no_local_time_is_refused(written, said):
    with pytest.raises(PlanError, match=rf"valid\.from.*{said}"):
        read_plan(content(valid={"from": written, "days": 14}))


@pytest.mark.parametrize(("code", "budget"), [("JPY", 1000.5), ("GBP", 12.345), ("KWD", 0.0001)])
def test_a_budget_finer_than_the_minor_unit_is_refused(code, budget):
    currency = read_currency(code)
    with pytest.raises(PlanError, match=f"budget: found {budget}; expected .*{code}"):
        read_plan(content(budget=budget), currency=currency)
    assert read_plan(content(budget=round(budget, currency.digits)), currency=currency).budget is not None
