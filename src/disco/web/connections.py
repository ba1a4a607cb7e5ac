"""Connections before they are requests: how many there are, how long a header is, and how slowly a client may send.

uvicorn waits for a header or a body as long as a client likes, and keeps whatever has come of it. Here a header has a
size and a deadline, a body has a deadline that moves on as it arrives, and a reply has to be read. One timer looks at
all connections once a second, so that a request costs a few assignments and no timer of its own.
"""

import asyncio
import json
import resource
from enum import IntEnum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import inf
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from disco.records.errors import ServiceError
from disco.web.limits import Places, address_of, too_many_connections, too_slow
from disco.web.problems import MEDIA_TYPE, problem_of
from disco.web.security import HEADERS

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

    from disco.web.service import Service

MOST_HEADER_BYTES = 64 << 10
HEADER_S = 20.0
"""From the first byte of a header, or from the beginning of a connection, to the header's end."""
BODY_S, BODY_BYTES_PER_S = 30.0, 16 << 10
"""A body has the first, and a second more for each so many bytes that have come."""
READ_S = 60.0  # a reply that nobody reads: the buffers in between take about 64 KB
_LINGER_S = 2.0  # for reading a refusal: a connection closed over unread bytes is reset, and the refusal lost with it
_LAST_S = 5.0  # for the rest of a body, once the server is asked to end
_LOOK_S = 1.0
_OTHER_FILES = 128  # that the process needs beside its connections


class _Phase(IntEnum):
    HEADER = 0  # until it is complete; at first also until it begins
    BODY = 1
    WHOLE = 2  # the request is here: what takes long now is our own work, or the client's pause before the next one
    LATE = 3  # the rest of the body is overdue, and the application refuses the request
    CLOSING = 4


