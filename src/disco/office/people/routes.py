"""People: listed, invited, given another role."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import BaseModel, Field

from disco.office.people.use_cases import Person, change_person, invite, list_people
from disco.records.people import Role
from disco.web.reading import RequestBody
from disco.web.replies import ItemPage, json_reply, page_form, reply
from disco.web.route import SECRET, ClockOf, Routes, StoreOf
from disco.web.security import own_origin

router = Routes(tags=["people"])
_API = "/api/v1"


class InviteRequest(RequestBody):
    """Somebody to invite."""

    name: str = Field(min_length=1, max_length=100)
    role: Role
    email: str | None = Field(None, max_length=300)


class PersonRequest(RequestBody):
    """What changes about somebody; what is left out stays."""

    role: Role | None = None
    disabled: bool | None = None


@router.get(f"{_API}/people", Role.ADMIN, summary="Everybody who can sign in", response_model=ItemPage[Person])
def people(store: StoreOf, clock: ClockOf) -> Response:
    found = list_people(store, clock)
    form = found.as_dict()
    return json_reply(page_form(found.people, None, invitations=form["invitations"]))


class InvitationLink(BaseModel):
    """A one-time link."""

    name: str | None
    role: Role
    link: str = Field(description="Where a password is chosen, once. What stands behind the # is sent to nobody.")
    token: str
    expires_at: datetime


@router.post(
    f"{_API}/people",
    Role.ADMIN,
    summary="Invite somebody",
    status_code=201,
    response_model=InvitationLink,
    openapi_extra={SECRET: True},
)
def invited(store: StoreOf, clock: ClockOf, request: Request, body: InviteRequest) -> Response:
    made = invite(store, name=body.name, role=body.role, email=body.email, clock=clock)
    link = f"{own_origin(request, request.app.state.service)}/invitation#{made.token}"
    return json_reply({**made.as_dict(), "link": link}, status=201)


@router.patch(
    f"{_API}/people/{{name}}", Role.ADMIN, summary="Another role, or no sign-in any more", response_model=Person
)
def change(store: StoreOf, name: Annotated[str, Path(max_length=100)], body: PersonRequest) -> Response:
    return reply(change_person(store, name, role=body.role, disabled=body.disabled))
