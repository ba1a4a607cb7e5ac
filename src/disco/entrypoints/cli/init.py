"""`disco init SHOP/`."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show


def register(app: typer.Typer) -> None:
    app.command("init", epilog="Example: disco init shop/")(init)


def init(
    shop: Annotated[Path, typer.Argument(metavar="SHOP", help="The folder to fill; created if it does not exist.")],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Create a shop: commented settings (disco.yaml), a campaign plan (plan.yaml), an example of every table (data/).

    Nothing is overwritten: if one of the three exists already, nothing is written.
    """
    from disco.entrypoints.new_shop import create_shop

    done = create_shop(shop)
    then = f"disco validate {quote(str(shop / 'data'))}"
    text = f"Wrote {', '.join(done.files)} in {shop}. Replace the example tables with your own, then run: {then}"
    show(done, text, as_json=as_json, quiet=quiet)
