"""The tables a retailer brings, declared once: columns, which of them may be absent or empty, ranges, keys, references.

`records.table_rules` runs these rules for every command. Raw tables keep the retailer's own types (money as float or
decimal, ids as integers or text); `TableSchema.canonical` is what a checked table holds: ids as text, money as int64
minor units, times as UTC microseconds.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

import pyarrow as pa

from disco.records.errors import InputError, did_you_mean
from disco.records.locale import POUNDS_UTC, Locale


class Kind(StrEnum):
    """What a column means; its text is what the column is expected to hold."""

    ID = "integers or text"
    MONEY = "decimal or float, in currency units"
    DEPTH = "a share of the price in [0, 1)"
    COUNT = "whole numbers from 0"
    MOMENT = "timestamps (or dates)"
    DAY = "dates (or timestamps)"
    CHOICE = "text"

    @property
    def canonical(self) -> pa.DataType:
        return _CANONICAL[self]


_CANONICAL = {
    Kind.ID: pa.string(),
    Kind.MONEY: pa.int64(),
    Kind.DEPTH: pa.float64(),
    Kind.COUNT: pa.int64(),
    Kind.MOMENT: pa.timestamp("us", "UTC"),
    Kind.DAY: pa.date32(),
    Kind.CHOICE: pa.string(),
}


# What a cell may hold at most. The largest amount of money is in `records.money`.
LONGEST_ID_BYTES = 1000  # of UTF-8: PostgreSQL indexes at most 2,704, and both databases take the same ids
LARGEST_COUNT = 2**31
# What a file may hold at most, known before its rows are read: a small file can unpack to more than memory holds.
MOST_ROWS = 2_000_000_000  # of a table
CELLS = "(cells)"
"""A column beside those of the outcomes, where rows of a file have too many or too few cells: what was found."""
ROWS = "(row)"
"""A column beside those of the outcomes, where a CSV file has empty lines: the number of each row as a spreadsheet
numbers it, less the header's and the first row's."""
MOST_COLUMNS = 1_000  # of a file or query, whatever it is read as; nested columns count by their leaves
LONGEST_HEADER_BYTES = 1 << 20  # of a CSV file
LARGEST_COLUMN_BYTES = 256 << 20  # of text in one column of one row group of a Parquet file, unpacked
LARGEST_FOOTER_BYTES = 16 << 20  # of a Parquet file: what says where its columns and row groups are
LARGEST_SHEET_BYTES = 1 << 30  # of an Excel workbook, unpacked
FEWEST_GROUP_ROWS = 1_000  # in a row group on average, where there are more than as many row groups
MOST_OUTCOMES = 5_000_000  # rows of outcomes ingested at once: they are judged together, in memory
LARGEST_OUTCOMES_BYTES = 1 << 30  # of text in all their columns, unpacked
# Of a file that is sent to the service, which answers others meanwhile; larger ones are read from the shop's folder.
MOST_SENT_ROWS = 5_000_000  # of a table: about 160 bytes of memory each
MOST_SENT_OUTCOMES = 500_000  # about 1,300 bytes of memory each
MOST_RAGGED_ROWS = 10_000  # of a CSV file, with too many or too few cells: with more of them it is no table
FIRST_DAY, END_DAY = date(1900, 1, 1), date(9000, 1, 1)  # dates before the first, or from the end on, are mistakes


@dataclass(frozen=True, slots=True)
class Reference:
    """Every value of the column must be among `table.column`; `optional`: only checked when that table is there."""

    table: str
    column: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column; times and days lie in the past: they are compared with `--as-of`."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False  # a cell may be empty
    optional: bool = False  # the whole column may be absent; its cells are then unknown
    instead: str = ""  # the column that is read in its place where it is absent
    positive: bool = False  # money of at least one minor unit
    signed: bool = False  # an amount or a count that may be below 0
    refers_to: Reference | None = None
    choices: tuple[str, ...] = ()

    @property
    def canonical_name(self) -> str:
        """A checked table has money in minor units, under a name that says so."""
        return f"{self.name}_minor" if self.kind is Kind.MONEY else self.name

    @property
    def before_as_of(self) -> bool:
        return self.kind in (Kind.MOMENT, Kind.DAY)


class Relation(StrEnum):
    """How a cell goes together with another one of its row."""

    AT_MOST = "at most"  # the amount is at most the other
    NOT_BEFORE = "not before"  # the time is not before the other
    NEEDED_UNLESS = "needed unless"  # it may be empty only where the other is `value`
    SAID_WITH = "said with"  # the whole column may be absent only where the other cell is empty


@dataclass(frozen=True, slots=True)
class RowRule:
    """What holds between the cells of `column` and `other` within a row."""

    column: str
    relation: Relation
    other: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Within:
    """How a row compares with the row of the other table that its `reference` column names."""

    reference: str
    not_before: tuple[str, str]  # a time here, and the one there that it does not precede
    amount: str  # an amount here; all that name one row add to at most the amount there:
    at_most: tuple[str, ...]  # the first of these columns that is known there


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table by name, with its columns in order and what holds between them."""

    name: str
    meaning: str
    columns: tuple[ColumnSchema, ...]
    key: tuple[str, ...] = ()  # the columns that together name a row; none: rows have no name
    rows: tuple[RowRule, ...] = ()  # what holds within a row
    within: Within | None = None
    may_be_empty: bool = False  # a table without rows is no mistake

    def column(self, name: str) -> ColumnSchema:
        return next(column for column in self.columns if column.name == name)

    @property
    def canonical(self) -> pa.Schema:
        """
        >>> SCHEMAS["returns"].canonical.names
        ['order_id', 'returned_at', 'value_minor']
        """
        return pa.schema(
            [
                pa.field(column.canonical_name, column.kind.canonical, nullable=column.nullable)
                for column in self.columns
            ]
        )


