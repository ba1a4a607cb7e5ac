"""Whoever sends slowly, without end or too often is cut off, and takes nobody else's place."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import ShopService, create_app
from disco.office.jobs import use_cases as jobs
from disco.records.jobs import JobKind
from disco.records.people import Role
from disco.web import connections

HEAD = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF = HEAD + b"Content-Length: 9\r\n\r\n{"


class Server:
    """The service on a port of its own, as `disco serve` runs it."""

    def __init__(self, service: ShopService, port: int, key: str) -> None:
        self.service, self.port, self._key = service, port, key

    def limited(self, **limits: Any) -> None:
        settings = self.service.settings
        self.service.settings = settings.model_copy(update={"service": settings.service.model_copy(update=limits)})

    def get(self, path: str = "/api/v1/campaigns", **headers: str) -> httpx.Response:
        known = {"authorization": f"Bearer {self._key}", **headers}
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=known, timeout=30)

    def connect(self, content: bytes = b"", *, address: str = "127.0.0.2") -> socket.socket:
        line = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(address, 0))
        line.sendall(content)
        return line


@contextmanager
def served(folder: Path, key: str, **options: Any) -> Iterator[Server]:
    app = create_app(Shop.open(folder))
    service: ShopService = app.state.service
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(500)
        config = uvicorn.Config(
            app, http=connections.protocol_of(service), ws="none", log_config=None, access_log=False, **options
        )
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        server = Server(service, bound.getsockname()[1], key)
        try:
            assert server.get().status_code == 200  # opens the shop, whose settings tests then change
            yield server
        finally:
            running.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def server(served_shop: Path, keys: dict[Role, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With deadlines of about a second."""
    for name, seconds in {"HEADER_S": 1.0, "BODY_S": 1.0, "_LOOK_S": 0.1, "_LAST_S": 0.1}.items():
        monkeypatch.setattr(connections, name, seconds)
    with served(served_shop, keys[Role.VIEWER]) as one:
        yield one


def reply(line: socket.socket) -> tuple[int, dict[str, Any]]:
    """The status and the problem; 0: it was closed without any."""
    content = b""
    with line, suppress(ConnectionResetError):
        while part := line.recv(65_536):
            content += part
    if not content:
        return 0, {}
    head, _, body = content.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert b"application/problem+json" in head
    return int(content[9:12]), json.loads(body)


def first_reply(line: socket.socket) -> bytes:
    """The reply to /healthz; its head and its body may come one after the other."""
    content = b""
    while not content.endswith(b'{"status": "ok"}'):
        part = line.recv(65_536)
        assert part, content
        content += part
    return content


def test_a_header_has_a_size(server: Server) -> None:
    whole = HEAD + b"X-Large: " + b"a" * 70_000 + b"\r\n\r\n"
    many = HEAD + b"".join(b"X-%d: 1\r\n" % number for number in range(9_000)) + b"\r\n"
    endless = HEAD + b"X-Endless: " + b"a" * 200_000
    for content in (whole, many, endless):
        status, problem = reply(server.connect(content))
        assert (status, problem["type"]) == (431, "urn:disco:problem:header")
    trailer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-Endless: " + b"a" * 400_000
    assert reply(server.connect(trailer))[0] in (0, 431, 400)
    large = server.get(**{"x-large": "a" * 60_000})
    assert large.status_code == 200
    text = server.get("/metrics").text
    assert 'route="(connection)",status="431"' in text


def test_what_is_no_http_is_a_problem_like_others(server: Server) -> None:
    status, problem = reply(server.connect(b"nonsense\r\n\r\n"))
    assert (status, problem["status"], problem["type"]) == (400, 400, "urn:disco:problem:request")


def test_slow_headers_and_bodies_are_cut_off(server: Server) -> None:
    lines = {
        "half a body": server.connect(HALF),
        "half a header": server.connect(HEAD),
        "nothing": server.connect(),
        "empty lines": server.connect(b"\r\n"),
        "unread body": server.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"),
    }
    began = time.monotonic()
    while time.monotonic() < began + 2:
        with suppress(OSError):
            lines["empty lines"].sendall(b"\r\n")
        time.sleep(0.2)
    unread = lines.pop("unread body")
    assert unread.recv(65_536).startswith(b"HTTP/1.1 200")
    assert unread.recv(65_536) == b""
    replies = {name: reply(line) for name, line in lines.items()}
    assert {name: status for name, (status, _) in replies.items()} == {
        "half a body": 408,
        "half a header": 408,
        "nothing": 0,
        "empty lines": 408,
    }
    assert replies["half a body"][1]["type"] == "urn:disco:problem:timeout"
    assert "body" in replies["half a body"][1]["detail"]


