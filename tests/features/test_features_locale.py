"""Features in another currency and another time zone: the same figures, and days that begin at midnight there."""

from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from disco.features import build_features, training_set
from disco.features.builder import day_after_last_order
from disco.records.errors import TableError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.money import read_currency

pytestmark = pytest.mark.filterwarnings("ignore::disco.features.builder.MissingTableWarning")
PLAIN, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass
class Memory:
    tables: dict[str, pa.Table]
    locale: Locale = POUNDS_UTC

    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def scan(self, name: str) -> pa.Table:
        return self.tables[name]


def shop(moments: list[datetime], prices: list[float], *, kind: pa.DataType = PLAIN) -> dict[str, pa.Table]:
    count = len(moments)
    customers = pa.table({"customer_id": [1], "joined_on": [date(2024, 1, 1)]})
    orders = pa.table(
        {
            "order_id": list(range(count)),
            "customer_id": [1] * count,
            "ordered_at": pa.array(moments, kind),
            "full_price": prices,
            "paid": [round(0.9 * price, 3) for price in prices],
            "items": [2] * count,
            "code": pa.nulls(count, pa.string()),
        }
    )
    return {"customers": customers, "orders": orders}


NOONS = [datetime(2026, 5, day, 12) for day in (1, 2, 3)]


def features(locale: Locale, tables: dict[str, pa.Table], as_of: date = date(2026, 6, 1)) -> dict[str, float | None]:
    (row,) = build_features(Memory(tables, locale), as_of=as_of, threads=1).to_pylist()
    return row


def test_whole_yen_are_the_same_amounts_as_whole_pounds() -> None:
    tables = shop(NOONS, [1200.0, 800.0, 2000.0])
    assert features(Locale(read_currency("JPY")), tables) == features(Locale(), tables)


def test_yen_are_rounded_to_whole_yen_and_dinars_to_a_thousandth() -> None:
    tables = shop(NOONS, [10.125, 20.25, 30.5])
    yen, dinar = (features(Locale(read_currency(code)), tables) for code in ("JPY", "KWD"))
    assert (yen["spend_365d"], yen["basket_max_365d"]) == (60.0, 30.0)
    assert (dinar["spend_365d"], dinar["basket_min_365d"]) == (60.875, 10.125)
    assert dinar["basket_mean_365d"] == pytest.approx(60.875 / 3)
    assert yen["basket_log_mean_365d"] == pytest.approx(dinar["basket_log_mean_365d"], abs=0.02)


def test_a_training_set_has_the_logarithm_of_currency_units() -> None:
    tables = shop([*NOONS, datetime(2026, 6, 5, 12)], [10.125, 20.25, 30.5, 40.0])
    for code in ("JPY", "KWD", "GBP"):
        rows = training_set(
            Memory(tables, Locale(read_currency(code))),
            window_start=date(2026, 6, 1),
            window_end=date(2026, 7, 1),
            threads=1,
        )
        assert rows.log_full_price.tolist() == pytest.approx([3.688879], abs=1e-5)


@pytest.mark.parametrize(
    ("moment", "zone", "age"),
    [
        # 23:30 UTC on 31 May is 01:30 on 1 June in Berlin: not before the as-of day
        (datetime(2026, 5, 31, 23, 30), "UTC", 1),
        (datetime(2026, 5, 31, 23, 30), "Europe/Berlin", None),
        (datetime(2026, 5, 31, 21, 59), "Europe/Berlin", 1),
        # 22:30 UTC on 30 May is 31 May in Berlin
        (datetime(2026, 5, 30, 22, 30), "UTC", 2),
        (datetime(2026, 5, 30, 22, 30), "Europe/Berlin", 1),
        # 03:00 UTC on 1 June is still 31 May in New York
        (datetime(2026, 6, 1, 3, 0), "America/New_York", 1),
    ],
)
def test_an_order_belongs_to_the_day_it_was_in_the_shop(moment: datetime, zone: str, age: int | None) -> None:
    tables = shop([moment.replace(tzinfo=UTC)], [10.0], kind=ZONED)
    row = features(Locale(time_zone=zone), tables)
    assert row["days_since_last_order"] == (366 if age is None else age)
    assert row["orders_7d"] == (0 if age is None else 1)


def test_a_time_without_a_zone_is_one_of_the_shop() -> None:
    tables = shop([datetime(2026, 5, 31, 23, 30)], [10.0])
    for zone in ("UTC", "Europe/Berlin", "Asia/Tokyo"):
        row = features(Locale(time_zone=zone), tables)
        assert (row["days_since_last_order"], row["evening_order_share_365d"]) == (1, 1)


def test_evenings_and_weekends_are_those_of_the_shop() -> None:
    # Friday 22:30 UTC is Saturday 00:30 in Berlin: a weekend, and no evening
    tables = shop([datetime(2026, 5, 29, 22, 30, tzinfo=UTC)], [10.0], kind=ZONED)
    berlin, utc = features(Locale(time_zone="Europe/Berlin"), tables), features(Locale(), tables)
    assert (utc["evening_order_share_365d"], utc["weekend_order_share_365d"]) == (1, 0)
    assert (berlin["evening_order_share_365d"], berlin["weekend_order_share_365d"]) == (0, 1)


@pytest.mark.parametrize(
    ("before", "first", "last", "after", "as_of"),
    [
        ("2026-03-28T22:59", "2026-03-28T23:00", "2026-03-29T21:59", "2026-03-29T22:00", date(2026, 3, 30)),
        ("2026-10-24T21:59", "2026-10-24T22:00", "2026-10-25T22:59", "2026-10-25T23:00", date(2026, 10, 26)),
    ],
)
def test_a_day_on_which_clocks_change_is_one_day(before: str, first: str, last: str, after: str, as_of: date) -> None:
    berlin = Locale(time_zone="Europe/Berlin")

    def ages(*moments: str) -> tuple[object, ...]:
        zoned = [datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in moments]
        row = features(berlin, shop(zoned, [10.0] * len(zoned), kind=ZONED), as_of)
        return row["orders_7d"], row["days_since_last_order"], row["days_since_first_order"]

    assert ages(first, last) == (2, 1, 1)
    assert ages(before, first, last, after) == (3, 1, 2)


def test_the_day_after_the_last_order_is_one_of_the_shop() -> None:
    tables = shop([datetime(2026, 5, 31, 23, 30, tzinfo=UTC)], [10.0], kind=ZONED)
    assert day_after_last_order(Memory(tables)) == date(2026, 6, 1)
    assert day_after_last_order(Memory(tables, Locale(time_zone="Europe/Berlin"))) == date(2026, 6, 2)


def test_an_amount_below_one_yen_is_refused_by_row() -> None:
    tables = shop(NOONS, [1200.0, 0.4, 2000.0])
    tables["orders"] = tables["orders"].set_column(4, "paid", pa.array([1000.0, 0.4, 2000.0]))
    features(Locale(), tables)
    paid_above = tables["orders"].set_column(4, "paid", pa.array([1000.0, 900.0, 2000.0]))
    with pytest.raises(TableError, match="row 2"):
        features(Locale(read_currency("JPY")), {**tables, "orders": paid_above})
