"""Forecasts learn from earlier ones: a steady error is found, its interval is honest, and ignorance stays wide."""

from dataclasses import replace

import numpy as np
import pytest

from disco.operations import forecast, planning
from disco.operations.forecast import Backtest, calibrate
from disco.operations.launching import launch
from disco.operations.planning import PlanResult
from disco.records.decisions import Arm
from disco.records.plan_summary import Calibration

rng = np.random.default_rng(11)


def seen(ratio: float, *, noise_sd: float = 0.04) -> Backtest:
    return Backtest(expected=1000.0, actual=1000.0 * ratio, noise_sd=noise_sd)


def test_one_campaign_by_hand() -> None:
    """Posterior of c with prior N(0, 0.2²) and one observation of variance 0.03² + 0.05²."""
    found = calibrate([seen(1.2, noise_sd=0.03)], decided=True)
    weight, prior = 1 / (0.03**2 + 0.05**2), 1 / 0.2**2
    assert found.log_factor == pytest.approx(weight * np.log(1.2) / (weight + prior))
    assert found.log_sd == pytest.approx(np.sqrt(1 / (weight + prior) + 0.05**2))
    assert found.campaigns == 1


def test_more_campaigns_narrow_it_down_to_the_difference_between_campaigns() -> None:
    widths = [calibrate([seen(1.17)] * count, decided=True).log_sd for count in (0, 1, 3, 6)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0.05
    assert calibrate([seen(1.17)] * 6, decided=True).factor == pytest.approx(1.17, abs=0.01)


def test_noisy_campaigns_count_less() -> None:
    loud = calibrate([seen(1.3, noise_sd=0.3), seen(1.0, noise_sd=0.02)], decided=True)
    assert loud.factor < 1.05


def test_codes_assigned_at_random_are_trusted_more_from_the_start() -> None:
    assert calibrate([], decided=False).log_sd < calibrate([], decided=True).log_sd


def test_the_order_of_campaigns_does_not_matter() -> None:
    past = [seen(ratio) for ratio in (1.1, 1.3, 0.9)]
    assert calibrate(past, decided=True).log_factor == pytest.approx(calibrate(past[::-1], decided=True).log_factor)


def test_draws_have_the_factor_as_mean_and_depend_on_the_names_alone() -> None:
    found = calibrate([seen(1.2)], decided=True)
    drawn = found.draws(40_000, 7, "spring", "test")
    assert drawn.mean() == pytest.approx(found.factor, rel=0.01)
    assert np.log(drawn).std() == pytest.approx(found.log_sd, rel=0.03)
    assert (drawn[:5] == found.draws(5, 7, "spring", "test")).all()
    assert (drawn[:5] != found.draws(5, 7, "summer", "test")).all()


def test_its_interval_covers_what_comes_when_the_world_is_as_it_assumes() -> None:
    """Errors drawn as in the model: a 90 % interval after four campaigns holds the fifth about nine times in ten."""
    inside = 0
    for _ in range(2000):
        c = rng.normal(0, 0.2)
        ratios = np.exp(c + rng.normal(0, 0.05, 5) + rng.normal(0, 0.04, 5))
        found = calibrate([seen(ratio) for ratio in ratios[:4]], decided=True)
        width = 1.645 * np.hypot(found.log_sd, 0.04)  # the fifth has purchases of its own, too
        inside += abs(np.log(ratios[4]) - found.log_factor) < width
    assert 0.87 < inside / 2000 < 0.93


# ---- one figure: what the table expects is what the budget counted


def expected_by_hand(planned, people, belief, past):
    """Revenue and markdown by arm: Σ full price at the posterior mean × share who buy × correction."""
    depths = list(planned.plan.offered)
    price, rates = belief.basket.expected_full_price(people.context, depths), belief.engagement.rates(depths)
    found = {Arm.DECIDED: [0.0, 0.0], Arm.CONTROL: [0.0, 0.0]}
    for row, decision in enumerate(planned.decisions.to_pylist()):
        if (depth := decision["depth"]) is not None:
            arm, column = Arm(decision["arm"]), depths.index(depth)
            bought = past[arm is Arm.DECIDED].factor * price[row, column] * rates[column]
            found[arm][0] += bought * (1 - depth)
            found[arm][1] += bought * depth
    return found


@pytest.fixture
def hindsight(monkeypatch):
    """Sets what earlier campaigns brought: (decided, random) against the forecast."""

    def set_to(decided, random):
        found = {
            True: Calibration(log_factor=float(np.log(decided)), log_sd=0.2, campaigns=3),
            False: Calibration(log_factor=float(np.log(random)), log_sd=0.1, campaigns=3),
        }
        monkeypatch.setattr(planning, "calibrations", lambda *_, **__: found)
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
