"""Work that is done later or elsewhere: jobs with leases, schedules, drafts of plans, stored replies, webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from disco.records.people import Actor
from disco.records.result import NotInJson, Result

LEASE = timedelta(seconds=60)
"""How long a job belongs to a worker that is not heard of."""
MOST_ATTEMPTS = 5
"""Workers that may be lost with a job before it counts as failed: it may be what ends them."""
MOST_RESULT_BYTES = 1_000_000
"""Of the JSON of a result in the database; a longer one becomes an artefact."""


class JobKind(StrEnum):
    """What a job does: the use case of that name on the command line."""

    PLAN = "plan"
    LEARN = "learn"
    TRAIN = "train"
    FRONTIER = "frontier"
    REPLAY = "replay"
    CHECK = "check"
    DOCTOR = "doctor"
    VALIDATE = "validate"
    LAUNCH = "launch"
    CONTEXTS = "contexts"
    PROPENSITIES = "propensities"
    WEBHOOK = "webhook"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is."""

    done: int
    """Steps that are over."""
    total: int | None = None
    """All steps; null where it is not known."""
    stage: str = ""
    """What the steps are, such as "epochs"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProblem:
    """Why a job failed, or why its last attempt did."""

    error: str
    """The class of the error, such as StateError."""
    message: str
    """The sentence that the command line prints."""
    problems: tuple[Mapping[str, Any], ...] = ()
    """Every problem of a table or a plan, where that is what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job(Result):
    """One piece of work, kept in the database until a worker has done it, and its result afterwards."""

    id: str
    """Names the job."""
    kind: JobKind
    """What it does: plan, learn, train, frontier, replay, check, doctor, validate, launch, contexts, propensities or
    webhook."""
    body: Mapping[str, Any]
    """What is asked for, as the request had it."""
    state: JobState
    """queued, running, done, failed or cancelled."""
    actor: Actor
    """Who asked for it."""
    created_at: datetime
    """When it was asked for."""
    due_at: datetime
    """It is not begun before; later than created_at where an attempt is to be repeated."""
    started_at: datetime | None = None
    """When the last attempt began."""
    finished_at: datetime | None = None
    """When it reached a final state."""
    attempts: int = 0
    """How often a worker has begun it."""
    worker: str | None = None
    """The worker that has it, or had it last."""
    lease_until: datetime | None = None
    """Another worker may take it over after this moment."""
    progress: JobProgress | None = None
    """How far it is; null before it says so."""
    result: Mapping[str, Any] | None = None
    """The JSON form of the use case's result. A list of jobs does not include it."""
    problem: JobProblem | None = None
    """What went wrong in the last attempt; null where nothing did."""
    cancel_requested: bool = False
    """Whether somebody has asked to stop it."""
    schedule_id: str | None = None
    """The schedule that asked for it."""
    number: NotInJson[int] = 0

    @property
    def is_final(self) -> bool:
        """Whether nothing about it will change."""
        return self.state.is_final


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobPage(Result):
    """A page of jobs, the newest first, without their results."""

    items: tuple[Job, ...]
    """The jobs."""
    next: str | None
    """The cursor of the next page; null: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobSchedule(Result):
    """A job that is asked for again and again, or once at a given time."""

    id: str
    """Names the schedule."""
    kind: JobKind
    """What its jobs do."""
    body: Mapping[str, Any]
    """What its jobs ask for."""
    rule: str
    """When, in words: "every monday at 06:00", "at 2027-03-08 09:00", "when codes have matured"."""
    time_zone: str
    """The zone of the rule's times."""
    next_at: datetime | None
    """The next time; null: there is none, or it depends on the campaigns."""
    paused: bool
    """Whether it asks for nothing at present."""
    actor: Actor
    """Who made it; its jobs are theirs."""
    created_at: datetime
    """When it was made."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Draft(Result):
    """A plan that is being written. Every change has the next revision, also after the draft was deleted."""

    name: str
    """Names the draft."""
    revision: int
    """Rises by one with every change."""
    plan: Mapping[str, Any]
    """The plan as far as it is written; it need not be complete."""
    changed_at: datetime
    """When it was changed last."""
    actor: Actor
    """Who changed it last."""


class Event(StrEnum):
    """What a webhook, or a person by e-mail, can be told."""

    PLAN_READY = "plan.ready"
    PLAN_WAITING = "plan.waiting"
    CAMPAIGN_LAUNCHED = "campaign.launched"
    CAMPAIGN_PAUSED = "campaign.paused"
    CHECK_FAILED = "check.failed"
    GUARDRAIL_CROSSED = "guardrail.crossed"
    BUDGET_USED = "budget.used"
    OUTCOMES_LATE = "outcomes.late"
    MODEL_LEARNED = "model.learned"
    RESULTS_READY = "results.ready"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Webhook(Result):
    """An address that is told about events."""

    id: str
    """Names the webhook."""
    url: str
    """Where deliveries are sent."""
    events: tuple[Event, ...]
    """What it is told about."""
    active: bool
    """Whether it is told at present."""
    created_at: datetime
    """When it was made."""
    actor: Actor
    """Who made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a write request, kept for repetitions with the same key. Without a status it is not known yet."""

    body_hash: str  # of the request
    begun_at: datetime
    status: int | None = None
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
