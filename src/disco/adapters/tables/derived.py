"""Tables that are made of other files in the folder: orders summed from lines (the setting `lines`), and queries over
local files (the setting `queries`).

A query sees the files that it names in quotes, and nothing else: no other file, no network, no extension of DuckDB.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from disco.adapters.tables.columns import ArrowSource, NamedSource, too_many_columns, too_many_rows
from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.notation import plain_cells
from disco.adapters.tables.parquet import ParquetSource
from disco.adapters.tables.workbook import read_sheet
from disco.records.cells import is_text, parse_text
from disco.records.errors import InputError, Problem, TableError, did_you_mean
from disco.records.locale import Locale
from disco.records.table_rules import typed_table
from disco.records.tables import MOST_COLUMNS, SCHEMAS, Kind, LinesFormat, TableFormat
from disco.records.validation import validate
from disco.records.wording import counted

SUFFIXES = (".csv", ".parquet", ".xlsx")
_FILE = re.compile(r"'((?:[^'\n]|'')+\.(?:csv|parquet|xlsx))'", re.IGNORECASE)  # as a query names one
_MOST_SECONDS = 600  # of a query
_MOST_ROWS = 100_000_000  # of its result, which is held in memory
_MOST_BYTES = 8 << 30
_FEW = 0.01  # share of orders that may name several customers: a slip of the till, no wrong column


def file_source(name: str, path: Path, *, file: str, written: TableFormat) -> NamedSource:
    """A file as a table of this name, by its ending. file: what messages call it."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return CsvSource(name, file=file, path=path, written=written)
    if suffix == ".xlsx":
        return ArrowSource(name, partial(read_sheet, path, file=file), file=file, written=written, has_numbers=True)
    return ParquetSource(name, file=file, parts=[(file, path)], written=written)


def local_file(folder: Path, name: str, *, setting: str) -> Path:
    """A file that a setting names, in the folder of the tables or below it.

    Links are followed first, and what is elsewhere is answered alike whether it exists or not. Where the folder is that
    of the shop, only its own files count: artefacts lie below it.
    """
    root = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(root / name))
    is_below = path.is_relative_to(root) and not any(part.startswith(".") for part in path.relative_to(root).parts)
    is_near = path.parent == root or not (root / "disco.yaml").exists()
    if not (is_below and is_near and path.suffix.lower() in SUFFIXES and path.is_file()):
        there = [one.name for one in sorted(root.iterdir()) if one.suffix.lower() in SUFFIXES]
        fix = did_you_mean(name, there) or "Put the file there, or correct its name."
        expected = f"a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file in {folder}"
        raise InputError(setting, found=f"no file {name!r} there", expected=expected, fix=fix)
    return path


