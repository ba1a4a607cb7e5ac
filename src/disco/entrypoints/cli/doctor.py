"""`disco doctor`."""

from pathlib import Path

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, checks_text, show


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: disco doctor --shop shop/")(doctor)


def doctor(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Run a health check: versions, settings, disk, tables, network, database, and the consistency of the ledger.

    Counts are recomputed from the ledger, evidence from its rows, and the active model from the evidence, and compared
    byte for byte. Nothing is changed. Exit 1 when a check fails.
    """
    from disco.entrypoints.python import doctor

    found = doctor(shop)
    failed, count = len(found.failed), len(found.checks)
    verdict = f"{failed} of {count} checks failed." if failed else f"All {count} checks passed."
    show(found, f"{checks_text(found.checks)}\n{verdict}", as_json=as_json, quiet=quiet and found.ok)
    if not found.ok:
        raise typer.Exit(1)
