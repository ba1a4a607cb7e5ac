"""What a store asks of a database, and how Arrow columns become values that every database holds alike."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

from disco.records.errors import InputError
from disco.store.schema import journal

FEW = 256
"""Texts of a question that is asked through SQLAlchemy, which compiles it once; more travel as one parameter."""
UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What reading raises where a cell is not of its column's kind."""

EXCHANGE = "disco exchange"
"""In `connection.info`, of PostgreSQL alone: what sends statements together (`exchange.Exchange`)."""
Statement: TypeAlias = tuple[str, Sequence[object]]
"""As `words` says it, and the values of its `?`."""
_PORTABLE = DefaultDialect(paramstyle="qmark")


def words(statement: sa.ClauseElement) -> str:
    """A statement of SQLAlchemy in words that both databases take: its parameters are `?`, in the order of the text.

    Statements of short questions are said once per process and handed to the driver itself (`ask`, `change`), which
    costs a third of what SQLAlchemy takes for each.
    """
    return str(statement.compile(dialect=_PORTABLE))


_LAST = sa.select(journal.c.number, journal.c.hash).order_by(journal.c.number.desc())
LAST_ENTRY = words(_LAST.limit(sa.literal_column("1")))


class Database(Protocol):
    """What differs between the databases: how a transaction begins, and how many rows go in and out at once."""

    @property
    def engine(self) -> sa.Engine: ...

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that sees one state of everything and can write nothing."""

    def writing(self, subject: str) -> AbstractContextManager[sa.Connection]:
        """A transaction that is the only one of its subject, and sees what the one before it wrote."""

    def alone(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that is the only one that writes."""

    def bookkeeping(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that waits for nobody but writers of the same rows."""

    def mark(self, connection: sa.Connection) -> int:
        """Where a transaction begins, for `has_written`."""

    def has_written(self, connection: sa.Connection, *, since: int) -> bool:
        """Whether the transaction has written something since that mark."""

    def last_entry(
        self, connection: sa.Connection, questions: "Sequence[Statement]" = ()
    ) -> "tuple[tuple[int, str] | None, list[list[Any]]]":
        """Number and hash of the journal's last entry: nobody adds another one before this transaction ends. And the
        answers to these questions, which are asked at once with it."""

    def compact(self) -> None:
        """Write our tables anew, without what was deleted or replaced."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        """Append `rows`, whose columns are columns of `table`."""

    def select(self, connection: sa.Connection, statement: "sa.Select[Any]", schema: pa.Schema) -> pa.Table:
        """The rows of a statement, whose columns are those of `schema` in that order."""

    def update(self, connection: sa.Connection, table: sa.Table, rows: pa.Table, *, key: tuple[str, ...]) -> None:
        """Set the other columns of `rows` where the `key` columns agree."""

    def among(self, column: sa.ColumnElement[Any], texts: pa.Array) -> sa.ColumnElement[bool]:
        """The condition that a text column has one of these values, be they millions."""


def one_of(dialect: str, column: "sa.Column[Any]") -> sa.ColumnElement[bool]:
    """The condition that a column has one of a few texts, for `words`; `one_value` is what its `?` takes."""
    if dialect == "sqlite":
        listed = sa.func.json_each(sa.bindparam("texts", type_=sa.Text)).table_valued("value")
        return column.in_(sa.select(listed.c.value))
    return column == sa.any_(sa.bindparam("texts", type_=sa.ARRAY(sa.Text)))


def one_value(dialect: str, texts: list[str]) -> object:
    """Few texts as one value."""
    return json.dumps(texts, ensure_ascii=False) if dialect == "sqlite" else texts


def ask(connection: sa.Connection, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
    """The rows of a question in the driver's own words, which costs a third of SQLAlchemy's; cells as they are stored.

    Each value is a `?` in the statement.
    """
    return ask_all(connection, [(statement, parameters)])[0]


def ask_all(connection: sa.Connection, questions: Sequence[Statement]) -> list[list[Any]]:
    """As `ask`, several questions at once: PostgreSQL is waited for once, and not for each of them."""
    exchange = connection.info.get(EXCHANGE)
    if exchange is not None:
        return exchange.ask(questions)  # type: ignore[no-any-return]
    driver: Any = connection.connection.driver_connection
    return [driver.execute(statement, parameters).fetchall() for statement, parameters in questions]


def change(connection: sa.Connection, statement: str, parameters: Sequence[object]) -> int:
    """Write in the driver's own words: how many rows have changed. Each value is a `?` in the statement."""
    exchange = connection.info.get(EXCHANGE)
    if exchange is not None:
        return exchange.change(statement, parameters)  # type: ignore[no-any-return]
    driver: Any = connection.connection.driver_connection
    return int(driver.execute(statement, parameters).rowcount)


def change_later(connection: sa.Connection, statement: str, parameters: Sequence[object]) -> None:
    """Write where nobody asks how many rows have changed: before the next question, or with the commit."""
    exchange = connection.info.get(EXCHANGE)
    if exchange is not None:
        exchange.later(statement, parameters)
    else:
        connection.connection.driver_connection.execute(statement, parameters)  # type: ignore[union-attr]


def send_changes(connection: sa.Connection) -> None:
    """What was to be written later, now."""
    if (exchange := connection.info.get(EXCHANGE)) is not None:
        exchange.send()


def add_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Append some rows, all with the same columns, in the driver's own words: as `change_later`."""
    names = tuple(column.name for column in table.c if column.name in rows[0])
    statement = _insert(table, names)
    values, exchange = [tuple(row[name] for name in names) for row in rows], connection.info.get(EXCHANGE)
    if exchange is not None:
        for row in values:
            exchange.later(statement, row)
    else:
        connection.connection.driver_connection.executemany(statement, values)  # type: ignore[union-attr]


@cache
def _insert(table: sa.Table, names: tuple[str, ...]) -> str:
    return words(table.insert().values({name: sa.bindparam(name) for name in names}))


@cache
def update_of(table: sa.Table, names: tuple[str, ...], key: tuple[str, ...]) -> str:
    """The words that set these columns where the key has these values."""
    values: list[tuple[sa.Column[Any], Any]] = [(table.c[name], sa.bindparam(f"new_{name}")) for name in names]
    return words(table.update().ordered_values(*values).where(*_equal(table, key)))


@cache
def delete_of(table: sa.Table, key: tuple[str, ...]) -> str:
    return words(table.delete().where(*_equal(table, key)))


def _equal(table: sa.Table, key: tuple[str, ...]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == sa.bindparam(f"old_{name}") for name in key]


def typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the types that `schema` gives to columns of their names."""
    return rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))


def storable(rows: pa.Table) -> pa.Table:
    """The rows as both databases hold them alike: moments as integers; refused: NUL in text, NaN, infinity."""
    columns = [_storable(name, rows[name]) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _storable(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    if pa.types.is_floating(kind):
        if pc.all(pc.is_finite(column)).as_py() is False:
            raise InputError(name, found="NaN or infinity", expected="finite numbers, or null where there is none")
        return pc.add(column, 0.0)  # SQLite has no negative zero
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        refuse_nul(name, column)
    return column


def refuse_nul(name: str, texts: "pa.Array | pa.ChunkedArray") -> None:
    """PostgreSQL cannot hold the character NUL, and SQLite ends a text there when it compares."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    letters = [chunk.buffers()[2] for chunk in chunks]
    if all(each is None or np.frombuffer(each, np.uint8).all() for each in letters):
        return  # not even beside the texts
    if pc.any(pc.match_substring(texts, "\0")).as_py():
        raise InputError(name, found="text with a NUL character", expected="text without", fix="Remove it.")


def python_values(column: "pa.Array | pa.ChunkedArray") -> list[Any]:
    """The column as Python objects with None for null: what drivers take; several times faster than `to_pylist`."""
    if not column.null_count:
        return list(column.to_numpy(zero_copy_only=False).tolist())
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    blank = pa.scalar("" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else 0)
    values = column.fill_null(blank.cast(column.type)).to_numpy(zero_copy_only=False).astype(object)
    values[nulls] = None
    return list(values.tolist())


def arrow_column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Values as a database gives them; SQLite's truths are integers, and moments are integers in both."""
    values = list(values)
    if pa.types.is_boolean(kind):
        return pa.array(values, pa.int8() if values and type(values[0]) is int else kind).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def select_few(connection: sa.Connection, statement: "sa.Select[Any]", schema: pa.Schema) -> pa.Table:
    """As `Database.select`, for few rows: no bulk copy is begun, and the statement is compiled once per process."""
    rows = connection.execute(statement).all()
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table(
        [arrow_column(cells, kind) for cells, kind in zip(columns, schema.types, strict=True)], schema=schema
    )


def in_order(rows: pa.Table, *keys: str) -> pa.Table:
    """The rows sorted by integer columns: here, because a database sorts whole rows, and through its disk."""
    columns = [rows[key].to_numpy() for key in keys]
    order = np.lexsort(columns[::-1])
    return rows if (order == np.arange(order.size)).all() else rows.take(pa.array(order))


def compiled(connection: sa.Connection, statement: sa.ClauseElement) -> Any:
    """The statement in the database's own words, with the values of its parameters in `.params`."""
    return statement.compile(connection, compile_kwargs={"render_postcompile": True})


def asked(name: str, wanted: object) -> pa.Array:
    """Ids, codes or events that a question names, as one Arrow array of text."""
    column = wanted if isinstance(wanted, pa.Array | pa.ChunkedArray) else pa.array(np.asarray(wanted))
    texts = pc.drop_null(column.cast(pa.string()))
    refuse_nul(name, texts)
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


@contextmanager
def any_text(connection: sa.Connection) -> Iterator[None]:
    """SQLite's text that is no UTF-8 is read with escapes, instead of ending the check."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    before: Callable[[bytes], Any] = driver.text_factory
    driver.text_factory = lambda content: content.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before