class DerivedTables:
    """The tables of a folder that its settings make of other files; nothing is read before it is asked for.

    present: the tables that have files of their own.
    """

    def __init__(self, folder: Path, written: TableFormat, *, present: Collection[str] = ()) -> None:
        self._folder, self._written, self._present = folder, written, present
        self._queries = dict(written.queries or {})
        self._sources: dict[str, NamedSource] = {}
        for name in self._queries:
            if name not in SCHEMAS:
                fix = did_you_mean(name, SCHEMAS)
                raise InputError("queries", found=name, expected=f"one of {', '.join(SCHEMAS)}", fix=fix)
        if written.lines is not None and "orders" in self._queries:
            fix = "Remove one of the two settings."
            raise InputError("lines", found="a query of orders as well", expected="one source of orders", fix=fix)

    @property
    def declared(self) -> tuple[str, ...]:
        """Those that the settings name; lines may also give returns and customers."""
        return (*self._queries, *(("orders",) if self._written.lines is not None else ()))

    def names(self) -> tuple[str, ...]:
        """All of them; lines are summed to know whether something came back."""
        if self._written.lines is None:
            return self.declared
        more = {"customers": True, "returns": self._summed.returns.num_rows > 0}
        taken = {*self.declared, *self._present}
        return (*self.declared, *(name for name, is_made in more.items() if is_made and name not in taken))

    def files(self) -> dict[str, Path]:
        """By the name that a setting gives it."""
        named = {name: "queries" for query in self._queries.values() for name in files_of(query)}
        if self._written.lines is not None:
            named[self._written.lines.table] = "lines.table"
        return {name: local_file(self._folder, name, setting=setting) for name, setting in named.items()}

    def source(self, name: str) -> NamedSource:
        """A table of `names`."""
        if name not in self._sources:
            if name in self._queries:
                table = queried(name, self._queries[name], folder=self._folder, written=self._written)
                label = f"{name} (query)"
            else:
                assert self._written.lines is not None  # for the type checker: only lines make other tables
                table, label = getattr(self._summed, name), f"{name} (from {self._written.lines.table})"
            self._sources[name] = ArrowSource(name, table, file=label, written=self._written, has_numbers=True)
        return self._sources[name]

    def dated(self, customers: NamedSource) -> "NamedSource | DatedCustomers":
        """A table of customers, with the first order's day where it does not say when a customer joined."""
        if self._written.lines is None:
            return customers
        return DatedCustomers(customers, lambda: self._summed.customers)

    def notes(self) -> tuple[str, ...]:
        """What became of the lines."""
        return () if self._written.lines is None else self._summed.notes

    @cached_property
    def _summed(self) -> "SummedLines":
        assert self._written.lines is not None  # for the type checker
        return summed_lines(self._folder, self._written.lines, written=self._written)


# ---- queries over local files


def files_of(query: str) -> list[str]:
    """The files that a query names.

    >>> files_of("SELECT * FROM 'lines.csv' l JOIN 'people.parquet' p USING (id) WHERE l.kind = 'sale'")
    ['lines.csv', 'people.parquet']
    """
    return list(dict.fromkeys(name.replace("''", "'") for name in _FILE.findall(query)))


def queried(name: str, query: str, *, folder: Path, written: TableFormat) -> pa.Table:
    """The result of a SELECT that makes a table of local files."""
    import duckdb

    where = f"queries.{name}"
    if not (files := files_of(query)):
        expected = "a SELECT from files of the folder, in quotes, such as 'lines.csv'"
        raise InputError(where, found=repr(query[:80]), expected=expected)
    plain = replace(written, columns={})
    scans = {}
    for file in files:
        source = file_source("file", local_file(folder, file, setting=where), file=file, written=plain)
        scans[file] = source.scan() if isinstance(source, ParquetSource) else _typed(typed_table(source), plain)
    with _opened(written) as connection:
        try:
            statements = duckdb.extract_statements(query)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise InputError(where, found=repr(query[:80]), expected="one SELECT")
            for file, scan in scans.items():
                connection.register(file, scan)
            reader = connection.sql(query).to_arrow_reader(1 << 16)
            return _bounded(reader, where)
        except duckdb.Error as error:
            found = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            if isinstance(error, duckdb.InterruptException):
                found = f"a query that takes more than {_MOST_SECONDS:,} s"
            seen = "; ".join(f"{file} has {', '.join(scan.schema.names[:12])}" for file, scan in scans.items())
            expected = "a SELECT that DuckDB can run on these files"
            raise InputError(where, found=found[:300], expected=expected, fix=f"{seen}."[:400]) from None


