"""Webhooks: addresses, of systems or by e-mail of people, that are told when something has happened.

What is told is written in the transaction that does what it tells of, as one job per webhook: nothing is lost when a
program ends, and nothing is told of what was undone. A worker delivers the jobs, again and again with growing pauses.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from secrets import token_urlsafe

from disco.office.webhooks.delivery import read_url
from disco.office.webhooks.mail import MAIL, read_address
from disco.office.webhooks.signatures import DELIVERY_HEADER, SIGNATURE_HEADER, sign
from disco.operations.outbox import new_id
from disco.records.errors import DeliveryError, InputError
from disco.records.jobs import Event, Job, Webhook
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import JOBS, Store

BACKOFF_S = (1, 5, 30, 300, 1800)
"""Seconds before each further attempt; up to a fifth more, so that many do not come at once."""
MOST_DELIVERIES = len(BACKOFF_S) + 1
_MOST_WEBHOOKS = 100
_SECRET_BYTES = 32
# people and scanners know a secret by it
_SECRET_PREFIX = "whsec_"  # nosec B105

Send = Callable[[str, Mapping[str, str], bytes], int]
"""Posts a body with headers to a URL; the status of the answer. DeliveryError where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewWebhook(Result):
    """A webhook that was just made, with its secret, which is shown once."""

    webhook: Webhook
    """The webhook."""
    secret: str
    """By which the receiver checks that deliveries are ours; keep it, it is not shown again."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookList(Result):
    """The webhooks of a shop."""

    items: tuple[Webhook, ...]
    """In the order they were made."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemovedWebhook(Result):
    """A webhook that is gone; deliveries that wait for it will fail."""

    id: str
    """Its id."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Delivered(Result):
    """A delivery that was answered with a status of success."""

    webhook: str
    """The id of the webhook."""
    event: Event
    """What it was told."""
    status: int
    """The status of the answer."""


def add_webhook(store: Store, *, url: str, events: Iterable[Event | str], clock: Clock) -> NewWebhook:
    """Make a webhook. Whether its address is allowed is looked up whenever something is delivered."""
    (read_address if url.startswith(MAIL) else read_url)(url)
    wanted = _events(events)
    secret = _SECRET_PREFIX + token_urlsafe(_SECRET_BYTES)
    webhook = Webhook(id=new_id(), url=url, events=wanted, active=True, created_at=clock.now(), actor=store.actor)
    with store.writing(JOBS, action="add webhook") as transaction:
        if len(transaction.webhooks.all()) >= _MOST_WEBHOOKS:
            expected = f"at most {_MOST_WEBHOOKS}"
            raise InputError("webhooks", found="one more", expected=expected, fix="Remove one that is not needed.")
        transaction.webhooks.add(webhook, secret=secret)
        transaction.journal.note(webhook_id=webhook.id, events=list(webhook.events))  # a URL may hold a secret
    return NewWebhook(webhook=webhook, secret=secret)


def list_webhooks(store: Store) -> WebhookList:
    with store.reading() as transaction:
        return WebhookList(items=transaction.webhooks.all())


def remove_webhook(store: Store, webhook_id: str) -> RemovedWebhook:
    with store.writing(JOBS, action="remove webhook") as transaction:
        webhook = transaction.webhooks.get(webhook_id)
        transaction.webhooks.remove(webhook.id)
        transaction.journal.note(webhook_id=webhook.id)
    return RemovedWebhook(id=webhook.id)


def set_webhook_active(store: Store, webhook_id: str, *, active: bool) -> Webhook:
    """Let a webhook be told again, or not for now."""
    with store.writing(JOBS, action="change webhook") as transaction:
        webhook = transaction.webhooks.get(webhook_id)
        transaction.webhooks.set_active(webhook.id, active)
        transaction.journal.note(webhook_id=webhook.id, active=active)
        return transaction.webhooks.get(webhook.id)


def _events(events: Iterable[Event | str]) -> tuple[Event, ...]:
    found = []
    for event in events:
        try:
            found.append(Event(event))
        except ValueError:
            raise InputError("event of a webhook", found=repr(event), expected=f"one of {', '.join(Event)}") from None
    if not found:
        raise InputError("events of a webhook", found="none", expected=f"some of {', '.join(Event)}")
    return tuple(event for event in Event if event in found)


# ---- delivering ----


def deliver(store: Store, job: Job, *, send: Send, clock: Clock) -> Delivered:
    """Deliver what a job tells; DeliveryError where the receiver did not answer with success, InputError for good."""
    with store.reading() as transaction:
        webhook = transaction.webhooks.get(str(job.body["webhook"]))
        secret = transaction.webhooks.secret(webhook.id)
    if not webhook.active:
        raise InputError(f"webhook {webhook.id}", found="paused", expected="an active one")
    told = {"id": job.id, "event": job.body["event"], "at": job.body["at"], "data": job.body["data"]}
    body = json.dumps(told, allow_nan=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "disco-webhook",
        DELIVERY_HEADER: job.id,
        SIGNATURE_HEADER: sign(body, secret, at=clock.now()),
    }
    status = send(webhook.url, headers, body)
    if not 200 <= status < 300:
        more = ", and redirects are not followed" if 300 <= status < 400 else ""
        raise DeliveryError(f"The receiver answered with status {status}{more}")
    return Delivered(webhook=webhook.id, event=Event(job.body["event"]), status=status)


def pause_before(attempt: int, job_id: str) -> timedelta | None:
    """How long to wait after so many attempts; None: it was the last one.

    >>> [pause_before(attempt, "a").total_seconds() // 1 for attempt in (1, 2, 3)], pause_before(6, "a")
    ([1.0, 5.0, 32.0], None)
    """
    if attempt >= MOST_DELIVERIES:
        return None
    jitter = int.from_bytes(sha256(f"{job_id}:{attempt}".encode()).digest()[:4], "big") / 2**32
    return timedelta(seconds=BACKOFF_S[attempt - 1] * (1 + jitter / 5))
