"""`./run drill service servers`: two servers and two workers on one PostgreSQL and one artefact place, which are ended
by SIGTERM and SIGKILL at random moments and started again.

Two folders stand for two machines: each has its settings, tables and network; database and artefacts are shared. One
server runs a worker of its own, the other has one beside it. A campaign is learned and planned through one server and
launched through the other. At the end there is one model, one plan and one campaign, with the bytes of the command
line; the journal has one entry of each, and no process is left.
"""

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx
from many_processes import context
from running_shop import Served, key_of
from service_drill import DAY, LEASE, PLAN, Outcome, Reference, WorkerDrill
from trial_server import trial_server

from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker

VICTIMS = ("server with a worker", "server without a worker", "worker")
_SECONDS = 150
_LOOKS_S = 0.05
_PER_CAMPAIGN = 5


def work_on(shop: str) -> None:
    """A worker that waits for jobs, in a process of its own."""
    run_worker(Shop.open(shop), lease=LEASE, poll_s=0.05, grace_s=0.0)


class Machine:
    """A folder with a server over it, started again whenever it was ended."""

    def __init__(self, folder: Path, key: str, *, worker: bool) -> None:
        self.folder, self.log, self._key, self.worker = folder, folder.with_suffix(".log"), key, worker
        self.start()

    def start(self) -> None:
        self.server = Served(self.folder, self.log, worker=self.worker)

    def end(self, number: int) -> None:
        code = self.server.end(number)
        assert code == (0 if number == signal.SIGTERM else -number), self.log.read_text()[-2000:]

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        with self.server.client(self._key) as client:
            return client.request(method, path, json=body, headers={"idempotency-key": key} if key else {})


