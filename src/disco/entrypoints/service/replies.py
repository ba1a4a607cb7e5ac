"""`Idempotency-Key`: the same request again gets the same reply, and is not done twice.

The key belongs to its caller. A success is kept for 24 hours; a refusal is not, so that the request can be sent again
once what was wrong is corrected.
"""

from collections.abc import Awaitable, Callable

from anyio import to_thread
from fastapi import Request, Response

from disco.entrypoints.service.limits import busy
from disco.operations.drafts import begin_reply, drop_reply, finish_reply, request_hash
from disco.records.errors import ConflictError

HEADER = "idempotency-key"
_MOST_KEPT_BYTES = 4_000_000  # of a reply; what is larger is made again
_KEPT_HEADERS = ("content-type", "location", "etag")


async def answered_once(request: Request, body: bytes | str, answer: Callable[[], Awaitable[Response]]) -> Response:
    """The kept reply to this request, or a new one. body: its bytes, or a hash of them."""
    key = request.headers.get(HEADER)
    if key is None:
        return await answer()
    service = request.app.state.service
    shop = service.shop().by(request.state.caller.actor)
    store, clock = shop.held_store, shop.clock
    named = request_hash(request.method, request.url.path, request.url.query, body)
    try:
        reserved = await to_thread.run_sync(lambda: begin_reply(store, key, named, clock=clock), limiter=service.quick)
    except ConflictError:
        raise busy() from None
    if reserved.status is not None:
        return Response(reserved.body, reserved.status, {**(reserved.headers or {}), "idempotency-replayed": "true"})
    kept = False
    try:
        response = await answer()
        content = bytes(getattr(response, "body", b""))
        kept = 200 <= response.status_code < 300 and len(content) <= _MOST_KEPT_BYTES
        if kept:
            headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}

            def keep() -> None:
                finish_reply(store, key, reserved, status=response.status_code, headers=headers, body=content)

            await to_thread.run_sync(keep, limiter=service.quick)
        return response
    finally:
        if not kept:
            await to_thread.run_sync(lambda: drop_reply(store, key, reserved), limiter=service.quick)
