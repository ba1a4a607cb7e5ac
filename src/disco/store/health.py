"""Health checks of a database and of its folder of artefacts, table by table and cell by cell.

Nothing here opens the store: a database that the program refuses is looked at all the same. Every check stands alone,
so that damage in one place does not hide damage in another.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from disco.records.diagnosis import REPAIR, RESTORE, Diagnosis, Repair, attempted
from disco.records.errors import StateError
from disco.records.wording import counted
from disco.store import schema
from disco.store.artefacts import FolderArtefacts
from disco.store.database import Database
from disco.store.journal import SCHEMA_SUBJECT, append_own
from disco.store.migrations import create_triggers, is_own_trigger, missing_triggers
from disco.store.rows import SECRETS, Session
from disco.store.store import (
    UPGRADE,
    open_database,
    plain_errors,
    revision_of,
    revisions_in,
    shown,
)

# WAL with two or more writing connections can lose committed rows: fixed in 3.51.3
_WAL_BUG = (3, 7, 0), (3, 51, 2)
_SAFE_POSTGRESQL = {"fsync": ("on",), "full_page_writes": ("on",), "synchronous_commit": ("on", "remote_apply")}
_MOST_SHOWN = 3
# what SQLite calls the cells of a column; it stores any kind of cell in any column
_CELLS: tuple[tuple[type[Any], str], ...] = (
    (sa.Boolean, "integer"),
    (sa.Integer, "integer"),
    (schema.Moment, "integer"),
    (sa.Float, "real"),
    (sa.Text, "text"),
    (sa.LargeBinary, "blob"),
)
REBUILT = (schema.reserves, schema.evidence)  # a repair fills them from ledger and plans
# tables that name artefacts: the column that names a row, and what a reader calls it
_NAMING = (
    (schema.plans, schema.plans.c.plan_id, "plan"),
    (schema.campaigns, schema.campaigns.c.campaign, "campaign"),
    (schema.contexts, schema.contexts.c.network, "contexts of network"),
    (schema.batches, schema.batches.c.batch_id, "batch"),
)


def vitals(url: str, *, artefacts: Path | None = None) -> tuple[Diagnosis, ...]:
    """What can be said about the database behind a URL, and about the folder of its artefacts."""
    database = open_database(url)
    try:
        place = shown(database.engine.url)
        connection = attempted("database", "connection", lambda: [_connection(database, place)], fix=RESTORE)
        if not connection[0].ok:
            return connection
        looks = _SQLITE_LOOKS if database.engine.dialect.name == "sqlite" else _POSTGRESQL_LOOKS
        found = list(connection)
        for check, look in (*looks, *_LOOKS):
            found += _look(database, check, look)
        if artefacts is not None:
            found += _look(database, "artefacts", lambda one: _artefact_folder(one, artefacts))
        return tuple(found)
    finally:
        database.engine.dispose()


def restore_schema(url: str) -> tuple[Repair, ...]:
    """Create indexes of the schema that are missing, and tables that can be filled again; all of them or none."""
    database = open_database(url)
    try:
        _refuse_missing_file(database)
        with plain_errors(database, "repairing indexes"), database.writing(SCHEMA_SUBJECT) as connection:
            inspector, made = sa.inspect(connection), list[Repair]()
            there = set(inspector.get_table_names())
            if schema.REVISIONS not in there or revisions_in(connection) != [schema.REVISION]:
                return ()  # an emptied database, or one of another program or revision: the checks say so
            has_journal = {schema.journal.name, schema.tallies.name} <= there
            # before its table is locked by making triggers: the last entry is read by another connection
            last = database.last_entry(connection)[0] if has_journal else None
            for table in schema.metadata.sorted_tables:
                where = f"table {table.name}"
                if table.name not in there:
                    if table in REBUILT:
                        table.create(connection)
                        made.append(Repair(where=where, changed="The table was missing and was created."))
                    continue
                indexes = {index["name"] for index in inspector.get_indexes(table.name)}
                for index in sorted(table.indexes, key=lambda one: str(one.name)):
                    if index.name not in indexes:
                        index.create(connection)
                        made.append(Repair(where=where, changed=f"The index {index.name} was created."))
            if has_journal and (lost := missing_triggers(connection)):
                create_triggers(connection)
                words = f"The triggers {', '.join(lost)} were created."
                made.append(Repair(where=f"table {schema.journal.name}", changed=words))
            if made and has_journal:
                session, detail = Session(connection, database), {"changed": [one.changed for one in made]}
                append_own(session, last, action="repair", detail=detail)
            return tuple(made)
    finally:
        database.engine.dispose()


def _look(
    database: Database, check: str, look: Callable[[sa.Connection], Iterable[Diagnosis]]
) -> tuple[Diagnosis, ...]:
    def within() -> tuple[Diagnosis, ...]:
        with plain_errors(database, "checking it"), database.reading() as connection:
            return tuple(look(connection))

    return attempted(check, "database", within, fix=RESTORE)


def _connection(database: Database, place: str) -> Diagnosis:
    _refuse_missing_file(database)
    with plain_errors(database, "checking it"), database.reading() as connection:
        connection.exec_driver_sql("SELECT 1")
    return Diagnosis.of("database", "connection", True, place, expected="a database")


def _refuse_missing_file(database: Database) -> None:
    """SQLite would make the file that is not there."""
    file = database.engine.url.database
    if database.engine.dialect.name == "sqlite" and (file is None or not Path(file).is_file()):
        raise StateError(f"The database {file} does not exist", fix=RESTORE)


# ---- SQLite ----


def _journal(connection: sa.Connection) -> Iterator[Diagnosis]:
    version = str(connection.exec_driver_sql("SELECT sqlite_version()").scalar_one())
    journal = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
    yield Diagnosis.of(
        "journal",
        "database",
        not (wal_is_risky(version) and journal == "wal"),
        f"SQLite {version} with a journal of kind {journal}",
        expected="a version that cannot lose committed rows",
        fix="Use SQLite 3.51.3 or newer.",
    )


def _integrity(connection: sa.Connection) -> Iterator[Diagnosis]:
    problems = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(5)")]
    sound = problems == ["ok"]
    yield Diagnosis.of(
        "integrity",
        "database",
        sound,
        "every page is sound" if sound else "; ".join(problems),
        expected="no damage",
        fix=RESTORE,
    )


def _references(connection: sa.Connection) -> Iterator[Diagnosis]:
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    tables = ", ".join(sorted({f"{row[0]} to {row[2]}" for row in orphans}))
    words = f"{counted(len(orphans), 'row')} without the row referred to (from {tables})"
    yield Diagnosis.of(
        "references",
        "database",
        not orphans,
        words if orphans else "all resolved",
        expected="every reference resolved",
        fix=RESTORE,
    )


def _cells(connection: sa.Connection) -> Iterator[Diagnosis]:
    """Cells of another kind than their column: text in a number, bytes in a text, null where a value must be."""
    inspector, failed = sa.inspect(connection), False
    for table in schema.metadata.sorted_tables:
        if not inspector.has_table(table.name):
            continue  # `_schema` says so
        there = {column["name"] for column in inspector.get_columns(table.name)}
        columns = [column for column in table.c if column.name in there]
        counts = [f"total({_is_wrong(column)})" for column in columns]
        row = connection.exec_driver_sql(f"SELECT {', '.join(counts)} FROM {table.name}").one()
        cells = zip(columns, row, strict=True)
        wrong = [f"{column.name} ({counted(int(count), 'row')})" for column, count in cells if count]
        if wrong:
            failed = True
            expected = "a value of the column's own kind"
            yield Diagnosis.of(
                "cells",
                f"table {table.name}",
                False,
                f"wrong values in {', '.join(wrong)}",
                expected=expected,
                fix=REPAIR if table in REBUILT else RESTORE,
            )
    if not failed:
        yield Diagnosis.of("cells", "all tables", True, "every value is of its column's kind", expected="")


def _is_wrong(column: sa.Column[Any]) -> str:
    kind = next(name for base, name in _CELLS if isinstance(column.type, base))
    cell = f'"{column.name}"'
    wrong = f"typeof({cell}) <> '{kind}'"
    if isinstance(column.type, sa.Boolean):
        wrong = f"({wrong} OR {cell} NOT IN (0, 1))"
    return f"({cell} IS NOT NULL AND {wrong})" if column.nullable else f"({cell} IS NULL OR {wrong})"


def _programs(connection: sa.Connection) -> Iterator[Diagnosis]:
    """Triggers and views: we have none but those of the journal, and a trigger changes what is written."""
    there = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')"
    found = [row for row in connection.exec_driver_sql(there) if not is_own_trigger(str(row[1]), str(row[2]))]
    if found:
        words = ", ".join(f"{row[0]} {row[1]}" for row in found)
        fix = "Find out who made them, and drop them."
        yield Diagnosis.of("triggers and views", "database", False, words, expected="none", fix=fix)


# ---- PostgreSQL ----


def _durability(connection: sa.Connection) -> Iterator[Diagnosis]:
    version = str(connection.exec_driver_sql("SHOW server_version").scalar_one())
    found = {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in _SAFE_POSTGRESQL}
    risky = [f"{name} = {value}" for name, value in found.items() if value not in _SAFE_POSTGRESQL[name]]
    yield Diagnosis.of(
        "durability",
        "database",
        not risky,
        f"PostgreSQL {version}" + (f" with {', '.join(risky)}" if risky else ""),
        expected="settings under which a crash loses no acknowledged outcome",
        fix="Set it to on.",
    )


def _accepts_writes(connection: sa.Connection) -> Iterator[Diagnosis]:
    standby = bool(connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one())
    read_only = str(connection.exec_driver_sql("SHOW default_transaction_read_only").scalar_one()) == "on"
    yield Diagnosis.of(
        "writing",
        "database",
        not (standby or read_only),
        "a standby server" if standby else "read-only transactions" if read_only else "allowed",
        expected="a database that can be written",
        fix="Name the primary server in database_url, or allow this role to write.",
    )


# ---- both: revision, tables, columns, indexes ----


def _revision(connection: sa.Connection) -> Iterator[Diagnosis]:
    """An older one can be upgraded; of all others `revision_of` says what is wrong and what to do."""
    check, expected, fix = "revision", f"revision {schema.REVISION}", UPGRADE
    if sa.inspect(connection).has_table(schema.REVISIONS):
        try:
            found = revision_of(connection)
        except StateError as error:
            yield Diagnosis.of_error(check, "database", error)
            return
    else:
        found, fix = None, RESTORE
    words = found or f"no table {schema.REVISIONS}"
    yield Diagnosis.of(check, "database", found == schema.REVISION, words, expected=expected, fix=fix)


def _schema(connection: sa.Connection) -> Iterator[Diagnosis]:
    """Tables with columns, keys and indexes as `schema.metadata` declares them: Alembic compares, as for a migration.

    It looks at neither primary keys nor conditions; those of SQLite are compared here, PostgreSQL rewrites them.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    inspector, problems, extra = sa.inspect(connection), dict[str, list[str]](), list[str]()
    there = set(inspector.get_table_names())
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    for found in compare_metadata(context, schema.metadata):
        for kind, *parts in found if isinstance(found, list) else [found]:
            if kind == "remove_table":
                extra.append(parts[0].name)
            else:
                name, words = _in_words(kind, parts)
                problems.setdefault(name, []).append(words)
    for table in schema.metadata.sorted_tables:
        if table.name in there and (more := list(_keys_and_conditions(connection, inspector, table))):
            problems.setdefault(table.name, []).extend(more)
    for name, words_of in sorted(problems.items()):
        only_indexes = all(words.startswith("no index") for words in words_of)
        filled_again = name not in there and name in [table.name for table in REBUILT]
        yield Diagnosis.of(
            "schema",
            f"table {name}",
            False,
            "; ".join(dict.fromkeys(words_of)),
            expected="the table as this program creates it",
            fix=REPAIR if only_indexes or filled_again else RESTORE,
        )
    if not problems:
        words = f"{len(schema.metadata.tables)} tables with their columns, keys and indexes"
        yield Diagnosis.of("schema", "all tables", True, words, expected="")
    if extra:
        yield Diagnosis.note(
            "schema",
            "database",
            f"unknown tables: {', '.join(sorted(extra))}",
            expected="the tables of disco alone",
            fix="Move them to a database of their own.",
        )


