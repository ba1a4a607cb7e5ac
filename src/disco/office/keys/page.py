"""People and keys: who may sign in or call, as what, and until when; and everybody's own password."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from fastapi import APIRouter, Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.keys.use_cases import MOST_DAYS, ApiKey, create_key, list_keys, revoke_key
from disco.office.people.use_cases import OpenInvitation, Person, change_person, invite, list_people, way_in
from disco.records.errors import InputError, StateError
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import counted, local_text
from disco.reports.table import Table
from disco.web.reading import EMPTY, FormOf, Typed
from disco.web.route import SECRET, ShopOf
from disco.web.security import own_origin
from disco.web.shell import Page, PageRoute, respond

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ROLES = (
    (Role.VIEWER, "viewer: sees campaigns, plans and results"),
    (Role.PLANNER, "planner: plans, launches, sends outcomes, sees customers"),
    (Role.APPROVER, "approver: also approves plans and reads the audit journal"),
    (Role.ADMIN, "admin: also people, keys, settings, schedules and webhooks"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePage(Page):
    """Everybody who can sign in, and every key."""

    template = "people.html"
    rail = "People and keys"
    people: tuple[Person, ...]
    people_table: Table
    invitations: Table
    keys: tuple[ApiKey, ...]
    keys_table: Table
    roles: tuple[tuple[str, str], ...] = ROLES
    inviting: Typed = EMPTY
    """The form that invites somebody."""
    link: str = ""
    """A one-time link that was made just now, and for whom."""
    link_words: str = ""
    making: Typed = EMPTY
    """The form that makes a key."""
    key: str = ""
    """A key that was made just now."""
    key_words: str = ""
    refused: str = ""
    """Why somebody's role was not changed, or why they were not disabled."""

    def tables(self) -> Mapping[str, Table]:
        return {"people": self.people_table, "invitations": self.invitations, "keys": self.keys_table}


# ---- people


@router.get("/people")
def people(request: Request, shop: ShopOf) -> Response:
    return respond(request, _page(shop))


@router.post("/people", openapi_extra={SECRET: True})
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
        return respond(request, replace(_page(shop), inviting=typed), status=422, part="people")
    link = f"{own_origin(request, request.app.state.service)}/invitation#{made.token}"
    until = local_text(made.expires_at, shop.settings.locale)
    words = f"Send this link to {made.name}. It is shown this once, works once, and expires {until}."
    return respond(request, replace(_page(shop), link=link, link_words=words), part="people")


@router.post("/people/change")
def change(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """A role, or whether somebody may sign in."""
    name = form.text("person")
    disabled = {"yes": True, "no": False}.get(form.text("disabled"))
    try:
        with shop.store() as store:
            person = change_person(store, name, role=form.text("role") or None, disabled=disabled)
    except (InputError, StateError) as error:
        return respond(request, replace(_page(shop), refused=str(error)), status=422, part="people")
    request.app.state.service.callers.clear()
    if disabled is None:
        said = f"{person.name} is {person.role} now."
    else:
        said = f"{person.name} can sign in {'no more' if person.disabled else 'again'}."
    return respond(request, _page(shop), part="people", said=said)


# ---- keys


@router.post("/keys", openapi_extra={SECRET: True})
def make_key(request: Request, shop: ShopOf, form: FormOf) -> Response:
    try:
        with shop.store() as store:
            made = create_key(
                store,
                name=form.text("key_name"),
                role=form.text("key_role"),
                expires=_days(form.text("key_days")),
                clock=shop.clock,
            )
    except InputError as error:
        typed = Typed.refused(form, error, names={"role": "key_role", "expires": "key_days"}, otherwise="key_name")
        return respond(request, replace(_page(shop), making=typed), status=422, part="keys")
    words = f"The key for {made.name}. It is shown this once; programs send it as Authorization: Bearer KEY."
    return respond(request, replace(_page(shop), key=made.key, key_words=words), part="keys")


@router.post("/keys/revoke")
def revoke(request: Request, shop: ShopOf, form: FormOf) -> Response:
    with shop.store() as store:
        revoked = revoke_key(store, form.text("key_id"), shop.clock)
    request.app.state.service.callers.clear()
    return respond(request, _page(shop), part="keys", said=f"The key for {revoked.name} is refused from now on.")


def _days(text: str) -> timedelta | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= MOST_DAYS and len(text) <= len("3660")):
        expected = f"a whole number of days from 1 to {MOST_DAYS:,}, or nothing for a key that never expires"
        raise InputError("expires", found=repr(text[:40]), expected=expected)
    return timedelta(days=int(text))


# ---- the page


def _page(shop: ShopFolder) -> PeoplePage:
    locale = shop.settings.locale
    with shop.store() as store:
        found, keys = list_people(store, shop.clock), list_keys(store, shop.clock).keys
    able = sum(not one.disabled for one in found.people)
    valid = sum(one.valid for one in keys)
    people = "1 person" if able == 1 else f"{able:,} people"
    in_use = "no key is" if not valid else "1 key is" if valid == 1 else f"{counted(valid, 'key')} are"
    return PeoplePage(
        title="People and keys",
        answer=f"{people} can sign in, and {in_use} in use.",
        people=found.people,
        people_table=_people(found.people, locale),
        invitations=_invitations(found.invitations, locale),
        keys=keys,
        keys_table=_keys(keys, locale),
    )


def _people(people: tuple[Person, ...], locale: Locale) -> Table:
    rows = [
        [
            one.name,
            str(one.role),
            one.email or "",
            way_in(one),
            "no" if one.disabled else "yes",
            local_text(one.created_at, locale),
        ]
        for one in people
    ]
    columns = ["Name", "Role", "E-mail", "Signs in with", "May sign in", "Since"]
    return Table(caption="People", columns=columns, rows=rows)


def _invitations(found: tuple[OpenInvitation, ...], locale: Locale) -> Table:
    rows = [
        [one.name or "the first administrator", str(one.role), one.invited_by, local_text(one.expires_at, locale)]
        for one in found
    ]
    return Table(
        caption="Invitations that were not used yet", columns=["Name", "Role", "Invited by", "Expires"], rows=rows
    )


def _keys(keys: tuple[ApiKey, ...], locale: Locale) -> Table:
    rows = [[one.name, str(one.role), _key_state(one, locale), one.created_by, one.id] for one in keys]
    return Table(caption="Keys of programs", columns=["For", "Role", "State", "Made by", "Id"], rows=rows)


def _key_state(key: ApiKey, locale: Locale) -> str:
    if key.revoked_at is not None:
        return f"revoked {local_text(key.revoked_at, locale)}"
    if key.expires_at is None:
        return "valid, never expires"
    return f"{'valid until' if key.valid else 'expired'} {local_text(key.expires_at, locale)}"
