"""`disco serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, say, show, warn

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.serving import Serving

_DEMO = Path("out/demo")  # where `disco demo` writes


def register(app: typer.Typer) -> None:
    app.command("serve", epilog="Example: disco serve --shop shop/ --port 8080")(serve)


def serve(
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
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Serve the shop over HTTP: the use cases of the command line for programs and browsers (docs/service.md).

    At the first start a link for the first administrator is printed; it works once, within 24 hours. The server ends on
    SIGTERM or Ctrl-C, after the requests in progress. Its log is JSON on standard error.

    With --demo, a link is printed that signs you in as an administrator of the simulated shop. It is refused for other
    shops, and for addresses that other machines can reach.
    """
    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.serving import serve

    def started(serving: "Serving") -> None:
        warn(serving.warnings)
        show(serving, f"Serving {serving.shop} at {serving.url}. /docs describes it.", as_json=as_json, quiet=quiet)
        if serving.invitation is not None and not as_json:  # also with --quiet: nobody could sign in without it
            say(f"The first administrator signs up here, once, within 24 hours: {serving.invitation}")
        if serving.demo is not None and not as_json:
            say(f"Look around, signed in as an administrator of the simulated shop: {serving.demo}")

    opened = _demo_shop(shop) if demo else Shop.open(shop)
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
