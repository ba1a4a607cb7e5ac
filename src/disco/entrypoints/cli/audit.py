"""`disco audit`: the journal of everything that was written."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, next_command, show

if TYPE_CHECKING:
    from disco.office.audit.use_cases import AuditPage, AuditVerdict


def register(app: typer.Typer) -> None:
    commands = typer.Typer(invoke_without_command=True, help="Show and verify the journal of everything written.")
    commands.callback(epilog="Example: disco audit --after 120")(audit)
    commands.command("verify", epilog="Example: disco audit verify --shop shop/")(verify)
    app.add_typer(commands, name="audit")


def audit(
    context: typer.Context,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Entries after this number; default: the last ones.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many entries.")] = 50,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """List the journal: who wrote what and when, the newest last.

    Every command that writes adds one entry, in the same transaction as its work. An entry has the hash of the one
    before it, so that none can be changed, removed or put elsewhere without a trace (`disco audit verify`). Customers
    are named by pseudonyms.
    """
    if context.invoked_subcommand is not None:
        return
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).audit(after=after, limit=limit)
    show(found, _page_text(found, shop), as_json=as_json, quiet=quiet)


def _page_text(page: "AuditPage", shop: Path) -> str:
    from disco.views.table import Cell, Table

    if not page.entries:
        return "The journal has no entries here."
    rows: list[list[Cell]] = [
        [
            str(entry.number),
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            entry.actor,
            str(entry.kind),
            entry.action,
            entry.subject,
            ", ".join(f"{name} {_short(value)}" for name, value in entry.detail.items()),
        ]
        for entry in page.entries
    ]
    names = ("Number", "At (UTC)", "Actor", "Kind", "Action", "Subject", "Detail")
    text = figures_text(Table(caption="Journal", columns=names, rows=rows))
    more = None if page.next is None else next_command(f"audit --after {page.next}", shop)
    return text if more is None else f"{text}\n{more}"


def _short(value: object) -> str:
    return f"{len(value)} names" if isinstance(value, list) else str(value)


def verify(
    contains: Annotated[
        str | None,
        typer.Option("--contains", metavar="HASH", help="The hash of an entry noted earlier, which must be there."),
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Verify the journal: every entry is there, unchanged and in its place. Exit 1 with the first bad entry.

    Note the hash of the last entry down where nobody who can write to the database can change it, and give it to
    --contains later: then also a journal that was replaced as a whole is found.
    """
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).verify_audit(contains=contains)
    show(found, _verdict_text(found), as_json=as_json, quiet=quiet and found.ok)
    if not found.ok:
        raise typer.Exit(1)


def _verdict_text(found: "AuditVerdict") -> str:
    if not found.ok:
        return (
            f"The journal is not what was written. Entry {found.first_bad:,}: {found.found}.\n"
            "Keep a copy of the database as it is, find out who has written to it, and restore the last backup whose "
            "journal is whole."
        )
    if found.last is None:
        return "The journal has no entries yet."
    entries = "1 entry" if found.entries == 1 else f"{found.entries:,} entries"
    return f"{entries}, all as written. The last one has the hash {found.last}."
