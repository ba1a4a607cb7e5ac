"""`./run drill service conditions`: plans with hostile conditions, at a real server with its worker.

One planner writes conditions that never end, take gigabytes or cannot be parsed, and has them evaluated in drafts, by
`POST /validate` and by `POST /plans`. Meanwhile other people look around, sign in with right passwords, edit drafts and
run jobs of their own. They must notice nothing, a cancelled job must end, and so must the server at SIGTERM.
"""

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from running_shop import CAMPAIGN, Served, running_plan, running_shop

from disco.office.keys.use_cases import create_key
from disco.office.people.use_cases import first_invitation, invite
from disco.office.sign_in.use_cases import accept_invitation
from disco.records.people import Role

_TEXT = "customer_id::VARCHAR"
ENDLESS = f"levenshtein(repeat({_TEXT}, 12000), repeat({_TEXT}, 12001)) > 0"
HOSTILE = {
    "levenshtein of long texts": ENDLESS,
    "jaccard of long texts": f"jaccard(repeat({_TEXT}, 10000000), repeat({_TEXT}, 10000001)) > 0.5",
    "gigabytes of text": f"length(repeat({_TEXT}, 2000000000)) > 0",
    "many megabytes of text": f"length(repeat({_TEXT}, 3000000)) > 0",
    "a catastrophe of regular expressions": f"regexp_matches(repeat('a', 20000000) || {_TEXT}, '(a*)*(a*)*b')",
    "a replacement by expressions": f"length(regexp_replace(repeat({_TEXT}, 500000), '.', 'xxxxxxxx', 'g')) > 0",
    "a recursion": "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t) > 0",
    "a cross join": "(SELECT count(*) FROM range(10000000) a, range(10000000) b) > 0",
    "a cross join of the table": "(SELECT count(*) FROM customers a, customers b, customers c, customers d) > 0",
    "a list of many numbers": "len(range(4000000000)) > 0",
    "a list sorted": "list_sort(range(200000000))[1] = 0",
    "a list of lists": f"len(list_transform(range(100000), x -> repeat({_TEXT}, 100000))) > 0",
    "an aggregated text": "(SELECT string_agg(repeat('x', 1000)) FROM range(10000000)) IS NOT NULL",
    "an error": "error((SELECT string_agg(customer_id) FROM customers))",
    "a long expression": " OR ".join(f"{_TEXT} = 'x{number}'" for number in range(20_000)),
    "deep nesting": "(" * 5_000 + "true" + ")" * 5_000,
    "nested functions": "upper(" * 900 + _TEXT + ")" * 900 + " = ''",
    "a file": "EXISTS (SELECT * FROM read_text('/etc/passwd'))",
    "no SQL": "((((",
}
PASSWORD = "correct horse battery staple"
MOST_P99_S, MOST_MEGABYTES, MOST_END_S = 1.0, 1_500, 30.0


def _plan(campaign: str, condition: str = "true") -> dict[str, Any]:
    plan = running_plan(campaign)
    return plan | {"customers": {**plan["customers"], "eligible": condition}}


