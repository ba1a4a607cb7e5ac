"""PostgreSQL: one writer per subject by an advisory lock, one snapshot per block, rows by COPY."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from math import inf
from select import select
from time import monotonic
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import sqlalchemy as sa

from disco.store.database import (
    EXCHANGE,
    LAST_ENTRY,
    Statement,
    ask,
    ask_all,
    compiled,
    python_values,
    watch_writes,
)
from disco.store.exchange import Exchange
from disco.store.schema import PARTIAL_INDEXES, metadata

_ROWS_PER_WRITE = 65_536
_CONNECT_S = 10  # for a server that does not answer; `?connect_timeout=` in the URL says otherwise
_PATIENCE_S = 600  # for a connection of our own that others use
_EVERYTHING = "disco: everything"  # every writer shares this lock; who writes alone has it alone
_JOURNAL = "disco: journal"  # whoever adds an entry has this lock until their transaction has ended
_USED = "disco used"  # in a connection's `info`: when it was last used
_RESTED_S = 30  # after so long without use, a network may have dropped a connection without a word
_READ_BLOCK_BYTES = 16 * 2**20


class PostgresDatabase:
    """COPY of CSV in both directions: Arrow writes and reads it in compiled code, so no row becomes Python objects.

    Null is an empty cell and empty text a quoted one, for both sides; doubles travel as their shortest exact digits.
    """

    def __init__(self, url: sa.URL) -> None:
        self.engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="REPEATABLE READ",
            pool_timeout=_PATIENCE_S,
            connect_args={"application_name": "disco", "connect_timeout": _CONNECT_S, **url.query},
        )
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "before_cursor_execute", lambda connection, *_: connection.info[EXCHANGE].send())
        sa.event.listen(self.engine, "commit", lambda connection: connection.info[EXCHANGE].commit())
        sa.event.listen(self.engine, "rollback", _undo)
        watch_writes(self.engine)
        # a connection of its own: whoever waits for one of the others may wait for the one who reads here
        self._journal = sa.create_engine(
            self.engine.url,
            pool_size=1,
            max_overflow=0,
            isolation_level="AUTOCOMMIT",
            connect_args={"application_name": "disco journal", "connect_timeout": _CONNECT_S, **url.query},
        )
        sa.event.listen(self.engine, "engine_disposed", lambda _: self._journal.dispose())
        sa.event.listen(self._journal, "connect", _add_exchange)
        for engine in (self.engine, self._journal):
            sa.event.listen(engine, "checkout", _refuse_lost)
            sa.event.listen(engine, "checkin", _note_use)
        for index in PARTIAL_INDEXES:
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._connected(postgresql_readonly=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, subject: str) -> Iterator[sa.Connection]:
        """The lock comes before the transaction: its snapshot must show what the one before us wrote."""
        keys = (_key(_EVERYTHING), _key(subject))
        with self._locked("pg_advisory_lock_shared(?), pg_advisory_lock(?)", keys) as connection:
            yield connection

    @contextmanager
    def alone(self) -> Iterator[sa.Connection]:
        with self._locked("pg_advisory_lock(?)", (_key(_EVERYTHING),)) as connection:
            yield connection

    @contextmanager
    def bookkeeping(self) -> Iterator[sa.Connection]:
        """READ COMMITTED: a row that another one has changed meanwhile is read again instead of refused."""
        with self._connected(isolation_level="READ COMMITTED") as connection, connection.begin():
            yield connection

    def mark(self, connection: sa.Connection) -> int:
        return 0

    def has_written(self, connection: sa.Connection, *, since: int) -> bool:
        """A transaction gets its number when it first writes."""
        return ask(connection, "SELECT pg_current_xact_id_if_assigned()")[0][0] is not None

    def last_entry(
        self, connection: sa.Connection, questions: Sequence[Statement] = ()
    ) -> tuple[tuple[int, str] | None, list[list[Any]]]:
        """The lock is held until the transaction has ended and its entry can be seen. The last entry is read by another
        connection, because this one's snapshot may be older."""
        lock = ("SELECT pg_advisory_xact_lock(?)", (_key(_JOURNAL),))
        *answers, _ = ask_all(connection, [*questions, lock])
        with self._journal.connect() as other:
            rows = ask(other, LAST_ENTRY)
        return (rows[0][0], rows[0][1]) if rows else None, answers

    def compact(self) -> None:
        """VACUUM FULL writes a new file per table and index; it cannot be part of a transaction."""
        with self._connected() as connection:
            names = ", ".join(sorted(metadata.tables))
            _alone(_driver(connection), f"VACUUM (FULL, ANALYZE) {names}")

    @contextmanager
    def _locked(self, locks: str, keys: tuple[int, ...]) -> Iterator[sa.Connection]:
        """The locks are taken with the first question, and given back with the commit."""
        with self._connected() as connection:
            exchange = connection.info[EXCHANGE]
            exchange.lock_first((f"SELECT {locks}", keys), (f"SELECT {locks.replace('_lock', '_unlock')}", keys))
            try:
                with connection.begin() as transaction:
                    yield connection
                    exchange.commit()
                    if _driver(connection).closed:  # committed; who is lost has lost the lock, too
                        connection.invalidate()
                        transaction.rollback()
            finally:
                exchange.give_back()

    @contextmanager
    def _connected(self, **options: Any) -> Iterator[sa.Connection]:
        with self.engine.connect().execution_options(**options) as connection:
            session = _driver(connection)
            try:
                yield connection
            finally:
                if session.closed and not connection.invalidated:
                    connection.invalidate()

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        self._copy_in(connection, table.name, rows)

    def select(self, connection: sa.Connection, statement: "sa.Select[Any]", schema: pa.Schema) -> pa.Table:
        text = compiled(connection, statement)
        connection.info[EXCHANGE].send()
        with (
            _driver(connection).cursor() as cursor,
            cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT csv)", text.params) as copy,
        ):
            content = b"".join(copy)
        sent = [pa.int64() if pa.types.is_timestamp(kind) else kind for kind in schema.types]
        if not content:
            return schema.empty_table()
        table = csv.read_csv(
            pa.py_buffer(content),
            read_options=csv.ReadOptions(column_names=schema.names, block_size=_READ_BLOCK_BYTES),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict(zip(schema.names, sent, strict=True)),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
            ),
        )
        return table.cast(schema)

    def update(self, connection: sa.Connection, table: sa.Table, rows: pa.Table, *, key: tuple[str, ...]) -> None:
        if not rows.num_rows:
            return
        names = ", ".join(f'"{name}"' for name in rows.column_names)
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE changes ON COMMIT DROP AS SELECT {names} FROM {table.name} WITH NO DATA"
        )
        self._copy_in(connection, "changes", rows)
        connection.exec_driver_sql("ANALYZE changes")
        assigned = ", ".join(f'"{name}" = changes."{name}"' for name in rows.column_names if name not in key)
        where = " AND ".join(f'{table.name}."{name}" = changes."{name}"' for name in key)
        connection.exec_driver_sql(f"UPDATE {table.name} SET {assigned} FROM changes WHERE {where}")
        connection.exec_driver_sql("DROP TABLE changes")

    def one_of(self, column: str, texts: list[str]) -> tuple[str, object]:
        return f"{column} = ANY(?)", texts

    def among(self, column: sa.ColumnElement[Any], texts: pa.Array) -> sa.ColumnElement[bool]:
        quoted = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        listed = ",".join(f'"{text}"' for text in python_values(quoted))
        array = sa.cast(sa.bindparam(None, f"{{{listed}}}", sa.Text, unique=True), sa.ARRAY(sa.Text))
        return column.in_(sa.select(sa.func.unnest(array)))

    @staticmethod
    def _copy_in(connection: sa.Connection, name: str, rows: pa.Table) -> None:
        columns = ", ".join(f'"{column}"' for column in rows.column_names)
        connection.info[EXCHANGE].send()
        with (
            _driver(connection).cursor() as cursor,
            cursor.copy(f"COPY {name} ({columns}) FROM STDIN (FORMAT csv)") as copy,
        ):
            for part in rows.to_batches(_ROWS_PER_WRITE):
                sink = io.BytesIO()
                csv.write_csv(part, sink, csv.WriteOptions(include_header=False))
                copy.write(sink.getbuffer())


