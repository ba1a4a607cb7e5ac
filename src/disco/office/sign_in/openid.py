"""Signing in through an identity provider (OpenID Connect): there, back with a code, and the role that claims give."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import Query, Request, Response
from starlette.responses import RedirectResponse

from disco.adapters.config import OidcSettings
from disco.adapters.shop import ShopFolder
from disco.office.people.rows import MOST_NAME_CHARACTERS
from disco.office.sign_in.provider import LONGEST_ATTEMPT, Attempt, OpenIdProvider
from disco.office.sign_in.routes import set_cookies
from disco.office.sign_in.use_cases import NewSession, sign_in_external
from disco.records.errors import AuthenticationError, DiscoError, NotFoundError, RoleError, ServiceError
from disco.records.people import Role
from disco.web.route import Routes, problem_reply
from disco.web.security import PUBLIC, is_secure, own_origin, slowed

router = Routes(tags=["people"])
_THEN = "/campaigns"  # always: a page that the request could name would lead people anywhere
_Text = Annotated[str | None, Query(max_length=4000)]
CALLBACK = "/sign-in/oidc/callback"
_MOST_COOKIE_CHARACTERS = 100
_NAMES = ("preferred_username", "name", "email")  # claims by which a person is called, the best first
_MOST_VALUES = 1_000  # of the claim that gives the role


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalPerson:
    """Somebody whom the provider knows and who may come in."""

    subject: str
    name: str
    email: str | None
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who may come in, and as what, by the claims of a provider."""

    role_claim: str
    """The claim with groups or roles: its name, or a path such as realm_access.roles."""
    roles: Mapping[str, Role]
    """The role that each value of that claim gives; the highest counts."""
    default_role: Role | None
    """Of whoever has none of these values; None: they are refused."""
    email_domains: tuple[str, ...]
    """Only people with a confirmed address of these domains; empty: all."""

    @classmethod
    def of(cls, settings: OidcSettings) -> "Admission":
        """As disco.yaml says."""
        return cls(
            role_claim=settings.role_claim,
            roles=settings.roles,
            default_role=None if settings.default_role is None else Role(settings.default_role),
            email_domains=settings.email_domains,
        )

    def needs_more(self, claims: Mapping[str, Any]) -> bool:
        """Whether something is missing that the provider may tell when it is asked."""
        needed = claims.get("email") is None or not any(_text(claims.get(name)) for name in _NAMES[:2])
        return needed or (bool(self.roles) and _found(claims, self.role_claim) is None)

    def person(self, claims: Mapping[str, Any]) -> ExternalPerson:
        """The person of these claims; RoleError where they may not come in."""
        subject, email = str(claims["sub"]), _text(claims.get("email"))
        if self.email_domains:
            domain = email.rpartition("@")[2].lower() if email and claims.get("email_verified") is True else ""
            if domain not in self.email_domains:
                raise RoleError(
                    "The identity provider names no confirmed e-mail address of a domain that may sign in",
                    fix="Whoever runs the service sets oidc.email_domains in disco.yaml.",
                )
        role = self._role(claims)
        if role is None:
            raise RoleError(
                "Your account at the identity provider has no role at this service",
                fix="Ask an administrator for a group that oidc.roles in disco.yaml names.",
            )
        name = next((text for one in _NAMES if (text := _text(claims.get(one)))), subject)
        return ExternalPerson(subject=subject, name=name[:MOST_NAME_CHARACTERS], email=email or None, role=role)

    def _role(self, claims: Mapping[str, Any]) -> Role | None:
        found = _found(claims, self.role_claim)
        values = found if isinstance(found, list) else [found]
        given = [self.roles[one] for one in values[:_MOST_VALUES] if isinstance(one, str) and one in self.roles]
        return max(given, key=list(Role).index) if given else self.default_role