def _in_words(kind: str, parts: list[Any]) -> tuple[str, str]:
    """The table and what is wrong with it, of one difference that Alembic names by what would undo it."""
    if kind == "add_table":
        return parts[0].name, "the table is missing"
    if kind in ("add_column", "remove_column"):
        _, table, column = parts
        return table, f"no column {column.name}" if kind == "add_column" else f"an unknown column {column.name}"
    if kind.startswith("modify_"):
        _, table, column, _, before, after = parts
        if kind == "modify_nullable":
            return table, f"column {column} {'allows' if before else 'refuses'} null"
        return table, f"column {column} is {before} instead of {after}"
    name, what = parts[0].name, kind.partition("_")[2].replace("fk", "reference")
    return parts[0].table.name, f"{'no' if kind.startswith('add_') else 'another'} {what} {name}"


def _keys_and_conditions(connection: sa.Connection, inspector: sa.Inspector, table: sa.Table) -> Iterator[str]:
    key = inspector.get_pk_constraint(table.name)["constrained_columns"]
    if key != [column.name for column in table.primary_key]:
        yield f"another primary key ({', '.join(key)})"
    exact = connection.dialect.name == "sqlite"
    checks = {str(one["name"]): str(one["sqltext"]) for one in inspector.get_check_constraints(table.name)}
    for check in table.constraints:
        if isinstance(check, sa.CheckConstraint) and check.name:
            text = checks.get(str(check.name))
            if text is None or (exact and _plain(text) != _plain(str(check.sqltext))):
                yield f"{'no' if text is None else 'another'} check {check.name}"
    conditions = {
        one["name"]: (one.get("dialect_options") or {}).get(f"{connection.dialect.name}_where")
        for one in inspector.get_indexes(table.name)
    }
    for index in table.indexes:
        declared = index.dialect_options[connection.dialect.name]["where"]
        if index.name not in conditions:
            continue
        found = conditions[index.name]
        other = (found is None) != (declared is None)
        if not other and declared is not None and exact:
            words = declared.compile(connection, compile_kwargs={"literal_binds": True})
            other = _plain(str(found)) != _plain(str(words))
        if other:
            yield f"another index {index.name}"


