"""Work that is done later or elsewhere, and what is kept between requests.

Jobs are one row each, taken by one conditional update, so that two workers never own one. Schedules know what each has
asked for, webhooks have their secrets. Drafts of plans are one row per name, replies to write requests one row per
caller and key.
"""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from disco.records.errors import NotFoundError, StateError
from disco.records.jobs import (
    MOST_RESULT_BYTES,
    Draft,
    Job,
    JobKind,
    JobProblem,
    JobProgress,
    JobSchedule,
    JobState,
    Reply,
    Webhook,
)
from disco.store.database import add_rows, change, update_of
from disco.store.rows import as_json, from_row, to_row
from disco.store.schema import drafts, jobs, occurrences, replies, schedules, webhooks
from disco.store.session import Session, beginning_with

_LISTED = [column for column in jobs.c if column.name not in ("result", "result_artefact", "once")]
_QUEUED, _RUNNING = jobs.c.state == JobState.QUEUED, jobs.c.state == JobState.RUNNING


class SqlJobs:
    """Jobs. Who holds one is named in it: changes by a worker happen only where worker and attempt are still those."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, job: Job, *, once: str | None = None) -> Job:
        """Keep a job; the one that is there already where one was added with the same `once`."""
        if once is not None and (there := self._first(jobs.c.once == once)) is not None:
            return there
        row = {name: cell for name, cell in to_row(job).items() if name != "number"}
        add_rows(self._connection, jobs, [{**row, "once": once}])
        added = self._first(jobs.c.id == job.id)
        assert added is not None  # for the type checker: it was just written
        return added

    def get(self, job_id: str) -> Job:
        """By its id, or by four or more characters of its beginning where these name a single job."""
        none = NotFoundError(f"There is no job {job_id}", fix="`GET /api/v1/jobs` lists them.")
        row = beginning_with(self._connection, jobs.c.id, job_id, rows=sa.select(jobs), none=none)
        result = row.result
        if row.result_artefact is not None:
            result = self._session.artefacts.get(row.result_artefact)["json"][0].as_py()
        return from_row(Job, {**row._mapping, "result": result})

    def page(
        self, *, before: int | None, limit: int, state: JobState | None = None, kind: JobKind | None = None
    ) -> tuple[Job, ...]:
        """The newest first, without results; before: only those with a smaller number."""
        rows = sa.select(*_LISTED).order_by(jobs.c.number.desc()).limit(limit)
        if before is not None:
            rows = rows.where(jobs.c.number < before)
        if state is not None:
            rows = rows.where(jobs.c.state == state)
        if kind is not None:
            rows = rows.where(jobs.c.kind == kind)
        return tuple(from_row(Job, row) for row in self._connection.execute(rows).mappings())

    def is_due(self, *, now: datetime, kinds: Collection[JobKind], not_of: Collection[str] = ()) -> bool:
        """Whether `claim` would have something to do."""
        due = sa.select(jobs.c.number).where(_claimable(now, kinds, not_of)).limit(1)
        return self._connection.execute(due).first() is not None

    def claim(
        self,
        *,
        worker: str,
        now: datetime,
        until: datetime,
        kinds: Collection[JobKind],
        most_attempts: int,
        not_of: Collection[str] = (),
    ) -> Job | None:
        # the oldest that no other transaction is just taking; SQLite has one writer and needs no such word
        """Take the oldest job that is due or whose worker was lost, in the lease of this worker until then.

        not_of: actors whose jobs are left.
        A lost job becomes cancelled where that was asked for, and failed where so many attempts were lost.
        """
        oldest = sa.select(*_LISTED).where(_claimable(now, kinds, not_of)).order_by(jobs.c.number).limit(1)
        while (
            row := self._connection.execute(oldest.with_for_update(skip_locked=True)).mappings().first()
        ) is not None:
            found = from_row(Job, row)
            lost = found.state is JobState.RUNNING
            if lost and found.cancel_requested:
                self._set(found, state=JobState.CANCELLED, finished_at=now, lease_until=None)
            elif lost and found.attempts >= most_attempts:
                problem = JobProblem(
                    error="StateError",
                    message=f"The worker was lost {found.attempts} times while it ran this job. Read the logs of the "
                    "workers (there may be too little memory), and submit the job again.",
                )
                self._set(found, state=JobState.FAILED, finished_at=now, lease_until=None, problem=as_json(problem))
            else:
                claimed = {"worker": worker, "lease_until": until, "attempts": found.attempts + 1, "started_at": now}
                self._set(found, **claimed, state=JobState.RUNNING, progress=None)
                return self._first(jobs.c.number == found.number)
        return None

    def beat(self, job: Job, *, until: datetime, progress: JobProgress | None = None) -> Job | None:
        """Prolong the lease; the job as it is now, without body and result. None: it is no longer this worker's."""
        values: dict[str, Any] = {"lease_until": until}
        if progress is not None:
            values["progress"] = as_json(progress)
        if not self._change(job, **values):
            return None
        return self._first(jobs.c.number == job.number)

    def end(
        self,
        job: Job,
        *,
        state: JobState,
        at: datetime,
        result: str | None = None,
        problem: JobProblem | None = None,
    ) -> bool:
        """Write the final state; False, and nothing written, where the job is no longer this worker's.

        result: JSON. A long one becomes an artefact, and its transaction must not be one of bookkeeping.
        """
        artefact = None
        if result is not None and len(result.encode()) > MOST_RESULT_BYTES:
            artefact, result = self._session.artefacts.put(pa.table({"json": [result]}), compressed=True), None
        return self._change(
            job,
            state=state,
            finished_at=at,
            lease_until=None,
            result=result,
            result_artefact=artefact,
            problem=None if problem is None else as_json(problem),
        )

    def give_back(self, job: Job, *, due_at: datetime, problem: JobProblem | None = None, counted: bool = True) -> bool:
        """Queue the job again; counted: whether the attempt counts. False where it is no longer this worker's."""
        return self._change(
            job,
            state=JobState.QUEUED,
            due_at=due_at,
            lease_until=None,
            attempts=job.attempts - (not counted),
            progress=None,
            problem=None if problem is None else as_json(problem),
        )

    def request_cancel(self, job_id: str, *, at: datetime) -> Job:
        """A queued job is cancelled at once, a running one is asked to stop, others stay what they are."""
        job = self.get(job_id)
        if not job.is_final:
            this = jobs.c.number == job.number
            ended = {"state": JobState.CANCELLED, "finished_at": at, "cancel_requested": True}
            if not self._connection.execute(jobs.update().where(this, _QUEUED).values(ended)).rowcount:
                self._connection.execute(jobs.update().where(this, _RUNNING).values(cancel_requested=True))
        return self.get(job.id)

    def remove_ended(self, before: datetime) -> int:
        """Remove jobs that reached a final state before a moment; how many."""
        return int(self._connection.execute(jobs.delete().where(jobs.c.finished_at < before)).rowcount)

    def drop_results(self) -> int:
        """Empty results and problems of all jobs that have ended: they may quote rows of tables. How many had one."""
        said = sa.or_(*(jobs.c[name].is_not(None) for name in ("result", "result_artefact", "problem")))
        nothing = dict.fromkeys(("result", "result_artefact", "problem"))
        return int(self._connection.execute(jobs.update().where(said).values(nothing)).rowcount)

    def _first(self, condition: sa.ColumnElement[bool]) -> Job | None:
        row = self._connection.execute(sa.select(*_LISTED).where(condition)).mappings().one_or_none()
        return None if row is None else from_row(Job, row)

    def _set(self, job: Job, **values: Any) -> None:
        self._connection.execute(jobs.update().where(jobs.c.number == job.number).values(values))

    def _change(self, job: Job, **values: Any) -> bool:
        """Change a job that is still this worker's, in this attempt; whether it is."""
        ours = sa.and_(
            jobs.c.number == job.number, _RUNNING, jobs.c.worker == job.worker, jobs.c.attempts == job.attempts
        )
        return bool(self._connection.execute(jobs.update().where(ours).values(values)).rowcount)


