"""Tables behind a database URL: one query each, fetched once in batches into a temporary file, then read from there."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from disco.adapters.tables.columns import NamedSource, too_many_columns
from disco.records.errors import InputError, MissingPartError, Problem, did_you_mean
from disco.records.files import temporary_folder
from disco.records.tables import MOST_COLUMNS, PLAIN, SCHEMAS, TableFormat

_ROWS_PER_FETCH = 50_000
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


class SqlTables:
    """The `Tables` port over a database: `queries` by table name; without them the tables of these names.

    A context manager: its temporary files go when it closes.
    """

    def __init__(
        self,
        url: str,
        *,
        queries: Mapping[str, str] | None = None,
        written: TableFormat = PLAIN,
    ) -> None:
        self._written, self.locale = written, written.locale
        for name in queries or ():
            if name not in SCHEMAS:
                expected = f"one of {', '.join(SCHEMAS)}"
                raise InputError("queries", found=name, expected=expected, fix=did_you_mean(name, SCHEMAS))
        try:
            parsed = sa.make_url(url)
            if parsed.drivername in ("postgresql", "postgres"):
                parsed = parsed.set(drivername="postgresql+psycopg")  # the driver that the store uses, too
            self._shown = parsed.render_as_string(hide_password=True)
            if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).is_file():
                # SQLite would make an empty database and say that it has no tables
                raise InputError(self._shown, found="no such file", expected="an existing SQLite database")
            self._engine = sa.create_engine(parsed)
            self._queries = dict(queries) if queries else self._tables_there()
        except ModuleNotFoundError as error:
            raise MissingPartError(
                "database URL", found=str(error), expected="the driver it names", fix="Install that driver."
            ) from error
        except sa.exc.SQLAlchemyError as error:
            raise self._refusal("database URL", error) from error
        if not self._queries:
            raise InputError(self._shown, found="none of our tables", expected=f"one of {', '.join(SCHEMAS)}")
        self._opened = ExitStack()
        self._folder = self._opened.enter_context(temporary_folder("sql"))
        self._sources: dict[str, SqlSource] = {}

    def __repr__(self) -> str:
        return f"SqlTables({self._shown!r}: {', '.join(self.names())})"

    def _tables_there(self) -> dict[str, str]:
        there = sa.inspect(self._engine)
        names = {*there.get_table_names(), *there.get_view_names()}
        return {name: f"SELECT * FROM {name}" for name in SCHEMAS if name in names}

    @staticmethod
    def _refusal(what: str, error: Exception) -> InputError:
        reason = " ".join(str(error).split("\n")[0].split())
        return InputError(
            what, found=reason[:200], expected="a database that answers", fix="Check the URL and the query."
        )

    def names(self) -> tuple[str, ...]:
        return tuple(name for name in SCHEMAS if name in self._queries)

    def scan(self, name: str) -> pa.Table:
        return self.source(name).scan()

    def source(self, name: str) -> SqlSource:
        if name not in self._queries:
            raise InputError(
                f"table {name} in {self._shown}", found=f"only {', '.join(self.names())}", expected="a query"
            )
        if name not in self._sources:
            spool = self._folder / f"{name}.arrow"
            try:
                self._fetch(name, self._queries[name], spool)
            except sa.exc.SQLAlchemyError as error:
                raise self._refusal(f"query of {name}", error) from error
            self._sources[name] = SqlSource(name, file=f"{name} (SQL)", spool=spool, written=self._written)
        return self._sources[name]

    def _fetch(self, table: str, query: str, spool: Path) -> None:
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

    def problems(self) -> tuple[Problem, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        """Nothing has to be found out about a query."""
        return ()

    def close(self) -> None:
        self._opened.close()
        self._engine.dispose()

    def __enter__(self) -> "SqlTables":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
