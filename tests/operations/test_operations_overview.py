"""A campaign at a glance: net sales by hand, budget, groups, and what is kept of read-outs."""

import re
from datetime import date, datetime

import pyarrow as pa
import pytest

from disco.operations import read_out_cache
from disco.operations.launch import recall
from disco.operations.outcomes import ingest, revert
from disco.operations.overview import campaign_overview, list_campaigns
from disco.operations.purchases import ForecastSide
from disco.operations.read_out_cache import KeptReadings
from disco.operations.results import read_out
from disco.operations.upkeep import check_campaign
from disco.records.campaign_records import Disposition
from disco.records.diagnosis import Outcome
from disco.records.errors import NotFoundError

TODAY = date(2027, 3, 10)


@pytest.fixture
def launched(shop):
    return shop.launch(shop.plan(budget=5000))


def receive(shop, rows, **columns):
    return ingest(shop.store, "spring", shop.outcomes(rows, **columns), source="test", clock=shop.clock)


def test_sales_are_what_was_bought_after_refunds_with_the_depth_of_each_code(shop, launched):
    shallow = next(row for row in shop.sent(launched) if row["depth"] == 0.1)
    deep = next(row for row in shop.sent(launched) if row["depth"] == 0.3)
    receive(shop, [shallow, deep], full_price=[100.0, 60.0])
    receive(
        shop,
        [deep],
        event_id=["back"],
        full_price=[20.0],
        kind=["refund"],
        refers_to=pa.array([f"e{deep['customer_id']}"]),
        ordered_at=pa.array([datetime(2027, 3, 10, 9)], pa.timestamp("us")),
    )
    found = campaign_overview(shop.store, "spring", today=TODAY)
    assert found.sales.purchases == 2
    assert found.sales.markdown == pytest.approx(100 * 0.1 + 40 * 0.3)
    assert found.sales.revenue == pytest.approx(100 * 0.9 + 40 * 0.7)
    assert found.entry.outcomes[Disposition.APPLIED] == 3
    assert found.budget == 5000


def test_before_any_outcome_nothing_was_sold(shop, launched):
    found = campaign_overview(shop.store, "spring", today=TODAY)
    assert (found.sales.purchases, found.sales.revenue, found.sales.markdown) == (0, 0.0, 0.0)
    assert found.expected is not None
    assert not found.matured
    assert campaign_overview(shop.store, "spring", today=date(2027, 3, 24)).matured
    with pytest.raises(NotFoundError):
        campaign_overview(shop.store, "winter", today=TODAY)


def test_groups_are_compared_with_their_planned_shares(shop, launched):
    ratio = campaign_overview(shop.store, "spring", today=TODAY).sample_ratio
    arms = launched.decisions["arm"].to_pylist()
    assert ratio.found == {arm: arms.count(arm) for arm in ("decided", "control", "holdout")}
    assert ratio.expected == pytest.approx({"decided": 130.0, "control": 50.0, "holdout": 20.0})
    alone = shop.plan(campaign="alone", control={"share": 0}, holdout={"share": 0})
    shop.launch(alone, inputs={"other": "1"})
    assert campaign_overview(shop.store, "alone", today=TODAY).sample_ratio is None


def test_a_recalled_campaign_is_not_compared_with_its_forecast(shop, launched):
    recall(shop.store, "spring", clock=shop.clock)
    assert campaign_overview(shop.store, "spring", today=TODAY).expected is None


def test_list_overview_results_and_check_say_the_same_about_the_forecast(shop, launched):
    """Not yet before the last purchases are in; then below or above, with figures. Late arrivals were not forecast."""
    early, matured = date(2027, 3, 23), date(2027, 3, 24)

    def said(day):
        overview = campaign_overview(shop.store, "spring", today=day)
        listed = list_campaigns(shop.store, today=day).campaigns[0].against_forecast
        assert overview.against_forecast == listed == read_out(shop.store, "spring", as_of=day).against_forecast
        check = next(one for one in check_campaign(shop.store, "spring", as_of=day) if one.check == "prediction")
        assert check.found == listed.words.rstrip(".")
        assert check.outcome is (Outcome.WATCH if listed.missed else Outcome.OK if listed.is_known else Outcome.SKIPPED)
        return listed

    assert said(matured).words == "The forecast cannot be compared: no purchase was reported."
    batch = receive(shop, shop.sent(launched)[:1]).batch_id
    assert said(early).words == "The forecast is compared on 24 Mar 2027, when the last purchases have been reported."
    below = said(matured)
    assert (below.missed, below.revenue, below.markdown) == (True, ForecastSide.BELOW, ForecastSide.BELOW)
    assert re.fullmatch(r"revenue \d+% below forecast", below.brief)
    assert re.fullmatch(
        r"Revenue was \d+% below forecast: £[\d.]+, expected £[\d.k]+ \(£[\d.k]+ to £[\d.k]+\)\.", below.words
    ), below.words
    revert(shop.store, batch, clock=shop.clock)
    rows = shop.sent(launched)
    receive(shop, rows, full_price=[5000.0] * len(rows), event_id=[f"again{row['customer_id']}" for row in rows])
    above = said(matured)
    assert (above.revenue, above.markdown) == (ForecastSide.ABOVE, ForecastSide.ABOVE)
    assert re.fullmatch(r"revenue [\d,]+% above forecast and code cost [\d,]+% above forecast", above.brief)


def test_purchases_are_summed_up_again_only_where_the_ledger_has_changed(shop, launched, monkeypatch):
    made = []
    monkeypatch.setattr(read_out_cache, "code_sales", lambda *given: made.append(given) or campaign_sales(*given))
    readings = KeptReadings()
    for _ in range(2):
        assert readings.overview(shop.store, "spring", today=TODAY).sales.purchases == 0
    assert len(made) == 1
    batch = receive(shop, shop.sent(launched)[:3]).batch_id
    assert readings.overview(shop.store, "spring", today=TODAY).sales.purchases == 3
    assert readings.overview(shop.store, "spring", today=TODAY).sales.purchases == 3
    assert len(made) == 2
    revert(shop.store, batch, clock=shop.clock)
    assert readings.overview(shop.store, "spring", today=TODAY).sales.purchases == 0
    assert len(made) == 3


def campaign_sales(*given):
    from disco.operations.purchases import code_sales

    return code_sales(*given)
