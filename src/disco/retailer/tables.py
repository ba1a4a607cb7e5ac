"""The retailer's raw tables as Arrow: schemas, and the ordinary rows of a block of customers over a stretch of time."""

from dataclasses import fields
from datetime import date, timedelta
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records import tables
from disco.records.arrays import Integers
from disco.records.tables import Kind
from disco.retailer.life import DAY, BlockMonth, Codes, Orders, Returns, SiteDays, browse_month, simulate_month
from disco.retailer.population import Customers
from disco.retailer.season import day_number, month_of
from disco.retailer.settings import RetailerSettings

Tables = dict[str, pa.Table]

INSTANT = pa.timestamp("us")
_RAW = {
    Kind.MONEY: pa.float64(),
    Kind.MOMENT: INSTANT,
}  # as a retailer brings them; the rest is canonical
SCHEMAS = {
    name: pa.schema([(column.name, _RAW.get(column.kind, column.kind.canonical)) for column in table.columns])
    for name, table in tables.SCHEMAS.items()
}
SCHEMAS["customers"] = SCHEMAS["customers"].append(pa.field("country", pa.string()))
DATED_BY = {"orders": "ordered_at", "returns": "returned_at", "codes": "sent_at", "site": "day"}

Columns = TypeVar("Columns", Orders, Returns, Codes, SiteDays)


def customer_ids(index: Integers) -> pa.Array:
    """Ids as text.

    >>> customer_ids(np.array([17])).to_pylist()
    ['c0000017']
    """
    return _numbered("c", index, digits=7)


def first_order_id(day: date) -> str:
    """No order of an earlier month has an id from this one on: ids begin with year and month, and are equally long.

    >>> first_order_id(date(2025, 9, 1))
    'o202509000000000'
    """
    return f"o{(day.year * 100 + day.month) * 10**9}"


def _numbered(prefix: str, numbers: Integers, *, digits: int = 1) -> pa.Array:
    text = pc.cast(pa.array(numbers, pa.int64()), pa.string())
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(text, digits, "0"), "")


def instants(microseconds: Integers) -> pa.Array:
    """Timestamps of microseconds since 1970-01-01, (n,); negative = null."""
    return pa.array(microseconds, pa.int64(), mask=microseconds < 0).cast(INSTANT)


def customers_table(customers: Customers, *, settings: RetailerSettings) -> pa.Table:
    """What the retailer knows about customers: id, day of joining, country."""
    names = pa.array([name for name, _ in settings.countries])
    columns = [customer_ids(customers.index), _days(customers.joined_on), names.take(pa.array(customers.country))]
    return pa.table(columns, schema=SCHEMAS["customers"])


def _days(numbers: Integers) -> pa.Array:
    return pa.array(numbers.astype(np.int32), pa.int32()).cast(pa.date32())


def _orders_table(orders: Orders, ids: pa.Array) -> pa.Table:
    code = pc.if_else(pa.array(orders.code >= 0), _numbered("k", orders.code), pa.scalar(None, pa.string()))
    columns = [
        _numbered("o", orders.number),
        ids.take(pa.array(orders.who)),
        instants(orders.ordered_at),
        pa.array(orders.full_price),
        pa.array(orders.paid),
        pa.array(orders.items),
        code,
    ]
    return pa.table(columns, schema=SCHEMAS["orders"])


def _returns_table(returns: Returns) -> pa.Table:
    columns = [_numbered("o", returns.order), instants(returns.returned_at), pa.array(returns.value)]
    return pa.table(columns, schema=SCHEMAS["returns"])


def _codes_table(codes: Codes, ids: pa.Array) -> pa.Table:
    campaign = _numbered("monthly-", codes.month // 12 * 100 + codes.month % 12 + 1)
    columns = [
        _numbered("k", codes.number),
        ids.take(pa.array(codes.who)),
        campaign,
        pa.array(codes.depth),
        instants(codes.sent_at),
        instants(codes.redeemed_at),
    ]
    return pa.table(columns, schema=SCHEMAS["codes"])


def site_table(site: SiteDays, ids: pa.Array) -> pa.Table:
    """One row per customer and day with a visit; `ids` by the rows of the block."""
    counts = [pa.array(each) for each in (site.visits, site.views, site.add_to_bag, site.saves, site.checkouts)]
    return pa.table([ids.take(pa.array(site.who)), _days(site.day), *counts], schema=SCHEMAS["site"])


def ordinary_rows(customers: Customers, *, settings: RetailerSettings, block: int, start: date, end: date) -> Tables:
    """All ordinary rows of a block that are dated in [start, end): orders, returns, codes, site.

    A return may belong to an order of an earlier month, so simulation starts as far back as returns reach.
    """
    earliest = max(start - timedelta(days=settings.habits.most_return_days), settings.calendar.history_start)
    latest = end - timedelta(days=1)
    months = [BlockMonth(settings, block, month) for month in range(month_of(earliest), month_of(latest) + 1)]
    simulated = [simulate_month(customers, at) for at in months]
    visits = [
        browse_month(customers, orders, at)
        for at, (orders, _, _) in zip(months, simulated, strict=True)
        if at.month >= month_of(start)
    ]
    ids = customer_ids(customers.index)
    first, last = day_number(start), day_number(end)
    orders = _join([orders for orders, _, _ in simulated])
    returns = _join([returns for _, returns, _ in simulated])
    codes = _join([codes for _, _, codes in simulated])
    site = _join(visits)
    return {
        "orders": _orders_table(_cut(orders, orders.ordered_at, start=first * DAY, end=last * DAY), ids),
        "returns": _returns_table(_cut(returns, returns.returned_at, start=first * DAY, end=last * DAY)),
        "codes": _codes_table(_cut(codes, codes.sent_at, start=first * DAY, end=last * DAY), ids),
        "site": site_table(_cut(site, site.day, start=first, end=last), ids),
    }


def _join(parts: list[Columns]) -> Columns:
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(kind)))


def _cut(rows: Columns, when: Integers, *, start: int, end: int) -> Columns:
    inside = (when >= start) & (when < end)
    return type(rows)(*(getattr(rows, each.name)[inside] for each in fields(rows)))
