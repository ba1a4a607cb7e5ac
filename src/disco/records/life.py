"""What is kept of a campaign's life: its states, its plan with the hash of every input, batches, versions of belief."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from disco.records.plan import Plan


class State(StrEnum):
    """Where a campaign stands. A draft is a plan file that was not planned yet; nothing of it is kept."""

    PLANNED = "planned"
    LAUNCHED = "launched"
    PAUSED = "paused"  # no code for anybody who arrives now; outcomes of the codes that are out still count
    CLOSED = "closed"  # no codes and no outcomes any more


class Disposition(StrEnum):
    """What became of one row of a batch; every received row has exactly one."""

    APPLIED = "applied"  # in force
    DUPLICATE = "duplicate"  # an event that is in force already, received again
    LATE = "late"  # a purchase after its code had run out, or any outcome of a closed campaign
    UNMATCHED = "unmatched"  # no such code, customer or event in this campaign (a refund may precede its purchase)
    REJECTED = "rejected"  # cannot be read as an outcome, or contradicts what is in force


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A decided plan, immutable. `plan_id` is the hash of the plan and `inputs`; the decisions lie in a file beside it.

    inputs: name → SHA-256 of everything the decisions depend on · summary: what `disco plan` showed, as JSON.
    """

    plan_id: str
    plan: Plan
    inputs: Mapping[str, str]
    summary: str
    planned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A launched campaign. `network` names the context network of its contexts, `version` the belief that decided it
    (None: no belief was needed), `solution` the prices and certificate of the solve as JSON."""

    campaign: str
    plan_id: str
    plan: Plan
    state: State
    integer_ids: bool
    context_size: int
    network: str
    version: int | None
    solution: str
    launched_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One ingested file. `content_hash` is of its rows in their order; `reverted_at` is None while it is in force."""

    batch_id: str
    campaign: str
    source: str
    content_hash: str
    received_at: datetime
    reverted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of belief: a cache of prior and evidence, and what it was made of. Numbers rise from 1 per model."""

    model: str
    number: int
    basket: bytes  # a model file
    engagement: str  # JSON
    network: str
    campaigns: Mapping[str, str]  # campaign → hash of the evidence and engagement counts that went in
    made_at: datetime