@dataclass(slots=True)
class ConditionsDrill:
    """What people met who had nothing to do with the hostile planner."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[float] = field(default_factory=list)
    """Seconds of each ordinary job, from its request to its end."""
    drafts: list[float] = field(default_factory=list)
    """Seconds of each ordinary draft, from its request until its numbers are shown."""
    hostile: Counter[str] = field(default_factory=Counter)
    """How hostile jobs and drafts ended."""
    megabytes: dict[str, float] = field(default_factory=dict)
    """The largest resident memory of the server, the worker and the processes of conditions together."""
    calm_s: float = float("nan")
    """p99 of the same requests before anybody was hostile."""
    cancel_s: float = float("nan")
    end_s: float = float("nan")
    broken: list[str] = field(default_factory=list)
    """Promises that were not kept."""

    def p99(self) -> float:
        """Of all requests of other people together."""
        return float(np.quantile(np.concatenate([np.asarray(one) for one in self.seconds.values()]), 0.99))

    def table(self) -> str:
        """The figures."""
        lines = [f"{'request':<22}{'times':>7}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}  statuses"]
        for name, taken in self.seconds.items():
            figures = [1000 * float(np.quantile(taken, at)) for at in (0.5, 0.99, 1.0)]
            shown = dict(sorted(self.statuses[name].items()))
            lines.append(f"{name:<22}{len(taken):>7}" + "".join(f"{one:>9.0f}" for one in figures) + f"  {shown}")
        lines.append(f"all requests: p99 {1000 * self.p99():.0f} ms (before the attack {1000 * self.calm_s:.0f} ms)")
        for name, each in (("ordinary jobs", self.jobs), ("ordinary drafts", self.drafts)):
            if each:
                lines.append(f"{name}: {len(each)} done, median {np.median(each):.1f} s, longest {max(each):.1f} s")
        lines += [f"hostile, {ending}: {times}" for ending, times in sorted(self.hostile.items())]
        lines += [f"most memory of {name}: {size:,.0f} MB" for name, size in self.megabytes.items()]
        lines.append(f"cancelling a job in its condition took {self.cancel_s:.1f} s, SIGTERM {self.end_s:.1f} s")
        return "\n".join(lines + [f"BROKEN: {one}" for one in self.broken])

    began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Count from now on."""
        self.calm_s, self.began = self.p99(), time.monotonic()
        for counted in (self.statuses, self.seconds, self.jobs, self.drafts, self.megabytes):
            counted.clear()

    def check(self, *, timed: bool) -> None:
        """Note the promises that were not kept. timed: also those about seconds, which need a machine for itself."""
        for name, found in self.statuses.items():
            wrong = {status: times for status, times in found.items() if status not in (200, 202, 204)}
            if wrong:
                self.broken.append(f"{name}: replies {wrong} to somebody who did nothing wrong")
        if not self.jobs or not self.drafts:
            self.broken.append("no ordinary job or no ordinary draft was done meanwhile")
        for name in ("server", "worker"):
            if self.megabytes[name] > MOST_MEGABYTES:
                self.broken.append(f"the {name} took {self.megabytes[name]:,.0f} MB; expected {MOST_MEGABYTES:,}")
        if not self.end_s <= MOST_END_S:
            self.broken.append(f"SIGTERM took {self.end_s:.1f} s; expected {MOST_END_S:g}")
        if not self.cancel_s <= MOST_END_S:
            self.broken.append(f"cancelling took {self.cancel_s:.1f} s; expected {MOST_END_S:g}")
        if timed and not self.p99() <= MOST_P99_S:
            self.broken.append(f"p99 of other people's requests is {self.p99():.2f} s; expected {MOST_P99_S:g}")


