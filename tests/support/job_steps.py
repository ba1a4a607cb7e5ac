"""A clock that tests set, and steps with jobs and replies that separate processes can take at once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

from stores import open_store

from disco.office.jobs import use_cases as jobs
from disco.records.jobs import JobKind
from disco.web import once as replies


@dataclass
class Clock:
    """Stands still until it is told to wait."""

    moment: datetime = datetime(2027, 3, 8, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def wait(self, **time: float) -> None:
        self.moment += timedelta(**time)


def work_off(url: str, name: str) -> list[str]:
    """Claim and finish until nothing is left; the ids of the jobs that were this worker's."""
    store, clock, done = open_store(url), Clock(), []
    while (job := jobs.claim(store, worker=name, clock=clock)) is not None:
        assert jobs.finish(store, job, f'"{name}"', clock=clock)
        done.append(job.id)
    store.close()
    return done


def begin_alike(url: str) -> str:
    """The status of the reply to one request."""
    store = open_store(url)
    try:
        return str(replies.begin_reply(store, "key", "hash", clock=Clock()).status)
    finally:
        store.close()


def endless_worker(shop: str) -> None:
    """A worker whose health checks take until something ends them."""
    from disco.entrypoints.python import Shop
    from disco.entrypoints.worker import RUNS, run_worker

    def work(shop: Shop, body: object, report: Any) -> None:
        for step in range(10_000):
            sleep(0.01)
            report(step, None, "steps")

    RUNS[JobKind.DOCTOR] = work  # type: ignore[index]
    run_worker(Shop.open(shop), grace_s=0.1, poll_s=0.05)
