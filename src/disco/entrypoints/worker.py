"""`disco worker`: takes jobs from the database and runs the use cases of the command line, so that bytes are equal.

A job runs in a thread, beside another that prolongs its lease. One job works at a time (`Turn`); a job whose plan has a
slow condition, which runs in a process of its own, lets jobs of other people go first. Cancelling is cooperative:
between chunks of heavy work, epochs and passes, and while a condition runs. At SIGTERM the job that works gets a time
of grace; then all are given back, and the process ends at once: every write survives a sudden end, while an exception
at any place might leave a lock or a connection behind. A worker that is killed says nothing: its lease ends, and the
next one runs the job again.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from secrets import token_hex
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from disco.adapters.conditions import Turn
from disco.adapters.sentences import in_words
from disco.entrypoints.use_cases import USE_CASES
from disco.office.jobs import bodies
from disco.office.jobs import use_cases as jobs
from disco.office.schedules.use_cases import submit_due
from disco.office.webhooks.use_cases import MOST_DELIVERIES, Send, deliver, pause_before
from disco.operations.notices import tell_of_due
from disco.operations.outbox import tell
from disco.records import VERSION
from disco.records.chunks import Report
from disco.records.errors import (
    ConflictError,
    DeliveryError,
    DiscoError,
    NotFoundError,
    UnavailableError,
    UpgradeError,
)
from disco.records.jobs import LEASE, MOST_ATTEMPTS, Event, Job, JobKind, JobProgress
from disco.records.result import Result
from disco.store import JOBS

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.store import Store

POLL_S = 1.0
GRACE_S = 20.0
SCHEDULES_S = 5.0  # between two looks at the schedules
NOTICES_S = 600.0  # between two looks for outcomes that are late and results that are ready
_MOST_JOBS = 4  # that have begun: one works, and the others wait for a slow condition or their next turn
_REPORTS_S = 0.5  # between two writings of a job's progress
_FIRST_RETRY_S = 2.0  # after an error of the database that may pass; doubled with every attempt
_PASSING = (UnavailableError, ConflictError)
_LAST_WRITE_S = 5.0  # to give a job back before the process ends; if it takes longer, its lease ends by itself


class _Stopped(BaseException):
    """The job has to end: it was cancelled, or lost to another worker."""


RUNS: dict[JobKind, Callable[["Shop", Any, Report], Result]] = {
    case.job: case.do for case in USE_CASES if case.job is not None
}
"""The same use cases as the command line's, by kind of job."""


def _watch_guardrails(shop: "Shop", job: Job) -> None:
    """Look at the guardrails of the campaign that a job checks, before the check: it may fail for want of a table."""
    from disco.operations.guardrails import watch

    campaign = job.body.get("campaign")
    if job.kind is JobKind.CHECK and isinstance(campaign, str):
        with suppress(NotFoundError), shop.store() as store:  # the check says that there is no such campaign
            watch(store, campaign, clock=shop.clock)


def _tell_of_check(shop: "Shop", job: Job, result: Result) -> None:
    """Tell webhooks that a check has failed: once per job, however often it is run."""
    from disco.operations.upkeep import CheckResult

    if isinstance(result, CheckResult) and result.failed:
        failed = list(dict.fromkeys(one.check for one in result.diagnoses if one.failed))
        told = {"campaign": job.body.get("campaign"), "failed": failed, "job": job.id}
        with shop.store() as store, store.writing(JOBS, action="tell webhooks") as transaction:
            now = shop.clock.now()
            tell(transaction, Event.CHECK_FAILED, told, actor=job.actor, now=now, once=f"check:{job.id}")


# ---- the worker ----


