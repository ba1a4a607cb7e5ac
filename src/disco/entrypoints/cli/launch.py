"""`disco launch PLAN_ID`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, next_command, show

if TYPE_CHECKING:
    from disco.operations.launching import Launched


def register(app: typer.Typer) -> None:
    app.command("launch", epilog="Example: disco launch 3f9a1c --shop shop/")(launch)


def launch(
    plan_id: Annotated[
        str,
        typer.Argument(
            metavar="PLAN_ID", help="As `disco plan` printed it, its beginning, or the name of the campaign."
        ),
    ],
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Launch a plan: keep its decisions, with one single-use code per customer who gets one.

    Either all of it is kept or nothing. A launch is refused when the customers, their features, the context network or
    the model have changed since the plan was decided. Launching the same plan again changes nothing.
    """
    from disco.entrypoints.python import Shop

    launched = Shop.open(shop).launch(plan_id, dry_run=dry_run)
    show(launched, _text(launched, shop), as_json=as_json, quiet=quiet)


def _text(launched: "Launched", shop: Path) -> str:
    facts = f"{launched.customers:,} customers, {launched.codes:,} codes"
    if launched.again:
        return f"{launched.campaign} was already launched from this plan: {facts}. Nothing was changed."
    if launched.dry_run:
        return f"{launched.campaign} can be launched: {facts}. Nothing was written."
    after = next_command(f"export {launched.campaign} -o codes.parquet", shop)
    return f"{launched.campaign} is launched: {facts}. {after}"
