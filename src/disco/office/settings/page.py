"""Settings: what the shop is, what a launch needs, whom the service tells, and what is done by the clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from disco.adapters.config import ShopSettings
from disco.adapters.shop import ShopFolder
from disco.office.approvals.use_cases import approval_setting
from disco.office.jobs.bodies import BODIES
from disco.office.jobs.page import WORDS
from disco.office.schedules.use_cases import (
    add_schedule,
    check_scheduled,
    list_schedules,
    pause_schedule,
    remove_schedule,
)
from disco.office.settings.file import change_shop, shown_settings
from disco.office.webhooks.use_cases import add_webhook, list_webhooks, remove_webhook, set_webhook_active
from disco.records.errors import DiscoError, InputError, PlanError, StateError
from disco.records.jobs import Event, JobKind, JobSchedule, Webhook
from disco.records.locale import Locale
from disco.records.people import ApprovalRule, Role
from disco.records.wording import counted, local_text
from disco.reports.table import Cell, Table
from disco.web.reading import EMPTY, Form, FormOf, Typed, read_json, sentence
from disco.web.route import SECRET, ShopOf
from disco.web.shell import Page, PageRoute, go_to, respond

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ItemId = Annotated[str, Path(max_length=100)]
_RULES = (
    (ApprovalRule.NONE, "nobody: whoever plans may launch"),
    (ApprovalRule.SECOND_PERSON, "a second person approves the plan"),
)
_KINDS = tuple((kind, WORDS[kind]) for kind in BODIES)
_MOST_DIGITS = 40
_SECTIONS = ("csv", "model", "engagement")
_FIELDS = {
    "currency": ("Currency", "A code of ISO 4217, such as EUR. It cannot change once a campaign was launched."),
    "time_zone": ("Time zone", "Where days begin, such as Europe/Berlin."),
    "threads": ("Threads", "Of the engine. Empty: one per processor."),
    "csv.delimiter": ("CSV delimiter", "Empty: found in each file."),
    "csv.decimal": ("CSV decimal mark", "A point or a comma. Empty: a point."),
    "csv.dates": ("CSV dates", "Such as %d.%m.%Y. Empty: 2027-03-08."),
    "csv.encoding": ("CSV encoding", "Such as cp1252. Empty: found in each file."),
    "model.forgetting": ("Weight of older campaigns", "Per campaign since, from above 0 to 1. 1: none is forgotten."),
    "engagement.prior_rate": (
        "Share of receivers who buy",
        "The model's, before anything was learned; between 0 and 1.",
    ),
    "engagement.prior_codes": (
        "How many codes that share is worth",
        "The more, the longer it counts against what was learned.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """A setting that can be changed here."""

    name: str
    label: str
    help: str
    value: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage(Page):
    """The settings of the shop, its webhooks and its schedules."""

    template = "settings.html"
    rail = "Settings"
    approval: str
    approval_help: str
    approval_error: str = ""
    rules: tuple[tuple[str, str], ...] = _RULES
    fields: tuple[SettingField, ...]
    every: Table
    webhooks: tuple[Webhook, ...]
    webhooks_table: Table
    events: tuple[str, ...] = tuple(Event)
    hooking: Typed = EMPTY
    hooked: tuple[str, ...] = ()
    """The events that are ticked."""
    secret: str = ""
    """The secret of a webhook that was made just now."""
    schedules: tuple[JobSchedule, ...]
    schedules_table: Table
    kinds: tuple[tuple[str, str], ...] = _KINDS
    scheduling: Typed = EMPTY

    def tables(self) -> Mapping[str, Table]:
        return {"settings": self.every, "schedules": self.schedules_table, "webhooks": self.webhooks_table}


@router.get("/settings")
def settings(request: Request, shop: ShopOf) -> Response:
    return respond(request, _page(request, shop))


@router.post("/settings")
def change(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """What differs from the present settings is written to disco.yaml; the rule of approval to the database."""
    try:
        approval = {"approval": form.text("approval")} if "approval" in form else {}
        change_shop(shop, {**_changes(shop.settings, form), **approval})
    except (InputError, StateError) as error:
        return respond(request, _refused(_page(request, shop), form, error), status=422, part="shop")
    return go_to(request, "/settings", said="The settings were saved.")


# ---- webhooks


@router.post("/webhooks", openapi_extra={SECRET: True})
def hook(request: Request, shop: ShopOf, form: FormOf) -> Response:
    try:
        with shop.store() as store:
            made = add_webhook(store, url=form.text("url"), events=form.texts("events"), clock=shop.clock)
    except InputError as error:
        names = {"event of a webhook": "events", "events of a webhook": "events"}
        typed = Typed.refused(form, error, names=names, otherwise="url")
        page = replace(_page(request, shop), hooking=typed, hooked=form.texts("events"))
        return respond(request, page, status=422, part="hooks")
    return respond(request, replace(_page(request, shop), secret=made.secret), part="hooks")


@router.post("/webhooks/{item}/switch")
def switch_webhook(request: Request, shop: ShopOf, item: ItemId, form: FormOf) -> Response:
    with shop.store() as store:
        webhook = set_webhook_active(store, item, active=form.text("active") == "yes")
    said = "The webhook is active again." if webhook.active else "The webhook is paused."
    return respond(request, _page(request, shop), part="hooks", said=said)


@router.post("/webhooks/{item}/remove")
def unhook(request: Request, shop: ShopOf, item: ItemId) -> Response:
    with shop.store() as store:
        remove_webhook(store, item)
    return respond(request, _page(request, shop), part="hooks", said="The webhook was removed.")


# ---- schedules


@router.post("/schedules")
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
        return respond(request, replace(_page(request, shop), scheduling=typed), status=422, part="clock")
    said = f"{WORDS[made.kind]}: {made.rule}."
    return respond(request, _page(request, shop), part="clock", said=said)


@router.post("/schedules/{item}/switch")
def switch_schedule(request: Request, shop: ShopOf, item: ItemId, form: FormOf) -> Response:
    with shop.store() as store:
        made = pause_schedule(store, item, paused=form.text("paused") == "yes", clock=shop.clock)
    said = "The schedule asks for nothing for now." if made.paused else "The schedule goes on."
    return respond(request, _page(request, shop), part="clock", said=said)


@router.post("/schedules/{item}/remove")
def unschedule(request: Request, shop: ShopOf, item: ItemId) -> Response:
    with shop.store() as store:
        remove_schedule(store, item)
    return respond(request, _page(request, shop), part="clock", said="The schedule was removed.")


def _kind(text: str) -> JobKind:
    if text not in BODIES:
        raise InputError("kind", found=repr(text[:40]), expected="one of the list")
    return JobKind(text)


def _body(text: str) -> dict[str, Any]:
    found = read_json(text.encode()) if text else {}
    if not isinstance(found, dict):
        raise InputError("body", found=repr(text[:40]), expected='keys and values, such as {"campaigns": ["A"]}')
    return found


# ---- the page


def _page(request: Request, shop: ShopFolder) -> SettingsPage:
    found, locale = shop.settings, shop.settings.locale
    is_admin = request.state.caller.role.allows(Role.ADMIN)
    with shop.store(missing="create") as store:
        rule = approval_setting(store, rule=found.approval)
        schedules = list_schedules(store).items
        webhooks = list_webhooks(store).items if is_admin else ()  # a URL may hold a secret
    asked = "a second person's approval" if rule.approval is ApprovalRule.SECOND_PERSON else "no approval"
    fixed = rule.in_settings is ApprovalRule.SECOND_PERSON
    active = sum(not one.paused for one in schedules)
    return SettingsPage(
        title="Settings",
        answer=f"Money is in {found.currency}, days begin in {found.time_zone}, and a launch needs {asked}; "
        f"{counted(active, 'schedule') if active else 'no schedule'} {'is' if active <= 1 else 'are'} active.",
        approval=str(rule.in_database),
        approval_help="disco.yaml asks for a second person, whatever is chosen here." if fixed else "",
        fields=tuple(
            SettingField(name=name, label=text[0], help=text[1], value=_value(found, name))
            for name, text in _FIELDS.items()
        ),
        every=_every(found, rule.approval),
        webhooks=webhooks,
        webhooks_table=_webhooks(webhooks, locale),
        schedules=schedules,
        schedules_table=_schedules(schedules, locale),
    )


def _value(found: ShopSettings, name: str) -> str:
    value: Any = found
    for part in name.split("."):
        value = getattr(value, part)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _changes(found: ShopSettings, form: Form) -> dict[str, Any]:
    """Settings whose field differs from what is in force, by their names in disco.yaml."""
    changes: dict[str, Any] = {}
    for name in _FIELDS:
        text = form.text(name)
        if name not in form or text == _value(found, name):
            continue
        section, _, key = name.partition(".")
        if not key:
            changes[section] = _typed(text)
            continue
        whole = changes.setdefault(section, getattr(found, section).model_dump(mode="json", exclude_unset=True))
        if text:
            whole[key] = text if section == "csv" else _typed(text)
        else:
            whole.pop(key, None)
    return {name: value or None if name in _SECTIONS else value for name, value in changes.items()}


def _typed(text: str) -> int | float | str | None:
    """A number where it is a finite one; the settings say whether they want it."""
    if not text:
        return None
    for read in (int, float):
        try:
            number = read(text) if text.isascii() and len(text) < _MOST_DIGITS else text
        except ValueError:
            continue
        return number if isinstance(number, str) or isfinite(number) else text
    return text


def _refused(page: SettingsPage, form: Form, error: DiscoError) -> SettingsPage:
    said = {"approval" if error.what == "approval" else error.what: sentence(error)}
    if isinstance(error, PlanError):
        said = {
            one.file.rpartition(", ")[2]: f"Found {one.found}; expected {one.expected}. {one.fix}"
            for one in error.problems
        }
    fields = tuple(
        replace(one, value=form.text(one.name, one.value), error=said.pop(one.name, "")) for one in page.fields
    )
    return replace(
        page, fields=fields, approval=form.text("approval", page.approval), approval_error="\n".join(said.values())
    )


def _every(found: ShopSettings, approval: ApprovalRule) -> Table:
    rows: list[list[Cell]] = [[name, text] for name, text in _flat(shown_settings(found, approval))]
    return Table(
        caption="All settings, without secrets",
        columns=["Setting", "Value"],
        rows=rows,
        note="What is not above names files, databases and proxies; whoever runs the service changes it in disco.yaml.",
    )


def _flat(form: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in form.items():
        if isinstance(value, Mapping) and value:
            found += _flat(value, f"{before}{name}.")
        elif value not in (None, {}, []):
            found.append((f"{before}{name}", value if isinstance(value, str) else json.dumps(value)))
    return found


def _webhooks(webhooks: tuple[Webhook, ...], locale: Locale) -> Table:
    rows: list[list[Cell]] = [
        [
            one.url,
            ", ".join(one.events),
            "told" if one.active else "paused",
            f"{local_text(one.created_at, locale)} by {one.actor.name}",
        ]
        for one in webhooks
    ]
    return Table(caption="Webhooks", columns=["Address", "Is told about", "State", "Made"], rows=rows)


def _schedules(schedules: tuple[JobSchedule, ...], locale: Locale) -> Table:
    rows: list[list[Cell]] = [
        [
            WORDS[one.kind],
            one.rule,
            "paused" if one.paused else "" if one.next_at is None else local_text(one.next_at, locale),
            json.dumps(one.body, ensure_ascii=False) if one.body else "",
            one.actor.name,
        ]
        for one in schedules
    ]
    return Table(caption="Schedules", columns=["What", "When", "Next", "Asks for", "Made by"], rows=rows)
