"""`disco pause`, `disco resume`, `disco close`: the states of a launched campaign."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show

if TYPE_CHECKING:
    from disco.operations.launching import CampaignState

Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")]


def register(app: typer.Typer) -> None:
    app.command("pause", epilog="Example: disco pause spring-27")(pause)
    app.command("resume", epilog="Example: disco resume spring-27")(resume)
    app.command("close", epilog="Example: disco close spring-27")(close)


def pause(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Pause a campaign: no codes for late arrivals. Outcomes of codes already sent still count."""
    from disco.entrypoints.python import Shop

    _say(Shop.open(shop).pause(campaign), as_json=as_json, quiet=quiet)


def resume(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """End a pause: late arrivals get codes again, as long as some are left."""
    from disco.entrypoints.python import Shop

    _say(Shop.open(shop).resume(campaign), as_json=as_json, quiet=quiet)


def close(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """End a campaign for good: no more codes, and outcomes that arrive from now on are late."""
    from disco.entrypoints.python import Shop

    _say(Shop.open(shop).close(campaign), as_json=as_json, quiet=quiet)


def _say(now: "CampaignState", *, as_json: bool, quiet: bool) -> None:
    show(now, f"{now.campaign} is {now.state}.", as_json=as_json, quiet=quiet)
