"""Jobs: the list, progress that is asked for again, what came of them, cancelling; nonsense in addresses."""

import json
from pathlib import Path

import pytest
from visitors import Browser, Visit, visiting

from disco.entrypoints.python import Shop
from disco.office.jobs.use_cases import beat, claim, fail, finish, submit
from disco.records.errors import Problem, TableError
from disco.records.jobs import Job, JobKind, JobProgress
from disco.records.people import Role

HOSTILE = "<img src=x onerror=alert(1)>"


def submitted(folder: Path, kind: JobKind = JobKind.VALIDATE) -> Job:
    shop = Shop.open(folder)
    with shop.store(missing="create") as store:
        return submit(store, kind, {}, clock=shop.clock)


def test_a_newcomer_reads_what_jobs_are(newcomer: Browser) -> None:
    page = newcomer.get("/jobs")
    assert "No job runs or waits." in page.words
    assert "Long work is done by jobs" in page.words
    assert "hx-trigger" not in page.text


def test_a_job_shows_its_progress_until_it_has_ended(tmp_path: Path) -> None:
    job = submitted(tmp_path)
    shop = Shop.open(tmp_path)
    with visiting(tmp_path) as browser:
        page = browser.get("/jobs")
        assert "No job runs, and 1 waits for a worker." in page.words
        assert 'hx-trigger="every 2s"' in page.text
        with shop.store() as store:
            taken = claim(store, worker="w", clock=shop.clock)
            assert taken is not None
            beat(store, taken, clock=shop.clock, progress=JobProgress(done=3, total=9, stage="tables"))
        page = browser.get(f"/jobs/{job.id}")
        assert "The job runs." in page.words
        assert "3 of 9 tables" in page.words
        assert 'max="9" value="3"' in page.text
        part = browser.get(f"/jobs/{job.id}", **{"hx-request": "true"})
        assert "<html" not in part.text
        assert 'hx-trigger="every 1s"' in part.text
        problem = Problem("range", "orders.csv", "paid", HOSTILE, "a number", "Correct it.", row=7, rows=2)
        result = {"clean": False, "count": 1, "problems": [problem.as_dict()], "notes": ["orders.csv has ;"]}
        with shop.store() as store:
            assert finish(store, taken, json.dumps(result), clock=shop.clock)
        assert browser.get(f"/jobs/{job.id}", **{"hx-request": "true"}).headers["hx-refresh"] == "true"
        page = browser.get(f"/jobs/{job.id}")
        assert "The check is done: 1 problem was found." in page.words
        assert "orders.csv paid 7 2" in page.words
        assert HOSTILE in page.words
        assert HOSTILE not in page.text
        assert "hx-trigger" not in page.text
        assert "Cancel" not in page.words
        assert "(command line)" in page.words
        rows = browser.get(f"/jobs/{job.id}?table=problems&format=csv").text.splitlines()
        assert rows[0] == "File,Column,First row,Rows,Found,Expected,What to do"
        assert rows[1].startswith("orders.csv,paid,7,2,")


def test_a_failure_is_told_in_words(tmp_path: Path) -> None:
    job = submitted(tmp_path, JobKind.PLAN)
    shop = Shop.open(tmp_path)
    problems = [Problem("missing", "orders.csv", "paid", "nothing", "a column", "Add it.")]
    with shop.store() as store:
        taken = claim(store, worker="w", clock=shop.clock)
        assert taken is not None
        fail(store, taken, TableError("The tables cannot be used:", problems), clock=shop.clock)
    with visiting(tmp_path) as browser:
        page = browser.get(f"/jobs/{job.id}")
        assert "The job has failed: The tables cannot be used:" in page.words
        assert "Add it." in page.words
        assert "The tables cannot be used:" in browser.get("/jobs?state=failed").words
        assert "No job is done." in browser.get("/jobs?state=done").words


def test_a_job_is_cancelled_by_who_may(tmp_path: Path, visit: Visit) -> None:
    job = submitted(tmp_path)
    with visit(tmp_path, Role.VIEWER) as viewer:
        assert "Cancel" not in viewer.get(f"/jobs/{job.id}").words
        refused = viewer.send(f"/jobs/{job.id}/cancel")
        assert refused.status == 403
        assert "The role viewer may not do this" in refused.words
    with visit(tmp_path, Role.PLANNER) as planner:
        assert "Cancel the job" in planner.get(f"/jobs/{job.id}").words
        done = planner.send(f"/jobs/{job.id}/cancel")
        assert (done.status, done.headers["hx-redirect"]) == (204, f"/jobs/{job.id}")
        assert "The job was cancelled." in done.said
        assert "The job was cancelled." in planner.get(f"/jobs/{job.id}").words


@pytest.mark.parametrize("query", ["state=asleep", "cursor=nonsense", "state=" + "x" * 300, "cursor=-1"])
def test_nonsense_in_the_address_is_answered_in_words(onlooker: Browser, query: str) -> None:
    page = onlooker.get(f"/jobs?{query}")
    assert page.status == 422
    assert "This did not work" in page.words
    assert onlooker.get("/jobs/nothing").status == 404
    assert "nothing" in onlooker.get("/jobs/nothing").words
