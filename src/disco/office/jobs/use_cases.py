"""Jobs: ask for work, look at it, cancel it; and what a worker does with it: claim, beat, finish, fail, give back.

A job belongs to one worker at a time, by a lease that its heartbeats prolong. What a worker writes about a job is
conditional on worker and attempt, so a worker that was away for longer than its lease cannot write over its successor.
The use cases that jobs run are idempotent, so a job whose worker was lost is simply run again.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from disco.office.jobs.rows import JobRows
from disco.operations.outbox import add_job
from disco.records.errors import ConflictError, DiscoError, InputError, PlanError, StateError, TableError
from disco.records.jobs import (
    LEASE,
    MOST_ATTEMPTS,
    MOST_RESULT_BYTES,
    Job,
    JobKind,
    JobPage,
    JobProblem,
    JobProgress,
    JobState,
)
from disco.records.people import Actor
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import JOBS, Store

MOST_LISTED = 200
_MOST_MEETINGS = 50  # of a cancel with a heartbeat, which are a few milliseconds long, twice a second at most
OTHER_KINDS = frozenset(JobKind) - {JobKind.WEBHOOK}
"""What a worker does in its main thread; deliveries have a thread of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WorkDone(Result):
    """What a worker has done before it ended."""

    jobs: int
    """Jobs that it has run, whatever became of them."""


def once_for(actor: Actor, key: str) -> str:
    """What names the work that somebody asks for under a key of theirs; names and keys may hold any mark.

    >>> from disco.records.people import ActorKind
    >>> once_for(Actor(kind=ActorKind.KEY, name="crm"), "x:y") == once_for(Actor(kind=ActorKind.KEY, name="crm:x"), "y")
    False
    """
    return json.dumps([str(actor.kind), actor.name, key], ensure_ascii=False)


def submit(store: Store, kind: JobKind | str, body: Mapping[str, Any], *, clock: Clock, once: str | None = None) -> Job:
    """Ask for work. once: where a job was asked for under the same text before, that one is the answer."""
    known = _kind(kind)
    with store.writing(JOBS, action="submit job") as transaction:
        job = add_job(transaction, known, body, actor=store.actor, now=clock.now(), once=once)
        transaction.journal.note(job_id=job.id, kind=job.kind)
        return job


def get_job(store: Store, job_id: str) -> Job:
    """A job with its result."""
    with store.reading() as transaction:
        return JobRows(transaction).get(job_id)


def list_jobs(
    store: Store,
    *,
    after: str | None = None,
    limit: int = 50,
    state: JobState | str | None = None,
    kind: JobKind | str | None = None,
) -> JobPage:
    """A page of jobs, the newest first. after: the cursor `next` of the page before."""
    if not 1 <= limit <= MOST_LISTED:
        raise InputError("limit", found=limit, expected=f"from 1 to {MOST_LISTED}")
    if after is not None and not (after.isdecimal() and after.isascii() and len(after) <= 18):
        raise InputError("cursor", found=repr(after), expected="the `next` of the page before")
    wanted = None if state is None else _state(state)
    of_kind = None if kind is None else _kind(kind)
    with store.reading() as transaction:
        before = None if after is None else int(after)
        found = JobRows(transaction).page(before=before, limit=limit + 1, state=wanted, kind=of_kind)
    page = found[:limit]
    return JobPage(items=page, next=str(page[-1].number) if len(found) > limit else None)


def cancel(store: Store, job_id: str, *, clock: Clock) -> Job:
    """Cancel a queued job at once; ask a running one to stop. A job that has ended stays what it is.

    A running job may still be done: what it has committed by then is kept.
    """
    with store.reading() as transaction:
        job = JobRows(transaction).get(job_id)
    if job.is_final:
        return job
    for _ in range(_MOST_MEETINGS):
        with suppress(ConflictError), store.writing(JOBS, action="cancel job") as transaction:
            transaction.journal.note(job_id=job.id, kind=job.kind)
            return JobRows(transaction).request_cancel(job.id, at=clock.now())
    raise StateError(f"Job {job.id} changes too fast to be cancelled", fix="Try again.")


