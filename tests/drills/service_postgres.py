"""`./run drill service postgres`: PostgreSQL is stopped in the middle (`pg_ctl stop -m immediate`) and started again,
while clients decide about late arrivals, send outcomes, write drafts and ask for jobs.

Each client repeats a write until it is acknowledged, and never sends it again afterwards. At the end every acknowledged
write is there once; meanwhile the service has answered with success, with what the write itself allows, or with 503 and
Retry-After; readiness was false and became true by itself; server and worker are the processes that they were.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx
from running_shop import CAMPAIGN, Served, ended, ended_at_last, key_of, running_plan, running_shop, start_worker
from trial_server import trial_server

from disco.entrypoints.python import Shop

_SECONDS = 90  # until a write is acknowledged, or readiness changes
_PAUSE_S = 0.05
_ANSWERED_WITHIN = (
    "from datetime import timedelta; from disco.web import once; once.ANSWERED_WITHIN = timedelta(seconds={}); "
)
_IN_PROGRESS = "urn:disco:problem:reply-in-progress"
_CONFLICT = "urn:disco:problem:conflict"


@dataclass
class Writes:
    """What was acknowledged, and how requests were answered."""

    late: dict[str, dict[str, Any]] = field(default_factory=dict)  # by customer
    events: set[str] = field(default_factory=set)  # of outcomes
    drafts: dict[str, int] = field(default_factory=dict)  # name → the last number written
    jobs: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Writer(threading.Thread):
    """One client: a write after the other, each until it is acknowledged."""

    def __init__(self, name: str, server: Served, key: str, codes: list[dict[str, Any]], writes: Writes) -> None:
        super().__init__(name=name, daemon=True)
        self._client, self._writes = server.client(key), writes
        self._dice, self._codes = random.Random(name), codes
        self._ordered_at = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
        self._plan = running_plan("next")
        self.warm, self.over = threading.Event(), threading.Event()

    def run(self) -> None:
        kinds = (self._late, self._late, self._late, self._outcome, self._draft, self._job)
        with self._client:
            try:
                for number, write in enumerate(kinds):
                    write(number)
                self.warm.set()
                while not self.over.is_set():
                    number += 1
                    self._dice.choice(kinds)(number)
            except Exception as error:  # the drill shows it
                self._writes.wrong.append(f"{self.name}: {type(error).__name__}: {error}")
            self.warm.set()

    def _late(self, number: int) -> None:
        customer = f"{int(self.name.removeprefix('client-')) + 1}{number:07}"  # nobody whom the shop knows
        answer = self._acknowledged("POST", f"/campaigns/{CAMPAIGN}/late", {"customer_id": customer})
        self._writes.late[customer] = answer.json()
        again = self._acknowledged("POST", f"/campaigns/{CAMPAIGN}/late", {"customer_id": customer})
        assert again.json() == answer.json(), "another decision about the same customer"

    def _outcome(self, number: int) -> None:
        if not self._codes:
            return
        code = self._codes.pop()
        event = f"{self.name}-{number}"
        row = {
            "event_id": event,
            "campaign_id": CAMPAIGN,
            "customer_id": code["customer_id"],
            "code": code["code_id"],
            "ordered_at": self._ordered_at,
            "full_price": 20 + number % 50,
            "kind": "purchase",
        }
        counts = self._acknowledged("POST", f"/campaigns/{CAMPAIGN}/outcomes", [row]).json()
        assert counts["applied"] + counts["duplicate"] == 1, counts  # a duplicate was done and not acknowledged
        self._writes.events.add(event)

    def _draft(self, number: int) -> None:
        last = self._writes.drafts.get(self.name, 0)
        headers = {} if not last else {"if-match": f'"{last}"'}
        plan = {"campaign": self.name, "number": last + 1}
        answer = self._acknowledged("PUT", f"/drafts/{self.name}", plan, headers=headers, allowed=(412, 428))
        if not answer.is_success:  # done, and not acknowledged: nobody else writes this draft
            answer = self._acknowledged("GET", f"/drafts/{self.name}")
        assert answer.json()["plan"] == plan, answer.text
        assert answer.json()["revision"] == last + 1, "a draft was written twice"
        self._writes.drafts[self.name] = last + 1

    def _job(self, number: int) -> None:
        answer = self._acknowledged("POST", "/validate", {"plan": self._plan})
        self._writes.jobs.add(answer.json()["job"])

    def _acknowledged(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> httpx.Response:
        """The reply to a request that is repeated under one key until it has one."""
        own, end = {"idempotency-key": uuid4().hex, **(headers or {})}, time.monotonic() + _SECONDS
        while True:
            answer = self._client.request(method, path, json=body, headers=own if method != "GET" else {})
            self._writes.statuses[answer.status_code] += 1
            if answer.is_success or answer.status_code in allowed:
                return answer
            problem = answer.json()
            passing = answer.status_code == 503 or problem["type"] in (_IN_PROGRESS, _CONFLICT)
            assert passing, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.status_code != 503 or int(answer.headers["retry-after"]) >= 1
            assert time.monotonic() < end, f"{method} {path}: not acknowledged: {answer.text[:500]}"
            time.sleep(_PAUSE_S)


@dataclass
class PostgresDrill:
    """What was seen."""

    stops: int
    writes: Writes
    seconds_away: float  # of the database, in all
    seconds_to_ready: float  # the longest, from PostgreSQL's start

    @property
    def acknowledged(self) -> int:
        found = self.writes
        return len(found.late) + len(found.events) + sum(found.drafts.values()) + len(found.jobs)


def postgres_drill(
    *,
    stops: int,
    seed: int,
    clients: int = 6,
    answered_within_s: float = 60.0,
    say: Callable[[str], None] = lambda _: None,
) -> PostgresDrill:
    """Stop PostgreSQL that many times under load; AssertionError names what went wrong.

    answered_within_s: after so long a request whose reply is not known may be repeated. A stop leaves such requests,
    and the drill waits for them.
    """
    dice = random.Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="disco-service-")))
        database = stack.enter_context(trial_server("shared_buffers=32MB"))
        database.execute("CREATE DATABASE shop TEMPLATE template0")
        shop = running_shop(folder / "shop", database.url("shop"))
        key, log = key_of(shop), folder / "log"
        codes = [
            {name: str(one[name]) for name in ("customer_id", "code_id")}
            for one in shop.export(CAMPAIGN).to_arrow().to_pylist()
        ]
        server = Served(shop.folder, log, worker=False, before=_ANSWERED_WITHIN.format(answered_within_s))
        worker = start_worker(shop.folder, folder / "worker.log")
        stack.enter_context(ended_at_last(server.process, worker))
        writes = Writes()
        writers = [Writer(f"client-{number}", server, key, codes, writes) for number in range(clients)]
        for writer in writers:
            writer.start()
        away, slowest = 0.0, 0.0
        try:
            assert all(writer.warm.wait(_SECONDS) for writer in writers), "a client hangs"
            assert not writes.wrong, writes.wrong
            _await_jobs(server, key, writes)
            for number in range(stops):
                time.sleep(dice.uniform(1.0, 4.0))
                assert _ready(server), "not ready before the stop"
                stopped = time.monotonic()
                database.stop()
                _becomes(server, ready=False)
                time.sleep(dice.uniform(0.0, 1.5))
                assert not _ready(server), "ready without a database"
                database.start()
                started = time.monotonic()
                _becomes(server, ready=True)
                away += started - stopped
                slowest = max(slowest, time.monotonic() - started)
                assert not writes.wrong, writes.wrong
                say(f"{number + 1:>4} stops, {sum(writes.statuses.values()):,} requests")
            time.sleep(1.0)
        finally:
            for writer in writers:
                writer.over.set()
            for writer in writers:
                writer.join(_SECONDS + 30)
        assert not writes.wrong, writes.wrong
        assert not any(writer.is_alive() for writer in writers), "a client hangs"
        _await_jobs(server, key, writes)
        assert server.process.poll() is None, log.read_text()[-2000:]
        assert worker.poll() is None, (folder / "worker.log").read_text()[-2000:]
        _compare(shop, writes)
        assert server.end() == 0, log.read_text()[-2000:]
        assert ended(worker) == 0, (folder / "worker.log").read_text()[-2000:]
        assert '"status": 500' not in log.read_text()
        return PostgresDrill(stops, writes, away, slowest)


def _ready(server: Served) -> bool:
    assert httpx.get(f"{server.url}/healthz", timeout=_SECONDS).status_code == 200
    answer = httpx.get(f"{server.url}/readyz", timeout=_SECONDS)
    assert answer.status_code in (200, 503), answer.text
    assert answer.status_code == 200 or "retry-after" in answer.headers
    return answer.status_code == 200


def _becomes(server: Served, *, ready: bool) -> None:
    end = time.monotonic() + _SECONDS
    while _ready(server) is not ready:
        assert time.monotonic() < end, f"readiness does not become {ready}"
        time.sleep(_PAUSE_S)


def _await_jobs(server: Served, key: str, writes: Writes) -> None:
    """Every job that was acknowledged is done, by the worker that was there from the beginning."""
    end = time.monotonic() + _SECONDS
    with server.client(key) as client:
        for job in sorted(writes.jobs.copy()):
            while (found := client.get(f"/jobs/{job}").json())["state"] in ("queued", "running"):
                assert time.monotonic() < end, f"job {job} is not done: {found}"
                time.sleep(_PAUSE_S)
            assert found["state"] == "done", found


def _compare(shop: Shop, writes: Writes) -> None:
    """What is kept is what was acknowledged, each once."""
    from disco.office.drafts.use_cases import list_drafts
    from disco.office.jobs.use_cases import list_jobs
    from disco.operations.late import late_so_far

    with shop.store() as store:
        late = late_so_far(store, CAMPAIGN)
        drafts = {one.name: one.revision for one in list_drafts(store).items}
        kept_jobs, after = set(), None
        while True:
            page = list_jobs(store, after=after, limit=200, kind="validate")
            kept_jobs |= {one.id for one in page.items}
            if (after := page.next) is None:
                break
    found = {str(one.customer_id): (one.depth, one.code) for one in late}
    assert len(found) == len(late), "a customer has two decisions"
    assert found == {name: (one["depth"], one["code"]) for name, one in writes.late.items()}, "late decisions differ"
    codes = [code for _, code in found.values() if code is not None]
    assert len(set(codes)) == len(codes), "a code was given twice"
    (campaign,) = shop.campaigns(CAMPAIGN).campaigns
    assert sum(batch.applied for batch in campaign.batches) == len(writes.events), "outcomes are lost or count twice"
    assert drafts == writes.drafts, "drafts differ"
    assert kept_jobs == writes.jobs, "jobs are lost or were made twice"
    assert shop.verify_audit().ok, "the journal does not verify"
    failed = shop.doctor().failed
    assert not failed, failed
