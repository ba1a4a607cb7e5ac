"""One figure: what the table expects is what the budget counted, and intervals are around it."""

from dataclasses import replace

import numpy as np
import pytest

from disco.belief import Engagement
from disco.belief.calibration import Backtest, calibrate
from disco.entrypoints.cli.planning import _corrections
from disco.operations import forecast
from disco.operations.forecast import PastForecasts, draw_totals
from disco.operations.launch import launch
from disco.operations.plan import PlanResult
from disco.records.decisions import Arm
from disco.records.forecasting import Level
from disco.records.plan_summary import Calibration


def expected_by_hand(planned, people, belief, past):
    """Revenue and markdown by arm: Σ full price at the posterior mean × share who buy × correction."""
    depths = list(planned.plan.offered)
    price, rates = belief.basket.expected_full_price(people.context, depths), belief.engagement.rates(depths)
    found = {Arm.DECIDED: [0.0, 0.0], Arm.CONTROL: [0.0, 0.0]}
    for row, decision in enumerate(planned.decisions.to_pylist()):
        if (depth := decision["depth"]) is not None:
            arm, column = Arm(decision["arm"]), depths.index(depth)
            factor = past[arm is Arm.DECIDED].factors([depth])[0]
            bought = factor * price[row, column] * rates[column]
            found[arm][0] += bought * (1 - depth)
            found[arm][1] += bought * depth
    return found


def calibration(factors, *, sd):
    """Factors by depth, three quarters of whose variance they share."""
    return Calibration(
        log_factor=0.0,
        log_sd=sd,
        campaigns=3,
        log_factors={depth: float(np.log(factor)) for depth, factor in factors.items()},
        log_covariance=((sd**2, 0.75 * sd**2), (0.75 * sd**2, sd**2)),
    )


@pytest.fixture
def hindsight(monkeypatch):
    """Sets what earlier campaigns brought: (decided, random) against the forecast."""

    def set_to(decided, random):
        found = {
            True: calibration({0.1: decided, 0.3: 1.1 * decided}, sd=0.2),
            False: calibration({0.1: random, 0.3: random / 1.1}, sd=0.1),
        }
        monkeypatch.setattr(PastForecasts, "calibrations", lambda *_: found)
        return found

    return set_to


@pytest.mark.parametrize("reserve", ["0%", "20%"])
@pytest.mark.parametrize("risk", [None, "10%", "30%"])
@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.4, 0.9), (0.8, 1.1)])
@pytest.mark.parametrize(("seed", "amount"), [(4, 20.0), (9, 45.0), (31, 60.0), (77, 1e5)])
def test_the_expected_markdown_is_what_the_budget_counted(shop, hindsight, seed, amount, factors, risk, reserve):
    past, people, belief = hindsight(*factors), shop.people(400, seed=seed), shop.knowledge(spread=0.3)
    budget = amount if risk is None else {"amount": amount, "overspend_risk": risk}
    planned = shop.planned(shop.plan(budget=budget, seed=seed, reserve={"share": reserve}), people, belief=belief)
    by_hand = expected_by_hand(planned, people, belief, past)
    for arm, (revenue, markdown) in by_hand.items():
        money = planned.arms[arm].money
        assert money.revenue.value == pytest.approx(revenue, rel=1e-12)
        assert money.markdown.value == pytest.approx(markdown, rel=1e-12)
        assert money.reward.value == pytest.approx(revenue - markdown, rel=1e-9)
    total = planned.total
    assert total.markdown.value == pytest.approx(sum(markdown for _, markdown in by_hand.values()), rel=1e-12)
    assert total.revenue.value == pytest.approx(sum(revenue for revenue, _ in by_hand.values()), rel=1e-12)
    assert total.markdown.value <= PlanResult.of(planned, dry_run=True).ceiling * (1 - planned.plan.reserve.share)
    for figure in (total.revenue, total.markdown, total.reward):
        assert figure.lower < figure.value < figure.upper


def test_the_budget_of_curves_that_never_fall_is_what_the_table_shows_and_can_be_launched(shop, hindsight):
    """`monotone` changes a price by those at other depths; budget, table and decisions use the same one."""
    past, people, plain = hindsight(1.2, 0.9), shop.people(400), shop.knowledge(spread=0.3)
    belief = replace(plain, basket=replace(plain.basket, monotone=True))
    prices = [one.basket.expected_full_price(people.context, [0.1, 0.3]) for one in (plain, belief)]
    assert (prices[0] != prices[1]).any(), "there is something to project"
    for amount in (20.0, 40.0, 60.0):
        planned = shop.planned(shop.plan(budget=amount), people, belief=belief)
        by_hand = expected_by_hand(planned, people, belief, past)
        assert planned.total.markdown.value == pytest.approx(sum(m for _, m in by_hand.values()), rel=1e-12)
        assert planned.total.markdown.value <= amount
    launched = launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    assert shop.sent(launched), "a launch counts the budget again from the decisions"


def test_a_part_of_the_customers_is_drawn_and_all_are_expected(shop, monkeypatch):
    whole = shop.planned(shop.plan(), shop.people(400))
    monkeypatch.setattr(forecast, "_MOST_CUSTOMERS", 30)
    part = shop.planned(shop.plan(), shop.people(400))
    assert part.total.markdown.value == whole.total.markdown.value
    assert part.total.markdown.ends != whole.total.markdown.ends
    assert part.total.markdown.covers(whole.total.markdown.value)


