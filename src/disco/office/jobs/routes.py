"""Long work: asked for here and done by a worker; jobs with their progress and results."""

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import Body, Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from disco.adapters.shop import ShopFolder
from disco.office.jobs.bodies import JobBody, PlanBody, read_body
from disco.office.jobs.use_cases import MOST_LISTED, cancel, get_job, list_jobs, once_for, submit
from disco.records.errors import UnavailableError
from disco.records.jobs import Job, JobKind, JobPage, JobState
from disco.records.people import Role
from disco.web.discretion import as_seen
from disco.web.once import HEADER
from disco.web.replies import Cursor, json_reply, reply
from disco.web.route import ClockOf, Routes, ShopOf, StoreOf

router = Routes("/api/v1", tags=["jobs"])
JobId = Annotated[str, Path(max_length=100, description="The id of a job.")]
_LOOKS_S = 0.5  # between two looks at a job's row
_BREATHS_S = 15.0  # between two comments that keep a silent stream open
_LONGEST_S = 3600.0  # of one stream; the client asks again


class Accepted(BaseModel):
    """Work that was asked for; the header Location names the job, too."""

    job: str = Field(description="The id of the job.")


def ask_for(shop: ShopFolder, request: Request, kind: JobKind, body: JobBody) -> Response:
    """202 with the job. The same Idempotency-Key gives the same job, also where a server was lost before it replied."""
    content = read_body(kind, body.model_dump(mode="json", exclude_unset=True)).model_dump(
        mode="json", exclude_unset=True
    )
    job = asked_job(shop, request, kind, content)
    return json_reply({"job": job.id}, status=202, headers={"location": f"/api/v1/jobs/{job.id}"})


def asked_job(shop: ShopFolder, request: Request, kind: JobKind, content: Mapping[str, Any]) -> Job:
    """The job that a request asks for: one, however often it is sent with its Idempotency-Key."""
    key = request.headers.get(HEADER)
    with shop.store() as store:
        once = None if key is None else once_for(store.actor, key)
        return submit(store, kind, content, clock=shop.clock, once=once)


@router.post(
    "/plans", Role.PLANNER, summary="Decide a campaign", status_code=202, response_model=Accepted, tags=["plans"]
)
def plan(
    shop: ShopOf,
    request: Request,
    body: Annotated[dict[str, Any], Body(description="The plan, as docs/plan.md describes it.")],
    dry_run: Annotated[bool, Query(description="Decide, and keep nothing.")] = False,
) -> Response:
    """A plan with problems is refused at once, with all of them; the job then decides who would get which code."""
    shop.read_plan(body)
    return ask_for(shop, request, JobKind.PLAN, PlanBody(plan=body, dry_run=dry_run))


@router.get("/jobs", Role.VIEWER, summary="Jobs, the newest first, without their results", response_model=JobPage)
def jobs(
    store: StoreOf,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="The most items of a page.")] = 50,
    cursor: Cursor = None,
    state: JobState | None = None,
    kind: JobKind | None = None,
) -> Response:
    return reply(as_seen(request, list_jobs(store, after=cursor, limit=limit, state=state, kind=kind)))


@router.get("/jobs/{job_id}", Role.VIEWER, summary="A job with its result", response_model=Job)
def job(store: StoreOf, request: Request, job_id: JobId) -> Response:
    return reply(as_seen(request, get_job(store, job_id)))


@router.post("/jobs/{job_id}/cancel", Role.PLANNER, summary="Stop a job", response_model=Job)
def cancel_job(store: StoreOf, clock: ClockOf, job_id: JobId) -> Response:
    """A queued job is cancelled at once, a running one at its next step; one that has ended stays what it is."""
    return reply(cancel(store, job_id, clock=clock))


@router.get(
    "/jobs/{job_id}/events",
    Role.VIEWER,
    summary="A job's progress as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(store: StoreOf, request: Request, job_id: JobId) -> Response:
    """An event `progress` whenever the job has changed, and `end` with its final state; then the stream ends."""
    service = request.app.state.service

    def look() -> Job:
        return as_seen(request, get_job(store, job_id))

    first = await to_thread.run_sync(look)
    caller = request.state.caller.actor
    holder = f"{caller.kind}:{caller.name}"
    service.open_reply(holder)
    return _OpenReply(
        _told(first, look, service, request),
        closed=lambda: service.streams.give_back(holder),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


class _OpenReply(StreamingResponse):
    """A reply that gives its place back, whether or not its stream has begun."""

    def __init__(self, *content: Any, closed: Callable[[], None], **options: Any) -> None:
        super().__init__(*content, **options)
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()


async def _told(job: Job, look: Callable[[], Job], service: Any, request: Request) -> AsyncIterator[bytes]:
    began = heard = time.monotonic()
    told = None
    while True:
        form = _brief(job)
        if form != told:
            yield _event("end" if job.is_final else "progress", form)
            told, heard = form, time.monotonic()
        over = job.is_final or service.stopping.is_set() or time.monotonic() - began > _LONGEST_S
        if over or await request.is_disconnected():
            return
        if time.monotonic() - heard > _BREATHS_S:
            yield b": still there\n\n"
            heard = time.monotonic()
        await anyio.sleep(_LOOKS_S)
        with suppress(UnavailableError):  # the database cannot be reached: the last state is kept
            job = await to_thread.run_sync(look, limiter=service.quick)


def _brief(job: Job) -> dict[str, Any]:
    whole = job.as_dict()
    return {name: whole[name] for name in ("id", "kind", "state", "progress", "problem", "cancel_requested")}


def _event(name: str, content: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n".encode()
