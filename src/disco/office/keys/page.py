"""People and keys: who may sign in or call, as what, and until when."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from fastapi import Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.keys.use_cases import MOST_DAYS, ApiKey, create_key, list_keys, revoke_key
from disco.office.people.page import ROLES, PeoplePage, people_page
from disco.office.people.use_cases import list_people
from disco.records.errors import InputError
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import counted, local_text
from disco.views.table import Table
from disco.web.reading import EMPTY, FormOf, Typed
from disco.web.route import SECRET, Routes, ShopOf
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage(Page):
    """Everybody who can sign in, and every key."""

    template = "keys.html"
    rail = "People and keys"
    people: PeoplePage
    keys: tuple[ApiKey, ...]
    keys_table: Table
    roles: tuple[tuple[str, str], ...] = ROLES
    making: Typed = EMPTY
    """The form that makes a key."""
    key: str = ""
    """A key that was made just now."""
    key_words: str = ""

    def tables(self) -> Mapping[str, Table]:
        return {**self.people.tables(), "keys": self.keys_table}


@router.get("/people", Role.ADMIN)
def people(request: Request, shop: ShopOf) -> Response:
    return respond(request, _page(shop))


@router.post("/keys", Role.ADMIN, openapi_extra={SECRET: True})
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


@router.post("/keys/revoke", Role.ADMIN)
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


def _page(shop: ShopFolder) -> KeysPage:
    locale = shop.settings.locale
    with shop.store() as store:
        found, keys = list_people(store, shop.clock), list_keys(store, shop.clock).keys
    able = sum(not one.disabled for one in found.people)
    valid = sum(one.valid for one in keys)
    in_all = "1 person" if able == 1 else f"{able:,} people"
    in_use = "no key is" if not valid else "1 key is" if valid == 1 else f"{counted(valid, 'key')} are"
    return KeysPage(
        title="People and keys",
        answer=f"{in_all} can sign in, and {in_use} in use.",
        people=people_page(found, locale),
        keys=keys,
        keys_table=_keys(keys, locale),
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
