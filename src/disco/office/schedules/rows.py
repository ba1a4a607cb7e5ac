"""Schedules as rows of the database, and what each of them has asked for."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.jobs import JobSchedule
from disco.store import Transaction
from disco.store.rows import beginning_with, from_row, to_row
from disco.store.schema import occurrences, schedules


class ScheduleRows:
    """Schedules, and what each has asked for."""

    def __init__(self, transaction: Transaction) -> None:
        self._session = transaction.session
        self._connection = transaction.session.connection

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
