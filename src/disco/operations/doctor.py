"""Is everything in order: versions, settings, disk, tables, network, database, and every promise of the ledger."""

import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from disco.operations.audience import ShopData
from disco.operations.audit import audit
from disco.records.diagnosis import Diagnosis
from disco.records.errors import DiscoError
from disco.records.ports import Store
from disco.records.result import Result

_LIBRARIES = ("numpy", "numba", "pyarrow", "duckdb", "sqlalchemy", "torch")
_LEAST_FREE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HealthCheck(Result):
    """A health check of the installation and of the shop."""

    ok: bool
    """Whether nothing failed."""
    checks: tuple[Diagnosis, ...]
    """Everything that was checked, in order."""

    @property
    def failed(self) -> tuple[Diagnosis, ...]:
        return tuple(check for check in self.checks if check.failed)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseUpgrade(Result):
    """The database of campaigns brought to what this program knows."""

    database: str
    """Its URL, without a password."""
    before: str | None
    """Its revision before; null: it was empty."""
    after: str
    """Its revision now."""


def health_check(
    folder: Path,
    *,
    settings_file: Path,
    data: ShopData,
    store: Callable[[], AbstractContextManager[Store]] | None,
    database: Callable[[], Iterable[Diagnosis]],
) -> HealthCheck:
    """Check everything; changes nothing.

    store: opens the campaigns; None where no plan was ever made, so that there is no database yet. database: checks
    the database behind it.
    """
    return _result(
        [
            *_programs(),
            Diagnosis.of("settings", str(settings_file), True, "can be read", expected="settings without problems"),
            *_disk(folder),
            _attempt("tables", "retailer's tables", lambda: _tables(data)),
            _attempt("network", "context network", lambda: _network(data)),
            *_database(store, database),
        ]
    )


def unreadable_settings(settings_file: Path, error: DiscoError) -> HealthCheck:
    """The health check of a shop whose settings cannot be read: nothing else about it can be checked."""
    return _result([*_programs(), _failed("settings", str(settings_file), error)])


def _result(checks: list[Diagnosis]) -> HealthCheck:
    return HealthCheck(ok=not any(check.failed for check in checks), checks=tuple(checks))


def _programs() -> Iterator[Diagnosis]:
    found = f"disco {version('disco')} on Python {platform.python_version()}, {platform.system()}"
    yield Diagnosis.of("installation", "program", True, found, expected="disco")
    there, absent = [], []
    for name in _LIBRARIES:
        try:
            there.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    found = ", ".join(there) + (f"; absent: {', '.join(absent)}" if absent else "")
    yield Diagnosis.of(
        "installation", "libraries", not absent, found, expected="all libraries", fix="Install disco again."
    )


def _disk(folder: Path) -> Iterator[Diagnosis]:
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:,.1f} GB free"
    least = f"at least {_LEAST_FREE_BYTES / 1e9:.1f} GB"
    yield Diagnosis.of(
        "disk", str(folder.absolute()), free >= _LEAST_FREE_BYTES, found, expected=least, fix="Free some space."
    )


def _attempt(check: str, where: str, look: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis.of(check, where, True, look(), expected="readable")
    except DiscoError as error:
        return _failed(check, where, error)


def _failed(check: str, where: str, error: DiscoError) -> Diagnosis:
    return Diagnosis.of(check, where, False, str(error), expected="readable")


def _tables(data: ShopData) -> str:
    with data.tables() as tables:
        return f"{', '.join(tables.names())} in {data.place}"


def _network(data: ShopData) -> str:
    embedding = data.network().embedding_
    return f"{len(embedding.feature_names)} features to {embedding.dimensions} numbers"


def _database(
    store: Callable[[], AbstractContextManager[Store]] | None, database: Callable[[], Iterable[Diagnosis]]
) -> Iterator[Diagnosis]:
    if store is None:
        yield Diagnosis.of("database", "campaigns", True, "none yet; `disco plan` creates it", expected="a database")
        return
    try:
        with store() as opened:
            yield from database()
            yield from audit(opened)
    except DiscoError as error:
        yield _failed("database", "campaigns", error)
