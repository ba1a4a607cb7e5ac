"""The command line: all commands by topic, of which one is made and run, and how it ends.

A command ends in an exit code, and an error in a sentence, in text or as JSON. Modules import nothing heavy at their
top.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated

import typer

from disco.adapters.sentences import in_words
from disco.entrypoints.cli.output import INTERRUPTED, end_of_output, prepare_streams, show_error, show_traceback
from disco.records.errors import DefectError, DiscoError, UsageError

# one module per topic with its commands, in the order a newcomer meets them
TOPICS = {
    "simulated": ("demo", "simulate", "respond"),
    "shop": ("init", "validate"),
    "features": ("features", "check"),
    "train": ("train",),
    "planning": ("plan", "frontier"),
    "lifecycle": (
        *("launch", "approve", "export", "late", "contexts", "pause", "resume", "close", "recall"),
        "propensities",
    ),
    "outcomes": ("ingest", "quarantine", "revert", "learn"),
    "results": ("results", "explain", "campaigns", "belief"),
    "added": ("added", "favoured", "holdout"),
    "privacy": ("access", "forget", "prune"),
    "upkeep": ("doctor", "backup", "restore"),
    "serving": ("serve", "worker"),
    "office": ("keys", "audit", "schedule"),
    "calculators": ("allocate", "power", "ab"),
    "replay": ("replay",),
    "db": ("db",),
}


def make_app(command: str | None = None) -> typer.Typer:
    """The command line; with `command`, the first argument, only its topic, because making all commands takes time.

    Anything but the name of a command (an option, a typing error) gets all of them: help and suggestions list them.
    """
    app = typer.Typer(
        name="disco",
        help="Decide which customer gets which discount code, and learn from what customers buy.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for topic in [name for name, commands in TOPICS.items() if command in commands] or TOPICS:
        import_module(f"disco.entrypoints.cli.{topic}").register(app)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from disco import __version__

        typer.echo(f"disco {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Without it Typer would leave out the name of a command that is the only one of its topic."""


# ---- how a command ends ----


def run(interrupted: Callable[[], bool]) -> int:
    """Run the command of `sys.argv`; every error but an interruption ends in its sentence and its exit code."""
    prepare_streams()
    try:
        _refuse_undecodable()
        code = make_app(sys.argv[1] if len(sys.argv) > 1 else None)(standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except Exception as error:
        if interrupted():
            return INTERRUPTED
        return _explain(error)
    finally:
        end_of_output()


def _explain(error: Exception) -> int:
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return 1  # whoever reads our output, such as `head`, has had enough
    said = _in_words(error)
    if said is None:
        return 2  # the help was shown
    if isinstance(said, DefectError) and os.environ.get("DISCO_DEBUG") == "1":
        show_traceback("".join(traceback.format_exception(error)))
    show_error(said)
    return said.exit_code


def _in_words(error: Exception) -> DiscoError | None:
    return _usage(error) if isinstance(error, typer.TyperException) else in_words(error)


def _usage(error: typer.TyperException) -> UsageError | None:
    """What the parser of the command line refused; None: it showed the help instead."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if not message:
        return None
    context = getattr(error, "ctx", None)
    name = "disco" if context is None else context.command_path
    help_of = f"See `{name} --help`."
    if message.endswith("?"):  # a suggestion, which is a sentence of its own
        return UsageError(f"{message} {help_of}")
    return UsageError(message.rstrip("."), fix=help_of)


def _refuse_undecodable() -> None:
    """Arguments and settings that are no text could be neither stored nor shown."""
    given: Iterable[tuple[str, str]] = [
        *((f"argument {place}", text) for place, text in enumerate(sys.argv[1:], start=1)),
        *((name, text) for name, text in os.environ.items() if name.startswith("DISCO_")),
    ]
    for what, text in given:
        if any("\ud800" <= character <= "\udfff" for character in text):
            fix = "Correct it; a file of that name has to be renamed."
            # the value is not shown: it may be a secret
            raise UsageError(what, found="bytes that are not UTF-8", expected="text in UTF-8", fix=fix)
