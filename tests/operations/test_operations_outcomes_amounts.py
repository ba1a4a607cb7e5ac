"""Amounts after the discount sent as full prices are noticed, and right ones are left alone."""

from contextlib import nullcontext
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from tests.features.conftest import MemoryTables

from disco.operations.outcomes import against_history, against_orders, ingest
from disco.records.locale import Locale
from disco.records.money import read_currency
from disco.store import Store

SHOPS = 200


def campaign(seed, *, growth, after, customers=4000, purchases=300, chosen_by_history=True):
    """A campaign of a made-up shop: (customer, full price, depth) of its purchases, (buyer, amount) of earlier orders.

    growth: of ln(basket) per unit of depth. after: whether amounts after the discount are sent. The customers with the
    largest baskets before, by luck or by habit, get the codes, and the largest of them the deepest.
    """
    rng = np.random.default_rng(seed)
    level = rng.normal(4, 0.4, customers)
    orders = rng.integers(0, 6, customers)
    buyer = np.repeat(np.arange(customers), orders)
    amounts = np.exp(level[buyer] + rng.normal(0, 0.7, buyer.size))
    means = np.bincount(buyer, np.log(amounts), minlength=customers) / np.maximum(orders, 1)
    rank = np.argsort(-np.where(orders > 0, means, -9)) if chosen_by_history else rng.permutation(customers)
    customer = rng.permutation(rank[: 2 * purchases])[:purchases]
    depth = np.quantile([0.3, 0.2, 0.1], np.argsort(np.argsort(-means[customer])) / purchases, method="nearest")
    full_price = np.exp(level[customer] + growth * depth + rng.normal(0, 0.7, purchases))
    return customer, full_price * (1 - depth if after else 1), depth, buyer, amounts


def share_noticed(**shop):
    found = 0
    for seed in range(SHOPS):
        customer, full_price, depth, buyer, amounts = campaign(seed, **shop)
        found += bool(against_history(customer, full_price, depth, buyer=buyer, amounts=amounts))
    return found / SHOPS


@pytest.mark.parametrize("growth", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("chosen_by_history", [True, False])
def test_right_amounts_are_left_alone(growth, chosen_by_history):
    """With 100, 300 and 1,000 purchases alike: none of 6,000 made-up campaigns was warned about."""
    assert share_noticed(growth=growth, after=False, chosen_by_history=chosen_by_history) == 0


@pytest.mark.parametrize(("growth", "purchases", "least"), [(0.0, 300, 0.45), (0.0, 1000, 0.95), (0.2, 1000, 0.9)])
def test_amounts_after_the_discount_are_noticed_by_what_the_customers_spent_before(growth, purchases, least):
    """Measured: 52%, 100% and 98%. Where baskets grow by 0.8 per unit of depth or more, this look sees nothing."""
    assert share_noticed(growth=growth, after=True, purchases=purchases, chosen_by_history=False) >= least


def matched(paid, *, by="code", rows=8):
    """Purchases with a discount of 20%, and the orders they are; the share of the order that is sent as full price."""
    codes = [f"C{row}" for row in range(rows)]
    purchases = pa.table({"event_id": [f"o{row}" for row in range(rows)], "code": codes})
    orders = pa.table(
        {
            "order_id": [f"o{row}" if by == "order" else f"x{row}" for row in range(rows)],
            "code": codes if by == "code" else pa.nulls(rows, pa.string()),
            "full_price": [40.0 + row for row in range(rows)],
        }
    )
    full_price = np.array([round((40.0 + row) * share, 2) for row, share in zip(range(rows), paid, strict=True)])
    return against_orders(purchases, full_price, np.full(rows, 0.2), orders)


@pytest.mark.parametrize("by", ["code", "order"])
def test_amounts_are_compared_with_the_orders_they_belong_to(by):
    found = matched([0.8] * 8, by=by)
    assert "8 of 8 purchases that are also in the table orders" in found
    assert "such as code C0 (£32.00 here, £40.00 there, 20% off)" in found
    assert matched([1.0] * 8, by=by) == ""
    assert matched([0.8] * 3 + [1.0] * 5, by=by) == "", "a few odd rows are no mix-up of columns"


def test_orders_that_are_not_there_yet_say_nothing():
    assert matched([0.8] * 8, by="nothing") is None
    assert matched([0.8] * 3, rows=3) is None


@pytest.mark.parametrize("code", ["GBP", "JPY", "KWD"])
def test_ingest_compares_with_the_tables_of_the_shop(make_shop, tmp_path, code):
    locale = Locale(read_currency(code), "Asia/Tokyo")
    store = Store(f"sqlite:///{tmp_path}/disco.db", tmp_path / "artefacts", locale=locale)
    shop = make_shop(store)
    launched = shop.launch()
    sent = shop.sent(launched)[:40]

    class Data:
        def __init__(self, orders):
            self.orders = orders

        def tables(self):
            return nullcontext(MemoryTables(self.orders))

    orders = pa.table(
        {
            "order_id": list(range(40)),
            "customer_id": [row["customer_id"] for row in sent],
            "ordered_at": [datetime(2027, 3, 9, 12)] * 40,
            "full_price": [50.0] * 40,
            "code": [row["code"] for row in sent],
        }
    )
    wrong = shop.outcomes(sent, full_price=[50 * (1 - row["depth"]) for row in sent])
    first = ingest(
        shop.store, "spring", wrong, source="a", clock=shop.clock, data=Data({"orders": orders}), dry_run=True
    )
    assert "40 of 40 purchases" in first.warnings[0]
    right = shop.outcomes(sent, full_price=[50.0] * 40)
    for tables in ({"orders": orders}, {"customers": orders}):
        done = ingest(shop.store, "spring", right, source="a", clock=shop.clock, data=Data(tables), dry_run=True)
        assert (done.applied, done.warnings) == (40, ())
    store.close()
