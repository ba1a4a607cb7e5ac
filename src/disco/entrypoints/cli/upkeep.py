"""Is everything in order, and a copy of it: `disco doctor`, `disco backup` and `disco restore`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    ShopTerminal,
    Terminal,
    YesFlag,
    add_command,
    checks_text,
    confirm,
    next_command,
    open_shop,
)
from disco.records.wording import counted, moment_text

if TYPE_CHECKING:
    from disco.operations.upkeep import HealthCheck


def register(app: typer.Typer) -> None:
    add_command(app, doctor, example="disco doctor --shop shop/")
    add_command(app, backup, example="disco backup -o shop-2026-03-01.tar.gz --shop shop/")
    add_command(app, restore, example="disco restore shop-2026-03-01.tar.gz --shop restored/")


def doctor(
    terminal: ShopTerminal,
    repair: Annotated[
        bool, typer.Option("--repair", help="Build again what ledger and plans can give, then check everything.")
    ] = False,
) -> None:
    """Run a health check: versions, settings, files, tables, network, database, and all that is kept of campaigns.

    Every row is compared with its seal, every artefact with its hash, and tables and indexes with the schema. Plan ids,
    caps, reserve, dispositions, evidence and versions of the model are computed again. Nothing is changed without
    --repair, which builds evidence, dispositions, reserve and indexes again and prints what it changed. What it cannot
    build again has to come from a backup. Exit 1 when a check fails.
    """
    from disco.entrypoints.python import doctor

    found = doctor(terminal.folder, repair=repair)
    changed = f"{counted(len(found.repaired), 'repair')} made" if found.repaired else None
    terminal.show(found, _text(found, repair=repair), quiet=found.ok, done=changed)
    if not found.ok:
        raise typer.Exit(1)


def _text(found: "HealthCheck", *, repair: bool) -> str:
    lines = [f"{'repaired':<8} {one.where}: {one.changed}" for one in found.repaired]
    if repair and not lines:
        lines = ["There was nothing to repair." if found.ok else "Nothing could be repaired."]
    failed, notes, count = len(found.failed), len(found.notes), len(found.checks)
    verdict = f"{failed} of {count} checks failed." if failed else f"All {count} checks passed."
    if notes and not failed:
        verdict = f"None of {count} checks failed; {notes} need{'s'[: notes == 1]} attention."
    return "\n".join([*lines, checks_text(found.checks), verdict])


def backup(
    terminal: ShopTerminal,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write: a tar.gz archive.")],
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also back up a shop whose rows were changed by another program.")
    ] = False,
) -> None:
    """Write the shop to one file: database, artefacts, disco.yaml and context network.

    The backup is one consistent state, also while other commands write. The retailer's tables are not in it, nor is a
    key of the codes that is kept outside the database (DISCO_CODE_SECRET).
    """
    done = terminal.shop().backup(out, damaged=damaged)
    text = (
        f"{done.file}: {counted(len(done.campaigns), 'campaign')}, {counted(sum(done.rows.values()), 'row')}, "
        f"{counted(done.artefacts, 'artefact')}, {done.bytes / 1e6:,.1f} MB."
    )
    terminal.show(done, text, done=f"The backup {done.file} is written")


def restore(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As `disco backup` wrote it.")],
    shop: Annotated[
        Path, typer.Option("--shop", help="The folder of the restored shop; created if it does not exist.")
    ] = Path(),
    yes: YesFlag = False,
) -> None:
    """Make the shop of a backup again, in a folder and a database without campaigns.

    Every file is compared with its hash before anything is written, and the database is filled in one transaction. A
    disco.yaml or context network in the folder stays: to restore into another database, SQLite or PostgreSQL, write a
    disco.yaml with its `database_url` first.
    """
    if shop.is_dir() and any(shop.iterdir()):
        confirm(f"Restore into {shop}, which is not empty? Its settings and network stay.", yes=yes)
    from disco.entrypoints.python import Shop

    done = Shop.restore(file, shop)
    text = (
        f"{done.shop}: {counted(len(done.campaigns), 'campaign')}, {counted(sum(done.rows.values()), 'row')} and "
        f"{counted(done.artefacts, 'artefact')} restored into {done.database}, as of "
        f"{moment_text(done.made_at, open_shop(shop).settings.locale)}."
    )
    text += "".join(f" {name} was there and stayed." for name in done.kept)
    if done.missing_tables is not None:
        text += (
            f" The retailer's tables are not in a backup: put them into {done.missing_tables} first, "
            "because the health check looks at them."
        )
    terminal.show(
        done,
        f"{text} {next_command('doctor', shop)}",
        done=f"The backup is restored into {done.shop}",
    )
