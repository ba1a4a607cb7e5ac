"""Who may call: roles, keys and sessions, and what keeps other sites' pages out. Each route says its least role.

A caller has a key (`Authorization: Bearer KEY`) or, in a browser, the cookie of a session. A request that changes
something and comes with the cookie must carry the session's own token in a header, which no other site can read, and
must not come from another origin.
"""

import hmac
import socket
import time
from collections.abc import Callable, Collection
from functools import cache
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from fastapi import Request
from starlette.types import Scope

from disco.records.errors import AuthenticationError, DiscoError, RoleError, ServiceError
from disco.records.people import Caller, Role
from disco.web.limits import address_of, too_many

if TYPE_CHECKING:
    from disco.records.ports import Clock
    from disco.store import Store
    from disco.web.service import Service

    AnyService = Service[Any]

Needed = Role | Literal["public"]
PUBLIC: Literal["public"] = "public"
"""Neither key nor session: the service's own health, its documentation, and signing in."""
Recognise: TypeAlias = "Callable[[Store, str, Clock], Caller]"
"""Who calls with a key, or with the token of a session; AuthenticationError where that is nobody."""
CSRF_HEADER = "x-csrf-token"
CSRF_COOKIE = "disco_csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_MOST_KEY_CHARACTERS = 400
_SLOWED_S = 2.0  # the longest pause before a wrong password is answered

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}
"""Of every reply that does not say otherwise."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Of every page: nothing is loaded from elsewhere, and neither a script nor a style stands in the page itself."""


async def admitted(request: Request, service: "AnyService", *, needed: Needed) -> Caller | None:
    """Who calls, where they may; None for a public route. Otherwise 401, 403 or 429."""
    if needed == PUBLIC:
        return None
    given = request.headers.get("authorization", "")
    try:
        caller = service.callers.get(given)
        if caller is None:
            caller = await to_thread.run_sync(_caller, request, service, limiter=service.quick)
            service.callers.put(given, caller)
    except AuthenticationError:  # a right key is admitted, whoever else guesses from the same address
        if wait := service.failures.take(_address(request)):
            raise too_many(wait) from None
        raise
    admit(caller, service, request.scope, needed=needed)
    return caller


async def slowed(refused: DiscoError, request: Request, service: "AnyService") -> DiscoError:
    """What a wrong password is answered: as refused, or 429 after a pause where too many came from this address lately.

    Others share the address, so nobody is refused before their password was looked at. Each name has a growing pause
    of its own (`sign_in`).
    """
    if wait := service.failures.take(_address(request)):
        await anyio.sleep(min(wait, _SLOWED_S))
        return too_many(wait)
    return refused


def _address(request: Request) -> str:
    return address_of("" if request.client is None else request.client.host)


def admit(caller: Caller, service: "AnyService", scope: Scope, *, needed: Needed) -> None:
    """Let a known caller in: 429 for one who asks too often, 403 for one whose role does not allow it, 503 for
    everybody while too many requests are in progress. Until then a request takes no place of theirs."""
    if wait := service.buckets.take(f"{caller.actor.kind}:{caller.actor.name}"):
        raise too_many(wait)
    _refuse_below(caller, Role(needed))
    service.enter(scope)


def refuse_below(request: Request, needed: Role) -> None:
    """Refuse a caller of a lower role, for what only a part of a route's requests asks for."""
    _refuse_below(request.state.caller, needed)


def _refuse_below(caller: Caller, needed: Role) -> None:
    if not caller.role.allows(needed):
        fix = f"It needs the role {needed}; an administrator can give it."
        raise RoleError(f"The role {caller.role} may not do this", fix=fix)