def test_a_depth_without_codes_does_not_spoil_the_forecast_of_many_customers(shop, monkeypatch):
    monkeypatch.setattr(forecast, "_MOST_CUSTOMERS", 30)
    planned = shop.planned(shop.plan(depths={0.1: {"at_most": 60}, 0.3: {"at_most": 0}}), shop.people(400))
    assert planned.arms[Arm.DECIDED].codes[0.3] == 0
    assert planned.total.markdown.covers(planned.total.markdown.value)


def test_what_customers_of_two_arms_buy_is_independent_given_the_belief(shop, monkeypatch):
    """By moments: 320 decided and 80 control customers together vary as 400 of one arm do."""
    monkeypatch.setattr(forecast, "_DRAWS", 20_000)
    unsure = shop.knowledge()
    sure = replace(unsure, engagement=Engagement(override={0.1: 0.2, 0.3: 0.3}))
    people, depths, choice = shop.people(400), np.array([0.1, 0.3]), np.arange(400) % 2

    def drawn(belief, rows, arm):
        members = people.take(rows)
        return draw_totals(
            belief, members, choice[rows], depths, arm=arm, seed=4, campaign="spring",
            full_price=belief.basket.expected_at_choice(members.context, depths, choice[rows]),
            engagement=belief.rates_at_choice(members, depths, choice[rows]),
            correction=Calibration(log_factor=0.0, log_sd=0.0, campaigns=0),
        )  # fmt: skip

    for belief, least, most in ((sure, -0.1, 0.1), (unsure, 0.5, 0.95)):
        whole = drawn(belief, np.arange(400), Arm.DECIDED)
        parts = [drawn(belief, np.arange(320), Arm.DECIDED), drawn(belief, np.arange(320, 400), Arm.CONTROL)]
        total = parts[0] + parts[1]
        assert total.expected == pytest.approx(whole.expected)
        assert total.drawn.std(axis=0) == pytest.approx(whole.drawn.std(axis=0), rel=0.03)
        found = np.corrcoef(parts[0].drawn[:, 0], parts[1].drawn[:, 0])[0, 1]
        assert least < found < most, "arms share what the belief gets wrong, and no more"


def test_what_moves_a_whole_campaign_moves_all_its_groups(shop, monkeypatch):
    """So a total is as uncertain as its groups, and not less so because there are two."""
    monkeypatch.setattr(forecast, "_DRAWS", 4_000)
    belief = replace(shop.knowledge(), engagement=Engagement(override={0.1: 0.2, 0.3: 0.3}))
    people, depths, choice = shop.people(4000), np.array([0.1, 0.3]), np.arange(4000) % 2
    apart = calibration({0.1: 1.0, 0.3: 1.0}, sd=0.3)
    together = replace(apart, campaign_log_sd=0.25)

    def drawn(correction, rows, arm):
        members = people.take(rows)
        return draw_totals(
            belief, members, choice[rows], depths, arm=arm, seed=4, campaign="spring",
            full_price=belief.basket.expected_at_choice(members.context, depths, choice[rows]),
            engagement=belief.rates_at_choice(members, depths, choice[rows]),
            correction=correction,
        )  # fmt: skip

    spread = {}
    for name, correction in (("apart", apart), ("together", together)):
        one, other = (
            drawn(correction, np.arange(2000), Arm.DECIDED),
            drawn(correction, np.arange(2000, 4000), Arm.CONTROL),
        )
        total = (one + other).drawn.sum(axis=1)
        spread[name] = total.std() / total.mean()
        assert one.drawn[:, 0].std() / one.drawn[:, 0].mean() == pytest.approx(0.3, abs=0.05), "each as before"
    assert spread["together"] > 1.2 * spread["apart"]


@pytest.mark.parametrize(
    ("campaigns", "said"),
    [
        (0, "How far whole campaigns move is an assumption."),
        (1, "One past forecast: how far whole campaigns move is still an assumption in these ranges."),
        (2, "Corrected by earlier campaigns"),
    ],
)
def test_a_plan_says_where_a_width_rests_on_an_assumption(shop, monkeypatch, campaigns, said):
    one = replace(calibration({0.1: 1.0, 0.3: 1.0}, sd=0.2), campaigns=campaigns)
    monkeypatch.setattr(PastForecasts, "calibrations", lambda *_: {True: one, False: one})
    words = _corrections(PlanResult.of(shop.planned(shop.plan(), shop.people(400)), dry_run=True))
    assert said in words
    assert ("assumption" in words) == (campaigns < 2)


def test_a_fixed_level_gives_the_corrections_of_before():
    seen = tuple(
        Backtest(
            depths=np.array([0.1]), expected=np.array([900.0]), actual=np.array([800.0 + 40 * n]), basket=2.0, place=n
        )
        for n in range(3)
    )
    past = PastForecasts(decided=seen, at_random=seen[:1], personal=True, level=Level.FIXED)
    found = past.calibrations([0.1, 0.3])
    for decided, some in ((True, seen), (False, seen[:1])):
        assert found[decided] == calibrate(some, [0.1, 0.3], decided=decided, personal=True)
    assert replace(past, level=Level.MOVING).calibrations([0.1, 0.3])[True] != found[True]
