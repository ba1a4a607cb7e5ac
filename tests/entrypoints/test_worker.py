"""A worker gives what the command line gives, byte for byte; it can be cancelled, stopped and taken over."""

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from job_steps import endless_worker
from many_processes import context
from two_campaigns import SECOND

from disco.entrypoints import worker
from disco.entrypoints.python import Shop
from disco.entrypoints.worker import RUNS, run_worker
from disco.office.jobs import use_cases as jobs
from disco.office.jobs.bodies import BODIES, read_body
from disco.office.webhooks.use_cases import add_webhook
from disco.records.errors import PlanError, StateError, UnavailableError
from disco.records.jobs import Job, JobKind, JobState
from disco.records.people import Actor, ActorKind

Disco = Callable[..., tuple[int, str, str]]
PLAN = json.loads(json.dumps(yaml.safe_load(SECOND), default=str))


def submitted(shop: Path, kind: str, body: dict[str, Any]) -> str:
    with Shop.open(shop).store() as store:
        return jobs.submit(store, kind, body, clock=Shop.open(shop).clock).id


def job(shop: Path, job_id: str) -> Job:
    with Shop.open(shop).store() as store:
        return jobs.get_job(store, job_id)


def worked(shop: Path, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The result of a job that a worker ran."""
    job_id = submitted(shop, kind, body)
    own = 2 if kind == "launch" else 1  # a launch leaves the contexts of late arrivals to another job
    assert run_worker(Shop.open(shop), until_idle=True).jobs == own
    done = job(shop, job_id)
    assert done.state is JobState.DONE, done.problem
    assert done.result is not None
    return dict(done.result)


def model_of(shop: Path) -> tuple[bytes, str]:
    """The active model, as it is kept."""
    with Shop.open(shop).store() as store, store.reading() as transaction:
        version = transaction.beliefs.version()
    assert version is not None
    return version.basket, version.engagement


@pytest.fixture
def twin(learned_shop: Path, tmp_path: Path) -> Path:
    """The same shop again, for the command line."""
    return Path(shutil.copytree(learned_shop, tmp_path / "twin"))


def test_every_kind_that_can_be_asked_for_has_a_body_and_a_function() -> None:
    assert set(RUNS) == set(BODIES) == set(JobKind) - {JobKind.WEBHOOK}


def test_a_campaign_by_jobs_is_the_campaign_of_the_command_line(disco: Disco, shop: Path, twin: Path) -> None:
    typed = json.loads(disco("plan", twin / "second.yaml", "--shop", twin, "--json")[1])
    planned = worked(shop, "plan", {"plan": PLAN})
    assert list(planned["seconds"]) == list(typed["seconds"])  # the same stages, which take what they take
    for one in (planned, typed):
        del one["planned_at"], one["seconds"]  # nothing else differs
    assert planned == typed
    launched = json.loads(disco("launch", typed["plan_id"], "--shop", twin, "--json")[1])
    assert worked(shop, "launch", {"plan_id": planned["plan_id"]}) == launched
    ours, theirs = (Shop.open(place).export("second").to_arrow() for place in (shop, twin))
    assert ours.equals(theirs)
    day = "2025-12-01"
    learned = json.loads(disco("learn", "second", "--as-of", day, "--shop", twin, "--json")[1])
    assert worked(shop, "learn", {"campaigns": ["second"], "as_of": day}) == learned
    ours, theirs = (model_of(place) for place in (shop, twin))
    assert ours == theirs
    checked = json.loads(disco("check", "second", "--as-of", day, "--shop", twin, "--json")[1])
    assert worked(shop, "check", {"campaign": "second", "as_of": day}) == checked
    assert worked(shop, "learn", {"activate": 1})["version"] == 1


def test_a_plan_made_by_one_worker_is_launched_by_another_on_one_database_and_one_artefact_place(
    learned_shop: Path, tmp_path: Path, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, one = tmp_path / "shop.backup", tmp_path / "one"
    Shop.open(learned_shop).backup(backup)
    monkeypatch.setenv("DISCO_DATABASE_URL", new_postgres_url())
    monkeypatch.setenv("DISCO_ARTEFACTS", str(tmp_path / "artefacts"))
    Shop.restore(backup, one)
    shutil.copytree(learned_shop / "data", one / "data", dirs_exist_ok=True)
    two = Path(shutil.copytree(one, tmp_path / "two"))
    planned = worked(one, "plan", {"plan": PLAN})
    launched = worked(two, "launch", {"plan_id": planned["plan_id"]})
    assert (launched["again"], launched["plan_id"]) == (False, planned["plan_id"])
    ours, theirs = (Shop.open(place).export("second").to_arrow() for place in (one, two))
    assert ours.equals(theirs)
    assert ours.num_rows == launched["codes"]


def test_questions_by_jobs_have_the_answers_of_the_command_line(disco: Disco, shop: Path) -> None:
    frontier = json.loads(disco("frontier", shop / "second.yaml", "--weights", "2,3", "--shop", shop, "--json")[1])
    assert worked(shop, "frontier", {"plan": PLAN, "revenue_weights": [2, 3]}) == frontier
    said = json.loads(disco("validate", shop / "second.yaml", "--shop", shop, "--json")[1])
    assert worked(shop, "validate", {"plan": PLAN}) == said
    assert worked(shop, "validate", {"as_of": "2025-10-02"})["clean"] is True
    health = worked(shop, "doctor", {})
    assert health["ok"], [one for one in health["checks"] if one["outcome"] == "failed"]


def test_training_by_a_job_writes_the_network_of_the_command_line_and_says_how_far_it_is(
    disco: Disco, shop: Path, twin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(worker._Watch, "report", lambda self, *step: told.append(step))
    window = ("--window-start", "2025-06-01", "--max-epochs", 2, "--seed", 3)
    network = twin / "context.safetensors"
    code, _, said = disco("train", "context", "--tables", twin / "data", *window, "-o", network, "--shop", twin)
    assert code == 0, said
    before = (shop / "context.safetensors").read_bytes()
    result = worked(shop, "train", {"window_start": "2025-06-01", "max_epochs": 2, "seed": 3})
    assert result["epochs"] == 2
    assert before != (shop / "context.safetensors").read_bytes() == network.read_bytes()
    assert told == [(1, 2, "epochs"), (2, 2, "epochs")]


def test_a_replay_by_a_job_is_that_of_the_command_line(disco: Disco, shop: Path) -> None:
    rng = np.random.default_rng(1)
    log = pa.table(
        {
            "customer_id": np.arange(600),
            "x1": rng.normal(size=600).round(3),
            "depth": rng.choice([0.1, 0.2], 600),
            "full_price": np.exp(rng.normal(4, 0.5, 600)).round(2),
        }
    )
    pq.write_table(log, shop / "log.parquet")
    options = ("--context", "x1", "--policy", "greedy", "--repeats", 2, "--batch", 200, "--caps", "0.1=25%")
    options += ("--forgetting", 0.5)
    typed = json.loads(disco("replay", shop / "log.parquet", *options, "--json")[1])
    body = {"log": "log.parquet", "context": ["x1"], "policies": ["greedy"], "repeats": 2, "batch": 200}
    body["forgetting"] = 0.5
    assert worked(shop, "replay", {**body, "caps": {"0.1": "25%"}}) == typed
    outside = submitted(shop, "replay", {**body, "log": "../log.parquet"})
    (shop / "elsewhere").symlink_to("/etc")
    linked = submitted(shop, "replay", {**body, "log": "elsewhere/passwd"})
    lines: list[str] = []
    run_worker(Shop.open(shop), until_idle=True, say=lines.append)
    assert re.fullmatch(r"worker \S+ of disco \S+ begins: shop /.*, database sqlite, engine local", lines[0])
    for refused in (outside, linked):
        problem = job(shop, refused).problem
        assert problem is not None
        assert "within the shop's folder" in problem.message


def test_a_job_that_cannot_be_done_fails_with_the_sentence_of_the_command_line(disco: Disco, shop: Path) -> None:
    wrong = {**PLAN, "depths": {"20": {}}}
    (shop / "wrong.json").write_text(json.dumps(wrong))
    typed = json.loads(disco("plan", shop / "wrong.json", "--shop", shop, "--json")[2].splitlines()[-1])
    job_id = submitted(shop, "plan", {"plan": wrong})
    run_worker(Shop.open(shop), until_idle=True)
    failed = job(shop, job_id)
    assert failed.state is JobState.FAILED
    assert failed.problem is not None
    assert failed.problem.error == typed["error"] == "PlanError"
    assert (
        failed.problem.message.splitlines()[1].split(": ", 1)[1] == typed["message"].splitlines()[1].split(": ", 1)[1]
    )
    assert len(failed.problem.problems) == len(typed["problems"])


def test_what_a_job_writes_is_written_by_who_asked_for_it(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, check = [], RUNS[JobKind.VALIDATE]

    def noted(shop: Shop, body: object, report: Any) -> object:
        seen.append(shop.held_store.actor)
        return check(shop, body, report)

    monkeypatch.setitem(RUNS, JobKind.VALIDATE, noted)
    with Shop.open(shop).store() as store:
        zoe = store.by(Actor("Zoë", ActorKind.PERSON))
        jobs.submit(zoe, "validate", {"plan": PLAN}, clock=Shop.open(shop).clock)
    run_worker(Shop.open(shop), until_idle=True)
    assert seen == [Actor("Zoë", ActorKind.PERSON)]


def test_an_unexpected_error_is_a_defect_and_the_worker_goes_on(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setitem(RUNS, JobKind.DOCTOR, broken)
    first, second = submitted(shop, "doctor", {}), submitted(shop, "check", {"campaign": "nobody"})
    assert run_worker(Shop.open(shop), until_idle=True).jobs == 2
    problem = job(shop, first).problem
    assert problem is not None
    assert (problem.error, "ZeroDivisionError" in problem.message) == ("DefectError", True)
    assert job(shop, second).state is JobState.FAILED


def test_an_error_of_the_database_that_may_pass_is_tried_again(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("The database is away")

    monkeypatch.setitem(RUNS, JobKind.DOCTOR, away)
    job_id = submitted(shop, "doctor", {})
    assert run_worker(Shop.open(shop), until_idle=True).jobs == 1
    waiting = job(shop, job_id)
    assert (waiting.state, waiting.attempts) == (JobState.QUEUED, 1)
    assert waiting.due_at > waiting.created_at


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The health check takes until somebody stops it; the event says that it has begun."""
    begun = threading.Event()

    def work(shop: Shop, body: object, report: Any) -> None:
        begun.set()
        for step in range(10_000):
            threading.Event().wait(0.005)
            shop.engine.watch()  # as between two chunks
            report(step, 10_000, "steps")

    monkeypatch.setitem(RUNS, JobKind.DOCTOR, work)
    return begun


def test_a_running_job_is_cancelled_between_two_pieces_of_work(shop: Path, endless: threading.Event) -> None:
    job_id = submitted(shop, "doctor", {})

    def cancel() -> None:
        assert endless.wait(20)
        with Shop.open(shop).store() as store:
            jobs.cancel(store, job_id, clock=Shop.open(shop).clock)

    other = threading.Thread(target=cancel)
    other.start()
    assert run_worker(Shop.open(shop), until_idle=True, poll_s=0.05).jobs == 1
    other.join()
    ended = job(shop, job_id)
    assert ended.state is JobState.CANCELLED
    assert ended.progress is not None
    assert ended.progress.stage == "steps"


def test_a_worker_that_is_told_to_end_gives_its_job_back_after_the_grace(shop: Path) -> None:
    job_id = submitted(shop, "doctor", {})
    worker = context().Process(target=endless_worker, args=(str(shop),), daemon=True)
    worker.start()
    while job(shop, job_id).progress is None:
        assert worker.is_alive()
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(60)
    assert worker.exitcode == 0
    back = job(shop, job_id)
    assert (back.state, back.attempts, back.lease_until) == (JobState.QUEUED, 0, None)


def test_a_worker_in_a_thread_ends_when_it_is_told(shop: Path) -> None:
    job_id = submitted(shop, "learn", {"campaigns": ["first"], "as_of": "2025-10-03"})
    stop = threading.Event()
    embedded = threading.Thread(target=run_worker, args=(Shop.open(shop),), kwargs={"stop": stop, "poll_s": 0.02})
    embedded.start()
    for _ in range(500):
        if job(shop, job_id).is_final:
            break
        stop.wait(0.02)
    stop.set()
    embedded.join(20)
    assert not embedded.is_alive()
    assert job(shop, job_id).state is JobState.DONE


def test_bad_bodies_are_refused_with_every_problem() -> None:
    with pytest.raises(PlanError) as refused:
        read_body(JobKind.TRAIN, {"window_start": 5, "months": "3", "hats": 1})
    assert [problem.file for problem in refused.value.problems] == [
        "body, window_start",
        "body, months",
        "body, hats",
    ]


def test_the_command_runs_what_is_due_and_ends(disco: Disco, shop: Path) -> None:
    job_id = submitted(shop, "validate", {"as_of": "2025-10-02"})
    code, out, err = disco("worker", "--until-idle", "--shop", shop, "--json")
    assert (code, json.loads(out)) == (0, {"jobs": 1})
    assert f"job {job_id} (validate, attempt 1): done" in err
    assert disco("worker", "--until-idle", "--shop", shop, "--quiet") == (0, "", "")


def test_a_delivery_that_fails_in_an_unexpected_way_ends_alone(shop: Path) -> None:
    opened, told = Shop.open(shop), []
    with opened.store() as store:
        for name in ("one", "two"):
            add_webhook(store, url=f"https://{name}.example/hook", events=["campaign.paused"], clock=opened.clock)

    def send(url: str, headers: object, body: bytes) -> int:
        told.append(url)
        if len(told) == 1:
            raise ValueError("nobody expected this")
        return 200

    opened.pause("first")
    run_worker(opened, until_idle=True, send=send)
    assert len(told) == 2
    with opened.store() as store:
        states = sorted(str(one.state) for one in jobs.list_jobs(store, kind="webhook").items)
    assert states == ["done", "failed"]


def test_schedules_that_cannot_be_read_do_not_end_a_worker(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise StateError("a schedule is not what was kept")

    monkeypatch.setattr(worker, "submit_due", damaged)
    assert worked(shop, "validate", {"plan": PLAN})
