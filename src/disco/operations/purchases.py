"""What customers bought: with the codes of a campaign, from its ledger, and beside them, from the table of orders."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.operations.net_purchases import net_purchases, ordered_before
from disco.records.arrays import Vector
from disco.records.currency import Currency
from disco.records.decisions import Purchases
from disco.records.errors import InputError
from disco.records.matching import places_in
from disco.records.money import from_minor_units
from disco.store import Store, Transaction

_ORDERS = ("customer_id", "ordered_at", "paid")


def bought(transaction: Transaction, campaign: str, decisions: pa.Table, *, before: datetime | None = None) -> Vector:
    """(n,) net full price bought with each decision's code, money; 0 where nothing was, or all was given back.

    before: what was ordered, given back or corrected from this moment on does not count; None: everything counts.
    """
    applied = transaction.ledger.applied(campaign, before=before)
    return bought_with(decisions["code"], applied, before=before, currency=transaction.locale.currency)


def bought_with(codes: pa.ChunkedArray, applied: pa.Table, *, before: datetime | None, currency: Currency) -> Vector:
    """(n,) the same of these codes, null where there is none. applied: the rows of the ledger that count."""
    net = net_purchases(applied if before is None else ordered_before(applied, before))
    place = places_in(codes.combine_chunks(), among=net.code)
    places = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
    return from_minor_units(np.append(net.full_price_minor, 0)[places], currency)


def purchases_of(store: Store, campaign: str, *, only_random: bool = False) -> Purchases:
    """The campaign's baskets with the context of each customer when decided; `only_random`: of random depths alone.

    Customers without a context of their own (no purchase in the year before) stay outside, as they do in the evidence.
    """
    from disco.operations.campaign_evidence import assigned_at_random  # not needed by read-outs

    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        full_price = bought(transaction, campaign, decisions)
        wanted = (full_price > 0) & np.asarray(decisions["known"].to_numpy(), np.bool_)
        if only_random:
            wanted &= assigned_at_random(decisions, record.plan)
        rows = np.flatnonzero(wanted)
        context = transaction.contexts.of(campaign, record.network, decisions["row"].to_numpy()[rows])
    return Purchases(context=context, depth=decisions["depth"].to_numpy()[rows], full_price=full_price[rows])


def revenue_beside(
    orders: pa.Table,
    decisions: pa.Table,
    period: tuple[date | datetime, date | datetime],
    *,
    sent: pa.Array | None = None,
) -> Vector:
    """(n,) paid by each decision's customer from the first time on and before the second, without its own code.

    orders: customer_id, ordered_at, paid, and code; without that column no order counts as one with a code.
    sent: (n,) what each customer was sent, where depths have a shared code. Somebody who uses one without having been
    sent it bought beside the campaign.
    """
    missing = [name for name in _ORDERS if name not in orders.column_names]
    if missing:
        raise InputError("orders", found=f"no column {', '.join(missing)}", expected=", ".join(_ORDERS))
    if "code" not in orders.column_names:
        orders = orders.append_column("code", pa.nulls(orders.num_rows, pa.string()))
    first, after = (pa.scalar(day).cast(pa.timestamp("us")) for day in period)
    moment = orders["ordered_at"].cast(pa.timestamp("us"), safe=False)
    own = pc.is_in(orders["code"].cast(pa.string()), value_set=pc.drop_null(decisions["code"]).combine_chunks())
    customers = decisions["customer_id"].cast(pa.string()).combine_chunks()
    if sent is not None:
        buyer = pc.index_in(orders["customer_id"].cast(pa.string()), value_set=customers).combine_chunks()
        theirs = pc.equal(orders["code"].cast(pa.string()).combine_chunks(), sent.take(buyer))
        own = pc.or_(own.combine_chunks(), pc.fill_null(theirs, False))
    within = pc.and_(pc.and_(pc.greater_equal(moment, first), pc.less(moment, after)), pc.invert(own))
    wanted = orders.filter(within)
    place = pc.index_in(wanted["customer_id"].cast(pa.string()), value_set=customers)
    known = np.asarray(place.is_valid().to_numpy(), np.bool_)
    paid = wanted["paid"].cast(pa.float64(), safe=False).to_numpy()[known]
    sums = np.bincount(pc.drop_null(place).to_numpy(), weights=paid, minlength=len(customers))
    return sums.astype(np.float64)  # without any order bincount counts instead of summing
