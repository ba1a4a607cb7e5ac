"""`disco check`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, checks_text, day_of, show, warn
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.operations.campaign_check import CheckResult

EXAMPLE = "Example: disco check --shop shop/ --as-of 2025-06-01"


def register(app: typer.Typer) -> None:
    app.command("check", epilog=EXAMPLE)(check)


def check(
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; without one, the shop's customers today."),
    ] = None,
    network: Annotated[
        Path | None, typer.Option(help="From `disco train context` (default: `context` of disco.yaml).")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="From `disco features` (default: built from the tables of disco.yaml).")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of",
            formats=["%Y-%m-%d"],
            help="Date of the features (default: the day after the last order) or of the read-out.",
        ),
    ] = None,
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml.")] = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Check whether decisions can be based on these features and this network; exit 1 when a check fails.

    Looks for columns that are missing or in another unit, features that drifted since training, constant features,
    values never seen in training, and contexts with dead units or customers at their limits. docs/features.md has the
    thresholds. With a CAMPAIGN: the features it was decided on, and its groups, outcomes, forecast, evidence and model.
    """
    from disco.entrypoints.python import Shop
    from disco.features import ContextNetwork
    from disco.operations.campaign_check import check_features

    if features is not None and as_of is not None:
        raise UsageError("--as-of cannot be combined with --features: the file has its own date")
    if features is not None and campaign is not None:
        raise UsageError("--features cannot be combined with a campaign: a campaign has its own")
    trained = Shop.open(shop).data.network() if network is None else ContextNetwork.load(network)
    if features is not None:
        found = check_features(trained, features)
    else:
        found = Shop.open(shop).check(campaign, as_of=day_of(as_of), network=trained)
    warn(found.warnings)
    show(found, _text(found), as_json=as_json, quiet=quiet)
    if found.failed:
        raise typer.Exit(1)


def _text(found: "CheckResult") -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found.counts.items() if count)
    verdict = "failed" if found.failed else "passed"
    return f"{checks_text(found.diagnoses)}\nThe check {verdict}: {counts}."
