"""What it is worth to know who answers, in small: does the study judge what it says?"""

import json
from dataclasses import replace

import numpy as np
import pytest
from studies.answers import REGIMES, ShopAnswers, forecast_errors, shop_answers
from studies.environment import ENGAGEMENT, SLOPE, StudyShop, open_shop
from studies.ladder import FILLED, SCARCE, Rung

from disco.records.decisions import Decisions
from disco.retailer import RetailerSettings, Truth
from studies import answers


@pytest.fixture(scope="module")
def shop() -> StudyShop:
    return open_shop(RetailerSettings(customers=6_000, seed=3))


@pytest.fixture(scope="module")
def found(shop: StudyShop) -> ShopAnswers:
    return shop_answers(shop, max_epochs=4)


def test_random_campaigns_reach_everybody_at_every_depth(shop: StudyShop) -> None:
    """Depths have equal shares, purchases belong to the code that was sent, and the deeper the more of them."""
    assert [past.campaign.name for past in shop.campaigns] == ["A", "B"]
    for past in shop.campaigns:
        depths, counts = np.unique(past.depth, return_counts=True)
        assert depths.tolist() == list(past.campaign.depths)
        assert counts.max() - counts.min() <= len(depths)
        bought = ~np.isnan(past.full_price)
        assert 0.05 < bought.mean() < 0.5
    assert shop.known.mean() > 0.7
    assert len(shop.training) > 2 * len(shop.test) > 0


def test_every_recipe_is_judged_in_both_regimes_by_both_policies(found: ShopAnswers) -> None:
    kinds = [(one.heads, one.regime, one.policy) for one in found.judged]
    assert len(set(kinds)) == len(kinds) == 8
    assert {heads for heads, _, _ in kinds} == {SLOPE.heads, ENGAGEMENT.heads}
    for one in found.judged:
        assert one.objective < found.knowledge[one.regime][Rung.ORACLE] + 1e-12
        assert abs(one.revenue_error) < 0.5
        assert len(one.by_depth) == 3
    assert json.loads(found.line())["customers"] == found.customers


def test_a_rate_per_customer_finds_who_answers_where_codes_are_scarce(found: ShopAnswers) -> None:
    mean = {
        heads: np.mean([one.objective for one in found.judged if one.heads == heads and one.regime == SCARCE])
        for heads in (SLOPE.heads, ENGAGEMENT.heads)
    }
    assert mean[ENGAGEMENT.heads] > mean[SLOPE.heads] > 0.1


def test_the_upper_rows_of_the_ladder_stand_in_their_order(found: ShopAnswers) -> None:
    for regime in REGIMES:
        rows = found.knowledge[regime]
        assert rows[Rung.ORACLE] > rows[Rung.HABITS] > rows[Rung.FEATURES]
    assert found.knowledge[SCARCE][Rung.HABITS] > 5 * found.knowledge[FILLED][Rung.HABITS]


def test_the_forecast_is_compared_with_the_truth_of_the_codes_decided() -> None:
    truth = Truth(
        depths=(0.1, 0.3),
        expected_full_price=np.array([[100.0, 120.0], [50.0, 60.0], [80.0, 90.0]]),
        purchase_probability=np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
        baseline=np.zeros(3),
        elasticity=np.zeros(3),
    )
    decided = _decisions(choice=[0, 1, -1], price=[110.0, 60.0, np.nan], rate=[0.1, 0.5, np.nan])
    revenue, markdown, by_depth = forecast_errors(decided, truth)
    assert by_depth == pytest.approx((0.1, 0.25))
    assert revenue == pytest.approx((11 * 0.9 + 30 * 0.7) / (10 * 0.9 + 24 * 0.7) - 1)
    assert markdown == pytest.approx((11 * 0.1 + 30 * 0.3) / (10 * 0.1 + 24 * 0.3) - 1)
    nobody = forecast_errors(replace(decided, choice=np.array([0, -1, -1])), truth)
    assert np.isnan(nobody[2][1])


def _decisions(*, choice: list[int], price: list[float], rate: list[float]) -> Decisions:
    return Decisions(
        campaign="C",
        ids=np.arange(len(choice)),
        depths=(0.1, 0.3),
        choice=np.array(choice),
        value=np.zeros(len(choice)),
        expected_full_price=np.array(price),
        engagement=np.array(rate),
        prices=np.zeros(2),
        budget_price=0.0,
        status="",
        bound=0.0,
        gap=0.0,
        policy="",
        model_hash="",
        seed=0,
    )


def test_the_command_prints_a_line_per_shop(shop: StudyShop, monkeypatch, capsys) -> None:
    opened: list[RetailerSettings] = []
    monkeypatch.setattr(answers, "open_shop", lambda settings: opened.append(settings) or shop)
    monkeypatch.setattr(
        answers,
        "shop_answers",
        lambda shop, **_: ShopAnswers(shape="concave", seed=3, customers=1, knowledge={}, judged=()),
    )
    assert answers.main(["--seeds", "3,4", "--shapes", "s-shaped", "--customers", "700"]) == 0
    assert [(one.seed, one.curves.shape, one.customers) for one in opened] == [
        (3, "s-shaped", 700),
        (4, "s-shaped", 700),
    ]
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 2
