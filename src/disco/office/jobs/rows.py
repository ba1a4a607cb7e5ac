"""Jobs as rows of the database: one each, taken by one conditional update, so that two workers never own one."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.jobs import MOST_RESULT_BYTES, Job, JobKind, JobProblem, JobProgress, JobState
from disco.store import Transaction
from disco.store.office import LISTED, find_job
from disco.store.rows import as_json, beginning_with, from_row
from disco.store.schema import jobs

_QUEUED, _RUNNING = jobs.c.state == JobState.QUEUED, jobs.c.state == JobState.RUNNING


class JobRows:
    """Jobs. Who holds one is named in it: changes by a worker happen only where worker and attempt are still those."""

    def __init__(self, transaction: Transaction) -> None:
        self._session = transaction.session
        self._connection = transaction.session.connection

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
        rows = sa.select(*LISTED).order_by(jobs.c.number.desc()).limit(limit)
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
        oldest = sa.select(*LISTED).where(_claimable(now, kinds, not_of)).order_by(jobs.c.number).limit(1)
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
                return find_job(self._connection, jobs.c.number == found.number)
        return None

    def beat(self, job: Job, *, until: datetime, progress: JobProgress | None = None) -> Job | None:
        """Prolong the lease; the job as it is now, without body and result. None: it is no longer this worker's."""
        values: dict[str, Any] = {"lease_until": until}
        if progress is not None:
            values["progress"] = as_json(progress)
        if not self._change(job, **values):
            return None
        return find_job(self._connection, jobs.c.number == job.number)

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
