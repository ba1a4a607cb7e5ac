"""`disco db upgrade`."""

from pathlib import Path

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Look after the database of campaigns.")
    commands.command("upgrade", epilog="Example: disco db upgrade --shop shop/")(upgrade)
    app.add_typer(commands, name="db")


def upgrade(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Bring the tables of the database to what this disco knows: all changes in one transaction, or none.

    An empty database gets the tables. A database that is up to date stays as it is. Copy it first.
    """
    from disco.adapters.store.opening import open_database, shown
    from disco.adapters.store.opening import upgrade as bring_up
    from disco.entrypoints.shop import Shop

    opened = Shop.open(shop)
    database = open_database(opened.settings.database_place(opened.folder))
    try:
        before, after = bring_up(database)
    finally:
        database.engine.dispose()
    place = shown(database.engine.url)
    if before == after:
        text = f"{place} is at revision {after}: nothing to do."
    else:
        text = f"{place}: from {'an empty database' if before is None else f'revision {before}'} to revision {after}."
    show({"database": place, "before": before, "after": after}, text, as_json=as_json, quiet=quiet)
