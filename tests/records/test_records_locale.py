"""Time zones: days of 23 and 25 hours, hours that clocks skip or repeat, against Python's own rules."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.records.errors import InputError
from disco.records.locale import Locale, read_time_zone
from disco.records.money import read_currency
from disco.records.table_rules import TableSource, check_rows, typed_table
from disco.records.validation import validate

BERLIN = Locale(read_currency("EUR"), "Europe/Berlin")
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "Asia/Kolkata", "Africa/Casablanca", "Australia/Lord_Howe"]
EPOCH = datetime(1970, 1, 1)


def micro(naive: datetime) -> int:
    return (naive - EPOCH) // timedelta(microseconds=1)


def back(number: int) -> datetime:
    return EPOCH + timedelta(microseconds=int(number))


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=60, deadline=None)
@given(st.datetimes(datetime(1971, 1, 1), datetime(2060, 1, 1)))
def test_columns_are_converted_as_python_converts_one_time(zone: str, naive: datetime) -> None:
    locale, known = Locale(time_zone=zone), ZoneInfo(zone)
    wanted = naive.replace(tzinfo=known).astimezone(UTC).replace(tzinfo=None)
    assert back(locale.instants(np.array([micro(naive)]))[0]) == wanted
    shown = naive.replace(tzinfo=UTC).astimezone(known).replace(tzinfo=None)
    assert back(locale.wall_clock(np.array([micro(naive)]))[0]) == shown


@pytest.mark.parametrize(
    ("naive", "instant"),
    [
        (datetime(2026, 3, 29, 1, 59), datetime(2026, 3, 29, 0, 59)),
        (datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 1, 30)),  # skipped: 03:30 summer time
        (datetime(2026, 3, 29, 3, 0), datetime(2026, 3, 29, 1, 0)),
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30)),  # shown twice: the first
        (datetime(2026, 10, 25, 3, 0), datetime(2026, 10, 25, 2, 0)),
    ],
)
def test_hours_that_clocks_skip_or_repeat_in_berlin(naive: datetime, instant: datetime) -> None:
    assert back(BERLIN.instants(np.array([micro(naive)]))[0]) == instant
    assert BERLIN.moment(naive).astimezone(UTC).replace(tzinfo=None) == instant


def test_days_of_23_and_of_25_hours_begin_at_midnight_there() -> None:
    hours = [
        (BERLIN.moment(day + timedelta(days=1)) - BERLIN.moment(day)) / timedelta(hours=1)
        for day in (date(2026, 3, 28), date(2026, 3, 29), date(2026, 10, 25))
    ]
    # Python subtracts times of one zone by their clocks, so by way of UTC
    exact = [
        (BERLIN.moment(day + timedelta(days=1)).astimezone(UTC) - BERLIN.moment(day).astimezone(UTC)).seconds / 3600
        for day in (date(2026, 3, 29), date(2026, 10, 25))
    ]
    assert hours[0] == 24
    assert exact == [23, 1]  # 25 hours are one day and one hour


@pytest.mark.parametrize(
    ("wrong", "meant"), [("Berlin", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("New York", "America/New_")]
)
def test_a_name_that_is_no_zone_is_refused_with_the_one_that_was_meant(wrong: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"IANA.*Did you mean {meant}"):
        read_time_zone(wrong)


@pytest.mark.parametrize("wrong", ["", "CEST", "Europe", "UTC+1", "+01:00", "localtime", "../etc/passwd", "posix/UTC"])
def test_what_is_no_zone_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="IANA"):
        read_time_zone(wrong)


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", "Zulu"])
def test_utc_has_one_name(name: str) -> None:
    assert read_time_zone(name) == "UTC"


# ---- tables


def outcomes(*moments: str) -> pa.Table:
    count = len(moments)
    return pa.table(
        {
            "event_id": [f"e{place}" for place in range(count)],
            "campaign_id": ["c"] * count,
            "customer_id": ["1"] * count,
            "code": ["x"] * count,
            "kind": ["purchase"] * count,
            "ordered_at": list(moments),
            "full_price": ["12.50"] * count,
        }
    )


def test_a_time_without_a_zone_is_local_and_one_with_a_zone_is_itself() -> None:
    given = outcomes(
        "2026-07-01 00:30:00", "2026-07-01T00:30:00Z", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"
    )
    found = check_rows("outcomes", given, BERLIN).table["ordered_at"].to_pylist()
    assert [moment.replace(tzinfo=None) for moment in found] == [
        datetime(2026, 6, 30, 22, 30),
        datetime(2026, 7, 1, 0, 30),
        datetime(2026, 10, 25, 1, 30),
        datetime(2026, 10, 25, 0, 30),
    ]


def test_text_of_two_zones_becomes_one_clock_and_typed_columns_keep_theirs() -> None:
    found = typed_table(TableSource("outcomes", outcomes("2026-07-01 00:30", "2026-07-01T00:30Z"), "o", BERLIN))
    assert found["ordered_at"].to_pylist() == [datetime(2026, 7, 1, 0, 30), datetime(2026, 7, 1, 2, 30)]


def test_the_last_day_that_dates_may_have_ends_at_local_midnight() -> None:
    customers = pa.table({"customer_id": [1], "joined_on": [date(2026, 1, 1)]})

    def problems(moment: str) -> list[str]:
        orders = pa.table(
            {"order_id": [1], "customer_id": [1], "ordered_at": [moment], "full_price": [10.0], "paid": [9.0]}
        )
        sources = [TableSource("customers", customers, "c", BERLIN), TableSource("orders", orders, "o", BERLIN)]
        return [problem.kind for problem in validate(sources, as_of=date(2026, 7, 1)).problems]

    assert problems("2026-07-01T21:59:00Z") == []
    assert problems("2026-07-01T22:00:00Z") == ["future_date"]
    assert problems("2026-07-01 23:59:00") == []


def test_a_return_in_the_hour_that_is_shown_twice_is_not_before_its_order() -> None:
    customers = pa.table({"customer_id": [1], "joined_on": [date(2026, 1, 1)]})
    orders = pa.table(
        {"order_id": [1], "customer_id": [1], "ordered_at": ["2026-10-25 02:50"], "full_price": [10.0], "paid": [9.0]}
    )

    def problems(returned: str) -> list[str]:
        returns = pa.table({"order_id": [1], "returned_at": [returned], "value": [1.0]})
        tables = {"customers": customers, "orders": orders, "returns": returns}
        sources = [TableSource(name, table, name, BERLIN) for name, table in tables.items()]
        return [problem.kind for problem in validate(sources, as_of=date(2026, 12, 1)).problems]

    assert problems("2026-10-25 02:10") == []  # winter time already
    assert problems("2026-10-25 01:10") == ["returned_before_ordered"]
