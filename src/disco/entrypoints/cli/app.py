"""All commands, by topic; modules import nothing heavy at their top."""

from importlib import import_module
from typing import Annotated

import typer

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
    "added": ("added", "holdout"),
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