class _Drill:
    def __init__(self, folder: Path, figures: ConditionsDrill, *, customers: int, pace: float) -> None:
        self.pace = pace
        self.shop = running_shop(folder / "shop", None, customers=customers)
        self.keys = {name: self._key(name) for name in ("mallory", "anna", "ben", "watch")}
        self._person("Carla")
        self.figures, self.over = figures, threading.Event()
        self.server = Served(self.shop.folder, folder / "server.log", worker=True)
        self._lock = threading.Lock()

    def _key(self, name: str) -> str:
        with self.shop.store() as store:
            return create_key(store, name=name, role=Role.PLANNER, expires=None, clock=self.shop.clock).key

    def _person(self, name: str) -> None:
        with self.shop.store() as store:
            first = first_invitation(store, self.shop.clock)
            if first is not None:
                accept_invitation(store, first.token, password=PASSWORD, name="Ada", clock=self.shop.clock)
            made = invite(store, name=name, role=Role.PLANNER, clock=self.shop.clock)
            accept_invitation(store, made.token, password=PASSWORD, clock=self.shop.clock)

    @contextmanager
    def beside(self, *loops: Callable[[], None]) -> Iterator[None]:
        """Run these until the end of the block."""
        threads = [threading.Thread(target=loop, name=loop.__name__, daemon=True) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join(120)

    # ---- the hostile planner

    def client(self, name: str) -> httpx.Client:
        return self.server.client(self.keys[name])

    def numbers(self, draft: str, revision: int) -> str:
        """Where a draft's numbers are."""
        return f"{self.server.url}/plan/{draft}/numbers?revision={revision}"

    def goes_on(self, seconds: float, *, least: int | None) -> bool:
        """Whether the part of the drill goes on: these seconds have not passed since the figures began, and others have
        not done so many jobs and drafts (None: as many as they can)."""
        if time.monotonic() - self.figures.began > seconds:
            return False
        return least is None or min(len(self.figures.jobs), len(self.figures.drafts)) < least

    def attack(self, conditions: dict[str, str], seconds: float, *, least: int | None) -> None:
        """Have every condition evaluated in a draft and by two kinds of jobs."""
        asked: list[str] = []
        with self.client("mallory") as client:
            for number, condition in enumerate(conditions.values()):
                plan = _plan(f"hostile-{number}", condition)
                kept = client.put(f"/drafts/hostile-{number}", json=plan)
                if kept.status_code == 200:
                    client.get(self.numbers(f"hostile-{number}", kept.json()["revision"]))
                else:
                    self.figures.hostile[f"draft refused with {kept.status_code}"] += 1
                for path, body in (("/validate", {"plan": plan}), ("/plans", plan)):
                    reply = client.post(path, json=body, headers={"idempotency-key": uuid4().hex})
                    if reply.status_code == 202:
                        asked.append(reply.json()["job"])
                    else:
                        self.figures.hostile[f"job refused with {reply.status_code}"] += 1
            while asked and self.goes_on(seconds, least=least) and not self.over.is_set():
                for number in range(len(conditions)):  # the pages of the drafts stay open
                    with suppress(httpx.HTTPError):
                        client.get(self.numbers(f"hostile-{number}", 1))
                for job in tuple(asked):
                    with suppress(httpx.HTTPError):
                        state = client.get(f"/jobs/{job}").json()["state"]
                        if state in ("done", "failed", "cancelled"):
                            asked.remove(job)
                            self.figures.hostile[f"job {state}"] += 1
                self.over.wait(0.5)
            self.figures.hostile["job still waiting at the end"] += len(asked)

    def cancelled(self) -> float:
        """Seconds from the cancel of a job in its condition to its end."""
        with self.client("watch") as client:
            body = {"plan": _plan("cancelled", ENDLESS)}
            job = client.post("/validate", json=body, headers={"idempotency-key": uuid4().hex}).json()["job"]
            if self._until(client, job, "running", 60) == float("inf"):
                return float("inf")  # it never began
            time.sleep(1.0)
            began = time.monotonic()
            client.post(f"/jobs/{job}/cancel")
            return self._until(client, job, "cancelled", 90) - began

    @staticmethod
    def _until(client: httpx.Client, job: str, state: str, seconds: float) -> float:
        """When a job is in this state, by the monotonic clock; infinity where that takes longer."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if client.get(f"/jobs/{job}").json()["state"] == state:
                return time.monotonic()
            time.sleep(0.1)
        return float("inf")

    # ---- everybody else

    def _asked(self, name: str, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response | None:
        began, reply, status = time.monotonic(), None, 0
        with suppress(httpx.HTTPError):
            reply = client.request(method, path, **more)
            status = reply.status_code
        if not self.over.is_set():
            with self._lock:
                self.figures.statuses[name][status] += 1
                self.figures.seconds[name].append(time.monotonic() - began)
        return reply

    def looks(self) -> None:
        paths = {"health": "/healthz", "campaign": f"/api/v1/campaigns/{CAMPAIGN}", "jobs": "/api/v1/jobs?limit=5"}
        with self.client("anna") as client:
            while not self.over.wait(0.1 * self.pace):
                for name, path in paths.items():
                    self._asked(name, client, "GET", f"{self.server.url}{path}")

    def signs_in(self) -> None:
        with httpx.Client(base_url=self.server.url, timeout=60) as client:
            while not self.over.wait(0.5 * self.pace):
                self._asked("sign-in", client, "POST", "/sign-in", json={"name": "Carla", "password": PASSWORD})
                client.cookies.clear()

    def edits(self) -> None:
        """Another condition in a draft of one's own, and its numbers."""
        with self.client("ben") as client:
            revision, number = 0, 0
            while not self.over.is_set():
                number += 1
                plan = _plan("ordinary", f"customer_id > {number}")
                match = {"if-match": f'"{revision}"'} if revision else {}
                reply = self._asked("put draft", client, "PUT", "/drafts/ordinary", json=plan, headers=match)
                if reply is None or reply.status_code != 200:
                    self.over.wait(0.5)
                    continue
                revision, began = reply.json()["revision"], time.monotonic()
                while not self.over.wait(0.2):
                    shown = self._asked("draft's numbers", client, "GET", self.numbers("ordinary", revision))
                    if shown is not None and 'id="opening"' not in shown.text and shown.status_code == 200:
                        if "Codes by depth" not in shown.text:
                            self.figures.broken.append(f"an ordinary draft has no numbers: {shown.text[:300]}")
                        self.figures.drafts.append(time.monotonic() - began)
                        break

    def works(self) -> None:
        """Ordinary jobs, one after the other."""
        with self.client("anna") as client:
            while not self.over.wait(0.2):
                body, key = {"plan": _plan("checked", "customer_id > 5")}, {"idempotency-key": uuid4().hex}
                began = time.monotonic()
                reply = self._asked("post job", client, "POST", "/validate", json=body, headers=key)
                if reply is None or reply.status_code != 202:
                    continue
                job, state = reply.json()["job"], ""
                while not self.over.wait(0.1) and state not in ("done", "failed", "cancelled"):
                    found = self._asked("job", client, "GET", f"/jobs/{job}")
                    state = "" if found is None or found.status_code != 200 else found.json()["state"]
                if state == "done":
                    self.figures.jobs.append(time.monotonic() - began)
                elif state in ("failed", "cancelled"):
                    self.figures.broken.append(f"an ordinary job is {state}")

    def weighs(self) -> None:
        """Watch the memory of all processes."""
        while not self.over.wait(0.1):
            found = _resident(self.server.process.pid)
            for name, size in found.items():
                self.figures.megabytes[name] = max(size, self.figures.megabytes.get(name, 0.0))


def _resident(server: int) -> dict[str, float]:
    """Resident megabytes of a server, of its worker, and of all processes that these have started."""
    found = {"server": _megabytes(server), "worker": 0.0, "conditions": 0.0}
    for child in _children(server):
        with suppress(OSError):
            is_worker = b"worker" in Path(f"/proc/{child}/cmdline").read_bytes()
            found["worker" if is_worker else "conditions"] += _megabytes(child)
            found["conditions"] += sum(map(_megabytes, _children(child)))
    return found


def _children(process: int) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, tasks.read_text().split())
    return found


