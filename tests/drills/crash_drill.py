"""`./run drill crash`: SIGKILL while a campaign is launched and outcomes are ingested, on both databases, many times.

After every kill: no acknowledged row is lost, none counts twice, nothing is there by halves, evidence is that of the
ledger. After every campaign that came through: decisions, applied rows and evidence equal those of a clean run, bit for
bit. Only kills that hit count; a kill at a call is seen in the trace of the process. A kill is no power cut: what the
operating system has taken over it still writes.
"""

import argparse
import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
from crash_kills import KILLS, Kill, kill_after, killed_at, traced
from crash_work import CUSTOMERS, Outcome, batches, check_after_crash, work
from many_processes import context
from small_life import launch_small
from stores import open_store
from trial_server import TrialServer, trial_server

from disco.records.errors import DiscoError
from disco.store import Store

_SECONDS = 120
_KILLS_PER_CAMPAIGN = 4
# seconds, or calls: about a third of a campaign's life, to begin with
_FIRST_REACH = {None: 0.3, "fsync": 30, "rename": 15, "pwrite64": 80, "fdatasync": 8, "unlink": 3, "sendto": 60}

Result = TypeVar("Result")


@dataclass(slots=True)
class Worker:
    """A process at work on one database, stopped before its first step until `go`."""

    process: Any
    messages: Any
    launched: bool = False
    done: bool = False
    refused: str | None = None
    acknowledged: dict[int, str] = field(default_factory=dict)

    @classmethod
    def started(cls, url: str, files: list[pa.Table], first: int) -> "Worker":
        processes = context()
        ours, theirs = processes.Pipe()
        process = processes.Process(target=work, args=(url, files, first, theirs), daemon=True)
        process.start()
        theirs.close()
        assert ours.poll(_SECONDS), "the worker never got ready"
        word, reason = ours.recv()
        assert word == "ready", reason
        return cls(process, ours)

    def go(self) -> None:
        self.messages.send("go")

    def wait(self) -> None:
        """Until it ends, one way or another; what it said before it ended counts."""
        self.process.join(_SECONDS)
        assert self.process.exitcode is not None, "the worker hangs"
        try:
            while self.messages.poll():
                word, content = self.messages.recv()
                self.launched |= word == "launched"
                self.done |= word == "done"
                if word == "refused":
                    self.refused = content
                elif isinstance(word, int):
                    self.acknowledged[word] = content
        except (EOFError, OSError):
            pass


