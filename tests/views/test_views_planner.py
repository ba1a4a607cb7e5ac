"""The planner's words: the answer first, what holds a plan back, and nothing invented."""

from dataclasses import replace

import pytest

from disco.operations.plan_warnings import DepthExperience
from disco.operations.what_if import GroupsCost, SolvedLimits, SolvedMoney
from disco.records.decisions import Arm
from disco.records.estimate import Estimate
from disco.records.plan import read_plan
from disco.records.plan_summary import ArmForecast, MoneyForecast
from disco.views.planner import binding_words, headline, planner_figures, with_intervals_of


def plan_of(**more):
    content = {
        "campaign": "spring",
        "customers": {"as_of": "2027-03-01"},
        "depths": {0.1: {"at_most": 15_000}, 0.3: {"at_most": 5_000}},
        "objective": {"revenue_weight": 3},
        "valid": {"from": "2027-03-08", "days": 14},
    }
    return read_plan(content | more)


def money_of(value, *, interval):
    ends = (value * 0.96, value * 1.05, 0.9) if interval else ()
    return Estimate(value, *ends)


def solved_of(*, prices=None, budget_price=0.0, learned=True, segment_prices=None):
    total = MoneyForecast(
        revenue=money_of(1.24e6, interval=False), markdown=money_of(182e3, interval=False), reward=Estimate(1.058e6)
    )
    return SolvedLimits(
        campaign="spring",
        customers=100_000,
        version=1,
        arms={
            Arm.DECIDED: ArmForecast(customers=90_000, codes={0.1: 13_500, 0.3: 4_500}, money=total),
            Arm.CONTROL: ArmForecast(customers=10_000, codes={0.1: 1_500, 0.3: 500}, money=total),
        },
        total=total if learned else None,
        objective=Estimate(3.538e6) if learned else None,
        ceiling=None,
        prices=prices,
        segment_prices=segment_prices,
        budget_price=budget_price,
        status="",
        value=0.0,
        bound=0.0,
        gap=0.0,
        reserve={0.1: 0, 0.3: 0},
        binding=(),
        experience={
            0.1: DepthExperience(purchases=900.0, tried=True, extrapolated=False),
            0.3: DepthExperience(purchases=5.0, tried=False, extrapolated=True),
        },
        seconds=0.2,
        decided=None,
    )


def money_with_intervals(solved):
    total = MoneyForecast(
        revenue=money_of(1.24e6, interval=True), markdown=money_of(182e3, interval=True), reward=Estimate(1.058e6)
    )
    return SolvedMoney(
        arms=solved.arms,
        total=total,
        objective=Estimate(3.538e6),
        overspend_chance=0.4,
        groups_cost=GroupsCost(revenue=60e3, markdown=9e3),
        seconds=0.1,
    )


def test_the_headline_has_codes_money_budget_and_what_holds_the_plan_back():
    solved = solved_of(prices={0.1: 0.0, 0.3: 2.10})
    plan = plan_of(budget=200_000)
    assert headline(plan, solved, money_with_intervals(solved)) == (
        "20,000 codes, expected revenue £1.24m (£1.19m to £1.30m), code cost £182k of £200k budget "
        "(40% chance of more); the 30% cap is what holds you back."
    )
    assert "£1.24m (…), code cost £182k of £200k budget (… chance of more)" in headline(plan, solved, None)
    reserved = plan_of(budget=250_000, reserve={"share": "20%"})
    assert "£182k of £200k, the budget of £250k without its reserve (… chance of more)" in headline(
        reserved, solved, None
    )


def test_the_chance_to_overspend_comes_with_the_intervals_and_is_never_an_earlier_one():
    solved, plan = solved_of(prices={0.1: 0.0, 0.3: 2.10}), plan_of(budget=200_000, control={"share": "10%"})
    whole = planner_figures(plan, solved, money_with_intervals(solved))
    assert any("the budget is 40%. Set an overspend risk" in one for one in whole.warnings)
    assert whole.groups_cost == (
        "Price of control: about £60.0k of expected revenue (4.6%), less £9.00k of saved code cost."
    )
    dearer = replace(money_with_intervals(solved), groups_cost=GroupsCost(revenue=-1e3, markdown=-9e3))
    assert planner_figures(plan, solved, dearer).groups_cost == (
        "Price of control: no expected revenue, but £9.00k of code cost."
    )
    waiting = with_intervals_of(planner_figures(plan, solved, None), whole)
    assert whole.budget == "£182k of the budget of £200k is planned."
    assert waiting.budget == f"{whole.budget} The chance that the codes cost more than the budget is …."
    assert waiting.groups_cost == "Price of control: …"
    assert not any("overspend" in one for one in waiting.warnings)
    assert waiting.money[0].interval == whole.money[0].interval