def _claimable(now: datetime, kinds: Collection[JobKind], not_of: Collection[str]) -> sa.ColumnElement[bool]:
    due = sa.and_(_QUEUED, jobs.c.due_at <= now)
    lost = sa.and_(_RUNNING, jobs.c.lease_until < now)
    return sa.and_(sa.or_(due, lost), jobs.c.kind.in_(sorted(kinds)), jobs.c.actor.not_in(sorted(not_of)))


class SqlSchedules:
    """Schedules, and what each has asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, schedule: JobSchedule) -> None:
        self._session.add(schedules, to_row(schedule))

    def get(self, schedule_id: str) -> JobSchedule:
        """By its id, or by four or more characters of its beginning where these name a single one."""
        none = NotFoundError(f"There is no schedule {schedule_id}", fix="`disco schedule list` lists them.")
        every = sa.select(schedules)
        return from_row(
            JobSchedule,
            beginning_with(self._connection, schedules.c.id, schedule_id, rows=every, none=none)._mapping,
        )

    def all(self) -> tuple[JobSchedule, ...]:
        """In the order they were made."""
        rows = sa.select(schedules).order_by(schedules.c.created_at, schedules.c.id)
        return tuple(from_row(JobSchedule, row) for row in self._connection.execute(rows).mappings())

    def set_next(self, schedule_id: str, next_at: datetime | None) -> None:
        self._set(schedule_id, next_at=next_at)

    def set_paused(self, schedule_id: str, paused: bool, *, next_at: datetime | None) -> None:
        self._set(schedule_id, paused=paused, next_at=next_at)

    def remove(self, schedule_id: str) -> None:
        """With its occurrences; its jobs stay."""
        self._connection.execute(occurrences.delete().where(occurrences.c.schedule_id == schedule_id))
        for row in self._session.raw(schedules, "id", schedule_id):
            self._session.remove(schedules, row)

    def occurred(self, schedule_id: str) -> frozenset[str]:
        """What it has asked for."""
        of = sa.select(occurrences.c.occurrence).where(occurrences.c.schedule_id == schedule_id)
        return frozenset(self._connection.execute(of).scalars())

    def add_occurrence(self, schedule_id: str, occurrence: str, *, job_id: str) -> None:
        """StateError where it is there already."""
        row = {"schedule_id": schedule_id, "occurrence": occurrence, "job_id": job_id}
        self._connection.execute(occurrences.insert(), row)

    def _set(self, schedule_id: str, **values: Any) -> None:
        for row in self._session.raw(schedules, "id", schedule_id):
            self._session.set(schedules, row, **values)


class SqlWebhooks:
    """Webhooks with their secrets."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, webhook: Webhook, *, secret: str) -> None:
        self._session.add(webhooks, {**to_row(webhook), "secret": secret})

    def get(self, webhook_id: str) -> Webhook:
        """By its id, or by four or more characters of its beginning where these name a single one."""
        return from_row(Webhook, self._row(webhook_id)._mapping)

    def secret(self, webhook_id: str) -> str:
        row = self._row(webhook_id)
        self._session.refuse_changed(webhooks, row._mapping)
        return str(row.secret)

    def all(self) -> tuple[Webhook, ...]:
        """In the order they were made."""
        rows = sa.select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id)
        return tuple(from_row(Webhook, row) for row in self._connection.execute(rows).mappings())

    def set_active(self, webhook_id: str, active: bool) -> None:
        for row in self._session.raw(webhooks, "id", webhook_id):
            self._session.set(webhooks, row, active=active)

    def remove(self, webhook_id: str) -> None:
        for row in self._session.raw(webhooks, "id", webhook_id):
            self._session.remove(webhooks, row)

    def _row(self, webhook_id: str) -> sa.Row[Any]:
        none = NotFoundError(f"There is no webhook {webhook_id}", fix="`GET /api/v1/webhooks` lists them.")
        return beginning_with(self._connection, webhooks.c.id, webhook_id, rows=sa.select(webhooks), none=none)


