"""Outcomes in, exactly once: each matches a decision of its campaign or is set aside with the reason."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.decisions import IngestCounts
from disco.records.errors import InputError
from disco.records.money import to_minor_units
from disco.records.ports import Store


def ingest(store: Store, campaign: str, outcomes: pa.Table) -> IngestCounts:
    """Apply a batch of outcomes to a campaign's ledger. received = applied + duplicate + rejected, always."""
    plan = store.plan(campaign)
    missing = {"event_id", "campaign_id", "customer_id", "code", "ordered_at", "full_price", "kind"} - set(
        outcomes.column_names
    )
    if missing:
        raise InputError("outcomes", found=f"no column {', '.join(sorted(missing))}", expected="the outcomes table")
    events = outcomes["event_id"].cast(pa.string()).to_pylist()
    known = store.known_events(events)
    seen: set[str] = set()
    fresh = np.zeros(len(events), bool)
    for row, event in enumerate(events):
        fresh[row] = event not in known and event not in seen
        seen.add(event)

    reasons = _reasons(
        outcomes, store.decisions(campaign), campaign=campaign, start=plan.valid.start, end=plan.valid.end
    )
    accepted = fresh & (reasons == "")
    refused = fresh & (reasons != "")
    rows = outcomes.filter(pa.array(accepted))
    store.append(
        campaign,
        pa.table(
            {
                "event_id": rows["event_id"].cast(pa.string()),
                "customer_id": rows["customer_id"],
                "code": rows["code"],
                "ordered_at": rows["ordered_at"],
                "full_price_minor": to_minor_units(rows["full_price"].to_numpy(), where="outcomes, column full_price"),
            }
        ),
        pa.table(
            {
                "event_id": outcomes["event_id"].cast(pa.string()).filter(pa.array(refused)),
                "reason": pa.array(reasons[refused], pa.string()),
            }
        ),
    )
    return IngestCounts(len(events), int(accepted.sum()), int((~fresh).sum()), int(refused.sum()))


def _reasons(outcomes: pa.Table, decisions: pa.Table, *, campaign: str, start: object, end: object) -> np.ndarray:
    """Why each outcome cannot be applied; "" where it can."""
    sent = decisions.filter(decisions["code"].is_valid())
    place = pc.index_in(outcomes["code"].combine_chunks(), sent["code"].combine_chunks())
    owner = sent["customer_id"].take(place)
    day = outcomes["ordered_at"].cast(pa.timestamp("us"))
    price = outcomes["full_price"].cast(pa.float64())
    in_time = pc.and_(
        pc.greater_equal(day, pa.scalar(start).cast(pa.timestamp("us"))),
        pc.less(day, pa.scalar(end).cast(pa.timestamp("us"))),
    )
    tests = (
        ("another campaign", pc.equal(outcomes["campaign_id"], campaign)),
        ("only purchases are applied", pc.equal(outcomes["kind"], "purchase")),
        ("no such code in this campaign", place.is_valid()),
        ("the code belongs to another customer", pc.equal(owner, outcomes["customer_id"])),
        ("outside the code's validity", in_time),
        ("full price is not a positive amount", pc.and_(pc.greater(price, 0), pc.is_finite(price))),
    )
    reasons = np.full(outcomes.num_rows, "", object)
    for reason, fine in reversed(tests):  # the first test that fails gives the reason
        flags = pc.fill_null(fine, False)
        reasons[
            ~np.asarray(flags.to_numpy(zero_copy_only=False) if isinstance(flags, pa.Array) else flags.to_numpy())
        ] = reason
    return reasons
