"""Forecasts against what happened: groups by hand, the law of baskets, and where there is nothing to compare."""

import numpy as np
import pytest
from first_forecast import OVER, first_forecast

from disco.operations.predictive import bias, predictive
from disco.records.errors import StateError
from disco.views.predictive import baskets_chart, codes_chart, law_chart, predictive_report


@pytest.fixture
def compared(shop):
    first_forecast(shop)
    return predictive(shop.store, prior=shop.prior, today=OVER)


def test_only_a_campaign_that_was_forecast_by_a_version_is_compared(shop, compared):
    assert compared.campaigns == ("summer",)
    with shop.store.reading() as transaction:
        decisions = transaction.decisions.of("summer")
    coded = decisions["code"].is_valid().to_numpy()
    chance = decisions["expected_engagement"].to_numpy()[coded]
    used = int(np.ceil(coded.sum() / 4))  # every fourth code was used
    assert sum(one.rows for one in compared.codes) == coded.sum()
    assert sum(one.rows * one.expected for one in compared.codes) == pytest.approx(chance.sum())
    assert bias(compared.codes) == pytest.approx(used / chance.sum() - 1)
    assert [one.expected for one in compared.codes] == sorted(one.expected for one in compared.codes)


def test_the_places_of_purchases_in_their_law_are_shares(shop, compared):
    assert 0 < compared.purchases <= 20
    assert sum(compared.slots) == pytest.approx(1.0)


def test_the_page_shows_what_there_is(compared):
    page = predictive_report(compared).html()
    assert "In campaign summer, take-up was" in page
    assert codes_chart(compared).lines[0].label == "As expected"
    assert baskets_chart(compared) is None  # fewer than two groups of twenty purchases
    assert f"Share of {compared.purchases} purchases" in law_chart(compared).subtitle


def test_without_a_forecast_there_is_a_sentence(shop):
    with pytest.raises(StateError, match="There is no forecast to compare"):
        predictive(shop.store, prior=shop.prior, today=OVER)
    first_forecast(shop)
    with pytest.raises(StateError, match="Campaign spring has no forecast to compare"):
        predictive(shop.store, prior=shop.prior, today=OVER, campaign="spring")
