"""`./run drill service slow`: clients that send slowly, without end or not at all, from several addresses of loopback.

Together they hold more connections than the service answers requests at once. Meanwhile somebody with a key asks as
usual: every answer is right, 99% of them come within a second, the slow ones are cut off at their deadlines, memory
stays small, and SIGTERM ends the server although connections are open.
"""

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx
import numpy as np
from running_shop import Served, key_of, running_shop

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 10))
MOST_BYTES = 1_500_000_000  # of server and worker together
MOST_P99_S, MOST_STOP_S = 1.0, 30.0
_DEADLINE_S = 45.0  # the longest of the service's own, with some air
_HEAD = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Watch:
    """Memory of a server and its worker, and how somebody who asks as usual is answered."""

    def __init__(self, served: Served, key: str, *, pause_s: float = 0.05) -> None:
        self._served, self._key, self._pause_s = served, key, pause_s
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._measure)]
        self.statuses: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.most_bytes = 0

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def p99_s(self) -> float:
        return float(np.percentile(self.seconds, 99)) if self.seconds else float("inf")

    def problems(self, *, timed: bool = True) -> Iterator[str]:
        """What was promised and not kept. timed: also about seconds, which need a machine for itself."""
        if set(self.statuses) != {"200"}:
            yield f"others were answered {dict(self.statuses)}"
        if timed and self.p99_s > MOST_P99_S:
            yield f"others waited {self.p99_s:.2f} s (p99)"
        if self.most_bytes > MOST_BYTES:
            yield f"server and worker took {self.most_bytes / 1e6:,.0f} MB"

    def row(self, name: str) -> str:
        """A line of the table of figures."""
        answers = ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()))
        worst = 1e3 * max(self.seconds, default=0.0)
        times = f"p99 {1e3 * self.p99_s:.0f} ms, worst {worst:.0f} ms"
        return f"{name:<34} others: {answers}; {times}; memory {self.most_bytes / 1e6:,.0f} MB"

    def _ask(self) -> None:
        paths, number = ("/healthz", "/api/v1/campaigns"), 0
        headers = {"authorization": f"Bearer {self._key}"}
        with httpx.Client(base_url=self._served.url, headers=headers, timeout=20) as client:
            while not self._over.wait(self._pause_s):
                began, number = time.monotonic(), number + 1
                try:
                    status = str(client.get(paths[number % 2]).status_code)
                except httpx.HTTPError as error:
                    status = type(error).__name__
                self.statuses[status] += 1
                self.seconds.append(time.monotonic() - began)

    def _measure(self) -> None:
        while not self._over.wait(0.02):
            self.most_bytes = max(self.most_bytes, memory(self._served.process.pid))


def memory(pid: int) -> int:
    """Resident bytes of a process and those that it started."""
    total, waiting = 0, [pid]
    while waiting:
        process = waiting.pop()
        with suppress(OSError, IndexError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


@contextmanager
def served_shop(*, worker: bool = True) -> Iterator[tuple[Served, str]]:
    """A small shop that is served, and a key."""
    with TemporaryDirectory(prefix="disco-service-") as place:
        shop = running_shop(Path(place) / "shop", None)
        served = Served(shop.folder, Path(place) / "log", worker=worker)
        try:
            yield served, key_of(shop)
        finally:
            served.end(signal.SIGKILL)


@dataclass(slots=True)
class SlowDrill:
    """What became of it."""

    rows: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    replies: dict[str, Counter[str]] = field(default_factory=dict)  # by kind of client
    connections: int = 0


class _Client:
    """One slow client."""

    def __init__(self, kind: str, port: int, address: str) -> None:
        self.kind, self._port, self._address = kind, port, address
        self.reply, self.sent, self.seconds = "open", 0, 0.0

    async def run(self, *, until: float) -> None:
        began, self.sent = time.monotonic(), 0
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(self._address, 0))
        except OSError as error:
            self.reply = type(error).__name__
            return
        sending = asyncio.create_task(self._send(writer))
        try:
            await self._read(reader, until=until)
        except OSError:
            self.reply = "closed"
        self.seconds = time.monotonic() - began
        sending.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await sending
        writer.close()

    async def _read(self, reader: asyncio.StreamReader, *, until: float) -> None:
        with suppress(TimeoutError):
            answer = await asyncio.wait_for(reader.read(4096), max(0.1, until - time.monotonic()))
            self.reply = answer[9:12].decode("latin-1") or "closed"

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if self.kind == "half-sent body":
                writer.write(_HEAD + b"Content-Length: 9\r\n\r\n{")
            elif self.kind == "slow body":
                writer.write(_HEAD + b"Content-Length: 900\r\n\r\n")
                await self._drip(writer, b" ", every=0.5)
            elif self.kind == "slow header":
                writer.write(_HEAD + b"X-Slow: ")
                await self._drip(writer, b"a", every=0.5)
            elif self.kind == "endless header":
                writer.write(_HEAD + b"X-Endless: ")
                await self._drip(writer, b"a" * 65_536, every=0.0)
            elif self.kind == "endless trailer":
                writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-Endless: ")
                await self._drip(writer, b"a" * 65_536, every=0.0)

    async def _drip(self, writer: asyncio.StreamWriter, content: bytes, *, every: float) -> None:
        while not writer.is_closing():
            writer.write(content)
            self.sent += len(content)
            await writer.drain()
            await asyncio.sleep(every)


