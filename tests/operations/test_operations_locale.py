"""A campaign in another currency and time zone: outcomes, words, exports, and settings that may not change."""

import csv
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.operations.explain import explain
from disco.operations.export import export, export_codes
from disco.operations.launch import launch, recall
from disco.operations.outcomes import ingest
from disco.operations.overview import list_campaigns
from disco.operations.plan import keep, load
from disco.operations.results import read_out
from disco.records.campaign_records import Disposition
from disco.records.cells import by_wall_clock
from disco.records.errors import StateError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.money import read_currency
from disco.retailer import RetailerSettings
from disco.retailer.folder import respond, simulate
from disco.store import Store

YEN = Locale(read_currency("JPY"), "Asia/Tokyo")
EURO = Locale(read_currency("EUR"), "Europe/Berlin")
DINAR = Locale(read_currency("KWD"), "Asia/Kuwait")


@pytest.fixture
def opened(tmp_path, make_shop):
    """Opens the same database in a locale."""
    stores = []

    def open_in(locale):
        store = Store(f"sqlite:///{tmp_path}/disco.db", tmp_path / "artefacts", locale=locale)
        stores.append(store)
        return make_shop(store)

    yield open_in
    for store in stores:
        store.close()


def received(shop, rows):
    with shop.store.reading() as transaction:
        return transaction.ledger.outcomes("spring").to_pylist() if rows is None else rows


@pytest.mark.parametrize(
    ("locale", "minor", "worth"), [(YEN, 1234, 1234.0), (DINAR, 1234000, 1234.0), (EURO, 123400, 1234.0)]
)
def test_the_ledger_keeps_minor_units_and_results_are_in_currency_units(opened, locale, minor, worth):
    shop = opened(locale)
    sent = shop.sent(shop.launch())[:3]
    ingest(shop.store, "spring", shop.outcomes(sent, full_price=[1234.0] * 3), source="file", clock=shop.clock)
    assert [row["full_price_minor"] for row in received(shop, None)] == [minor] * 3
    found = read_out(shop.store, "spring", as_of=shop.after)
    assert found.currency == locale.currency.code
    expected = sum(worth * (1 - row["depth"]) for row in sent)
    assert sum(arm.summary.revenue for arm in found.arms.values()) == pytest.approx(expected)


def test_words_have_the_symbol_of_the_shop(opened):
    shop = opened(EURO)
    sent = shop.sent(shop.launch())
    customer = next(row["customer_id"] for row in sent if row["arm"] == "decided")
    told = explain(shop.store, "spring", customer, prior=shop.knowledge())
    assert told.currency == "EUR"
    assert "€" in " ".join(told.words)
    assert "£" not in " ".join(told.words)
    assert all("£" not in words for words in shop.planned(shop.plan(campaign="summer")).summary.binding)


# ---- when codes can be used


@pytest.mark.parametrize(
    ("opens", "moment", "becomes"),
    [
        # 8 March begins at 23:00 UTC on 7 March in Berlin; clocks go forward on 28 March 2027
        (date(2027, 3, 8), "2027-03-07T22:59:59Z", Disposition.REJECTED),
        (date(2027, 3, 8), "2027-03-07T23:00:00Z", Disposition.APPLIED),
        (date(2027, 3, 8), "2027-03-08 00:00:00", Disposition.APPLIED),
        (date(2027, 3, 8), "2027-03-21T22:59:59Z", Disposition.APPLIED),
        (date(2027, 3, 8), "2027-03-21T23:00:00Z", Disposition.EXPIRED),
        ("2027-03-08T08:00", "2027-03-08 07:59:59", Disposition.REJECTED),
        ("2027-03-08T08:00", "2027-03-08T07:00:00Z", Disposition.APPLIED),
        ("2027-03-20T08:00", "2027-04-03T05:59:59Z", Disposition.APPLIED),  # summer time by then
        ("2027-03-20T08:00", "2027-04-03T06:00:00Z", Disposition.EXPIRED),
    ],
)
def test_validity_begins_and_ends_by_the_clock_of_the_shop(opened, opens, moment, becomes):
    shop = opened(EURO)
    (row, *_) = shop.sent(shop.launch(shop.plan(valid={"from": opens, "days": 14})))
    rows = shop.outcomes([row], ordered_at=[moment])
    ingest(shop.store, "spring", rows, source="file", clock=shop.clock)
    assert [found["disposition"] for found in received(shop, None)] == [str(becomes)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_export_has_local_times_with_their_offset(opened, tmp_path, kind):
    shop = opened(EURO)
    shop.launch(shop.plan(valid={"from": "2027-03-20T08:00", "days": 14}, export={"columns": []}))
    file = tmp_path / f"codes.{kind}"
    export(shop.store, "spring", file=file)
    if kind == "csv":
        with file.open(newline="") as lines:
            row = next(csv.DictReader(lines))
        assert (row["sent_at"], row["expires_at"]) == ("2027-03-20 08:00:00+01:00", "2027-04-03 08:00:00+02:00")
    else:
        table = pq.read_table(file)
        assert table.schema.field("sent_at").type == pa.timestamp("us", "Europe/Berlin")
        row = table.to_pylist()[0]
        assert row["sent_at"] == datetime(2027, 3, 20, 7, tzinfo=UTC)
        assert row["expires_at"] == datetime(2027, 4, 3, 6, tzinfo=UTC)
    assert (row["valid_from"], row["valid_until"]) == ("2027-03-20 08:00:00+01:00", "2027-04-03 08:00:00+02:00")


def test_in_utc_exported_times_stay_without_a_zone(opened):
    shop = opened(POUNDS_UTC)
    shop.launch()
    assert export_codes(shop.store, "spring").schema.field("sent_at").type == pa.timestamp("us")


# ---- settings that may not change


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (EURO, Locale(read_currency("JPY"), "Europe/Berlin"), "currency: EUR.*JPY.*Set `currency: EUR`"),
        (EURO, Locale(read_currency("EUR"), "UTC"), "time_zone: Europe/Berlin.*UTC.*Set `time_zone: Europe/Berlin`"),
        (EURO, POUNDS_UTC, "currency: EUR.*GBP"),
        (POUNDS_UTC, EURO, "currency: GBP.*EUR"),
    ],
)
def test_neither_can_change_once_a_campaign_was_launched(opened, before, after, said):
    opened(before).launch()
    with pytest.raises(StateError, match=said):
        opened(after)
    opened(before)


