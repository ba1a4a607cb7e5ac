"""The sentences about a plan's money and groups: when they are said, and what they say."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from disco.operations.experiment import power
from disco.operations.plan import PlanResult
from disco.operations.plan_warnings import group_warning, overspend_warning, plan_risks, size_warnings
from disco.records.decisions import Arm
from disco.records.estimate import Estimate
from disco.records.money import GBP
from disco.records.plan import read_plan
from disco.records.plan_summary import ArmForecast, MoneyForecast


def plan_of(**more):
    content = {
        "campaign": "spring",
        "customers": {"as_of": "2027-03-01"},
        "depths": {0.1: {"at_most": "20%"}, 0.6: {}},
        "objective": {"revenue_weight": 3},
        "valid": {"from": "2027-03-08", "days": 14},
        "budget": 70_000,
    }
    return read_plan(content | more)


def group(customers, codes, markdown=None):
    money = None
    if markdown is not None:
        money = MoneyForecast(revenue=Estimate(1.0), markdown=Estimate(markdown), reward=Estimate(1.0))
    return ArmForecast(customers=customers, codes={0.1: codes}, money=money)


@pytest.mark.parametrize(
    ("budget", "chance", "said"),
    [
        (70_000, None, ""),
        (70_000, 0.2, ""),
        (
            70_000,
            0.52,
            "The chance that the codes cost more than the budget is 52%. Set an overspend risk of 20% to keep the "
            "chance at or below that.",
        ),
        (
            {"amount": 70_000, "overspend_risk": "30%"},
            0.29,
            "The chance that the codes cost more than the budget is 29%. The plan allows an overspend risk of 30%.",
        ),
    ],
)
def test_a_chance_to_overspend_above_one_in_five_is_warned_of(budget, chance, said):
    assert overspend_warning(plan_of(budget=budget), chance) == said


@pytest.mark.parametrize(
    ("more", "decided", "control", "said"),
    [
        ({}, group(1000, 600, 1200), group(100, 40, 120), ""),
        (
            {},
            group(42_584, 28_923, 62_700),
            group(4_948, 356, 7_250),
            "7% of the control group get a code, and 68% of the decided group. Comparing them would show what more "
            "codes bring, not what deciding is worth. Both have the same budget per customer, but a control code costs "
            "£20.37 and a decided one £2.17. Control's codes follow the caps: give 60% off a cap.",
        ),
        (
            {"depths": {0.1: {"at_most": "20%"}, 0.6: {"at_most": "20%"}}},
            group(1000, 600, 1200),
            group(100, 0),
            "0% of the control group get a code, and 60% of the decided group. Comparing them would show what more "
            "codes bring, not what deciding is worth. Both have the same budget per customer. Control's codes follow "
            "the caps: lower those of the deeper depths, or raise the budget.",
        ),
        (
            {"budget": None},
            group(1000, 100, 200),
            group(100, 60, 120),
            "10% of the decided group get a code, and 60% of the control group. Comparing them would show what more "
            "codes bring, not what deciding is worth. The decided group leaves out customers whose code would cost "
            "more than it brings.",
        ),
        ({"policy": {"name": "random"}}, group(1000, 100), group(100, 60), ""),
        ({}, group(1000, 0), group(100, 0), ""),
    ],
)
def test_groups_whose_codes_reach_other_shares_of_customers_are_warned_of(more, decided, control, said):
    arms = {Arm.DECIDED: decided, Arm.CONTROL: control}
    assert group_warning(plan_of(**more), arms, budget_price=0.5 * ("budget" not in more), currency=GBP) == said


@pytest.mark.parametrize("decided", [group(1000, 100, 900), group(1000, 0)])
def test_a_budget_that_is_not_used_up_is_not_why_the_decided_group_gets_fewer_codes(decided):
    arms = {Arm.DECIDED: decided, Arm.CONTROL: group(100, 60, 120)}
    words = group_warning(plan_of(budget=10_000_000), arms, budget_price=0.0, currency=GBP)
    assert words.endswith(
        "deciding is worth. The decided group leaves out customers whose code would cost more than it brings."
    )
    assert "same budget per customer" in group_warning(plan_of(), arms, budget_price=0.5, currency=GBP)


def test_codes_of_the_launch_are_measured_against_the_budget_without_the_reserve():
    words = overspend_warning(plan_of(reserve={"share": "20%"}), 0.52)
    assert words.startswith("The chance that the codes cost more than the budget without the reserve is 52%.")


def test_a_plan_without_control_and_holdout_is_warned_of():
    alone = {Arm.DECIDED: group(1000, 600, 1200)}
    assert group_warning(plan_of(), alone, budget_price=0.5, currency=GBP).endswith(
        "New plans begin with 10% control and 5% holdout."
    )
    planned = plan_of(control={"share": 0.1}, holdout={"share": 0.025})
    few = group_warning(planned, {Arm.DECIDED: group(3, 1)}, budget_price=0.5, currency=GBP)
    assert few.endswith("The plan has 3 customers, too few for 10% control and 2.5% holdout."), "its groups are empty"
    with_holdout = alone | {Arm.HOLDOUT: group(50, 0)}
    assert group_warning(plan_of(), with_holdout, budget_price=0.5, currency=GBP) == ""
    assert group_warning(plan_of(policy={"name": "random"}), alone, budget_price=0.5, currency=GBP) == ""


@pytest.mark.parametrize("other", [Arm.CONTROL, Arm.HOLDOUT])
def test_groups_that_could_show_only_an_enormous_difference_are_warned_of(other):
    arms = {Arm.DECIDED: group(3200, 3000), other: group(800, 700)}
    plan, spend = plan_of(), np.repeat([50.0, 0.0], [200, 3800])
    (words,) = size_warnings(plan, arms, pa.table({"spend_30d": spend}))
    months = plan.valid.days / 30
    asked = {"baseline": spend.mean() * months, "sd": spend.std() * months**0.5, "control_share": 0.2}
    uplift = power(**asked, customers=4000).uplift
    assert f"about {uplift:.0%} or more" in words
    assert f"the {'control group' if other is Arm.CONTROL else 'holdout'} of 800" in words
    many = {arm: replace(one, customers=100 * one.customers) for arm, one in arms.items()}
    assert [*size_warnings(plan, many, pa.table({"spend_30d": spend}))] == []
    assert "Nobody ordered" in next(size_warnings(plan, arms, pa.table({"spend_30d": [0.0, None]})))
    assert "enormous" in next(
        size_warnings(plan, {Arm.DECIDED: group(3, 1), other: group(1, 1)}, pa.table({"spend_30d": spend}))
    )
    for unsaid in ({Arm.DECIDED: group(10, 1)}, {}):
        assert [*size_warnings(plan, unsaid, pa.table({"spend_30d": spend}))] == []


def test_a_kept_plan_gets_its_warnings_although_it_keeps_none(shop):
    planned = shop.planned(shop.plan(budget=40))
    record = planned.record()
    assert planned.summary.overspend_chance > 0.2
    risks = plan_risks(record)
    assert "cost more than the budget" in risks[0]
    assert not set(risks) & set(record.summary.warnings), "they follow from the plan, so its bytes stay what they were"
    assert PlanResult.of(planned, dry_run=True).warnings == (*risks, *planned.summary.warnings)