def run_worker(
    shop: "Shop",
    *,
    stop: threading.Event | None = None,
    until_idle: bool = False,
    lease: timedelta = LEASE,
    grace_s: float = GRACE_S,
    poll_s: float = POLL_S,
    say: Callable[[str], None] = lambda _: None,
    send: Send | None = None,
) -> jobs.WorkDone:
    """Run jobs until a signal or `stop` ends it. until_idle: end when no job is due.

    In the main thread SIGTERM and SIGINT end it. In another thread, as in an embedded server, only `stop` does.
    say: is told a line about each job, without ids of customers. send: posts webhook deliveries; default: by HTTP.
    """
    from disco.adapters.config import smtp_password
    from disco.office.webhooks.delivery import HttpSender
    from disco.office.webhooks.mail import MAIL, MailSender

    with shop.held() as held:
        worker = _Worker(held, lease=lease, grace_s=grace_s, poll_s=poll_s, say=say, stop=stop)
        kind = shop.database_url.partition(":")[0].partition("+")[0]
        place = f"shop {shop.folder.absolute()}, database {kind}, engine {shop.settings.engine}"
        say(f"worker {worker.name} of disco {VERSION} begins: {place}")
        http = send or HttpSender(private=shop.settings.webhooks_private)
        mail = MailSender(shop.settings.smtp, None if shop.settings.smtp is None else smtp_password(os.environ))

        def sender(url: str, headers: Mapping[str, str], body: bytes) -> int:
            return (mail if url.startswith(MAIL) else http)(url, headers, body)

        with _Deliveries(worker, sender, until_idle=until_idle) as deliveries:
            done = worker.run(until_idle=until_idle)
        return jobs.WorkDone(jobs=done + deliveries.done)


