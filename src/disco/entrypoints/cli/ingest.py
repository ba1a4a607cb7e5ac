"""`disco ingest CAMPAIGN outcomes.parquet`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, show, warn

if TYPE_CHECKING:
    from disco.operations.ledger import Ingested


def register(app: typer.Typer) -> None:
    app.command("ingest", epilog="Example: disco ingest spring-27 outcomes.parquet")(ingest)


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
    show(done, _text(done), as_json=as_json, quiet=quiet)


def _text(done: "Ingested") -> str:
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
