"""Signatures of webhook deliveries: made by the worker, checked by the receiver with the secret that both have.

The header is `Disco-Signature: t=SECONDS,v1=HEX`: the moment of sending in seconds since 1970 UTC, and the HMAC-SHA256
of `SECONDS.BODY` with the secret. The moment is signed with the body, so that an old delivery cannot be sent again
later.
"""

import hmac
import json
import re
from datetime import UTC, datetime
from typing import Any

from disco.records.errors import SignatureError

SIGNATURE_HEADER = "Disco-Signature"
DELIVERY_HEADER = "Disco-Delivery"
TOLERANCE_S = 300
_LEAST_SECRET = 32  # characters; those that are made have more
_HEADER = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def sign(body: bytes, secret: str, *, at: datetime) -> str:
    """The value of the signature header for a body that is sent at this moment."""
    seconds = int(at.timestamp())
    return f"t={seconds},v1={_mac(body, secret, seconds)}"


def verify_webhook(
    body: bytes, header: str | None, secret: str, *, now: datetime | None = None, tolerance: float = TOLERANCE_S
) -> dict[str, Any]:
    """The event of a delivery whose signature is right; SignatureError refuses any other.

    body: of the request, byte for byte as it was received. header: its `Disco-Signature`. secret: of the webhook.
    now: the time it is; default: the machine's. tolerance: seconds that sender's and receiver's clocks may differ,
    the way included; what is older may be a repetition by somebody who has listened.

    The event has `id`, `event`, `at` and `data`. A delivery may come twice, where its answer was lost: remember the ids
    of those that were processed for longer than the tolerance, and answer 200 to a known one without doing it again.

    >>> sent = datetime(2027, 3, 8, 9, tzinfo=UTC)
    >>> secret = "whsec_an-example-of-a-secret-of-a-webhook"
    >>> header = sign(b'{"id": "1"}', secret, at=sent)
    >>> verify_webhook(b'{"id": "1"}', header, secret, now=sent)
    {'id': '1'}
    >>> verify_webhook(b'{"id": "2"}', header, secret, now=sent)
    Traceback (most recent call last):
    ...
    disco.records.errors.SignatureError: The signature is not that of this body. ...
    """
    if len(secret) < _LEAST_SECRET:  # such as a setting of the receiver that is empty: anybody could sign with it
        given = f"{len(secret)} characters" if secret else "an empty text"
        expected = f"the secret of the webhook, which has at least {_LEAST_SECRET} characters"
        raise SignatureError("secret", found=given, expected=expected, fix="Check where the receiver reads it from.")
    found = _HEADER.fullmatch(header or "")
    if found is None:
        raise SignatureError(
            f"The header {SIGNATURE_HEADER} is missing or cannot be read", fix="Refuse the request with status 400."
        )
    seconds = int(found[1])
    if not hmac.compare_digest(_mac(body, secret, seconds), found[2]):
        fix = "Refuse the request with status 400; check that the body is read as bytes, and the secret."
        raise SignatureError("The signature is not that of this body", fix=fix)
    age = (datetime.now(UTC) if now is None else now).timestamp() - seconds
    if abs(age) > tolerance:
        words = (
            f"The delivery was signed {abs(age):.0f} s {'ago' if age > 0 else 'from now'}, so it may be a repetition"
        )
        raise SignatureError(words, fix="Refuse the request with status 400; check the clock of this machine.")
    event = json.loads(body)
    if not isinstance(event, dict):
        raise SignatureError("The body is no event", fix="Refuse the request with status 400.")
    return event


def _mac(body: bytes, secret: str, seconds: int) -> str:
    return hmac.digest(secret.encode(), f"{seconds}.".encode() + body, "sha256").hex()
