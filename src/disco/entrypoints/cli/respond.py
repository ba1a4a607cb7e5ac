"""`disco respond DIR codes.parquet -o outcomes.parquet`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def register(app: typer.Typer) -> None:
    app.command("respond", epilog="Example: disco respond shop/data codes.parquet -o outcomes.parquet")(respond)


def respond(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `disco simulate`.")],
    codes: Annotated[Path, typer.Argument(help="code_id, customer_id, campaign_id, depth, sent_at; Parquet or CSV.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file for the outcomes.")],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Simulate how customers respond to a file of codes, until the last code has expired.

    Optional columns: expires_at, and channel (on-site or e-mail). All orders, returns and visits of that time are
    appended to DIR. Codes sent before the simulated date of DIR are refused, so that no day is simulated twice.
    """
    from disco.operations.simulating import respond

    check_outputs(out, inputs=(folder, codes))
    done = respond(folder, _read(codes), out=out)
    text = (
        f"{done.purchases:,} purchases from {done.codes:,} codes written to {out}. "
        f"The simulated date of {folder} has moved from {done.start} to {done.today}: "
        + ", ".join(f"{count:,} {name}" for name, count in done.appended.items())
        + " added."
    )
    show(done, text, as_json=as_json, quiet=quiet)


def _read(path: Path) -> "pa.Table":
    """The codes as a table, typed as the table `codes` is; further columns of a CSV stay text."""
    from disco.adapters.tables.csv import CsvSource
    from disco.adapters.tables.parquet import ParquetSource

    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet or CSV file of codes")
    if path.suffix.lower() == ".csv":
        return CsvSource("codes", file=str(path), path=path).scan()
    return ParquetSource("codes", file=str(path), parts=[(str(path), path)]).dataset.to_table()
