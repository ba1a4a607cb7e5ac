"""All commands, by topic; modules import nothing heavy at their top."""

from importlib import import_module

import typer

app = typer.Typer(
    name="disco",
    help="Decide which customer gets which discount code, and learn from what customers buy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# one module per topic, in the order a newcomer meets them
TOPICS = (
    "simulated",
    "shop",
    "features",
    "train",
    "planning",
    "lifecycle",
    "outcomes",
    "learn",
    "results",
    "belief",
    "privacy",
    "doctor",
    "backup",
    "calculators",
    "replay",
    "reproduce",
    "db",
)

for topic in TOPICS:
    import_module(f"disco.entrypoints.cli.{topic}").register(app)
