"""The part of the page of people and keys that shows people, invites them and changes their roles."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.people.use_cases import OpenInvitation, People, Person, change_person, invite, list_people, way_in
from disco.records.errors import InputError, StateError
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import local_text
from disco.views.table import Table
from disco.web.reading import EMPTY, FormOf, Typed
from disco.web.route import SECRET, Routes, ShopOf
from disco.web.security import own_origin
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
ROLES = (
    (Role.VIEWER, "viewer: sees campaigns, plans and results"),
    (Role.PLANNER, "planner: plans, launches, sends outcomes, sees customers"),
    (Role.APPROVER, "approver: also approves plans and reads the audit journal"),
    (Role.ADMIN, "admin: also people, keys, settings, schedules and webhooks"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePage(Page):
    """Everybody who can sign in, and who was invited."""

    template = "people.html"
    rail = "People and keys"
    people: tuple[Person, ...]
    people_table: Table
    invitations: Table
    roles: tuple[tuple[str, str], ...] = ROLES
    inviting: Typed = EMPTY
    """The form that invites somebody."""
    link: str = ""
    """A one-time link that was made just now, and for whom."""
    link_words: str = ""
    refused: str = ""
    """Why somebody's role was not changed, or why they were not disabled."""

    def tables(self) -> Mapping[str, Table]:
        return {"people": self.people_table, "invitations": self.invitations}


def people_page(found: People, locale: Locale) -> PeoplePage:
    """People as they are now."""
    return PeoplePage(
        title="People and keys",
        answer="",
        people=found.people,
        people_table=_people(found.people, locale),
        invitations=_invitations(found.invitations, locale),
    )


def _page(shop: ShopFolder, **changes: Any) -> PeoplePage:
    with shop.store() as store:
        return replace(people_page(list_people(store, shop.clock), shop.settings.locale), **changes)


@router.post("/people", Role.ADMIN, openapi_extra={SECRET: True})
def invite_person(request: Request, shop: ShopOf, form: FormOf) -> Response:
    try:
        with shop.store() as store:
            made = invite(
                store,
                name=form.text("name"),
                role=form.text("role"),
                email=form.text("email") or None,
                clock=shop.clock,
            )
    except (InputError, StateError) as error:
        typed = Typed.refused(form, error, names={"role": "role", "email": "email"}, otherwise="name")
        return respond(request, _page(shop, inviting=typed), status=422, part="people")
    link = f"{own_origin(request, request.app.state.service)}/invitation#{made.token}"
    until = local_text(made.expires_at, shop.settings.locale)
    words = f"Send this link to {made.name}. It is shown this once, works once, and expires {until}."
    return respond(request, _page(shop, link=link, link_words=words), part="people")


@router.post("/people/change", Role.ADMIN)
def change(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """A role, or whether somebody may sign in."""
    name = form.text("person")
    disabled = {"yes": True, "no": False}.get(form.text("disabled"))
    try:
        with shop.store() as store:
            person = change_person(store, name, role=form.text("role") or None, disabled=disabled)
    except (InputError, StateError) as error:
        return respond(request, _page(shop, refused=str(error)), status=422, part="people")
    request.app.state.service.callers.clear()
    if disabled is None:
        said = f"{person.name} is {person.role} now."
    else:
        said = f"{person.name} can sign in {'no more' if person.disabled else 'again'}."
    return respond(request, _page(shop), part="people", said=said)


def _people(people: tuple[Person, ...], locale: Locale) -> Table:
    return Table.of(
        "People",
        people,
        {
            "Name": lambda one: one.name,
            "Role": lambda one: str(one.role),
            "E-mail": lambda one: one.email or "",
            "Signs in with": way_in,
            "May sign in": lambda one: "no" if one.disabled else "yes",
            "Since": lambda one: local_text(one.created_at, locale),
        },
    )


def _invitations(found: tuple[OpenInvitation, ...], locale: Locale) -> Table:
    return Table.of(
        "Invitations that were not used yet",
        found,
        {
            "Name": lambda one: one.name or "the first administrator",
            "Role": lambda one: str(one.role),
            "Invited by": lambda one: one.invited_by,
            "Expires": lambda one: local_text(one.expires_at, locale),
        },
    )