@lru_cache(maxsize=256)
def _key(subject: str) -> int:
    """The number of a lock."""
    return int.from_bytes(blake2b(subject.encode(), digest_size=8).digest(), "little", signed=True)


def _driver(connection: sa.Connection) -> Any:
    """psycopg's own connection: COPY and session locks are beyond SQLAlchemy."""
    return connection.connection.driver_connection


def _add_exchange(session: Any, record: Any) -> None:
    record.info[EXCHANGE] = Exchange(session)
    _note_use(session, record)


def _undo(connection: sa.Connection) -> None:
    """Forget what was kept for later. A session that is lost has lost it, and its `info` cannot be asked for."""
    if not connection.invalidated:
        connection.info[EXCHANGE].undo()


def _note_use(_: object, record: Any) -> None:
    record.info[_USED] = monotonic()


def _refuse_lost(session: Any, record: Any, _: object) -> None:
    """A connection that the server has ended while nobody used it is made anew. Where the server has said something
    meanwhile, or a connection has rested for long, it is asked; else the first statement says it at no cost."""
    if record.info.get(_USED, -inf) > monotonic() - _RESTED_S and not select([session.fileno()], [], [], 0)[0]:
        return
    try:
        _alone(session, "SELECT 1")
    except psycopg.Error as error:
        raise sa.exc.DisconnectionError(str(error)) from error


def _prepare(session: Any, record: Any) -> None:
    """A commit is acknowledged when it is on disk, also where the server's default says otherwise."""
    durable = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    _alone(session, durable)
    _add_exchange(session, record)


def _alone(session: Any, statement: str, parameters: tuple[int, ...] = ()) -> None:
    """A statement outside any transaction."""
    before, session.autocommit = session.autocommit, True
    try:
        session.execute(statement, parameters)
    finally:
        if not session.closed:
            session.autocommit = before
