"""A bound on the chance to overspend: the largest ceiling that keeps it, against trying every ceiling."""

import numpy as np
import pytest

from disco.belief import draw_full_price_totals
from disco.operations.decide import TOLERANCE, exceeded_with, largest_share
from disco.operations.forecast import PastForecasts
from disco.operations.launch import launch
from disco.operations.replay import add_propensities
from disco.records.decisions import Arm
from disco.records.errors import InfeasibleError, PlanError
from disco.records.plan_summary import Calibration

AMOUNT = 60.0


def bounded(risk, amount=AMOUNT):
    return {"amount": amount, "overspend_risk": risk}


def expected_markdown(planned):
    return sum(
        row["depth"] * row["expected_full_price"] * row["expected_engagement"]
        for row in planned.decisions.to_pylist()
        if row["depth"] is not None
    )


def chance_of(shop, planned, amount, past):
    """The chance above an amount, from draws made here: arm by arm, each with the error of earlier forecasts."""
    depths, plan = np.asarray(planned.plan.offered), planned.plan
    arm = np.asarray(planned.decisions["arm"].to_pylist(), object)
    depth = planned.decisions["depth"].to_numpy()
    choice = np.where(np.isnan(depth), -1, np.searchsorted(depths, np.nan_to_num(depth))).astype(np.int64)
    price, rate = (planned.decisions[name].to_numpy() for name in ("expected_full_price", "expected_engagement"))
    markdown = 0.0
    for name in (Arm.DECIDED, Arm.CONTROL):
        here = (arm == str(name)) & (choice >= 0)
        if not here.any():
            continue
        expected = [(price * rate)[here & (choice == column)].sum() for column in range(depths.size)]
        belief, context = shop.knowledge(), shop.people(400).context[here]
        drawn = draw_full_price_totals(
            belief.basket, context, choice[here], depths, engagement=belief.engagement, expected=expected,
            draws=200, seed=plan.seed, group="control" if name is Arm.CONTROL else None,
        )  # fmt: skip
        known = past[name is Arm.DECIDED]
        error = known.draws(len(drawn), depths.tolist(), plan.seed, plan.campaign, name.salt)
        markdown = markdown + (drawn * error * known.factors(depths.tolist()) / error.mean(axis=0)) @ depths
    return float(np.mean(np.asarray(markdown) > amount))


def calibration(factors, *, sd):
    """Factors by depth, half of whose variance they share."""
    return Calibration(
        log_factor=0.0,
        log_sd=sd,
        campaigns=4,
        log_factors={depth: float(np.log(factor)) for depth, factor in factors.items()},
        log_covariance=((sd**2, sd**2 / 2), (sd**2 / 2, sd**2)),
    )


@pytest.fixture
def past(monkeypatch):
    found = {
        True: calibration({0.1: 1.2, 0.3: 1.4}, sd=0.1),
        False: calibration({0.1: 0.9, 0.3: 0.8}, sd=0.05),
    }
    monkeypatch.setattr(PastForecasts, "calibrations", lambda *_: found)
    return found


def test_the_ceiling_is_the_largest_that_keeps_the_risk(shop, past):
    step, chance = 0.05, {}
    for share in np.arange(0.06, 1.0001, step):  # every ceiling, as a plan with that budget alone
        one = shop.planned(shop.plan(budget=float(share) * AMOUNT), shop.people(400))
        chance[float(share)] = chance_of(shop, one, AMOUNT, past)
    for risk in (0.05, 0.1, 0.3):
        planned = shop.planned(shop.plan(budget=bounded(risk)), shop.people(400))
        assert planned.summary.overspend_chance <= risk < chance[max(chance)], "there is something to find"
        assert planned.summary.overspend_chance == chance_of(shop, planned, AMOUNT, past)
        first_beyond = min(share for share, found in chance.items() if found > risk)
        largest = max(share for share, found in chance.items() if found <= risk)
        assert first_beyond - step - TOLERANCE <= planned.solution.budget_share <= largest + step + TOLERANCE


def test_less_risk_and_less_money_never_spend_more(shop, past):
    by_risk = [
        expected_markdown(shop.planned(shop.plan(budget=bounded(risk)), shop.people(400)))
        for risk in ("2%", "10%", "30%", "60%")
    ]
    assert all(np.diff(by_risk) >= -TOLERANCE * AMOUNT)
    assert by_risk[0] < by_risk[-1]
    by_amount = [
        expected_markdown(shop.planned(shop.plan(budget=bounded("10%", amount)), shop.people(400)))
        for amount in (20.0, 40.0, 60.0)
    ]
    assert all(np.diff(by_amount) > 0)


def test_a_risk_that_is_kept_anyway_changes_nothing(shop):
    free, wide = (
        shop.planned(shop.plan(budget=budget), shop.people(400)) for budget in (100000.0, bounded("10%", 100000.0))
    )
    assert wide.solution.budget_share == 1.0
    assert wide.decisions.equals(free.decisions)
    assert wide.summary.overspend_chance == 0.0
    amount = shop.planned(shop.plan(budget={"amount": 60}), shop.people(400))
    assert amount.decisions.equals(shop.planned(shop.plan(budget=60), shop.people(400)).decisions)