@contextmanager
def _opened(written: TableFormat) -> Iterator[Any]:
    """A DuckDB that sees no file and ends by itself."""
    from disco.features.builder import opened_duckdb
    from disco.features.on_engine import streaming_memory

    zone = written.locale.time_zone
    with opened_duckdb(threads=1, memory_limit=streaming_memory(), time_zone=zone) as connection:
        timer = Timer(_MOST_SECONDS, connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield connection
        finally:
            timer.cancel()


def _bounded(reader: pa.RecordBatchReader, where: str) -> pa.Table:
    if len(reader.schema.names) > MOST_COLUMNS:
        raise too_many_columns(where, f"{len(reader.schema.names):,}")
    batches, rows, size = [], 0, 0
    for batch in reader:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > _MOST_ROWS:
            raise too_many_rows(where, f"more than {_MOST_ROWS:,} rows", _MOST_ROWS)
        if size > _MOST_BYTES:
            raise InputError(where, found=f"more than {_MOST_BYTES:,} bytes", expected="a smaller result")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _typed(table: pa.Table, written: TableFormat) -> pa.Table:
    """Columns of text as numbers or times, where every cell is one: SQL has to add and compare them."""
    columns = [_typed_column(table[name].combine_chunks(), written) for name in table.column_names]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _typed_column(text: pa.Array, written: TableFormat) -> pa.Array:
    """Ids with a zero in front stay text, as does whatever is written in two ways."""
    if not is_text(text.type) or text.null_count == len(text):
        return text
    numbers = pc.utf8_trim_whitespace(plain_cells(text, Kind.MONEY, written.csv))
    if _all(numbers, r"^(-?(0|[1-9]\d{0,17}))?$"):
        return pc.if_else(pc.equal(numbers, ""), None, numbers).cast(pa.int64())
    if _all(numbers, r"^(-?(0|[1-9]\d*)?(\.\d*)?)?$"):
        parsed = parse_text(numbers, Kind.MONEY)
        if not parsed.unreadable.any():
            return parsed.values
    if _all(text, r"^\s*(\S*\d\S*[./ -].*)?$"):
        parsed = parse_text(plain_cells(text, Kind.MOMENT, written.csv), Kind.MOMENT)
        if not parsed.unreadable.any() and not parsed.zoned.any():
            return parsed.values
    return text


def _all(text: pa.Array, shape: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, shape)).as_py())


# ---- order lines


@dataclass(frozen=True, slots=True)
class SummedLines:
    """What lines of orders are together."""

    orders: pa.Table
    returns: pa.Table
    customers: pa.Table
    notes: tuple[str, ...]


def summed_lines(folder: Path, lines: LinesFormat, *, written: TableFormat) -> SummedLines:
    """Sum lines into orders; TableError with what is wrong with them, each with its row and the setting to write.

    An order whose lines add to less than nothing is a cancellation. It becomes a return of the order that its number
    names (C1234 of 1234), or else of the customer's last one before it that was worth as much; without one it is left
    out, and so are lines without a customer.
    """
    path = local_file(folder, lines.table, setting="lines.table")
    ours = replace(written, columns={"lines": lines.columns})
    source = file_source("lines", path, file=lines.table, written=ours)
    if isinstance(source, ParquetSource):
        source = ArrowSource("lines", source.dataset.to_table(), file=lines.table, written=ours)
    title = f"{lines.table} cannot be summed into orders (the setting `lines`):"
    validate([source], as_of=None, relations=False).raise_if_any(title)
    for name in lines.customer_columns:
        if name not in source.schema().names:
            fix = did_you_mean(name, source.schema().names)
            expected = f"a further column of {lines.table}"
            raise InputError("lines.customer_columns", found=f"no column {name}", expected=expected, fix=fix)
    with _opened(written) as connection:
        connection.register("given", typed_table(source))
        counts = _sum(connection, source, lines, written)
        if problems := tuple(_wrong_guesses(connection, lines, written, counts)):
            raise TableError(title, problems)
        tables = {name: connection.sql(query).to_arrow_table() for name, query in _TABLES.items()}
        of_orders = ["order_id", "customer_id", "ordered_at", "full_price"]
        of_orders += [name for name in ("paid", "items", "code") if name in counts["columns"]]
    notes = _in_words(lines.table, counts, orders=tables["orders"].num_rows, returns=tables["returns"].num_rows)
    return SummedLines(tables["orders"].select(of_orders), tables["returns"], tables["customers"], notes)


_TABLES = {
    "orders": "SELECT * FROM bought ORDER BY ordered_at, order_id",
    "returns": "SELECT order_id, returned_at, value FROM returned ORDER BY returned_at, order_id",
    "customers": "SELECT * FROM people ORDER BY customer_id",
}


