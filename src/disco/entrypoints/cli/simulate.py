"""`disco simulate -o DIR`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, progress, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import FileFormatError, InputError, UsageError

if TYPE_CHECKING:
    from disco.retailer import RetailerSettings


def register(app: typer.Typer) -> None:
    app.command("simulate", epilog="Example: disco simulate --customers 50000 --seed 7 -o shop/data")(simulate)


def simulate(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the tables; created if it does not exist.")],
    customers: Annotated[int | None, typer.Option(help="Number of customers (default: 50,000).")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds and settings give equal files (default: 0).")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="JSON of all parameters; the options above override it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a simulated retailer in DIR.")] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write the raw tables of a simulated retailer: customers, orders, returns, codes, site; one TABLE.parquet each.

    The settings are kept in retailer.json, so that `disco respond` simulates the same customers. The tables replace the
    examples that `disco init` wrote. If DIR holds a table of your own (TABLE.parquet, TABLE.csv or a folder TABLE/),
    nothing is written, not even with --overwrite.
    """
    from disco.operations.simulating import refuse_occupied, simulate, written_files

    chosen = _settings(settings, customers=customers, seed=seed)
    examples = _examples(out, simulated=refuse_occupied(out, overwrite=overwrite))
    if out.is_dir():
        check_outputs(*written_files(out), inputs=(settings,), replaces="tables")
    with progress(quiet=quiet or as_json) as bar:
        task = bar.add_task("simulating blocks of customers", total=1)
        done = simulate(
            chosen,
            out,
            replaced=examples,
            progress=lambda block, blocks: bar.update(task, completed=block, total=blocks),
        )
    text = f"{done.customers:,} customers, seed {done.seed}, written to {out}. The simulated date is {done.today}."
    show(done, text, as_json=as_json, quiet=quiet)


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


def _settings(path: Path | None, *, customers: int | None, seed: int | None) -> "RetailerSettings":
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