@dataclass(slots=True)
class _Worker:
    shop: "Shop"  # held open
    lease: timedelta
    grace_s: float
    poll_s: float
    say: Callable[[str], None]
    stop: threading.Event | None
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}-{token_hex(3)}")
    ending: bool = False  # a signal asked for the end
    deadline: float | None = None  # of the running jobs, by the monotonic clock; they are given back then
    running: dict[str, Job] = field(default_factory=dict)  # jobs that have begun, by id
    working: threading.Lock = field(default_factory=threading.Lock)  # held by the job that works
    exiting: threading.Lock = field(default_factory=threading.Lock)
    next_look: float = 0.0  # at the schedules, by the monotonic clock
    next_notices: float = 0.0  # at what is due of campaigns

    @property
    def store(self) -> "Store":
        return cast("Store", self.shop.held_store)

    def run(self, *, until_idle: bool) -> int:
        done, threads = 0, list[threading.Thread]()
        with self._signals():
            try:
                while not self._is_ending():
                    if len(self.running) >= _MOST_JOBS:
                        self._sleep()
                    elif self.working.acquire(timeout=self.poll_s):
                        job = self._claimed()
                        if job is not None:
                            threads = [thread for thread in threads if thread.is_alive()]
                            threads.append(threading.Thread(target=self._run_job, args=(job,), name=f"job {job.id}"))
                            threads[-1].start()
                            done += 1
                        elif until_idle and not self.running:
                            break
                        else:
                            self._sleep()
            finally:
                for thread in threads:
                    while thread.is_alive():  # a signal is heard between two waits
                        thread.join(self.poll_s)
        return done

    def _claimed(self) -> Job | None:
        """A job that begins and holds the turn to work; None: there is none, and the turn is free again."""
        job = None
        try:
            self._look_at_schedules()
            # at most one job of each person, so that one person's slow conditions cannot fill the worker
            busy = {begun.actor.name for begun in tuple(self.running.values())}
            job = jobs.claim(self.store, worker=self.name, clock=self.shop.clock, lease=self.lease, not_of=busy)
        except _PASSING as error:
            self.say(f"the database is not available ({type(error).__name__}); trying again")
        finally:
            if job is None:
                self.working.release()
            else:
                self.running[job.id] = job
        return job

    def _look_at_schedules(self) -> None:
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + SCHEDULES_S
            try:
                self._look_at_campaigns()
                due = submit_due(self.store, clock=self.shop.clock)
            except (*_PASSING, UpgradeError):
                raise
            except DiscoError as error:  # jobs that people asked for are done all the same
                self.say(f"the schedules cannot be followed ({type(error).__name__}); `disco doctor` may say why")
                return
            for job in due:
                self.say(f"job {job.id} ({job.kind}): asked for by schedule {job.schedule_id}")

    def _look_at_campaigns(self) -> None:
        """For outcomes that are late and results that are ready."""
        if time.monotonic() >= self.next_notices:
            self.next_notices = time.monotonic() + NOTICES_S
            tell_of_due(self.store, clock=self.shop.clock)

    def is_over(self) -> bool:
        """Whether a signal has asked for the end, and the jobs have had their time or only wait for conditions."""
        return self.deadline is not None and (time.monotonic() >= self.deadline or not self.working.locked())

    def _is_ending(self) -> bool:
        return self.ending or (self.stop is not None and self.stop.is_set())

    def _sleep(self) -> None:
        if self.stop is not None:
            self.stop.wait(self.poll_s)
        else:
            time.sleep(self.poll_s)

    def _run_job(self, job: Job) -> None:
        started = time.monotonic()
        clock, store = self.shop.clock, self.store
        watch, turn = _Watch(self, job), Turn(self.working, is_held=True)
        try:
            with watch:
                result = self._result(job, watch, turn)
        except _Stopped:
            state = "lost"
            if watch.cancelled:
                state = "cancelled" if self._settled(lambda: jobs.stop(store, job, clock=clock)) else "lost"
        except Exception as error:
            state = self._failed(job, error)
        else:
            state = "done" if self._settled(lambda: jobs.finish(store, job, result, clock=clock)) else "lost"
        finally:
            del self.running[job.id]
            turn.leave()
        self.say(f"job {job.id} ({job.kind}, attempt {job.attempts}): {state} after {time.monotonic() - started:.1f} s")

    def _result(self, job: Job, watch: "_Watch", turn: Turn) -> str:
        body = bodies.read_body(job.kind, dict(job.body))
        shop = replace(self.shop, held_store=self.store.by(job.actor), watch=watch.point, turn=turn)
        _watch_guardrails(shop, job)
        result = RUNS[job.kind](shop, body, watch.report)
        _tell_of_check(shop, job, result)
        return result.to_json()

    def _failed(self, job: Job, error: Exception) -> str:
        again = None
        if isinstance(error, _PASSING) and job.attempts < MOST_ATTEMPTS:
            again = timedelta(seconds=_FIRST_RETRY_S * 2 ** (job.attempts - 1))
        kept = self._settled(lambda: jobs.fail(self.store, job, in_words(error), clock=self.shop.clock, retry_in=again))
        what = "failed" if again is None else "to be tried again"
        return f"{what} ({type(error).__name__})" if kept else "lost"

    def _settled(self, write: Callable[[], bool]) -> bool:
        """Write how a job ended, also where the database is away for a while; False where the job is lost."""
        end = time.monotonic() + self.lease.total_seconds()
        while True:
            try:
                return write()
            except _PASSING:
                if time.monotonic() > end:
                    return False
                time.sleep(self.poll_s)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Hear SIGTERM and SIGINT; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """End after the running job, or after the time of grace; asked for a second time: now."""
        self.deadline = time.monotonic() + (0.0 if self.ending else self.grace_s)
        self.ending = True


