"""One suite over every store: jobs have one owner, drafts lose no change, and a request has one reply."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from job_steps import Clock, begin_alike, work_off
from many_processes import at_once
from stores import open_store

from disco.office.drafts import use_cases as drafts
from disco.office.jobs import use_cases as jobs
from disco.records.errors import (
    InputError,
    NotFoundError,
    ReplyConflictError,
    ReplyInProgressError,
    RevisionError,
    RevisionMissingError,
    StateError,
)
from disco.records.jobs import LEASE, MOST_ATTEMPTS, MOST_RESULT_BYTES, JobKind, JobProgress, JobState
from disco.records.people import Actor, ActorKind
from disco.store import JOBS, Store
from disco.web import once as replies


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url)
    yield store
    store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_job_is_kept_claimed_and_done(store: Store, clock: Clock) -> None:
    zoe = store.by(Actor("Zoë", ActorKind.PERSON))
    asked = jobs.submit(zoe, "check", {"campaign": "späti"}, clock=clock)
    assert asked == jobs.get_job(store, asked.id) == jobs.get_job(store, asked.id[:6])
    assert (asked.state, asked.kind, asked.attempts) == (JobState.QUEUED, JobKind.CHECK, 0)
    assert (asked.actor, asked.created_at) == (Actor("Zoë", ActorKind.PERSON), clock.now())
    assert asked.as_dict()["body"] == {"campaign": "späti"}
    assert "number" not in asked.as_dict()

    clock.wait(seconds=5)
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    assert (taken.id, taken.state, taken.attempts, taken.worker) == (asked.id, JobState.RUNNING, 1, "one")
    assert (taken.started_at, taken.lease_until) == (clock.now(), clock.now() + LEASE)
    assert jobs.claim(store, worker="two", clock=clock) is None

    assert jobs.beat(store, taken, clock=clock, progress=JobProgress(done=3, total=7, stage="steps"))
    assert jobs.get_job(store, asked.id).progress == JobProgress(done=3, total=7, stage="steps")
    assert jobs.finish(store, taken, '{"failed": false, "x": 0.1}', clock=clock)
    done = jobs.get_job(store, asked.id)
    assert (done.state, done.result, done.finished_at) == (JobState.DONE, {"failed": False, "x": 0.1}, clock.now())
    assert done.lease_until is None
    assert jobs.claim(store, worker="two", clock=clock) is None


def test_a_job_of_a_lost_worker_is_taken_over_and_the_lost_one_cannot_write(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "learn", {}, clock=clock)
    first = jobs.claim(store, worker="one", clock=clock)
    assert first is not None
    clock.wait(seconds=40)
    assert jobs.beat(store, first, clock=clock)  # alive: the lease goes on from here
    clock.wait(seconds=59)
    assert jobs.claim(store, worker="two", clock=clock) is None
    clock.wait(seconds=2)
    second = jobs.claim(store, worker="two", clock=clock)
    assert second is not None
    assert (second.id, second.attempts, second.worker) == (asked.id, 2, "two")

    assert jobs.beat(store, first, clock=clock) is None
    assert not jobs.finish(store, first, '"of the lost one"', clock=clock)
    assert not jobs.fail(store, first, StateError("lost"), clock=clock)
    assert not jobs.give_back(store, first, clock=clock)
    assert not jobs.stop(store, first, clock=clock)
    assert jobs.get_job(store, asked.id).state is JobState.RUNNING
    assert jobs.finish(store, second, '{"by": "two"}', clock=clock)
    assert not jobs.finish(store, second, '{"by": "two, again"}', clock=clock)
    assert jobs.get_job(store, asked.id).result == {"by": "two"}


def test_the_same_worker_in_a_later_attempt_is_another_owner(store: Store, clock: Clock) -> None:
    jobs.submit(store, "learn", {}, clock=clock)
    first = jobs.claim(store, worker="one", clock=clock)
    clock.wait(minutes=2)
    again = jobs.claim(store, worker="one", clock=clock)
    assert first is not None
    assert again is not None
    assert not jobs.finish(store, first, "1", clock=clock)
    assert jobs.finish(store, again, "2", clock=clock)


def test_a_job_that_ends_every_worker_fails(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "train", {}, clock=clock)
    for attempt in range(MOST_ATTEMPTS):
        taken = jobs.claim(store, worker=f"worker {attempt}", clock=clock)
        assert taken is not None
        assert taken.attempts == attempt + 1
        clock.wait(minutes=2)
    assert jobs.claim(store, worker="the next", clock=clock) is None
    failed = jobs.get_job(store, asked.id)
    assert failed.state is JobState.FAILED
    assert failed.problem is not None
    assert "lost 5 times" in failed.problem.message


def test_a_worker_that_has_to_end_gives_its_job_back_and_no_attempt_is_counted(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "train", {}, clock=clock)
    for turn in range(2 * MOST_ATTEMPTS):
        taken = jobs.claim(store, worker=f"worker {turn}", clock=clock)
        assert taken is not None
        assert jobs.give_back(store, taken, clock=clock)
        assert not jobs.finish(store, taken, "1", clock=clock)
    back = jobs.get_job(store, asked.id)
    assert (back.state, back.attempts, back.lease_until) == (JobState.QUEUED, 0, None)


def test_a_failed_job_says_what_the_command_line_would(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "launch", {"plan_id": "x"}, clock=clock)
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    assert jobs.fail(store, taken, StateError("There is no plan x", fix="See `disco plan`."), clock=clock)
    failed = jobs.get_job(store, asked.id)
    assert failed.state is JobState.FAILED
    assert failed.as_dict()["problem"] == {
        "error": "StateError",
        "message": "There is no plan x. See `disco plan`.",
        "problems": [],
    }


def test_a_repeated_attempt_waits_and_keeps_its_problem(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "check", {}, clock=clock)
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    assert jobs.fail(store, taken, StateError("No answer"), clock=clock, retry_in=timedelta(seconds=30))
    waiting = jobs.get_job(store, asked.id)
    assert (waiting.state, waiting.attempts) == (JobState.QUEUED, 1)
    assert waiting.due_at == clock.now() + timedelta(seconds=30)
    assert waiting.problem is not None
    clock.wait(seconds=29)
    assert jobs.claim(store, worker="one", clock=clock) is None
    clock.wait(seconds=1)
    again = jobs.claim(store, worker="one", clock=clock)
    assert again is not None
    assert again.attempts == 2


def test_a_cancelled_job_does_not_run_and_a_running_one_is_told(store: Store, clock: Clock) -> None:
    queued, running = (jobs.submit(store, "plan", {}, clock=clock) for _ in range(2))
    assert jobs.cancel(store, queued.id, clock=clock).state is JobState.CANCELLED
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    assert taken.id == running.id
    asked = jobs.cancel(store, running.id, clock=clock)
    assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
    now = jobs.beat(store, taken, clock=clock)
    assert now is not None
    assert now.cancel_requested
    assert jobs.is_cancelled(store, taken)
    assert jobs.stop(store, taken, clock=clock)
    assert jobs.cancel(store, running.id, clock=clock).state is JobState.CANCELLED
    assert jobs.claim(store, worker="one", clock=clock) is None


def test_a_cancelled_job_of_a_lost_worker_is_not_run_again(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "plan", {}, clock=clock)
    jobs.claim(store, worker="one", clock=clock)
    jobs.cancel(store, asked.id, clock=clock)
    clock.wait(minutes=2)
    assert jobs.claim(store, worker="two", clock=clock) is None
    assert jobs.get_job(store, asked.id).state is JobState.CANCELLED


def test_a_job_that_was_done_before_the_cancel_stays_done(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "plan", {}, clock=clock)
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    jobs.cancel(store, asked.id, clock=clock)
    assert jobs.finish(store, taken, "{}", clock=clock)  # it was faster than the request to stop
    assert jobs.cancel(store, asked.id, clock=clock).state is JobState.DONE


def test_what_is_asked_for_once_is_one_job(store: Store, clock: Clock) -> None:
    first = jobs.submit(store, "plan", {"plan": {}}, clock=clock, once="Zoë:key-1")
    clock.wait(seconds=1)
    assert jobs.submit(store, "plan", {"plan": {}}, clock=clock, once="Zoë:key-1") == first
    assert jobs.submit(store, "plan", {"plan": {}}, clock=clock, once="Zoë:key-2").id != first.id
    assert len(jobs.list_jobs(store).items) == 2


def test_jobs_are_listed_page_by_page_the_newest_first(store: Store, clock: Clock) -> None:
    asked = [jobs.submit(store, kind, {}, clock=clock).id for kind in ("plan", "learn", "check", "plan", "doctor")]
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    jobs.finish(store, taken, '{"large": true}', clock=clock)
    seen, cursor = [], None
    while True:
        page = jobs.list_jobs(store, after=cursor, limit=2)
        seen += [job.id for job in page.items]
        assert all(job.result is None for job in page.items)
        if (cursor := page.next) is None:
            break
        jobs.submit(store, "validate", {}, clock=clock)  # what comes meanwhile moves no page
    assert seen == asked[::-1]
    assert [job.id for job in jobs.list_jobs(store, state="done").items] == [asked[0]]
    assert [job.id for job in jobs.list_jobs(store, kind="plan").items] == [asked[3], asked[0]]
    for wrong in (
        {"limit": 0},
        {"limit": 201},
        {"after": "x"},
        {"after": "-1"},
        {"after": "9" * 30},
        {"state": "lost"},
    ):
        with pytest.raises(InputError):
            jobs.list_jobs(store, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="kind of job"):
        jobs.submit(store, "make coffee", {}, clock=clock)
    with pytest.raises(NotFoundError, match="no job 0000"):
        jobs.get_job(store, "0000")


def test_a_long_result_is_an_artefact_that_nothing_removes_as_unnamed(store: Store, clock: Clock) -> None:
    asked = jobs.submit(store, "replay", {}, clock=clock)
    taken = jobs.claim(store, worker="one", clock=clock)
    assert taken is not None
    assert jobs.finish(store, taken, '{"series": "' + "x" * MOST_RESULT_BYTES + '"}', clock=clock)
    assert store.remove_unnamed() == {}
    result = jobs.get_job(store, asked.id).result
    assert result is not None
    assert len(result["series"]) == MOST_RESULT_BYTES
    with store.alone(action="forget") as transaction:
        assert transaction.jobs.drop_results() == 1
    assert len(store.remove_unnamed()) == 1
    assert jobs.get_job(store, asked.id).result is None


def test_jobs_that_ended_long_ago_can_go(store: Store, clock: Clock) -> None:
    old, recent, waiting = (jobs.submit(store, "learn", {}, clock=clock).id for _ in range(3))
    for _ in (old, recent):
        taken = jobs.claim(store, worker="one", clock=clock)
        assert taken is not None
        jobs.finish(store, taken, "{}", clock=clock)
        clock.wait(days=10)
    with store.alone(action="prune") as transaction:
        assert transaction.jobs.remove_ended(clock.now() - timedelta(days=15)) == 1
    assert {job.id for job in jobs.list_jobs(store).items} == {recent, waiting}


# ---- many workers at once ----

_MANY = {"sqlite": 40, "postgresql": 200}  # SQLite syncs its file for every claim, and has one writer anyway


def test_no_job_is_owned_twice_however_many_workers_there_are(store_url: str, clock: Clock) -> None:
    store = open_store(store_url)
    with store.writing(JOBS, action="submit job") as transaction:
        asked = {
            jobs.add_job(transaction, JobKind.CHECK, {"place": place}, actor=store.actor, now=clock.now()).id
            for place in range(_MANY[store_url.partition(":")[0]])
        }
    names = [f"worker {number}" for number in range(4)]
    done = at_once(work_off, [(store_url, name) for name in names])
    times = Counter(job_id for ids in done for job_id in ids)
    assert set(times) == asked
    assert set(times.values()) == {1}
    for name, ids in zip(names, done, strict=True):
        for job_id in ids:
            job = jobs.get_job(store, job_id)
            assert (job.state, job.worker, job.attempts, job.result) == (JobState.DONE, name, 1, name)
    store.close()


def test_a_cancel_meets_heartbeats_without_an_error(store: Store, clock: Clock) -> None:
    for _ in range(10):
        jobs.submit(store, "train", {}, clock=clock)
        taken = jobs.claim(store, worker="one", clock=clock)
        assert taken is not None
        stopped = threading.Event()

        def work(taken=taken, stopped=stopped) -> None:  # type: ignore[no-untyped-def]
            while (now := jobs.beat(store, taken, clock=clock, progress=JobProgress(done=1))) is not None:
                if now.cancel_requested:
                    break
                time.sleep(0.005)
            jobs.stop(store, taken, clock=clock)
            stopped.set()

        worker = threading.Thread(target=work)
        worker.start()
        jobs.cancel(store, taken.id, clock=clock)
        assert stopped.wait(20)
        worker.join()
        assert jobs.get_job(store, taken.id).state is JobState.CANCELLED


# ---- drafts ----


def test_a_draft_has_revisions_and_no_change_is_lost(store: Store, clock: Clock) -> None:
    zoe, abe = (store.by(Actor(name, ActorKind.PERSON)) for name in ("Zoë", "Abe"))
    first = drafts.put_draft(zoe, "spring", {"campaign": "spring"}, clock=clock)
    assert (first.revision, first.actor.name) == (1, "Zoë")
    with pytest.raises(RevisionMissingError, match="revision 1"):
        drafts.put_draft(abe, "spring", {"campaign": "mine"}, clock=clock)
    second = drafts.put_draft(abe, "spring", {"campaign": "spring", "seed": 1}, if_match=1, clock=clock)
    assert (second.revision, second.actor.name) == (2, "Abe")
    with pytest.raises(RevisionError, match=r"at revision 2, and revision 1 was seen.*Read it again"):
        drafts.put_draft(zoe, "spring", {"campaign": "spring", "seed": 2}, if_match=1, clock=clock)
    assert drafts.get_draft(store, "spring") == second
    with pytest.raises(RevisionMissingError):
        drafts.delete_draft(zoe, "spring", clock=clock)
    with pytest.raises(RevisionError):
        drafts.delete_draft(zoe, "spring", if_match=1, clock=clock)
    drafts.delete_draft(zoe, "spring", if_match=2, clock=clock)
    with pytest.raises(NotFoundError):
        drafts.get_draft(store, "spring")
    with pytest.raises(NotFoundError):
        drafts.delete_draft(zoe, "spring", if_match=3, clock=clock)
    with pytest.raises(RevisionError, match="does not exist"):
        drafts.put_draft(zoe, "spring", {}, if_match=2, clock=clock)
    # an old revision never fits a new draft of the same name
    assert drafts.put_draft(zoe, "spring", {}, clock=clock).revision == 4
    drafts.put_draft(zoe, "autumn", {"seed": 3}, clock=clock)
    assert [draft.name for draft in drafts.list_drafts(store).items] == ["autumn", "spring"]


@pytest.mark.parametrize("name", ["", " spring", "a\nb", "x" * 101, ".", ".."])
def test_a_draft_needs_a_name_that_can_be_shown(store: Store, clock: Clock, name: str) -> None:
    with pytest.raises(InputError, match="name of a draft"):
        drafts.put_draft(store, name, {}, clock=clock)


def test_a_draft_is_json_of_a_bounded_size(store: Store, clock: Clock) -> None:
    with pytest.raises(InputError, match="at most 1,000,000"):
        drafts.put_draft(store, "spring", {"text": "x" * 1_000_001}, clock=clock)
    with pytest.raises(InputError, match="a plan as JSON"):
        drafts.put_draft(store, "spring", {"budget": float("nan")}, clock=clock)


# ---- replies ----


def test_a_repeated_request_gets_the_kept_reply(store: Store, clock: Clock) -> None:
    zoe, abe = (store.by(Actor(name, ActorKind.KEY)) for name in ("Zoë", "Abe"))
    body = replies.request_hash("POST", "/api/v1/plans", b"{}")
    reserved = replies.begin_reply(zoe, "key-1", body, clock=clock)
    assert reserved.status is None
    with pytest.raises(ReplyInProgressError):
        replies.begin_reply(zoe, "key-1", body, clock=clock)
    assert replies.begin_reply(abe, "key-1", body, clock=clock).status is None  # keys are each caller's own
    replies.finish_reply(zoe, "key-1", reserved, status=202, headers={"Location": "/jobs/1"}, body=b'{"job": "1"}')
    for _ in range(2):
        kept = replies.begin_reply(zoe, "key-1", body, clock=clock)
        assert (kept.status, kept.headers, kept.body) == (202, {"Location": "/jobs/1"}, b'{"job": "1"}')
    other = replies.request_hash("POST", "/api/v1/plans", b"{ }")
    with pytest.raises(ReplyConflictError, match="another request"):
        replies.begin_reply(zoe, "key-1", other, clock=clock)
    clock.wait(hours=24, seconds=1)
    assert replies.begin_reply(zoe, "key-1", other, clock=clock).status is None
    with store.reading() as transaction:  # what is too old goes by itself
        assert transaction.replies.find("key:Abe", "key-1") is None


def test_a_request_that_came_to_nothing_can_be_repeated(store: Store, clock: Clock) -> None:
    reserved = replies.begin_reply(store, "key", "hash", clock=clock)
    replies.drop_reply(store, "key", reserved)
    clock.wait(seconds=1)
    lost = replies.begin_reply(store, "key", "hash", clock=clock)
    clock.wait(seconds=61)  # its server is gone
    again = replies.begin_reply(store, "key", "hash", clock=clock)
    replies.finish_reply(store, "key", lost, status=500, headers={}, body=b"of the lost one")
    replies.drop_reply(store, "key", lost)
    replies.finish_reply(store, "key", again, status=200, headers={}, body=b"\x00\xff")
    assert replies.begin_reply(store, "key", "hash", clock=clock).body == b"\x00\xff"


def test_of_equal_requests_at_once_one_is_done(store_url: str) -> None:
    open_store(store_url).close()
    found = at_once(begin_alike, [(store_url,)] * 6)
    assert found.count("None") == 1
    assert all("in progress" in text for text in found if text != "None")


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "a\nb"])
def test_an_idempotency_key_is_short_and_plain(store: Store, clock: Clock, key: str) -> None:
    with pytest.raises(InputError, match="Idempotency-Key"):
        replies.begin_reply(store, key, "hash", clock=clock)


def test_equal_parts_give_equal_hashes_and_their_borders_count() -> None:
    assert replies.request_hash("a", b"bc") == replies.request_hash(b"a", "bc") != replies.request_hash("ab", "c")
