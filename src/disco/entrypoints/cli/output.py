"""How commands speak: results on stdout (text or JSON), everything else on stderr, progress only on a terminal.

Everything passes through `escaped`, so that no id, code or file name can drive a terminal.
"""

import codecs
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, overload

import typer

from disco.records.errors import (
    DiscoError,
    InputError,
    PlanError,
    ReportError,
    TableError,
    UsageError,
    escaped,
    one_line,
)
from disco.records.locale import FIRST_YEAR, LAST_YEAR

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.records.diagnosis import Diagnosis
    from disco.records.result import Result
    from disco.views.table import Table as Figures

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
ShopFolder = Annotated[
    Path, typer.Option("--shop", help="Folder with disco.yaml; paths in it are relative to this folder.")
]
EngineFlag = Annotated[
    str | None,
    typer.Option("--engine", help="The engine that runs the work: local or spark (default: the setting `engine`)."),
]
MasterFlag = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="With --engine spark: local[2], spark://HOST:7077, … (default: the setting `master`, or local[*]).",
    ),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; write nothing.")]
YesFlag = Annotated[bool, typer.Option("--yes", help="Do not ask before it is done; asked only on a terminal.")]

INTERRUPTED = 128 + signal.SIGINT  # the exit code after Ctrl-C, as shells count
_PLAIN = "disco-plain"
_PLAIN_LETTERS = {"–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "·": "-", "→": "->", "≤": "<=", "≥": ">="}


@overload
def day_of(moment: datetime, *, option: str = "--as-of") -> date: ...


@overload
def day_of(moment: datetime | None, *, option: str = "--as-of") -> date | None: ...


def day_of(moment: datetime | None, *, option: str = "--as-of") -> date | None:
    """The day that an option names; None: it was not given. Days at the ends of the calendar cannot be counted from."""
    if moment is not None and not FIRST_YEAR <= moment.year <= LAST_YEAR:
        expected = f"a day from {FIRST_YEAR} to {LAST_YEAR}"
        raise UsageError(option, found=moment.date(), expected=expected)
    return None if moment is None else moment.date()


class Reported(Protocol):
    """What long work tells a progress display."""

    def __call__(self, done: int | None = None, total: int | None = None, stage: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command speaks: the options that every command ends with.

    The first parameter of a command is one of these classes; `add_command` puts the options in its place, those of the
    class itself before those of the classes above it.
    """

    as_json: JsonFlag = False
    quiet: QuietFlag = False

    def show(
        self, result: "Result | dict[str, Any]", text: str, *, quiet: bool = True, done: str | None = None
    ) -> None:
        """Print a command's result: `result` for machines, `text` for people.

        quiet: whether --quiet silences it. done: what the command has changed, as a sentence without its full stop. It
        is said on stderr where the result cannot be written: the change is kept all the same.
        """
        try:
            if self.as_json:
                _print_json(result if isinstance(result, dict) else result.as_dict())
            elif not (self.quiet and quiet):
                say(text)
        except OSError as error:
            end_of_output()
            reason = error.strerror or str(error)
            if done is None and error.errno == errno.EPIPE:
                raise  # whoever reads it, such as `head`, has had enough
            if done is None:
                expected = "a place that can be written"
                raise InputError("standard output", found=reason, expected=expected) from None
            raise ReportError(f"{done}. Only the report could not be written to standard output: {reason}") from None

    @contextmanager
    def progress(self, stage: str, *, total: int | None = None) -> Iterator[Reported]:
        """How far long work is, on stderr; invisible where that is no terminal, or with --quiet or --json."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TimeElapsedColumn(),
            console=console,
            disable=self.quiet or self.as_json or not console.is_terminal,
        ) as bar:
            task = bar.add_task(stage, total=total)

            def report(done: int | None = None, total: int | None = None, stage: str | None = None) -> None:
                bar.update(task, completed=done, total=total, description=stage)

            yield report


@dataclass(frozen=True, slots=True)
class ShopTerminal(Terminal):
    """Of a command that works on a shop."""

    folder: ShopFolder = Path()

    def shop(self) -> "Shop":
        """The shop of the option --shop."""
        return open_shop(self.folder)


@dataclass(frozen=True, slots=True)
class EngineTerminal(ShopTerminal):
    """Of a command whose work an engine can run."""

    engine: EngineFlag = None
    master: MasterFlag = None

    def shop(self) -> "Shop":
        """The shop of the option --shop, on the engine that the options name."""
        return open_shop(self.folder, engine=self.engine, master=self.master)


def add_command(
    app: typer.Typer, function: Callable[..., None], *, name: str | None = None, example: str | None = None
) -> None:
    """Add a command whose first parameter is a `Terminal`: Typer reads its options as the last ones."""
    epilog = None if example is None else f"Example: {example}"
    app.command(name or function.__name__, epilog=epilog)(with_options(function))


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer reads it, with options in the place of its first parameter."""
    first, *own = signature(function).parameters.values()
    kind: type[Terminal] = first.annotation
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(kind(), name), annotation=annotation)
        for part in kind.__mro__
        for name, annotation in get_annotations(part).items()
    ]

    @wraps(function)
    def run(**given: Any) -> None:
        terminal = kind(**{option.name: given.pop(option.name) for option in options})
        function(terminal, **given)

    run.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
    return run


def open_shop(folder: Path, **flags: Any) -> "Shop":
    """The shop in this folder, with settings from options; errors name the options."""
    from disco.entrypoints.python import Shop

    try:
        return Shop.open(folder, **flags)
    except InputError as error:
        if error.what != "master":
            raise
        fix = "Only the engine spark has a master: add --engine spark."
        raise UsageError("--master", found=error.found, expected=error.expected, fix=fix) from None


def next_command(words: str, shop: Path) -> str:
    """A command to type next, for the same shop."""
    return f"Next: disco {words}" + ("" if shop == Path() else f" --shop {shop}")


def prepare_streams() -> None:
    """Whatever the encoding of the output is, every character can be written: as it is, or in plain letters."""
    codecs.register_error(_PLAIN, _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN_LETTERS.get(one, f"\\u{ord(one):04x}") for one in text), error.end


def end_of_output() -> None:
    """Output that cannot be written any more is dropped, or the interpreter would complain about it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(io.UnsupportedOperation):  # a stream of a test has no descriptor
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str, *, err: bool = False) -> None:
    """A line or more for people; what would drive a terminal is written out."""
    typer.echo(escaped(text), err=err)


