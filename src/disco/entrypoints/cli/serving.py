"""`disco serve` and `disco worker`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import ShopFolder, ShopTerminal, Terminal, add_command, open_shop, say, warn
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.serving import Serving

_DEMO = Path("out/demo")  # where `disco demo` writes


def register(app: typer.Typer) -> None:
    add_command(app, serve, example="disco serve --shop shop/ --port 8080")
    add_command(app, worker, example="disco worker --shop shop/")


def serve(
    terminal: Terminal,
    shop: ShopFolder = Path(),
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback let other machines in.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8080,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Run no worker beside the server; `disco worker` runs elsewhere.")
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Serve the shop that `disco demo` made (default: out/demo), with a link that signs you in.",
        ),
    ] = False,
) -> None:
    """Serve the shop over HTTP: the use cases of the command line for programs and browsers (docs/service.md).

    At the first start a link for the first administrator is printed; it works once, within 24 hours. The server ends on
    SIGTERM or Ctrl-C, after the requests in progress. Its log is JSON on standard error.

    With --demo, a link is printed that signs you in as an administrator of the simulated shop. It is refused for other
    shops, and for addresses that other machines can reach.
    """
    from disco.entrypoints.service.serving import serve

    def started(serving: "Serving") -> None:
        warn(serving.warnings)
        terminal.show(serving, f"Serving {serving.shop} at {serving.url}. /docs describes it.")
        if serving.invitation is not None and not terminal.as_json:  # also if quiet: nobody could sign in without it
            say(f"The first administrator signs up here, once, within 24 hours: {serving.invitation}")
        if serving.demo is not None and not terminal.as_json:
            say(f"Look around, signed in as an administrator of the simulated shop: {serving.demo}")

    opened = _demo_shop(shop) if demo else open_shop(shop)
    serve(opened, host=host, port=port, worker=not no_worker, started=started, demo=demo)


def _demo_shop(folder: Path) -> "Shop":
    from disco.adapters.config import FILE
    from disco.entrypoints.python import Shop
    from disco.records.errors import InputError

    place = _DEMO if folder == Path() else folder
    if not (place / FILE).is_file():
        fix = f"Run `disco demo{'' if place == _DEMO else f' -o {place}'}` first; it takes about a minute."
        raise InputError(f"demo {place}", found="no shop", expected="the folder that `disco demo` wrote", fix=fix)
    return Shop.open(place)


def worker(
    terminal: ShopTerminal,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when no job is due, instead of waiting.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds that a running job gets after SIGTERM or Ctrl-C.")
    ] = 20.0,
) -> None:
    """Run the jobs of this shop: plans, training, learning and what else the service or a schedule asks for.

    Any number of workers may share a database and its folder of artefacts; no two of them run the same job. A worker
    that is stopped gives its job back, and the job of one that was killed is run again after a minute.
    """
    from disco.entrypoints.worker import run_worker

    def line(text: str) -> None:
        say(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", err=True)

    here = terminal.shop()
    done = run_worker(here, until_idle=until_idle, grace_s=grace, say=(lambda _: None) if terminal.quiet else line)
    terminal.show(done, f"{counted(done.jobs, 'job')} run.")
