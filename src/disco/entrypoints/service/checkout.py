"""The plain case of `POST campaigns/{name}/late`, without what a framework does for any route: a shop's checkout waits.

It has one key in its header, one small JSON object as its body, and nothing else. Every other request to the route, and
every one that has something wrong with it, is answered by `routes.campaigns.late`; a test compares both. Limits, roles,
problems, logs and figures are the same, because both are within the same surroundings (`app`).
"""

import json
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from disco.records.errors import ServiceError
from disco.records.people import Role
from disco.web.limits import BoundedBody
from disco.web.reading import read_json
from disco.web.security import admit

if TYPE_CHECKING:
    from disco.entrypoints.service.app import ShopService

TEMPLATE = "/api/v1/campaigns/{name}/late"
_NEEDED = Role.PLANNER  # of the route, too
_BEFORE, _AFTER = TEMPLATE.split("{name}")
_MOST_NAME = 200  # characters
_MOST_BODY = 2_000  # bytes
_READ = (b"authorization", b"content-type", b"content-length")
_SAYS_MORE = (b"idempotency-key", b"cookie", b"transfer-encoding")


async def shortcut(scope: Scope, receive: BoundedBody, send: Send, *, service: "ShopService") -> Receive | None:
    """Answer a request that is a plain one; otherwise what its route reads in the place of `receive`."""
    campaign = campaign_of(scope)
    if campaign is None:
        return receive
    scope["disco.route"] = TEMPLATE
    return await answer(scope, receive, send, campaign=campaign, service=service)


def campaign_of(scope: Scope) -> str | None:
    """The campaign of a request that may be a plain one; None: it is for another route, or has more to say."""
    path: str = scope["path"]
    if not (path.endswith(_AFTER) and path.startswith(_BEFORE) and scope["method"] == "POST"):
        return None
    name = path[len(_BEFORE) : -len(_AFTER)]
    plain = 0 < len(name) <= _MOST_NAME and name.isascii() and name.isprintable() and "/" not in name
    return name if plain and not scope["query_string"] and not scope.get("root_path") else None


async def answer(
    scope: Scope, receive: BoundedBody, send: Send, *, campaign: str, service: "ShopService"
) -> Receive | None:
    """Answer a plain request; None. Otherwise what the route reads in the place of `receive`."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _SAYS_MORE or name in headers:
            return receive
        if name in _READ:
            headers[name] = value
    length, kind = headers.get(b"content-length", b""), headers.get(b"content-type", b"")
    if kind != b"application/json" or not length.isdigit() or len(length) > 4 or int(length) > _MOST_BODY:
        return receive
    caller = service.callers.get(headers.get(b"authorization", b"").decode("latin-1"))
    if caller is None:  # unknown, or not seen for a second
        return receive
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    customer = None if message.get("more_body") else _customer(message.get("body", b""))
    if customer is None:
        return _again(message, receive)
    scope.setdefault("state", {})["caller"] = caller
    admit(caller, service, scope, needed=_NEEDED)
    decided = await service.late.ask(campaign, customer, caller.actor)
    form = {"customer_id": decided.customer_id, "depth": decided.depth, "code": decided.code, "known": decided.known}
    content = json.dumps(form, ensure_ascii=False, allow_nan=False).encode()
    sent = [(b"content-length", str(len(content)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": sent})
    await send({"type": "http.response.body", "body": content})
    return None


def _customer(content: bytes) -> str | None:
    """The customer of a plain body."""
    try:
        body: Any = read_json(content)
    except ServiceError:
        return None
    if not isinstance(body, dict) or len(body) != 1:
        return None
    customer = body.get("customer_id")
    return str(customer) if type(customer) in (str, int) else None


def _again(message: Message, receive: Receive) -> Receive:
    """`receive`, with a message in front that was taken from it."""
    waiting = [message]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
