"""What is kept of a campaign's life: its states, its plan with what was expected of it, batches, versions of belief."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from disco.records.maturity import matures_on
from disco.records.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.arrays import Matrix
    from disco.records.arrow_tables import TableRows
    from disco.records.plan_summary import PlanSummary, Solution


class State(StrEnum):
    """Where a campaign stands. A draft is a plan file that was not planned yet; nothing of it is kept."""

    PLANNED = "planned"
    LAUNCHED = "launched"
    PAUSED = "paused"  # no code for anybody who arrives now; outcomes of the codes that are out still count
    CLOSED = "closed"  # no codes and no outcomes any more


class Phase(StrEnum):
    """Where a launched campaign stands on a day, as people say it: its state and the dates of its codes."""

    SCHEDULED = "scheduled"  # launched, and its codes are not valid yet
    RUNNING = "running"
    PAUSED = "paused"  # its codes are valid, and customers who arrive now get none
    RECALLED = "recalled"  # codes that were not used became invalid before their time
    ENDED = "ended"  # all codes have expired; outcomes may still arrive
    CLOSED = "closed"


class Disposition(StrEnum):
    """What became of one row of a batch; every received row has exactly one."""

    APPLIED = "applied"  # in force
    DUPLICATE = "duplicate"  # an event that is in force already, received again
    EXPIRED = "expired"  # a purchase after its code had expired or was recalled, or any outcome of a closed campaign
    UNMATCHED = "unmatched"  # no such code, customer or event in this campaign (a refund may precede its purchase)
    REJECTED = "rejected"  # cannot be read as an outcome, or contradicts what is in force


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A decided plan, immutable. Its tables are artefacts (`PlanTables`), sealed by their hashes."""

    plan_id: str  # the hash of the plan and `inputs`
    plan: Plan
    inputs: Mapping[str, str]  # name → SHA-256 of everything the decisions depend on
    summary: "PlanSummary"
    planned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanTables:
    """The large parts of a plan, one row per customer in one order."""

    decisions: "pa.Table"  # the columns of `schema.PLANNED`
    contexts: "Matrix"  # (n, d1)
    features: "TableRows | None"  # retained so that another network can embed the customers again


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A launched campaign."""

    campaign: str
    plan_id: str
    plan: Plan
    state: State
    integer_ids: bool
    context_size: int
    network: str  # names the context network of its contexts
    version: int | None  # the belief that decided it; None: no belief was needed
    solution: "Solution"
    launched_at: datetime
    recalled_at: datetime | None = None
    """From this moment on no code of it is valid, by the clock of the shop; None: it was not recalled."""

    def phase(self, today: date) -> Phase:
        """Where it stands on this day; paused and over is over."""
        if self.state is State.CLOSED:
            return Phase.CLOSED
        if self.recalled_at is not None:
            return Phase.RECALLED
        if today >= self.plan.valid.end:
            return Phase.ENDED
        if self.state is State.PAUSED:
            return Phase.PAUSED
        return Phase.RUNNING if today >= self.plan.valid.start else Phase.SCHEDULED

    @property
    def matures_on(self) -> date:
        """The day on which the last purchase has been reported: grace days after the validity, or after the recall.

        An unused code counts as unused from then on, unless it was recalled.
        """
        end = self.plan.valid.end
        if self.recalled_at is not None:
            end = min(end, self.recalled_at.date() + timedelta(days=1))
        return matures_on(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One ingested file."""

    batch_id: str
    campaign: str
    source: str
    content_hash: str  # of its rows in their order
    received_at: datetime
    reverted_at: datetime | None = None  # None while it is in force


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerMove:
    """Everything one ingest or one revert changes in the ledger, to be applied at once."""

    batch: BatchRecord  # new, or reverted where `reverted_at` is set
    received: "pa.Table | None"  # the rows of a new batch, as `schema.OUTCOMES`
    changes: "pa.Table"  # batch_id, row, disposition, reason of earlier rows whose disposition changes


class Sealed(StrEnum):
    """What a seal is about, as a sentence names it."""

    PLAN = "plan"
    SECRET = "secret"  # nosec B105 - a name
    VERSION = "version"
    ACTIVE = "active version"
    CAMPAIGN = "campaign"
    STATE = "state, reserve or contexts of campaign"
    LATE = "late arrivals of campaign"
    EVIDENCE = "evidence of campaign"
    BATCH = "batch"
    OUTCOMES = "outcomes of batch"
    POOL = "codes of the pool of campaign"
    FORGOTTEN = "list of forgotten customers"
    PERSON = "person"
    KEY = "key"
    INVITATION = "invitation of"
    MAKER = "maker of plan"
    APPROVAL = "approval of plan"
    SETTING = "setting"
    SCHEDULE = "schedule"
    WEBHOOK = "webhook"
    OUTCOME_ROWS = "rows of outcomes"
    POOL_ROWS = "rows of pool_codes"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenSeal:
    """Something that is kept and is not what this program wrote."""

    what: Sealed
    name: str  # its id, where it has one
    found: str  # "changed by something other than disco", "missing", …

    @property
    def subject(self) -> str:
        return f"{self.what} {self.name}".strip()

    @property
    def words(self) -> str:
        """
        >>> BrokenSeal(what=Sealed.OUTCOMES, name="5d20", found="missing").words
        'outcomes of batch 5d20 are missing'
        """
        several = self.what in (Sealed.LATE, Sealed.OUTCOMES, Sealed.POOL, Sealed.OUTCOME_ROWS, Sealed.POOL_ROWS)
        return f"{self.subject} {'are' if several else 'is'} {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What was found of some customers in one campaign, and replaced."""

    customers: frozenset[str]  # those with a decision or an outcome
    decisions: int
    outcomes: int  # rows that were theirs
    raw: int  # rows set aside of others that mentioned them


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of belief: a cache of prior and evidence, and what it was made of. Numbers rise from 1."""

    number: int
    basket: bytes  # a model file
    engagement: str  # JSON
    network: str
    campaigns: Mapping[str, str]  # campaign → hash of the evidence and engagement counts that went in
    made_at: datetime