def _sum(connection: Any, source: NamedSource, lines: LinesFormat, written: TableFormat) -> dict[str, Any]:
    """Make the tables `bought`, `returned` and `people` of the lines; how many there are of what."""
    given, digits = source.schema().names, written.locale.currency.digits
    money = "amount" if "amount" in given else "quantity * unit_price"
    exact = f"CAST(round_even(CAST({{}} AS DOUBLE), {digits}) AS DECIMAL(38, {digits}))"
    further = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in lines.customer_columns]
    columns = {
        "items": ("quantity", "CAST(greatest(sum(quantity), 0) AS BIGINT)"),
        "paid": ("paid", f"sum({exact.format('paid')})"),
        "code": ("code", "max(code)"),
    }
    there = {ours: sql for ours, (theirs, sql) in columns.items() if theirs in given}
    more = "".join(f", {sql} AS {ours}" for ours, sql in there.items())
    kept = "".join(f", arg_max({name}, (ordered_at, {name})) AS {name}" for name in further)
    connection.execute(f"""
      CREATE TABLE lines AS SELECT *, {exact.format(money)} AS full_price FROM given
        WHERE nullif(trim(CAST(customer_id AS VARCHAR)), '') IS NOT NULL;
      CREATE TABLE whole AS
        SELECT order_id, min(customer_id) AS customer_id, count(DISTINCT customer_id) AS customers,
               min(ordered_at) AS ordered_at, sum(full_price) AS full_price{more}
        FROM lines GROUP BY order_id;
      CREATE TABLE bought AS SELECT * FROM whole WHERE full_price > 0;
      CREATE TABLE matched AS
        SELECT b.order_id, r.order_id AS cancellation, r.ordered_at AS returned_at, -r.full_price AS value,
               b.full_price AS most
        FROM whole r JOIN bought b
          ON b.customer_id = r.customer_id AND b.ordered_at <= r.ordered_at AND b.full_price >= -r.full_price
        WHERE r.full_price < 0
        QUALIFY row_number() OVER (PARTITION BY r.order_id ORDER BY
          CAST(b.order_id AS VARCHAR) = regexp_replace(CAST(r.order_id AS VARCHAR), '^[A-Za-z]+-?', '') DESC,
          b.ordered_at DESC, b.order_id DESC) = 1;
      CREATE TABLE returned AS
        SELECT * FROM matched
        QUALIFY sum(value) OVER (PARTITION BY order_id ORDER BY returned_at, cancellation) <= most;
      CREATE TABLE people AS
        SELECT customer_id, min(CAST(ordered_at AS DATE)) AS joined_on{kept} FROM lines GROUP BY customer_id""")
    asked = """
      SELECT (SELECT count(*) FROM given), (SELECT count(*) FROM lines), count(*) FILTER (WHERE full_price < 0),
             count(*) FILTER (WHERE full_price = 0), count(*) FILTER (WHERE customers > 1), count(*),
             (SELECT count(*) FROM people) FROM whole"""
    names = ("rows", "lines", "cancelled", "worthless", "shared", "whole", "people")
    ((figures),) = connection.sql(asked).fetchall()
    return dict(zip(names, figures, strict=True)) | {"columns": [*there, *given]}


