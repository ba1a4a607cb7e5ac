"""The service under an open load: look-ups and late arrivals over kept-open connections, on PostgreSQL or SQLite.

    ./run bench service [--rate 500] [--seconds 60] [--connections 64] [--servers 1] [--database postgresql|sqlite]
                        [--json FILE]

Requests are sent at times that were fixed before, whether or not the service keeps up, and a request's time counts from
then: a service that stalls cannot hide it. 20% are first-time late arrivals, half of them customers with features of
their own and half unknown to the shop; 80% ask again for somebody who has a decision, and must get the same one.
After the run at `--rate` the rate is raised step by step until it is not held (p99 above 250 ms or errors), and the
service is then sent three times the highest rate that was held, over so many connections that it cannot keep the
requests waiting in the network: it must answer what it can, refuse the rest (429 or 503), and be as fast as before
afterwards.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.adapters.tables import open_tables
from disco.entrypoints.python import Shop
from disco.features import ContextNetwork
from disco.features.builder import build_features
from disco.office.keys.use_cases import create_key
from disco.operations.launch import Launched
from disco.records.people import Role

CAMPAIGN = "checkout"
FIRST_TIME = 0.2  # of all requests
HELD_MS = 250.0  # a rate whose p99 is above is not held
PLAN_DAY = date(2026, 3, 1)
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass(kw_only=True)
class Load:
    """What one run of load found."""

    rate: float
    seconds: float
    sent: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    wrong: int = 0  # another decision than before
    p50_ms: float = math.nan
    p99_ms: float = math.nan
    worst_ms: float = math.nan
    first_p99_ms: float = math.nan  # of first-time decisions
    answered_per_s: float = 0.0
    failures: list[str] = field(default_factory=list)  # the first bodies of server errors, but of those that say busy
    cpu_ms: float = math.nan  # of the service per request

    @property
    def errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != "200") + self.wrong

    @property
    def held(self) -> bool:
        return not self.errors and self.p99_ms <= HELD_MS and self.answered_per_s > 0.95 * self.rate


# ---- the shop, and the server in a process of its own


def make_shop(folder: Path, url: str | None, *, customers: int, newcomers: int) -> "Shop":
    """A shop with a campaign that holds codes in reserve; `newcomers` joined after the plan's day."""
    from disco.entrypoints.python import Shop

    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(7)
    everybody = customers + newcomers
    ids = np.arange(1, everybody + 1)
    joined = np.where(ids <= customers, np.datetime64("2025-01-01"), np.datetime64("2026-03-03"))
    regions = np.array(["North", "South", "East", "West"])
    table = {"customer_id": ids, "joined_on": joined.astype("datetime64[D]"), "region": regions[ids % 4]}
    buyers = rng.integers(1, everybody + 1, 3 * everybody)
    days = np.where(buyers <= customers, np.datetime64("2025-12-01"), np.datetime64("2026-03-05"))
    prices = np.round(rng.lognormal(4, 0.5, buyers.size), 2)
    orders = {
        "order_id": np.arange(buyers.size),
        "customer_id": buyers,
        "ordered_at": days.astype("datetime64[us]"),
        "full_price": prices,
        "paid": prices,
        "items": rng.integers(1, 5, buyers.size),
        "code": pa.nulls(buyers.size, pa.string()),
    }
    for name, columns in (("customers", table), ("orders", orders)):
        pq.write_table(pa.table(columns), folder / "data" / f"{name}.parquet")
    with open_tables(folder / "data") as tables:
        features = build_features(tables, as_of=PLAN_DAY).slice(0, 2_000).drop_columns(["customer_id"])
    network = ContextNetwork(heads="level", max_epochs=1).fit(features, rng.normal(4, 1, features.num_rows))
    network.save(folder / "context.safetensors")
    # the load comes from one address
    service = {"requests_per_second": 1e6, "connections_per_address": 100_000, "most_connections": 100_000}
    settings = {"service": service, **({} if url is None else {"database_url": url})}
    (folder / "disco.yaml").write_text(json.dumps(settings))
    sent = _campaign(folder, "before", policy={"name": "random"}, days=PLAN_DAY - timedelta(days=60)).decisions
    earlier = Shop.open(folder, now=datetime(2026, 1, 5, tzinfo=UTC))
    exported = sent.filter(sent["code"].is_valid())
    rows = exported.num_rows // 2
    purchases = {
        "event_id": [f"e{row}" for row in range(rows)],
        "campaign_id": ["before"] * rows,
        "customer_id": exported["customer_id"].slice(0, rows),
        "code": exported["code"].slice(0, rows),
        "ordered_at": pa.array([datetime(2026, 1, 3)] * rows, pa.timestamp("us")),
        "full_price": np.round(np.exp(rng.normal(4, 0.5, rows)), 2),
        "kind": ["purchase"] * rows,
        "refers_to": pa.nulls(rows, pa.string()),
    }
    earlier.ingest("before", pa.table(purchases))
    earlier.learn("before", as_of=date(2026, 2, 20))
    limits = {"segments": {"column": "region", "limits": {"North": {0.3: {"at_most": "30%"}}}}}
    more = {"reserve": {"share": "50%"}, "holdout": {"share": "2%"}, "budget": 50.0 * everybody}
    _campaign(folder, CAMPAIGN, days=PLAN_DAY, **limits, **more)
    shop = Shop.open(folder, now=NOW)
    shop.contexts(CAMPAIGN)
    return shop


