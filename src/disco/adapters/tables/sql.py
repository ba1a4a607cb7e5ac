"""Tables behind a database URL: one query each, fetched once in batches into a temporary file, then read from there.

And rows out into one of its tables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from disco.adapters.tables.columns import NamedSource, too_many_columns
from disco.adapters.tables.fetched import FetchedTables, refuse_unknown
from disco.adapters.tables.warehouse import CAMPAIGN, Export, equal_rows, reached, refuse_other_columns
from disco.records.errors import InputError, MissingPartError
from disco.records.tables import MOST_COLUMNS, PLAIN, SCHEMAS, TableFormat

_ROWS_PER_FETCH, _ROWS_PER_INSERT = 50_000, 10_000
# of a transaction that reads; SQLite's driver would commit `WITH … DELETE` by itself
_READ_ONLY = {"sqlite": "PRAGMA query_only = ON", "postgresql": "SET TRANSACTION READ ONLY"}


class SqlSource(NamedSource):
    """A query's rows as text, whatever types the database has; one snapshot, so that rows keep their numbers."""

    has_numbers = True

    def __init__(self, name: str, *, file: str, spool: Path, written: TableFormat = PLAIN) -> None:
        super().__init__(name, file=file, written=written)
        self._spool = spool

    @cached_property
    def _given(self) -> pa.Schema:
        with pa.memory_map(str(self._spool)) as stream, pa.ipc.open_stream(stream) as reader:
            return reader.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        theirs = [self._columns[name] for name in columns]
        with pa.memory_map(str(self._spool)) as stream, pa.ipc.open_stream(stream) as reader:
            for batch in reader:
                given = zip(columns, batch.select(theirs).columns, strict=True)
                yield pa.record_batch([self._plain(name, column) for name, column in given], names=list(columns))

    def place(self, row: int) -> tuple[str, int]:
        return self.file, row + 1


class SqlTables(FetchedTables):
    """`queries` by table name; without them the tables of these names."""

    def __init__(
        self,
        url: str,
        *,
        queries: Mapping[str, str] | None = None,
        written: TableFormat = PLAIN,
    ) -> None:
        refuse_unknown(queries)
        self._engine, shown = _opened(url, make=False)
        try:
            wanted = dict(queries) if queries else self._tables_there()
        except sa.exc.SQLAlchemyError as error:
            raise _refusal("database URL", error) from error
        super().__init__(shown, wanted, written=written)

    def _tables_there(self) -> dict[str, str]:
        there = sa.inspect(self._engine)
        names = {*there.get_table_names(), *there.get_view_names()}
        return {name: f"SELECT * FROM {name}" for name in SCHEMAS if name in names}

    def _fetch(self, name: str, wanted: str, folder: Path) -> SqlSource:
        spool = folder / f"{name}.arrow"
        try:
            self._spool(name, wanted, spool)
        except sa.exc.SQLAlchemyError as error:
            raise _refusal(f"query of {name}", error) from error
        return SqlSource(name, file=f"{name} (SQL)", spool=spool, written=self._written)

    def _spool(self, table: str, query: str, spool: Path) -> None:
        with self._engine.connect() as connection:
            if (read_only := _READ_ONLY.get(connection.dialect.name)) is not None:
                connection.exec_driver_sql(read_only)
            result = connection.execution_options(stream_results=True).execute(sa.text(query))
            names = list(result.keys())
            if len(names) > MOST_COLUMNS:
                raise too_many_columns(f"query of {table}", f"{len(names):,}")
            schema = pa.schema([(name, pa.string()) for name in names])
            with pa.ipc.new_stream(str(spool), schema) as writer:
                for rows in result.partitions(_ROWS_PER_FETCH):
                    columns = [pa.array(map(_text, column), pa.string()) for column in zip(*rows, strict=True)]
                    writer.write_batch(pa.record_batch(columns, schema=schema))

    def close(self) -> None:
        super().close()
        self._engine.dispose()


class SqlTarget:
    """A database that tables are written to.

    Rows have a primary key, and PostgreSQL also locks the table: two exports at once double nothing, one of them fails.
    """

    def __init__(self, url: str) -> None:
        self._engine, self.shown = _opened(url, make=True)

    def replace(self, table: str, export: Export) -> bool:
        schema, _, name = table.rpartition(".")
        with reached(self.shown, sa.exc.SQLAlchemyError), self._engine.begin() as connection:
            place = _table(name, schema or None, export)
            if sa.inspect(connection).has_table(name, schema=schema or None):
                there = sa.inspect(connection).get_columns(name, schema=schema or None)
                refuse_other_columns(table, [column["name"] for column in there], export)
            else:
                place.create(connection)
            if connection.dialect.name == "postgresql":
                quoted = connection.dialect.identifier_preparer.format_table(place)
                connection.exec_driver_sql(f"LOCK TABLE {quoted} IN SHARE ROW EXCLUSIVE MODE")
            of_campaign = place.c[CAMPAIGN] == export.campaign
            present = connection.execute(sa.select(place).where(of_campaign)).mappings().all()
            if equal_rows(pa.Table.from_pylist([dict(row) for row in present], export.rows.schema), export.rows):
                return False
            connection.execute(place.delete().where(of_campaign))
            for batch in export.rows.to_batches(_ROWS_PER_INSERT):
                connection.execute(place.insert(), batch.to_pylist())
        return True


def _table(name: str, schema: str | None, export: Export) -> sa.Table:
    columns = [
        sa.Column(field.name, _sql_type(field.type), primary_key=field.name in export.key, autoincrement=False)
        for field in export.rows.schema
    ]
    return sa.Table(name, sa.MetaData(), *columns, schema=schema)


def _sql_type(kind: pa.DataType) -> sa.types.TypeEngine[Any]:
    for is_kind, sql in _SQL_TYPES:
        if is_kind(kind):
            return sql
    return sa.Text()


_SQL_TYPES: tuple[tuple[Callable[[pa.DataType], bool], sa.types.TypeEngine[Any]], ...] = (
    (pa.types.is_boolean, sa.Boolean()),
    (pa.types.is_integer, sa.BigInteger()),
    (pa.types.is_floating, sa.Double()),
    (pa.types.is_timestamp, sa.DateTime(timezone=True)),
    (pa.types.is_date, sa.Date()),
)


def _opened(url: str, *, make: bool) -> tuple[sa.Engine, str]:
    """(the database, its URL without the password). make: a SQLite file that is absent is made."""
    try:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")  # the driver that the store uses, too
        shown = parsed.render_as_string(hide_password=True)
        is_file = parsed.get_backend_name() == "sqlite" and parsed.database
        if is_file and not make and not Path(str(parsed.database)).is_file():
            # SQLite would make an empty database and say that it has no tables
            raise InputError(shown, found="no such file", expected="an existing SQLite database")
        return sa.create_engine(parsed), shown
    except ModuleNotFoundError as error:
        raise MissingPartError(
            "database URL", found=str(error), expected="the driver it names", fix="Install that driver."
        ) from error
    except sa.exc.SQLAlchemyError as error:
        raise _refusal("database URL", error) from error


def _refusal(what: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split("\n")[0].split())
    return InputError(what, found=reason[:200], expected="a database that answers", fix="Check the URL and the query.")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
