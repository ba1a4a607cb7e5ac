"""Plans: those that are being written, those that are kept, and how a new one begins."""

from dataclasses import dataclass
from datetime import date as day_of
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.plan_form import revision_of
from disco.entrypoints.service.pages.planner import draft_of
from disco.entrypoints.service.shop_of import ShopOf
from disco.office.drafts.use_cases import delete_draft, list_drafts, put_draft
from disco.operations.approvals import plan_approval
from disco.operations.review import PlanEntry, list_plans, new_plan, next_plan
from disco.records.errors import DiscoError, RevisionError, RevisionMissingError
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.plan import Name
from disco.records.wording import counted, date
from disco.web.discretion import sees_customers
from disco.web.header import campaign_address, draft_address
from disco.web.reading import FormOf
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)
_MOST_PLANS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftEntry:
    """A plan that is being written."""

    name: str
    address: str
    revision: int
    changed: str
    """By whom and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEntry:
    """A plan that was decided and kept."""

    campaign: str
    plan_id: str
    address: str
    state: str
    codes: int
    customers: int
    planned: str
    starts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansPage(Page):
    """Drafts and kept plans."""

    template = "plans.html"
    rail = "Plans"
    drafts: tuple[DraftEntry, ...]
    kept: tuple[KeptEntry, ...]
    campaigns: tuple[str, ...]
    """That can be copied."""
    name: str = ""
    name_error: str = ""
    copied: str = ""
    copied_error: str = ""


@router.get("/plan", Role.VIEWER)
def plans(request: Request, shop: ShopOf, copy: str = "") -> Response:
    return respond(request, _page(request, shop, copied=copy[:100]))


@router.post("/plan", Role.PLANNER)
def begin(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """A new draft: with sensible limits and dates, or those of an earlier campaign."""
    name, copied = form.text("name"), form.text("copied")
    error = _name_error(name)
    if error:
        return respond(
            request, _page(request, shop, name=name, copied=copied, name_error=error), status=422, part="begin"
        )
    with shop.site(builds=False) as site:
        try:
            content = next_plan(site, copied, campaign=name) if copied else new_plan(site, campaign=name)
        except DiscoError as failed:
            page = _page(request, shop, name=name, copied=copied, copied_error=str(failed))
            return respond(request, page, status=422, part="begin")
        try:
            put_draft(site.store, name, content, clock=site.clock)
        except (RevisionError, RevisionMissingError):
            page = _page(
                request, shop, name=name, copied=copied, name_error=f"A draft {name} exists. Choose another name."
            )
            return respond(request, page, status=422, part="begin")
    return go_to(request, draft_address(name) + (f"?against={quote(copied, safe='')}" if copied else ""))


@router.post("/plan/{draft}/delete", Role.PLANNER)
def delete(request: Request, shop: ShopOf, draft: Annotated[str, Path(max_length=100)], form: FormOf) -> Response:
    draft_of(shop, draft)
    with shop.store() as store:
        delete_draft(store, draft, if_match=revision_of(form), clock=shop.clock)
    return go_to(request, "/plan")


def _name_error(name: str) -> str:
    from pydantic import TypeAdapter, ValidationError

    if not name:
        return "A name is needed, such as spring-27."
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        return f"Found {name[:60]!r}; expected {error.errors()[0]['msg'].removeprefix('Value error, ')}."
    return ""


def _page(
    request: Request,
    shop: Shop,
    *,
    name: str = "",
    copied: str = "",
    name_error: str = "",
    copied_error: str = "",
) -> PlansPage:
    locale, today = shop.settings.locale, shop.clock.today()
    with shop.store() as store:
        drafts = list_drafts(store).items if sees_customers(request) else None
        entries, _ = list_plans(store, limit=_MOST_PLANS)
        kept = tuple(_kept(shop, entry, locale) for entry in entries)
        with store.reading() as transaction:
            launched = transaction.plans.campaigns()
    waiting = sum(one.state == "waiting for approval" for one in kept)
    return PlansPage(
        title="Plans",
        answer=_answer(
            None if drafts is None else len(drafts),
            waiting,
            sum(one.state in ("approved", "not launched") for one in kept),
        ),
        drafts=tuple(
            DraftEntry(
                name=one.name,
                address=draft_address(one.name),
                revision=one.revision,
                changed=f"{one.actor.name}, {_when(locale.local(one.changed_at).date(), today)} "
                f"at {locale.local(one.changed_at):%H:%M}",
            )
            for one in sorted(drafts or (), key=lambda one: one.changed_at, reverse=True)
        ),
        kept=kept,
        campaigns=tuple(one.campaign for one in sorted(launched, key=lambda record: record.launched_at, reverse=True)),
        name=name,
        name_error=name_error,
        copied=copied,
        copied_error=copied_error,
    )


def _kept(shop: Shop, entry: PlanEntry, locale: Locale) -> KeptEntry:
    with shop.store() as store:
        found = plan_approval(store, entry.plan_id, rule=shop.settings.approval)
    state = "approved" if found.approved else "waiting for approval" if found.required else "not launched"
    return KeptEntry(
        campaign=entry.campaign,
        plan_id=entry.plan_id,
        address=campaign_address(entry.campaign) if entry.launched else f"/plans/{entry.plan_id}/launch",
        state="launched" if entry.launched else state,
        codes=entry.codes,
        customers=entry.customers,
        planned=date(locale.local(entry.planned_at).date()),
        starts=date(entry.valid_from),
    )


def _answer(drafts: int | None, waiting: int, ready: int) -> str:
    """drafts: None for somebody who may not see them."""
    if not (drafts or waiting or ready):
        return "There is no plan to launch." if drafts is None else "No plan is being written. Begin one below."
    parts = [] if drafts is None else [counted(drafts, "draft")]
    if waiting:
        parts.append(f"{counted(waiting, 'plan')} waiting for approval")
    if ready:
        parts.append(f"{counted(ready, 'plan')} that can be launched")
    return f"{', '.join(parts)}."


def _when(day: day_of, today: day_of) -> str:
    return "today" if day == today else date(day)