_CUSTOMER = Reference("customers", "customer_id")
_ORDER = Reference("orders", "order_id")
_CODE = Reference("codes", "code_id", optional=True)  # a shop without a table of codes may still name them

_TABLES = (
    TableSchema(
        "customers",
        "Everybody who may get a code. Any further columns are kept, for the condition `eligible` of a plan.",
        (
            ColumnSchema("customer_id", Kind.ID, "names the customer"),
            ColumnSchema("joined_on", Kind.DAY, "the day the customer registered"),
        ),
        key=("customer_id",),
    ),
    TableSchema(
        "orders",
        "One row per order, with or without a code.",
        (
            ColumnSchema("order_id", Kind.ID, "names the order"),
            ColumnSchema("customer_id", Kind.ID, "who ordered", refers_to=_CUSTOMER),
            ColumnSchema("ordered_at", Kind.MOMENT, "when the order was placed"),
            ColumnSchema("full_price", Kind.MONEY, "value of the basket before the code's discount"),
            ColumnSchema("paid", Kind.MONEY, "what the customer paid, at most full_price", optional=True),
            ColumnSchema("items", Kind.COUNT, "articles in the basket", optional=True),
            ColumnSchema(
                "code", Kind.ID, "the code used; empty without one", nullable=True, optional=True, refers_to=_CODE
            ),
        ),
        key=("order_id",),
        rows=(RowRule("paid", Relation.AT_MOST, "full_price"),),
    ),
    TableSchema(
        "returns",
        "One row per refund; an order may have several.",
        (
            ColumnSchema("order_id", Kind.ID, "the order sent back, in whole or in part", refers_to=_ORDER),
            ColumnSchema("returned_at", Kind.MOMENT, "when, not before the order"),
            ColumnSchema(
                "value",
                Kind.MONEY,
                "money given back; an order's refunds add to at most `paid`, or `full_price` where there is no `paid`",
            ),
        ),
        within=Within(
            "order_id", not_before=("returned_at", "ordered_at"), amount="value", at_most=("paid", "full_price")
        ),
    ),
    TableSchema(
        "codes",
        "One row per code that a customer was sent; a shared code has a row for each of its customers.",
        (
            ColumnSchema("code_id", Kind.ID, "names the code"),
            ColumnSchema("customer_id", Kind.ID, "who got it", refers_to=_CUSTOMER),
            ColumnSchema("campaign_id", Kind.ID, "the campaign it belongs to"),
            ColumnSchema("depth", Kind.DEPTH, "0.2 means 20% off"),
            ColumnSchema("sent_at", Kind.MOMENT, "when it was sent"),
            ColumnSchema(
                "redeemed_at", Kind.MOMENT, "when it was used, not before sent_at; empty if unused", nullable=True
            ),
        ),
        key=("code_id", "customer_id", "campaign_id"),
        rows=(RowRule("redeemed_at", Relation.NOT_BEFORE, "sent_at"),),
    ),
    TableSchema(
        "site",
        "One row per customer and day with any activity on the site.",
        (
            ColumnSchema("customer_id", Kind.ID, "the customer", refers_to=_CUSTOMER),
            ColumnSchema("day", Kind.DAY, "the day"),
            ColumnSchema("visits", Kind.COUNT, "sessions"),
            ColumnSchema("views", Kind.COUNT, "product pages seen"),
            ColumnSchema("add_to_bag", Kind.COUNT, "articles put into the bag"),
            ColumnSchema("saves", Kind.COUNT, "articles saved for later"),
            ColumnSchema("checkouts", Kind.COUNT, "checkouts begun"),
        ),
        key=("customer_id", "day"),
    ),
    TableSchema(
        "outcomes",
        "What customers did in a campaign: one row per event, each counted exactly once.",
        (
            ColumnSchema(
                "event_id",
                Kind.ID,
                "names the event; absent: `order_id`, else made of customer, code and time",
                optional=True,
                instead="order_id",
            ),
            ColumnSchema("campaign_id", Kind.ID, "the campaign; absent: the one named in the command", optional=True),
            ColumnSchema(
                "customer_id",
                Kind.ID,
                "the customer who bought",
                refers_to=Reference("customers", "customer_id", optional=True),
            ),
            ColumnSchema("code", Kind.ID, "the code used; empty without one", nullable=True, refers_to=_CODE),
            ColumnSchema("ordered_at", Kind.MOMENT, "when the order was placed"),
            ColumnSchema(
                "full_price",
                Kind.MONEY,
                "basket before the discount, at least 0.01; for a refund the part given back",
                positive=True,
            ),
            ColumnSchema(
                "kind",
                Kind.CHOICE,
                "what happened; absent: purchase",
                optional=True,
                choices=("purchase", "refund", "correction"),
            ),
            ColumnSchema(
                "refers_to",
                Kind.ID,
                "the event that a refund or correction changes; empty for a purchase",
                nullable=True,
                optional=True,
                refers_to=Reference("outcomes", "event_id"),
            ),
        ),
        key=("event_id",),
        rows=(
            RowRule("refers_to", Relation.NEEDED_UNLESS, "kind", "purchase"),
            RowRule("kind", Relation.SAID_WITH, "refers_to"),
        ),
        may_be_empty=True,  # a day without a purchase
    ),
)

