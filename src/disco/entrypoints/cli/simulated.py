"""Commands around a simulated retailer: `disco demo`, `disco simulate`, `disco respond`."""

import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import Terminal, add_command, say
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import FileFormatError, InputError, UsageError
from disco.records.locale import Locale
from disco.records.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.retailer import RetailerSettings

_DEMO_STEPS = 12  # of one run, for the bar
_NEW_ROWS = {"orders": "order", "returns": "return", "codes": "code", "site": "visit day"}  # by table

_LONG_S = 20.0  # from then on a command says how long it took


def register(app: typer.Typer) -> None:
    add_command(app, demo, example="disco demo --customers 20000 --seed 3 -o out/demo")
    add_command(app, simulate, example="disco simulate --customers 50000 --seed 7 -o shop/data")
    add_command(app, respond, example="disco respond shop/data codes.parquet -o outcomes.parquet")


def demo(
    terminal: Terminal,
    customers: Annotated[int, typer.Option(min=1000, help="Simulated customers.")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another retailer.")] = 7,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the allocations.")] = Path(
        "out/demo"
    ),
    seeds: Annotated[
        int, typer.Option(min=1, help="Run this many seeds, from --seed on, and print intervals over them.")
    ] = 1,
) -> None:
    """Run the whole loop on a simulated retailer: two random campaigns, then two decided ones.

    Prints a table and writes report.html and the allocations.
    """
    from disco.entrypoints.demo.command import run_many, run_once

    with terminal.progress("starting", total=_DEMO_STEPS * seeds) as report:
        steps = count(1)

        def step(name: str) -> None:
            report(next(steps), stage=name)
            if not (sys.stderr.isatty() or terminal.quiet or terminal.as_json):  # minutes of silence look like a stop
                say(f"{name} …")

        if seeds == 1:
            result, text = run_once(customers=customers, seed=seed, out=out, progress=step)
        else:
            result, text = run_many(customers=customers, first_seed=seed, seeds=seeds, out=out, progress=step)
    terminal.show(result, text)


def simulate(
    terminal: Terminal,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the tables; created if it does not exist.")],
    customers: Annotated[int | None, typer.Option(help="Number of customers (default: 50,000).")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds and settings give equal files (default: 0).")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="JSON of all parameters; the options above override it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a simulated retailer in DIR.")] = False,
) -> None:
    """Write the raw tables of a simulated retailer: customers, orders, returns, codes, site; one TABLE.parquet each.

    The settings are kept in retailer.json, so that `disco respond` simulates the same customers. The tables replace the
    examples that `disco init` wrote. If DIR holds a table of your own (TABLE.parquet, TABLE.csv or a folder TABLE/),
    nothing is written, not even with --overwrite.

    Customers are simulated in blocks of 10,000, on all processors, and written as they are made: memory stays below
    1 GB for any number of customers. A million take about 650 MB of disk; a disk that is too small is refused after the
    first block.
    """
    from disco.adapters.engines import LocalEngine
    from disco.retailer.folder import refuse_occupied, simulate, written_files

    chosen = _retailer_settings(settings, customers=customers, seed=seed)
    examples = _examples(out, simulated=refuse_occupied(out, overwrite=overwrite))
    if out.is_dir():
        check_outputs(*written_files(out), inputs=(settings,), replaces="tables")
    with terminal.progress("simulating blocks of customers", total=1) as report:
        done = simulate(
            chosen,
            out,
            replaced=examples,
            engine=LocalEngine(),
            progress=report,
        )
    text = f"{done.customers:,} customers, seed {done.seed}, written to {out}. The simulated date is {done.today}"
    size = f"{done.rows['orders']:,} orders and {done.rows['site']:,} site rows, {done.written_bytes / 1e6:,.1f} MB"
    peak = "" if done.peak_memory_bytes is None else f", at most {done.peak_memory_bytes / 1e9:.2f} GB of memory"
    took = f"\n{size}: {done.seconds:,.1f} s{peak}." if done.seconds >= _LONG_S else ""
    terminal.show(done, f"{text}.{took}", done=text)


def _examples(folder: Path, *, simulated: bool) -> list[Path]:
    """Tables in the folder that are still those of `disco init`.

    Every other table is refused: simulated rows would take its place, or stand beside it as a second source. In a
    folder that was simulated, the Parquet files are those of the last time, and outcomes are never simulated.
    """
    from disco.entrypoints.new_shop import TEMPLATES
    from disco.records.tables import SCHEMAS

    examples = []
    for name in SCHEMAS:
        for path in (folder / f"{name}.parquet", folder / name, folder / f"{name}.csv"):
            template = TEMPLATES / "data" / path.name
            if not os.path.lexists(path) or (path.name == name and not path.is_dir()):
                continue
            if template.is_file() and path.is_file() and path.read_bytes() == template.read_bytes():
                examples.append(path)
            elif not (simulated and (name == "outcomes" or (path.suffix == ".parquet" and path.is_file()))):
                fix = "Name another folder with -o, or move the table away."
                raise InputError(f"{path} is a table of your own, which simulated rows would replace", fix=fix)
    return examples


def _retailer_settings(path: Path | None, *, customers: int | None, seed: int | None) -> "RetailerSettings":
    from dataclasses import replace

    from disco.retailer import RetailerSettings

    if path is None:
        return RetailerSettings(customers=50_000 if customers is None else customers, seed=0 if seed is None else seed)
    if not path.is_file():
        raise UsageError(str(path), found="no such file", expected="a JSON file of retailer settings")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeError as error:
        raise FileFormatError(str(path), found=str(error), expected="JSON in UTF-8") from None
    settings = RetailerSettings.from_json(text)
    return replace(
        settings,
        customers=settings.customers if customers is None else customers,
        seed=settings.seed if seed is None else seed,
    )


def respond(
    terminal: Terminal,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `disco simulate`.")],
    codes: Annotated[Path, typer.Argument(help="code_id, customer_id, campaign_id, depth, sent_at; Parquet or CSV.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="File for the outcomes: CSV if its name ends in .csv, otherwise Parquet."),
    ],
) -> None:
    """Simulate how customers respond to a file of codes, until the last code has expired.

    Optional columns: expires_at, and channel (on-site; any other is answered as an e-mail). All orders, returns and
    visits of that time are appended to DIR. Codes sent before the simulated date of DIR are refused, so that no day is
    simulated twice.
    """
    from disco.adapters.config import settings_of_tables
    from disco.retailer.folder import respond

    check_outputs(out, inputs=(folder, codes))
    locale = settings_of_tables(str(folder), shop=Path()).locale
    done = respond(folder, _read_codes(codes, locale), out=out, locale=locale)
    text = (
        f"{counted(done.purchases, 'purchase')} from {counted(done.codes, 'code')} written to {out}. "
        f"The simulated date of {folder} has moved from {done.start} to {done.today}, with "
        + ", ".join(counted(count, _NEW_ROWS[name]) for name, count in done.appended.items())
        + " added"
    )
    terminal.show(done, f"{text}.", done=text)


def _read_codes(path: Path, locale: Locale) -> "pa.Table":
    """The codes as a table, typed as the table `codes` is; further columns of a CSV stay text."""
    from disco.adapters.tables.csv import CsvSource
    from disco.adapters.tables.parquet import ParquetSource
    from disco.records.tables import TableFormat

    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet or CSV file of codes")
    if path.suffix.lower() == ".csv":
        return CsvSource("codes", file=str(path), path=path, written=TableFormat(locale=locale)).scan()
    return ParquetSource("codes", file=str(path), parts=[(str(path), path)]).dataset.to_table()
