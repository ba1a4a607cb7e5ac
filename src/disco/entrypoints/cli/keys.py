"""`disco keys`: API keys of the service."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show
from disco.records.errors import UsageError
from disco.records.people import Role

if TYPE_CHECKING:
    from disco.office.keys.use_cases import Keys

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys of the service.")
    commands.command("create", epilog="Example: disco keys create --role planner --name crm --expires 90d")(create)
    commands.command("list", epilog="Example: disco keys list")(listed)
    commands.command("revoke", epilog="Example: disco keys revoke 3f9a1c07b2d4")(revoke)
    app.add_typer(commands, name="keys")


def create(
    role: Annotated[Role, typer.Option("--role", help="What the key allows.")],
    name: Annotated[
        str, typer.Option("--name", help="Who uses it; stands in the journal beside what is done with it.")
    ],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="AGE", help="Refuse it after this: 12h, 90d, 8w, 1y; default: never."),
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make an API key and print it, once. The database keeps only a hash of it.

    A viewer looks at campaigns and results; a planner also plans, sends outcomes, learns and pauses; an approver also
    approves and launches; an admin also manages people, keys and settings (docs/people.md).
    """
    from disco.entrypoints.python import Shop

    made = Shop.open(shop).create_key(name=name, role=role, expires=None if expires is None else _age(expires))
    until = "It does not expire." if made.expires_at is None else f"It expires on {made.expires_at:%Y-%m-%d %H:%M} UTC."
    text = f"{made.key}\nThis is the key {made.id} of {made.name} ({made.role}). It is shown only now. {until}"
    show(made, text, as_json=as_json, quiet=False, done=f"The key {made.id} is made")


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,6})([hdwy])", text.strip())
    if not found or not int(found[1]):
        raise UsageError("--expires", found=repr(text[:40]), expected="an age such as 12h, 90d, 8w or 1y")
    return int(found[1]) * _UNITS[found[2]]


def listed(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """List all API keys, also those that are no longer valid."""
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).list_keys()
    show(found, _text(found), as_json=as_json, quiet=quiet)


def _text(found: "Keys") -> str:
    from disco.views.table import Cell, Table

    if not found.keys:
        return "There are no API keys."
    rows: list[list[Cell]] = []
    for key in found.keys:
        expires = "never" if key.expires_at is None else f"{key.expires_at:%Y-%m-%d %H:%M}"
        state = "valid" if key.valid else "expired" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d}"
        rows.append([key.id, key.name, str(key.role), key.created_by, f"{key.created_at:%Y-%m-%d}", expires, state])
    names = ("Id", "Name", "Role", "Made by", "Made on", "Expires", "State")
    return figures_text(Table(caption="API keys", columns=names, rows=rows))


def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the key, or its first four characters or more.")
    ],
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Refuse an API key from now on."""
    from disco.entrypoints.python import Shop

    done = Shop.open(shop).revoke_key(key_id)
    text = f"The key {done.id} of {done.name} is revoked"
    show(done, f"{text}{' already' if done.again else ''}.", as_json=as_json, quiet=quiet, done=text)
