"""Outcomes in, exactly once: each matches a decision of its campaign or is set aside with the reason."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags
from disco.records.decisions import IngestCounts
from disco.records.errors import InputError
from disco.records.money import LARGEST_AMOUNT, MINOR_PER_UNIT, to_minor_units
from disco.records.ports import Store
from disco.records.tables import SCHEMAS, Kind
from disco.records.validation.cells import is_accepted

_READ = tuple(column for column in SCHEMAS["outcomes"].columns if column.name != "refers_to")


def ingest(store: Store, campaign: str, outcomes: pa.Table) -> IngestCounts:
    """Apply a batch of outcomes to a campaign's ledger. received = applied + duplicate + rejected, always.

    An event counts once, whatever was rejected under its id before: a mended row may come again.
    """
    plan = store.plan(campaign)
    rows = _typed(outcomes)
    reasons = _reasons(rows, store.decisions(campaign), campaign=campaign, start=plan.valid.start, end=plan.valid.end)
    events = rows["event_id"].to_pylist()
    seen = set(store.known_events(event for event in events if event is not None))
    applied, duplicate = np.zeros(len(events), bool), np.zeros(len(events), bool)
    for row, event in enumerate(events):
        duplicate[row] = event in seen
        applied[row] = not duplicate[row] and not reasons[row]
        if applied[row]:
            seen.add(event)
    rejected = ~(applied | duplicate)
    kept = rows.filter(pa.array(applied))
    store.append(
        campaign,
        kept.select(["event_id", "customer_id", "code", "ordered_at"]).append_column(
            "full_price_minor", pa.array(to_minor_units(kept["full_price"], where="outcomes, column full_price"))
        ),
        pa.table(
            {
                "event_id": rows["event_id"].filter(pa.array(rejected)).fill_null(""),
                "reason": pa.array(reasons[rejected], pa.string()),
            }
        ),
    )
    return IngestCounts(len(events), int(applied.sum()), int(duplicate.sum()), rejected=int(rejected.sum()))


def _typed(outcomes: pa.Table) -> pa.Table:
    """The columns that are read: ids and words as text (17 and "17" are one customer), times as UTC without a zone."""
    missing = [column.name for column in _READ if column.name not in outcomes.column_names]
    if missing:
        raise InputError("outcomes", found=f"no column {', '.join(missing)}", expected="the outcomes table")
    columns = {}
    for column in _READ:
        values = outcomes[column.name]
        if not is_accepted(column.kind, values.type):
            raise InputError(f"outcomes, column {column.name}", found=f"type {values.type}", expected=str(column.kind))
        if column.kind is Kind.MOMENT:
            columns[column.name] = values.cast(pa.timestamp("us"), safe=False)
        elif column.kind is Kind.MONEY:
            columns[column.name] = values.cast(pa.float64()) if pa.types.is_null(values.type) else values
        else:
            columns[column.name] = values.cast(pa.string())
    return pa.table(columns)


def _reasons(rows: pa.Table, decisions: pa.Table, *, campaign: str, start: date, end: date) -> np.ndarray:
    """Why each outcome cannot be applied; "" where it can."""
    sent = decisions.filter(decisions["code"].is_valid())
    place = pc.index_in(rows["code"], sent["code"].combine_chunks())
    owner = sent["customer_id"].cast(pa.string()).take(place)
    price = rows["full_price"].cast(pa.float64(), safe=False)
    tests = (
        ("no event id", rows["event_id"].is_valid()),
        ("another campaign", pc.equal(rows["campaign_id"], campaign)),
        ("only purchases are applied", pc.equal(rows["kind"], "purchase")),
        ("no such code in this campaign", place.is_valid()),
        ("the code belongs to another customer", pc.equal(owner, rows["customer_id"])),
        (
            "outside the code's validity",
            pc.and_(
                pc.greater_equal(rows["ordered_at"], pa.scalar(start).cast(pa.timestamp("us"))),
                pc.less(rows["ordered_at"], pa.scalar(end).cast(pa.timestamp("us"))),
            ),
        ),
        (
            "full price is not a positive amount",  # of at least a penny: what is stored is whole pennies
            pc.and_(
                pc.greater_equal(pc.round(pc.multiply(price, MINOR_PER_UNIT)), 1), pc.less_equal(price, LARGEST_AMOUNT)
            ),
        ),
    )
    reasons = np.full(rows.num_rows, "", object)
    for reason, fine in reversed(tests):  # the first test that fails gives the reason
        reasons[~_flags(fine)] = reason
    return reasons


def _flags(flags: pa.ChunkedArray) -> Flags:
    return np.asarray(pc.fill_null(flags, False).to_numpy(), np.bool_)
