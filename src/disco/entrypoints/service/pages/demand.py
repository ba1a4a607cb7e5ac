"""Demand: what codes of each depth bring, by segment, with what was seen and where it is a guess."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request, Response

from disco.entrypoints.service.shop_of import ShopOf, readings_of
from disco.operations.demand import PartDemand
from disco.records.errors import InputError, NotFoundError
from disco.records.people import Role
from disco.records.wording import counted
from disco.views.charts import CurveChart
from disco.views.demand_pages import (
    basket_chart,
    curve_table,
    demand_words,
    engagement_chart,
    extrapolation_words,
    observed_table,
    revenue_chart,
)
from disco.views.table import Table
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)

_EVERYBODY = "The average customer"
Segment = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPage(Page):
    """Demand of some customers."""

    template = "demand.html"
    rail = "Demand"
    address: str
    """With the choice of the segment."""
    segment: str
    """Empty: the average customer."""
    segments: tuple[tuple[str, str], ...]
    """What can be chosen, with its words."""
    error: str = ""
    """Why a choice cannot be shown; empty: it can."""
    source: str = ""
    """What the curve was learned from, in words."""
    extrapolation: str = ""
    """Where the curve is a guess, in words; empty: nowhere."""
    charts: tuple[CurveChart, ...] = ()
    """Revenue per code, share who buy, basket; none before anything was learned."""
    curve: Table | None = None
    observed: Table | None = None

    def tables(self) -> Mapping[str, Table]:
        found = {"curve": self.curve, "observed": self.observed}
        return {name: table for name, table in found.items() if table is not None}


@router.get("/demand", Role.VIEWER)
def demand(request: Request, shop: ShopOf, segment: Segment = "") -> Response:
    with shop.store() as store:
        try:
            found = readings_of(request).demand(store, segment or None, today=shop.clock.today())
        except NotFoundError:  # nothing was learned
            return respond(request, _empty())
        except InputError as error:
            everybody = readings_of(request).demand(store, None, today=shop.clock.today())
            return respond(request, _page(everybody, error=str(error)), status=422)
    return respond(request, _page(found))


def _empty() -> DemandPage:
    answer = "Demand is not known yet: the model has learned from no campaign."
    return DemandPage(title="Demand", answer=answer, address="/demand", segment="", segments=())


def _page(found: PartDemand, *, error: str = "") -> DemandPage:
    shown = found.demand
    whose = "the average customer" if found.part is None else f"customers in “{found.part}”"
    charts = (revenue_chart(shown), engagement_chart(shown), basket_chart(shown))
    return DemandPage(
        title="Demand",
        answer=demand_words(shown, whose=whose),
        address="/demand" if found.part is None else f"/demand?segment={quote(found.part, safe='')}",
        segment=found.part or "",
        segments=(("", _EVERYBODY), *((part, part) for part in found.parts)),
        error=error,
        source=_source(found),
        extrapolation=extrapolation_words(shown),
        charts=tuple(chart for chart in charts if chart is not None),
        curve=curve_table(shown),
        observed=observed_table(shown),
    )


def _source(found: PartDemand) -> str:
    purchases = sum(point.purchases for point in found.demand.observed)
    version = f"version {found.demand.version} of the model"
    if found.part is None:
        return f"As {version} sees it, learned from {counted(purchases, 'purchase')}. Points are what was seen."
    return (
        f"As {version} sees {counted(found.customers, 'customer')} of campaign {found.campaign}. Points are what they "
        f"bought in it: {counted(purchases, 'purchase')}."
    )
