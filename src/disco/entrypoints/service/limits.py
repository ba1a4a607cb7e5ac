"""How much is taken at once: the size of bodies, requests in progress, and requests per caller."""

import threading
import time
from collections import OrderedDict

from starlette.types import Message, Receive, Scope

from disco.records.errors import ServiceError

_MOST_CALLERS = 10_000  # whose rate is remembered; the one seen longest ago goes first


class TokenBuckets:
    """Requests per second and caller: `rate` in the long run, `burst` at once."""

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller → tokens, when
        self._lock = threading.Lock()

    def take(self, caller: str) -> float:
        """Take a request's token; 0, or the seconds after which there would have been one."""
        now = time.monotonic()
        with self._lock:
            tokens = self._tokens(caller, now)
            allowed = tokens >= 1
            self._buckets.pop(caller, None)  # to the end of those who are remembered
            self._buckets[caller] = (tokens - 1 if allowed else tokens, now)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate

    def wait(self, caller: str) -> float:
        """The seconds until there is a token, which is not taken; 0: there is one."""
        if caller not in self._buckets:
            return 0.0
        with self._lock:
            return max(0.0, 1 - self._tokens(caller, time.monotonic())) / self._rate

    def _tokens(self, caller: str, now: float) -> float:
        tokens, then = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, tokens + (now - then) * self._rate)


class BoundedBody:
    """`receive` of an ASGI request, which refuses a body that is larger than its route allows.

    The route is known after the body was promised, so the limit is set later; until then the smallest one holds.
    """

    def __init__(self, scope: Scope, receive: Receive, *, most: int) -> None:
        self._receive, self._most, self._got = receive, most, 0
        self._promised = next((value for name, value in scope["headers"] if name == b"content-length"), b"")

    def allow(self, most: int) -> None:
        """The limit in bytes; refuses a body at once that promises to be larger."""
        self._most = most
        if self._promised.isdigit() and len(self._promised) < 20 and int(self._promised) > most:
            raise too_large(most)

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            if self._got > self._most:
                raise too_large(self._most)
        return message


def too_large(most: int) -> ServiceError:
    """The refusal of a body."""
    size = f"{most / 1e6:,.0f} MB" if most >= 1e6 else f"{most:,} bytes"
    return ServiceError(
        "body",
        status=413,
        kind="too-large",
        found="more than that",
        expected=f"at most {size}",
        fix="Send it in parts.",
    )


def too_many(seconds: float) -> ServiceError:
    """The refusal of a caller who asks too often."""
    wait = max(1, round(seconds + 0.5))
    return ServiceError(
        "This caller sends more requests than the service takes from one",
        status=429,
        kind="rate",
        fix=f"Wait {wait} s.",
    )


def busy() -> ServiceError:
    """The refusal of everybody, while too much is in progress."""
    return ServiceError("Too many requests are in progress", status=503, kind="busy", fix="Try again in a second.")
