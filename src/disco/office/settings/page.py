"""Settings: what the shop is, what a launch needs, whom the service tells, and what is done by the clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from fastapi import Request, Response

from disco.adapters.config import ShopSettings
from disco.adapters.shop import ShopFolder
from disco.office.approvals.use_cases import approval_setting
from disco.office.schedules.page import SchedulesPage, schedules_page
from disco.office.schedules.use_cases import list_schedules
from disco.office.settings.file import change_shop, shown_settings
from disco.office.webhooks.page import WebhooksPage, webhooks_page
from disco.office.webhooks.use_cases import list_webhooks
from disco.records.errors import DiscoError, InputError, PlanError, StateError
from disco.records.people import ApprovalRule, Role
from disco.records.wording import counted
from disco.views.table import Cell, Table
from disco.web.reading import Form, FormOf, sentence
from disco.web.route import Routes, ShopOf
from disco.web.shell import Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)
_RULES = (
    (ApprovalRule.NONE, "nobody: whoever plans may launch"),
    (ApprovalRule.SECOND_PERSON, "a second person approves the plan"),
)
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
    "model.forgetting": (
        "Weight of older campaigns",
        "Per campaign since, from above 0 to 1, or learned. 1: none is forgotten.",
    ),
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
    hooks: WebhooksPage
    clock: SchedulesPage

    def tables(self) -> Mapping[str, Table]:
        return {"settings": self.every, **self.clock.tables(), **self.hooks.tables()}


@router.get("/settings", Role.PLANNER)
def settings(request: Request, shop: ShopOf) -> Response:
    return respond(request, _page(request, shop))


@router.post("/settings", Role.ADMIN)
def change(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """What differs from the present settings is written to disco.yaml; the rule of approval to the database."""
    try:
        approval = {"approval": form.text("approval")} if "approval" in form else {}
        change_shop(shop, {**_changes(shop.settings, form), **approval})
    except (InputError, StateError) as error:
        return respond(request, _refused(_page(request, shop), form, error), status=422, part="shop")
    return go_to(request, "/settings", said="The settings were saved.")


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
        hooks=webhooks_page(webhooks, locale),
        clock=schedules_page(schedules, locale),
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
