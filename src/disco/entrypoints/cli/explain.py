"""`disco explain CAMPAIGN CUSTOMER`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show


def register(app: typer.Typer) -> None:
    app.command("explain", epilog="Example: disco explain spring-27 c0000017")(explain)


def explain(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    customer: Annotated[str, typer.Argument(metavar="CUSTOMER", help="One of its customers.")],
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Explain why a customer got this code or none, and what the runner-up was worth.

    The figures of the decision are computed again from what was kept: context, model, draws, prices.
    """
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).explain(campaign, customer)
    show(found, "\n".join(found.words), as_json=as_json, quiet=quiet)
