"""Were amounts after the discount sent as full prices? Two looks at purchases whose depth is known.

Orders   A purchase that is in the shop's own table of orders, by its code or its order id, should have that order's
         full price, not the (1 − depth)th part of it.
History  Where the orders are not there yet: a customer's basket should not be smaller with a code than without. The
         expected ln(full price) of a customer is the mean of their earlier orders, shrunk towards everybody's by
         k/(k + within/between) for k orders, so that customers chosen for a lucky past are not expected to repeat it.
         Said where the mean shortfall is at least `_SHARE` of the discount's own, and `_SIGMAS` standard errors.

Both only warn. Baskets that grow strongly with the depth hide the mistake from the second look.
"""

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers, Vector
from disco.records.currency import GBP, Currency
from disco.records.depths import depth_percent
from disco.records.errors import InputError
from disco.records.locale import Locale
from disco.records.money import from_minor_units
from disco.records.ports import locale_of
from disco.records.validation import readable
from disco.records.validation.cells import by_wall_clock, flags, microseconds
from disco.records.validation.rules import start_of_day
from disco.records.wording import counted, money, percent
from disco.store import Transaction

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

MOST_ORDERS = 10_000_000
"""Longer tables of orders are not read for a warning."""
FEWEST_MATCHED = 5
FEWEST_PURCHASES = 50
_SHARE, _SIGMAS = 0.6, 4.0
_CLOSE = 0.01  # relative: amounts were rounded, perhaps article by article
_LOOKS = "full_price looks like the amount after the discount"
_FIX = "full_price is the value of the basket before the discount: export that column, and `disco revert` this batch"


def amount_warnings(
    transaction: Transaction, data: "ShopData", campaign: str, applied: pa.Table, *, start: date
) -> tuple[str, ...]:
    """What to say about the amounts of these purchases.

    applied: event_id, customer_id, code, full_price_minor of purchases that count. start: first day of the codes.
    """
    if applied.num_rows < FEWEST_MATCHED:
        return ()
    decisions = transaction.decisions.of(campaign, codes=pc.unique(applied["code"].combine_chunks()))
    place = pc.index_in(applied["code"].combine_chunks(), value_set=decisions["code"].combine_chunks())
    depth = np.asarray(decisions["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False), np.float64)
    try:
        orders = _orders(data, applied)
    except InputError:  # what is wrong with the shop's tables is for `disco validate` to say
        return ()
    currency = transaction.locale.currency
    full_price = from_minor_units(applied["full_price_minor"].to_numpy(), currency)
    found = against_orders(applied, full_price, depth, orders, currency=currency)
    if found is None:
        ordinary = (orders["micros"].to_numpy() < start_of_day(start)) & ~flags(orders["code"].is_valid())
        earlier = orders.filter(pa.array(ordinary))
        people = pc.unique(applied["customer_id"].combine_chunks())
        found = against_history(
            _number_of(applied["customer_id"], people),
            full_price,
            depth,
            buyer=_number_of(earlier["customer_id"], people),
            amounts=earlier["full_price"].to_numpy(),
        )
    return (found,) if found else ()


def against_orders(
    rows: pa.Table, full_price: Vector, depth: Vector, orders: pa.Table, *, currency: Currency = GBP
) -> str | None:
    """The warning; empty where the orders say that all is well; None where too few of the purchases are among them.

    rows: event_id, code. full_price, depth: (n,) of these purchases. orders: order_id, code, full_price.
    """
    counts = pc.value_counts(orders["code"].combine_chunks())
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))  # a shared code names no order
    by_code = orders.filter(pc.is_in(orders["code"], value_set=once)).select(["order_id", "code"])
    order = pc.coalesce(
        by_code["order_id"].combine_chunks().take(_place(rows["code"], by_code["code"])),
        rows["event_id"].combine_chunks(),
    )
    place = np.asarray(pc.fill_null(_place(order, orders["order_id"]), -1).to_numpy(zero_copy_only=False), np.int64)
    known = (place >= 0) & (depth > 0)
    if known.sum() < FEWEST_MATCHED:
        return None
    there = orders["full_price"].to_numpy()[place]
    after = known & (np.abs(full_price - there * (1 - depth)) <= _CLOSE * there)
    if after.sum() * 2 <= known.sum():
        return ""
    at, number = int(np.argmax(after)), counted(int(known.sum()), "purchase")
    here, whole = (money(amount, currency=currency, full=True) for amount in (full_price[at], there[at]))
    return (
        f"{_LOOKS}: {after.sum():,} of {number} that are also in the table orders have the order's full price less the "
        f"discount, such as code {rows['code'][at]} ({here} here, {whole} there, {depth_percent(depth[at])}). {_FIX}"
    )