class KnownCallers:
    """Callers whose key was found a moment ago, so that a thousand requests of one caller ask the database once.

    A key that is revoked here is forgotten at once (`clear`); one that is revoked elsewhere, a second later.
    """

    def __init__(self, *, seconds: float = 1.0, most: int = 1_000) -> None:
        self._seconds, self._most = seconds, most
        self._known: dict[bytes, tuple[float, Caller]] = {}

    def get(self, authorization: str) -> Caller | None:
        """The caller of this header; None: the database has to be asked."""
        found = self._known.get(_digest(authorization)) if authorization else None
        return None if found is None or found[0] < time.monotonic() else found[1]

    def put(self, authorization: str, caller: Caller) -> None:
        """Remember a caller who came with a key; one with a session is asked about each time."""
        if authorization:
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[_digest(authorization)] = (time.monotonic() + self._seconds, caller)

    def clear(self) -> None:
        self._known.clear()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


def _caller(request: Request, service: "AnyService") -> Caller:
    shop = service.shop()
    assert shop.held_store is not None
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, key = given.partition(" ")
        if scheme.lower() != "bearer" or not key.isascii() or len(key) > _MOST_KEY_CHARACTERS:
            key = ""
        return service.by_key(shop.held_store, key.strip(), shop.clock)
    token = request.cookies.get(session_cookie(request, service), "")
    if not token:
        raise AuthenticationError(
            "The request has neither a key nor a session",
            fix="Send `Authorization: Bearer KEY`; `disco keys create` makes a key.",
        )
    caller = service.by_session(shop.held_store, token[:_MOST_KEY_CHARACTERS], shop.clock)
    if request.method not in _SAFE:
        refuse_cross_site(request, service)
        if not hmac.compare_digest(csrf_token(token).encode(), request.headers.get(CSRF_HEADER, "").encode()):
            raise ServiceError(
                f"The header {CSRF_HEADER} is not the token of this session",
                status=403,
                kind="cross-site",
                fix=f"Send the value of the cookie {CSRF_COOKIE}.",
            )
    return caller


def csrf_token(session_token: str) -> str:
    """The token that a page of ours sends with its changes: whoever lacks the session cannot make it."""
    return hmac.new(session_token.encode(), b"disco csrf", sha256).hexdigest()


def refuse_cross_site(request: Request, service: "AnyService") -> None:
    """Refuse a request that a page of another origin has made."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if (origin is not None and origin != own_origin(request, service)) or site not in (None, "same-origin", "none"):
        raise ServiceError(
            "The request was made by a page of another site",
            status=403,
            kind="cross-site",
            fix="Use this service's own.",
        )


def own_origin(request: Request, service: "AnyService") -> str:
    """Scheme, host and port under which this service is reached."""
    public = service.settings.service.public_url
    if public is not None:
        parts = urlsplit(public)
        return f"{parts.scheme}://{parts.netloc}"
    return f"{request.url.scheme}://{request.url.netloc}"


def is_secure(request: Request, service: "AnyService") -> bool:
    """Whether the browser reaches us through TLS."""
    return own_origin(request, service).startswith("https://")


def session_cookie(request: Request, service: "AnyService") -> str:
    """The name of the session's cookie; browsers accept the prefix only from a secure page of this very host."""
    return "__Host-disco_session" if is_secure(request, service) else "disco_session"


def refuse_host(host: str, *, known: Collection[str] | None) -> None:
    """Refuse a name that is not ours, by which a page of another site could reach a service on loopback.

    known: names without their ports; None: nobody has said which, so those by which no other site can reach us: any
    address, which such a page cannot choose, and the name of this machine.
    """
    name = (host.rsplit(":", 1)[0] if not host.endswith("]") else host).lower()
    if name in _LOOPBACK or (name in known if known is not None else _is_address(name) or name in own_names()):
        return
    raise ServiceError(
        "The service does not answer under the name of the header Host",
        status=400,
        kind="host",
        found=name[:100] or "none",
        expected="a name that service.hosts or service.public_url in disco.yaml lists",
    )


@cache
def own_names() -> tuple[str, ...]:
    """What this machine calls itself."""
    return tuple(dict.fromkeys(name.lower() for name in (socket.gethostname(), socket.getfqdn())))


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ip_address(host.strip("[]")).is_loopback
