"""The frontier of a draft: what more or less markdown would bring, and points to adopt."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from fastapi import Path, Request, Response

from disco.entrypoints.service.pages.plan_form import revision_of
from disco.entrypoints.service.pages.planner import draft_of
from disco.entrypoints.service.planner_desk import OpeningProgress
from disco.entrypoints.service.shop_of import ShopOf
from disco.office.drafts.use_cases import put_draft
from disco.records.errors import DiscoError, InputError
from disco.records.people import Role
from disco.records.plan import Plan
from disco.views.charts import CurveChart
from disco.views.frontier import AdoptablePoint, adoption_chart, frontier_lead, frontier_points, frontier_tables
from disco.views.table import Table
from disco.web.header import draft_address, draft_header
from disco.web.reading import FormOf
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, go_to, respond

if TYPE_CHECKING:
    from disco.entrypoints.service.app import ShopService
    from disco.entrypoints.service.planner_desk import PlannerDesk

router = Routes(is_described=False, kind=PageRoute)
_MOST = 10**15  # of weights and budgets that can be adopted
DraftName = Annotated[str, Path(max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPage(Page):
    """What a draft could reach."""

    template = "frontier.html"
    rail = "Plans"
    draft: str
    revision: int
    chart: CurveChart | None = None
    points: tuple[AdoptablePoint, ...] = ()
    figures: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    opening: OpeningProgress | None = None
    is_drawing: bool = False
    problem: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return draft_address(self.draft)

    def tables(self) -> Mapping[str, Table]:
        return dict(zip(("weights", "budgets"), self.figures, strict=False))


@router.get("/plan/{draft}/frontier", Role.PLANNER)
async def frontier(request: Request, shop: ShopOf, draft: DraftName) -> Response:
    page = await _drawn(request, shop, draft, again=True)
    return respond(request, page)


@router.get("/plan/{draft}/frontier/drawn", Role.PLANNER)
async def drawn(request: Request, shop: ShopOf, draft: DraftName) -> Response:
    """The picture once the customers are open; or how far they are."""
    page = await _drawn(request, shop, draft)
    return respond(request, page, part="drawn_reply")


@router.post("/plan/{draft}/frontier", Role.PLANNER)
def adopt(request: Request, shop: ShopOf, draft: DraftName, form: FormOf) -> Response:
    """The draft takes the weight and the budget of a point."""
    plan = dict(draft_of(shop, draft).plan)
    with shop.store() as store:
        plan["objective"] = {
            **_section(plan, "objective"),
            "revenue_weight": _number(form.text("weight"), "The weight of revenue"),
        }
        budget = form.text("budget")
        if not budget:
            plan.pop("budget", None)
        elif isinstance(plan.get("budget"), Mapping):
            plan["budget"] = {**plan["budget"], "amount": _number(budget, "The budget")}
        else:
            plan["budget"] = _number(budget, "The budget")
        put_draft(store, draft, plan, if_match=revision_of(form), clock=shop.clock)
    return go_to(request, draft_address(draft))


def _section(plan: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = plan.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(text: str, name: str) -> float:
    """name: what the number is, in words."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST:  # nor is it NaN
        raise InputError(name, found=repr(text[:40]), expected=f"a number above 0 and at most {_MOST:,}")
    return int(number) if number.is_integer() else number


async def _drawn(request: Request, shop: Any, draft: str, *, again: bool = False) -> FrontierPage:
    """again: customers who could not be opened before are tried again."""
    service: ShopService = request.app.state.service
    desk: PlannerDesk = service.desk
    found = await to_thread.run_sync(draft_of, shop, draft)
    make = partial(
        FrontierPage,
        title=f"Frontier of {draft}",
        header=draft_header(draft, here="frontier"),
        draft=draft,
        revision=found.revision,
    )
    try:
        plan: Plan = shop.read_plan(found.plan)
        if again:
            desk.forget(plan, failure_only=True)
        opened = desk.find(plan)
        if opened is None:
            return make(answer="Opening the customers.", opening=desk.open(shop, plan))
        result = desk.frontier(plan, opened)
        if result is None:
            return make(answer="Drawing what this plan could reach.", is_drawing=True)
    except DiscoError as error:
        lines = tuple(line.strip() for line in str(error).splitlines() if line.strip())
        return make(answer="There is no frontier for this draft yet.", problem=lines)
    return make(
        answer=frontier_lead(result),
        chart=adoption_chart(result),
        points=frontier_points(result),
        figures=tuple(frontier_tables(result)),
        warnings=result.warnings,
    )