def _plain(condition: str) -> str:
    """Without blanks, quotes of names and the name of the table, which differ by who wrote it."""
    return "".join(condition.split()).replace('"', "").replace("outcomes.", "").lower()


def _secrets(connection: sa.Connection) -> Iterator[Diagnosis]:
    """That they are there; their seals are compared with everything else's."""
    there = set(connection.execute(sa.select(schema.secrets.c.name)).scalars())
    missing = sorted({*SECRETS} - there)
    yield Diagnosis.of(
        "secrets",
        "database",
        not missing,
        f"no secret {', '.join(missing)}" if missing else "all there",
        expected="the keys of the codes, of lasting holdouts, of forgotten customers and of pseudonyms",
        fix=RESTORE,
    )


def _append_only(connection: sa.Connection) -> Iterator[Diagnosis]:
    missing = missing_triggers(connection)
    yield Diagnosis.of(
        "append-only",
        "journal",
        not missing,
        f"no trigger {', '.join(missing)}" if missing else "entries cannot be changed or removed",
        expected="triggers that refuse to change the journal",
        fix=REPAIR,
    )


# ---- artefacts ----


def _artefact_folder(connection: sa.Connection, folder: Path) -> Iterator[Diagnosis]:
    """Files that no row names, and names of unlaunched plans without their whole file; campaigns look at their own."""
    place, named = FolderArtefacts(folder), dict[str, str]()
    for table, label, what in _NAMING:
        columns = [column for column in schema.ARTEFACT_COLUMNS if column.table is table]
        for row in connection.execute(sa.select(label.label("label"), *columns)):
            for column in columns:
                if (artefact := getattr(row, column.name)) is not None:
                    words = f"{column.name} of {what} {row.label}".replace("artefact of ", "")
                    named.setdefault(str(artefact), words)
    launched = set(connection.execute(sa.select(schema.campaigns.c.plan_id)).scalars())
    waiting = [
        str(name)
        for row in connection.execute(sa.select(schema.plans))
        if row.plan_id not in launched
        for name in (row.decisions, row.contexts, row.features)
        if name is not None
    ]
    there = (
        {entry.name: entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".arrow")}
        if folder.is_dir()
        else {}
    )
    damaged = [
        f"{named[name]} ({name[:12]})"
        for name in named
        if f"{name}.arrow" not in there or (name in waiting and not place.is_intact(name))
    ]
    yield Diagnosis.of(
        "artefacts",
        str(folder),
        not damaged,
        f"missing or damaged: {_shortened(damaged)}" if damaged else f"{len(named):,} tables, all there",
        expected="every table that the database names, as it was written",
        fix="Restore the missing files from a backup. A plan that was not launched can be planned again.",
    )
    if unnamed := [name for name in there if name.removesuffix(".arrow") not in named]:
        size = sum(there[name] for name in unnamed)
        yield Diagnosis.note(
            "artefacts",
            str(folder),
            f"{counted(len(unnamed), 'file')} that no row names ({size / 1e6:,.1f} MB), such as {sorted(unnamed)[0]}",
            expected="only files that the database names",
            fix="They are harmless. `disco prune` removes them.",
        )


def _shortened(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


_SQLITE_LOOKS = (
    ("journal", _journal),
    ("integrity", _integrity),
    ("references", _references),
    ("cells", _cells),
    ("triggers and views", _programs),
)
_POSTGRESQL_LOOKS = (("durability", _durability), ("writing", _accepts_writes))
_LOOKS = (("revision", _revision), ("schema", _schema), ("secrets", _secrets), ("append-only", _append_only))


def wal_is_risky(version: str) -> bool:
    """
    >>> wal_is_risky("3.40.1"), wal_is_risky("3.51.3")
    (True, False)
    """
    number = tuple(int(part) for part in version.split("."))
    return _WAL_BUG[0] <= number <= _WAL_BUG[1]
