"""`disco doctor`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show
from disco.records.errors import DiscoError

if TYPE_CHECKING:
    from disco.entrypoints.shop import Shop

_LIBRARIES = ("numpy", "numba", "pyarrow", "duckdb", "sqlalchemy", "torch")
_LEAST_FREE_BYTES = 1 << 30
Check = tuple[str, bool, str]  # what was looked at, whether it is well, what was found


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: disco doctor --shop shop/")(doctor)


def doctor(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Look whether everything is in order: versions, settings, database, disk, and every promise of the ledger.

    The counts are computed anew from the ledger, the evidence from its rows, and each version of belief from the
    evidence, and compared byte for byte. Nothing is changed. Exit 1 when something is wrong.
    """
    from disco.entrypoints.shop import Shop

    checks = [*_versions()]
    try:
        here = Shop.open(shop)
        checks += [("settings", True, str(shop / "disco.yaml")), *_disk(here), *_files(here), *_database(here)]
    except DiscoError as error:
        checks.append(("settings", False, str(error)))
    failed = [check for check in checks if not check[1]]
    lines = [f"{'ok  ' if ok else 'FAIL'}  {name}: {words}" for name, ok, words in checks]
    lines.append(f"{len(failed)} of {len(checks)} checks failed." if failed else f"All {len(checks)} checks are well.")
    result = {"ok": not failed, "checks": [{"check": name, "ok": ok, "words": words} for name, ok, words in checks]}
    show(result, "\n".join(lines), as_json=as_json, quiet=quiet and not failed)
    if failed:
        raise typer.Exit(1)


def _versions() -> Iterator[Check]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    yield "disco", True, f"{version('disco')} on Python {platform.python_version()}, {platform.system()}"
    found, absent = [], []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    words = ", ".join(found) + (f"; absent: {', '.join(absent)}, install disco again" if absent else "")
    yield "libraries", not absent, words


def _disk(shop: "Shop") -> Iterator[Check]:
    import shutil

    free = shutil.disk_usage(shop.folder).free
    words = f"{free / 1e9:,.1f} GB free where {shop.folder.absolute()} lies"
    yield "disk", free >= _LEAST_FREE_BYTES, words if free >= _LEAST_FREE_BYTES else f"{words}: make room"


def _files(shop: "Shop") -> Iterator[Check]:
    for name, look in (("tables", _look_at_tables), ("context network", _look_at_network)):
        try:
            yield name, True, look(shop)
        except DiscoError as error:
            yield name, False, str(error)


def _look_at_tables(shop: "Shop") -> str:
    with shop.tables() as tables:
        return f"{', '.join(tables.names())} in {shop.settings.data}"


def _look_at_network(shop: "Shop") -> str:
    embedding = shop.network().embedding_
    return f"{shop.settings.context}, {len(embedding.feature_names)} features to {embedding.dimensions} numbers"


def _database(shop: "Shop") -> Iterator[Check]:
    from disco.adapters.store.health import vitals
    from disco.operations.audit import audit

    if shop.is_new:
        yield "database", True, "none yet: `disco plan` makes it"
        return
    try:
        with shop.store() as store:
            for vital in vitals(shop.settings.database_place(shop.folder)):
                yield vital.check, vital.ok, vital.words
            for finding in audit(store):
                yield f"{finding.check}, {finding.subject}", finding.ok, finding.words
    except DiscoError as error:
        yield "database", False, str(error)
