"""`disco serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, say, show, warn

if TYPE_CHECKING:
    from disco.entrypoints.service.serving import Serving


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
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Serve the shop over HTTP: the use cases of the command line for programs and browsers (docs/service.md).

    At the first start a link for the first administrator is printed; it works once, within 24 hours. The server ends on
    SIGTERM or Ctrl-C, after the requests in progress. Its log is JSON on standard error.
    """
    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.serving import serve

    def started(serving: "Serving") -> None:
        warn(serving.warnings)
        show(serving, f"Serving {serving.shop} at {serving.url}. /docs describes it.", as_json=as_json, quiet=quiet)
        if serving.invitation is not None and not as_json:  # also with --quiet: nobody could sign in without it
            say(f"The first administrator signs up here, once, within 24 hours: {serving.invitation}")

    serve(Shop.open(shop), host=host, port=port, worker=not no_worker, started=started)
