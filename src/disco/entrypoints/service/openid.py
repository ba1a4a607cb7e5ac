"""Signing in through an identity provider: the provider that the settings name, and the cookie of an attempt."""

import threading

from anyio import CapacityLimiter
from fastapi import Request, Response

from disco.adapters.config import OidcSettings
from disco.adapters.openid import OpenIdProvider
from disco.entrypoints.python import Shop
from disco.operations.openid import LONGEST_ATTEMPT, Attempt
from disco.operations.sign_in import NewSession, sign_in_external
from disco.records.errors import AuthenticationError, NotFoundError, RoleError
from disco.web.security import is_secure

CALLBACK = "/sign-in/oidc/callback"
_MOST_COOKIE_CHARACTERS = 100


class OpenIdDoor:
    """The provider of the settings, made anew when they change: it keeps what the provider publishes."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(4)  # a provider that is slow keeps nothing else waiting
        self._lock = threading.Lock()
        self._made: tuple[tuple[OidcSettings, str], OpenIdProvider] | None = None

    def authorization_url(self, shop: Shop, attempt: Attempt, *, origin: str) -> str:
        """Where the browser is sent. origin: under which it reaches us."""
        _, provider = self._provider(shop)
        return provider.authorization_url(attempt, redirect_uri=origin + CALLBACK)

    def session(
        self, shop: Shop, attempt: Attempt, *, code: str, state: str, issuer: str | None, error: str | None, origin: str
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
        admission = settings.admission
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

    def _provider(self, shop: Shop) -> tuple[OidcSettings, OpenIdProvider]:
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
