"""`disco simulate -o DIR`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, progress, show
from disco.records.errors import FileFormatError, InputError, UsageError

if TYPE_CHECKING:
    from disco.retailer import RetailerSettings


def register(app: typer.Typer) -> None:
    app.command("simulate", epilog="Example: disco simulate --customers 50000 --seed 7 -o shop/data")(simulate)


def simulate(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the tables; made if it does not exist.")],
    customers: Annotated[int | None, typer.Option(help="How many customers (default 50,000).")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds and settings give equal files (default 0).")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="JSON of all parameters; the options above override it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a simulated retailer in DIR.")] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write the raw tables of a simulated retailer: customers, orders, returns, codes, site; one TABLE.parquet each.

    retailer.json beside them holds the settings, so that `disco respond` knows the same customers. They take the place
    of the examples that `disco init` wrote; a table of your own in DIR is refused, never touched.
    """
    from disco.retailer import Retailer
    from disco.retailer.files import STATE, write

    chosen = _settings(settings, customers=customers, seed=seed)
    if out.exists() and not out.is_dir():
        raise InputError(str(out), found="a file", expected="a folder")
    if (out / STATE).exists() and not overwrite:
        raise InputError(
            str(out), found="a simulated retailer", expected="an empty folder", fix="Name another, or add --overwrite."
        )
    examples = _examples(out)
    shop = Retailer.simulate(chosen)
    with progress(quiet=quiet or as_json) as bar:
        task = bar.add_task("simulating blocks of customers", total=shop.blocks)
        write(shop, out, after_block=lambda: bar.advance(task))
    for path in examples:
        path.unlink()
    result = {"folder": str(out), "customers": chosen.customers, "seed": chosen.seed, "today": str(shop.today)}
    text = f"{chosen.customers:,} customers, seed {chosen.seed}, in {out}. It is the morning of {shop.today} there."
    show(result, text, as_json=as_json, quiet=quiet)


def _examples(folder: Path) -> list[Path]:
    """Tables in the folder that are still those of `disco init`; refused: a CSV that would be a second source."""
    from disco.entrypoints.cli.init import TEMPLATES

    examples = []
    for template in sorted((TEMPLATES / "data").iterdir()):
        path = folder / template.name
        if not path.is_file():
            continue
        if path.read_bytes() == template.read_bytes():
            examples.append(path)
        elif path.stem != "outcomes":  # the one table that is not simulated here
            fix = "Name another folder, or move it away."
            raise InputError(str(path), found="a table that is no example", expected="none there", fix=fix)
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