SCHEMAS = {schema.name: schema for schema in _TABLES}
"""In the order in which one table refers to another."""

LINES = TableSchema(
    "lines",
    "One row per article of an order, or per payment for it: what the setting `lines` sums into orders.",
    (
        ColumnSchema("order_id", Kind.ID, "the order (or invoice) that the line belongs to"),
        ColumnSchema("customer_id", Kind.ID, "who ordered; lines without a customer are left out", nullable=True),
        ColumnSchema("ordered_at", Kind.MOMENT, "when the order was placed"),
        ColumnSchema("quantity", Kind.COUNT, "articles; below 0 what came back", optional=True, signed=True),
        ColumnSchema("unit_price", Kind.MONEY, "of one article", optional=True, signed=True),
        ColumnSchema("amount", Kind.MONEY, "of the whole line, before a code's discount", optional=True, signed=True),
        ColumnSchema("paid", Kind.MONEY, "what was paid for the line", optional=True, signed=True),
        ColumnSchema("code", Kind.ID, "the code used; empty without one", nullable=True, optional=True),
        ColumnSchema("currency", Kind.ID, "of the line; one in all of them", nullable=True, optional=True),
    ),
)
_FILE = TableSchema("file", "Any table that a query reads: its columns keep their names, and all of them are text.", ())


