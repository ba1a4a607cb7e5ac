"""Whether the tables reach the day at which a plan looks at its customers, and whether that day is near its codes."""

from collections.abc import Iterator
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from disco.features.catalogue import YEAR_DAYS
from disco.records.plan import Plan
from disco.records.ports import Tables, locale_of
from disco.records.table_rows import TableRows
from disco.records.validation import readable
from disco.records.validation.cells import by_wall_clock, microseconds
from disco.records.validation.rules import DAY_MICROSECONDS, start_of_day
from disco.records.wording import counted

QUIET_DAYS = 7
"""Days without a row that no shop has to explain."""
_QUIET_ROWS = 10  # as many rows would usually have come in the meantime: by chance none does once in 20,000
_FAR_DAYS = 31  # between what is known of customers and their codes
_SOURCES = (
    ("orders", "order", "days_since_last_order", "orders_365d"),
    ("site", "visit", "days_since_last_visit", "site_days_365d"),
)


def stale_features(features: TableRows, day: date) -> tuple[str, ...]:
    """What the features of all customers as of a day tell about the tables they were built from."""
    found: list[str] = []
    for table, noun, recency, count in _SOURCES:
        if recency in features.column_names and count in features.column_names:
            days, rows = pc.min(features[recency]).as_py(), pc.sum(features[count]).as_py()
            if rows is not None:  # else there is no such table, and this is said elsewhere
                found += _stale(table, noun, None if days is None else int(days), int(rows), day)
    return tuple(found)


def stale_tables(tables: Tables, day: date) -> tuple[str, ...]:
    """The same of the tables themselves, without features: of the last order before the day."""
    if "orders" not in tables.names():
        return ()
    locale = locale_of(tables)
    scan = readable("orders", tables.scan("orders"), locale=locale)
    moments = (scan if isinstance(scan, pa.Table) else scan.to_table(columns=["ordered_at"]))["ordered_at"]
    moments = by_wall_clock(moments, locale)
    days = microseconds(pc.drop_null(moments).combine_chunks()) // DAY_MICROSECONDS
    end = start_of_day(day) // DAY_MICROSECONDS
    year = days[(days < end) & (days >= end - YEAR_DAYS)]
    return tuple(_stale("orders", "order", int(end - year.max()) if year.size else None, int(year.size), day))


def far_dates(plan: Plan) -> tuple[str, ...]:
    """A plan that looks at its customers long before their codes are valid."""
    between = (plan.valid.start - plan.customers.as_of).days
    if between <= _FAR_DAYS:
        return ()
    return (
        f"Customers are known as of {plan.customers.as_of}, {counted(between, 'day')} before their codes are valid. "
        "What they do in between is not known: give a later `customers.as_of`.",
    )


def _stale(table: str, noun: str, days: int | None, rows: int, day: date) -> Iterator[str]:
    """days: since the last row of the year before the day; None: there is none. rows: of that year."""
    fix = "Export the tables again, or give an earlier `customers.as_of`."
    if days is None or not rows:
        yield f"The table {table} has no {noun} in the year before {day} (`customers.as_of`). {fix}"
    elif days > max(QUIET_DAYS, _QUIET_ROWS * YEAR_DAYS / rows):
        last = day - timedelta(days=days)
        yield (
            f"The last {noun} in the table {table} is of {last}, {counted(days, 'day')} before {day} "
            f"(`customers.as_of`). {fix}"
        )
