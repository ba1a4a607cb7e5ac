"""A shop and its tables: `disco init`, `disco validate`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import Terminal, add_command, day_of, warn

if TYPE_CHECKING:
    from disco.records.errors import Problem


def register(app: typer.Typer) -> None:
    add_command(app, init, example="disco init shop/")
    add_command(app, validate, example="disco validate shop/data --as-of 2026-03-01")


def init(
    terminal: Terminal,
    shop: Annotated[Path, typer.Argument(metavar="SHOP", help="The folder to fill; created if it does not exist.")],
) -> None:
    """Create a shop: commented settings (disco.yaml), a campaign plan (plan.yaml), an example of every table (data/).

    Lists of customers and pools of codes that plans name lie in lists/, which has an empty list to begin with.

    Nothing is overwritten: if one of them exists already, nothing is written.
    """
    from disco.entrypoints.new_shop import create_shop

    done = create_shop(shop)
    then = f"disco validate {quote(str(shop / 'data'))}"
    text = f"Wrote {', '.join(done.files)} in {shop}. Replace the example tables with your own, then run: {then}"
    terminal.show(done, text, done=f"The shop {shop} is created")


def validate(
    terminal: Terminal,
    tables: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR",
            help="Folder of tables, a database URL, or a plan (PLAN.yaml); default: `data` of disco.yaml.",
        ),
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The last day that dates may have; default: today.")
    ] = None,
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml.")] = Path(),
) -> None:
    """Check a retailer's tables: columns, types, keys, references, dates, ranges; or a campaign plan.

    Of a plan, also the table of customers, the condition and the files that it names are looked at.

    Prints every problem with its file, column and first row, what was found, what was expected and what to do.
    Exit 0 when there are none, 1 otherwise. Nothing is changed.
    """
    if tables is not None and Path(tables).suffix.lower() in (".yaml", ".yml"):
        _validate_plan(terminal, Path(tables), shop=shop)
        return
    from disco.adapters.config import load_settings, settings_of_tables
    from disco.adapters.shop import WallClock
    from disco.entrypoints.python import validate_tables_at
    from disco.records.wording import counted

    settings = load_settings(shop) if tables is None else settings_of_tables(tables, shop=shop)
    place = settings.data_place(shop) if tables is None else tables
    found = validate_tables_at(place, settings=settings, as_of=day_of(as_of) or WallClock.of(settings).today())
    read = ", ".join(f"{name} ({counted(rows, 'row')})" for name, rows in found.rows.items())
    text = f"No problems found in {place}: {read}." if found.clean else _problems_text(found.problems, place)
    warn(found.warnings)
    notes = "".join(f"Note: {note}.\n" for note in found.notes)
    terminal.show(found, notes + text, quiet=found.clean)
    if not found.clean:
        raise typer.Exit(1)


def _validate_plan(terminal: Terminal, path: Path, *, shop: Path) -> None:
    from disco.entrypoints.python import validate_plan_at
    from disco.records.depths import depth_percent
    from disco.records.wording import counted, period

    found = validate_plan_at(path, shop=shop)
    warn(found.warnings)
    depths = ", ".join(map(depth_percent, found.depths))
    valid = period(found.valid_from, found.valid_before - timedelta(days=1))
    about = "no shop to look at its customers" if found.eligible is None else counted(found.eligible, "customer")
    text = f"No problems found in {path}: campaign {found.campaign}, {depths}, codes valid {valid}, {about}."
    terminal.show(found, text)


def _problems_text(problems: "Sequence[Problem]", place: str) -> str:
    from disco.records.wording import counted

    lines: list[str] = []
    files = list(dict.fromkeys(problem.file for problem in problems))
    for file in files:
        lines += ["", file]
        lines += [f"  {problem.within_file()}" for problem in problems if problem.file == file]
    summary = f"{counted(len(problems), 'problem')} in {counted(len(files), 'file')} of {place}."
    return "\n".join(
        [*lines[1:], "", f"{summary} Rows of CSV files are numbered as in a spreadsheet: the header is row 1."]
    )
