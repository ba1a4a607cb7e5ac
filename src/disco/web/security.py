"""Who may call what: one table of routes and roles, keys and sessions, and what keeps other sites' pages out.

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
_V, _P, _A, _ADMIN = Role.VIEWER, Role.PLANNER, Role.APPROVER, Role.ADMIN
_API = "/api/v1"

ROUTES: dict[tuple[str, str], Needed] = {
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/metrics"): PUBLIC,
    ("GET", "/openapi.json"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/{file}"): PUBLIC,
    ("GET", "/sign-in"): PUBLIC,
    ("POST", "/sign-in"): PUBLIC,
    ("GET", "/sign-in/oidc"): PUBLIC,
    ("GET", "/sign-in/oidc/callback"): PUBLIC,
    ("GET", "/invitation"): PUBLIC,
    ("POST", "/invitations/accept"): PUBLIC,
    ("POST", "/sign-out"): _V,
    ("GET", "/me"): _V,
    ("POST", "/me/password"): _V,
    ("GET", f"{_API}/campaigns"): _V,
    ("GET", f"{_API}/campaigns/{{name}}"): _V,
    ("GET", f"{_API}/campaigns/{{name}}/results"): _V,
    ("GET", f"{_API}/results"): _V,
    ("GET", f"{_API}/campaigns/{{name}}/customers/{{customer_id}}"): _P,
    ("GET", f"{_API}/campaigns/{{name}}/export"): _P,
    ("GET", f"{_API}/campaigns/{{name}}/late"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/late"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/outcomes"): _P,
    ("POST", f"{_API}/batches/{{batch_id}}/revert"): _P,
    ("GET", f"{_API}/batches/{{batch_id}}/quarantine"): _P,
    ("GET", f"{_API}/campaigns/{{name}}/report"): _V,
    ("GET", f"{_API}/report"): _V,
    ("POST", f"{_API}/campaigns/{{name}}/propensities"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/launch"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/pause"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/resume"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/close"): _P,
    ("POST", f"{_API}/campaigns/{{name}}/recall"): _P,
    ("GET", f"{_API}/drafts"): _P,
    ("GET", f"{_API}/drafts/{{name}}"): _P,
    ("PUT", f"{_API}/drafts/{{name}}"): _P,
    ("DELETE", f"{_API}/drafts/{{name}}"): _P,
    ("GET", f"{_API}/plans"): _V,
    ("POST", f"{_API}/plans"): _P,
    ("GET", f"{_API}/plans/{{plan_id}}"): _V,
    ("GET", f"{_API}/plans/{{plan_id}}/approval"): _V,
    ("POST", f"{_API}/plans/{{plan_id}}/approve"): _A,
    ("GET", f"{_API}/plans/{{plan_id}}/diff/{{other}}"): _V,
    ("GET", f"{_API}/plans/{{plan_id}}/copy"): _P,
    ("POST", f"{_API}/learn"): _P,
    ("GET", f"{_API}/beliefs"): _V,
    ("GET", f"{_API}/beliefs/{{version}}"): _V,
    ("GET", f"{_API}/demand"): _V,
    ("POST", f"{_API}/frontier"): _P,
    ("POST", f"{_API}/replay"): _P,
    ("POST", f"{_API}/power"): _V,
    ("POST", f"{_API}/ab"): _V,
    ("POST", f"{_API}/allocate"): _P,
    ("POST", f"{_API}/check"): _P,
    ("POST", f"{_API}/doctor"): _P,
    ("GET", f"{_API}/tables"): _V,
    ("GET", f"{_API}/tables/{{name}}"): _V,
    ("PUT", f"{_API}/tables/{{name}}"): _P,
    ("PUT", f"{_API}/tables/{{name}}/columns"): _P,
    ("POST", f"{_API}/validate"): _P,
    ("POST", f"{_API}/train"): _P,
    ("POST", f"{_API}/features"): _P,
    ("POST", f"{_API}/contexts"): _P,
    ("GET", f"{_API}/jobs"): _V,
    ("GET", f"{_API}/jobs/{{job_id}}"): _V,
    ("GET", f"{_API}/jobs/{{job_id}}/events"): _V,
    ("POST", f"{_API}/jobs/{{job_id}}/cancel"): _P,
    ("GET", f"{_API}/schedules"): _V,
    ("POST", f"{_API}/schedules"): _ADMIN,
    ("DELETE", f"{_API}/schedules/{{schedule_id}}"): _ADMIN,
    ("GET", f"{_API}/webhooks"): _ADMIN,
    ("POST", f"{_API}/webhooks"): _ADMIN,
    ("DELETE", f"{_API}/webhooks/{{webhook_id}}"): _ADMIN,
    ("GET", f"{_API}/audit"): _A,
    ("GET", f"{_API}/audit/verify"): _A,
    ("GET", f"{_API}/backup"): _ADMIN,
    ("POST", f"{_API}/forget"): _ADMIN,
    ("POST", f"{_API}/prune"): _ADMIN,
    ("GET", f"{_API}/keys"): _ADMIN,
    ("POST", f"{_API}/keys"): _ADMIN,
    ("DELETE", f"{_API}/keys/{{key_id}}"): _ADMIN,
    ("GET", f"{_API}/people"): _ADMIN,
    ("POST", f"{_API}/people"): _ADMIN,
    ("PATCH", f"{_API}/people/{{name}}"): _ADMIN,
    ("GET", f"{_API}/settings"): _P,
    ("PATCH", f"{_API}/settings"): _ADMIN,
    # the console
    ("GET", "/static/{file}"): PUBLIC,
    ("GET", "/demo/{secret}"): PUBLIC,
    ("GET", "/"): _V,
    ("GET", "/campaigns"): _V,
    # the console: the office
    ("GET", "/data"): _V,
    ("POST", "/data/check"): _P,
    ("GET", "/data/{table}"): _V,
    ("POST", "/data/{table}/columns"): _P,
    ("POST", "/data/{table}/place"): _P,
    ("GET", "/jobs"): _V,
    ("GET", "/jobs/{job_id}"): _V,
    ("POST", "/jobs/{job_id}/cancel"): _P,
    ("GET", "/audit"): _A,
    ("GET", "/audit/verify"): _A,
    ("GET", "/people"): _ADMIN,
    ("POST", "/people"): _ADMIN,
    ("POST", "/people/change"): _ADMIN,
    ("POST", "/keys"): _ADMIN,
    ("POST", "/keys/revoke"): _ADMIN,
    ("GET", "/settings"): _P,
    ("POST", "/settings"): _ADMIN,
    ("POST", "/webhooks"): _ADMIN,
    ("POST", "/webhooks/{item}/switch"): _ADMIN,
    ("POST", "/webhooks/{item}/remove"): _ADMIN,
    ("POST", "/schedules"): _ADMIN,
    ("POST", "/schedules/{item}/switch"): _ADMIN,
    ("POST", "/schedules/{item}/remove"): _ADMIN,
    ("GET", "/account"): _V,
    ("POST", "/account/password"): _V,
    # the console: planning
    ("GET", "/plan"): _V,
    ("POST", "/plan"): _P,
    ("POST", "/plan/{draft}/delete"): _P,
    ("GET", "/plan/{draft}"): _P,
    ("POST", "/plan/{draft}"): _P,
    ("GET", "/plan/{draft}/numbers"): _P,
    ("GET", "/plan/{draft}/numbers.json"): _P,
    ("GET", "/plan/{draft}/intervals"): _P,
    ("POST", "/plan/{draft}/save"): _P,
    ("GET", "/plan/{draft}/saving/{job_id}"): _P,
    ("GET", "/plan/{draft}/frontier"): _P,
    ("GET", "/plan/{draft}/frontier/drawn"): _P,
    ("POST", "/plan/{draft}/frontier"): _P,
    ("GET", "/plan/{draft}/launch"): _P,
    ("GET", "/plans/{plan_id}/launch"): _V,
    ("POST", "/plans/{plan_id}/launch"): _P,
    ("POST", "/plans/{plan_id}/launch/try"): _P,
    ("POST", "/plans/{plan_id}/approve"): _A,
    # the console: what happened and what was learned
    ("GET", "/campaigns/{name}"): _V,
    ("GET", "/campaigns/{name}/codes"): _P,
    ("GET", "/campaigns/{name}/recalled"): _P,
    ("GET", "/campaigns/{name}/decisions"): _V,
    ("GET", "/campaigns/{name}/customers"): _P,
    ("GET", "/campaigns/{name}/results"): _V,
    ("GET", "/campaigns/{name}/results/over-time"): _V,
    ("GET", "/demand"): _V,
    ("GET", "/learning"): _V,
    ("POST", "/learning/learn"): _P,
    ("POST", "/learning/activate"): _P,
    ("POST", "/campaigns/{name}/batches/{batch_id}/revert"): _P,
    ("POST", "/campaigns/{name}/close"): _P,
    ("POST", "/campaigns/{name}/recall"): _P,
    ("POST", "/campaigns/{name}/pause"): _P,
    ("POST", "/campaigns/{name}/resume"): _P,
}
"""The least role for every route, by method and template. A route that is not here cannot be served."""

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
