"""`Idempotency-Key`: the same request again gets the same reply, and is not done twice.

The key belongs to its caller. A success is kept for 24 hours; a refusal is not, so that the request can be sent again
once what was wrong is corrected. Where the database is away when a request has been done, its reply is sent, and what
is kept about it is written as soon as the database is back. A reply that shows a secret is kept under lock: it can be
read only with the caller's own key or session, of which the database has nothing but a hash.
"""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from cryptography.fernet import Fernet, InvalidToken
from fastapi import Request, Response

from disco.records.errors import (
    ConflictError,
    InputError,
    ReplyConflictError,
    ReplyInProgressError,
    UnavailableError,
)
from disco.records.jobs import Reply
from disco.web.limits import busy
from disco.web.security import session_cookie

if TYPE_CHECKING:
    from disco.records.ports import Clock
    from disco.store import Store
    from disco.web.service import Service

HEADER = "idempotency-key"
_MOST_KEPT_BYTES = 4_000_000  # of a reply; what is larger is made again
_KEPT_HEADERS = ("content-type", "location", "etag", "hx-redirect", "hx-trigger", "content-security-policy")
_PASSING = (UnavailableError, ConflictError)
_AGAIN_S = 0.5  # between two tries to write what is kept, while the database is away
_MOST_KEY_CHARACTERS = 255
REPLIES_KEPT = timedelta(hours=24)
ANSWERED_WITHIN = timedelta(seconds=60)
"""A request without an answer after this time may be repeated: its server was probably lost. Where it was not, nothing
is done twice either, because launches, ingests, late decisions and jobs are idempotent by themselves."""
_later: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


async def answered_once(
    request: Request, body: bytes | str, answer: Callable[[], Awaitable[Response]], *, secret: bool = False
) -> Response:
    """The kept reply to this request, or a new one. body: its bytes, or a hash of them. secret: the reply shows one."""
    key = request.headers.get(HEADER)
    if key is None:
        return await answer()
    service: Service[Any] = request.app.state.service
    shop = service.shop().by(request.state.caller.actor)
    store, clock = shop.held_store, shop.clock
    assert store is not None  # the service's shop is held open
    # the revision that is changed is part of what is asked for
    revision = (request.headers["if-match"],) if "if-match" in request.headers else ()
    named = request_hash(request.method, request.url.path, request.url.query, body, *revision)
    try:
        reserved = await to_thread.run_sync(lambda: begin_reply(store, key, named, clock=clock), limiter=service.quick)
    except ConflictError:
        raise busy() from None
    if reserved.status is not None:
        again = {**(reserved.headers or {}), "idempotency-replayed": "true"}
        return Response(_unlocked(reserved.body or b"", request) if secret else reserved.body, reserved.status, again)
    kept = False
    try:
        response = await answer()
        body_of_reply = getattr(response, "body", None)  # a stream has none at hand, and is made again
        content = b"" if body_of_reply is None else bytes(body_of_reply)
        kept = body_of_reply is not None and 200 <= response.status_code < 300 and len(content) <= _MOST_KEPT_BYTES
        if kept:
            headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
            content = _lock(request).encrypt(content) if secret else content

            def keep() -> None:
                finish_reply(store, key, reserved, status=response.status_code, headers=headers, body=content)

            await _written(keep, service)
        return response
    finally:
        if not kept:
            await _written(lambda: drop_reply(store, key, reserved), service)


async def _written(write: Callable[[], None], service: "Service[Any]") -> None:
    """Write now, or later where the database is away: the request is done or refused, whatever becomes of this."""
    try:
        await to_thread.run_sync(write, limiter=service.quick)
    except _PASSING:
        task = asyncio.create_task(_written_later(write, service))
        _later.add(task)
        task.add_done_callback(_later.discard)


async def _written_later(write: Callable[[], None], service: "Service[Any]") -> None:
    """Try until the reservation is outdated anyway, or the server ends."""
    end = time.monotonic() + ANSWERED_WITHIN.total_seconds()
    while time.monotonic() < end and not service.stopping.is_set():
        await asyncio.sleep(_AGAIN_S)
        try:
            await to_thread.run_sync(write, limiter=service.quick)
        except _PASSING:
            continue
        return


def _lock(request: Request) -> Fernet:
    """Opens only for whoever has the key or the session of this request."""
    given = request.headers.get("authorization", "").partition(" ")[2].strip()
    known_by = given or request.cookies.get(session_cookie(request, request.app.state.service), "")
    return Fernet(urlsafe_b64encode(sha256(f"disco reply {known_by}".encode("utf-8", "surrogateescape")).digest()))


def _unlocked(content: bytes, request: Request) -> bytes:
    try:
        return _lock(request).decrypt(content)
    except InvalidToken:
        raise ReplyConflictError(
            "This Idempotency-Key was used with another key or session", fix="Use a new key for a new request."
        ) from None


# ---- what is kept ----


def request_hash(*parts: str | bytes) -> str:
    """Names a request: its method, its path and its body."""
    found = sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


def begin_reply(store: "Store", key: str, body_hash: str, *, clock: "Clock") -> Reply:
    """Before a request with a key is done: its kept reply (with a status), or a reservation to be finished or dropped.

    ReplyConflictError: the key was used for another request. ReplyInProgressError: the same request is being done.
    """
    if not (0 < len(key) <= _MOST_KEY_CHARACTERS and key.isascii() and key.isprintable()):
        expected = f"1 to {_MOST_KEY_CHARACTERS} printable ASCII characters"
        raise InputError("Idempotency-Key", found=f"{len(key):,} characters", expected=expected)
    now, actor = clock.now(), _name(store)
    reserved = Reply(body_hash=body_hash, begun_at=now)
    with store.bookkeeping() as transaction:
        there = transaction.replies.find(actor, key)
        outdated = there is not None and (
            there.begun_at < now - REPLIES_KEPT or (there.status is None and there.begun_at < now - ANSWERED_WITHIN)
        )
        if there is not None and not outdated:
            if there.body_hash != body_hash:
                raise ReplyConflictError(
                    "This Idempotency-Key was used for another request", fix="Use a new key for a new request."
                )
            if there.status is None:
                raise ReplyInProgressError(
                    "A request with this Idempotency-Key is in progress", fix="Repeat it in a few seconds."
                )
            return there
        if transaction.replies.begin(actor, key, reserved, instead_of=there):
            transaction.replies.remove(before=now - REPLIES_KEPT)
            return reserved
    raise ReplyInProgressError("A request with this Idempotency-Key is in progress", fix="Repeat it in a few seconds.")


def finish_reply(
    store: "Store", key: str, reserved: Reply, *, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Keep the answer to a request for repetitions of it."""
    with store.bookkeeping() as transaction:
        transaction.replies.finish(_name(store), key, replace(reserved, status=status, headers=headers, body=body))


def drop_reply(store: "Store", key: str, reserved: Reply) -> None:
    """The request came to nothing, and may be repeated with its key."""
    with store.bookkeeping() as transaction:
        transaction.replies.drop(_name(store), key, reserved)


def _name(store: "Store") -> str:
    """Who asks: a person and a key of the same name have keys of their own."""
    return f"{store.actor.kind}:{store.actor.name}"
