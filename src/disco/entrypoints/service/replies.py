"""`Idempotency-Key`: the same request again gets the same reply, and is not done twice.

The key belongs to its caller. A success is kept for 24 hours; a refusal is not, so that the request can be sent again
once what was wrong is corrected. Where the database is away when a request has been done, its reply is sent, and what
is kept about it is written as soon as the database is back. A reply that shows a secret is kept under lock: it can be
read only with the caller's own key or session, of which the database has nothing but a hash.
"""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from anyio import to_thread
from cryptography.fernet import Fernet, InvalidToken
from fastapi import Request, Response

from disco.entrypoints.service.limits import busy
from disco.entrypoints.service.security import session_cookie
from disco.operations.drafts import ANSWERED_WITHIN, begin_reply, drop_reply, finish_reply, request_hash
from disco.records.errors import ConflictError, ReplyConflictError, UnavailableError

if TYPE_CHECKING:
    from disco.entrypoints.service.app import Service

HEADER = "idempotency-key"
_MOST_KEPT_BYTES = 4_000_000  # of a reply; what is larger is made again
_KEPT_HEADERS = ("content-type", "location", "etag", "hx-redirect", "hx-trigger", "content-security-policy")
_PASSING = (UnavailableError, ConflictError)
_AGAIN_S = 0.5  # between two tries to write what is kept, while the database is away
_later: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


async def answered_once(
    request: Request, body: bytes | str, answer: Callable[[], Awaitable[Response]], *, secret: bool = False
) -> Response:
    """The kept reply to this request, or a new one. body: its bytes, or a hash of them. secret: the reply shows one."""
    key = request.headers.get(HEADER)
    if key is None:
        return await answer()
    service: Service = request.app.state.service
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


async def _written(write: Callable[[], None], service: "Service") -> None:
    """Write now, or later where the database is away: the request is done or refused, whatever becomes of this."""
    try:
        await to_thread.run_sync(write, limiter=service.quick)
    except _PASSING:
        task = asyncio.create_task(_written_later(write, service))
        _later.add(task)
        task.add_done_callback(_later.discard)


async def _written_later(write: Callable[[], None], service: "Service") -> None:
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
