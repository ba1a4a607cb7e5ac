"""The header of every page about a campaign or a plan: its state in words, its pages, the next step, and the pause."""

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.shell import Header, Link, PageRoute, go_to
from disco.entrypoints.service.route import ShopOf
from disco.operations.overview import CampaignProgress, NextStep, campaign_progress
from disco.records.life import Phase
from disco.records.wording import date as day_text

if TYPE_CHECKING:
    from disco.entrypoints.service.app import Service
    from disco.operations.read_out_cache import KeptReadings

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CampaignName = Annotated[str, Path(max_length=200)]
CampaignTab = Literal["overview", "decisions", "results"]
DraftTab = Literal["planner", "frontier", "launch"]


def campaign_address(name: str, page: str = "") -> str:
    """Where the pages of a campaign are, whatever characters its name has."""
    return f"/campaigns/{quote(name, safe='')}" + (f"/{page}" if page else "")


def draft_address(name: str, page: str = "") -> str:
    """Where the pages of a draft are."""
    return f"/plan/{quote(name, safe='')}" + (f"/{page}" if page else "")


def readings_of(request: Request) -> "KeptReadings":
    """Read-outs that pages of this service have shown before."""
    service: Service = request.app.state.service
    return service.readings


def campaign_header(shop: Shop, name: str, *, here: CampaignTab) -> Header:
    """Of a launched campaign; NotFoundError where there is none of this name."""
    with shop.store() as store:
        return header_of(campaign_progress(store, name, today=shop.clock.today())[0], here=here)


def header_of(progress: CampaignProgress, *, here: CampaignTab | None = None) -> Header:
    """The header of a campaign that was read already."""
    name = progress.campaign
    pages: tuple[tuple[CampaignTab, str], ...] = (("overview", ""), ("decisions", "decisions"), ("results", "results"))
    return Header(
        name=name,
        state=state_text(progress),
        next_step=next_link(progress),
        tabs=tuple(Link(tab.capitalize(), campaign_address(name, page), tab == here) for tab, page in pages),
        pause=campaign_address(name, "pause") if progress.phase in (Phase.RUNNING, Phase.SCHEDULED) else None,
        resume=campaign_address(name, "resume") if progress.phase is Phase.PAUSED else None,
    )


def draft_header(name: str, *, here: DraftTab, state: str = "draft") -> Header:
    """Of a plan that is not launched."""
    pages: tuple[tuple[DraftTab, str], ...] = (("planner", ""), ("frontier", "frontier"), ("launch", "launch"))
    return Header(
        name=name,
        state=state,
        tabs=tuple(Link(tab.capitalize(), draft_address(name, page), tab == here) for tab, page in pages),
    )


def state_text(progress: CampaignProgress) -> str:
    """Where a campaign stands, with the day that matters."""
    match progress.phase:
        case Phase.SCHEDULED:
            return f"scheduled, starts {day_text(progress.opens)}"
        case Phase.RUNNING | Phase.PAUSED:
            return f"{progress.phase} until {_last_day(progress.closes)}"
        case Phase.ENDED:
            return f"ended {_last_day(progress.closes)}"
        case _:
            return str(progress.phase)


def _last_day(closes: date | datetime) -> str:
    """The last day on which codes are valid, or the moment they expire."""
    if isinstance(closes, datetime):
        return f"{day_text(closes)} {closes:%H:%M}"
    return day_text(closes - timedelta(days=1))


def next_link(progress: CampaignProgress) -> Link:
    """What to do next, and where it is done."""
    name = progress.campaign
    match progress.next_step:
        case NextStep.SEND_CODES:
            return Link("Send the codes", campaign_address(name) + "#codes")
        case NextStep.SEND_OUTCOMES:
            return Link("Send outcomes", campaign_address(name) + "#outcomes")
        case NextStep.WATCH:
            return Link("See the results so far", campaign_address(name, "results"))
        case NextStep.WAIT:
            text = f"Wait for the last outcomes, until {day_text(progress.matures_on)}"
            return Link(text, campaign_address(name) + "#outcomes")
        case NextStep.LEARN:
            return Link("Learn from it", f"/learning?campaign={quote(name, safe='')}")
        case NextStep.PLAN:
            return Link("Plan the next campaign", "/plan")


@router.post("/campaigns/{name}/pause")
def pause(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    shop.pause(name)
    said = f"Campaign {name} is paused: customers who arrive now get no code. Codes that are out stay valid."
    return go_to(request, campaign_address(name), said=said)


@router.post("/campaigns/{name}/resume")
def resume(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    shop.resume(name)
    said = f"Campaign {name} goes on: customers who arrive now get codes again."
    return go_to(request, campaign_address(name), said=said)
