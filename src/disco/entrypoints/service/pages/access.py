"""Everything that is kept about a customer, for an administrator who answers their request of access."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from disco.entrypoints.service.shop_of import ShopOf
from disco.records.people import Role
from disco.views.personal import kept_answer, kept_table
from disco.views.table import Table
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPage(Page):
    """A form that asks for a customer, and what is kept about them once one was named."""

    template = "access.html"
    rail = "Data"
    customer: str = ""
    kept: Table | None = None
    elsewhere: tuple[str, ...] = ()
    download: str = ""
    """The address of all of it as JSON."""


@router.get("/access", Role.ADMIN)
def access(request: Request, shop: ShopOf, customer: Annotated[str, Query(max_length=1000)] = "") -> Response:
    title, name = "Data about a customer", customer.strip()
    if not name:
        return respond(request, AccessPage(title=title, answer="Name a customer to see what is kept about them."))
    kept = shop.access(name)
    page = AccessPage(
        title=title,
        answer=kept_answer(kept),
        customer=name,
        kept=kept_table(kept) if kept.records else None,
        elsewhere=kept.elsewhere,
        download=f"/api/v1/access?{urlencode({'customer': name})}",
    )
    return respond(request, page)
