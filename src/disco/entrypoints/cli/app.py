"""All commands, one module each; modules import nothing heavy at their top."""

from importlib import import_module

import typer

app = typer.Typer(
    name="disco",
    help="Decide which customer gets which discount code, and learn from what customers buy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# in the order a newcomer meets them
COMMANDS = (
    "demo",
    "init",
    "simulate",
    "respond",
    "validate",
    "features",
    "train",
    "check",
    "plan",
    "frontier",
    "launch",
    "export",
    "ingest",
    "learn",
    "revert",
    "results",
    "explain",
    "belief",
    "campaigns",
    "pause",
    "late",
    "propensities",
    "doctor",
    "allocate",
    "replay",
    "power",
    "reproduce",
    "db",
)

for name in COMMANDS:
    import_module(f"disco.entrypoints.cli.{name}").register(app)
