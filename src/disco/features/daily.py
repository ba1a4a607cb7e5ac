"""Orders and codes by day, from a retailer's tables: what the season is learned from."""

from collections.abc import Collection
from datetime import date, timedelta

import numpy as np

from disco.features.builder import connected, reading
from disco.features.sources import Sources
from disco.records.forecasting import DailyHistory
from disco.records.ports import Tables, locale_of

_MOST_DAYS = 6 * 366  # older years say little about the next
_EPOCH = date(1970, 1, 1)


def daily_history(tables: Tables, *, as_of: date, own: Collection[str], threads: int | None = None) -> DailyHistory:
    """Orders, and codes that the campaigns `own` did not send, of each day before the as-of date.

    Whom a campaign of the shop's own gets is decided, so how often its codes are used says who they are, too.
    """
    with connected(tables, threads=threads) as (connection, present), reading(tables):
        sources = Sources.describe(connection, present, as_of, locale_of(tables))
        orders = codes = []
        if "orders" in present:
            orders = connection.execute(sources.orders_by_day(days=_MOST_DAYS)).fetchall()
        if "codes" in present:
            codes = connection.execute(sources.codes_by_day(days=_MOST_DAYS, without=own)).fetchall()
    first = min((day for day, *_ in (*orders, *codes)), default=as_of)
    first = max(first, as_of - timedelta(days=_MOST_DAYS))
    counts = np.zeros((3, (as_of - first).days))
    for column, rows in ((0, orders), (1, codes)):
        for day, *numbers in rows:
            if first <= day < as_of:
                counts[column : column + len(numbers), (day - first).days] = numbers
    return DailyHistory(first_day=(first - _EPOCH).days, orders=counts[0], sent=counts[1], used=counts[2])