_EXPECTED = {
    "half-sent body": {"408"},
    "slow body": {"408"},
    "slow header": {"408"},
    "endless header": {"431"},
    "endless trailer": {"431", "422", "400", "closed"},  # the body before it may be refused first
    "nothing sent": {"closed"},
}


def slow_drill(
    *,
    connections: int = 420,
    seconds: float = _DEADLINE_S,
    on: tuple[Served, str] | None = None,
    timed: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> SlowDrill:
    """Hold so many connections for these seconds; where that is less than the deadlines, they are still held when the
    server is asked to end.

    on: a server that is there already, which is ended, and a key. timed: promises about seconds count, too.
    """
    done = SlowDrill()
    whole = seconds >= _DEADLINE_S
    with served_shop() if on is None else nullcontext(on) as (served, key):
        port = urlsplit(served.url).port or 0
        kinds = ["half-sent body", "half-sent body", "half-sent body", "slow body", "slow header", "nothing sent"]
        with Watch(served, key) as before:
            time.sleep(min(seconds, 2.0))
        done.rows.append(before.row("nobody slow"))
        clients = [
            _Client(kinds[number % len(kinds)], port, ADDRESSES[number % len(ADDRESSES)])
            for number in range(connections)
        ]
        endless = [
            _Client(kind, port, ADDRESSES[number])
            for number, kind in enumerate(("endless header", "endless header", "endless trailer"))
        ]
        crowd = [_Client("crowd", port, "127.0.0.20") for _ in range(150)]

        async def attack(some: list[_Client], length: float) -> None:
            until = time.monotonic() + length
            await asyncio.gather(*(client.run(until=until) for client in some))

        with Watch(served, key) as watch:
            until = time.monotonic() + min(seconds, 10.0)
            while time.monotonic() < until:  # again and again, wherever they are cut off
                asyncio.run(attack(endless, until - time.monotonic()))
        done.rows.append(watch.row("endless headers and trailers"))
        done.problems += watch.problems(timed=timed)
        with Watch(served, key) as watch:
            asyncio.run(attack(crowd, min(seconds, 3.0)))
        done.rows.append(watch.row(f"{len(crowd)} connections of one address"))
        done.problems += watch.problems(timed=timed)
        with Watch(served, key) as watch:
            asyncio.run(attack(clients, seconds))
        done.rows.append(watch.row(f"{connections} slow connections"))
        done.problems += watch.problems(timed=timed)
        done.connections = connections
        for client in (*clients, *endless, *crowd):
            done.replies.setdefault(client.kind, Counter())[client.reply] += 1
        for kind, replies in done.replies.items():
            some = [client for client in (*clients, *endless, *crowd) if client.kind == kind]
            longest, most = max(one.seconds for one in some), max(one.sent for one in some)
            done.rows.append(f"{kind:<34} {dict(replies)}; at most {longest:.1f} s and {most:,} bytes")
            if kind in _EXPECTED and (whole or kind.startswith("endless")) and set(replies) - _EXPECTED[kind]:
                done.problems.append(f"{kind}: {dict(replies)}")
        if done.replies["crowd"]["429"] < 40:
            done.problems.append(f"connections of one address: {dict(done.replies['crowd'])}")
        done.rows.append(_stopped(served, attack, port, connections, done.problems, timed=timed))
    for row in done.rows:
        say(row)
    return done


def _stopped(
    served: Served,
    attack: Callable[..., object],
    port: int,
    connections: int,
    problems: list[str],
    *,
    timed: bool,
) -> str:
    """SIGTERM while half-sent bodies and headers are open."""
    kinds = ("half-sent body", "slow header", "nothing sent")
    clients = [_Client(kinds[number % 3], port, ADDRESSES[number % len(ADDRESSES)]) for number in range(connections)]
    thread = threading.Thread(target=lambda: asyncio.run(attack(clients, 60.0)), daemon=True)  # type: ignore[arg-type]
    thread.start()
    time.sleep(2)
    began = time.monotonic()
    code = served.end(signal.SIGTERM)
    seconds = time.monotonic() - began
    thread.join(70)
    if code or (timed and seconds > MOST_STOP_S):
        problems.append(f"SIGTERM ended the server after {seconds:.1f} s with {code}")
    return f"{'SIGTERM meanwhile':<34} ended after {seconds:.1f} s with exit code {code}"
