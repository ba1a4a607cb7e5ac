"""What a campaign has brought: the report of its results, how the verdict came about, and its groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from disco.entrypoints.service.shop_of import ShopOf, readings_of
from disco.operations.results import CampaignResults
from disco.records.people import Role
from disco.views.campaign_pages import campaign_report, over_time_chart, over_time_table
from disco.views.campaign_tables import sample_ratio_table
from disco.views.charts import BarChart, CurveChart, IntervalChart
from disco.views.page import Report, Section
from disco.views.table import Table
from disco.web.header import CampaignName, campaign_address, campaign_header
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsPage(Page):
    """The results of a campaign, as its report has them."""

    template = "results.html"
    rail = "Campaigns"
    address: str
    report: Report
    """What the file of the same report shows."""
    report_address: str
    has_outcomes: bool
    next_address: str
    over_time_address: str
    """Where the uplift from day to day is: it takes longer than the rest, so it is loaded after it."""
    groups: Table | None
    """The sample-ratio check; None where there is nothing to compare."""

    def tables(self) -> Mapping[str, Table]:
        found = tables_of(self.report.sections)
        return found if self.groups is None else {**found, "groups": self.groups}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTimePage(Page):
    """Decided against control from day to day: a part of the results."""

    template = "results_over_time.html"
    rail = "Campaigns"
    address: str
    chart: CurveChart | None
    table: Table

    def tables(self) -> Mapping[str, Table]:
        return {"over_time": self.table}


def tables_of(sections: Sequence[Section]) -> dict[str, Table]:
    """The tables, and the figures of the charts, of a report: 1-2 is the second item of the first section."""
    found: dict[str, Table] = {}
    for number, section in enumerate(sections, start=1):
        for place, item in enumerate(section.items, start=1):
            if isinstance(item, Table):
                found[f"{number}-{place}"] = item
            elif isinstance(item, BarChart | CurveChart | IntervalChart):
                found[f"{number}-{place}"] = item.table()
    return found


@router.get("/campaigns/{name}/results", Role.VIEWER)
def results(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    header = campaign_header(shop, name, here="results")
    with shop.store() as store:
        found = readings_of(request).results(store, shop.data, name, as_of=shop.clock.today())
    report = campaign_report(found)
    page = ResultsPage(
        title="Results",
        answer=report.lead if _has_outcomes(found) else "No purchase was reported yet, so there are no results.",
        header=header,
        address=campaign_address(name, "results"),
        report=report,
        report_address=f"/api/v1{campaign_address(name, 'report')}",
        has_outcomes=_has_outcomes(found),
        next_address=f"{campaign_address(name)}#outcomes",
        over_time_address=campaign_address(name, "results/over-time"),
        groups=sample_ratio_table(found),
    )
    return respond(request, page)


def _has_outcomes(found: CampaignResults) -> bool:
    return found.counts.applied > 0


@router.get("/campaigns/{name}/results/over-time", Role.VIEWER)
def over_time(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    header = campaign_header(shop, name, here="results")
    with shop.store() as store:
        found = readings_of(request).over_time(store, shop.data, name, as_of=shop.clock.today())
    chart = over_time_chart(found)
    page = OverTimePage(
        title="Results from day to day",
        answer="There is nothing to compare from day to day yet." if chart is None else f"{chart.title}.",
        header=header,
        address=campaign_address(name, "results/over-time"),
        chart=chart,
        table=over_time_table(found),
    )
    return respond(request, page, part="over_time" if "hx-request" in request.headers else None)
