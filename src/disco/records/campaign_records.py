"""What is kept of a campaign's life: its states, its plan with what was expected of it, batches, versions of belief."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from disco.records.maturity import matures_on
from disco.records.plan import Plan

if TYPE_CHECKING:
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