# ---- what workers do ----


def claim(
    store: Store,
    *,
    worker: str,
    clock: Clock,
    lease: timedelta = LEASE,
    kinds: Collection[JobKind] = OTHER_KINDS,
    most_attempts: int = MOST_ATTEMPTS,
    not_of: Collection[str] = (),
) -> Job | None:
    """Take the oldest job that is due; None: there is none. worker: a name that no other process ever has.

    not_of: names of actors whose jobs are left for later.
    """
    now = clock.now()
    with store.reading() as transaction:  # most questions end here, and disturb nobody who writes
        if not JobRows(transaction).is_due(now=now, kinds=kinds, not_of=not_of):
            return None
    with store.bookkeeping() as transaction:
        return JobRows(transaction).claim(
            worker=worker, now=now, until=now + lease, kinds=kinds, most_attempts=most_attempts, not_of=not_of
        )


def beat(
    store: Store, job: Job, *, clock: Clock, lease: timedelta = LEASE, progress: JobProgress | None = None
) -> Job | None:
    """Prolong the lease, and say how far the job is; the job as it is now. None: it was lost to another worker."""
    with store.bookkeeping() as transaction:
        return JobRows(transaction).beat(job, until=clock.now() + lease, progress=progress)


def is_cancelled(store: Store, job: Job) -> bool:
    """Whether somebody has asked a running job to stop."""
    with store.reading() as transaction:
        return JobRows(transaction).get(job.id).cancel_requested


def finish(store: Store, job: Job, result: str, *, clock: Clock) -> bool:
    """Keep the result (JSON) of a job that is done; False, and nothing is kept, where it was lost to another worker."""
    if len(result.encode()) > MOST_RESULT_BYTES:  # an artefact is put where nobody removes unnamed ones meanwhile
        with store.writing(JOBS, action="keep result") as transaction:
            return JobRows(transaction).end(job, state=JobState.DONE, at=clock.now(), result=result)
    with store.bookkeeping() as transaction:
        return JobRows(transaction).end(job, state=JobState.DONE, at=clock.now(), result=result)


def fail(store: Store, job: Job, error: DiscoError, *, clock: Clock, retry_in: timedelta | None = None) -> bool:
    """Keep why a job failed. retry_in: it is tried again after this time. False where it was lost."""
    problem, now = problem_of(error), clock.now()
    with store.bookkeeping() as transaction:
        if retry_in is not None:
            return JobRows(transaction).give_back(job, due_at=now + retry_in, problem=problem)
        return JobRows(transaction).end(job, state=JobState.FAILED, at=now, problem=problem)


def stop(store: Store, job: Job, *, clock: Clock) -> bool:
    """The job was cancelled while it ran. False where it was lost."""
    with store.bookkeeping() as transaction:
        return JobRows(transaction).end(job, state=JobState.CANCELLED, at=clock.now())


def give_back(store: Store, job: Job, *, clock: Clock) -> bool:
    """Queue a job again whose worker has to end before it; the attempt does not count. False where it was lost."""
    with store.bookkeeping() as transaction:
        return JobRows(transaction).give_back(job, due_at=clock.now(), counted=False)


def problem_of(error: DiscoError) -> JobProblem:
    """An error as the command line prints it with `--json`."""
    problems = tuple(one.as_dict() for one in error.problems) if isinstance(error, TableError | PlanError) else ()
    return JobProblem(error=type(error).__name__, message=str(error), problems=problems)


def _kind(kind: JobKind | str) -> JobKind:
    try:
        return JobKind(kind)
    except ValueError:
        raise InputError("kind of job", found=repr(kind), expected=f"one of {', '.join(JobKind)}") from None


def _state(state: JobState | str) -> JobState:
    try:
        return JobState(state)
    except ValueError:
        raise InputError("state of jobs", found=repr(state), expected=f"one of {', '.join(JobState)}") from None
