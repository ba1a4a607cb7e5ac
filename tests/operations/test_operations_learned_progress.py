"""What learning has brought: certainty by hand, forecasts beside actual revenue, and codes assigned at random."""

from datetime import date

import numpy as np
import pytest

from disco.belief.curves import demand_curve
from disco.operations.launch import recall
from disco.operations.learn import activate, belief_at, learn_campaigns
from disco.operations.learned import ForecastOutcome, learning_progress, uncertainty
from disco.operations.outcomes import ingest
from disco.records.estimate import Estimate

MATURED = date(2027, 3, 24)


def receive(shop, rows, **columns):
    return ingest(shop.store, "spring", shop.outcomes(rows, **columns), source="test", clock=shop.clock)


def learn(shop):
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=MATURED, clock=shop.clock)


@pytest.fixture
def launched(shop):
    return shop.launch()


def test_versions_come_with_their_purchases_and_the_active_one_is_named(shop, launched):
    receive(shop, shop.sent(launched)[:20])
    learn(shop)
    receive(shop, shop.sent(launched)[20:60])
    learn(shop)
    found = learning_progress(shop.store, today=MATURED).versions
    known = {row["code"] for row in shop.sent(launched)[:20] if row["known"]}
    assert [(one.version, one.active, one.campaigns) for one in found] == [
        (1, False, ("spring",)),
        (2, True, ("spring",)),
    ]
    assert found[0].purchases == len(known)
    activate(shop.store, 1)
    assert [one.active for one in learning_progress(shop.store, today=MATURED).versions] == [True, False]


def test_more_purchases_make_the_model_more_certain(shop, launched):
    receive(shop, shop.sent(launched)[:10])
    learn(shop)
    receive(shop, shop.sent(launched)[10:])
    learn(shop)
    first, last = learning_progress(shop.store, today=MATURED).versions
    assert 0 < last.uncertainty < first.uncertainty


def test_uncertainty_is_half_the_interval_as_a_share(shop, launched):
    receive(shop, shop.sent(launched))
    learn(shop)
    belief = belief_at(shop.store, 1, prior=shop.prior)
    depths = belief.basket.evidence.depths
    band = demand_curve(
        belief.basket, np.zeros(2), depths, engagement=belief.engagement, level=0.9, draws=500
    ).revenue_per_code
    shares = [(band.upper[place] - band.lower[place]) / 2 / band.mean[place] for place in range(depths.size)]
    by_hand = sum(shares) / len(shares)
    assert uncertainty(belief, depths) == pytest.approx(by_hand)
    assert uncertainty(shop.prior, depths) is None


def test_forecasts_stand_beside_the_revenue_of_campaigns_that_are_over(shop, launched):
    deep = [row for row in shop.sent(launched) if row["depth"] == 0.3][:2]
    receive(shop, deep, full_price=[100.0, 50.0])
    assert learning_progress(shop.store, today=date(2027, 3, 20)).forecasts == ()
    (found,) = learning_progress(shop.store, today=MATURED).forecasts
    assert found.actual == pytest.approx(150 * 0.7)
    assert found.ratio == pytest.approx(105 / found.forecast.value)
    assert found.inside is found.forecast.covers(105.0)


def test_a_recalled_campaign_and_one_without_outcomes_have_no_comparison(shop, launched):
    assert learning_progress(shop.store, today=MATURED).forecasts == ()
    receive(shop, shop.sent(launched)[:5])
    recall(shop.store, "spring", clock=shop.clock)
    assert learning_progress(shop.store, today=MATURED).forecasts == ()


def test_codes_of_control_and_of_random_campaigns_are_at_random(shop, launched):
    random = shop.plan(campaign="random", policy={"name": "random"}, control={"share": 0}, holdout={"share": 0})
    shop.launch(random, inputs={"other": "1"})
    found = {one.campaign: one for one in learning_progress(shop.store, today=MATURED).exploration}
    rows = launched.decisions.to_pylist()
    assert found["spring"].codes == sum(row["code"] is not None for row in rows)
    assert found["spring"].at_random == sum(row["code"] is not None and row["arm"] == "control" for row in rows)
    assert found["random"].at_random == found["random"].codes > 0


def test_nothing_is_known_before_anything_was_learned(shop):
    found = learning_progress(shop.store, today=MATURED)
    assert (found.versions, found.forecasts, found.exploration) == ((), (), ())


def test_a_forecast_of_nothing_has_no_ratio():
    assert ForecastOutcome(campaign="x", forecast=Estimate(0.0, 0.0, 1.0), actual=5.0).ratio is None