def test_a_body_that_comes_slowly_but_comes_is_taken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_BYTES_PER_S", 2)  # a busy machine may stop here for seconds
    content = json.dumps({"name": "nobody", "password": "wrong password"}).encode()
    line = server.connect(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(content))
    for at in range(0, len(content), 8):  # in all more than the first second
        line.sendall(content[at : at + 8])
        time.sleep(0.3)
    assert reply(line)[0] == 401


def test_a_connection_may_wait_for_its_next_request(server: Server) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.connect(request) as line:
        assert first_reply(line).startswith(b"HTTP/1.1 200")
        time.sleep(2)  # longer than the deadline of a header
        line.sendall(request)
        assert first_reply(line).startswith(b"HTTP/1.1 200")


def test_half_sent_bodies_take_nobody_elses_place(
    served_shop: Path, keys: dict[Role, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LAST_S", 0.1)
    with served(served_shop, keys[Role.VIEWER]) as server, ExitStack() as stack:
        server.limited(most_in_progress=10)
        for _ in range(40):
            stack.enter_context(server.connect(HALF))
        time.sleep(0.5)
        assert [server.get().status_code for _ in range(5)] == [200] * 5
        assert server.service.in_progress == 0


def test_one_address_has_so_many_connections_and_others_have_theirs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 60.0)  # the five are there until the end, however long it takes
    server.limited(connections_per_address=5)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(server.connect(HEAD))
        time.sleep(0.2)
        status, problem = reply(server.connect())
        assert (status, problem["type"]) == (429, "urn:disco:problem:connections")
        assert server.get().status_code == 200
        server.limited(connections_per_address=100, most_connections=5)
        assert reply(server.connect(address="127.0.0.3"))[0] == 503
    time.sleep(0.5)
    assert server.get().status_code == 200, "places that were left are free again"


def test_one_timer_looks_at_all_connections_however_many_came_and_went(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    look = connections.Gate._look

    def counted(gate: connections.Gate, loop: Any) -> None:
        looks.append(loop.time())
        look(gate, loop)

    monkeypatch.setattr(connections.Gate, "_look", counted)
    for _ in range(50):  # each is the only one of its time
        server.connect().close()
        time.sleep(0.002)
    with server.connect(HEAD):
        time.sleep(0.6)
        looks.clear()
        time.sleep(0.5)
    assert len(looks) <= 10, "0.1 s lie between two looks of one timer"


def test_a_stream_ends_with_its_connection_though_another_request_came_behind_it(
    server: Server, served_shop: Path, keys: dict[Role, str]
) -> None:
    shop = Shop.open(served_shop)
    with shop.store() as store:
        job = jobs.submit(store, JobKind.DOCTOR, {}, clock=shop.clock)
    stream = (
        f"GET /api/v1/jobs/{job.id}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {keys[Role.VIEWER]}"
    )
    line = server.connect(f"{stream}\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert line.recv(65_536).startswith(b"HTTP/1.1 200")
    assert server.service.in_progress == 1
    line.close()
    end = time.monotonic() + 20
    while server.service.in_progress and time.monotonic() < end:
        time.sleep(0.05)
    assert server.service.in_progress == 0
    server.service.open_reply("whoever comes next")
    assert server.service.streams.take("one more", most=2, most_of_one=1) == 0, "its place is free again"


def test_behind_a_proxy_the_forwarded_address_counts(
    served_shop: Path, keys: dict[Role, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LAST_S", 0.1)
    proxy = {"proxy_headers": True, "forwarded_allow_ips": ["127.0.0.1"]}
    with served(served_shop, keys[Role.VIEWER], **proxy) as server, ExitStack() as stack:
        server.limited(connections_per_address=5, trusted_proxies=("127.0.0.1",))
        half = HALF.replace(b"Content-Type", b"X-Forwarded-For: 203.0.113.7\r\nContent-Type")
        for _ in range(5):
            stack.enter_context(server.connect(half, address="127.0.0.1"))
        time.sleep(0.5)
        answer = server.get(**{"x-forwarded-for": "203.0.113.7"})
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:disco:problem:connections")
        assert server.get(**{"x-forwarded-for": "203.0.113.8"}).status_code == 200
