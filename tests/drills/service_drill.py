"""`./run drill service [PART…]`: worker, SIGTERM and SIGKILL while a worker runs jobs, on both databases, at random
moments (the default); servers, two servers and two workers on one database (service_servers.py); postgres, PostgreSQL
stopped under load (service_postgres.py); api, hostile input (service_api_drill.py); slow, clients that send slowly or
without end (service_slow.py); tables, files that unpack to much (service_tables.py); conditions, hostile
conditions of plans (service_conditions.py).

A campaign is learned, planned and launched by jobs, one after the other. The worker that runs each of them is ended
again and again, and another one is started. At the end there is one version of the model, one plan and one campaign,
and the model, the decisions with their codes, and the results of the jobs are those of the command line, byte for byte.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import yaml
from many_processes import context
from trial_server import TrialServer, trial_server
from two_campaigns import FIRST, SECOND

from disco.entrypoints import cli
from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker
from disco.office.jobs import use_cases as jobs
from disco.operations.upkeep import audit
from disco.records.jobs import Job, JobState
from disco.store import Store

PARTS = ("worker", "servers", "postgres", "api", "slow", "tables", "conditions")
DAY = "2025-12-01"
_SECONDS = 120
LEASE = timedelta(seconds=1)
_KILLS_PER_CAMPAIGN = 4
# what depends on whether an earlier attempt had committed already: then nothing is new
_OF_THE_ATTEMPT = ("planned_at", "seconds", "changed", "again")
PLAN = json.loads(json.dumps(yaml.safe_load(SECOND), default=str))


def command(*arguments: object) -> dict[str, Any]:
    """The JSON of a `disco` command in this process."""
    before, sys.argv = sys.argv, ["disco", *map(str, arguments), "--json"]
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(err.getvalue()) from None
    finally:
        sys.argv = before
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def make_shop(folder: Path, *, customers: int) -> None:
    """A shop whose first campaign is over, and not learned yet."""
    folder.mkdir()
    (folder / "first.yaml").write_text(FIRST)
    (folder / "second.yaml").write_text(SECOND)
    data, codes, outcomes = folder / "data", folder / "codes.parquet", folder / "outcomes.parquet"
    command("simulate", "--customers", customers, "--seed", 7, "-o", data)
    window = ("--window-start", "2025-06-01", "--max-epochs", 1)
    command("train", "context", "--tables", data, *window, "-o", folder / "context.safetensors")
    command("plan", folder / "first.yaml", "--shop", folder)
    command("launch", "first", "--shop", folder)
    command("export", "first", "-o", codes, "--shop", folder)
    command("respond", data, codes, "-o", outcomes)
    command("ingest", "first", outcomes, "--shop", folder)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must be the same however often workers ended."""

    models: tuple[tuple[bytes, str], ...]
    plans: tuple[str, ...]
    codes: pa.Table
    results: Mapping[str, Any]

    @classmethod
    def of(cls, shop: Path, results: Mapping[str, Any]) -> "Outcome":
        plain = {kind: {key: one[key] for key in one if key not in _OF_THE_ATTEMPT} for kind, one in results.items()}
        opened = Shop.open(shop)
        with opened.store() as store:
            with store.reading() as transaction:
                models = tuple((one.basket, one.engagement) for one in transaction.beliefs.versions())
                plans = transaction.plans.ids()
            assert [one for one in audit(store) if one.failed] == [], "what is kept does not fit together"
        return cls(models, plans, opened.export("second").to_arrow(), plain)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        return (self.models, self.plans, self.results) == (other.models, other.plans, other.results) and bool(
            self.codes.equals(other.codes)
        )


def work(shop: str) -> None:
    """A worker that ends when nothing is due, in a process of its own."""
    run_worker(Shop.open(shop), until_idle=True, lease=LEASE, poll_s=0.02, grace_s=0.0)


