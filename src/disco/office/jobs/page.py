"""Jobs: what a worker does or has done, how far it is, what came of it, and who asked for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from disco.office.jobs.use_cases import cancel, get_job, list_jobs
from disco.records.jobs import Job, JobKind, JobState
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import counted, local_text
from disco.views.formats import Count
from disco.views.table import Cell, Column, Table
from disco.web.discretion import as_seen
from disco.web.header import campaign_address
from disco.web.route import ClockOf, Routes, ShopOf, StoreOf
from disco.web.shell import Link, Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)
JobId = Annotated[str, Path(max_length=100)]
_ON_A_PAGE = 50
_MOST_VALUES = 40  # of a result, before it is only shown as JSON
WORDS = {
    JobKind.PLAN: "Decide a plan",
    JobKind.LEARN: "Learn from outcomes",
    JobKind.TRAIN: "Train the context network",
    JobKind.FRONTIER: "Frontier of a plan",
    JobKind.REPLAY: "Replay policies on a log",
    JobKind.CHECK: "Check data and network",
    JobKind.DOCTOR: "Health check",
    JobKind.VALIDATE: "Check the tables",
    JobKind.LAUNCH: "Launch a campaign",
    JobKind.CONTEXTS: "Prepare late arrivals",
    JobKind.PROPENSITIES: "Propensities of decisions",
    JobKind.WEBHOOK: "Deliver to a webhook",
}
_STATES = {
    JobState.QUEUED: "waits for a worker",
    JobState.RUNNING: "runs",
    JobState.DONE: "is done",
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "was cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage(Page):
    """Jobs, the newest first."""

    template = "jobs.html"
    rail = "Jobs"
    jobs: Table
    addresses: tuple[str, ...]
    states: tuple[Link, ...]
    """All jobs, or those of one state."""
    wanted: str
    """The state that is shown; empty: all."""
    here: str
    """The address of this list, to ask for it again."""
    older: str
    """The address of the next page; empty: this is the last one."""
    is_busy: bool
    """Whether a job waits or runs, so that the list changes by itself."""

    def tables(self) -> Mapping[str, Table]:
        return {"jobs": self.jobs}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """What is shown about a job."""

    id: str
    state: JobState
    done: int | None
    """Steps that are over; None before the job says so."""
    total: int | None
    """All steps; None where it is not known."""
    words: str
    """How far it is."""
    may_cancel: bool
    problem: tuple[str, ...]
    """Why it failed, or why its last attempt did; line by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJobPage(Page):
    """One job."""

    template = "job.html"
    rail = "Jobs"
    job: JobPart
    facts: tuple[tuple[str, str], ...]
    result: Table
    """What came of it, value by value; without rows before it is done."""
    problems: Table
    """Everything that is wrong with a table or a plan, row by row."""
    more: Link | None
    """Where the result can be worked with."""
    asked_for: str
    whole: str
    """The result as JSON; empty where there is none."""

    def tables(self) -> Mapping[str, Table]:
        return {"result": self.result, "problems": self.problems}


