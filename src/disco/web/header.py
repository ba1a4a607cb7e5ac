"""The header of every page about a campaign or a plan: its state in words, its pages, and the next step."""

from datetime import date, datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Path

from disco.adapters.shop import ShopFolder
from disco.operations.overview import CampaignProgress, NextStep, campaign_progress
from disco.records.campaign_records import Phase
from disco.records.wording import date as day_text
from disco.web.shell import Header, Link

CampaignName = Annotated[str, Path(max_length=200)]
CampaignTab = Literal["overview", "decisions", "results"]
DraftTab = Literal["planner", "frontier", "launch"]


def campaign_address(name: str, page: str = "") -> str:
    """Where the pages of a campaign are, whatever characters its name has."""
    return f"/campaigns/{quote(name, safe='')}" + (f"/{page}" if page else "")


def draft_address(name: str, page: str = "") -> str:
    """Where the pages of a draft are."""
    return f"/plan/{quote(name, safe='')}" + (f"/{page}" if page else "")


def campaign_header(shop: ShopFolder, name: str, *, here: CampaignTab) -> Header:
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
