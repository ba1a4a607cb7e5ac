"""`disco learn CAMPAIGN`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    DryRunFlag,
    EngineFlag,
    JsonFlag,
    MasterFlag,
    QuietFlag,
    ShopFolder,
    day_of,
    open_shop,
    show,
    warn,
)
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.operations.learn import Learned


def register(app: typer.Typer) -> None:
    app.command("learn", epilog="Example: disco learn spring-27")(learn)


def learn(
    campaigns: Annotated[
        list[str] | None, typer.Argument(metavar="[CAMPAIGN]...", help="Campaigns whose outcomes to learn from.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Codes that had expired by this day count for engagement; default: today."
        ),
    ] = None,
    activate: Annotated[int | None, typer.Option(min=1, help="Instead, make this version the active one.")] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="After the context network was retrained: embed all customers again.")
    ] = False,
    dry_run: DryRunFlag = False,
    engine: EngineFlag = None,
    master: MasterFlag = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make a new version of the model from the outcomes of these campaigns and of all campaigns learned before.

    The newest version becomes active and decides the next plan. If there is nothing new, no version is made. A campaign
    counts towards engagement (the share of receivers who buy) once its codes have expired and two days
    of grace have passed. Learn it again then.
    """
    if (asked := bool(campaigns) + (activate is not None) + rebuild) != 1:
        wrong = "learn does one thing at a time" if asked else "learn has nothing to do"
        raise UsageError(wrong, fix="Name campaigns, or use --activate N, or --rebuild.")
    here = open_shop(shop, engine=engine, master=master)
    if activate is not None:
        verb = "would be" if dry_run else "is"
        switched = here.activate(activate, dry_run=dry_run)
        said = f"Version {activate} of the model {verb} active"
        show(switched, f"{said}.", as_json=as_json, quiet=quiet, done=None if dry_run else said)
        return
    if rebuild:
        done = here.rebuild(as_of=day_of(as_of), dry_run=dry_run)
    else:
        done = here.learn(*(campaigns or ()), as_of=day_of(as_of), dry_run=dry_run)
    warn(done.warnings)
    text = learned_text(done) + (" Nothing was written." if dry_run else "")
    kept = None if dry_run or not done.changed else f"Version {done.version} of the model is made and active"
    show(done, text, as_json=as_json, quiet=quiet, done=kept)


def learned_text(done: "Learned") -> str:
    count = len(done.campaigns)
    learned = f"{sum(done.campaigns.values()):,} purchases of {count} campaign{'s'[: count != 1]}"
    text = f"Version {done.version} of the model: {learned}."
    if not done.changed:
        text = f"Nothing new: version {done.version} of the model stays active, with {learned}."
    waiting = sorted(set(done.campaigns) - set(done.matured))
    if waiting:
        text += f" Not yet counted for engagement, because their codes have not matured: {', '.join(waiting)}."
    return text