class Gate:
    """The connections of one server."""

    def __init__(self, service: "Service[Any]") -> None:
        self._service = service
        self._open: dict[BoundedProtocol, str] = {}  # with the address of each
        self._places = Places()
        self._is_looking = False  # whether the timer runs: one, however often connections come and go

    def enter(self, connection: "BoundedProtocol", address: str) -> ServiceError | None:
        """Count a connection, whose address is that of the other machine; a refusal is not counted."""
        own = self._service.settings.service
        # a proxy speaks for many: their own addresses are counted by request (`app`)
        most_of_one = inf if is_trusted(address, own.trusted_proxies) else own.connections_per_address
        most = min(own.most_connections, _most_files() - _OTHER_FILES)
        if status := self._places.take(address_of(address), most=most, most_of_one=most_of_one):
            return too_many_connections(status)
        if not self._is_looking:
            self._is_looking = True
            connection.loop.call_later(_LOOK_S, self._look, connection.loop)
        self._open[connection] = address_of(address)
        return None

    def leave(self, connection: "BoundedProtocol") -> None:
        """Forget a connection that is lost."""
        if (address := self._open.pop(connection, None)) is not None:
            self._places.give_back(address)

    def refused(self, status: int) -> None:
        """Count a refusal that no route has seen."""
        self._service.metrics.answered(method="", route="(connection)", status=status, seconds=0.0)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_looking = bool(self._open)
        if self._is_looking:
            loop.call_later(_LOOK_S, self._look, loop)
        now = loop.time()
        for connection in tuple(self._open):
            connection.look(now)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with deadlines and sizes."""

    gate: ClassVar[Gate]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase, self._since = _Phase.HEADER, self.loop.time()
        self._unread = 0  # bytes since the last that ended a header or belonged to a body
        self._body_bytes = 0
        self._stalled: float | None = None  # since when the other side has not read
        self._refusal: ServiceError | None = None
        self._answered: RequestResponseCycle | None = None  # the request that the application has
        if refusal := self.gate.enter(self, "" if self.client is None else self.client[0]):
            self._phase = _Phase.CLOSING
            self.transport.write(self._reply(refusal))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gate.leave(self)
        # uvicorn tells the request that came last, and behind it another may wait that is still being answered
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self._phase is _Phase.CLOSING:
            return  # until the other side has read the refusal
        if self._phase is _Phase.WHOLE:
            self._phase, self._since = _Phase.HEADER, self.loop.time()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MOST_HEADER_BYTES and self._phase is not _Phase.CLOSING:
            self._refuse(_header_too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is _Phase.WHOLE:  # a second request in the same packet
            self._phase, self._since = _Phase.HEADER, self.loop.time()

    def on_headers_complete(self) -> None:
        if self._unread > MOST_HEADER_BYTES and self._header_bytes() > MOST_HEADER_BYTES:
            self._refusal = _header_too_large()
            raise ValueError("header")  # ends the parser, which then calls `send_400_response`
        self._unread, self._body_bytes = 0, 0
        self._phase, self._since = _Phase.BODY, self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._phase = _Phase.WHOLE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or ServiceError(msg.rstrip("."), status=400, kind="request"))

    def resume_writing(self) -> None:
        self._stalled = None
        super().resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        if self._phase is _Phase.BODY:
            self._since = min(self._since, self.loop.time() + _LAST_S - self._body_time())

    def look(self, now: float) -> None:
        """Cut off whoever has sent or read too little."""
        waited = now - self._since
        if self.transport.is_closing() and self._phase is not _Phase.CLOSING:
            self._phase, self._since = _Phase.CLOSING, now
        elif self._phase is _Phase.CLOSING:
            if waited > _LINGER_S:
                self.transport.abort()
        elif self.flow.write_paused:
            self._stalled = now if self._stalled is None else self._stalled
            if now - self._stalled > READ_S:
                self.transport.abort()
        elif self._phase is _Phase.HEADER and waited > HEADER_S:
            if self._is_answering():  # the next request of a client who still waits for a reply
                self._since = now
            elif self._unread:
                self._refuse(too_slow("header"))
            else:
                self.transport.close()
        elif self._phase is _Phase.BODY:
            if self.flow.read_paused or self.cycle.waiting_for_100_continue:
                self._since = now  # the client waits for us
            elif waited > self._body_time():
                self._tell_late()

    def _header_bytes(self) -> int:
        """Of the header alone: a part of the body may have come with it."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _body_time(self) -> float:
        return BODY_S + self._body_bytes / BODY_BYTES_PER_S

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _tell_late(self) -> None:
        """Let the application refuse the request, as it refuses others, where it still waits for the body."""
        self._phase = _Phase.LATE
        if self.cycle.response_started:
            self.transport.abort()
            return
        self.cycle.keep_alive = False
        self.cycle.scope["disco.late"] = True  # type: ignore[typeddict-unknown-key]
        self.cycle.message_event.set()

    def _refuse(self, error: ServiceError) -> None:
        """Reply without the application, and close once the reply was read."""
        if self._is_answering() or self.transport.is_closing():  # it would stand within another reply
            self.transport.abort()
            return
        self._phase, self._since = _Phase.CLOSING, self.loop.time()
        self.transport.write(self._reply(error))
        self.transport.write_eof()

    def _reply(self, error: ServiceError) -> bytes:
        self.gate.refused(error.status)
        content = json.dumps(problem_of(error, instance=token_hex(8)), ensure_ascii=False).encode()
        own = {"content-type": MEDIA_TYPE, "content-length": str(len(content)), "connection": "close"}
        if error.status in (429, 503):
            own["retry-after"] = "1"
        lines = [f"{name}: {value}\r\n".encode() for name, value in {**HEADERS, **own}.items()]
        given = [name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers]
        return b"".join([STATUS_LINE[error.status], *given, *lines, b"\r\n", content])


def protocol_of(service: "Service[Any]") -> type[BoundedProtocol]:
    """The protocol of a server: uvicorn makes one object per connection, and this is what they share."""
    return type("ServedProtocol", (BoundedProtocol,), {"gate": Gate(service)})


def _header_too_large() -> ServiceError:
    return ServiceError(
        "header",
        status=431,
        kind="header",
        found="more than that",
        expected=f"at most {MOST_HEADER_BYTES:,} bytes",
        fix="Send fewer or shorter headers.",
    )


@lru_cache(maxsize=10_000)
def is_trusted(host: str, proxies: tuple[str, ...]) -> bool:
    """Whether a connection comes from one of the proxies."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in ip_network(proxy) for proxy in proxies)


def _most_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