def schema_of(name: str) -> TableSchema:
    """The declaration of a table, of order lines (`lines`), or of any file that a query reads (`file`)."""
    return {"lines": LINES, "file": _FILE}.get(name) or SCHEMAS[name]


# ---- how a shop writes its tables: what its columns are called, and how its CSV files write numbers, dates and text
#
# The readers of tables (`adapters.tables`) turn all of it into the declared form, so nothing behind them knows about
# it.


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
DECIMALS = (".", ",")
_DATE_PARTS = {"%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year"}
_TIME_OF_DAY = re.compile(r"[ T,]*(%H[:.]%M([:.]%S(\.%f)?)?|%T|%R)(%z)?")
_EXAMPLE = "strftime, such as %d.%m.%Y for 31.12.2026 or %m/%d/%Y for 12/31/2026"


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How CSV files are written; None is the plain form, or what can be found in the file without doubt."""

    delimiter: str | None = None
    """Between the columns: one of DELIMITERS; None: found in the header."""
    decimal: str | None = None
    """The decimal mark, `.` or `,`; the other one may then group thousands. None: a point, and no groups."""
    dates: str | None = None
    """strftime of a date; a time of day may follow. None: 2026-12-31. Dates such as 2026-12-31 are always read."""
    encoding: str | None = None
    """A name that Python knows, such as cp1252; None: UTF-8, or UTF-16 with a byte-order mark."""


@dataclass(frozen=True, slots=True)
class LinesFormat:
    """Where the lines of orders are, which are summed into whole orders."""

    table: str
    """A file in the folder of the tables."""
    columns: Mapping[str, str]
    """Our name of a column of `LINES` → the one in the file."""
    customer_columns: tuple[str, ...] = ()
    """Further columns of the file that the table of customers gets, each from a customer's last order."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How all tables of a shop are written, and which of them are made of other files."""

    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Table → our name of a column → the name in the shop's own table."""
    csv: CsvFormat = CsvFormat()
    locale: Locale = POUNDS_UTC
    """The currency of all money, and the time zone of times without one."""
    lines: LinesFormat | None = None
    """Of a folder of tables: what its orders are summed from."""
    queries: Mapping[str, str] | None = None
    """Of a folder of tables: SELECTs over its files, by the table that they make."""

    def own_names(self, table: str) -> Mapping[str, str]:
        """Our name → the shop's, of the columns of a table that are called otherwise."""
        return self.columns.get(table, {})

    def other_names(self, table: str) -> Mapping[str, str]:
        """Our name → what the column may be called as well: purchases often come as an export of the shop's orders."""
        if table != "outcomes":
            return {}
        known = {column.instead or column.name: column.name for column in SCHEMAS[table].columns}
        return {known[ours]: theirs for ours, theirs in self.own_names("orders").items() if ours in known}

    def fingerprint(self) -> str:
        """Changes what a file means; empty for the plain form."""
        if self == PLAIN:
            return ""
        columns = sorted((table, sorted(names.items())) for table, names in self.columns.items())
        text = repr((columns, self.csv)) + self.locale.fingerprint()
        made = (self.lines, sorted((self.queries or {}).items()))
        return text if made == (None, []) else text + repr(made)


PLAIN = TableFormat()
"""Our own names; numbers and dates as 12.50 and 2026-12-31; pounds and UTC."""


