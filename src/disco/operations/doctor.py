"""Is everything in order: versions, settings, files, tables, network, database, and all that is kept of campaigns."""

import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from disco.operations.audience import ShopData
from disco.operations.audit import audit
from disco.operations.journal import check_journal
from disco.operations.repair import repair_campaigns
from disco.operations.site import ShopFiles
from disco.records.diagnosis import RESTORE, Diagnosis, Outcome, Repair, attempted
from disco.records.errors import DiscoError
from disco.records.program import DISTRIBUTION, VERSION
from disco.records.result import Result
from disco.store import Store

_LIBRARIES = ("numpy", "numba", "pyarrow", "duckdb", "sqlalchemy", "torch")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HealthCheck(Result):
    """A health check of the installation and of the shop."""

    ok: bool
    """Whether nothing failed."""
    checks: tuple[Diagnosis, ...]
    """Everything that was checked, in order; after the repair, where there was one."""
    repaired: tuple[Repair, ...] = ()
    """What `--repair` has changed."""

    @property
    def failed(self) -> tuple[Diagnosis, ...]:
        return tuple(check for check in self.checks if check.failed)

    @property
    def notes(self) -> tuple[Diagnosis, ...]:
        """What is usable, but weaker than it should be."""
        return tuple(check for check in self.checks if check.outcome is Outcome.WATCH)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseUpgrade(Result):
    """The database of campaigns brought to what this program knows."""

    database: str
    """Its URL, without a password."""
    before: str | None
    """Its revision before; null: it was empty."""
    after: str
    """Its revision now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseHealth:
    """What a health check asks of the database and its store."""

    store: Callable[[], AbstractContextManager[Store]]  # opens the campaigns
    vitals: Callable[[], Iterable[Diagnosis]]  # checks the database behind them, also where they cannot be opened
    restore_schema: Callable[[], Iterable[Repair]]  # creates missing indexes and tables that can be filled again


def health_check(
    files: ShopFiles, *, settings_file: Path, data: ShopData, database: DatabaseHealth | None, repair: bool = False
) -> HealthCheck:
    """Check everything; changes nothing but what `repair` builds again, before the checks.

    database: None where no plan was ever made, so that there is none yet.
    """
    repairs, problems = _repaired(files, database) if repair else ((), ())
    return _result(
        [
            *_programs(),
            Diagnosis.of("settings", str(settings_file), True, "can be read", expected=""),
            *attempted("files", str(files.folder), files.checks),
            *attempted("tables", "retailer's tables", lambda: [_tables(data)]),
            *attempted("network", "context network", lambda: [_network(data)]),
            *problems,
            *_database(database),
        ],
        repairs,
    )


def _repaired(files: ShopFiles, database: DatabaseHealth | None) -> tuple[tuple[Repair, ...], tuple[Diagnosis, ...]]:
    done: list[Repair] = []
    problems: list[Diagnosis] = []

    def sweep() -> Iterator[Diagnosis]:
        done.extend(files.sweep())
        yield from ()

    def schema() -> Iterator[Diagnosis]:
        assert database is not None
        done.extend(database.restore_schema())
        yield from ()

    def campaigns() -> Iterator[Diagnosis]:
        assert database is not None
        with database.store() as opened:
            repairs, found = repair_campaigns(opened)
        done.extend(repairs)
        yield from found

    problems += attempted("repair", "temporary files", sweep)
    if database is not None:
        problems += attempted("repair", "tables and indexes", schema)
        problems += attempted("repair", "campaigns", campaigns)
    return tuple(done), tuple(problems)


def unreadable_settings(settings_file: Path, error: DiscoError) -> HealthCheck:
    """The health check of a shop whose settings cannot be read: nothing else about it can be checked."""
    return _result([*_programs(), Diagnosis.of_error("settings", str(settings_file), error)])


def _result(checks: list[Diagnosis], repaired: tuple[Repair, ...] = ()) -> HealthCheck:
    return HealthCheck(ok=not any(check.failed for check in checks), checks=tuple(checks), repaired=repaired)


def _programs() -> Iterator[Diagnosis]:
    found = f"disco {VERSION} on Python {platform.python_version()}, {platform.system()}"
    yield Diagnosis.of("program", "installation", True, found, expected="disco")
    there, absent = [], []
    for name in _LIBRARIES:
        try:
            there.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    found = ", ".join(there) + (f"; absent: {', '.join(absent)}" if absent else "")
    fix = f"Install {DISTRIBUTION} again (docs/install.md)."
    yield Diagnosis.of("libraries", "installation", not absent, found, expected="all libraries", fix=fix)


def _tables(data: ShopData) -> Diagnosis:
    with data.tables() as tables:
        found = f"{', '.join(tables.names())} in {data.place}"
    return Diagnosis.of("tables", "retailer's tables", True, found, expected="")


def _network(data: ShopData) -> Diagnosis:
    embedding = data.network().embedding_
    found = f"{len(embedding.feature_names)} features to {embedding.dimensions} numbers"
    return Diagnosis.of("network", "context network", True, found, expected="")


def _database(database: DatabaseHealth | None) -> Iterator[Diagnosis]:
    if database is None:
        yield Diagnosis.of("database", "campaigns", True, "none yet; `disco plan` creates it", expected="a database")
        return
    yield from attempted("database", "connection", database.vitals, fix=RESTORE)

    def campaigns() -> tuple[Diagnosis, ...]:
        with database.store() as opened:
            return audit(opened)

    def journal() -> tuple[Diagnosis, ...]:
        with database.store() as opened:
            return tuple(check_journal(opened))

    yield from attempted("database", "campaigns", campaigns, fix=RESTORE)
    yield from attempted("journal", "audit journal", journal, fix=RESTORE)
