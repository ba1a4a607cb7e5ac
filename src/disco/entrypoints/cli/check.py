"""`disco check`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, day_of, show, warn
from disco.records.diagnosis import Diagnosis, Outcome
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from disco.operations.campaign_check import CheckResult

EXAMPLE = "Example: disco check --shop shop/ --as-of 2025-06-01"
_COLOURS = {Outcome.FAILED: "red", Outcome.WATCH: "yellow", Outcome.SKIPPED: "cyan", Outcome.OK: "green"}


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
            help="Date of the features (default: after the last order) or the read-out.",
        ),
    ] = None,
    shop: Annotated[Path, typer.Option(help="The folder of disco.yaml.")] = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Check whether decisions may be built on these features with this network; exit 1 when something failed.

    Looks for columns that are missing or in another unit, features that drifted from training, constant features,
    values never seen, and a context with dead units or customers at its limits. docs/features.md has the thresholds.
    With a CAMPAIGN: the features it was decided on, and its arms, outcomes, prediction, evidence and belief.
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
    show(found, _table(found), as_json=as_json, quiet=quiet)
    if found.failed:
        raise typer.Exit(1)


def _table(found: "CheckResult") -> "Table":
    """What failed first; what to do about it below."""
    from rich.table import Table
    from rich.text import Text

    counts = ", ".join(f"{count} {outcome}" for outcome, count in found.counts.items() if count)
    table = Table(title=f"Check-up: {'failed' if found.failed else 'passed'} ({counts})")
    for heading in ("", "check", "where", "found", "expected"):
        table.add_column(heading, overflow="fold")
    for one in _grouped(found):
        words = (one.check, one.where, one.found, one.expected)
        table.add_row(Text(one.outcome, style=_COLOURS[one.outcome]), *map(Text, words))
    fixes = dict.fromkeys(f"{one.check}: {one.fix}" for one in found.diagnoses if one.fix)
    table.caption = Text("\n".join(fixes), justify="left")
    return table


def _grouped(found: "CheckResult") -> list[Diagnosis]:
    """What was found alike in several places is one line, and so is all that is ok of one check; the worst stands
    for the others."""
    from dataclasses import replace

    alike: dict[tuple[str, ...], list[Diagnosis]] = {}
    for one in found.diagnoses:
        said = "" if one.outcome is Outcome.OK else one.found
        alike.setdefault((one.outcome, one.check, said), []).append(one)
    return [
        replace(same[0], where=f"{same[0].where} and {len(same) - 1} more") if len(same) > 1 else same[0]
        for same in alike.values()
    ]
