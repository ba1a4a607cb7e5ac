"""`disco doctor`."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show

if TYPE_CHECKING:
    from disco.records.diagnosis import Diagnosis


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: disco doctor --shop shop/")(doctor)


def doctor(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Look whether everything is in order: versions, settings, database, disk, and every promise of the ledger.

    The counts are computed anew from the ledger, the evidence from its rows, and each version of belief from the
    evidence, and compared byte for byte. Nothing is changed. Exit 1 when something is wrong.
    """
    from disco.entrypoints.python import doctor

    found = doctor(shop)
    failed, count = len(found.failed), len(found.checks)
    lines = [_line(check) for check in found.checks]
    lines.append(f"{failed} of {count} checks failed." if failed else f"All {count} checks passed.")
    show(found, "\n".join(lines), as_json=as_json, quiet=quiet and found.ok)
    if not found.ok:
        raise typer.Exit(1)


def _line(check: "Diagnosis") -> str:
    fix = f" {check.fix}" if check.fix else ""
    return f"{'FAIL' if check.failed else 'ok  '}  {check.check}, {check.where}: {check.found}.{fix}"
