"""`disco features DIR`."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, show, warn
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError

_SIZE = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)
EXAMPLE = "Example: disco features shop/data --as-of 2025-06-01 -o features.parquet"


def register(app: typer.Typer) -> None:
    app.command("features", epilog=EXAMPLE)(features)


def features(
    tables: Annotated[str, typer.Argument(metavar="DIR", help="Folder of tables, or a database URL.")],
    as_of: Annotated[
        datetime, typer.Option("--as-of", formats=["%Y-%m-%d"], help="Only rows dated before this day count.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    catalogue: Annotated[
        Path | None, typer.Option(help="YAML of features to drop and to add (docs/features.md).")
    ] = None,
    engine: EngineFlag = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads to use (default: the setting `threads`, or one per processor).")
    ] = None,
    memory_limit: Annotated[str | None, typer.Option(help="Such as 4GB; beyond it, DuckDB spills to disk.")] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Compute the features of every customer as of a date, from the year before: the 76 of the catalogue, or your own.

    docs/features.md describes each of them. A missing table gives a warning, and its features are null.
    """
    from disco.adapters.tables import open_tables
    from disco.entrypoints.files import read_yaml
    from disco.entrypoints.python import Shop
    from disco.features.selection import read_selection
    from disco.operations.training import write_features

    if memory_limit is not None and not _SIZE.fullmatch(memory_limit):
        raise UsageError("--memory-limit", found=repr(memory_limit), expected="a size such as 4GB")
    check_outputs(out, inputs=(tables, catalogue))
    here = Shop.open(engine=engine, threads=threads)
    done = write_features(
        open_tables,
        tables,
        as_of=as_of.date(),
        out=out,
        features=None if catalogue is None else read_selection(read_yaml(catalogue), where=str(catalogue)),
        threads=here.engine.threads,
        memory_limit=memory_limit,
    )
    warn(done.warnings)
    text = f"{done.customers:,} customers × {done.features} features as of {done.as_of} in {out}."
    show(done, text, as_json=as_json, quiet=quiet)
