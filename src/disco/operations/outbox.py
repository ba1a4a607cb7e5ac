"""The outbox: work for later and events, written in the transaction of what they follow from.

Nothing is lost when a program ends, and nothing is told of what was undone. A worker takes both from the database.
"""

from collections.abc import Mapping
from datetime import datetime
from secrets import token_hex
from typing import Any

from disco.records.jobs import Event, Job, JobKind, JobState
from disco.records.people import Actor
from disco.store import Transaction

_ID_BYTES = 8


def new_id() -> str:
    """A random name."""
    return token_hex(_ID_BYTES)


def add_job(
    transaction: Transaction,
    kind: JobKind,
    body: Mapping[str, Any],
    *,
    actor: Actor,
    now: datetime,
    once: str | None = None,
    schedule_id: str | None = None,
) -> Job:
    """Ask for work within a transaction that does something else, too."""
    job = Job(
        id=new_id(),
        kind=kind,
        body=body,
        state=JobState.QUEUED,
        actor=actor,
        created_at=now,
        due_at=now,
        schedule_id=schedule_id,
    )
    return transaction.jobs.add(job, once=once)


def tell(
    transaction: Transaction,
    event: Event,
    data: Mapping[str, Any],
    *,
    actor: Actor,
    now: datetime,
    once: str | None = None,
) -> None:
    """Let every webhook that waits for this event be told, if this transaction is kept. data: no ids of customers.

    once: names what has happened, where it could be told again after a crash.
    """
    for webhook in transaction.webhooks.all():
        if webhook.active and event in webhook.events:
            body = {"webhook": webhook.id, "event": event, "at": now.isoformat(), "data": dict(data)}
            key = None if once is None else f"{once}:{webhook.id}"
            add_job(transaction, JobKind.WEBHOOK, body, actor=actor, now=now, once=key)