@dataclass(frozen=True, slots=True)
class Reference:
    """A shop whose first campaign is over, and what commands make of it when nothing ends them."""

    first: Path
    backup: Path
    clean: Outcome
    seconds: Mapping[str, float]
    """Of each kind of job."""

    @classmethod
    def made(cls, folder: Path, *, customers: int = 600) -> "Reference":
        """Made in this folder, which exists."""
        first, backup, shop = folder / "first", folder / "shop.backup", folder / "reference"
        make_shop(first, customers=customers)
        command("backup", "-o", backup, "--shop", first)
        _restore(first, backup, shop)
        results: dict[str, Any] = {}
        seconds = {}
        for kind, arguments in cls._commands(shop).items():
            started = time.monotonic()
            results[kind] = command(*arguments(results), "--shop", shop)
            seconds[kind] = time.monotonic() - started
        return cls(first, backup, Outcome.of(shop, results), seconds)

    @staticmethod
    def _commands(shop: Path) -> dict[str, Callable[[Mapping[str, Any]], tuple[object, ...]]]:
        return {
            "learn": lambda _: ("learn", "first", "--as-of", DAY),
            "plan": lambda _: ("plan", shop / "second.yaml"),
            "launch": lambda done: ("launch", done["plan"]["plan_id"]),
        }

    def copy(self, shop: Path, *, url: str | None = None) -> Path:
        """The shop after its first campaign in another folder. url: of its database; None: an SQLite file."""
        environment = {} if url is None else {"DISCO_DATABASE_URL": url}
        os.environ.update(environment)
        try:
            _restore(self.first, self.backup, shop)
        finally:
            for variable in environment:
                del os.environ[variable]
        if url is not None:
            settings = shop / "disco.yaml"
            before = settings.read_text() if settings.exists() else ""
            settings.write_text(f"{before}\ndatabase_url: {json.dumps(url)}\n")
        return shop


def _restore(first: Path, backup: Path, shop: Path) -> None:
    command("restore", backup, "--shop", shop)
    shutil.copy(first / "second.yaml", shop / "second.yaml")
    shutil.copytree(first / "data", shop / "data", dirs_exist_ok=True)


