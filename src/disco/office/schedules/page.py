"""The part of the settings page that shows schedules and changes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Path, Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.jobs.bodies import BODIES
from disco.office.jobs.page import WORDS
from disco.office.schedules.use_cases import (
    add_schedule,
    check_scheduled,
    list_schedules,
    pause_schedule,
    remove_schedule,
)
from disco.records.errors import DiscoError, InputError
from disco.records.jobs import JobKind, JobSchedule
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import local_text
from disco.views.table import Table
from disco.web.reading import EMPTY, FormOf, Typed, read_json
from disco.web.route import Routes, ShopOf
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
ItemId = Annotated[str, Path(max_length=100)]
_KINDS = tuple((kind, WORDS[kind]) for kind in BODIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesPage(Page):
    """The schedules, and the form that adds one."""

    template = "schedules.html"
    rail = "Settings"
    schedules: tuple[JobSchedule, ...]
    schedules_table: Table
    kinds: tuple[tuple[str, str], ...] = _KINDS
    scheduling: Typed = EMPTY

    def tables(self) -> Mapping[str, Table]:
        return {"schedules": self.schedules_table}


def schedules_page(schedules: tuple[JobSchedule, ...], locale: Locale) -> SchedulesPage:
    """Schedules as they are now."""
    table = _schedules(schedules, locale)
    return SchedulesPage(title="Settings", answer="", schedules=schedules, schedules_table=table)


def _page(shop: ShopFolder, **changes: Any) -> SchedulesPage:
    with shop.store() as store:
        return replace(schedules_page(list_schedules(store).items, shop.settings.locale), **changes)


@router.post("/schedules", Role.ADMIN)
def schedule(request: Request, shop: ShopOf, form: FormOf) -> Response:
    try:
        kind = _kind(form.text("kind"))
        rule, body = form.text("rule"), _body(form.text("body"))
        check_scheduled(shop, kind, body, rule)
        with shop.store() as store:
            made = add_schedule(store, kind=kind, body=body, rule=rule, clock=shop.clock)
    except DiscoError as error:
        names = {"kind": "kind", "rule of a schedule": "rule", "schedule": "rule"}
        typed = Typed.refused(form, error, names=names, otherwise="body")
        return respond(request, _page(shop, scheduling=typed), status=422, part="clock")
    said = f"{WORDS[made.kind]}: {made.rule}."
    return respond(request, _page(shop), part="clock", said=said)


@router.post("/schedules/{item}/switch", Role.ADMIN)
def switch_schedule(request: Request, shop: ShopOf, item: ItemId, form: FormOf) -> Response:
    with shop.store() as store:
        made = pause_schedule(store, item, paused=form.text("paused") == "yes", clock=shop.clock)
    said = "The schedule asks for nothing for now." if made.paused else "The schedule goes on."
    return respond(request, _page(shop), part="clock", said=said)


@router.post("/schedules/{item}/remove", Role.ADMIN)
def unschedule(request: Request, shop: ShopOf, item: ItemId) -> Response:
    with shop.store() as store:
        remove_schedule(store, item)
    return respond(request, _page(shop), part="clock", said="The schedule was removed.")


def _kind(text: str) -> JobKind:
    if text not in BODIES:
        raise InputError("kind", found=repr(text[:40]), expected="one of the list")
    return JobKind(text)


def _body(text: str) -> dict[str, Any]:
    found = read_json(text.encode()) if text else {}
    if not isinstance(found, dict):
        raise InputError("body", found=repr(text[:40]), expected='keys and values, such as {"campaigns": ["A"]}')
    return found


def _schedules(schedules: tuple[JobSchedule, ...], locale: Locale) -> Table:
    def next_run(one: JobSchedule) -> str:
        return "paused" if one.paused else "" if one.next_at is None else local_text(one.next_at, locale)

    return Table.of(
        "Schedules",
        schedules,
        {
            "What": lambda one: WORDS[one.kind],
            "When": lambda one: one.rule,
            "Next": next_run,
            "Asks for": lambda one: json.dumps(one.body, ensure_ascii=False) if one.body else "",
            "Made by": lambda one: one.actor.name,
        },
    )
