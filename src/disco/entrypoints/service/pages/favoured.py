"""Who gets what of a campaign, by any column of the customers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf
from disco.records.errors import DiscoError, InputError
from disco.records.people import Role
from disco.views.favoured import favoured_table
from disco.views.table import Table
from disco.web.header import CampaignName, campaign_address, campaign_header
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
ColumnName = Annotated[str | None, Query(max_length=200)]
_FIRST = "Choose a column to compare its values."


@dataclass(frozen=True, slots=True, kw_only=True)
class FavouredPage(Page):
    """Average discount, codes and markdown of the customers with each value of a column."""

    template = "favoured.html"
    rail = "Campaigns"
    address: str
    by: str
    columns: tuple[str, ...]
    """Of the customers table."""
    table: Table | None
    """None: no column was chosen, or it cannot be used."""
    words: tuple[str, ...]

    def tables(self) -> Mapping[str, Table]:
        return {} if self.table is None else {"favoured": self.table}


@router.get("/campaigns/{name}/favoured", Role.PLANNER)
def favoured(request: Request, shop: ShopOf, name: CampaignName, by: ColumnName = None) -> Response:
    """For planners: in a small campaign, the values of a column such as an address are its customers."""
    header, columns = campaign_header(shop, name, here="decisions"), _columns(shop, name)
    answer, table = _FIRST, None
    words: tuple[str, ...] = ()
    if by:
        try:
            found = shop.favoured(name, by=by)
            answer, table, words = found.headline, favoured_table(found), found.words
        except InputError as error:  # a column with too many values: another one can be chosen
            answer = str(error)
    page = FavouredPage(
        title="Who is favoured",
        answer=answer,
        header=header,
        address=campaign_address(name, "favoured"),
        by=by or "",
        columns=columns,
        table=table,
        words=words,
    )
    return respond(request, page)


def _columns(shop: Shop, name: str) -> tuple[str, ...]:
    with shop.store() as store, store.reading() as transaction:
        table = transaction.plans.campaign(name).plan.customers.table
    try:
        with shop.data.customers(table) as (_, source):
            return tuple(one for one in source.schema.names if one not in ("customer_id", "joined_on"))
    except DiscoError:  # the tables are away; asking for a column says so
        return ()