class _Watch:
    """Prolongs the lease of a running job, and tells it when it has to end."""

    def __init__(self, worker: _Worker, job: Job) -> None:
        self._worker, self._job = worker, job
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease of {job.id}", daemon=True)
        self._last_report = 0.0
        self.cancelled = False
        self.lost = False

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def point(self) -> None:
        """Between two pieces of work: end the job where it has to end."""
        if self.cancelled or self.lost:
            raise _Stopped

    def report(self, done: int, total: int | None, stage: str) -> None:
        self.point()
        now = time.monotonic()
        if done == total or now - self._last_report >= _REPORTS_S:
            self._last_report = now
            self._prolong(JobProgress(done=done, total=total, stage=stage))
            self.point()

    def _prolong(self, progress: JobProgress | None = None) -> None:
        worker = self._worker
        with suppress(*_PASSING):  # the next one may succeed; if none does, the lease ends and the job is lost
            now = jobs.beat(worker.store, self._job, clock=worker.shop.clock, lease=worker.lease, progress=progress)
            self.lost, self.cancelled = now is None, now is not None and now.cancel_requested

    def _beat(self) -> None:
        every = self._worker.lease.total_seconds() / 4
        next_beat = time.monotonic() + every
        while not self._over.wait(min(every, self._worker.poll_s)):
            try:
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + every
                    self._prolong()
                elif not self.cancelled:
                    self.cancelled = jobs.is_cancelled(self._worker.store, self._job)
            except (DiscoError, OSError) as error:  # the thread goes on: the next one may succeed
                self._worker.say(f"job {self._job.id}: its lease could not be prolonged ({type(error).__name__})")
            if self._worker.is_over():
                self._end_at_once()

    def _end_at_once(self) -> None:
        """Give the running jobs back, and end the process in the middle of them."""
        worker = self._worker
        with worker.exiting:
            given = tuple(worker.running.values())
            backs = [threading.Thread(target=self._give_back, args=(job,), daemon=True) for job in given]
            for back in backs:
                back.start()
            end = time.monotonic() + _LAST_WRITE_S
            for back in backs:
                back.join(max(0.0, end - time.monotonic()))
            if worker.running:  # else they were done in the last moment
                for job in given:
                    worker.say(f"job {job.id} ({job.kind}, attempt {job.attempts}): given back")
                os._exit(0)

    def _give_back(self, job: Job) -> None:
        jobs.give_back(self._worker.store, job, clock=self._worker.shop.clock)


class _Deliveries:
    """Delivers to webhooks in a thread of its own, so that plans and slow receivers do not wait for each other."""

    def __init__(self, worker: _Worker, send: Send, *, until_idle: bool) -> None:
        self._worker, self._send, self._until_idle = worker, send, until_idle
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self.done = 0

    def __enter__(self) -> "_Deliveries":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._deliver_one() and self._over.wait(self._worker.poll_s):
                break
        while self._until_idle and self._deliver_one():  # what the last jobs have told
            pass

    def _deliver_one(self) -> bool:
        """Whether there was one to deliver."""
        worker = self._worker
        clock, store = worker.shop.clock, worker.store
        kinds = {JobKind.WEBHOOK}
        try:
            job = jobs.claim(
                store,
                worker=worker.name,
                clock=clock,
                lease=worker.lease,
                kinds=kinds,
                most_attempts=MOST_DELIVERIES,
            )
            if job is None:
                return False
            self.done += 1
            try:
                told = deliver(store, job, send=self._send, clock=clock)
            except DeliveryError as error:
                again = pause_before(job.attempts, job.id)
                jobs.fail(store, job, error, clock=clock, retry_in=again)
                worker.say(f"job {job.id} (webhook, attempt {job.attempts}): not delivered")
            except (*_PASSING, UpgradeError):
                raise
            except Exception as error:  # one that nobody expected must not end the deliveries of all others
                jobs.fail(store, job, in_words(error), clock=clock)
                worker.say(f"job {job.id} (webhook, attempt {job.attempts}): failed ({type(error).__name__})")
            else:
                jobs.finish(store, job, told.to_json(), clock=clock)
                worker.say(f"job {job.id} (webhook, attempt {job.attempts}): delivered")
        except (*_PASSING, UpgradeError):  # the database is away: what was sent is sent again, under the same id
            return False
        return True
