"""A clean shop of any size, in memory: the ground on which tests plant faults."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

Shop = dict[str, pa.Table]


def make_shop(
    seed: int = 0, *, customers: int = 5, orders: int = 12, text_ids: bool = True, decimals: bool = False
) -> Shop:
    """Every rule holds by construction: every second order used a code, every third one was half returned."""
    rng = np.random.default_rng(seed)

    def ids(letter: str, numbers: Any, *, where: Any = None) -> pa.Array:
        names = np.array([f"{letter}{number}" for number in numbers]) if text_ids else np.asarray(numbers)
        return pa.array(names, mask=None if where is None else ~where)

    def money(minor: Any) -> pa.Array:
        return pa.array([Decimal(int(amount)) / 100 if decimals else int(amount) / 100 for amount in minor])

    names = rng.permutation(10 * customers)[:customers] + 1
    buyers = rng.choice(names, orders)
    ordered = np.datetime64("2025-06-01T09:30:01", "us") + rng.integers(0, 200 * 1440, orders).astype("timedelta64[m]")
    full = rng.integers(100, 20_000, orders)
    rows = np.arange(orders)
    coded, returned, refunded = rows % 2 == 0, rows % 3 == 0, rows % 4 == 3
    days = rng.permutation(100)[: customers + 1].astype("timedelta64[D]")
    campaign = np.full(orders, "spring")
    return {
        "customers": pa.table(
            {"customer_id": ids("c", names), "joined_on": np.full(customers, np.datetime64("2024-02-29"))}
        ),
        "orders": pa.table(
            {
                "order_id": ids("o", rows + 1000),
                "customer_id": ids("c", buyers),
                "ordered_at": ordered,
                "full_price": money(full),
                "paid": money(full - full // 5),
                "items": rng.integers(0, 9, orders),
                "code": ids("k", rows, where=coded),
            }
        ),
        "returns": pa.table(
            {
                "order_id": ids("o", (rows + 1000)[returned]),
                "returned_at": ordered[returned] + np.timedelta64(2, "D"),
                "value": money(full[returned] // 2),
            }
        ),
        "codes": pa.table(
            {
                "code_id": ids("k", rows[coded]),
                "customer_id": ids("c", buyers[coded]),
                "campaign_id": campaign[coded],
                "depth": rng.choice([0.0, 0.1, 0.25, 0.999], np.count_nonzero(coded)),
                "sent_at": ordered[coded] - np.timedelta64(3, "D"),
                "redeemed_at": pa.array(ordered[coded], mask=rows[coded] % 5 == 4),
            }
        ),
        "site": pa.table(
            {"customer_id": ids("c", np.resize(names, days.size)), "day": np.datetime64("2025-10-01") + days}
            | {name: rng.integers(0, 9, days.size) for name in ("visits", "views", "add_to_bag", "saves", "checkouts")}
        ),
        "outcomes": pa.table(
            {
                "event_id": ids("e", rows),
                "campaign_id": campaign,
                "customer_id": ids("c", buyers),
                "code": pa.nulls(orders),
                "ordered_at": ordered,
                "full_price": money(full),
                "kind": np.where(refunded, "refund", "purchase"),
                "refers_to": ids("e", rows - 1, where=refunded),
            }
        ),
    }


@pytest.fixture(scope="session")
def shop() -> Callable[..., Shop]:
    return make_shop


@pytest.fixture(scope="session")
def as_of() -> date:
    return date(2026, 3, 1)
