"""Outcomes in and out: `disco ingest`, `disco revert`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, show, warn

if TYPE_CHECKING:
    from disco.operations.ledger import Ingested


def register(app: typer.Typer) -> None:
    app.command("ingest", epilog="Example: disco ingest spring-27 outcomes.parquet")(ingest)
    app.command("revert", epilog="Example: disco revert 5d20c7 --dry-run")(revert)


def ingest(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    outcomes: Annotated[
        Path, typer.Argument(metavar="OUTCOMES", help="The outcomes table (docs/tables.md); Parquet or CSV.")
    ],
    quarantine: Annotated[
        Path | None, typer.Option(help="CSV file for the rows that were not applied, each with its reason.")
    ] = None,
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Import purchases, exactly once: files may arrive twice, in parts, or in any order.

    Each row is applied, or set aside as duplicate, expired (the code had expired or the campaign is closed), unmatched
    or rejected, with the reason. A file that cannot be read is refused and changes nothing. `disco revert BATCH`
    removes a batch again.
    """
    from disco.entrypoints.python import Shop

    done = Shop.open(shop).ingest(campaign, outcomes, quarantine=quarantine, dry_run=dry_run)
    warn(done.warnings)
    show(done, _ingested_text(done), as_json=as_json, quiet=quiet)


def _ingested_text(done: "Ingested") -> str:
    counts = done.counts
    head = "Dry run" if done.dry_run else f"Batch {done.batch_id}"
    lines = [
        f"{head}: {counts.received:,} rows = {counts.applied:,} applied + {counts.duplicate:,} duplicate + "
        f"{counts.expired:,} expired + {counts.unmatched:,} unmatched + {counts.rejected:,} rejected."
    ]
    for reason in done.reasons:
        place = f"row {reason.first_row:,}" + (f" and {reason.rows - 1:,} more" if reason.rows > 1 else "")
        lines.append(f"  {reason.disposition}: {reason.reason} ({place})")
    if done.redisposed:
        lines.append(f"  {done.redisposed:,} rows of earlier batches are now counted differently.")
    return "\n".join(lines)


def revert(
    batch: Annotated[
        str, typer.Argument(metavar="BATCH", help="As `disco ingest` printed it, or its first four characters or more.")
    ],
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
