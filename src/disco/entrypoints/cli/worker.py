"""`disco worker`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, say, show
from disco.records.wording import counted


def register(app: typer.Typer) -> None:
    app.command("worker", epilog="Example: disco worker --shop shop/")(worker)


def worker(
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when no job is due, instead of waiting.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds that a running job gets after SIGTERM or Ctrl-C.")
    ] = 20.0,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Run the jobs of this shop: plans, training, learning and what else the service or a schedule asks for.

    Any number of workers may share a database and its folder of artefacts; no two of them run the same job. A worker
    that is stopped gives its job back, and the job of one that was killed is run again after a minute.
    """
    from disco.entrypoints.python import Shop
    from disco.entrypoints.worker import run_worker

    def line(text: str) -> None:
        say(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", err=True)

    here = Shop.open(shop)
    done = run_worker(here, until_idle=until_idle, grace_s=grace, say=(lambda _: None) if quiet else line)
    show(done, f"{counted(done.jobs, 'job')} run.", as_json=as_json, quiet=quiet)
