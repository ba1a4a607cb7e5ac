"""`disco db upgrade`."""

import typer

from disco.entrypoints.cli.output import ShopTerminal, add_command


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Maintain the database of campaigns.")
    add_command(commands, upgrade, example="disco db upgrade --shop shop/")
    app.add_typer(commands, name="db")


def upgrade(
    terminal: ShopTerminal,
) -> None:
    """Upgrade the database to the revision of this program: all changes in one transaction, or none.

    An empty database gets the tables, unless files of plans lie around. A database that is up to date is not changed.
    Copy the database and the folders beside it first.
    """
    done = terminal.shop().upgrade()
    if done.before == done.after:
        text = f"{done.database} is at revision {done.after}: nothing to do."
    else:
        start = "an empty database" if done.before is None else f"revision {done.before}"
        text = f"{done.database}: from {start} to revision {done.after}."
    upgraded = None if done.before == done.after else f"The database is at revision {done.after}"
    terminal.show(done, text, done=upgraded)
