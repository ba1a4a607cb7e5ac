"""`disco validate DIR`."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, day_of, show

if TYPE_CHECKING:
    from disco.records.errors import Problem


def register(app: typer.Typer) -> None:
    app.command("validate", epilog="Example: disco validate shop/data --as-of 2026-03-01")(validate)


def validate(
    tables: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR",
            help="Folder of tables, a database URL, or a plan (PLAN.yaml); default: `data` of disco.yaml.",
        ),
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day that dates may name; default: today.")
    ] = None,
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml.")] = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Check a retailer's tables: columns, types, keys, references, dates, ranges; or a campaign plan.

    Prints every problem with its file, column and first row, what was found, what was expected and what to do.
    Exit 0 when there is none, 1 otherwise. Nothing is changed.
    """
    if tables is not None and Path(tables).suffix.lower() in (".yaml", ".yml"):
        _validate_plan(Path(tables), as_json=as_json, quiet=quiet)
        return
    from disco.entrypoints.config import load_settings
    from disco.entrypoints.python import validate_tables_at

    place, queries = tables, None
    if place is None:
        settings = load_settings(shop)
        place, queries = settings.data_place(shop), settings.queries
    found = validate_tables_at(place, queries=queries, as_of=day_of(as_of) or date.today())
    clean = f"{place} is clean: " + ", ".join(f"{rows:,} rows of {name}" for name, rows in found.rows.items()) + "."
    text = clean if found.clean else _text(found.problems, place)
    show(found, text, as_json=as_json, quiet=quiet and found.clean)
    if not found.clean:
        raise typer.Exit(1)


def _validate_plan(path: Path, *, as_json: bool, quiet: bool) -> None:
    from disco.entrypoints.files import read_yaml
    from disco.operations.validating import PlanVerdict
    from disco.records.depths import depth_percent
    from disco.records.plan import read_plan

    found = PlanVerdict.of(read_plan(read_yaml(path), file=str(path)))
    depths = ", ".join(map(depth_percent, found.depths))
    valid = f"from {found.valid_from} to before {found.valid_before}"
    show(found, f"{path} is a campaign plan: {found.campaign}, {depths}, {valid}.", as_json=as_json, quiet=quiet)


def _text(problems: "Sequence[Problem]", place: str) -> str:
    lines: list[str] = []
    files = list(dict.fromkeys(problem.file for problem in problems))
    for file in files:
        lines += ["", file]
        lines += [f"  {problem.within_file()}" for problem in problems if problem.file == file]
    count = len(problems)
    summary = f"{count} problem{'s'[: count > 1]} in {len(files)} file{'s'[: len(files) > 1]} of {place}."
    return "\n".join([*lines[1:], "", summary])
