"""`disco doctor`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, checks_text, show
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.operations.upkeep import HealthCheck


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: disco doctor --shop shop/")(doctor)


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Build again what ledger and plans can give, then check everything.")
    ] = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Run a health check: versions, settings, files, tables, network, database, and all that is kept of campaigns.

    Every row is compared with its seal, every artefact with its hash, and tables and indexes with the schema. Plan ids,
    caps, reserve, dispositions, evidence and versions of the model are computed again. Nothing is changed without
    --repair, which builds evidence, dispositions, reserve and indexes again and prints what it changed. What it cannot
    build again has to come from a backup. Exit 1 when a check fails.
    """
    from disco.entrypoints.python import doctor

    found = doctor(shop, repair=repair)
    changed = f"{counted(len(found.repaired), 'repair')} made" if found.repaired else None
    show(found, _text(found, repair=repair), as_json=as_json, quiet=quiet and found.ok, done=changed)
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
