"""PostgreSQL: one writer per subject by an advisory lock, one snapshot per block, rows by COPY.

Statements are sent together and waited for once, through libpq's pipeline (`Exchange`). Every wait for the server gives
the interpreter to another thread and the processor to another process. psycopg's own pipeline waits before each
statement that it sends; here all of them are sent at once. Writes whose answers nobody needs are kept (`later`) and go
with the next question, or with the commit.
"""

import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from math import inf
from select import select
from time import monotonic
from typing import Any, TypeAlias

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import sqlalchemy as sa
from psycopg.adapt import PyFormat, Transformer
from psycopg.generators import fetch_many
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from disco.store.database import (
    EXCHANGE,
    LAST_ENTRY,
    Statement,
    ask,
    ask_all,
    compiled,
    python_values,
)
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


_MOST_PREPARED = 128  # statements per connection; the program has fewer that come again
_OK = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_ACCESS = {True: "ONLY", False: "WRITE"}
_Item: TypeAlias = "Statement | None"  # None: what comes before it stands, whatever comes after (libpq's sync)
_Key: TypeAlias = tuple[str, tuple[int, ...]]  # a prepared statement: its text and the types of its values


class Exchange:
    """What one connection of psycopg sends. Its transactions begin as psycopg would begin them."""

    def __init__(self, driver: "psycopg.Connection[Any]") -> None:
        driver.prepare_threshold = None  # psycopg would drop all prepared statements, ours too, with each rollback
        self._driver = driver
        self._prepared: dict[_Key, bytes] = {}
        self._names = 0
        self._waiting: list[Statement] = []
        self._lock: Statement | None = None  # to be taken before the transaction begins
        self._unlock: Statement | None = None  # to be given back after it has ended

    def lock_first(self, lock: Statement, unlock: Statement) -> None:
        """Take a lock of the session before the next transaction, and give it back after its commit."""
        self._lock, self._unlock = lock, unlock

    def later(self, statement: str, values: Sequence[object]) -> None:
        """Send a write with what is asked next, or with the commit."""
        self._waiting.append((statement, values))

    def ask(self, questions: Sequence[Statement]) -> list[list[Any]]:
        """The rows of each question, after everything that was kept for later."""
        if not questions:
            return []
        answers = self._sent(questions)
        loader, found = Transformer(self._driver), []
        for answer in answers[-len(questions) :]:
            loader.set_pgresult(answer)
            found.append(loader.load_rows(0, answer.ntuples, tuple) if answer.ntuples else [])
        return found

    def change(self, statement: str, values: Sequence[object]) -> int:
        """How many rows a write has changed."""
        return int(self._sent([(statement, values)])[-1].command_tuples or 0)

    def send(self) -> None:
        """What was kept for later, now."""
        if self._waiting or self._lock is not None:
            self._sent([])

    def commit(self) -> None:
        """Send what was kept, commit, and give back the lock: it returns when the server has said so."""
        if not self._waiting and self._driver.pgconn.transaction_status != TransactionStatus.INTRANS:
            return  # nothing was begun, or it failed and psycopg says so
        items = self._items([("COMMIT", ())])
        answers = sum(item is not None for item in items)
        results: list[Any] = []
        try:
            self._run([*items, *([] if self._unlock is None else [None, self._unlock])], results)
        except psycopg.OperationalError:
            if len(results) < answers or results[answers - 1].command_status != b"COMMIT":
                raise
            return  # a session that is lost has lost its lock too, and what was committed stays committed
        self._raise_first(results[:answers])
        if results[answers - 1].command_status != b"COMMIT":
            raise psycopg.OperationalError("The server has not committed the transaction")
        self._unlock = None
        if any(one.status not in _OK for one in results[answers:]):
            self._driver.close()  # and the lock is gone

    def undo(self) -> None:
        """Forget what was kept for later: the transaction is rolled back."""
        self._waiting.clear()

    def give_back(self) -> None:
        """Give back the lock where no commit has done so."""
        unlock = None if self._lock is not None else self._unlock
        self._lock = self._unlock = None
        if unlock is not None and not self._driver.closed:
            results: list[Any] = []
            try:
                self._run([unlock], results)
                self._raise_first(results)
            except psycopg.Error:
                self._driver.close()

    def _items(self, statements: Sequence[Statement]) -> list[_Item]:
        """What was kept for later, and these, after the beginning of the transaction where there is none."""
        items: list[_Item] = []
        if self._lock is not None:
            items += [self._lock, None]
            self._lock = None
        driver = self._driver
        if not driver.autocommit and driver.pgconn.transaction_status == TransactionStatus.IDLE:
            items.append((_begin(driver), ()))
        items += [*self._waiting, *statements]
        self._waiting.clear()
        return items

    def _sent(self, statements: Sequence[Statement]) -> list[Any]:
        results: list[Any] = []
        self._run(self._items(statements), results)
        self._raise_first(results)
        return results

    def _run(self, items: Sequence[_Item], results: list[Any]) -> None:
        """Send everything at once and append the answers to all but the syncs."""
        pgconn, dumper = self._driver.pgconn, Transformer(self._driver)
        messages: list[tuple[str, tuple[int, ...], Any, Any] | None] = []
        for item in (*items, None):  # a value that cannot be sent is refused before anything is
            if item is None or not item[1]:
                messages.append(None if item is None else (item[0], (), None, None))
            else:
                given = dumper.dump_sequence(item[1], [PyFormat.AUTO] * len(item[1]))
                messages.append((item[0], tuple(dumper.types or ()), given, dumper.formats))
        expected: list[_Key | bool] = []  # what is being prepared; True: an answer; False: a sync
        try:
            pgconn.enter_pipeline_mode()
            for message in messages:
                if message is None:
                    pgconn.pipeline_sync()
                    expected.append(False)
                    continue
                text, types, given, formats = message
                name = self._prepared.get((text, types))
                if name is None and len(self._prepared) < _MOST_PREPARED:
                    self._names += 1
                    name = self._prepared[text, types] = b"disco_%d" % self._names
                    pgconn.send_prepare(name, _numbered(text), types or None)
                    expected.append((text, types))
                if name is None:
                    pgconn.send_query_params(_numbered(text), given, types or None, formats)
                else:
                    pgconn.send_query_prepared(name, given, formats)
                expected.append(True)
            self._driver.wait(self._fetched(expected, results))
            pgconn.exit_pipeline_mode()
        except BaseException:
            self._driver.close()  # what was not committed is undone by the server
            raise

    def _fetched(self, expected: "Sequence[_Key | bool]", results: list[Any]) -> "Generator[Any, Any, None]":
        pgconn = self._driver.pgconn
        while pgconn.flush():
            ready = yield Wait.RW
            if ready & Ready.R:
                pgconn.consume_input()
        refused = None
        for what in expected:
            result = (yield from fetch_many(pgconn))[-1]
            if what is True:
                results.append(refused or result)
                refused = None
            elif what is not False and result.status not in _OK:
                del self._prepared[what]
                refused = result  # says more than the statement's own answer: that it was not tried

    def _raise_first(self, results: Sequence[Any]) -> None:
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, encoding=self._driver.info.encoding)


def _begin(driver: "psycopg.Connection[Any]") -> str:
    level, read_only = driver.isolation_level, driver.read_only
    words = "" if level is None else f" ISOLATION LEVEL {level.name.replace('_', ' ')}"
    return f"BEGIN{words}{'' if read_only is None else f' READ {_ACCESS[read_only]}'}"


@lru_cache(maxsize=512)
def _numbered(statement: str) -> bytes:
    """With $1, $2, … in the places of the values."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${place}{part}" for place, part in enumerate(rest, 1))).encode()
