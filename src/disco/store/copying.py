"""All tables of a database as Arrow files and back: how a backup reads one database and a restore fills another.

One file per table, `TABLE.arrow`, with the columns of the schema: text, int64 (also moments, in microseconds), float64,
truths and bytes. SQLite and PostgreSQL give equal files, so each can be restored into the other. Sessions and failed
attempts to sign in are left out: they are of the moment.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from disco.records.errors import FileFormatError, StateError
from disco.store import schema
from disco.store.database import UNREADABLE, Database
from disco.store.journal import SCHEMA_SUBJECT, append_own, last_within
from disco.store.migrations import create_tables
from disco.store.rows import Session
from disco.store.store import is_empty, plain_errors, revision_of, shown

_ROWS_PER_INSERT = 10_000
_TABLES = tuple(table for table in schema.metadata.sorted_tables if table not in schema.PASSING)
_MANY_ROWS = (schema.outcomes, schema.pool_codes)  # these go through COPY and prepared statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was written to a folder."""

    rows: Mapping[str, int]  # per table
    artefacts: tuple[str, ...]  # the names of all that the tables mention
    campaigns: tuple[str, ...]


def copy_out(database: Database, folder: Path) -> Copied:
    """Write every table to the folder, as one transaction sees them."""
    rows, artefacts = {}, dict[str, None]()
    campaigns: list[str] = []
    with plain_errors(database, "backing up"), database.reading() as connection:
        if revision_of(connection) != schema.REVISION:
            raise StateError(f"The database {shown(database.engine.url)} is empty or of another revision")
        for table in _TABLES:
            kinds = _schema(table)
            naming = [column.name for column in schema.ARTEFACT_COLUMNS if column.table is table]
            count = 0
            with pa.OSFile(str(folder / f"{table.name}.arrow"), "wb") as file, pa.ipc.new_file(file, kinds) as writer:
                for part in _read(database, connection, table):
                    writer.write_table(part)
                    count += part.num_rows
                    for name in naming:
                        artefacts.update(dict.fromkeys(part[name].drop_null().to_pylist()))
                    if table is schema.campaigns:
                        campaigns += part["campaign"].to_pylist()
            rows[table.name] = count
    return Copied(rows=rows, artefacts=tuple(artefacts), campaigns=tuple(sorted(campaigns)))


def copy_in(database: Database, folder: Path) -> None:
    """Make the tables of an empty database and fill them from the folder: all in one transaction, or nothing.

    Every table is read again and compared with its file before the transaction ends.
    """
    with plain_errors(database, "restoring"), database.writing(SCHEMA_SUBJECT) as connection:
        if revision_of(connection) is not None:
            raise _not_empty(database)
        create_tables(connection)
        for table in _TABLES:
            given = _from_file(folder / f"{table.name}.arrow", _schema(table))
            _insert(database, connection, table, given)
            found = pa.concat_tables([_schema(table).empty_table(), *_read(database, connection, table)])
            if not found.equals(given):
                raise StateError(f"The table {table.name} is not what the backup holds", fix="Nothing was written.")
        if connection.dialect.name == "postgresql":
            _set_sequences(connection)
        append_own(Session(connection, database), last_within(connection), action="restore", detail={})


def _not_empty(database: Database) -> StateError:
    return StateError(
        f"The database {shown(database.engine.url)} is in use, and a restore never replaces one",
        fix="Restore into another folder, or let `database_url` name an empty database.",
    )


def refuse_used(database: Database) -> None:
    """Refuse a database that has tables; nothing is created by looking."""
    if not is_empty(database):
        raise _not_empty(database)


def _schema(table: sa.Table) -> pa.Schema:
    return pa.schema([pa.field(column.name, _kind(column.type)) for column in table.c])


def _kind(kind: Any) -> pa.DataType:
    if isinstance(kind, sa.LargeBinary):
        return pa.large_binary()
    if isinstance(kind, sa.Text):
        return pa.string()
    if isinstance(kind, sa.Boolean):
        return pa.bool_()
    return pa.float64() if isinstance(kind, sa.Double) else pa.int64()


def _key(table: sa.Table) -> list[str]:
    return [column.name for column in table.primary_key.columns]


def _read(database: Database, connection: sa.Connection, table: sa.Table) -> Iterator[pa.Table]:
    """The rows by their key, in parts."""
    kinds = _schema(table)
    try:
        if table is schema.outcomes:
            numbers = sa.select(schema.outcomes.c.batch_number).distinct()
            for number in sorted(connection.execute(numbers).scalars()):
                of_batch = _columns(table).where(schema.outcomes.c.batch_number == number)
                yield database.select(connection, of_batch, kinds).sort_by("row")
            return
        if table in _MANY_ROWS:
            found = database.select(connection, _columns(table), kinds)
        else:
            every_row = sa.text(f"SELECT {_names(table)} FROM {table.name}")
            rows = connection.execute(every_row).all()
            columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
            found = pa.table(
                [_array(cells, kind) for cells, kind in zip(columns, kinds.types, strict=True)], schema=kinds
            )
        # sorted here: databases sort text by their own collations
        yield found.sort_by([(name, "ascending") for name in _key(table)])
    except UNREADABLE as error:
        raise StateError(
            f"The table {table.name} has a cell that cannot be read ({str(error)[:100]})",
            fix="`disco doctor` names what is damaged.",
        ) from error


def _columns(table: sa.Table) -> "sa.Select[Any]":
    return sa.select(
        *(
            sa.type_coerce(column, sa.BigInteger) if isinstance(column.type, schema.Moment) else column
            for column in table.c
        )
    )


def _array(cells: Iterable[Any], kind: pa.DataType) -> pa.Array:
    values = [bytes(cell) if isinstance(cell, memoryview) else cell for cell in cells]
    if pa.types.is_boolean(kind):  # SQLite's truths are integers
        values = [cell if cell is None or cell not in (0, 1) else bool(cell) for cell in values]
    return pa.array(values, kind)


def _from_file(path: Path, kinds: pa.Schema) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path.stem} in the backup", found=str(error)[:100], expected="a table") from error
    if not table.schema.equals(kinds):
        raise FileFormatError(f"{path.stem} in the backup", found="other columns", expected=", ".join(kinds.names))
    return table


def _insert(database: Database, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    if table in _MANY_ROWS:
        database.insert(connection, table, rows)
        return
    places = ", ".join(f":{name}" for name in rows.column_names)
    statement = sa.text(f"INSERT INTO {table.name} ({_names(table)}) VALUES ({places})")
    for part in rows.to_batches(_ROWS_PER_INSERT):
        connection.execute(statement, part.to_pylist())


def _names(table: sa.Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.c)


def _set_sequences(connection: sa.Connection) -> None:
    """The next campaign, batch and job get numbers after those that were restored."""
    for table in (schema.campaigns, schema.batches, schema.jobs):
        sequence = sa.func.pg_get_serial_sequence(table.name, "number")
        last = sa.select(sa.func.setval(sequence, sa.func.max(table.c.number)))
        connection.execute(last.having(sa.func.max(table.c.number).is_not(None)))
