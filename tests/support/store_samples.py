"""Small records for tests of stores: a plan, a campaign, decisions, outcomes."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from disco.records.campaign_records import CampaignRecord, PlanRecord, State
from disco.records.decisions import Arm
from disco.records.estimate import Estimate
from disco.records.plan import Plan, read_plan
from disco.records.plan_summary import ArmForecast, Calibration, MoneyForecast, PlanSummary, Solution
from disco.store import Transaction
from disco.store.beliefs import VersionRecord
from disco.store.ledger import BatchRecord, LedgerMove
from disco.store.plans import PlanTables
from disco.store.schema import OUTCOMES

MOMENT = datetime(2027, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
NETWORK = "network-a"
SOLUTION = Solution(
    depths=(0.1, 0.25),
    prices=(1 / 3, 0.0),
    budget_price=0.0,
    engagement=(0.1, 0.2),
    status="OPTIMAL",
    value=1e-300,
    bound=2.5,
    gap=0.0,
    policy="thompson",
    reserve=(3, None),
    reserve_budget=None,
)
SUMMARY = PlanSummary(
    customers=3,
    network=NETWORK,
    version=None,
    solution=SOLUTION,
    arms={
        Arm.DECIDED: ArmForecast(
            customers=2,
            codes={0.1: 2, 0.25: 0},
            money=MoneyForecast(
                **{name: Estimate(0.1 + 0.2, -1.0, 5.5, level=0.9) for name in ("revenue", "markdown", "reward")}
            ),
            correction=Calibration(log_factor=0.1, log_sd=0.2, campaigns=3),
        ),
        Arm.HOLDOUT: ArmForecast(customers=1, codes={}, money=None),
    },
    total=None,
    binding=("one more code of 10% is worth 0.33 of revenue",),
    warnings=("ключ 🔑",),
    sources={"tables": "ff"},
)
NO_CHANGES = pa.table({"batch_id": [], "row": [], "disposition": [], "reason": []})


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


def plan_record(
    campaign: str = "spring", *, plan_id: str = "", start: str = "2027-03-08", locale: str = ""
) -> PlanRecord:
    return PlanRecord(
        plan_id=plan_id or f"plan-of-{campaign}",
        plan=plan(campaign, start=start),
        inputs={"customers": "aa", "seed": "7", **({"locale": locale} if locale else {})},
        summary=SUMMARY,
        planned_at=MOMENT,
    )


def add_campaign(
    transaction: Transaction,
    campaign: str = "spring",
    *,
    start: str = "2027-03-08",
    locale: str = "",
    decided: pa.Table | None = None,
    contexts: np.ndarray | None = None,
    features: pa.Table | None = None,
    pooled: bool = False,
) -> CampaignRecord:
    """A launched campaign with these decisions, as `decisions` makes them; without any when None."""
    decided = decisions([]) if decided is None else decided
    contexts = np.zeros((decided.num_rows, 3)) if contexts is None else contexts
    tables = PlanTables(decisions=decided.drop_columns(["code"]), contexts=contexts, features=features)
    transaction.plans.add(plan_record(campaign, start=start, locale=locale), tables)
    record = CampaignRecord(
        campaign=campaign,
        plan_id=f"plan-of-{campaign}",
        plan=plan(campaign, start=start),
        state=State.LAUNCHED,
        integer_ids=pa.types.is_integer(decided["customer_id"].type),
        context_size=3,
        network=NETWORK,
        version=None,
        solution=SOLUTION,
        launched_at=MOMENT,
    )
    transaction.plans.launch(record)
    transaction.decisions.add_codes(campaign, decided["code"].combine_chunks(), pooled=pooled)
    return record


def add_late(transaction: Transaction, decided: pa.Table, campaign: str = "spring", *, pooled: bool = False) -> None:
    contexts = np.zeros((decided.num_rows, 3))
    transaction.decisions.add_late(campaign, decided, contexts=contexts, features=None, pooled=pooled)


def receive(
    transaction: Transaction, record: BatchRecord, rows: pa.Table | None = None, changes: pa.Table = NO_CHANGES
) -> None:
    """A new batch with these rows, or a reverted one, and what it changes elsewhere."""
    transaction.ledger.apply(LedgerMove(batch=record, received=rows, changes=changes))


def decisions(customers: list[object], *, codes: list[str | None] | None = None, **columns: object) -> pa.Table:
    """One row per customer; without `codes` each has a code made of its id."""
    codes = [f"CODE-{customer}" for customer in customers] if codes is None else codes
    standard = {
        "customer_id": pa.array(customers, None if customers else pa.string()),
        "arm": pa.array(["decided"] * len(customers), pa.string()),
        "depth": pa.array([None if code is None else 0.1 for code in codes], pa.float64()),
        "code": pa.array(codes, pa.string()),
        "value": np.linspace(0.0, 1.0, len(customers)),
        "known": pa.array([True] * len(customers), pa.bool_()),
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


def version(number: int, *, basket: bytes = b"\x00basket") -> VersionRecord:
    return VersionRecord(
        number=number,
        basket=basket,
        engagement='{"rates": []}',
        network=NETWORK,
        campaigns={"spring": "bb"},
        made_at=MOMENT,
    )
