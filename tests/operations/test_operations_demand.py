"""Demand over depths: what was seen by hand, parts of the customers, and where the curve is a guess."""

from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from disco.operations import read_out_cache
from disco.operations.demand import demand, demand_of_part, seen_in
from disco.operations.learn import learn_campaigns
from disco.operations.outcomes import ingest
from disco.operations.read_out_cache import KeptReadings
from disco.records.errors import InputError, NotFoundError

TODAY = date(2027, 4, 1)
REGIONS = np.array([("North", "South")[row % 2] for row in range(600)], object)


@pytest.fixture
def learned(shop):
    plan = shop.plan(
        depths={0.1: {"at_most": "50%"}, 0.3: {"at_most": "40%"}},
        segments={"column": "region", "limits": {"North": {0.3: {"at_most": "45%"}}}},
    )
    launched = shop.launch(plan, replace(shop.people(600), segment=REGIONS))
    rows = shop.sent(launched)[::2]
    moments = [datetime(2027, 3, 9) + timedelta(days=place % 9) for place in range(len(rows))]
    prices = [30.0 + place % 50 for place in range(len(rows))]
    outcomes = shop.outcomes(rows, ordered_at=pa.array(moments, pa.timestamp("us")), full_price=prices)
    ingest(shop.store, "spring", outcomes, source="test", clock=shop.clock)
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=TODAY, clock=shop.clock)
    return launched.decisions.to_pylist(), dict(zip([row["code"] for row in rows], prices, strict=True))


def test_what_was_seen_is_counted_by_hand():
    depth = np.array([0.1, 0.1, 0.1, 0.3, 0.3, np.nan])
    found = seen_in(depth, np.array([20.0, 80.0, 0.0, 0.0, 50.0, 0.0]), matured=True)
    assert [(one.depth, one.purchases, one.codes) for one in found] == [(0.1, 2, 3), (0.3, 1, 2)]
    assert found[0].basket == pytest.approx(40.0)  # √(20 · 80)
    assert found[0].mean_basket == pytest.approx(50.0)
    assert found[0].engagement == pytest.approx(2 / 3)
    running = seen_in(depth, np.array([20.0, 80.0, 0.0, 0.0, 50.0, 0.0]), matured=False)
    assert [(one.codes, one.engagement) for one in running] == [(0, None), (0, None)]


def test_points_of_a_part_are_what_its_customers_bought(shop, learned):
    rows, prices = learned
    found = demand_of_part(shop.store, "North", today=TODAY)
    assert (found.part, found.campaign, found.customers) == ("North", "spring", 300)
    for point in found.demand.observed:
        codes = [row["code"] for row in rows if row["segment"] == "North" and row["depth"] == point.depth]
        baskets = [prices[code] for code in codes if code in prices]
        assert (point.codes, point.purchases) == (len(codes), len(baskets))
        assert point.mean_basket == pytest.approx(np.mean(baskets))
    assert all(one.basket.ends is not None for one in found.demand.curve)


def test_parts_have_curves_of_their_own(shop, learned):
    curves = [demand_of_part(shop.store, part, today=TODAY).demand.curve for part in (None, "North", "South")]
    baskets = [[point.basket.value for point in curve] for curve in curves]
    assert len({len(one) for one in baskets}) == 1
    assert baskets[1] != baskets[2]


def test_without_a_part_it_is_the_average_customers_demand(shop, learned):
    found = demand_of_part(shop.store, today=TODAY)
    assert found.demand == demand(shop.store)
    assert found.parts[:2] == ("North", "South")
    assert {"Bought in the past year", "No purchase in the past year"} < set(found.parts)


def test_average_baskets_follow_from_the_sums_that_are_kept(shop, learned):
    rows, prices = learned
    point = demand(shop.store).observed[0]
    logs = np.log(
        [prices[row["code"]] for row in rows if row["depth"] == 0.1 and row["known"] and row["code"] in prices]
    )
    assert point.basket == pytest.approx(np.exp(logs.mean()), rel=1e-3)  # logarithms are kept on a grid
    assert point.mean_basket == pytest.approx(np.exp(logs.mean() + logs.var() / 2), rel=1e-3)


def test_an_unknown_part_is_refused_with_those_there_are(shop, learned):
    with pytest.raises(InputError, match="North or South"):
        demand_of_part(shop.store, "West", today=TODAY)


def test_before_anything_was_learned_there_is_no_demand(shop):
    with pytest.raises(NotFoundError):
        demand_of_part(shop.store, today=TODAY)


def test_demand_is_computed_again_only_where_something_has_changed(shop, learned, monkeypatch):
    made = []
    monkeypatch.setattr(
        read_out_cache, "demand_of_part", lambda *given, **more: made.append(given) or demand_of_part(*given, **more)
    )
    readings = KeptReadings()
    for part in ("North", "North", None, None):
        assert readings.demand(shop.store, part, today=TODAY) == demand_of_part(shop.store, part, today=TODAY)
    assert len(made) == 2
    ingest(shop.store, "spring", shop.outcomes([]), source="nothing", clock=shop.clock)
    readings.demand(shop.store, "North", today=TODAY)
    assert len(made) == 3  # a batch has arrived
