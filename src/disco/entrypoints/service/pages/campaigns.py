"""Campaigns: what runs, what it costs, and what to do next."""

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from disco.entrypoints.service.pages.shell import Page, PageRoute, respond
from disco.entrypoints.service.route import ShopOf
from disco.operations.campaign_list import CampaignEntry

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignsPage(Page):
    """All campaigns."""

    template = "campaigns.html"
    rail = "Campaigns"
    campaigns: tuple[CampaignEntry, ...]


@router.get("/")
async def start() -> Response:
    return Response(status_code=303, headers={"location": "/campaigns"})


@router.get("/campaigns")
def campaigns(request: Request, shop: ShopOf) -> Response:
    found = shop.campaigns().campaigns
    return respond(request, CampaignsPage(title="Campaigns", answer=f"{len(found)} campaigns.", campaigns=found))