def _campaign(folder: Path, name: str, *, days: date, **more: Any) -> "Launched":
    from disco.entrypoints.python import Shop

    shop = Shop.open(folder, now=datetime(days.year, days.month, days.day, 9, tzinfo=UTC))
    plan = {
        "campaign": name,
        "customers": {"table": "customers", "as_of": days.isoformat()},
        "depths": {0.1: {"at_most": "60%"}, 0.2: {"at_most": "40%"}, 0.3: {"at_most": "40%"}},
        "objective": {"revenue_weight": 3},
        "valid": {"from": days.isoformat(), "days": 40 if name == CAMPAIGN else 7},
        "seed": 4,
        **more,
    }
    return shop.launch(shop.plan(plan).plan_id)


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """Port and process id of the service, ended afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder.parent / "service.log").open("ab")
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(folder), "--port", str(port)], stderr=log)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise SystemExit("The service ended before it answered.")
            try:
                with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):  # nosec B310
                    break
            except OSError:
                time.sleep(0.1)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        log.close()


def serve(folder: Path, port: int) -> None:
    import uvicorn

    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.app import create_app

    app = create_app(Shop.open(folder, now=NOW))
    uvicorn.run(
        app, host="127.0.0.1", port=port, log_level="warning", access_log=False, loop="uvloop", http="httptools"
    )


def resident_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def cpu_seconds(process: int) -> float:
    """What the process has used so far, its own and the system's."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- the load, in a process of its own: nothing of the service slows it down, and nothing of it the service


