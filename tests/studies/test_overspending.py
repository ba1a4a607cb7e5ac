"""Campaigns with a budget, in small: what is planned, what is spent, and how overspending is counted."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from studies.environment import open_shop
from studies.overspending import DEPTHS, Market, Overspent, Spent, campaigns_of, run_study

from disco.retailer import RetailerSettings
from disco.store import Store
from studies import overspending


@pytest.fixture(scope="module")
def market() -> Market:
    return Market.of(open_shop(RetailerSettings(customers=4_000, seed=2), campaigns=()), max_epochs=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.embedded(tmp_path / "disco.sqlite")
    yield store
    store.close()


def test_a_smaller_risk_plans_less_of_the_budget_for_the_same_world(market: Market, store: Store) -> None:
    for number in range(2):
        careful, bold = campaigns_of(market, store, number=number, risks=(0.05, 0.4), codes=1_500, customers=1_000)
        assert careful.budget == bold.budget
        assert careful.planned_share < bold.planned_share <= 1
        for one in (careful, bold):
            assert one.chance <= one.risk
            assert 0.3 < one.markdown / one.budget < 2.5


def test_campaigns_are_worlds_of_their_own_and_repeat_exactly(market: Market) -> None:
    first, again = (run_study([market], campaigns=2, risks=(0.3,), codes=1_000, customers=400) for _ in range(2))
    assert first == again
    assert len({one.markdown for one in first}) == len({one.budget for one in first}) == 2


def test_customers_answer_by_the_law(market: Market) -> None:
    rows = np.arange(len(market.context)).repeat(8)
    bought = market.answers(rows, np.full(rows.size, 3), np.random.default_rng(1))
    assert np.mean(~np.isnan(bought)) == pytest.approx(market.law.purchase_probability[:, 3].mean(), abs=0.01)
    expected = (market.law.purchase_probability * market.law.expected_full_price)[:, 3].mean()
    assert np.nan_to_num(bought).mean() == pytest.approx(expected, rel=0.05)
    assert np.isnan(market.answers(rows, np.full(rows.size, -1), np.random.default_rng(1))).all()


def test_the_share_that_overspends_is_held_against_chance() -> None:
    def spent(over: int) -> list[Spent]:
        figures = {"shop": "s", "risk": 0.1, "budget": 10.0, "planned_share": 1.0, "chance": 0.1, "expected": 8.0}
        return [Spent(number=place, markdown=10.0 + (place < over), **figures) for place in range(200)]

    found = Overspent.of(spent(20), 0.1)
    assert (found.campaigns, found.over, found.most, found.holds) == (200, 20, 32, True)
    assert found.actual_over_expected == pytest.approx(10.1 / 8)
    assert Overspent.of(spent(32), 0.1).holds
    assert not Overspent.of(spent(33), 0.1).holds
    assert Overspent.of(spent(20), 0.3).campaigns == 0


def test_the_command_prints_a_line_per_risk(market: Market, monkeypatch, capsys) -> None:
    monkeypatch.setattr(overspending, "open_shop", lambda settings, campaigns: settings)
    monkeypatch.setattr(Market, "of", lambda shop: market)
    assert overspending.main(["--campaigns", "2", "--seeds", "1", "--codes", "500", "--decided", "200"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["risk"], line["campaigns"]) for line in lines] == [(0.1, 2), (0.3, 2)]
    assert len(DEPTHS) == 4