class SqlDrafts:
    """Plans that are being written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def find(self, name: str) -> Draft | None:
        rows = sa.select(drafts).where(drafts.c.name == name, drafts.c.plan.is_not(None))
        row = self._connection.execute(rows).mappings().one_or_none()
        return None if row is None else from_row(Draft, row)

    def revision(self, name: str) -> int:
        """The last revision under this name, also where it was deleted; 0: there was none."""
        last = self._connection.execute(sa.select(drafts.c.revision).where(drafts.c.name == name)).scalar()
        return int(last or 0)

    def all(self) -> tuple[Draft, ...]:
        """By name."""
        rows = self._connection.execute(sa.select(drafts).where(drafts.c.plan.is_not(None))).mappings()
        return tuple(sorted((from_row(Draft, row) for row in rows), key=lambda draft: draft.name))

    def put(self, draft: Draft) -> None:
        """Write a draft; StateError unless its revision is the one after the last."""
        self._write(draft, json.dumps(dict(draft.plan), allow_nan=False))

    def delete(self, draft: Draft) -> None:
        """Delete it, with this revision as its last."""
        self._write(draft, None)

    def _write(self, draft: Draft, plan: str | None) -> None:
        row = {**to_row(draft), "plan": plan}
        if draft.revision == 1:
            add_rows(self._connection, drafts, [row])
            return
        before = update_of(drafts, tuple(row), ("name", "revision"))
        if not change(self._connection, before, (*row.values(), draft.name, draft.revision - 1)):
            raise StateError(f"Revision {draft.revision} does not follow the last one of draft {draft.name}")


class SqlReplies:
    """Answers to write requests, by who asked and the key they gave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def find(self, actor: str, key: str) -> Reply | None:
        row = self._connection.execute(sa.select(replies).where(_of(actor, key))).mappings().one_or_none()
        return None if row is None else from_row(Reply, row)

    def begin(self, actor: str, key: str, reply: Reply, *, instead_of: Reply | None = None) -> bool:
        """Reserve the key; instead_of: a reply that is too old. False: somebody else was faster."""
        if instead_of is not None:
            same = sa.and_(_of(actor, key), replies.c.begun_at == instead_of.begun_at)
            if not self._connection.execute(replies.delete().where(same)).rowcount:
                return False
        row = {"actor": actor, "key": key, "body_hash": reply.body_hash, "begun_at": reply.begun_at}
        try:
            with self._connection.begin_nested():  # PostgreSQL waits for somebody faster and then refuses this row
                self._connection.execute(replies.insert(), row)
        except sa.exc.IntegrityError:
            return False
        return True

    def finish(self, actor: str, key: str, reply: Reply) -> bool:
        """Keep the answer; False where the reservation is no longer this one."""
        ours = sa.and_(_of(actor, key), replies.c.begun_at == reply.begun_at, replies.c.status.is_(None))
        kept = {"status": reply.status, "headers": json.dumps(dict(reply.headers or {})), "body": reply.body or b""}
        return bool(self._connection.execute(replies.update().where(ours).values(kept)).rowcount)

    def drop(self, actor: str, key: str, reply: Reply) -> None:
        """Free the key, unless the reservation is no longer this one."""
        ours = sa.and_(_of(actor, key), replies.c.begun_at == reply.begun_at)
        self._connection.execute(replies.delete().where(ours))

    def remove(self, before: datetime | None = None) -> int:
        """Remove what was begun before a moment, or everything; how many."""
        old = sa.true() if before is None else replies.c.begun_at < before
        return int(self._connection.execute(replies.delete().where(old)).rowcount)


def _of(actor: str, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(replies.c.actor == actor, replies.c.key == key)