def test_a_depth_that_was_never_tried_has_a_badge_and_a_warning():
    figures = planner_figures(plan_of(), solved_of(prices={0.1: 0.0, 0.3: 2.10}), None)
    assert [one.experience for one in figures.depths] == ["", "never tried"]
    never = "Never tried before, so the model extrapolates: 30% off (as if 5 purchases were known)."
    assert figures.experience == (never,)


@pytest.mark.parametrize(
    ("solved", "words"),
    [
        (solved_of(prices={0.1: 0.0, 0.3: 0.0}), "no limit holds you back"),
        (solved_of(prices={0.1: 0.0, 0.3: 0.0}, budget_price=0.4), "the budget is what holds you back"),
        (solved_of(prices={0.1: 1.0, 0.3: 2.0}), "the 30% cap and the 10% cap hold you back"),
        (solved_of(prices={0.1: 1.0, 0.3: 2.0}, budget_price=1.0), "the budget, the 30% cap and 1 more limit hold you"),
        (solved_of(prices=None), "depths are assigned at random"),
        (solved_of(prices={0.1: 0.0, 0.3: 0.0}, learned=False), "No purchase was learned yet"),
        (
            solved_of(prices={0.1: 0.0, 0.3: 0.0}, segment_prices={"North": {0.3: 1.5}}),
            "the 30% cap in North is what holds you back",
        ),
    ],
)
def test_what_holds_a_plan_back(solved, words):
    assert words in headline(plan_of(), solved, None)


def test_what_one_more_is_worth():
    solved = solved_of(prices={0.1: -0.5, 0.3: 2.10}, budget_price=0.43, segment_prices={"North": {0.3: 1.0}})
    assert binding_words(plan_of(), solved) == (
        "The 10% floor costs £0.50 for each code.",
        "The 30% cap is reached: one more code brings £2.10.",
        "The 30% cap in North is reached: one more code brings £1.00.",
        "The budget is reached: £1 more brings £0.43 of revenue.",
    )


def test_codes_of_all_groups_are_counted_and_bars_share_one_scale():
    solved = solved_of(prices={0.1: 0.0, 0.3: 2.10})
    ten, thirty = planner_figures(plan_of(), solved, None).depths
    assert (ten.codes, ten.cap, ten.share, ten.binds) == (15_000, 15_000, "15.0%", False)
    assert (thirty.codes, thirty.share, thirty.binds) == (5_000, "5.0%", True)
    assert ten.length == 100
    assert thirty.length == pytest.approx(100 / 3)
    assert thirty.price == 2.10
    assert thirty.words == "5,000 codes of at most 5,000"


def test_what_is_kept_for_late_arrivals_explains_a_cap_and_a_budget_that_are_not_used_up():
    solved = replace(solved_of(prices={0.1: 0.0, 0.3: 2.10}, budget_price=0.4), reserve={0.1: 1_000, 0.3: 1_000})
    plan = plan_of(depths={0.1: {"at_most": "30%"}, 0.3: {"at_most": 6_000}}, budget=200_000, reserve={"share": "10%"})
    figures = planner_figures(plan, solved, None)
    assert [one.words for one in figures.depths] == [
        "15,000 codes of at most 30,000",
        "5,000 codes of at most 6,000 (1,000 kept for late arrivals)",
    ]
    kept = "£182k of the budget of £200k is planned; the rest is kept for late arrivals."
    assert figures.budget.startswith(kept)


def test_the_old_interval_stays_until_the_new_one_is_there():
    solved = solved_of(prices={0.1: 0.0, 0.3: 2.10})
    before = planner_figures(plan_of(), solved, money_with_intervals(solved))
    now = planner_figures(plan_of(), replace(solved, seconds=0.3), None)
    assert now.money[0].interval == ""
    kept = with_intervals_of(now, before)
    assert kept.money[0].interval == before.money[0].interval == "£1.19m to £1.30m"
    assert not kept.has_intervals
    assert with_intervals_of(now, None) == now
