"""Small records for tests of stores: a plan, a campaign, decisions, outcomes."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from disco.records.kept import OUTCOMES
from disco.records.life import BatchRecord, CampaignRecord, PlanRecord, State, VersionRecord
from disco.records.plan import Plan, read_plan
from disco.records.ports import Shelves

MOMENT = datetime(2027, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
NETWORK = "network-a"


def plan(campaign: str = "spring", *, start: str = "2027-03-08") -> Plan:
    return read_plan(
        {
            "campaign": campaign,
            "customers": {"as_of": "2027-03-01"},
            "depths": {"0.1": {"at_most": 40}, "0.25": {"at_most": "40%"}},
            "objective": {"revenue_weight": 3},
            "valid": {"from": start, "days": 14},
        }
    )


def plan_record(campaign: str = "spring", *, plan_id: str = "", start: str = "2027-03-08") -> PlanRecord:
    return PlanRecord(
        plan_id=plan_id or f"plan-of-{campaign}",
        plan=plan(campaign, start=start),
        inputs={"customers": "aa", "seed": "7"},
        summary='{"gap": 0.0}',
        planned_at=MOMENT,
    )


def add_campaign(
    shelves: Shelves, campaign: str = "spring", *, start: str = "2027-03-08", integer_ids: bool = False
) -> CampaignRecord:
    """A launched campaign without decisions."""
    shelves.add_plan(plan_record(campaign, start=start))
    record = CampaignRecord(
        campaign=campaign,
        plan_id=f"plan-of-{campaign}",
        plan=plan(campaign, start=start),
        state=State.LAUNCHED,
        integer_ids=integer_ids,
        context_size=3,
        network=NETWORK,
        version=None,
        solution="{}",
        launched_at=MOMENT,
    )
    shelves.add_campaign(record)
    return record


def decisions(customers: list[object], *, codes: list[str | None] | None = None, **columns: object) -> pa.Table:
    """One row per customer; without `codes` each has a code made of its id."""
    codes = [f"CODE-{customer}" for customer in customers] if codes is None else codes
    standard = {
        "customer_id": pa.array(customers),
        "arm": ["test"] * len(customers),
        "depth": pa.array([None if code is None else 0.1 for code in codes], pa.float64()),
        "code": pa.array(codes, pa.string()),
        "value": np.linspace(0.0, 1.0, len(customers)),
        "known": [True] * len(customers),
    }
    return pa.table({**standard, **columns})


def batch(batch_id: str, campaign: str = "spring") -> BatchRecord:
    return BatchRecord(
        batch_id=batch_id,
        campaign=campaign,
        source="outcomes.parquet",
        content_hash=f"hash {batch_id}",
        received_at=MOMENT,
    )


def outcomes(batch_id: str, events: list[str | None], **columns: object) -> pa.Table:
    """Purchases that were applied, one per event; other columns as given."""
    rows = len(events)
    standard = {
        "batch_id": [batch_id] * rows,
        "row": range(rows),
        "event_id": events,
        "customer_id": [f"customer {event}" for event in events],
        "code": [f"CODE-{event}" for event in events],
        "kind": ["purchase"] * rows,
        "refers_to": [None] * rows,
        "ordered_at": [MOMENT] * rows,
        "full_price_minor": [1_999] * rows,
        "disposition": ["applied"] * rows,
        "reason": [None] * rows,
        "raw": [None] * rows,
    }
    values = {**standard, **columns}
    return pa.table([pa.array(values[field.name], field.type) for field in OUTCOMES], schema=OUTCOMES)


def version(number: int, *, model: str = "main", basket: bytes = b"\x00basket") -> VersionRecord:
    return VersionRecord(
        model=model,
        number=number,
        basket=basket,
        engagement='{"rates": []}',
        network=NETWORK,
        campaigns={"spring": "bb"},
        made_at=MOMENT,
    )
