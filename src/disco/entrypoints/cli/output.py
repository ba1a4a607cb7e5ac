"""How commands speak: results on stdout (text or JSON), everything else on stderr, progress only on a terminal."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.records.errors import DiscoError, PlanError, TableError

if TYPE_CHECKING:
    from disco.records.diagnosis import Diagnosis
    from disco.records.result import Result
    from disco.reports import Table as Figures

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
ShopFolder = Annotated[
    Path, typer.Option("--shop", help="Folder with disco.yaml; paths in it are relative to this folder.")
]
EngineFlag = Annotated[
    str | None, typer.Option("--engine", help="The engine that runs the work: local (default: the setting `engine`).")
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; write nothing.")]


def day_of(moment: datetime | None) -> date | None:
    """The day that an option such as --as-of names; None: it was not given."""
    return None if moment is None else moment.date()


def next_command(words: str, shop: Path) -> str:
    """A command to type next, for the same shop."""
    return f"Next: disco {words}" + ("" if shop == Path() else f" --shop {shop}")


def show_error(error: DiscoError) -> None:
    """The message on stderr; as JSON when the command was asked for JSON."""
    if "--json" in sys.argv:
        problems = (
            [problem.as_dict() for problem in error.problems] if isinstance(error, TableError | PlanError) else []
        )
        typer.echo(json.dumps({"error": type(error).__name__, "message": str(error), "problems": problems}), err=True)
    else:
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(error), err=True)


def show(result: "Result | dict[str, Any]", text: str, *, as_json: bool, quiet: bool = False) -> None:
    """Print a command's result: `result` for machines, `text` for people."""
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False, default=str) if isinstance(result, dict) else result.to_json())
    elif not quiet:
        typer.echo(text)


def warn(notes: Iterable[str]) -> None:
    """Things worth knowing, on stderr: the command has done its work all the same."""
    for note in notes:
        typer.secho(f"warning: {note}", fg="yellow", err=True)


def figures_text(table: "Figures") -> str:
    """A report's table for a terminal of any width: text to the left, figures to the right, two blanks between."""
    rows = [tuple(column.heading for column in table.typed_columns()), *table.text()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if is_figure else cell.ljust(width)
            for cell, width, is_figure in zip(row, widths, table.holds_figures(), strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def checks_text(checks: "Sequence[Diagnosis]") -> str:
    """One line per check: what failed comes first, and what was found alike in several places is one line."""
    from disco.records.diagnosis import Outcome

    order = (Outcome.FAILED, Outcome.WATCH, Outcome.SKIPPED, Outcome.OK)
    alike: dict[tuple[str, ...], list[Diagnosis]] = {}
    for one in sorted(checks, key=lambda check: order.index(check.outcome)):
        found = "" if one.outcome is Outcome.OK else one.found
        alike.setdefault((one.outcome, one.check, found), []).append(one)
    lines = []
    for first, *others in alike.values():
        where = first.where + (f" and {len(others)} more" if others else "")
        expected = "" if first.ok else f"; expected {first.expected}"
        fix = f". {first.fix}" if first.fix else ""
        lines.append(f"{first.outcome:<7}  {first.check}, {where}: {first.found}{expected}{fix}")
    return "\n".join(lines)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Any]:
    """A Rich progress display on stderr; invisible when stderr is no terminal or the user asked for quiet."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
    ) as bar:
        yield bar