def show_error(error: DiscoError) -> None:
    """The message on stderr; as JSON when the command was asked for JSON."""
    with suppress(OSError):  # stderr itself cannot be written; the exit code still tells
        if "--json" in sys.argv:
            problems = (
                [problem.as_dict() for problem in error.problems] if isinstance(error, TableError | PlanError) else []
            )
            _print_json({"error": type(error).__name__, "message": str(error), "problems": problems}, err=True)
        else:
            typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
            say(str(error), err=True)


def show_traceback(text: str) -> None:
    """For developers, on stderr."""
    with suppress(OSError):
        say(text, err=True)


CustomersFile = Annotated[Path | None, typer.Option("--file", help="Text file with one customer per line.")]


def customers_of(command: str, named: "list[str] | None", file: Path | None) -> list[str]:
    """The customers whom a command is about: its arguments, and the lines of the file of its option --file."""
    customers = [*(named or ())]
    if file is not None:
        if not file.is_file():
            raise InputError(str(file), found="no such file", expected="a text file with one customer per line")
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeError as error:
            raise InputError(str(file), found=str(error), expected="text in UTF-8, one customer per line") from None
        customers += [line.strip() for line in lines if line.strip()]
    if not customers:
        raise UsageError(f"{command} needs customers", fix="Name them as arguments, or use --file FILE.")
    return customers


def confirm(question: str, *, yes: bool) -> None:
    """Before something that cannot be undone: ask on a terminal, and end with exit 1 unless the answer is yes.

    Scripts say --yes. Where nobody can answer (input or stderr is no terminal), nothing is asked.
    """
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    say(f"{question} [y/N]", err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("Nothing was changed.", err=True)
        raise typer.Exit(1)


def _print_json(value: object, *, err: bool = False) -> None:
    # JSON in ASCII escapes every control but DEL
    typer.echo(json.dumps(value, allow_nan=False, default=str).replace("\x7f", "\\u007f"), err=err)


def warn(notes: Iterable[str]) -> None:
    """Things worth knowing, on stderr: the command has done its work all the same."""
    with suppress(OSError):  # stderr itself cannot be written, and the result is still to come
        for note in notes:
            typer.secho(f"warning: {escaped(note)}", fg="yellow", err=True)


def figures_text(table: "Figures") -> str:
    """A report's table for a terminal of any width: text to the left, figures to the right, two blanks between."""
    rows = [
        [column.heading for column in table.typed_columns()],
        *([one_line(cell) for cell in row] for row in table.text()),
    ]
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
        expected = "" if first.ok or not first.expected else f"; expected {first.expected}"
        fix = f". {first.fix}" if first.fix else ""
        same = all(other.found == first.found for other in others)  # what is well may be well with other figures
        found = f": {first.found}{expected}{fix}" if same else ""
        lines.append(f"{first.outcome:<7}  {', '.join(filter(None, (first.check, where)))}{found}")
    return "\n".join(lines)