def read_columns(columns: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The setting `columns`, after looking for names that are unknown or used twice; InputError.

    A column may be named by the one that is read in its place: `outcomes: {order_id: …}` names the event.

    >>> read_columns({"orders": {"full_prise": "Warenwert"}})
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: columns: found orders.full_prise; expected a column of the table: order_id, ...
    """
    for table, names in columns.items():
        if table not in SCHEMAS:
            raise InputError(
                "columns", found=table, expected=f"a table: {', '.join(SCHEMAS)}", fix=did_you_mean(table, SCHEMAS)
            )
        known = [column.name for column in SCHEMAS[table].columns]
        meant = {column.instead: column.name for column in SCHEMAS[table].columns if column.instead}
        for instead in meant.keys() & names.keys():
            if meant[instead] in names:
                found = f"{table}.{instead} beside {table}.{meant[instead]}"
                raise InputError("columns", found=found, expected="one of the two", fix=f"Remove {instead}.")
        names = {meant.get(ours, ours): theirs for ours, theirs in names.items()}
        columns = {**columns, table: names}
        for ours in names:
            if ours not in known:
                expected = f"a column of the table: {', '.join(known)}"
                fix = did_you_mean(ours, known)
                if names[ours] in known:
                    fix = f"Write our name first: `{names[ours]}: {ours}`."
                elif fix is None:
                    fix = f"Remove the line: further columns keep their own names, so use {names[ours]} as it is."
                raise InputError("columns", found=f"{table}.{ours}", expected=expected, fix=fix)
        used: dict[str, str] = {}
        for ours, theirs in names.items():
            if not theirs.strip():
                raise InputError(
                    "columns", found=f"an empty name for {table}.{ours}", expected="the name of your column"
                )
            if theirs in used:
                raise InputError(
                    "columns",
                    found=f"{theirs} of {table} for both {used[theirs]} and {ours}",
                    expected="one column of yours for each of ours",
                    fix="Remove one of the two lines; a column that may be absent can be left out.",
                )
            used[theirs] = ours
    return columns


def read_delimiter(delimiter: str) -> str:
    """The setting `csv.delimiter`; InputError."""
    delimiter = "\t" if delimiter.lower() in ("tab", "\\t") else delimiter
    if delimiter not in DELIMITERS:
        raise InputError("csv.delimiter", found=repr(delimiter), expected='one of "," ";" "|" or "\\t" (a tab)')
    return delimiter


def read_decimal(decimal: str) -> str:
    """The setting `csv.decimal`; InputError."""
    if decimal not in DECIMALS:
        raise InputError("csv.decimal", found=repr(decimal), expected='"." or ","')
    return decimal


def read_dates(dates: str) -> str:
    """The setting `csv.dates`: day, month and year once each; InputError."""
    date_part, _ = split_dates(dates)
    found = [_DATE_PARTS[part] for part in re.findall(r"%[a-zA-Z]", date_part) if part in _DATE_PARTS]
    if sorted(found) != ["day", "month", "year"] or len(re.findall(r"%[a-zA-Z]", date_part)) != 3:
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix="Name day, month and year once each.")
    if found == ["year", "day", "month"]:
        fix = "Write such dates as 2026-12-31 in the file."
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix=fix)
    return dates


def split_dates(dates: str) -> tuple[str, str]:
    """A format's date, and the time of day after it; InputError where something else follows.

    >>> split_dates("%d.%m.%Y %H:%M")
    ('%d.%m.%Y', ' %H:%M')
    """
    ends = [match.end() for match in re.finditer(r"%[dmbBYy]", dates)]
    end = ends[-1] if ends else len(dates)
    rest = dates[end:]
    if rest.strip() and not _TIME_OF_DAY.fullmatch(rest):
        fix = f"Leave the time of day out: {dates[:end]!r}; one such as 14:05 or 14:05:00 may follow a date anyway."
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix=fix)
    return dates[:end], rest


_SAMPLE = "customer_id,country\n" * 40  # some codecs, such as idna, are only for short names


def read_encoding(encoding: str) -> str:
    """The setting `csv.encoding`; InputError."""
    codec, read = None, None
    try:
        codec = codecs.lookup(encoding)
        written = _SAMPLE.encode(codec.name)
        if codec.incrementaldecoder is not None:  # files are read in parts
            decoder, half = codec.incrementaldecoder(), len(written) // 2
            read = decoder.decode(written[:half]) + decoder.decode(written[half:], final=True)
    except (LookupError, UnicodeError, TypeError, AttributeError):
        pass  # refused with those that read something else
    if codec is None or read != _SAMPLE:
        expected = "the name of an encoding, such as utf-8, cp1252 (Excel in Western Europe) or utf-16"
        raise InputError("csv.encoding", found=repr(encoding), expected=expected) from None
    return str(codec.name)
