"""SQLite: a file that survives a power cut, one writer at a time who waits for the others, many rows at once.

A rollback journal and not WAL: WAL has a corruption bug in the SQLite versions that distributions still ship.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.files import new_file_mode
from disco.store.database import (
    LAST_ENTRY,
    Statement,
    arrow_column,
    ask,
    ask_all,
    compiled,
    python_values,
)

_ROWS_PER_FETCH = 65_536
_MANY_ROWS = 50_000  # that may be indexed after they were written
_FEW_ROWS = 256  # of which each cell is handed over
_BEGIN = "disco_begin"
PATIENCE_S = 600  # for other writers; longer than the largest launch
_CACHE_KIB = 256 * 1024  # a large launch or ingest changes its indexes in memory before it spills
# EXTRA: also the removal of the journal, which is the commit, has reached the disk before we say so
_PRAGMAS = (
    "journal_mode = DELETE",
    "synchronous = EXTRA",
    "fullfsync = ON",
    "foreign_keys = ON",
    f"cache_size = -{_CACHE_KIB}",
)


class SqliteDatabase:
    """Prepared statements over tuples, and JSON for long lists of texts: no temporary table, so readers can use it."""

    def __init__(self, url: sa.URL) -> None:
        # no limit of connections: who waits, waits for the file and not for one of ours
        self.engine = sa.create_engine(url, connect_args={"timeout": PATIENCE_S}, max_overflow=-1)
        sa.event.listen(self.engine, "do_connect", _make_private)
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", _begin)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
            connection.commit()
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.exec_driver_sql("PRAGMA query_only = OFF")

    @contextmanager
    def writing(self, subject: str) -> Iterator[sa.Connection]:
        """The whole file has one writer, so the subject needs no lock of its own. IMMEDIATE: it waits before it reads,
        because a reader that turns writer while another one waits to commit would be refused at once."""
        with self.engine.connect().execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) as connection, connection.begin():
            yield connection

    @contextmanager
    def alone(self) -> Iterator[sa.Connection]:
        """What is deleted or replaced is overwritten with zeros at once; `compact` removes older remains."""
        with self.engine.connect().execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) as connection:
            driver = _driver(connection)
            driver.execute("PRAGMA secure_delete = ON")
            try:
                with connection.begin():
                    yield connection
            finally:
                driver.execute("PRAGMA secure_delete = OFF")

    def bookkeeping(self) -> AbstractContextManager[sa.Connection]:
        return self.writing("")

    def mark(self, connection: sa.Connection) -> int:
        return int(_driver(connection).total_changes)

    def has_written(self, connection: sa.Connection, *, since: int) -> bool:
        return self.mark(connection) != since

    def last_entry(
        self, connection: sa.Connection, questions: Sequence[Statement] = ()
    ) -> tuple[tuple[int, str] | None, list[list[Any]]]:
        """The whole file has one writer."""
        answers = ask_all(connection, questions)
        rows = ask(connection, LAST_ENTRY)
        return (rows[0][0], rows[0][1]) if rows else None, answers

    def compact(self) -> None:
        with self.engine.connect() as connection:
            _driver(connection).execute("VACUUM")

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        """Cells that are the same in many rows stand in the statement: a value costs half a microsecond to hand over,
        which is more than SQLite needs to write it."""
        driver = _driver(connection)
        names = ", ".join(f'"{name}"' for name in rows.column_names)
        with _indexed_afterwards(driver, table.name, rows.num_rows):
            for part in rows.to_batches(_ROWS_PER_FETCH):
                fixed = [_constant(column) if part.num_rows > _FEW_ROWS else None for column in part.columns]
                places = ", ".join("?" if literal is None else literal for literal in fixed)
                given = [column for column, literal in zip(part.columns, fixed, strict=True) if literal is None]
                cells = zip(*map(python_values, given), strict=True) if given else [()] * part.num_rows
                driver.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({places})", cells)

    def select(self, connection: sa.Connection, statement: "sa.Select[Any]", schema: pa.Schema) -> pa.Table:
        text = compiled(connection, statement)
        cursor = _driver(connection).execute(str(text), [text.params[name] for name in text.positiontup or ()])
        batches = []
        while rows := cursor.fetchmany(_ROWS_PER_FETCH):
            columns = zip(*rows, strict=True)
            arrays = [arrow_column(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
            batches.append(pa.record_batch(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema)

    def update(self, connection: sa.Connection, table: sa.Table, rows: pa.Table, *, key: tuple[str, ...]) -> None:
        values = [name for name in rows.column_names if name not in key]
        assigned = ", ".join(f'"{name}" = ?' for name in values)
        where = " AND ".join(f'"{name}" = ?' for name in key)
        self._many(connection, f"UPDATE {table.name} SET {assigned} WHERE {where}", rows.select([*values, *key]))

    def among(self, column: sa.ColumnElement[Any], texts: pa.Array) -> sa.ColumnElement[bool]:
        listed = sa.func.json_each(json.dumps(python_values(texts), ensure_ascii=False)).table_valued("value")
        return column.in_(sa.select(listed.c.value))

    @staticmethod
    def _many(connection: sa.Connection, statement: str, rows: pa.Table) -> None:
        cursor = _driver(connection).cursor()
        for part in rows.to_batches(_ROWS_PER_FETCH):
            columns = [python_values(column) for column in part.columns]
            cursor.executemany(statement, zip(*columns, strict=True))


@contextmanager
def _indexed_afterwards(driver: Any, table: str, rows: int) -> Iterator[None]:
    """Where many rows come to fewer, indexes are built anew within the same transaction: sorting all their keys takes
    a third of the time of finding a place for each one."""
    indexes = []
    some = f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {rows})"  # nosec B608
    if rows >= _MANY_ROWS and driver.execute(some).fetchone()[0] < rows:
        named = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
        indexes = driver.execute(named, (table,)).fetchall()
    for name, _ in indexes:
        driver.execute(f'DROP INDEX "{name}"')
    yield
    for _, statement in indexes:
        driver.execute(statement)


def _constant(column: pa.Array) -> str | None:
    """The cell that all rows have, in SQLite's words; None where they differ or it has no short words."""
    if column.null_count:
        return "NULL" if column.null_count == len(column) else None
    first = column[0]
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)):
        return None
    if first != column[-1] or not pc.all(pc.equal(column, first)).as_py():
        return None
    cell = first.as_py()
    return "'{}'".format(cell.replace("'", "''")) if isinstance(cell, str) else str(int(cell))


def _driver(connection: sa.Connection) -> Any:
    """Python's own sqlite3 connection: SQLAlchemy's rows cost more than the database's work."""
    return connection.connection.driver_connection


def _make_private(_: object, __: object, arguments: list[Any], ___: object) -> None:
    """A database that SQLite is about to make is its owner's alone; its journal always has the mode of the database."""
    file = Path(arguments[0])
    if file.parent.is_dir() and not file.exists():
        file.touch(mode=0o600)
        file.chmod(new_file_mode(file.parent))


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: `_begin` does
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