def test_such_a_plan_is_launched_and_its_propensities_use_the_same_ceiling(shop, past):
    planned = shop.planned(shop.plan(budget=bounded("10%"), reserve={"share": "20%"}), shop.people(400))
    assert planned.solution.budget_share < 1
    assert planned.solution.budget_factor == pytest.approx(1 / planned.solution.budget_share)
    assert planned.solution.cost_factors == pytest.approx((1.2, 1.4))
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    assert add_propensities(shop.store, "spring", prior=shop.knowledge(), draws=3).decisions == 400
    with shop.store.reading() as transaction:
        assert transaction.plans.campaign("spring").solution == planned.solution


def test_floors_that_cost_too_much_for_the_risk_are_refused_in_words(shop, past):
    plan = {"depths": {0.1: {"at_most": 60, "at_least": 60}, 0.3: {"at_most": 20}}}
    floors = shop.planned(shop.plan(**plan, budget=1e6), shop.people(400), belief=shop.knowledge())
    enough = float(np.ceil(1.3 * expected_markdown(floors)))
    said = set()
    for budget in np.linspace(0.4, 1.0, 7) * enough:
        try:
            shop.planned(shop.plan(**plan, budget=bounded("1%", float(budget))), shop.people(400))
        except InfeasibleError as error:
            said |= {words for words in ("overspend_risk allows 1%", "are needed") if words in str(error)}
    assert said == {"overspend_risk allows 1%", "are needed"}, "first the floors alone, then their risk"


def test_before_anything_is_learned_a_risk_is_not_bounded(shop):
    planned = shop.planned(shop.plan(budget=bounded("10%")), belief=shop.prior)
    assert planned.summary.overspend_chance is None
    assert planned.solution.budget_share == 1.0
    assert any("the budget does not bind" in words for words in planned.summary.warnings)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"amount": 10, "overspend_risk": "0%"}, "budget.overspend_risk: found '0%'; expected a chance above 0%"),
        ({"amount": 10, "overspend_risk": True}, "a chance above 0%"),
        ({"amount": -1}, "budget.amount: found -1"),
        ({"amount": 10, "risk": 0.1}, "found the unknown key risk; expected one of amount, overspend_risk"),
        ({"overspend_risk": "10%"}, "Add `budget.amount:` to the plan."),
        ("lots", "budget: found 'lots'; expected a number"),
        (True, "budget: found True; expected a number"),
        (-5, "budget: found -5; expected greater than or equal to 0"),
    ],
)
def test_a_budget_that_cannot_be_read_is_named(shop, budget, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(budget=budget)
    assert words in str(refused.value)


SPREAD = np.linspace(0.5, 1.5, 200)


def searched(expected, *, risk=0.1, budget=80.0, floor=0.0):
    """A search among shares whose markdown is expected(share), and the shares it tried."""
    tried = []

    def attempt(share):
        tried.append(share)
        return None if share < floor else (share, expected(share) * SPREAD)

    return largest_share(attempt, whole=expected(1.0) * SPREAD, budget=budget, risk=risk), tried


def test_markdown_in_proportion_to_the_budget_needs_one_share():
    found, tried = searched(lambda share: 80 * share)
    assert tried == [found.share] == [found.attempt]
    most = exceeded_with(80 * found.share * SPREAD, risk=0.1)
    assert 80 * (1 - TOLERANCE) <= most <= 80


@pytest.mark.parametrize(
    ("expected", "most_tries"),
    [
        (lambda share: min(80 * share, 64.0), 2),  # the codes need less than the budget
        (lambda share: 20 + 60 * share, 4),  # floors cost money under every share
        (lambda share: 8.0 * int(10 * share), 14),  # few codes
        (lambda share: 80 * share**3, 5),
        (lambda share: 2000 * share, 5),
        (lambda share: 0.0 if share < 0.0005 else 500.0, 14),
        (lambda share: 0.0 if share < 0.77 else 500.0, 14),
    ],
)
def test_the_search_finds_the_bound_of_any_rising_markdown_in_few_steps(expected, most_tries):
    found, tried = searched(expected)
    within = [share for share in np.linspace(0, 1, 100_001) if np.mean(expected(share) * SPREAD > 80) <= 0.1]
    assert found.attempt is not None
    assert np.mean(expected(found.share) * SPREAD > 80) <= 0.1
    is_used_up = exceeded_with(expected(found.share) * SPREAD, risk=0.1) >= 80 * (1 - TOLERANCE)
    assert is_used_up or found.share >= max(within) * (1 - TOLERANCE) - 1e-5 or max(within) < TOLERANCE
    assert len(tried) <= most_tries


def test_a_share_below_what_floors_cost_is_no_answer():
    found, _ = searched(lambda share: 90 + share, floor=0.6)
    assert found.attempt is None
    assert found.least_chance == np.mean(90.6 * SPREAD > 80)


@pytest.mark.parametrize("risk", [0.004, 0.005, 0.1, 0.2, 0.29, 0.995])
def test_a_chance_and_the_markdown_exceeded_with_it_agree_draw_by_draw(risk):
    most = exceeded_with(SPREAD, risk=risk)
    assert np.mean(most < SPREAD) <= risk < np.mean(most <= SPREAD)