def against_history(customer: Integers, full_price: Vector, depth: Vector, *, buyer: Integers, amounts: Vector) -> str:
    """The warning, or nothing.

    customer, full_price, depth: (n,) who bought (a number from 0), for how much, with which discount.
    buyer, amounts: (m,) the same of earlier orders without a code.
    """
    buyer, logs = buyer[amounts > 0], np.log(amounts[amounts > 0])
    expected, known = _expected_logs(buyer, logs, people=int(customer.max(initial=-1)) + 1)
    rows = known[customer] & (depth > 0) & (full_price > 0)
    if rows.sum() < FEWEST_PURCHASES:
        return ""
    shortfall = np.log(full_price[rows]) - expected[customer[rows]]
    mean, error = shortfall.mean(), shortfall.std(ddof=1) / np.sqrt(rows.sum())
    if mean >= _SHARE * np.log(1 - depth[rows]).mean() or mean >= -_SIGMAS * error:
        return ""
    below, off = (percent(share, decimals=0) for share in (1 - float(np.exp(mean)), float(depth[rows].mean())))
    return (
        f"{_LOOKS}: {counted(int(rows.sum()), 'purchase')} are {below} below what the same customers spent before, and "
        f"the mean discount is {off}. {_FIX}"
    )


def _expected_logs(buyer: Integers, logs: Vector, *, people: int) -> tuple[Vector, Flags]:
    """(people,) the shrunk mean of each customer's logs, and who has one."""
    orders = np.bincount(buyer, minlength=people)
    sums = np.bincount(buyer, weights=logs, minlength=people)
    known, k = orders > 0, np.maximum(orders, 1)
    means = sums / k
    if not known.any():
        return means, known
    within = ((logs - means[buyer]) ** 2).sum() / max(len(logs) - known.sum(), 1)
    between = max(means[known].var() - (within / k[known]).mean(), 1e-12)
    everybody = means[known].mean()
    return everybody + (means - everybody) * k / (k + within / between), known


def _place(values: pa.Array | pa.ChunkedArray, among: pa.ChunkedArray) -> pa.Array:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pc.index_in(values, value_set=among.combine_chunks())


def _number_of(ids: pa.ChunkedArray, people: pa.Array) -> Integers:
    return np.asarray(pc.index_in(ids.combine_chunks(), value_set=people).to_numpy(zero_copy_only=False), np.int64)


def _orders(data: "ShopData", applied: pa.Table) -> pa.Table:
    """Orders of these customers: order_id, customer_id, code (text), full_price (float), micros (wall clock)."""
    people, parts = pc.unique(applied["customer_id"].combine_chunks()), []
    with data.tables() as tables:
        locale, scan = locale_of(tables), _ORDERS.empty_table()
        if "orders" in tables.names():
            scan = readable("orders", tables.scan("orders"), locale=locale)
        rows = len(scan) if isinstance(scan, pa.Table) else scan.count_rows()
        for batch in scan.to_batches() if rows <= MOST_ORDERS else ():
            theirs = pc.is_in(batch["customer_id"].cast(pa.string()), value_set=people)
            parts.append(_plain(batch.filter(theirs), locale))
    return pa.Table.from_batches(parts, _ORDERS)


_ORDERS = pa.schema(
    [
        ("order_id", pa.string()),
        ("customer_id", pa.string()),
        ("code", pa.string()),
        ("full_price", pa.float64()),
        ("micros", pa.int64()),
    ]
)


def _plain(batch: pa.RecordBatch, locale: Locale) -> pa.RecordBatch:
    ids = [
        batch[name].cast(pa.string()) if name in batch.schema.names else pa.nulls(len(batch), pa.string())
        for name in ("order_id", "customer_id", "code")
    ]
    ids[2] = pc.if_else(pc.equal(ids[2], ""), pa.scalar(None, pa.string()), ids[2])
    amounts = pc.fill_null(batch["full_price"].cast(pa.float64(), safe=False), 0.0)
    moments = by_wall_clock(pa.chunked_array([batch["ordered_at"]]), locale).combine_chunks()
    return pa.record_batch([*ids, amounts, pa.array(microseconds(moments))], schema=_ORDERS)
