"""A clock that tests set, and steps with jobs and replies that separate processes can take at once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stores import open_store

from disco.operations import drafts, jobs


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
        return str(drafts.begin_reply(store, "key", "hash", clock=Clock()).status)
    finally:
        store.close()
