"""`disco propensities CAMPAIGN`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show


def register(app: typer.Typer) -> None:
    app.command("propensities", epilog="Example: disco propensities spring-27 --draws 500")(propensities)


def propensities(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    draws: Annotated[int, typer.Option(min=1, max=100_000, help="Draws of the policy to estimate from.")] = 200,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Add the probability of every decision, so that other policies can be evaluated on this campaign later.

    Run it any time after the launch; it takes about as long as deciding the campaign --draws times. Running it again
    gives the same result.
    """
    from disco.entrypoints.python import Shop

    done = Shop.open(shop).propensities(campaign, draws=draws)
    text = f"{done.decisions:,} decisions of {campaign} have their propensity, estimated from {draws:,} draws."
    show(done, text, as_json=as_json, quiet=quiet)