def _megabytes(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


def conditions_drill(
    *,
    customers: int = 2_000,
    seconds: float = 180.0,
    calm_s: float = 20.0,
    least: int | None = None,
    hostile: dict[str, str] | None = None,
    pace: float = 1.0,
) -> ConditionsDrill:
    """Let one planner be hostile for so long, while others work. hostile: what they write; default: all of it.

    calm_s: how long the others work before. least: both end earlier, as soon as others have done so many jobs and
    drafts. pace: how many times longer others pause between looking around and signing in.
    """
    figures = ConditionsDrill()
    with TemporaryDirectory(prefix="disco-conditions-") as folder:
        drill = _Drill(Path(folder), figures, customers=customers, pace=pace)
        try:
            loops = (drill.looks, drill.signs_in, drill.edits, drill.works, drill.weighs)
            with drill.beside(*loops):
                figures.began = time.monotonic()
                while drill.goes_on(calm_s, least=least):
                    time.sleep(0.1)
                figures.begin()
                drill.attack(HOSTILE if hostile is None else hostile, seconds, least=least)
                figures.cancel_s = drill.cancelled()
                for name in ("mallory", "watch"):  # something has to run at SIGTERM
                    with drill.client(name) as client:
                        plan = _plan(f"last-{name}", f"{ENDLESS} AND '{name}' <> ''")
                        client.post("/validate", json={"plan": plan}, headers={"idempotency-key": uuid4().hex})
                        kept = client.put(f"/drafts/last-{name}", json=plan)
                        client.get(drill.numbers(f"last-{name}", kept.json()["revision"]))
                time.sleep(2.0)
            began = time.monotonic()
            with suppress(Exception):
                drill.server.end(signal.SIGTERM)
                figures.end_s = time.monotonic() - began
        finally:
            with suppress(Exception):
                drill.server.end(signal.SIGKILL)
    return figures


def main() -> int:
    """Print the figures; 1 where a promise is broken."""
    figures = conditions_drill()
    figures.check(timed=True)
    print(figures.table())
    return 1 if figures.broken else 0
