"""Outcomes in and out: `disco ingest`, `disco quarantine`, `disco revert`; and `disco learn`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from disco.entrypoints.cli.output import (
    DryRunFlag,
    EngineTerminal,
    ShopTerminal,
    add_command,
    day_of,
    next_command,
    warn,
)
from disco.records.errors import ReportError, UsageError
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.operations.learn import Learned
    from disco.operations.outcomes import Ingested

Batch = Annotated[
    str, typer.Argument(metavar="BATCH", help="As `disco ingest` printed it, or its first four characters or more.")
]


def register(app: typer.Typer) -> None:
    add_command(app, ingest, example="disco ingest spring-27 outcomes.parquet")
    add_command(app, quarantine, example="disco quarantine 5d20c7 -o rows.csv")
    add_command(app, revert, example="disco revert 5d20c7 --dry-run")
    add_command(app, learn, example="disco learn spring-27")


def ingest(
    terminal: ShopTerminal,
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    outcomes: Annotated[
        Path,
        typer.Argument(
            metavar="OUTCOMES",
            help="An export of orders (code, customer, time, amount), or the outcomes table; see docs/tables.md.",
        ),
    ],
    quarantine: Annotated[
        Path | None, typer.Option(help="CSV file for the rows that were not applied, each with its reason.")
    ] = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Import purchases, exactly once: files may arrive twice, in parts, or in any order.

    A Parquet or CSV file with the code, customer_id, ordered_at and full_price of orders is enough.
    Each row is applied, or set aside as duplicate, expired (the code had expired or the campaign is closed), unmatched
    or rejected, with the reason. A file that cannot be read is refused and changes nothing. `disco revert BATCH`
    removes a batch again.
    """
    failed = None
    try:
        done = terminal.shop().ingest(campaign, outcomes, quarantine=quarantine, dry_run=dry_run)
    except ReportError as error:  # the batch is kept, and its result is shown all the same
        failed, done = error, cast("Ingested", error.result)
    warn(done.warnings)
    kept = None if dry_run else f"Batch {done.batch_id} of {campaign} is ingested, {done.applied:,} rows applied"
    terminal.show(done, _ingested_text(done), done=kept)
    if failed is not None:
        raise failed


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


def quarantine(
    terminal: ShopTerminal,
    batch: Batch,
    out: Annotated[Path, typer.Option("-o", "--out", help="CSV file to write.")],
) -> None:
    """Write the rows of a batch that are not applied, each with its reason, as `disco ingest --quarantine` does.

    Rows of later batches can change what counts: the file has the reasons of today. Cells that a spreadsheet would run
    as a formula begin with an apostrophe.
    """
    done = terminal.shop().quarantine(batch, out)
    text = f"{counted(done.rows, 'row')} of batch {done.batch_id} written to {out}"
    terminal.show(done, f"{text}.", done=text)


def revert(
    terminal: ShopTerminal,
    batch: Batch,
    dry_run: DryRunFlag = False,
) -> None:
    """Remove a batch of outcomes: afterwards everything is as if the file had never been imported.

    Versions of the model that were learned with it stay as they are; `disco learn CAMPAIGN` makes one without it.
    """
    done = terminal.shop().revert(batch, dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    text = (
        f"Batch {done.batch_id} of {done.campaign} {verb} reverted: {done.counts.received:,} rows out. "
        f"Of the codes in it, {done.purchases_before:,} had a purchase with this batch, "
        f"{done.purchases_after:,} have one without it."
    )
    if done.redisposed:  # mostly the same events in another file, which count now
        text += f" {done.redisposed:,} rows of other batches changed, see `disco campaigns {done.campaign}`."
    if not dry_run:
        text += f" {next_command(f'learn {done.campaign}', terminal.folder)}"
    kept = None if dry_run else f"Batch {done.batch_id} of {done.campaign} is reverted"
    terminal.show(done, text, done=kept)


def learn(
    terminal: EngineTerminal,
    campaigns: Annotated[
        list[str] | None, typer.Argument(metavar="[CAMPAIGN]...", help="Campaigns whose outcomes to learn from.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Codes that had expired by this day count for engagement; default: today."
        ),
    ] = None,
    activate: Annotated[int | None, typer.Option(min=1, help="Instead, make this version the active one.")] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="After the context network was retrained: embed all customers again.")
    ] = False,
    dry_run: DryRunFlag = False,
) -> None:
    """Make a new version of the model from the outcomes of these campaigns and of all campaigns learned before.

    The newest version becomes active and decides the next plan. If there is nothing new, no version is made. A campaign
    counts towards engagement (the share of receivers who buy) once its codes have expired and two days
    of grace have passed. Learn it again then.
    """
    if (asked := bool(campaigns) + (activate is not None) + rebuild) != 1:
        wrong = "learn does one thing at a time" if asked else "learn has nothing to do"
        raise UsageError(wrong, fix="Name campaigns, or use --activate N, or --rebuild.")
    here = terminal.shop()
    if activate is not None:
        verb = "would be" if dry_run else "is"
        switched = here.activate(activate, dry_run=dry_run)
        said = f"Version {activate} of the model {verb} active"
        terminal.show(switched, f"{said}.", done=None if dry_run else said)
        return
    if rebuild:
        done = here.rebuild(as_of=day_of(as_of), dry_run=dry_run)
    else:
        done = here.learn(*(campaigns or ()), as_of=day_of(as_of), dry_run=dry_run)
    warn(done.warnings)
    text = learned_text(done) + (" Nothing was written." if dry_run else "")
    kept = None if dry_run or not done.changed else f"Version {done.version} of the model is made and active"
    terminal.show(done, text, done=kept)


def learned_text(done: "Learned") -> str:
    count = len(done.campaigns)
    learned = f"{sum(done.campaigns.values()):,} purchases of {count} campaign{'s'[: count != 1]}"
    text = f"Version {done.version} of the model: {learned}."
    if not done.changed:
        text = f"Nothing new: version {done.version} of the model stays active, with {learned}."
    waiting = sorted(set(done.campaigns) - set(done.matured))
    if waiting:
        text += f" Not yet counted for engagement, because their codes have not matured: {', '.join(waiting)}."
    return text
