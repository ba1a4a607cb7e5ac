"""`disco revert BATCH`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, show


def register(app: typer.Typer) -> None:
    app.command("revert", epilog="Example: disco revert 5d20c7 --dry-run")(revert)


def revert(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="As `disco ingest` printed it, or its beginning.")],
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Remove a batch of outcomes: afterwards everything is as if the file had never been imported.

    Versions of the model that were learned with it stay as they are; `disco learn CAMPAIGN` makes one without it.
    """
    from disco.entrypoints.python import Shop

    done = Shop.open(shop).revert(batch, dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    text = (
        f"Batch {done.batch_id} of {done.campaign} {verb} reverted: {done.counts.received:,} rows out. "
        f"Of the codes it touched, {done.purchases_before:,} stood for a purchase with it, "
        f"{done.purchases_after:,} without."
    )
    if done.redisposed:  # mostly the same events in another file, which count now
        text += f" {done.redisposed:,} rows of other batches changed, see `disco campaigns {done.campaign}`."
    if not dry_run:
        text += f" Next: disco learn {done.campaign}"
    show(done, text, as_json=as_json, quiet=quiet)