def _wrong_guesses(
    connection: Any, lines: LinesFormat, written: TableFormat, counts: Mapping[str, Any]
) -> Iterator[Problem]:
    """What can be read but cannot be meant."""
    file, theirs = lines.table, {**{name: name for name in ("order_id", "currency")}, **lines.columns}
    if not counts["lines"]:
        found, expected = f"no customer in any of {counts['rows']:,} lines", "who ordered, at least in some lines"
        fix = "Correct `lines.customer_id` in disco.yaml."
        yield Problem("no_customers", file, lines.columns["customer_id"], found, expected, fix)
    if counts["shared"] > _FEW * counts["whole"]:
        query = "SELECT order_id, customers FROM whole WHERE customers > 1 ORDER BY customers DESC, order_id LIMIT 1"
        ((order, customers),) = connection.sql(query).fetchall()
        found = f"{counts['shared']:,} of {counts['whole']:,} with several customers: {order} has {customers:,}"
        fix = "Let `lines.order_id` in disco.yaml name the column with the number of the order (or invoice)."
        yield Problem("several_customers", file, theirs["order_id"], found, "one customer per order", fix)
    if counts["cancelled"] > counts["whole"] - counts["cancelled"]:
        found = f"{counts['cancelled']:,} of {counts['whole']:,} orders with a total below 0"
        fix = "Let `lines.amount`, or `lines.quantity` and `lines.unit_price`, name columns with purchases above 0."
        yield Problem("negative_orders", file, "", found, "purchases above 0, and only cancellations below", fix)
    if "currency" in counts["columns"]:
        query = "SELECT DISTINCT upper(trim(CAST(currency AS VARCHAR))) FROM lines ORDER BY 1"
        codes, own = [code for (code,) in connection.sql(query).fetchall() if code], written.locale.currency.code
        if len(codes) > 1:
            fix = (
                f'Convert the amounts, or take one currency: in place of `lines`, write `queries: {{orders: "SELECT … '
                f"FROM '{file}' WHERE {theirs['currency']} = '{own}' GROUP BY …\"}}` in disco.yaml."
            )
            yield Problem("two_currencies", file, theirs["currency"], ", ".join(codes[:5]), "one currency", fix)
        elif codes and codes != [own]:
            fix = f"Write `currency: {codes[0]}` in disco.yaml."
            yield Problem("other_currency", file, theirs["currency"], codes[0], f"{own}, the currency of the shop", fix)


def _in_words(file: str, counts: Mapping[str, Any], *, orders: int, returns: int) -> tuple[str, ...]:
    words = [f"{file}: {counted(counts['rows'], 'line')} are {orders:,} orders of {counts['people']:,} customers"]
    if guests := counts["rows"] - counts["lines"]:
        words.append(f"{counted(guests, 'line')} without a customer left out")
    if counts["cancelled"]:
        aside = counts["cancelled"] - returns
        text = f"{counted(counts['cancelled'], 'cancellation')} became {counted(returns, 'return')}"
        words.append(text + (f", and {aside:,} of no known order were left out" if aside else ""))
    if counts["worthless"]:
        words.append(f"{counted(counts['worthless'], 'order')} worth nothing left out")
    if counts["shared"]:
        words.append(f"{counted(counts['shared'], 'order')} with several customers, of whom one counts")
    return ("; ".join(words),)


class DatedCustomers:
    """A table of customers in which those without a join date have the day of their first order."""

    name: str
    file: str
    locale: Locale
    has_bytes: bool

    def __init__(self, customers: NamedSource, known: Callable[[], pa.Table]) -> None:
        """known: customer_id and joined_on, asked for when the rows are."""
        self._customers, self._known = customers, known
        self.name, self.file, self.locale = customers.name, customers.file, customers.locale
        self.has_bytes = customers.has_bytes
        self.place, self.problems, self.advice = customers.place, customers.problems, customers.advice
        self.notes = customers.notes

    def schema(self) -> pa.Schema:
        given = self._customers.schema()
        return given if "joined_on" in given.names else given.append(pa.field("joined_on", pa.date32()))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if "joined_on" not in columns:
            yield from self._customers.batches(list(columns))
            return
        there = [name for name in dict.fromkeys((*columns, "customer_id")) if name in self._customers.schema().names]
        known = self._known()
        first, of_whom = known["joined_on"].combine_chunks(), known["customer_id"].combine_chunks().cast(pa.string())
        for batch in self._customers.batches(there):
            days = first.take(pc.index_in(batch["customer_id"].cast(pa.string()), value_set=of_whom))
            cells = {name: batch[name] for name in there}
            given = cells.get("joined_on")
            if given is None:
                cells["joined_on"] = days
            else:
                is_text_column = is_text(given.type) or pa.types.is_binary(given.type)
                days = days.cast(pa.string()) if is_text_column else days
                is_empty = pc.equal(pc.binary_length(given), 0) if is_text_column else given.is_null()
                cells["joined_on"] = pc.if_else(pc.fill_null(is_empty, True), days.cast(given.type), given)
            yield pa.record_batch([cells[name] for name in columns], names=list(columns))

    def scan(self) -> pa.Table:
        return typed_table(self)
