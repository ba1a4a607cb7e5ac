"""Webhooks: addresses that are told when a plan is ready, a campaign is launched or paused, or a check has failed.

What is told is written in the transaction that does what it tells of, as one job per webhook: nothing is lost when a
program ends, and nothing is told of what was undone. A worker delivers the jobs, again and again with growing pauses.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from disco.operations.jobs import add_job, new_id
from disco.records.errors import DeliveryError, InputError
from disco.records.jobs import Event, Job, JobKind, Webhook
from disco.records.people import Actor
from disco.records.ports import Clock
from disco.records.result import Result
from disco.records.signatures import DELIVERY_HEADER, SIGNATURE_HEADER, sign
from disco.store import JOBS, Store, Transaction

BACKOFF_S = (1, 5, 30, 300, 1800)
"""Seconds before each further attempt; up to a fifth more, so that many do not come at once."""
MOST_DELIVERIES = len(BACKOFF_S) + 1
_MOST_URL_CHARACTERS = 2_000
_MOST_WEBHOOKS = 100
_SECRET_BYTES = 32
# people and scanners know a secret by it
_SECRET_PREFIX = "whsec_"  # nosec B105
_PORTS = {"http": 80, "https": 443}

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
    read_url(url)
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


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The parts of a URL that a delivery needs."""

    scheme: str
    host: str
    port: int
    target: str  # path and query

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(url: str) -> WebAddress:
    """The parts of a webhook's URL; InputError for any but plain http and https ones.

    >>> read_url("https://example.com:8443/hook?a=1")
    WebAddress(scheme='https', host='example.com', port=8443, target='/hook?a=1')
    """
    expected = "a URL such as https://example.com/disco"
    fix = None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
        if "@" in parts.netloc:
            fix = "Leave out the user name and the password; deliveries are signed."
        elif plain and parts.scheme in _PORTS and host and len(url) <= _MOST_URL_CHARACTERS and not parts.fragment:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return WebAddress(parts.scheme, host, port or _PORTS[parts.scheme], target)
    except ValueError:  # brackets or a port that are none
        pass
    raise InputError("URL of a webhook", found=repr(url.split("@")[-1]), expected=expected, fix=fix)


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


# ---- telling ----


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
