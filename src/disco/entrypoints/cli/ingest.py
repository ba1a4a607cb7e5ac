"""`disco ingest CAMPAIGN outcomes.parquet`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, show, warn
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError, TableError
from disco.records.files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.adapters.store import CampaignStore
    from disco.operations.ledger import Ingested

_QUARANTINE = ("row", "event_id", "customer_id", "code", "disposition", "reason", "raw")


def register(app: typer.Typer) -> None:
    app.command("ingest", epilog="Example: disco ingest spring-27 outcomes.parquet")(ingest)


def ingest(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    outcomes: Annotated[
        Path, typer.Argument(metavar="OUTCOMES", help="The outcomes table (docs/tables.md); Parquet or CSV.")
    ],
    quarantine: Annotated[
        Path | None, typer.Option(help="CSV file for the rows that were not applied, with the reason of each.")
    ] = None,
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Take in what customers bought, exactly once: a file may come twice, in parts, or in any order.

    Each row is applied, or set aside as duplicate, late, unmatched or rejected, with the reason. A file that cannot be
    read at all is refused and changes nothing. `disco revert BATCH` takes a batch out again.
    """
    from disco.entrypoints.shop import Shop, WallClock
    from disco.operations.ledger import ingest

    check_outputs(quarantine, inputs=(outcomes,), shop=shop)
    rows = read_outcomes(outcomes)
    with Shop.open(shop).store() as store:
        done = ingest(store, campaign, rows, source=str(outcomes), clock=WallClock(), dry_run=dry_run)
        if quarantine is not None and not dry_run:
            _write_quarantine(store, done, quarantine)
    warn(done.warnings)
    show(_result(done, dry_run), _text(done, dry_run), as_json=as_json, quiet=quiet)


def read_outcomes(path: Path) -> "pa.Table":
    """The rows of a file: Parquet with its types, CSV as text, cell by cell; a damaged file is refused whole."""
    from disco.adapters.tables.csv import CsvSource
    from disco.adapters.tables.parquet import ParquetSource

    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet or CSV file of outcomes")
    if path.suffix.lower() == ".csv":
        return _text_rows(CsvSource("outcomes", file=str(path), path=path))
    parquet = ParquetSource("outcomes", file=str(path), parts=[(str(path), path)])
    import pyarrow as pa

    return pa.Table.from_batches(parquet.batches(parquet.schema().names), parquet.schema())


def _text_rows(source: Any) -> "pa.Table":
    import pyarrow as pa

    from disco.records.tables import SCHEMAS
    from disco.records.validation import validate

    declared = {column.name for column in SCHEMAS["outcomes"].columns}
    names = [name for name in source.schema().names if name in declared] or source.schema().names
    batches = list(source.batches(names))
    if problems := source.problems():  # rows with too many or too few cells: which cell is the price?
        raise TableError(f"{source.file} cannot be read as the table outcomes:", problems)
    bytes_ = pa.Table.from_batches(batches, pa.schema([(name, pa.binary()) for name in names]))
    try:
        return bytes_.cast(pa.schema([(name, pa.string()) for name in names]))
    except pa.ArrowInvalid:
        found = validate([source], as_of=None, relations=False).problems
        problems = [problem for problem in found if problem.kind == "encoding"]
        raise TableError(f"{source.file} cannot be read as the table outcomes:", problems) from None


def _write_quarantine(store: "CampaignStore", done: "Ingested", path: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    from disco.operations.exporting import csv_safe
    from disco.records.life import Disposition

    with store.reading() as shelves:
        rows = shelves.outcomes(done.campaign, batch_id=done.batch_id)
    aside = rows.filter(pc.not_equal(rows["disposition"], str(Disposition.APPLIED))).select(list(_QUARANTINE))
    counted = aside.set_column(0, "row", pc.add(aside["row"], 1))  # people count rows from 1 below the header
    with written_whole(path) as unfinished:
        pacsv.write_csv(csv_safe(counted), unfinished)


def _result(done: "Ingested", dry_run: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "batch_id": done.batch_id,
        "campaign": done.campaign,
        **asdict(done.counts),
        "reasons": [asdict(reason) for reason in done.reasons],
        "redisposed": done.redisposed,
        "warnings": list(done.warnings),
        "dry_run": dry_run,
    }


def _text(done: "Ingested", dry_run: bool) -> str:
    counts = done.counts
    head = "Would be received" if dry_run else f"Batch {done.batch_id}"
    lines = [
        f"{head}: {counts.received:,} rows = {counts.applied:,} applied + {counts.duplicate:,} duplicate + "
        f"{counts.late:,} late + {counts.unmatched:,} unmatched + {counts.rejected:,} rejected."
    ]
    for reason in done.reasons:
        place = f"row {reason.first_row:,}" + (f" and {reason.rows - 1:,} more" if reason.rows > 1 else "")
        lines.append(f"  {reason.disposition}: {reason.reason} ({place})")
    if done.redisposed:
        lines.append(f"  {done.redisposed:,} rows of earlier batches changed their disposition with it.")
    return "\n".join(lines)
