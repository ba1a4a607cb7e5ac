"""Small random tables of a retailer, and a reader of tables held in memory."""

import datetime as dt
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pytest


class MemoryTables:
    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = dict(tables)

    def names(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def scan(self, name: str) -> pa.Table:
        return self._tables[name]


def random_tables(
    *, customers: int, seed: int, start: dt.date, days: int, orders_each: float = 6
) -> dict[str, pa.Table]:
    """Tables whose rows lie within `days` days from `start`; every customer's spend has a level and an elasticity."""
    rng = np.random.default_rng(seed)
    origin = np.datetime64(start, "us")

    def moments(count: int, low: float = 0) -> np.ndarray:
        return origin + (rng.uniform(low, days, count) * 86_400_000_000).astype("timedelta64[us]")

    level, slope = rng.normal(3.8, 0.5, customers), rng.normal(1.4, 0.5, customers)
    n_codes = customers * 4
    owner = rng.integers(0, customers, n_codes)
    depth = rng.choice([0.1, 0.2, 0.3, 0.4], n_codes)
    sent = moments(n_codes)
    redeemed = rng.random(n_codes) < 0.4
    redeemed_at = sent + (rng.uniform(0, 10, n_codes) * 86_400_000_000).astype("timedelta64[us]")
    n_plain = int(customers * orders_each)
    buyer = np.concatenate([rng.integers(0, customers, n_plain), owner[redeemed]])
    order_depth = np.concatenate([np.zeros(n_plain), depth[redeemed]])
    ordered_at = np.concatenate([moments(n_plain), redeemed_at[redeemed]])
    full = np.exp(level[buyer] + slope[buyer] * order_depth + rng.normal(0, 0.5, buyer.size)).round(2)
    code = [None] * n_plain + [f"c{row}" for row in np.flatnonzero(redeemed)]
    returned = rng.random(buyer.size) < 0.25
    n_site = customers * 20
    return {
        "customers": pa.table(
            {
                "customer_id": pa.array(np.arange(customers)),
                "joined_on": pa.array(
                    (origin - rng.integers(1, 900, customers).astype("timedelta64[D]")).astype("M8[D]")
                ),
            }
        ),
        "orders": pa.table(
            {
                "order_id": [f"o{row}" for row in range(buyer.size)],
                "customer_id": buyer,
                "ordered_at": ordered_at,
                "full_price": full,
                "paid": (full * (1 - order_depth)).round(2),
                "items": rng.integers(1, 6, buyer.size),
                "code": pa.array(code, pa.string()),
            }
        ),
        "returns": pa.table(
            {
                "order_id": [f"o{row}" for row in np.flatnonzero(returned)],
                "returned_at": ordered_at[returned] + np.timedelta64(6, "D"),
                "value": (full * (1 - order_depth) * rng.choice([0.5, 1.0], buyer.size))[returned].round(2),
            }
        ),
        "codes": pa.table(
            {
                "code_id": [f"c{row}" for row in range(n_codes)],
                "customer_id": owner,
                "campaign_id": ["a"] * n_codes,
                "depth": depth,
                "sent_at": sent,
                "redeemed_at": pa.array(redeemed_at, pa.timestamp("us"), mask=~redeemed),
            }
        ),
        "site": pa.table(
            {
                "customer_id": rng.integers(0, customers, n_site),
                "day": moments(n_site).astype("M8[D]"),
                "visits": rng.poisson(2, n_site),
                "views": rng.poisson(9, n_site),
                "add_to_bag": rng.poisson(1, n_site),
                "saves": rng.poisson(1, n_site),
                "checkouts": rng.poisson(0.4, n_site),
            }
        ),
    }


@pytest.fixture(scope="session")
def memory_tables() -> type[MemoryTables]:
    return MemoryTables


@pytest.fixture(scope="session")
def make_tables() -> Callable[..., dict[str, pa.Table]]:
    return random_tables