@dataclass(slots=True)
class Drill:
    """Campaigns that are killed again and again, compared with one that was not."""

    folder: Path
    dice: random.Random
    server: TrialServer | None
    fired: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0
    files: list[pa.Table] = field(init=False)
    clean: Outcome = field(init=False)
    reach: dict[tuple[Kill, bool], float] = field(default_factory=dict)  # how far into the work a kill strikes

    def __post_init__(self) -> None:
        url = f"sqlite:///{self.folder / 'clean.db'}"
        store = open_store(url)
        launch_small(store, customers=CUSTOMERS)
        self.files = batches(store)
        worker = Worker.started(url, self.files, 0)
        worker.go()
        worker.wait()
        assert worker.done, worker.refused
        self.clean = Outcome.of(store)
        store.close()

    def campaign(self, kill: Kill, *, kills: int) -> int:
        """One campaign from launch to its last batch, with up to `kills` deaths on the way; how many there were."""
        url = self._new_database(kill)
        codes = self.clean.decisions["code"].drop_null().combine_chunks()
        launched, acknowledged, deaths = False, dict[int, str](), 0
        while True:
            first = max(acknowledged, default=-1) + 1 if launched else -1
            worker = Worker.started(url, self.files, first)
            hit = deaths < kills and self._interrupt(worker, kill, url, launching=first < 0)
            if deaths >= kills:
                worker.go()
            worker.wait()
            launched |= worker.launched
            acknowledged.update(worker.acknowledged)
            if worker.done and not hit:
                break
            assert hit, worker.refused
            deaths += 1
            self.fired[f"{kill}, in {'an ingest' if launched else 'a launch'}"] += 1
            store = self._reopened(url)
            check_after_crash(store, self.files, codes, launched=launched, acknowledged=acknowledged)
            store.close()
        store = self._reopened(url)
        assert Outcome.of(store) == self.clean, f"{kill}: not what a clean run gives"
        store.close()
        if kill.database == "postgresql":  # a server looks through all its files when it recovers
            self._running.execute(f"DROP DATABASE campaign_{self.campaigns} WITH (FORCE)")
        self.campaigns += 1
        return deaths

    def _interrupt(self, worker: Worker, kill: Kill, url: str, *, launching: bool) -> bool:
        """Let the worker go and kill; whether it hit before the work was done. What misses aims nearer next time, and
        every other worker that launches is struck early, so that launches are hit as well."""
        key = (kill, launching and self.dice.random() < 0.5)
        reach = self.reach.setdefault(key, _FIRST_REACH[kill.call] / (5 if key[1] else 1))
        victim = worker.process.pid if kill.victim == "process" else self._session(url)
        if kill.call is not None:
            log = self.folder / "trace"
            with traced(victim, kill.call, log, die_at=self.dice.randint(1, max(1, int(reach)))):
                worker.go()
                worker.wait()
            hit = killed_at(log, kill.call)
        else:
            victim = self._running.process_id if kill.victim == "server" else victim
            worker.go()
            hit = kill_after(victim, self.dice.uniform(0, reach))
            worker.wait()
            hit = hit and not worker.done
            if kill.victim == "server":
                self._restart()
        if kill.victim == "process":
            assert hit == (worker.process.exitcode == -signal.SIGKILL), "the kill did not do what it says"
        else:
            assert hit == (worker.refused is not None), "the worker did not notice that its server died"
        early_enough = hit and not (key[1] and worker.launched)
        self.reach[key] = reach * (1.2 if early_enough else 0.6)
        return hit

    def _new_database(self, kill: Kill) -> str:
        if kill.database == "sqlite":
            url = f"sqlite:///{self.folder / f'campaign-{self.campaigns}.db'}"
        else:
            name = f"campaign_{self.campaigns}"
            self._running.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            url = self._running.url(name)
        open_store(url).close()
        return url

    @property
    def _running(self) -> TrialServer:
        assert self.server is not None
        return self.server

    def _session(self, url: str) -> int:
        """The server's process behind the worker's connection: the youngest, because the dead ones linger."""
        database = url.rpartition("/campaign_")[2].partition("?")[0]
        found = self._running.execute(
            f"SELECT pid FROM pg_stat_activity WHERE datname = 'campaign_{database}' AND application_name = 'disco' "
            "ORDER BY backend_start DESC LIMIT 1"
        )
        return int(found[0][0])

    def _restart(self) -> None:
        """Start the server that was killed; its orphans must have noticed first."""
        _until(self._running.start)

    def _reopened(self, url: str) -> Store:
        """The store after a crash; a server may still be recovering."""
        return _until(lambda: open_store(url))


def _until(attempt: Callable[[], Result]) -> Result:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return attempt()
        except DiscoError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def drill(
    *, kills: int, seed: int, kinds: Sequence[Kill] = KILLS, say: Callable[[str], None] = lambda _: None
) -> Drill:
    """Kill that many times, each kind in turn; AssertionError names what went wrong."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="disco-crash-")))
        needs_server = any(kind.database == "postgresql" for kind in kinds)
        server = (
            stack.enter_context(trial_server("shared_buffers=32MB", "recovery_init_sync_method=syncfs"))
            if needs_server
            else None
        )
        running = Drill(folder, random.Random(seed), server)
        per_campaign = min(_KILLS_PER_CAMPAIGN, max(1, kills // len(kinds)))
        for turn in itertools.count():
            left = kills - running.fired.total()
            if left <= 0:
                return running
            kind = kinds[turn % len(kinds)]
            try:
                running.campaign(kind, kills=min(left, per_campaign))
            except AssertionError as error:
                error.add_note(f"{kind}, after {running.fired.total()} kills with seed {seed}")
                raise
            say(f"{running.fired.total():>4} kills, {running.campaigns} campaigns came through; last: {kind}")
    raise AssertionError("unreachable")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run drill crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    started = time.monotonic()
    done = drill(kills=asked.kills, seed=asked.seed, say=lambda text: print(text, file=sys.stderr))
    for kind, times in sorted(done.fired.items()):
        print(f"{times:>5}  {kind}")
    print(
        f"{done.fired.total()} kills hit; {done.campaigns} campaigns came through, equal to a clean run bit for bit; "
        f"no acknowledged row lost, none counted twice, no launch by halves ({time.monotonic() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
