"""Jobs: one row each, taken by one conditional update, so that two workers never own one."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.jobs import MOST_RESULT_BYTES, Job, JobKind, JobProblem, JobProgress, JobState
from disco.records.people import Actor, ActorKind
from disco.store.schema import jobs
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
        row = {
            "id": job.id,
            "once": once,
            "kind": job.kind,
            "body": json.dumps(dict(job.body), allow_nan=False),
            "state": job.state,
            "actor": job.actor.name,
            "actor_kind": job.actor.kind,
            "created_at": job.created_at,
            "due_at": job.due_at,
            "attempts": job.attempts,
            "cancel_requested": job.cancel_requested,
            "schedule_id": job.schedule_id,
        }
        self._connection.execute(jobs.insert(), row)
        added = self._first(jobs.c.id == job.id)
        assert added is not None  # for the type checker: it was just written
        return added

    def get(self, job_id: str) -> Job:
        """By its id, or by four or more characters of its beginning where these name a single job."""
        none = NotFoundError(f"There is no job {job_id}", fix="`GET /api/v1/jobs` lists them.")
        row = beginning_with(self._connection, jobs.c.id, job_id, rows=sa.select(jobs), none=none)
        found = row._mapping
        result = found["result"]
        if found["result_artefact"] is not None:
            result = self._session.artefacts.get(found["result_artefact"])["json"][0].as_py()
        return _job(found, result=None if result is None else json.loads(result))

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
        return tuple(_job(row) for row in self._connection.execute(rows).mappings())

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
            found = _job(row)
            lost = found.state is JobState.RUNNING
            if lost and found.cancel_requested:
                self._set(found, state=JobState.CANCELLED, finished_at=now, lease_until=None)
            elif lost and found.attempts >= most_attempts:
                problem = JobProblem(
                    error="StateError",
                    message=f"The worker was lost {found.attempts} times while it ran this job. Read the logs of the "
                    "workers (there may be too little memory), and submit the job again.",
                )
                self._set(found, state=JobState.FAILED, finished_at=now, lease_until=None, problem=_text(problem))
            else:
                claimed = {"worker": worker, "lease_until": until, "attempts": found.attempts + 1, "started_at": now}
                self._set(found, **claimed, state=JobState.RUNNING, progress=None)
                return self._first(jobs.c.number == found.number)
        return None

    def beat(self, job: Job, *, until: datetime, progress: JobProgress | None = None) -> Job | None:
        """Prolong the lease; the job as it is now, without body and result. None: it is no longer this worker's."""
        values: dict[str, Any] = {"lease_until": until}
        if progress is not None:
            values["progress"] = json.dumps(asdict(progress))
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
            problem=None if problem is None else _text(problem),
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
            problem=None if problem is None else _text(problem),
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
        return None if row is None else _job(row)

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


def _text(problem: JobProblem) -> str:
    return json.dumps({**asdict(problem), "problems": [dict(one) for one in problem.problems]}, allow_nan=False)


def _job(row: sa.RowMapping, *, result: Mapping[str, Any] | None = None) -> Job:
    progress, problem = (None if row[name] is None else json.loads(row[name]) for name in ("progress", "problem"))
    return Job(
        id=row["id"],
        kind=JobKind(row["kind"]),
        body=json.loads(row["body"]),
        state=JobState(row["state"]),
        actor=Actor(row["actor"], ActorKind(row["actor_kind"])),
        created_at=row["created_at"],
        due_at=row["due_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        attempts=row["attempts"],
        worker=row["worker"],
        lease_until=row["lease_until"],
        progress=None if progress is None else JobProgress(**progress),
        result=result,
        problem=None if problem is None else JobProblem(**{**problem, "problems": tuple(problem["problems"])}),
        cancel_requested=bool(row["cancel_requested"]),
        schedule_id=row["schedule_id"],
        number=row["number"],
    )
