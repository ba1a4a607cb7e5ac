"""What codes added over months and years, as the report has it."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request, Response

from disco.entrypoints.service.pages.results import tables_of
from disco.entrypoints.service.shop_of import ShopOf
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.people import Role
from disco.views.added import added_report
from disco.views.page import Report
from disco.views.table import Table
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPage(Page):
    """The comparison of everybody with the people held out."""

    template = "added.html"
    rail = "Campaigns"
    address: str = "/added"
    report: Report | None
    """None: nothing can be compared yet."""
    why: str = ""
    """Why there is no report, and what to do."""

    def tables(self) -> Mapping[str, Table]:
        return {} if self.report is None else tables_of(self.report.sections)


@router.get("/added", Role.VIEWER)
def added(request: Request, shop: ShopOf) -> Response:
    try:
        report = added_report(shop.added())
    except (StateError, InputError) as error:  # no holdout, no orders, too few people: nothing is wrong with the page
        return respond(request, _nothing(error))
    return respond(request, AddedPage(title="What codes added", answer=report.lead, report=report))


def _nothing(error: DiscoError) -> AddedPage:
    answer = "What codes added is not known yet."
    return AddedPage(title="What codes added", answer=answer, report=None, why=str(error))