def test_both_may_change_before_the_first_launch_and_a_plan_made_before_is_refused(opened):
    shop = opened(POUNDS_UTC)
    planned = shop.planned()
    keep(shop.store, planned)
    later = opened(EURO)
    with pytest.raises(StateError, match=r"currency or time zone .planned in GBP and UTC.*disco plan. again"):
        launch(later.store, load(later.store, planned.plan_id), clock=shop.clock, secret=shop.secret)
    later.launch()


def test_a_plan_in_pounds_and_utc_keeps_its_id(opened):
    assert "locale" not in opened(POUNDS_UTC).planned().inputs
    plan = opened(EURO).planned()
    assert plan.inputs["locale"] == "EUR Europe/Berlin"
    assert plan.currency == "EUR"


def test_simulated_customers_answer_by_the_clock_of_the_shop(tmp_path):
    shop = simulate(RetailerSettings(customers=80, seed=3), tmp_path / "data")
    ids = [f"c{number:07d}" for number in range(80)]
    opens, closes = (YEN.moment(shop.today + timedelta(days=days)) for days in (0, 20))
    codes = pa.table(
        {
            "code_id": [f"x{name}" for name in ids],
            "customer_id": ids,
            "campaign_id": ["spring"] * 80,
            "depth": [0.4] * 80,
            "sent_at": pa.array([opens] * 80, pa.timestamp("us", "Asia/Tokyo")),
            "expires_at": pa.array([closes] * 80, pa.timestamp("us", "Asia/Tokyo")),
        }
    )
    respond(tmp_path / "data", codes, out=tmp_path / "outcomes.parquet", locale=YEN)
    moments = pq.read_table(tmp_path / "outcomes.parquet")["ordered_at"].to_pylist()
    assert moments
    assert min(moments) >= opens.replace(tzinfo=None)
    assert max(moments) < closes.replace(tzinfo=None)


def test_times_that_name_a_zone_become_those_of_the_shop():
    given = pa.chunked_array([pa.array([datetime(2026, 7, 1, 23, tzinfo=UTC), None], pa.timestamp("s", "UTC"))])
    assert by_wall_clock(given, EURO).to_pylist() == [datetime(2026, 7, 2, 1), None]
    plain = pa.chunked_array([pa.array([datetime(2026, 7, 1, 23)])])
    assert by_wall_clock(plain, EURO) is plain
    assert by_wall_clock(given, POUNDS_UTC) is given


def test_a_recall_late_in_the_evening_matures_by_the_day_of_the_shop(opened):
    shop = opened(EURO)
    shop.launch()
    evening = datetime(2027, 3, 10, 23, 30, tzinfo=UTC)
    recall(shop.store, "spring", clock=type(shop.clock)(evening + timedelta(days=1)), at=evening)
    with shop.store.reading() as transaction:
        record = transaction.plans.campaign("spring")
    assert (record.recalled_at.date(), record.recalled_at.hour) == (date(2027, 3, 11), 0)
    assert record.matures_on == date(2027, 3, 14)
    assert "was recalled on 11 Mar 2027" in " ".join(read_out(shop.store, "spring", as_of=shop.after).words)


def test_campaigns_are_listed_with_the_hour_that_their_plans_have(opened):
    shop = opened(EURO)
    shop.launch()
    shop.launch(shop.plan(campaign="by-hour", valid={"from": datetime(2027, 4, 20, 8), "days": 14}))
    listed = list_campaigns(shop.store, today=date(2027, 3, 12))
    shown = [(one["valid_from"], one["valid_before"]) for one in listed.as_dict()["campaigns"]]
    assert shown == [("2027-03-08", "2027-03-22"), ("2027-04-20T08:00:00+02:00", "2027-05-04T08:00:00+02:00")]
    moments = [str(when) for when in listed.to_arrow()["valid_from"].to_pylist()]
    assert moments == ["2027-03-08 00:00:00+01:00", "2027-04-20 08:00:00+02:00"]
