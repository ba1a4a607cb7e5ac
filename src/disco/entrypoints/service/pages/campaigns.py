"""Campaigns: what runs, what it costs, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fastapi import Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.campaign import health_of
from disco.entrypoints.service.shop_of import ShopOf, readings_of
from disco.office.approvals.use_cases import WaitingPlan, waiting_plans
from disco.office.drafts.use_cases import list_drafts
from disco.operations.overview import CampaignOverview, NextStep, campaign_names
from disco.records.campaign_records import Phase
from disco.records.jobs import Draft
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.wording import counted, local_text, money, short_date, validity
from disco.records.wording import date as day_text
from disco.views.formats import Count, Money, Percent
from disco.views.table import Column, Table
from disco.web.discretion import as_seen, sees_customers
from disco.web.header import campaign_address, draft_address, next_link, state_text
from disco.web.route import Routes
from disco.web.shell import Link, Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
_FINE = "Fine"
_CAMPAIGNS = "Launched campaigns, the newest first"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignsPage(Page):
    """All campaigns, plans that wait for somebody, and plans that are being written."""

    template = "campaigns.html"
    rail = "Campaigns"
    campaigns: Table
    addresses: tuple[str, ...]
    next_steps: tuple[Link | None, ...]
    """Per campaign, what to do next; None: nothing that is not said beside a newer one."""
    in_full: Table
    """The campaigns with all figures apart."""
    waiting: Table
    waiting_links: tuple[Link | None, ...]
    """Per waiting plan, where it is approved or launched; None where it has no draft here."""
    drafts: Table
    draft_addresses: tuple[str, ...]

    def tables(self) -> Mapping[str, Table]:
        return {"campaigns": self.in_full, "waiting": self.waiting, "drafts": self.drafts}


@router.get("/", Role.VIEWER)
async def start() -> Response:
    return Response(status_code=303, headers={"location": "/campaigns"})


@router.get("/campaigns", Role.VIEWER)
def campaigns(request: Request, shop: ShopOf) -> Response:
    today, locale = shop.clock.today(), shop.settings.locale
    with shop.store(missing="create") as store:
        names = reversed(campaign_names(store))
        found = [as_seen(request, readings_of(request).overview(store, name, today=today)) for name in names]
        waiting = waiting_plans(store, rule=shop.settings.approval, today=today)
        drafts = list_drafts(store).items if sees_customers(request) else ()
    written = {draft.name for draft in drafts}
    page = CampaignsPage(
        title="Campaigns",
        answer=_answer(found, waiting, locale=locale),
        campaigns=_table(found, locale),
        addresses=tuple(campaign_address(one.progress.campaign) for one in found),
        next_steps=tuple(_next_step(one, is_newest=place == 0) for place, one in enumerate(found)),
        in_full=_in_full(found, locale),
        waiting=_waiting(waiting, locale),
        waiting_links=tuple(_waiting_link(one, written) for one in waiting),
        drafts=_drafts(drafts, shop),
        draft_addresses=tuple(draft_address(draft.name) for draft in drafts),
    )
    return respond(request, page)


# ---- words


def _answer(found: Sequence[CampaignOverview], waiting: Sequence[WaitingPlan], *, locale: Locale) -> str:
    """What runs and what it costs, then who is waited for."""
    write = partial(money, currency=locale.currency)
    running = [one for one in found if one.progress.phase in (Phase.RUNNING, Phase.PAUSED)]
    if not found:
        words = "No campaign was launched yet."
    elif not running:
        words = f"No campaign runs; {counted(len(found), 'campaign')} {'is' if len(found) == 1 else 'are'} over."
        if any(one.progress.phase is Phase.SCHEDULED for one in found):
            words = "No campaign runs yet; the next one is scheduled."
    else:
        spent = sum(one.sales.markdown for one in running)
        revenue = sum(one.sales.revenue for one in running)
        budgets = [one.budget for one in running if one.budget is not None]
        of_budget = f" of {write(sum(budgets))} budget" if len(budgets) == len(running) else ""
        name = running[0].progress.campaign if len(running) == 1 else counted(len(running), "campaign")
        verb = "runs" if len(running) == 1 else "run"
        words = f"{name} {verb}: {write(revenue)} revenue so far, {write(spent)}{of_budget} spent on codes."
    ill = {
        one.progress.campaign: wrong
        for one in running
        if (wrong := [line.brief for line in health_of(one) if not line.ok and line.is_new])
    }
    if ill:
        words += "".join(f" Look at {name}: {'; '.join(wrong)}." for name, wrong in ill.items())
    asked = sum(one.approval.required and not one.approval.approved for one in waiting)
    if asked:
        words += f" {counted(asked, 'plan')} {'waits' if asked == 1 else 'wait'} for approval."
    return words


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _health(found: CampaignOverview) -> str:
    """The first thing that is wrong, and how many there are beside it."""
    wrong = list(dict.fromkeys(line.brief for line in health_of(found) if not line.ok))
    if not wrong:
        return _FINE
    first = f"{wrong[0][:1].upper()}{wrong[0][1:]}"
    return first if len(wrong) == 1 else f"{first}, and {len(wrong) - 1} more"


def _next_step(found: CampaignOverview, *, is_newest: bool) -> Link | None:
    """In a few words; that the next campaign can be planned is said once, beside the newest one."""
    progress, link = found.progress, next_link(found.progress)
    match progress.next_step:
        case NextStep.PLAN:
            return replace(link, text="Plan the next") if is_newest else None
        case NextStep.WAIT:
            return replace(link, text=f"Wait until {short_date(progress.matures_on)}")
        case NextStep.WATCH:
            return replace(link, text="See results")
        case _:
            return link


def _table(found: Sequence[CampaignOverview], locale: Locale) -> Table:
    amount = Money(locale.currency)
    return Table.of(
        _CAMPAIGNS,
        found,
        {
            "Campaign": lambda one: one.progress.campaign,
            "State": lambda one: str(one.progress.phase),
            "Codes valid": lambda one: validity(one.progress.opens, one.progress.closes),
            Column("Codes", Count()): lambda one: one.entry.codes,
            Column("Revenue with codes", amount): lambda one: one.sales.revenue,
            Column("Code cost", amount): lambda one: one.sales.markdown,
            Column("Of budget", Percent(decimals=0)): lambda one: (
                one.sales.markdown / one.budget if one.budget else None
            ),
            "Health": _health,
        },
    )


def _in_full(found: Sequence[CampaignOverview], locale: Locale) -> Table:
    amount = Money(locale.currency)
    return Table.of(
        _CAMPAIGNS,
        found,
        {
            "Campaign": lambda one: one.progress.campaign,
            "State": lambda one: state_text(one.progress),
            "Codes valid": lambda one: validity(one.progress.opens, one.progress.closes),
            Column("Customers", Count()): lambda one: one.entry.customers,
            Column("Codes", Count()): lambda one: one.entry.codes,
            Column("Purchases", Count()): lambda one: one.sales.purchases,
            Column("Revenue with codes", amount): lambda one: one.sales.revenue,
            Column("Code cost", amount): lambda one: one.sales.markdown,
            Column("Budget", amount): lambda one: one.budget,
            "Health": lambda one: " ".join(line.text for line in health_of(one) if not line.ok) or _FINE,
            "Next step": lambda one: next_link(one.progress).text,
        },
    )


def _waiting(waiting: Sequence[WaitingPlan], locale: Locale) -> Table:
    return Table.of(
        "Plans that are not launched",
        waiting,
        {
            "Campaign": lambda one: one.approval.campaign,
            "Starts": lambda one: day_text(one.valid_from),
            Column("Customers", Count()): lambda one: one.customers,
            Column("Codes", Count()): lambda one: one.codes,
            "Planned": lambda one: (
                f"{local_text(one.planned_at, locale)} by {_and(one.approval.made_by or ('somebody',))}"
            ),
            "Waits for": _waits_for,
        },
    )


def _waits_for(plan: WaitingPlan) -> str:
    if plan.approval.required and not plan.approval.approved:
        return "the approval of a second person"
    by = _and([one.by for one in plan.approval.approvals]) if plan.approval.approvals else ""
    return f"its launch; approved by {by}" if by else "its launch"


def _waiting_link(plan: WaitingPlan, written: set[str]) -> Link | None:
    if plan.approval.campaign not in written:
        return None
    asked = plan.approval.required and not plan.approval.approved
    return Link("Review and approve" if asked else "Launch", draft_address(plan.approval.campaign, "launch"))


def _drafts(drafts: Sequence[Draft], shop: Shop) -> Table:
    return Table.of(
        "Plans that are being written",
        drafts,
        {
            "Draft": lambda one: one.name,
            "Changed": lambda one: f"{local_text(one.changed_at, shop.settings.locale)} by {one.actor.name}",
        },
    )
