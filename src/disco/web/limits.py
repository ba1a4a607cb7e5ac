"""How much is taken at once: the size of bodies, requests in progress, requests and open replies per caller."""

import threading
import time
from collections import Counter, OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

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

    def _tokens(self, caller: str, now: float) -> float:
        tokens, then = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, tokens + (now - then) * self._rate)


class Places:
    """Places that are taken and given back: connections and requests of an address, open replies of a caller."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, holder: str, *, most: float, most_of_one: float) -> int:
        """Take one: 0; or the status of a refusal: 503 where all are taken, 429 where the holder has too many."""
        if self._all >= most:
            return 503
        if self._taken[holder] >= most_of_one:
            return 429
        self._taken[holder] += 1
        self._all += 1
        return 0

    def give_back(self, holder: str) -> None:
        """What `take` took."""
        self._all -= 1
        self._taken[holder] -= 1
        if not self._taken[holder]:
            del self._taken[holder]


@lru_cache(maxsize=10_000)
def address_of(host: str) -> str:
    """What counts as one address: an IPv6 network of 64 bits belongs to one household or one machine.

    >>> address_of("10.0.0.7"), address_of("2001:db8::7"), address_of("::ffff:10.0.0.7")
    ('10.0.0.7', '2001:db8::/64', '10.0.0.7')
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


class BoundedBody:
    """`receive` of an ASGI request, which refuses a body that is larger than its route allows.

    The route is known after the body was promised, so the limit is set later; until then the smallest one holds.
    """

    def __init__(self, scope: Scope, receive: Receive, *, most: int) -> None:
        self._scope, self._receive, self._most, self._got = scope, receive, most, 0
        self._promised = next((value for name, value in scope["headers"] if name == b"content-length"), b"")

    def allow(self, most: int) -> None:
        """The limit in bytes; refuses a body at once that promises to be larger."""
        self._most = most
        if self._promised.isdigit() and len(self._promised) < 20 and int(self._promised) > most:
            raise too_large(most)

    async def __call__(self) -> Message:
        message = await self._receive()
        if "disco.late" in self._scope:  # by the deadline of `connections`
            raise too_slow("body")
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


def too_slow(part: str) -> ServiceError:
    """The refusal of a request that does not come to its end."""
    return ServiceError(
        f"The {part} of the request did not arrive in time",
        status=408,
        kind="timeout",
        fix="Send it again, faster.",
    )


def too_many_connections(status: int) -> ServiceError:
    """The refusal of a connection, or of a request that a proxy passes on. status: 429 for one address, 503 for all."""
    what = "This address has" if status == 429 else "The service has"
    return ServiceError(
        f"{what} too many open connections",
        status=status,
        kind="connections",
        fix="Close those that are not needed, and try again in a second.",
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