@dataclass(slots=True)
class WorkerDrill:
    """Campaigns by jobs whose workers are ended, compared with one by commands."""

    folder: Path
    dice: random.Random
    server: TrialServer | None
    reference: Reference
    fired: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0

    def campaign(self, database: str, kills: int) -> None:
        """Learn, plan and launch by jobs, with up to `kills` ends of workers on the way."""
        shop = self._copy(database, f"campaign-{self.campaigns}")
        bodies: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "learn": lambda _: {"campaigns": ["first"], "as_of": DAY},
            "plan": lambda _: {"plan": PLAN},
            "launch": lambda done: {"plan_id": done["plan"]["plan_id"]},
        }
        results: dict[str, Any] = {}
        left = kills
        opened = Shop.open(shop)
        with opened.store() as store:
            for place, (kind, body) in enumerate(bodies.items()):
                here = -(-left // (len(bodies) - place))
                job = jobs.submit(store, kind, body(results), clock=opened.clock)
                job = self._ended(store, shop, job, database, kills=here)
                left -= here
                assert job.state is JobState.DONE, (job.state, job.problem)
                assert job.result is not None
                results[kind] = dict(job.result)
        found, clean = Outcome.of(shop, results), self.reference.clean
        assert found.results == clean.results, "results that are not those of the command line"
        assert found == clean, "a model, plan or codes that are not those of the command line"
        self.campaigns += 1

    def _ended(self, store: Store, shop: Path, job: Job, database: str, *, kills: int) -> Job:
        """The job in its final state, after up to so many ends of workers that were running it."""
        end = time.monotonic() + _SECONDS
        while not (job := jobs.get_job(store, job.id)).is_final:
            assert time.monotonic() < end, f"the job hangs ({job.state}, attempt {job.attempts})"
            processes = context()
            worker = processes.Process(target=work, args=(str(shop),), daemon=True)
            worker.start()
            begun = time.monotonic()
            while worker.is_alive():  # until it has the job
                now = jobs.get_job(store, job.id)
                if now.is_final or now.attempts > job.attempts:
                    break
                begun = time.monotonic()
                time.sleep(0.01)
            if kills > 0:
                time.sleep(max(0.0, begun + self.dice.uniform(0, self.reference.seconds[job.kind]) - time.monotonic()))
                number = self.dice.choice((signal.SIGTERM, signal.SIGKILL))
                if worker.is_alive() and jobs.get_job(store, job.id).state is JobState.RUNNING:
                    os.kill(worker.pid, number)
                    self.fired[f"{database}: {number.name} in a {job.kind}"] += 1
                    kills -= 1
            worker.join(_SECONDS)
            assert worker.exitcode is not None, "the worker did not end"
        return job

    def _copy(self, database: str, name: str) -> Path:
        if database != "postgresql":
            return self.reference.copy(self.folder / name)
        assert self.server is not None
        own = name.replace("-", "_")
        self.server.execute(f"CREATE DATABASE {own} TEMPLATE template0")
        return self.reference.copy(self.folder / name, url=self.server.url(own))


def worker_drill(
    *,
    kills: int,
    seed: int,
    databases: tuple[str, ...] = ("sqlite", "postgresql"),
    reference: Reference | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> WorkerDrill:
    """End workers that many times, on each database in turn; AssertionError names what went wrong.

    reference: one that is there already.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="disco-service-")))
        server = stack.enter_context(trial_server("shared_buffers=32MB")) if "postgresql" in databases else None
        running = WorkerDrill(folder, random.Random(seed), server, reference or Reference.made(folder))
        while (left := kills - running.fired.total()) > 0:
            assert running.campaigns < 10 + 3 * kills, "workers are too fast to be hit"
            database = databases[running.campaigns % len(databases)]
            try:
                running.campaign(database, min(left, _KILLS_PER_CAMPAIGN))
            except AssertionError as error:
                error.add_note(f"{database}, after {running.fired.total()} kills with seed {seed}")
                raise
            say(f"{running.fired.total():>4} ends, {running.campaigns} campaigns came through")
        return running


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run drill service", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["worker"], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--examples", type=int, default=100, help="generated requests per route")
    parser.add_argument("--stops", type=int, default=10, help="of PostgreSQL")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"found {', '.join(sorted(unknown))}; expected {', '.join(PARTS)}")
    if "api" in asked.parts:
        import service_api_drill

        if service_api_drill.main(asked.examples):
            sys.exit(1)
    if "conditions" in asked.parts:
        import service_conditions

        if service_conditions.main():
            sys.exit(1)
    broken = []
    if "slow" in asked.parts:
        from service_slow import slow_drill

        broken += slow_drill(say=print).problems
    if "tables" in asked.parts:
        from service_tables import tables_drill

        broken += tables_drill(say=print).problems
    if broken:
        print(*(f"BROKEN: {promise}" for promise in broken), sep="\n")
        sys.exit(1)
    started = time.monotonic()
    if "postgres" in asked.parts:
        from service_postgres import postgres_drill

        stopped = postgres_drill(stops=asked.stops, seed=asked.seed, say=lambda text: print(text, file=sys.stderr))
        print(
            f"{stopped.stops} stops of PostgreSQL under load ({stopped.seconds_away:.0f} s away in all, at most "
            f"{stopped.seconds_to_ready:.1f} s until ready again): {stopped.acknowledged} acknowledged writes, each "
            f"there once; replies {dict(sorted(stopped.writes.statuses.items()))} ({time.monotonic() - started:.0f} s)"
        )
    if "servers" in asked.parts:
        from service_servers import servers_drill

        started = time.monotonic()
        served = servers_drill(kills=asked.kills, seed=asked.seed, say=lambda text: print(text, file=sys.stderr))
        for kind, times in sorted(served.fired.items()):
            print(f"{times:>5}  {kind}")
        print(
            f"{served.fired.total()} servers and workers ended; {served.campaigns} campaigns came through, planned on "
            f"one server and launched on another, byte for byte ({time.monotonic() - started:.0f} s)"
        )
    if "worker" not in asked.parts:
        return
    started = time.monotonic()
    done = worker_drill(kills=asked.kills, seed=asked.seed, say=lambda text: print(text, file=sys.stderr))
    for kind, times in sorted(done.fired.items()):
        print(f"{times:>5}  {kind}")
    print(
        f"{done.fired.total()} workers ended; {done.campaigns} campaigns came through, each with one model, one plan "
        f"and one launch, equal to those of the command line byte for byte ({time.monotonic() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
