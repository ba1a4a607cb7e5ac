"""Schedules with what each has asked for, and webhooks with their secrets."""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.jobs import Event, JobKind, JobSchedule, Webhook
from disco.records.people import Actor, ActorKind
from disco.store.schema import occurrences, schedules, webhooks
from disco.store.seals import changed, row_seal, sealed
from disco.store.session import Session, beginning_with


class SqlSchedules:
    """Schedules, and what each has asked for."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def add(self, schedule: JobSchedule) -> None:
        row = {
            "id": schedule.id,
            "kind": schedule.kind,
            "body": json.dumps(dict(schedule.body), allow_nan=False),
            "rule": schedule.rule,
            "time_zone": schedule.time_zone,
            "next_at": schedule.next_at,
            "paused": schedule.paused,
            "actor": schedule.actor.name,
            "actor_kind": schedule.actor.kind,
            "created_at": schedule.created_at,
        }
        self._connection.execute(schedules.insert(), sealed("schedule", row))

    def get(self, schedule_id: str) -> JobSchedule:
        """By its id, or by four or more characters of its beginning where these name a single one."""
        none = NotFoundError(f"There is no schedule {schedule_id}", fix="`disco schedule list` lists them.")
        every = sa.select(schedules)
        return _schedule(beginning_with(self._connection, schedules.c.id, schedule_id, rows=every, none=none))

    def all(self) -> tuple[JobSchedule, ...]:
        """In the order they were made."""
        rows = sa.select(schedules).order_by(schedules.c.created_at, schedules.c.id)
        return tuple(map(_schedule, self._connection.execute(rows)))

    def set_next(self, schedule_id: str, next_at: datetime | None) -> None:
        self._set(schedule_id, next_at=next_at)

    def set_paused(self, schedule_id: str, paused: bool, *, next_at: datetime | None) -> None:
        self._set(schedule_id, paused=paused, next_at=next_at)

    def remove(self, schedule_id: str) -> None:
        """With its occurrences; its jobs stay."""
        self._connection.execute(occurrences.delete().where(occurrences.c.schedule_id == schedule_id))
        self._connection.execute(schedules.delete().where(schedules.c.id == schedule_id))

    def occurred(self, schedule_id: str) -> frozenset[str]:
        """What it has asked for."""
        of = sa.select(occurrences.c.occurrence).where(occurrences.c.schedule_id == schedule_id)
        return frozenset(self._connection.execute(of).scalars())

    def add_occurrence(self, schedule_id: str, occurrence: str, *, job_id: str) -> None:
        """StateError where it is there already."""
        row = {"schedule_id": schedule_id, "occurrence": occurrence, "job_id": job_id}
        self._connection.execute(occurrences.insert(), row)

    def _set(self, schedule_id: str, **values: Any) -> None:
        _change(self._connection, "schedule", schedules, schedule_id, values)


def _schedule(row: sa.Row[Any]) -> JobSchedule:
    return JobSchedule(
        id=row.id,
        kind=JobKind(row.kind),
        body=json.loads(row.body),
        rule=row.rule,
        time_zone=row.time_zone,
        next_at=row.next_at,
        paused=bool(row.paused),
        actor=Actor(row.actor, ActorKind(row.actor_kind)),
        created_at=row.created_at,
    )


class SqlWebhooks:
    """Webhooks with their secrets."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def add(self, webhook: Webhook, *, secret: str) -> None:
        row = {
            "id": webhook.id,
            "url": webhook.url,
            "events": json.dumps(list(webhook.events)),
            "secret": secret,
            "active": webhook.active,
            "created_at": webhook.created_at,
            "actor": webhook.actor.name,
            "actor_kind": webhook.actor.kind,
        }
        self._connection.execute(webhooks.insert(), sealed("webhook", row))

    def get(self, webhook_id: str) -> Webhook:
        """By its id, or by four or more characters of its beginning where these name a single one."""
        return _webhook(self._row(webhook_id))

    def secret(self, webhook_id: str) -> str:
        row = self._row(webhook_id)
        _check("webhook", row)
        return str(row.secret)

    def all(self) -> tuple[Webhook, ...]:
        """In the order they were made."""
        rows = sa.select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id)
        return tuple(map(_webhook, self._connection.execute(rows)))

    def set_active(self, webhook_id: str, active: bool) -> None:
        _change(self._connection, "webhook", webhooks, webhook_id, {"active": active})

    def remove(self, webhook_id: str) -> None:
        self._connection.execute(webhooks.delete().where(webhooks.c.id == webhook_id))

    def _row(self, webhook_id: str) -> sa.Row[Any]:
        none = NotFoundError(f"There is no webhook {webhook_id}", fix="`GET /api/v1/webhooks` lists them.")
        return beginning_with(self._connection, webhooks.c.id, webhook_id, rows=sa.select(webhooks), none=none)


def _webhook(row: sa.Row[Any]) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        events=tuple(map(Event, json.loads(row.events))),
        active=bool(row.active),
        created_at=row.created_at,
        actor=Actor(row.actor, ActorKind(row.actor_kind)),
    )


def _check(kind: str, row: sa.Row[Any]) -> None:
    """Refuse to act by one that another program has changed, in somebody's name. It can still be listed and removed."""
    if row.seal != row_seal(kind, row._mapping):
        raise changed(f"The {kind} {row.id}")


def _change(connection: sa.Connection, kind: str, table: sa.Table, key: str, values: dict[str, Any]) -> None:
    for row in connection.execute(sa.select(table).where(table.c.id == key)):
        _check(kind, row)
        seal = row_seal(kind, {**row._mapping, **values})
        connection.execute(table.update().where(table.c.id == key).values(**values, seal=seal))
