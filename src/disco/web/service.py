"""One running service: its open shop, its limits and figures, and what stands around every request."""

import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter
from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from disco.adapters.config import FILE, ShopSettings
from disco.adapters.shop import ShopFolder
from disco.records.errors import DiscoError, UnavailableError
from disco.web.limits import (
    BoundedBody,
    Places,
    TokenBuckets,
    address_of,
    busy,
    too_many,
    too_many_connections,
)
from disco.web.logs import Metrics, log
from disco.web.route import problem_reply
from disco.web.security import HEADERS, KnownCallers, Recognise, refuse_host

_MOST_JSON_BYTES = 1_000_000
_MOST_JSON_LIST_BYTES = 16_000_000  # of outcomes or of an A/B test, where files may be sent instead
_FAILURES_PER_SECOND, _FAILURES_AT_ONCE = 1.0, 30.0  # wrong keys and passwords from one address
_MOST_STREAMS, _MOST_STREAMS_OF_ONE = 64, 16  # replies that stay open
_UNKNOWN = "(unknown)"
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

AnyShop = TypeVar("AnyShop", bound=ShopFolder)
Shortcut = Callable[[Scope, BoundedBody, Send], Awaitable[Receive | None]]
"""Answers a request without a framework, and returns None; or returns what the route reads in the place of the body."""


class Service(Generic[AnyShop]):
    """What all routes share: the shop with its database open, limits and figures.

    shop: as `open` of its class gave it. hosts: names under which it answers beside loopback; None: as `refuse_host`
    says. by_key, by_session: who calls with an API key, or with the token of a session.
    """

    def __init__(
        self, shop: AnyShop, *, by_key: Recognise, by_session: Recognise, hosts: Collection[str] | None = ()
    ) -> None:
        self._opened: tuple[object, AnyShop, ExitStack] | None = None
        self._given, self._lock = shop, threading.Lock()
        self._stamp = _stamp(shop.folder / FILE)  # of the settings that the shop was opened with
        self._hosts, self.by_key, self.by_session = hosts, by_key, by_session
        self.settings: ShopSettings = shop.settings
        own = shop.settings.service
        self.metrics = Metrics()
        self.buckets = TokenBuckets(rate=own.requests_per_second, burst=2 * own.requests_per_second)
        self.failures = TokenBuckets(rate=_FAILURES_PER_SECOND, burst=_FAILURES_AT_ONCE)
        self.quick = CapacityLimiter(4)  # threads for looking up callers, so that long work cannot keep them waiting
        self.uploads = CapacityLimiter(2)  # files that are read at once: each may need much memory
        self.tables = CapacityLimiter(1)  # tables and outcomes that are judged at once: the largest need a gigabyte
        self.hashing = CapacityLimiter(2)  # passwords that are hashed at once: each needs 64 MB
        self.streams = Places()  # replies that stay open, by caller
        self.addresses = Places()  # requests that are being received or answered, by address
        self.callers = KnownCallers()
        self.in_progress = 0
        self.stopping = threading.Event()

    def shop(self) -> AnyShop:
        """The shop with its database open. Opened anew when disco.yaml was changed; the old settings stay where the
        new ones cannot be used."""
        stamp = _stamp(self._given.folder / FILE)
        opened = self._opened
        if opened is not None and opened[0] == stamp:
            return opened[1]
        with self._lock:
            opened = self._opened
            if opened is None or opened[0] != stamp:
                opened = self._open(stamp)
        return opened[1]

    def _open(self, stamp: object) -> tuple[object, AnyShop, ExitStack]:
        before, shop = self._opened, self._given
        try:
            if before is not None or stamp != self._stamp:
                shop = type(shop).open(shop.folder, now=shop.clock.fixed)
            with ExitStack() as stack:
                held = stack.enter_context(shop.held())
                opened = self._opened = (stamp, held, stack.pop_all())
        except DiscoError as error:
            if before is None or isinstance(error, UnavailableError):
                raise
            log().error("disco.yaml cannot be used; the settings before stay in use", reason=type(error).__name__)
            self._opened = (stamp, *before[1:])
            return self._opened
        self.settings = shop.settings
        if before is not None:
            before[2].close()
        return opened

    def close(self) -> None:
        """Close the database."""
        if self._opened is not None:
            self._opened[2].close()
            self._opened = None

    def hosts(self) -> Collection[str] | None:
        """Names under which it answers."""
        if self._hosts is None:
            return None
        own = self.settings.service
        public = () if own.public_url is None else (urlsplit(own.public_url).hostname or "",)
        return (*self._hosts, *own.hosts, *public)

    def enter(self, scope: Scope) -> None:
        """Count a request among those in progress, once its caller is known; 503 where there are too many."""
        if self.in_progress >= self.settings.service.most_in_progress and scope["path"].startswith("/api/"):
            raise busy()
        self.in_progress += 1
        scope["disco.entered"] = True

    def open_reply(self, caller: str) -> None:
        """Take a place among the replies that stay open: 503, or 429 where this caller has too many of them."""
        if status := self.streams.take(caller, most=_MOST_STREAMS, most_of_one=_MOST_STREAMS_OF_ONE):
            raise busy() if status == 503 else too_many(0.0)

    def largest_body(self, *, upload: bool, is_json: bool) -> int:
        """In bytes. JSON is read into memory, where it takes many times its size."""
        if not upload:
            return _MOST_JSON_BYTES
        sent = self.settings.service.upload_megabytes * 1_000_000
        return min(sent, _MOST_JSON_LIST_BYTES) if is_json else sent


