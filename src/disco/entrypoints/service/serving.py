"""A server process: its socket, its signals, and the worker that it keeps running beside itself."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_urlsafe
from types import FrameType
from urllib.parse import urlsplit

import uvicorn

from disco.adapters.config import FILE
from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import ShopService, create_app
from disco.records.errors import InputError, MissingPartError, StateError, UsageError
from disco.records.result import Result
from disco.web import logs
from disco.web.connections import protocol_of
from disco.web.security import is_loopback, own_names

_GRACE_S = 30  # for requests in progress, and for the worker's job, when the server is asked to end
_KEEP_ALIVE_S = 75  # a shop's open connections, between two customers at its checkout
_BACKLOG = 2048
_LONGEST_PAUSE_S = 30.0  # before a worker that keeps ending is started again
# the worker ends with its server, however that ends: Linux tells it (PR_SET_PDEATHSIG)
_WORKER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(os.environ.pop("DISCO_SERVER_PID")):
    sys.exit(0)
from disco.entrypoints.cli import command
command()
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Serving(Result):
    """A server that has begun to answer."""

    url: str
    """Where it answers."""
    shop: str
    """The folder of the shop."""
    worker: bool
    """Whether it runs a worker of its own."""
    invitation: str | None
    """The one-time link for the first administrator; null: there is one already, or this is the demo."""
    demo: str | None
    """The link that signs a demo operator in, as long as the server runs; null: without --demo."""
    warnings: tuple[str, ...]
    """What to know, in sentences."""


def serve(
    shop: Shop, *, host: str, port: int, worker: bool, started: Callable[[Serving], None], demo: bool = False
) -> None:
    """Answer until the process is asked to end (SIGTERM or Ctrl-C); requests in progress are then finished.

    port: 0 takes a free one. started: is told where, before the first request is answered. demo: with a link that signs
    an administrator in, for a simulated shop that only this machine can reach.
    """
    logs.forward_libraries()
    own = shop.settings.service
    if demo:
        _refuse_demo(shop, host)
    secret = token_urlsafe(24) if demo else None
    hosts = (host,) if is_loopback(host) or own.hosts or own.public_url else None
    app = create_app(shop, hosts=hosts, demo=secret)
    service: ShopService = app.state.service
    with _bound(host, port) as bound:
        address = f"http://{host if ':' not in host else f'[{host}]'}:{bound.getsockname()[1]}"
        url = (own.public_url or address).rstrip("/")
        settings = uvicorn.Config(
            app,
            loop="uvloop",
            http=protocol_of(service),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(own.trusted_proxies),
            forwarded_allow_ips=list(own.trusted_proxies),
            timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
            backlog=_BACKLOG,
        )
        started(
            Serving(
                url=url,
                shop=str(shop.folder),
                worker=worker,
                invitation=None if demo else _invitation(service, url),
                demo=None if secret is None else f"{url}/demo/{secret}",
                warnings=(*_warnings(host, url, named=service.hosts() is not None), *_missing_secret(shop)),
            )
        )
        # uvicorn hands the signal on when it is done: the end was asked for, so it is no failure
        signal.signal(signal.SIGTERM, lambda *_: None)
        with _worker(shop, service) if worker else _nothing():
            _Server(settings, service).run(sockets=[bound])


def _refuse_demo(shop: Shop, host: str) -> None:
    """Whoever has the link is an administrator, so nobody else can be reached by it, and nothing real."""
    own = shop.settings.service
    if not is_loopback(host):
        raise UsageError("--demo", found=f"--host {host}", expected="an address of loopback, such as 127.0.0.1")
    if own.public_url or own.hosts or own.trusted_proxies:
        found = f"public_url, hosts or trusted_proxies in {shop.folder / FILE}"
        raise UsageError("--demo", found=found, expected="a server that only this machine can reach")
    if shop.settings.simulated_days_behind is None:
        raise StateError(
            f"{shop.folder} is not a simulated shop, and --demo signs everybody in who has its link",
            fix="Serve it without --demo, or run `disco demo` and serve its folder.",
        )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: ShopService) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.stopping.set()  # replies that stay open end now
        super().handle_exit(sig, frame)


def _invitation(service: ShopService, url: str) -> str | None:
    """The link for the first administrator; the token stands behind the #, which browsers send to nobody."""
    from disco.office.people.use_cases import first_invitation

    shop = service.shop()
    assert shop.held_store is not None
    made = first_invitation(shop.held_store, shop.clock)
    return None if made is None else f"{url}/invitation#{made.token}"


def _warnings(host: str, url: str, *, named: bool) -> tuple[str, ...]:
    if is_loopback(host):
        return ()
    found = [f"Other machines can reach this server, because it listens on {host}"]
    if not named:
        found.append(
            f"It answers under its addresses and the name {' or '.join(own_names())}. For other names, set "
            "service.hosts or service.public_url in disco.yaml"
        )
    if urlsplit(url).scheme != "https":
        found.append(
            "Keys and passwords travel unprotected without TLS. Put a proxy with TLS in front of it and set "
            "service.public_url (docs/deploy.md)"
        )
    return tuple(found)


def _missing_secret(shop: Shop) -> tuple[str, ...]:
    """What keeps people from signing in through their provider; passwords and keys work all the same."""
    if shop.settings.oidc is not None:
        try:
            shop.settings.oidc.client_secret(shop.folder)
        except MissingPartError as error:
            return (str(error),)
    return ()


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    if not 0 <= port <= 65_535:
        raise InputError("--port", found=port, expected="a number from 0 to 65,535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError("--host", found=host, expected="an address of this machine") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
            bound.listen(_BACKLOG)  # whoever is told where we answer may connect at once
        except OSError as error:
            reason = error.strerror or str(error)
            raise StateError(
                f"The server cannot listen on {host}, port {port} ({reason})",
                fix="Name another port with --port, or end the program that uses this one.",
            ) from error
        bound.listen(_BACKLOG)  # who is told where it answers, and asks at once, waits instead of being refused
        yield bound
    finally:
        bound.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _worker(shop: Shop, service: ShopService) -> Iterator[None]:
    """Keep `disco worker` running as a process of its own: one that ends is started again."""
    ending = threading.Event()
    child: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        pause = 1.0
        while not ending.is_set():
            command = [sys.executable, "-c", _WORKER, "worker", "--shop", str(shop.folder), "--quiet"]
            environment = os.environ | {"DISCO_SERVER_PID": str(os.getpid())}
            child[:] = [subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)]  # nosec B603
            code = child[0].wait()
            if not ending.is_set():
                logs.log().error("the worker has ended and is started again", exit_code=code, pause_s=pause)
                ending.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    keeper = threading.Thread(target=keep, name="worker", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ending.set()
        if child and child[0].poll() is None:
            child[0].terminate()
            try:
                child[0].wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                child[0].kill()
        keeper.join(5)
