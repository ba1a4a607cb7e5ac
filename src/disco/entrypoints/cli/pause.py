"""`disco pause`, `disco resume`, `disco close`: the states of a launched campaign."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show

if TYPE_CHECKING:
    from disco.records.life import CampaignRecord

Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")]


def register(app: typer.Typer) -> None:
    app.command("pause", epilog="Example: disco pause spring-27")(pause)
    app.command("resume", epilog="Example: disco resume spring-27")(resume)
    app.command("close", epilog="Example: disco close spring-27")(close)


def pause(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """No code for anybody who arrives now; outcomes of the codes that are out still count."""
    from disco.entrypoints.shop import Shop
    from disco.operations.states import pause

    with Shop.open(shop).store() as store:
        _say(pause(store, campaign), as_json=as_json, quiet=quiet)


def resume(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """End a pause: late arrivals get codes again, while there are some left."""
    from disco.entrypoints.shop import Shop
    from disco.operations.states import resume

    with Shop.open(shop).store() as store:
        _say(resume(store, campaign), as_json=as_json, quiet=quiet)


def close(campaign: Campaign, shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """End a campaign for good: no codes and no outcomes any more; whatever still comes is late."""
    from disco.entrypoints.shop import Shop
    from disco.operations.states import close

    with Shop.open(shop).store() as store:
        _say(close(store, campaign), as_json=as_json, quiet=quiet)


def _say(record: "CampaignRecord", *, as_json: bool, quiet: bool) -> None:
    result = {"campaign": record.campaign, "state": str(record.state)}
    show(result, f"{record.campaign} is {record.state}.", as_json=as_json, quiet=quiet)