class Connection:
    """One kept-open connection: one request at a time, in the order they are due."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def late(self, customer: str) -> tuple[str, bytes]:
        """Status and body."""
        body = json.dumps({"customer_id": customer}).encode()
        head = (
            f"POST /api/v1/campaigns/{CAMPAIGN}/late HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self._key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        for is_last in (False, True):
            is_new = self._writer is None
            try:
                if self._writer is None or self._reader is None:
                    self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                self._writer.write(head.encode() + body)
                return await asyncio.wait_for(_reply(self._reader), 30)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.close()
                if is_new or is_last or isinstance(error, TimeoutError):
                    return type(error).__name__, b""
                # closed since it was last used: asked again on a new one, as every client does
        raise AssertionError

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _reply(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    length = next(int(line[15:]) for line in lines if line.lower().startswith("content-length:"))
    return lines[0].split()[1], await reader.readexactly(length)


async def _load(
    ports: list[int],
    key: str,
    *,
    rate: float,
    seconds: float,
    connections: int,
    known: list[str],
    stranger: int,
    seed: int,
) -> Load:
    rng = np.random.default_rng(seed)
    count = int(rate * seconds)
    due = np.cumsum(rng.exponential(1 / rate, count))  # as independent customers arrive
    first_time = rng.random(count) < FIRST_TIME
    lines = [Connection(ports[number % len(ports)], key) for number in range(connections)]
    await asyncio.gather(*(line.late(known[0]) for line in lines))  # opened, and the service is warm
    decided: dict[str, bytes] = {}
    some = known[1:33]
    for first in range(0, len(some), len(lines)):
        part = some[first : first + len(lines)]
        replies = await asyncio.gather(*(line.late(customer) for line, customer in zip(lines, part, strict=False)))
        decided |= {customer: body for customer, (_, body) in zip(part, replies, strict=True)}
    fresh = iter(known[33:])
    asked: asyncio.Queue[int] = asyncio.Queue()
    took = np.full(count, np.nan)
    statuses: Counter[str] = Counter()
    wrong, who = 0, list(decided)
    failures: list[str] = []
    began = time.perf_counter() + 0.05

    async def work(line: Connection) -> None:
        nonlocal wrong, stranger
        while (number := await asked.get()) >= 0:
            if first_time[number]:
                stranger += 1
                customer = next(fresh, str(stranger)) if number % 2 else str(stranger)
            else:
                customer = who[int(rng.integers(len(who)))]
            status, body = await line.late(customer)
            took[number] = time.perf_counter() - began - due[number]
            statuses[status] += 1
            if status.startswith("5") and status != "503" and len(failures) < 5:
                failures.append(f"{status} {body.decode(errors='replace')}")
            if status == "200":
                if decided.setdefault(customer, body) != body:
                    wrong += 1
                elif first_time[number]:
                    who.append(customer)

    workers = [asyncio.create_task(work(line)) for line in lines]
    for number in range(count):
        if (wait := began + due[number] - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        asked.put_nowait(number)
    for _ in workers:
        asked.put_nowait(-1)
    await asyncio.gather(*workers)
    ended = time.perf_counter() - began
    for line in lines:
        line.close()
    ms = took * 1e3
    return Load(
        rate=rate,
        seconds=seconds,
        sent=count,
        statuses=dict(statuses),
        wrong=wrong,
        p50_ms=float(np.percentile(ms, 50)),
        p99_ms=float(np.percentile(ms, 99)),
        worst_ms=float(ms.max()),
        first_p99_ms=float(np.percentile(ms[first_time], 99)) if first_time.any() else math.nan,
        answered_per_s=statuses["200"] / ended,
        failures=failures,
    )


def load(**options: Any) -> Load:
    """The load from a process of its own."""
    asked = [sys.executable, __file__, "--load", json.dumps(options)]
    found = subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout
    return Load(**json.loads(found))


# ---- the whole benchmark


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    from trial_server import trial_server

    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="disco-service-")))
        url = None
        if arguments.database == "postgresql":
            postgres = stack.enter_context(trial_server("shared_buffers=128MB"))
            postgres.execute("CREATE DATABASE shop TEMPLATE template0")
            url = postgres.url("shop")
        newcomers = arguments.newcomers
        shop = make_shop(place / "shop", url, customers=arguments.customers, newcomers=newcomers)
        with shop.store() as store:
            key = create_key(store, name="bench", role=Role.PLANNER, expires=None, clock=shop.clock).key
        servers = [stack.enter_context(server(place / "shop")) for _ in range(arguments.servers)]
        ports, processes = [port for port, _ in servers], [process for _, process in servers]
        everybody = [str(arguments.customers + 1 + row) for row in range(newcomers)]
        used, strangers = 0, 10_000_000

        def at(rate: float, seconds: float, connections: int = arguments.connections) -> Load:
            nonlocal used, strangers
            share = min(len(everybody) - used, int(rate * seconds * FIRST_TIME / 2) + 80)
            known = everybody[used : used + share] if share > 40 else everybody[:40]
            used += max(share, 0)
            before = sum(map(cpu_seconds, processes))
            found = load(
                ports=ports,
                key=key,
                rate=rate,
                seconds=seconds,
                connections=connections,
                known=known,
                stranger=strangers,
                seed=used,
            )
            strangers += int(rate * seconds) + 1
            found.cpu_ms = 1e3 * (sum(map(cpu_seconds, processes)) - before) / max(1, found.sent)
            print(row(found), flush=True)
            if found.failures:
                lines = (place / "service.log").read_text().splitlines()
                unexpected = [line for line in lines if '"level": "error"' in line]
                print("\n".join([*found.failures, *unexpected[-20:]]), flush=True)
            return found

        load_before = os.getloadavg()[0]
        print(
            f"{arguments.database}, {os.cpu_count()} processors, {arguments.servers} servers, "
            f"{arguments.connections} connections; "
            f"load of the machine before: {load_before:.1f}"
        )
        print(HEADER, flush=True)
        at(min(arguments.rate, 50.0), min(arguments.seconds, 3.0))  # what is compiled and read once
        before = sum(map(resident_mb, processes))
        main = at(arguments.rate, arguments.seconds)
        after = sum(map(resident_mb, processes))
        ladder, held = [], arguments.rate if main.held else 0.0
        for step in arguments.steps if main.held else ():
            ladder.append(at(arguments.rate * step, arguments.step_seconds))
            if not ladder[-1].held:
                break
            held = ladder[-1].rate
        result = {
            "database": arguments.database,
            "servers": arguments.servers,
            "main": asdict(main),
            "ladder": [asdict(one) for one in ladder],
            "highest_rate_held": held,
            "resident_mb": [before, after],
            "load_before": load_before,
        }
        if arguments.overload:
            flood = at(3 * (held or arguments.rate), arguments.step_seconds, arguments.flood_connections)
            recovered = at(arguments.rate / 2, arguments.step_seconds)
            result |= {"three_times": asdict(flood), "afterwards": asdict(recovered)}
        result["resident_mb"].append(sum(map(resident_mb, processes)))
        print(f"highest rate held: {held:,.0f}/s; memory of the service: {result['resident_mb']} MB")
        return result


HEADER = "  rate/s  seconds     sent  answered/s    p50 ms    p99 ms  first p99   worst ms   cpu ms  wrong  statuses"


def row(one: Load) -> str:
    return (
        f"{one.rate:8,.0f} {one.seconds:8.0f} {one.sent:8,} {one.answered_per_s:11,.0f} {one.p50_ms:9,.1f} "
        f"{one.p99_ms:9,.1f} {one.first_p99_ms:10,.1f} {one.worst_ms:10,.1f} {one.cpu_ms:8.2f} "
        f"{one.wrong:6} " + ", ".join(f"{status}: {count:,}" for status, count in sorted(one.statuses.items()))
    )


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--step-seconds", type=float, default=15.0)
    parser.add_argument("--steps", type=float, nargs="*", default=[1.5, 2.0, 2.5, 3.0, 4.0])
    parser.add_argument("--servers", type=int, default=1, help="Processes that serve the shop, as behind a proxy.")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--flood-connections", type=int, default=1_500)
    parser.add_argument("--customers", type=int, default=20_000)
    parser.add_argument("--newcomers", type=int, default=10_000)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--no-overload", dest="overload", action="store_false")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main() -> None:
    arguments = parsed()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.port)
        return
    if arguments.load is not None:
        import uvloop

        print(json.dumps(asdict(uvloop.run(_load(**arguments.load)))))
        return
    result = run(arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