def _found(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, which may hold dots, or by the path to it."""
    if name in claims:
        return claims[name]
    part: Any = claims
    for step in name.split("."):
        part = part.get(step) if isinstance(part, Mapping) else None
    return part


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


# ---- there and back ----


class OpenIdSignIn:
    """The provider of the settings, made anew when they change: it keeps what the provider publishes."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(4)  # a provider that is slow keeps nothing else waiting
        self._lock = threading.Lock()
        self._made: tuple[tuple[OidcSettings, str], OpenIdProvider] | None = None

    def authorization_url(self, shop: ShopFolder, attempt: Attempt, *, origin: str) -> str:
        """Where the browser is sent. origin: under which it reaches us."""
        _, provider = self._provider(shop)
        return provider.authorization_url(attempt, redirect_uri=origin + CALLBACK)

    def session(
        self,
        shop: ShopFolder,
        attempt: Attempt,
        *,
        code: str,
        state: str,
        issuer: str | None,
        error: str | None,
        origin: str,
    ) -> NewSession:
        """A session of whoever comes back from the provider."""
        settings, provider = self._provider(shop)
        now = shop.clock.now()
        attempt.refuse_other(state, now=now)
        provider.refuse_other_issuer(issuer)
        if error is not None:
            if error == "access_denied":
                raise RoleError("The identity provider did not let you sign in here", fix="Ask an administrator.")
            raise AuthenticationError("The identity provider could not sign you in", fix="Sign in again.")
        claims, access = provider.redeem(code, attempt, redirect_uri=origin + CALLBACK, now=now)
        admission = Admission.of(settings)
        if admission.needs_more(claims):
            claims = {**provider.userinfo(access, subject=claims["sub"]), **claims}
        person = admission.person(claims)
        assert shop.held_store is not None
        return sign_in_external(
            shop.held_store,
            issuer=provider.issuer,
            subject=person.subject,
            name=person.name,
            email=person.email,
            role=person.role,
            clock=shop.clock,
        )

    def _provider(self, shop: ShopFolder) -> tuple[OidcSettings, OpenIdProvider]:
        settings = shop.settings.oidc
        if settings is None:
            raise NotFoundError(
                "This service has no identity provider", fix="Whoever runs it sets oidc in disco.yaml (docs/people.md)."
            )
        secret = settings.client_secret(shop.folder)
        with self._lock:
            if self._made is None or self._made[0] != (settings, secret):
                provider = OpenIdProvider(
                    settings.issuer, client_id=settings.client_id, client_secret=secret, scopes=settings.scopes
                )
                self._made = ((settings, secret), provider)
            return settings, self._made[1]


def attempt_cookie(secure: bool) -> str:
    """The name of the cookie; browsers accept the prefix only from a secure page of this very host."""
    return "__Host-disco_openid" if secure else "disco_openid"


def set_attempt(response: Response, request: Request, attempt: Attempt | None) -> None:
    """Keep an attempt in the browser that began it; None: it has ended. Lax: the provider's page leads back to us."""
    secure = is_secure(request, request.app.state.service)
    response.set_cookie(
        attempt_cookie(secure),
        "" if attempt is None else attempt.secret,
        max_age=0 if attempt is None else int(LONGEST_ATTEMPT.total_seconds()),
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )


def attempt_of(request: Request) -> Attempt:
    """The attempt that this browser began; one that fits nothing where it began none."""
    secure = is_secure(request, request.app.state.service)
    return Attempt(request.cookies.get(attempt_cookie(secure), "")[:_MOST_COOKIE_CHARACTERS])


# ---- routes ----


@router.get(
    "/sign-in/oidc",
    PUBLIC,
    summary="Sign in at the identity provider",
    status_code=303,
    response_class=RedirectResponse,
)
async def leave(request: Request) -> Response:
    """Leads the browser to the provider that `oidc` in disco.yaml names."""
    service = request.app.state.service

    def begun() -> tuple[Attempt, str]:
        shop = service.shop()
        attempt = Attempt.begin(shop.clock.now())
        return attempt, service.openid.authorization_url(shop, attempt, origin=own_origin(request, service))

    attempt, url = await to_thread.run_sync(begun, limiter=service.openid.limiter)
    response = RedirectResponse(url, 303)
    set_attempt(response, request, attempt)
    return response


@router.get(
    CALLBACK, PUBLIC, summary="Come back from the identity provider", status_code=303, response_class=RedirectResponse
)
async def come_back(
    request: Request,
    code: _Text = None,
    state: _Text = None,
    iss: _Text = None,
    error: _Text = None,
) -> Response:
    """Begins a session in a cookie, as signing in with a password does."""
    service = request.app.state.service

    def signed_in() -> NewSession:
        found: NewSession = service.openid.session(
            service.shop(),
            attempt_of(request),
            code=code or "",
            state=state or "",
            issuer=iss,
            error=error,
            origin=own_origin(request, service),
        )
        return found

    try:
        session = await to_thread.run_sync(signed_in, limiter=service.openid.limiter)
        response: Response = RedirectResponse(_THEN, 303)
        set_cookies(response, request, session)
    except DiscoError as refused:
        if isinstance(refused, AuthenticationError | RoleError | ServiceError):
            refused = await slowed(refused, request, service)
        response = problem_reply(request, refused)
    set_attempt(response, request, None)  # whatever came of it, an attempt is used once
    return response
