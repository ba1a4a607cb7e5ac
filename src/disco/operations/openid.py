"""Who an identity provider says somebody is (OpenID Connect): the attempt to sign in, and the role that claims give."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any

from disco.records.errors import RoleError, ServiceError
from disco.records.people import MOST_NAME_CHARACTERS, Role

LONGEST_ATTEMPT = timedelta(minutes=10)
_NAMES = ("preferred_username", "name", "email")  # claims by which a person is called, the best first
_MOST_VALUES = 1_000  # of the claim that gives the role


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to sign in, known to the browser that began it alone: everything is derived from a cookie.

    The provider sees `state` and `nonce`, from which the secret cannot be found, and `verifier` only from us.
    """

    secret: str = field(repr=False)
    """The time at which it began, and 256 random bits."""

    @classmethod
    def begin(cls, now: datetime) -> "Attempt":
        return cls(f"{int(now.timestamp())}.{token_urlsafe(32)}")

    @property
    def state(self) -> str:
        """Comes back with the browser, so that nobody can finish here what they began elsewhere."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Comes back in the signed token, so that a token of another attempt is refused."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Redeems the code (PKCE), so that a stolen code is worth nothing."""
        return self._derived("verifier")

    def refuse_other(self, state: str, *, now: datetime) -> None:
        """Refuse a state that is not of this attempt, and an attempt that is too old."""
        began = self.secret.partition(".")[0]
        known = began.isascii() and began.isdigit() and len(began) < 12
        age = now - datetime.fromtimestamp(int(began), UTC) if known else None
        fresh = age is not None and timedelta(minutes=-1) < age < LONGEST_ATTEMPT
        if not fresh or not hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace")):
            minutes = int(LONGEST_ATTEMPT.total_seconds() // 60)
            raise ServiceError(
                f"This sign-in was not begun in this browser, or more than {minutes} minutes ago",
                status=403,
                kind="sign-in",
                fix="Begin again at /sign-in.",
            )

    def _derived(self, purpose: str) -> str:
        key = hmac.new(self.secret.encode("utf-8", "replace"), f"disco openid {purpose}".encode(), sha256)
        return urlsafe_b64encode(key.digest()).rstrip(b"=").decode()


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
