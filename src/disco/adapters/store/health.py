"""Health checks of a database: version, settings that protect against a crash, integrity."""

import sqlalchemy as sa

from disco.adapters.store.opening import open_database, plain_errors, shown
from disco.records.diagnosis import Diagnosis

# WAL with two or more writing connections can lose committed rows: fixed in 3.51.3
_WAL_BUG = (3, 7, 0), (3, 51, 2)
_SAFE_POSTGRESQL = {"fsync": ("on",), "full_page_writes": ("on",), "synchronous_commit": ("on", "remote_apply")}


def vitals(url: str) -> tuple[Diagnosis, ...]:
    """What can be said about the database behind a URL."""
    database = open_database(url)
    try:
        with plain_errors(database, "checking it"), database.reading() as connection:
            place = Diagnosis.of("database", "connection", True, shown(database.engine.url), expected="a database")
            sqlite = connection.dialect.name == "sqlite"
            return (place, *(_sqlite(connection) if sqlite else _postgresql(connection)))
    finally:
        database.engine.dispose()


def _sqlite(connection: sa.Connection) -> tuple[Diagnosis, ...]:
    version = str(connection.exec_driver_sql("SELECT sqlite_version()").scalar_one())
    journal = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
    problems = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(5)")]
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    risky = wal_is_risky(version) and journal == "wal"
    sound = problems == ["ok"] and not orphans
    return (
        Diagnosis.of(
            "database",
            "journal",
            not risky,
            f"SQLite {version} with a journal of kind {journal}",
            expected="a version that cannot lose committed rows",
            fix="Use SQLite 3.51.3 or newer.",
        ),
        Diagnosis.of(
            "database",
            "integrity",
            sound,
            "every page and reference is sound" if sound else f"{'; '.join(problems)}; {len(orphans)} orphans",
            expected="no damage",
            fix="Stop, copy the file away, and restore the last backup.",
        ),
    )


def _postgresql(connection: sa.Connection) -> tuple[Diagnosis, ...]:
    version = str(connection.exec_driver_sql("SHOW server_version").scalar_one())
    found = {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in _SAFE_POSTGRESQL}
    risky = [f"{name} = {value}" for name, value in found.items() if value not in _SAFE_POSTGRESQL[name]]
    return (
        Diagnosis.of(
            "database",
            "durability",
            not risky,
            f"PostgreSQL {version}" + (f" with {', '.join(risky)}" if risky else ""),
            expected="settings under which a crash loses no acknowledged outcome",
            fix="Set it to on.",
        ),
    )


def wal_is_risky(version: str) -> bool:
    """
    >>> wal_is_risky("3.40.1"), wal_is_risky("3.51.3")
    (True, False)
    """
    number = tuple(int(part) for part in version.split("."))
    return _WAL_BUG[0] <= number <= _WAL_BUG[1]