@router.get("/jobs", Role.VIEWER)
def jobs(
    request: Request,
    shop: ShopOf,
    state: Annotated[str, Query(max_length=20)] = "",
    cursor: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    with shop.store(missing="create") as store:
        found = as_seen(request, list_jobs(store, after=cursor or None, limit=_ON_A_PAGE, state=state or None))
        running = list_jobs(store, state=JobState.RUNNING, limit=200).items
        waiting = list_jobs(store, state=JobState.QUEUED, limit=200).items
    query = f"?state={state}" if state else ""
    page = JobsPage(
        title="Jobs",
        answer=_counts(len(running), len(waiting)),
        jobs=_table(found.items, shop.settings.locale),
        addresses=tuple(job_address(job.id) for job in found.items),
        states=(
            Link("All", "/jobs", not state),
            *(Link(one.capitalize(), f"/jobs?state={one}", one == state) for one in JobState),
        ),
        wanted=state,
        here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        older="" if found.next is None else f"/jobs{query}{'&' if query else '?'}cursor={found.next}",
        is_busy=bool(running or waiting),
    )
    return respond(request, page, part="list" if "hx-request" in request.headers else None)


@router.get("/jobs/{job_id}", Role.VIEWER)
def one_job(request: Request, shop: ShopOf, job_id: JobId) -> Response:
    """A page that asks again for its progress is loaded whole once the job has ended."""
    with shop.store() as store:
        job = as_seen(request, get_job(store, job_id))
    if "hx-request" not in request.headers:
        return respond(request, job_page(job, shop.settings.locale))
    if job.is_final:
        return Response(status_code=204, headers={"hx-refresh": "true"})
    return respond(request, job_page(job, shop.settings.locale), part="progress")


@router.post("/jobs/{job_id}/cancel", Role.PLANNER)
def cancel_job(request: Request, store: StoreOf, clock: ClockOf, job_id: JobId) -> Response:
    job = cancel(store, job_id, clock=clock)
    words = {
        JobState.CANCELLED: "The job was cancelled.",
        JobState.RUNNING: "The job ends after its present step.",
    }
    said = words.get(job.state, f"The job {_STATES[job.state]} already, so there was nothing to cancel.")
    return go_to(request, job_address(job_id), said=said)


def job_address(job_id: str) -> str:
    return f"/jobs/{job_id}"


def job_page(job: Job, locale: Locale) -> OneJobPage:
    """A job as people read it."""
    result = job.result or {}
    return OneJobPage(
        title=WORDS[job.kind],
        answer=_answer(job),
        job=JobPart(
            id=job.id,
            state=job.state,
            done=None if job.progress is None else job.progress.done,
            total=None if job.progress is None else job.progress.total,
            words=_progress(job),
            may_cancel=not job.is_final and not job.cancel_requested,
            problem=() if job.problem is None else tuple(job.problem.message.splitlines()),
        ),
        facts=_facts(job, locale),
        result=_result(result),
        problems=problems_table(result.get("problems") or (() if job.problem is None else job.problem.problems)),
        more=_more(job),
        asked_for=json.dumps(job.body, indent=1, ensure_ascii=False) if job.body else "",
        whole=json.dumps(job.result, indent=1, ensure_ascii=False) if job.result else "",
    )


def problems_table(problems: Sequence[Mapping[str, Any]]) -> Table:
    """What is wrong with tables or a plan: where, what, and what to do."""
    return Table.of(
        "What is wrong, and what to do",
        problems,
        {
            "File": lambda one: str(one["file"]).rsplit("/", 1)[-1],
            "Column": lambda one: str(one["column"]),
            Column("First row", Count()): lambda one: one["row"],
            Column("Rows", Count()): lambda one: one["rows"],
            "Found": lambda one: str(one["found"]),
            "Expected": lambda one: str(one["expected"]),
            "What to do": lambda one: str(one["fix"]),
        },
    )


# ---- words


def _counts(running: int, waiting: int) -> str:
    if not running and not waiting:
        return "No job runs or waits."
    words = [f"{counted(running, 'job')} {'runs' if running == 1 else 'run'}" if running else "No job runs"]
    if waiting:
        words.append(f"{waiting:,} {'waits' if waiting == 1 else 'wait'} for a worker")
    return ", and ".join(words) + "."


def _answer(job: Job) -> str:
    words = f"The job {_STATES[job.state]}"
    if job.state is JobState.FAILED and job.problem is not None:
        return f"{words}: {job.problem.message.splitlines()[0]}"
    if job.state is JobState.DONE and job.kind is JobKind.VALIDATE:
        count = len((job.result or {}).get("problems") or ())
        return f"The check is done: {counted(count, 'problem')} {'was' if count == 1 else 'were'} found."
    if job.started_at is not None and job.finished_at is not None:
        words += f", after {_seconds(job.started_at, job.finished_at)}"
    return f"{words}."


def _seconds(first: datetime, last: datetime) -> str:
    seconds = (last - first).total_seconds()
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _progress(job: Job) -> str:
    if job.cancel_requested and not job.is_final:
        return "It ends after its present step."
    if job.progress is None:
        return "" if job.is_final else "It has not begun." if job.state is JobState.QUEUED else "It has begun."
    stage = job.progress.stage or "steps"
    of_all = f" of {job.progress.total:,}" if job.progress.total is not None else ""
    return f"{job.progress.done:,}{of_all} {stage}"


def _facts(job: Job, locale: Locale) -> tuple[tuple[str, str], ...]:
    found = [
        ("Asked for by", f"{job.actor.name} ({job.actor.kind})"),
        ("Asked for", local_text(job.created_at, locale)),
    ]
    if job.started_at is not None:
        found.append(("Begun", local_text(job.started_at, locale)))
    if job.finished_at is not None:
        found.append(("Ended", local_text(job.finished_at, locale)))
    if job.attempts > 1:
        found.append(("Attempts", f"{job.attempts:,}"))
    if job.schedule_id is not None:
        found.append(("Schedule", job.schedule_id))
    return (*found, ("Job", job.id))


def _result(result: Mapping[str, Any]) -> Table:
    plain = [(key, value) for key, value in result.items() if isinstance(value, str | int | float | bool)]
    listed = [(key, value) for key, value in result.items() if isinstance(value, list) and _is_text(value)]
    rows: list[list[Cell]] = [[_name(key), _value(value)] for key, value in plain[:_MOST_VALUES]]
    rows += [[_name(key), line] for key, lines in listed[:_MOST_VALUES] for line in lines[:_MOST_VALUES]]
    return Table(caption="What came of it", columns=["Figure", "Value"], rows=rows)


def _is_text(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _name(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if isinstance(value, float) else str(value)


def _more(job: Job) -> Link | None:
    if job.state is not JobState.DONE or not job.result:
        return None
    campaign = job.result.get("campaign")
    if job.kind is JobKind.LAUNCH and isinstance(campaign, str) and not job.body.get("dry_run"):
        return Link(f"Go to campaign {campaign}", campaign_address(campaign))
    if job.kind is JobKind.LEARN:
        return Link("See what was learned", "/learning")
    return Link("Look at the data", "/data") if job.kind is JobKind.VALIDATE else None


def _table(jobs: Sequence[Job], locale: Locale) -> Table:
    rows: list[list[Cell]] = [
        [
            WORDS[job.kind],
            str(job.state),
            _progress(job) if job.state in (JobState.RUNNING, JobState.QUEUED) else _ended(job),
            job.actor.name,
            local_text(job.created_at, locale),
        ]
        for job in jobs
    ]
    return Table(
        caption="Jobs, the newest first", columns=["Job", "State", "How far", "Asked for by", "Asked for"], rows=rows
    )


def _ended(job: Job) -> str:
    if job.problem is not None and job.state is JobState.FAILED:
        return job.problem.message.splitlines()[0]
    if job.started_at is None or job.finished_at is None:
        return ""
    return f"after {_seconds(job.started_at, job.finished_at)}"