@dataclass(slots=True)
class ServersDrill(WorkerDrill):
    """Campaigns through two servers, compared with one by commands."""

    _machines: list[Machine] = field(init=False)  # the one that is asked for jobs, then the one that launches
    _worker: Any = field(init=False)  # beside the server that has none

    def through_servers(self, kills: int) -> None:
        """Learn and plan through one server, launch through the other, with so many ends of processes on the way."""
        name = f"campaign-{self.campaigns}"
        first = self._copy("postgresql", name)
        second = self._neighbour(first)
        key = key_of(Shop.open(first))
        with ExitStack() as stack:
            machines = [Machine(first, key, worker=True), Machine(second, key, worker=False)]
            for machine in machines:
                stack.callback(lambda machine=machine: machine.server.end(signal.SIGKILL))
            self._machines = machines
            self._start_worker(second)
            stack.callback(lambda: self._worker.kill())
            results, left = {}, kills
            self.dice.shuffle(machines)
            bodies: dict[str, tuple[str, Any]] = {
                "learn": ("/learn", {"campaigns": ["first"], "as_of": DAY}),
                "plan": ("/plans", PLAN),
            }
            for place, (kind, (path, body)) in enumerate(bodies.items()):
                here = -(-left // (3 - place))
                results[kind] = self._job(kind, path, body, kills=here)
                left -= here
            launch = {"plan_id": results["plan"]["plan_id"]}
            results["launch"] = self._launched(launch, kills=left)
            self._all_jobs_end()
            for machine in machines:
                machine.end(signal.SIGTERM)
            self._worker.terminate()
            self._worker.join(_SECONDS)
            assert self._worker.exitcode in (0, -signal.SIGTERM), "the worker did not end well"
        _refuse_leftovers(first, second)
        found, clean = Outcome.of(first, results), self.reference.clean
        assert found.results == clean.results, (found.results, clean.results)
        assert found == clean, "a model, plan or codes that are not those of the command line"
        self._compare_journal(first)
        self.campaigns += 1

    def _job(self, kind: str, path: str, body: Any, *, kills: int) -> dict[str, Any]:
        """The result of a job that was asked for at the first machine, and looked at through both."""
        key, end = uuid4().hex, time.monotonic() + _SECONDS
        job = self._repeated(self._machines[0], "POST", path, body, key=key).json()["job"]
        ended = 0
        while True:
            if kills and ended < kills:
                time.sleep(self.dice.uniform(0, 1.2 * self.reference.seconds[kind] / kills))
                ended += 1
                self._end_one(f"in a {kind}")
                again = self._repeated(self._machines[0], "POST", path, body, key=key).json()["job"]
                assert again == job, "the same request has made two jobs"
            machine = self.dice.choice(self._machines)
            found = self._repeated(machine, "GET", f"/jobs/{job}").json()
            if found["state"] == "done" and ended >= kills:
                if not kills:
                    assert found["attempts"] == 1, "a job was run twice"
                result: dict[str, Any] = found["result"]
                return result
            assert found["state"] in ("queued", "running", "done"), found
            assert time.monotonic() < end, found
            time.sleep(_LOOKS_S)

    def _launched(self, body: Any, *, kills: int) -> dict[str, Any]:
        """The reply to a launch at the other machine, whose server is ended while it works."""
        machine, key, answers = self._machines[1], uuid4().hex, []
        path = "/campaigns/second/launch"

        def ask() -> None:
            with suppress(httpx.TransportError):
                answers.append(machine.ask("POST", path, body, key=key))

        for _ in range(kills):
            asking = threading.Thread(target=ask)
            asking.start()
            time.sleep(self.dice.uniform(0, self.reference.seconds["launch"]))
            self._end_one("in a launch", victim=machine)
            asking.join(_SECONDS)
        for answer in answers:
            assert answer.status_code in (200, 409, 503), answer.text
        result: dict[str, Any] = self._repeated(machine, "POST", path, body, key=key).json()
        return result

    def _end_one(self, when: str, *, victim: Machine | None = None) -> None:
        """End a process by a signal, and start it again as a service manager would."""
        number = self.dice.choice((signal.SIGTERM, signal.SIGKILL))
        if victim is None:
            kind = VICTIMS[self.fired.total() % len(VICTIMS)]
            victim = next((one for one in self._machines if VICTIMS[not one.worker] == kind), None)
        else:
            kind = VICTIMS[not victim.worker]
        if kind == "worker":
            os.kill(self._worker.pid, number)
            self._worker.join(_SECONDS)
            # SIGTERM ends it well, unless it had just been started and did not listen yet
            assert self._worker.exitcode in (0 if number == signal.SIGTERM else -number, -number), self._worker.exitcode
            self._start_worker(next(one for one in self._machines if not one.worker).folder)
        else:
            assert victim is not None
            victim.end(number)
            victim.start()
        self.fired[f"{number.name} of a {kind} {when}"] += 1

    @staticmethod
    def _repeated(machine: Machine, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        """The reply of success to a request that is repeated while somebody else does the same."""
        end = time.monotonic() + _SECONDS
        while True:
            answer = machine.ask(method, path, body, key=key)
            if answer.is_success:
                return answer
            assert answer.status_code in (409, 503), answer.text
            assert answer.status_code == 503 or "reply-in-progress" in answer.json()["type"], answer.text
            assert time.monotonic() < end, answer.text
            time.sleep(_LOOKS_S)

    def _all_jobs_end(self) -> None:
        end = time.monotonic() + _SECONDS
        for state in ("queued", "running"):
            while self._repeated(self._machines[0], "GET", f"/jobs?state={state}").json()["items"]:
                assert time.monotonic() < end, f"jobs stay {state}"
                time.sleep(_LOOKS_S)

    def _start_worker(self, shop: Path) -> None:
        self._worker = context().Process(target=work_on, args=(str(shop),), daemon=True)
        self._worker.start()

    def _neighbour(self, first: Path) -> Path:
        """Another machine's folder: its own tables and network, the same database and artefacts."""
        second = first.with_name(f"{first.name}-neighbour")
        shutil.copytree(first, second, ignore=shutil.ignore_patterns("artefacts", "*.db*"))
        settings = second / "disco.yaml"
        place = json.dumps(str(Shop.open(first).artefacts.resolve()))
        settings.write_text(f"{settings.read_text()}\nartefacts: {place}\n")
        return second

    @staticmethod
    def _compare_journal(shop: Path) -> None:
        opened = Shop.open(shop)
        entries = opened.audit(after=0, limit=1000).entries
        for action, subject in (("learn", None), ("plan", "second"), ("launch", "second")):
            found = [one for one in entries if one.action == action and subject in (None, one.subject)]
            assert len(found) == 1, (action, [one.as_dict() for one in entries])
        assert opened.verify_audit().ok
        failed = opened.doctor().failed
        assert not failed, failed


def _refuse_leftovers(*shops: Path) -> None:
    """No process over these folders is left: a worker ends with its server, also where that was killed."""
    names, end = [str(shop).encode() for shop in shops], time.monotonic() + _SECONDS
    while left := [one for one in Path("/proc").glob("[0-9]*/cmdline") if any(name in _read(one) for name in names)]:
        assert time.monotonic() < end, f"processes are left: {[_read(one) for one in left]}"
        time.sleep(0.2)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def servers_drill(
    *,
    kills: int,
    seed: int,
    reference: Reference | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> ServersDrill:
    """End servers and workers that many times; AssertionError names what went wrong.

    reference: one that is there already.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="disco-service-")))
        server = stack.enter_context(trial_server("shared_buffers=32MB"))
        running = ServersDrill(folder, random.Random(seed), server, reference or Reference.made(folder))
        while running.campaigns == 0 or running.fired.total() < kills:
            try:
                running.through_servers(min(kills - running.fired.total(), _PER_CAMPAIGN))
            except AssertionError as error:
                error.add_note(f"after {running.fired.total()} kills with seed {seed}: {dict(running.fired)}")
                raise
            say(f"{running.fired.total():>4} ends, {running.campaigns} campaigns came through")
        return running
