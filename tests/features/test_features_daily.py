"""Orders and codes by day: what is dated later, or sent by the shop's own campaigns, does not count."""

from datetime import date, datetime

import pyarrow as pa

from disco.features.daily import daily_history
from disco.features.on_engine import InMemoryTables
from disco.records.locale import POUNDS_UTC


def at(day, hour=12):
    return datetime(2026, 3, day, hour)


def tables():
    bought, sent, used = [1, 1, 3, 9], [1, 1, 2, 2, 8], [2, None, 4, None, None]
    count = range(len(sent))
    return InMemoryTables(
        {
            "customers": pa.table({"customer_id": ["a"], "joined_on": [date(2025, 1, 1)]}),
            "orders": pa.table(
                {
                    "order_id": [f"o{n}" for n in range(len(bought))],
                    "customer_id": ["a"] * len(bought),
                    "ordered_at": [at(day) for day in bought],
                    "full_price": [10.0] * len(bought),
                }
            ),
            "codes": pa.table(
                {
                    "code_id": [f"c{n}" for n in count],
                    "customer_id": ["a"] * len(sent),
                    "campaign_id": ["post", "own's", "post", "post", "post"],
                    "depth": [0.1] * len(sent),
                    "sent_at": [at(day, 7) for day in sent],
                    "redeemed_at": pa.array([None if day is None else at(day) for day in used], pa.timestamp("us")),
                }
            ),
        },
        POUNDS_UTC,
    )


def test_orders_and_matured_codes_of_others_are_counted_by_day():
    found = daily_history(tables(), as_of=date(2026, 3, 9), own=["own's"], threads=1)
    assert found.first_day == (date(2026, 3, 1) - date(1970, 1, 1)).days
    assert found.orders.tolist() == [2, 0, 1, 0, 0, 0, 0, 0]
    assert found.sent.tolist() == [1, 0, 0, 0, 0, 0, 0, 0], "the others have not matured, or are the shop's own"
    assert found.used.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_shop_without_an_order_has_an_empty_history():
    customers = pa.table({"customer_id": ["a"], "joined_on": [date(2025, 1, 1)]})
    found = daily_history(
        InMemoryTables({"customers": customers}, POUNDS_UTC), as_of=date(2026, 3, 9), own=[], threads=1
    )
    assert found.orders.size == 0
