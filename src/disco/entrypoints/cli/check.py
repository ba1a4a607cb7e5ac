"""`disco check`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from disco.entrypoints.shop import Shop
    from disco.features import ContextNetwork

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
    from disco.entrypoints.shop import Shop
    from disco.features import ContextNetwork
    from disco.features.cautions import collected
    from disco.features.check import check_context
    from disco.features.files import read_sample

    if features is not None and as_of is not None:
        raise UsageError("--as-of", found="it beside --features", expected="one of them: the file has its own date")
    trained = Shop.open(shop).network() if network is None else ContextNetwork.load(network)
    about = CheckUp(())
    if campaign is not None:
        if features is not None:
            raise UsageError("--features", found="it beside a campaign", expected="one of them: a campaign has its own")
        about, features = _campaign(Shop.open(shop), campaign, as_of)
    with collected() as notes:
        table = read_sample(features) if features is not None else _built(Shop.open(shop), trained, as_of)
    found = about + check_context(trained, table)
    for note in notes:
        typer.secho(f"warning: {note}", fg="yellow", err=True)
    result = {
        "failed": found.failed,
        "customers": table.num_rows,
        "counts": found.counts,
        "diagnoses": [diagnosis.as_dict() for diagnosis in found.worst_first()],
        "warnings": notes,
    }
    show(result, _table(found), as_json=as_json, quiet=quiet)
    if found.failed:
        raise typer.Exit(1)


def _campaign(shop: "Shop", campaign: str, as_of: datetime | None) -> tuple[CheckUp, Path]:
    """The campaign's own check-up, and the file of the features it was decided on."""
    from disco.operations.campaign_check import check_campaign

    with shop.store() as store:
        found = check_campaign(store, campaign, as_of=(as_of or datetime.now()).date())
        with store.reading() as shelves:
            plan_id = shelves.campaign(campaign).plan_id
    return found, shop.plans / plan_id / "features.parquet"


def _built(shop: "Shop", network: "ContextNetwork", as_of: datetime | None) -> "pa.Table":
    from disco.entrypoints.audience import features_as_of
    from disco.features.builder import day_after_last_order

    if as_of is not None:
        return features_as_of(shop, as_of.date(), features=network.catalogue_)
    with shop.tables() as tables:
        day = day_after_last_order(tables)
    return features_as_of(shop, day, features=network.catalogue_)


def _table(found: CheckUp) -> "Table":
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
    fixes = dict.fromkeys(f"{one.check}: {one.fix}" for one in found.worst_first() if one.fix)
    table.caption = Text("\n".join(fixes), justify="left")
    return table


def _grouped(found: CheckUp) -> list[Diagnosis]:
    """What was found alike in several places is one line, and so is all that is ok of one check; the worst stands
    for the others."""
    from dataclasses import replace

    alike: dict[tuple[str, ...], list[Diagnosis]] = {}
    for one in found.worst_first():
        said = "" if one.outcome is Outcome.OK else one.found
        alike.setdefault((one.outcome, one.check, said), []).append(one)
    return [
        replace(same[0], where=f"{same[0].where} and {len(same) - 1} more") if len(same) > 1 else same[0]
        for same in alike.values()
    ]
