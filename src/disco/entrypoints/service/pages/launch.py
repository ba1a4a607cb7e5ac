"""The launch of a kept plan: a checklist, a dry run, a second person's approval, and the campaign's name typed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.planner import draft_of
from disco.entrypoints.service.shop_of import ShopOf
from disco.entrypoints.use_cases import prepare_later
from disco.office.drafts.use_cases import list_drafts
from disco.operations.approvals import PlanApproval, plan_approval
from disco.operations.review import LaunchCheck, LaunchChecks, launch_checks, plan_to_compare
from disco.records.campaign_records import PlanRecord
from disco.records.errors import DiscoError
from disco.records.people import Role
from disco.records.wording import counted
from disco.views.formats import Money
from disco.views.planner import LimitsDifference, difference_from, group_table
from disco.views.table import Table
from disco.web.discretion import as_seen, sees_customers
from disco.web.header import campaign_address, draft_address, draft_header
from disco.web.reading import FormOf
from disco.web.route import Routes
from disco.web.shell import Header, Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)
PlanId = Annotated[str, Path(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPage(Page):
    """A kept plan before its launch."""

    template = "launch.html"
    rail = "Plans"
    plan_id: str
    campaign: str
    draft: str
    """The draft it was made from, where there is one."""
    checks: tuple[LaunchCheck, ...]
    is_launched: bool
    can_launch: bool
    """Whether no check says that it would be refused."""
    approval: PlanApproval
    can_approve: bool
    """Whether whoever looks may consent: they did not make the plan, and nobody has."""
    is_maker: bool
    groups: Table
    difference: LimitsDifference | None
    typed: str = ""
    typed_error: str = ""
    tried: tuple[str, ...] = ()
    """What a dry run said, line by line."""
    was_refused: bool = False

    @property
    def address(self) -> str:
        return f"/plans/{self.plan_id}/launch"

    def tables(self) -> Mapping[str, Table]:
        found = {"groups": self.groups}
        return found if self.difference is None else {**found, "difference": self.difference.figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToLaunchPage(Page):
    """A draft that was not saved as a plan yet."""

    template = "nothing_to_launch.html"
    rail = "Plans"
    address: str


@router.get("/plan/{draft}/launch", Role.PLANNER)
def of_draft(request: Request, shop: ShopOf, draft: Annotated[str, Path(max_length=100)]) -> Response:
    """The newest plan that was saved for the campaign of a draft."""
    name = draft_of(shop, draft).plan.get("campaign")
    with shop.store() as store, store.reading() as transaction:
        kept = transaction.plans.of(name) if isinstance(name, str) else ()
    if kept:
        newest = max(kept, key=lambda record: record.planned_at)
        return Response(
            status_code=303, headers={"location": f"/plans/{newest.plan_id}/launch?draft={quote(draft, safe='')}"}
        )
    page = NothingToLaunchPage(
        title="Launch",
        answer="This draft was not saved as a plan yet, so there is nothing to launch.",
        header=draft_header(draft, here="launch"),
        address=draft_address(draft),
    )
    return respond(request, page)


@router.get("/plans/{plan_id}/launch", Role.VIEWER)
def launch_page(
    request: Request, shop: ShopOf, plan_id: PlanId, draft: Annotated[str, Query(max_length=100)] = ""
) -> Response:
    return respond(request, _page(request, shop, plan_id, draft=draft))


@router.post("/plans/{plan_id}/launch/try", Role.PLANNER)
def attempt(request: Request, shop: ShopOf, plan_id: PlanId) -> Response:
    """A dry run: everything that a launch checks, and nothing is written."""
    try:
        done = shop.launch(plan_id, dry_run=True)
    except DiscoError as error:
        lines = tuple(line.strip() for line in str(error).splitlines())
        return respond(request, _page(request, shop, plan_id, tried=lines, was_refused=True), part="tried")
    codes, customers = counted(done.codes, "code"), counted(done.customers, "customer")
    words = f"The launch would work: {codes} for {customers}. Nothing was written."
    return respond(request, _page(request, shop, plan_id, tried=(words, *done.warnings)), part="tried")


@router.post("/plans/{plan_id}/approve", Role.APPROVER)
def approve(request: Request, shop: ShopOf, plan_id: PlanId) -> Response:
    approved = shop.approve(plan_id)
    return go_to(request, f"/plans/{approved.plan_id}/launch")


@router.post("/plans/{plan_id}/launch", Role.PLANNER)
def launch(request: Request, shop: ShopOf, plan_id: PlanId, form: FormOf) -> Response:
    """Whoever launches types the name of the campaign."""
    typed, record = form.text("campaign"), _record(shop, plan_id)
    if typed != record.plan.campaign:
        found = f"Found {typed[:60]!r}; expected" if typed else "Type"
        error = f"{found} the name of the campaign, {record.plan.campaign}."
        page = _page(request, shop, plan_id, typed=typed, typed_error=error)
        return respond(request, page, status=422, part="confirm")
    launched = shop.launch(record.plan_id)
    prepare_later(shop, launched)
    return go_to(request, campaign_address(launched.campaign))


def _record(shop: Shop, plan_id: str) -> PlanRecord:
    with shop.store() as store, store.reading() as transaction:
        return transaction.plans.get(plan_id)


def _page(
    request: Request,
    shop: Shop,
    plan_id: str,
    *,
    draft: str = "",
    typed: str = "",
    typed_error: str = "",
    tried: tuple[str, ...] = (),
    was_refused: bool = False,
) -> LaunchPage:
    caller, locale = request.state.caller, shop.settings.locale
    record = _record(shop, plan_id)
    plan, summary = record.plan, record.summary
    with shop.site(builds=False) as site:
        store = site.store
        drafts = {one.name: one for one in list_drafts(store).items} if sees_customers(request) else {}
        from_draft = next((name for name in (draft, plan.campaign) if name in drafts), "")
        draft_of_plan = drafts.get(from_draft)
        checked = launch_checks(site, record.plan_id, rule=shop.settings.approval, draft=draft_of_plan)
        found = as_seen(request, checked)
        approval = plan_approval(store, record.plan_id, rule=shop.settings.approval)
        before = plan_to_compare(store, plan.campaign, other_than=record.plan_id)
    is_maker = any(caller.actor.is_same_person(name) for name in approval.made_by)
    codes = sum(sum(arm.codes.values()) for arm in summary.arms.values())
    state = "launched" if found.launched else "approved" if approval.approved else "saved"
    if approval.required and not approval.approved and not found.launched:
        state = "waiting for approval"
    return LaunchPage(
        title=f"Launch {plan.campaign}",
        answer=_answer(found, counted(codes, "code")),
        header=draft_header(from_draft, here="launch", state=state)
        if from_draft
        else Header(name=plan.campaign, state=state),
        plan_id=record.plan_id,
        campaign=plan.campaign,
        draft=from_draft,
        checks=found.checks,
        is_launched=found.launched,
        can_launch=not found.refused and not found.launched,
        approval=approval,
        can_approve=not is_maker and not approval.approved and not found.launched,
        is_maker=is_maker,
        groups=group_table(summary.arms, Money(locale.currency)),
        difference=None
        if before is None
        else as_seen(
            request,
            difference_from(before, plan, arms=summary.arms, total=summary.total, currency=locale.currency),
        ),
        typed=typed,
        typed_error=typed_error,
        tried=tried,
        was_refused=was_refused,
    )


def _answer(found: LaunchChecks, codes: str) -> str:
    if found.launched:
        return f"{found.campaign} was launched from this plan: {codes}."
    if found.refused:
        return f"{codes} are planned. {counted(len(found.refused), 'point')} must be settled before the launch."
    if found.warnings:
        return f"{codes} are ready, with {counted(len(found.warnings), 'point')} to look at before you launch."
    return f"{codes} are ready. Nothing is given out before you launch."
