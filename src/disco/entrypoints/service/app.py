"""The application: routes, what stands around every request, and the shop that it serves."""

import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import disco
from disco.adapters.config import FILE, ShopSettings
from disco.entrypoints.python import Shop
from disco.entrypoints.service import checkout
from disco.entrypoints.service.late_queue import LateQueue, warm
from disco.entrypoints.service.limits import (
    BoundedBody,
    Places,
    TokenBuckets,
    address_of,
    busy,
    too_many,
    too_many_connections,
)
from disco.entrypoints.service.logs import log
from disco.entrypoints.service.metrics import Metrics
from disco.entrypoints.service.openid import OpenIdDoor
from disco.entrypoints.service.pages.shell import refusal
from disco.entrypoints.service.route import problem_reply
from disco.entrypoints.service.routes import ROUTERS
from disco.entrypoints.service.security import HEADERS, KnownCallers, refuse_host
from disco.records.errors import DiscoError, UnavailableError

if TYPE_CHECKING:
    from disco.entrypoints.service.planner_desk import PlannerDesk
    from disco.operations.read_out_cache import KeptReadings
    from disco.operations.what_if import OpenAudiences

_MOST_JSON_BYTES = 1_000_000
_MOST_JSON_LIST_BYTES = 16_000_000  # of outcomes or of an A/B test, where files may be sent instead
_FAILURES_PER_SECOND, _FAILURES_AT_ONCE = 1.0, 30.0  # wrong keys and passwords from one address
_MOST_STREAMS, _MOST_STREAMS_OF_ONE = 64, 16  # replies that stay open
_UNKNOWN = "(unknown)"
_LATE_THREADS = 4  # transactions about late arrivals at once
_SWITCH_S = 0.001  # how long a thread that decides may keep the one that answers waiting; Python's own is 5 ms
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Service:
    """What the routes share: the shop with its database open, limits and figures.

    shop: as `Shop.open` gave it. hosts: names under which it answers beside loopback; None: as `refuse_host` says.
    demo: the secret of the link that signs a demo operator in; None: there is no such link.
    """

    def __init__(self, shop: Shop, *, hosts: Collection[str] | None = (), demo: str | None = None) -> None:
        self._opened: tuple[object, Shop, ExitStack] | None = None
        self._given, self._lock = shop, threading.Lock()
        self._stamp = _stamp(shop.folder / FILE)  # of the settings that the shop was opened with
        self._hosts, self.demo = hosts, demo
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
        self.openid = OpenIdDoor()
        # SQLite has one writer, whom readers keep from committing: they would sleep in front of each other's locks
        in_a_file = not shop.settings.database_url.startswith("postgresql")
        self.late = LateQueue(self.shop, threads=1 if in_a_file else _LATE_THREADS)
        self.callers = KnownCallers()
        self.in_progress = 0
        self.stopping = threading.Event()

    def shop(self) -> Shop:
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

    def _open(self, stamp: object) -> tuple[object, Shop, ExitStack]:
        before, shop = self._opened, self._given
        try:
            if before is not None or stamp != self._stamp:
                shop = Shop.open(shop.folder, now=shop.clock.fixed)
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
        if "desk" in self.__dict__:  # it is made when the first planner is opened
            self.desk.close()
        if self._opened is not None:
            self._opened[2].close()
            self._opened = None

    @cached_property
    def audiences(self) -> "OpenAudiences":
        """The customers whom planners have open."""
        from disco.operations.what_if import OpenAudiences

        return OpenAudiences(self.settings.service.planner_megabytes)

    @cached_property
    def readings(self) -> "KeptReadings":
        """Read-outs of campaigns that pages have shown."""
        from disco.operations.read_out_cache import KeptReadings

        return KeptReadings()

    @cached_property
    def desk(self) -> "PlannerDesk":
        """Where planners open customers and solve limits."""
        from disco.entrypoints.service.planner_desk import PlannerDesk

        return PlannerDesk(self.audiences, stopping=self.stopping)

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


def create_app(shop: Shop, *, hosts: Collection[str] | None = (), demo: str | None = None) -> FastAPI:
    """The service of a shop. hosts: names under which it answers beside loopback; None: as `refuse_host` says.
    demo: the secret of the link that signs a demo operator in."""
    service = Service(shop, hosts=hosts, demo=demo)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = service.settings.service.threads
        await to_thread.run_sync(warm)
        sys.setswitchinterval(_SWITCH_S)
        try:
            yield
        finally:
            service.stopping.set()
            await service.late.close()
            await to_thread.run_sync(service.close)

    app = routed(lifespan=life)
    app.state.service = service
    app.add_middleware(_Surroundings, service=service)
    return app


def routed(**options: Any) -> FastAPI:
    """An application with all routes; without a shop it can only describe itself."""
    app = FastAPI(
        title="DISCO",
        version=disco.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **options,
    )
    # the routes themselves: `include_router` would build each of them again for every application, at its first request
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)

    async def refused(request: Request, error: Exception) -> Response:
        is_for_people = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
        return refusal(request, error) if is_for_people else problem_reply(request, error)

    app.add_exception_handler(HTTPException, refused)
    return app


class _Surroundings:
    """Around every request: its id, the host, the limits, the headers of the reply, the log and the figures."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

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
        received: Receive | None = body
        own = service.settings.service
        address = address_of(scope["client"][0] if scope.get("client") else "")
        crowded = service.addresses.take(address, most=inf, most_of_one=own.connections_per_address)
        try:
            if crowded:
                raise too_many_connections(crowded)
            host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
            refuse_host(host, known=service.hosts())
            campaign = checkout.campaign_of(scope)
            if campaign is not None:
                scope["disco.route"] = checkout.TEMPLATE
                received = await checkout.answer(scope, body, sending, campaign=campaign, service=service)
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