def _stamp(path: Path) -> object:
    """Changes when the file does."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


class RequestMiddleware:
    """Around every request: its id, the host, the limits, the headers of the reply, the log and the figures.

    shortcut: is asked first.
    """

    def __init__(self, app: ASGIApp, service: Service[Any], shortcut: Shortcut) -> None:
        self._app, self._service, self._shortcut = app, service, shortcut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service, began = self._service, time.perf_counter()
        scope["disco.request_id"] = instance = token_hex(8)
        scope["disco.body"] = body = BoundedBody(scope, receive, most=_MOST_JSON_BYTES)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_headers(message["headers"], instance)
            await send(message)

        service.metrics.in_progress.inc()
        own = service.settings.service
        address = address_of(scope["client"][0] if scope.get("client") else "")
        crowded = service.addresses.take(address, most=inf, most_of_one=own.connections_per_address)
        try:
            if crowded:
                raise too_many_connections(crowded)
            host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
            refuse_host(host, known=service.hosts())
            received = await self._shortcut(scope, body, sending)
            if received is not None:
                await self._app(scope, received, sending)
        except Exception as error:
            refused = problem_reply(Request(scope, body), error)
            if not status:
                await refused(scope, receive, sending)
        finally:
            if not crowded:
                service.addresses.give_back(address)
            if "disco.entered" in scope:
                service.in_progress -= 1
            service.metrics.in_progress.dec()
            seconds = time.perf_counter() - began
            route = str(scope.get("disco.route") or getattr(scope.get("route"), "path_format", _UNKNOWN))
            service.metrics.answered(method=scope["method"], route=route, status=status, seconds=seconds)
            _log(scope, route=route, status=status, seconds=seconds, instance=instance)


def _with_headers(given: list[tuple[bytes, bytes]], instance: str) -> list[tuple[bytes, bytes]]:
    there = {name for name, _ in given}
    ours = [pair for pair in _HEADERS if pair[0] not in there]
    return [*given, *ours, (b"x-request-id", instance.encode())]


def _log(scope: Scope, *, route: str, status: int, seconds: float, instance: str) -> None:
    caller = scope.get("state", {}).get("caller")
    log().info(
        "request",
        request_id=instance,
        method=scope["method"] if scope["method"].isalpha() else "?",
        route=route,
        status=status,
        milliseconds=round(1000 * seconds, 1),
        caller=None if caller is None else str(caller.actor.kind),
        role=None if caller is None else str(caller.role),
    )
