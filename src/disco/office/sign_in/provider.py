"""An identity provider (OpenID Connect): where it is asked, its keys, and what a sign-in there proves.

Authorization code flow with PKCE. The provider's document and keys are read when they are first needed and kept for an
hour; a token that names an unknown key makes the keys be read again.
"""

import hmac
import json
import re
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from disco.adapters.config import is_safe_url
from disco.adapters.http import Answer, NoAnswerError, ask
from disco.records.errors import AuthenticationError, IdentityProviderError, ServiceError

LONGEST_ATTEMPT = timedelta(minutes=10)
_DEADLINE_S = 10.0
_KEPT_S = 3600.0
_MOST_BYTES = 1_000_000
_LEEWAY_S = 60  # between the provider's clock and ours
_MOST_CODE_CHARACTERS = 4_000
_DISCOVERY = "/.well-known/openid-configuration"
# signatures by a key that only the provider has; those by a shared secret (HS256) and none at all are refused
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_AUTHENTICATION = ("client_secret_basic", "client_secret_post")


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


@dataclass(frozen=True, slots=True)
class _Metadata:
    """What the provider says about itself."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    authentication: str
    """How we prove who we are where codes are redeemed."""
    names_itself: bool
    """Whether its answers by way of the browser name it (RFC 9207)."""


class OpenIdProvider:
    """The provider at one issuer, as seen by one of its clients."""

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str,
        scopes: tuple[str, ...],
        deadline_s: float = _DEADLINE_S,
    ) -> None:
        self.issuer = issuer
        self._client_id, self._client_secret, self._scopes = client_id, client_secret, scopes
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._metadata: tuple[float, _Metadata] | None = None
        self._keys: tuple[float, dict[str, Any]] | None = None

    def authorization_url(self, attempt: Attempt, *, redirect_uri: str) -> str:
        """Where the browser is sent to sign in."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        return str(
            prepare_grant_uri(
                self._described().authorization,
                client_id=self._client_id,
                response_type="code",
                redirect_uri=redirect_uri,
                scope=list(self._scopes),
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
            )
        )

    def refuse_other_issuer(self, named: str | None) -> None:
        """Refuse an answer by way of the browser that another provider gave."""
        if named is None and not self._described().names_itself:
            return
        if named != self.issuer:
            raise AuthenticationError("The sign-in was answered by another identity provider", fix="Sign in again.")

    def redeem(self, code: str, attempt: Attempt, *, redirect_uri: str, now: datetime) -> tuple[dict[str, Any], str]:
        """The claims of the checked ID token, and an access token for `userinfo`.

        AuthenticationError where the code or the token is not valid.
        """
        from authlib.oauth2.auth import ClientAuth
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        about = self._described()
        if not 0 < len(code) <= _MOST_CODE_CHARACTERS:
            raise _no_sign_in("no code")
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=redirect_uri, code_verifier=attempt.verifier
        )
        client = ClientAuth(self._client_id, self._client_secret, about.authentication)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        url, headers, body = client.prepare("POST", about.token, headers, body)
        answer = self._ask("POST", url, headers=headers, body=body.encode())
        found = _object(answer)
        if answer.status != 200 or found is None:
            self._refuse_token(answer.status, found)
        assert found is not None
        token, access = found.get("id_token"), found.get("access_token")
        if not isinstance(token, str) or not isinstance(access, str):
            raise IdentityProviderError("The identity provider gave no ID token", fix="Check oidc.scopes.")
        return self._checked(token, access, attempt, now=now), access

    def userinfo(self, access_token: str, *, subject: str) -> dict[str, Any]:
        """What the provider tells about somebody when it is asked; nothing, where it cannot be asked."""
        url = self._described().userinfo
        if url is None:
            return {}
        headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
        answer = self._ask("GET", url, headers=headers)
        found = _object(answer)
        if answer.status != 200 or found is None:
            raise IdentityProviderError(f"The identity provider does not say who this is (status {answer.status})")
        if found.get("sub") != subject:
            raise _no_sign_in("claims of somebody else")
        return found

    # ---- the token ----

    def _checked(self, token: str, access_token: str, attempt: Attempt, *, now: datetime) -> dict[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            try:
                decoded = self._decoded(token)
            except InvalidKeyIdError:
                self._keys = None  # the provider has a new key
                decoded = self._decoded(token)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": self.issuer},
                    "aud": {"essential": True, "value": self._client_id},
                },
                {"nonce": attempt.nonce, "client_id": self._client_id, "access_token": access_token},
            )
            claims.validate(now=int(now.timestamp()), leeway=_LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _no_sign_in(_reason(error)) from error
        if not claims["sub"] or len(claims["sub"]) > 255:
            raise _no_sign_in("no subject")
        return dict(claims)

    def _decoded(self, token: str) -> Any:
        from joserfc import jwt
        from joserfc.jwk import KeySet
        from joserfc.jws import JWSRegistry

        registry = JWSRegistry(algorithms=list(_ALGORITHMS), strict_check_header=False)
        return jwt.decode(token, KeySet.import_key_set(self._published_keys()), registry=registry)  # type: ignore[arg-type]

    def _refuse_token(self, status: int, found: Mapping[str, Any] | None) -> None:
        error = str((found or {}).get("error", ""))
        if error == "invalid_grant":
            raise _no_sign_in("the code is unknown, has expired or was used")
        shown = error if re.fullmatch(r"[a-z_]{1,40}", error) else f"status {status}"
        raise IdentityProviderError(
            f"The identity provider refuses this service ({shown})",
            fix="Check oidc.client_id, the client secret and the redirect URI at the provider.",
        )

    # ---- what the provider publishes ----

    def _described(self) -> _Metadata:
        with self._lock:
            if self._metadata is None or self._metadata[0] < time.monotonic():
                found = self._published(self.issuer.rstrip("/") + _DISCOVERY)
                self._metadata = (time.monotonic() + _KEPT_S, self._read(found))
            return self._metadata[1]

    def _published_keys(self) -> dict[str, Any]:
        about = self._described()
        with self._lock:
            if self._keys is None or self._keys[0] < time.monotonic():
                found = self._published(about.keys)
                listed = found.get("keys")
                if not isinstance(listed, list):
                    raise IdentityProviderError("The identity provider publishes no keys")
                # keys of kinds that we do not know, and shared secrets, do not concern us
                usable = [one for one in listed if isinstance(one, dict) and one.get("kty") in ("RSA", "EC", "OKP")]
                self._keys = (time.monotonic() + _KEPT_S, {"keys": usable})
            return self._keys[1]

    def _published(self, url: str) -> dict[str, Any]:
        answer = self._ask("GET", url, headers={"Accept": "application/json"})
        found = _object(answer)
        if answer.status != 200 or found is None:
            raise IdentityProviderError(
                f"The identity provider does not publish what it has to (status {answer.status})",
                fix="Check oidc.issuer in disco.yaml.",
            )
        return found

    def _read(self, found: Mapping[str, Any]) -> _Metadata:
        if found.get("issuer") != self.issuer:
            raise IdentityProviderError(
                "The issuer of the identity provider",
                found=repr(found.get("issuer")),
                expected=repr(self.issuer),
                fix="Write oidc.issuer in disco.yaml exactly as the provider does.",
            )
        methods = found.get("token_endpoint_auth_methods_supported") or [_AUTHENTICATION[0]]
        usable = [one for one in _AUTHENTICATION if one in methods]
        if not usable:
            raise IdentityProviderError("The identity provider takes no client secret (client_secret_basic)")
        challenges = found.get("code_challenge_methods_supported")
        if isinstance(challenges, list) and "S256" not in challenges:
            raise IdentityProviderError("The identity provider does not know PKCE with S256")
        userinfo = found.get("userinfo_endpoint")
        return _Metadata(
            authorization=self._url(found, "authorization_endpoint"),
            token=self._url(found, "token_endpoint"),
            keys=self._url(found, "jwks_uri"),
            userinfo=None if userinfo is None else self._url(found, "userinfo_endpoint"),
            authentication=usable[0],
            names_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )

    def _url(self, found: Mapping[str, Any], name: str) -> str:
        url = found.get(name)
        if not isinstance(url, str) or not is_safe_url(url):
            raise IdentityProviderError(f"{name} of the identity provider", found=repr(url), expected="an https URL")
        return url

    def _ask(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        try:
            return ask(method, url, headers=headers, body=body, deadline_s=self._deadline_s, most_bytes=_MOST_BYTES)
        except NoAnswerError as error:
            raise IdentityProviderError(
                f"The identity provider at {urlsplit(self.issuer).hostname} does not answer ({error})",
                fix="Try again later; people with a password can still sign in.",
            ) from error


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _reason(error: Exception) -> str:
    """What is wrong with a token, without anything that stands in it."""
    from joserfc.errors import BadSignatureError, ClaimError, ExpiredTokenError

    if isinstance(error, ExpiredTokenError):
        return "it has expired"
    if isinstance(error, ClaimError):
        return f"its claim {error.claim} is wrong"
    return "its signature is wrong" if isinstance(error, BadSignatureError) else "it cannot be read"


def _no_sign_in(reason: str) -> AuthenticationError:
    what = f"The identity provider's answer does not prove who you are: {reason}"
    return AuthenticationError(what, fix="Sign in again.")
