"""Schedules: work that is asked for again and again, or once at a given time."""

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import Field

from disco.office.jobs.bodies import BODIES
from disco.office.schedules.use_cases import (
    RemovedSchedule,
    add_schedule,
    check_scheduled,
    list_schedules,
    remove_schedule,
)
from disco.records.errors import InputError
from disco.records.jobs import JobKind, JobSchedule
from disco.records.people import Role
from disco.web.discretion import as_seen
from disco.web.reading import RequestBody
from disco.web.replies import Cursor, ItemPage, Limit, json_reply, page_form, page_of, reply
from disco.web.route import Routes, ShopOf, StoreOf

router = Routes("/api/v1", tags=["jobs"])


class ScheduleRequest(RequestBody):
    """A schedule to be made."""

    kind: JobKind = Field(description="What its jobs do.")
    body: dict[str, Any] = Field({}, description="What they ask for, as the body of that request.")
    rule: str = Field(
        min_length=1, max_length=200, description='When: "every monday at 06:00", "at 2027-03-08 09:00", …'
    )


@router.get("/schedules", Role.VIEWER, summary="The schedules", response_model=ItemPage[JobSchedule])
def schedules(store: StoreOf, request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    found, after = page_of(list_schedules(store).items, limit=limit, cursor=cursor)
    return json_reply(page_form(tuple(as_seen(request, one) for one in found), after))


@router.post("/schedules", Role.ADMIN, summary="Add a schedule", status_code=201, response_model=JobSchedule)
def add(shop: ShopOf, body: ScheduleRequest) -> Response:
    """Times are those of the clock in the shop. Its jobs carry the name of whoever made it."""
    if body.kind not in BODIES:
        raise InputError("kind", found=str(body.kind), expected=f"one of {', '.join(BODIES)}")
    check_scheduled(shop, body.kind, body.body, body.rule)
    with shop.store() as store:
        made = add_schedule(store, kind=body.kind, body=body.body, rule=body.rule, clock=shop.clock)
    return reply(made, status=201)


@router.delete("/schedules/{schedule_id}", Role.ADMIN, summary="Remove a schedule", response_model=RemovedSchedule)
def remove(store: StoreOf, schedule_id: Annotated[str, Path(max_length=100)]) -> Response:
    return reply(remove_schedule(store, schedule_id))
