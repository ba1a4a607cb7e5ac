"""`disco features DIR`."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_SIZE = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)
EXAMPLE = "Example: disco features shop/data --as-of 2025-06-01 -o features.parquet"


def register(app: typer.Typer) -> None:
    app.command("features", epilog=EXAMPLE)(features)


def features(
    tables: Annotated[str, typer.Argument(metavar="DIR", help="Folder of tables, or a database URL.")],
    as_of: Annotated[datetime, typer.Option("--as-of", formats=["%Y-%m-%d"], help="Only rows dated before it count.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    catalogue: Annotated[
        Path | None, typer.Option(help="YAML of features to drop and to add (docs/features.md).")
    ] = None,
    engine: EngineFlag = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads to use (default: the setting `threads`, or one per processor).")
    ] = None,
    memory_limit: Annotated[str | None, typer.Option(help="Such as 4GB; beyond it, work spills to disk.")] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Compute the features of every customer, as of a date, from the year before it: the 76 of the catalogue, or yours.

    docs/features.md says what each one means. A missing table gives a warning and unknown (null) features.
    """
    from disco.adapters.tables import open_tables
    from disco.entrypoints.files import read_yaml
    from disco.entrypoints.shop import Shop
    from disco.features.builder import feature_batches
    from disco.features.cautions import collected
    from disco.features.files import TABLES_KEY, write_batches
    from disco.features.selection import read_selection

    if memory_limit is not None and not _SIZE.fullmatch(memory_limit):
        raise UsageError("--memory-limit", found=repr(memory_limit), expected="a size such as 4GB")
    check_outputs(out, inputs=(tables, catalogue))
    here = Shop.open(Path(), engine=engine, threads=threads)
    chosen = None if catalogue is None else read_selection(read_yaml(catalogue), where=str(catalogue))
    with (
        collected() as notes,
        open_tables(tables) as source,
        feature_batches(
            source, as_of=as_of.date(), features=chosen, threads=here.engine.threads, memory_limit=memory_limit
        ) as (
            schema,
            batches,
        ),
    ):
        if "://" not in tables:  # a URL may hold a password
            schema = schema.with_metadata({**schema.metadata, TABLES_KEY: str(Path(tables).resolve()).encode()})
        whole = _somebody((batch.cast(schema) for batch in batches), tables, as_of.date())
        rows = write_batches(out, schema, whole)
    for note in notes:
        typer.secho(f"warning: {note}", fg="yellow", err=True)
    result = {"file": str(out), "as_of": str(as_of.date()), "customers": rows, "features": len(schema) - 1}
    text = f"{rows:,} customers × {len(schema) - 1} features as of {as_of.date()} in {out}."
    show({**result, "warnings": notes}, text, as_json=as_json, quiet=quiet)


def _somebody(batches: "Iterator[pa.RecordBatch]", tables: str, as_of: date) -> "Iterator[pa.RecordBatch]":
    """The batches; without a single customer in them nothing is written."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    if not rows:
        raise InputError(
            f"customers in {tables}",
            found=f"none who joined before {as_of}",
            expected="at least one",
            fix="Fill the table, or choose a later --as-of.",
        )
