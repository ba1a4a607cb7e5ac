"""What can be wrong with a table, and the one checker that finds it.

The rules of a cell and of a row follow from a table's declaration. Each is written once, in two spellings side by side:
`broken` for a batch in memory (`disco validate`, `disco ingest`), and `sql` for DuckDB, which builds features from
tables that are never in memory as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from numpy.typing import NDArray

from disco.records.arrays import Flags, Integers
from disco.records.cells import READABLE, TYPED, Cells, flags, is_accepted, is_bytes, is_text, read_cells
from disco.records.depths import EXPECTED_DEPTH, depth_advice
from disco.records.errors import FileFormatError, Problem, TableError, did_you_mean, listed
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.money import Currency
from disco.records.tables import (
    END_DAY,
    FIRST_DAY,
    LARGEST_COUNT,
    LONGEST_ID_BYTES,
    SCHEMAS,
    ColumnSchema,
    Kind,
    Relation,
    RowRule,
    TableSchema,
    schema_of,
)

DAY_MICROSECONDS = 86_400_000_000
_LARGEST_ID = 2**63 - 1  # of integers: larger ones have no key and have to be text

Row = Mapping[str, Cells]
Test = Callable[[Cells], Flags]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which a cell or a row can be wrong."""

    kind: str  # of the problem, as `--json` names it
    column: str  # where it is reported
    broken: Callable[[Row], Flags]  # the rows of a batch that break it
    sql: str  # the same as a condition on {column}, see `features.sources`; empty: typed columns keep it anyway
    expected: str
    fix: str | Callable[[Cells, int], str]
    needs: tuple[str, ...] = ()  # columns whose cells must be good for the rule to be asked
    found: Callable[[Row, int], str] | None = None  # what to show of a row; None: the cell
    of_absent: bool = False  # asked where the whole column is absent, and only there

    @property
    def reason(self) -> str:
        """Why a row was set aside."""
        return f"{self.column}: expected {self.expected}"

    def show(self, row: Row, place: int) -> str:
        return self.found(row, place) if self.found else row[self.column].show(place)

    def advice(self, row: Row, place: int) -> str:
        return self.fix if isinstance(self.fix, str) else self.fix(row[self.column], place)


def rules_of(schema: TableSchema, *, as_of: date | None = None, locale: Locale = POUNDS_UTC) -> tuple[Rule, ...]:
    """Cell by cell in the order of the columns, then between the cells of a row.

    as_of: the last day that dates may name; None: any day that a calendar has. locale: of the shop.
    """
    cells = (rule for column in schema.columns for rule in cell_rules(column, as_of, locale=locale))
    return (*cells, *(_row_rule(declared, locale) for declared in schema.rows))


def cell_rules(column: ColumnSchema, as_of: date | None = None, *, locale: Locale = POUNDS_UTC) -> Iterator[Rule]:
    """The rules of a column by itself; the first two say whether its text can be read."""
    name = column.name

    def rule(kind: str, test: Test, sql: str, expected: str, fix: str | Callable[[Cells, int], str]) -> Rule:
        return Rule(kind, name, lambda row: test(row[name]), sql.replace("{x", f"{{{name}"), expected, fix)

    notation = "Write numbers without currency signs or thousands separators, with a decimal point."
    if column.kind in (Kind.MOMENT, Kind.DAY):
        notation = "Write dates as YYYY-MM-DD."
    sql = "try(decode(encode({x_text}))) IS NULL AND {x_text} IS NOT NULL"
    yield rule("encoding", lambda cells: cells.not_unicode, sql, "UTF-8 text", "Save the file as UTF-8.")
    yield rule("wrong_type", lambda cells: cells.unreadable, "", READABLE.get(column.kind, "text"), notation)
    if not column.nullable:
        empty = rule("null", _missing, "{x} IS NULL", "a value in every row", "Fill it in or leave the row out.")
        yield replace(empty, found=lambda row, place: "nothing")
    if column.kind is Kind.ID:
        sql = (
            f"strlen({{x_text}}) > {LONGEST_ID_BYTES} OR contains({{x_text}}, chr(0)) OR {{x_integer}} > {_LARGEST_ID}"
        )
        fit = f"an integer below 2⁶³, or text of at most {LONGEST_ID_BYTES:,} bytes without NUL characters"
        yield rule("unusable_id", _is_unusable_id, sql, fit, "Store large integers as text, and shorten long ids.")
    elif column.kind is Kind.CHOICE:
        listed = ", ".join(f"'{word}'" for word in column.choices)
        words = f"one of {', '.join(column.choices)}"
        sql = f"lower(trim({{x}})) NOT IN ({listed})"
        yield rule("unknown_choice", _where(lambda v: v < 0), sql, words, _choice_fix)
    elif column.before_as_of:
        for kind, test, sql, expected, fix in _dates(as_of):
            yield rule(kind, _where(test), sql, expected, fix)
    else:
        # no SQL: there NaN is above every number, so the ranges below refuse what is not finite
        yield rule("not_finite", _where(_is_infinite), "", "a finite number", _FIGURE)
        numbers = (
            _money(locale.currency, positive=column.positive) if column.kind is Kind.MONEY else _NUMBERS[column.kind]
        )
        for kind, test, sql, expected, fix in numbers:
            if not (column.signed and kind.startswith("negative")):
                yield rule(kind, _where_finite(test), sql, expected, fix)


_ValueRule = tuple[str, Callable[[NDArray[Any]], Flags], str, str, str | Callable[[Cells, int], str]]


def _dates(as_of: date | None) -> tuple[_ValueRule, _ValueRule]:
    as_of = None if as_of is None or as_of >= END_DAY else as_of  # a later day bounds nothing
    end = END_DAY if as_of is None else as_of + timedelta(days=1)
    first, after = start_of_day(FIRST_DAY), start_of_day(end)
    years = f"a date from {FIRST_DAY.year} to {END_DAY.year - 1}"
    kind, expected, fix = "date_range", years, "Correct the date."
    if as_of is not None:
        kind, expected, fix = (
            "future_date",
            f"a date no later than {as_of}",
            "Correct the date, or give a later --as-of.",
        )
    return (
        ("date_range", lambda v: v < first, f"{{x}} < DATE '{FIRST_DAY}'", years, "Correct the date."),
        (kind, lambda v: v >= after, f"{{x}} >= DATE '{end}'", expected, fix),
    )


def _choice_fix(cells: Cells, place: int) -> str:
    return did_you_mean(cells.typed[place].as_py(), cells.column.choices) or "Use one of these words."


def _depth_fix(cells: Cells, place: int) -> str:
    return depth_advice(cells.values[place]) or "Give the depth as a share."


_FIGURE, _SIGN = "Put in the true figure, or leave the row out.", "Correct the sign or the figure."
_NOBODY = "Leave out customers who bought nothing, or give the basket's full price."
_MOST = f"at most {LARGEST_COUNT:,}"
_NUMBERS: Mapping[Kind, tuple[_ValueRule, ...]] = {
    Kind.DEPTH: (("depth_range", lambda v: (v < 0) | (v >= 1), "{x} < 0 OR {x} >= 1", EXPECTED_DEPTH, _depth_fix),),
    Kind.COUNT: (
        ("negative_count", lambda v: v < 0, "{x} < 0", "a count of 0 or more", _SIGN),
        (
            "not_whole",
            lambda v: v != np.floor(v),
            "{x_real} <> floor({x_real})",
            "a whole number",
            "Correct the count.",
        ),
        ("too_large", lambda v: v > LARGEST_COUNT, f"{{x}} > {LARGEST_COUNT}", _MOST, "Check the column."),
    ),
}


def _money(currency: Currency, *, positive: bool) -> tuple[_ValueRule, ...]:
    """positive: an amount that rounds to nothing is refused, too."""
    most, per_unit = currency.largest_amount, currency.minor_per_unit
    amounts: tuple[_ValueRule, ...] = (
        ("negative_money", lambda v: v < 0, "{x} < 0", "an amount of 0 or more", _SIGN),
        ("too_large", lambda v: v > most, f"{{x}} > {most}", f"at most {most:,}", "Check the unit."),
    )
    zero: _ValueRule = (
        "zero_amount",
        lambda v: (v >= 0) & (np.rint(np.minimum(v, 1.0) * per_unit) == 0),
        "{x_minor} = 0",
        f"an amount of at least {currency.smallest}",
        _NOBODY,
    )
    return (*amounts, zero) if positive else amounts


def _where(test: Callable[[NDArray[Any]], Flags]) -> Test:
    return lambda cells: np.asarray(cells.valid & test(cells.values))


def _where_finite(test: Callable[[NDArray[Any]], Flags]) -> Test:
    return lambda cells: np.asarray(cells.valid & np.isfinite(cells.values) & test(cells.values))


def _is_infinite(values: NDArray[Any]) -> Flags:
    return np.asarray(~np.isfinite(values))


def _missing(cells: Cells) -> Flags:
    return cells.missing


def _is_unusable_id(cells: Cells) -> Flags:
    ids = cells.typed
    if pa.types.is_uint64(ids.type):
        return flags(pc.greater(ids, pa.scalar(_LARGEST_ID, pa.uint64())))
    if not is_text(ids.type):
        return np.zeros(len(ids), np.bool_)
    too_long = flags(pc.greater(pc.binary_length(ids), LONGEST_ID_BYTES))
    letters = np.frombuffer(ids.buffers()[2] or b"", np.uint8)
    if letters.all():  # quick: no NUL anywhere
        return too_long
    return too_long | flags(pc.match_substring(ids, "\0"))


def _row_rule(declared: RowRule, locale: Locale) -> Rule:
    name, other = declared.column, declared.other
    if declared.relation is Relation.SAID_WITH:
        return Rule(
            "missing_kind",
            name,
            lambda row: row[other].valid,
            "",
            f"the column {name} in a file with {other}",
            "Say which rows are refunds or corrections.",
            needs=(other,),
            found=lambda row, place: f"no column {name}, but {other} {row[other].show(place)}",
            of_absent=True,
        )
    if declared.relation is Relation.AT_MOST:
        return Rule(
            "paid_above_full_price",
            name,
            lambda row: row[name].comparable() > row[other].comparable(),
            f"{{{name}_minor}} > {{{other}_minor}}",
            f"at most the {other} of its row",
            f"Check that {other} is the value before the discount.",
            needs=(name, other),
        )
    if declared.relation is Relation.NOT_BEFORE:
        return Rule(
            "redeemed_before_sent",
            name,
            lambda row: is_before(row[name].values, row[other].values, reversed_us=locale.reversed_us),
            _is_before_sql(f"{{{name}}}", f"{{{other}}}", reversed_us=locale.reversed_us),
            f"a time at or after {other}",
            "Check whether the two columns are swapped or in different time zones.",
            needs=(name, other),
            found=lambda row, place: f"{row[name].show(place)}, before {row[other].show(place)}",
        )
    return Rule(
        "missing_refers_to",
        name,
        lambda row: (row[other].values != row[other].column.choices.index(declared.value)) & row[name].missing,
        f"{{{other}}} <> '{declared.value}' AND {{{name}}} IS NULL",
        "the event_id that it changes",
        "Name the event that is refunded or corrected.",
        needs=(other,),
        found=lambda row, place: f"nothing, in a {row[other].typed[place].as_py()}",
    )


def start_of_day(day: date) -> int:
    """Midnight in microseconds of the wall clock."""
    return (day - date(1970, 1, 1)).days * DAY_MICROSECONDS


def is_before(later: Integers, earlier: Integers, *, reversed_us: int = 0) -> Flags:
    """Where what should come later came first. Midnight means that only the day is known.

    reversed_us: how much it may precede the other on the wall clock, because clocks go back (`Locale.reversed_us`).

    >>> noon, midnight = 36 * 3_600_000_000, 24 * 3_600_000_000
    >>> is_before(np.array([midnight, noon - 1]), np.array([noon, noon])).tolist()
    [False, True]
    """
    only_day = (later % DAY_MICROSECONDS == 0) | (earlier % DAY_MICROSECONDS == 0)
    days_apart = later // DAY_MICROSECONDS - earlier // DAY_MICROSECONDS
    return np.where(only_day, days_apart < 0, later + reversed_us < earlier)


def _is_before_sql(later: str, earlier: str, *, reversed_us: int) -> str:
    a, b = (f"epoch_us(CAST({time} AS TIMESTAMP))" for time in (later, earlier))
    day, shift = DAY_MICROSECONDS, f" + {reversed_us}" if reversed_us else ""
    return f"CASE WHEN {a} % {day} = 0 OR {b} % {day} = 0 THEN {a} // {day} < {b} // {day} ELSE {a}{shift} < {b} END"


# ---- the one checker of a table: its columns, then each batch by the rules; every fault with its row
#
# `disco validate` lists what it finds, `disco ingest` sets the rows aside, the feature builder refuses the table.


_FILE_NAME = b"name in the file"  # metadata of a column


class Source(Protocol):
    """One table. CSV and SQL say that all their columns are text."""

    @property
    def name(self) -> str:
        """The table: customers, orders, …"""

    @property
    def file(self) -> str:
        """What problems call it."""

    @property
    def has_bytes(self) -> bool:
        """Whether cells come as bytes that may be no text."""

    @property
    def locale(self) -> Locale:
        """The currency of its money, and the time zone of its times without one."""

    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those columns, in row order; may be asked for more than once. Text may come as its bytes."""

    def place(self, row: int) -> tuple[str, int]:
        """(file, row from 1) of the row that came as number `row`, counted from 0, out of `batches`."""

    def problems(self) -> tuple[Problem, ...]:
        """What the reader itself found on the way, such as ragged rows; complete once `batches` has been read."""

    def advice(self, column: str, kind: str) -> str | None:
        """What to do about a problem of this kind, where the reader knows better than the rule; None: it does not."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table in memory, or a dataset."""

    name: str
    table: pa.Table | pads.Dataset
    file: str
    locale: Locale = POUNDS_UTC

    @property
    def has_bytes(self) -> bool:
        return False

    def schema(self) -> pa.Schema:
        return self.table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if isinstance(self.table, pa.Table):
            yield from self.table.select(list(columns)).to_batches(max_chunksize=1 << 17)
            return
        try:
            yield from self.table.to_batches(columns=list(columns), batch_size=1 << 17)
        except (pa.ArrowException, OSError) as error:  # a file that was damaged after it was opened
            found = " ".join(str(error).split())[:200]
            raise FileFormatError(self.file, found=found, expected="rows that can be read") from error

    def place(self, row: int) -> tuple[str, int]:
        return self.file, row + first_row(self.file)

    def problems(self) -> tuple[Problem, ...]:
        return ()

    def advice(self, column: str, kind: str) -> str | None:
        return None


def first_row(file: str) -> int:
    """The number of a file's first row: a spreadsheet counts the header of a CSV file, nothing else has one."""
    return 2 if file.lower().endswith(".csv") else 1


@dataclass(slots=True)
class Fault:
    """A problem in the making: what was found in the first of its rows."""

    found: str
    expected: str
    fix: str
    row: int | None = None  # counted from 0, as `Source.batches` gives them; None: the whole table or column
    rows: int = 1


class Findings(dict[tuple[str, str], Fault]):
    """The problems of one table while its batches pass by: (column, kind) → the first row and how many."""

    def note(self, kind: str, column: str, found: str, expected: str, fix: str) -> None:
        """A problem of the table or of a whole column."""
        self[column, kind] = Fault(found, expected, fix)

    def note_rows(
        self, kind: str, column: str, rows: Flags, found: Callable[[int], str], expected: str, fix: str
    ) -> None:
        """A problem of the rows flagged, of all rows of the table; `found` is asked about the first of them only."""
        if rows.any():
            row = int(np.argmax(rows))
            self[column, kind] = Fault(found(row), expected, fix, row, int(np.count_nonzero(rows)))

    def note_batch(self, rule: Rule, row: Mapping[str, Cells], broken: Flags, *, offset: int) -> None:
        """Rows of a batch that break a rule."""
        count = int(np.count_nonzero(broken))
        if known := self.get((rule.column, rule.kind)):
            known.rows += count
        else:
            place = int(np.argmax(broken))
            found, fix = rule.show(row, place), rule.advice(row, place)
            self[rule.column, rule.kind] = Fault(found, rule.expected, fix, offset + place, count)

    def problems(self, source: Source) -> tuple[Problem, ...]:
        """Sorted by column, then row."""
        names = [column.name for column in schema_of(source.name).columns]
        problems = []
        for (column, kind), finding in self.items():
            file, row = (source.file, None) if finding.row is None else source.place(finding.row)
            fix = source.advice(column, kind) or finding.fix
            problem = Problem(kind, file, column, finding.found, finding.expected, fix, row, finding.rows)
            order = names.index(column) if column in names else -1
            problems.append((order, -1 if finding.row is None else finding.row, problem))
        return tuple(problem for *_, problem in sorted(problems, key=lambda entry: entry[:2]))


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """The cells of a batch, where they are good, and the rules that rows break."""

    cells: dict[str, Cells]
    good: dict[str, Flags]
    faults: list[tuple[Rule, Flags]]


def check_batch(
    batch: pa.RecordBatch, columns: Sequence[ColumnSchema], rules: Sequence[Rule], locale: Locale
) -> CheckedBatch:
    """A batch of these columns; an optional column that it lacks is read as empty."""
    cells, good = {}, {}
    for column in columns:
        there = column.name in batch.schema.names
        raw = batch.column(column.name) if there else pa.nulls(batch.num_rows, TYPED[column.kind])
        cells[column.name] = read_cells(raw, column, locale)
        good[column.name] = cells[column.name].valid
    faults = []
    for rule in rules:
        if rule.column not in cells or any(name not in cells for name in rule.needs):
            continue  # the whole column is missing or of a wrong type, and reported as such
        is_absent = rule.column not in batch.schema.names
        if rule.of_absent != is_absent and (rule.of_absent or rule.kind == "null"):
            continue  # an optional column that is absent, or a rule about such a column
        broken = rule.broken(cells)
        for name in rule.needs:
            broken = broken & good[name]
        if broken.any():
            faults.append((rule, broken))
            if not rule.needs:  # a row rule blames two cells of which either may be right
                good[rule.column] = good[rule.column] & ~broken
    return CheckedBatch(cells, good, faults)


def named_in_file(field: pa.Field, theirs: str) -> pa.Field:
    """A column of ours that remembers what the file calls it, so that messages can name what the file has."""
    return field if field.name == theirs else field.with_metadata({_FILE_NAME: theirs.encode()})


def file_names(schema: pa.Schema) -> list[str]:
    return [(field.metadata or {}).get(_FILE_NAME, field.name.encode()).decode() for field in schema]


def usable_columns(given: pa.Schema, schema: TableSchema, findings: Findings) -> tuple[ColumnSchema, ...]:
    """The declared columns that can be read; what is wrong with the others goes to `findings`."""
    unknown = [name for name in given.names if name not in {column.name for column in schema.columns}]
    usable = []
    for column in schema.columns:
        name, count = column.name, given.names.count(column.name)
        if count == 0 and not column.optional:
            near = _nearest(name, unknown)
            found = f"no such column (the file has {listed(file_names(given))})"
            fix = (
                f"Did you mean {near!r}? Rename it, or write" if near else "Add it, or say what yours is called: write"
            )
            fix += f" `columns: {{{schema.name}: {{{name}: {near or '…'}}}}}` in disco.yaml."
            findings.note("missing_column", name, found, f"{column.kind}: {column.meaning}", fix)
        elif count > 1:
            findings.note(
                "duplicate_column", name, f"{count} columns of this name", "one", "Remove or rename the others."
            )
        elif count and not is_accepted(column.kind, given.field(name).type):
            found, fix = f"type {given.field(name).type}", "Convert the column before you write the file."
            findings.note("wrong_type", name, found, str(column.kind), fix)
        else:
            usable.append(column)
    return tuple(usable)


def further_column(name: str) -> ColumnSchema:
    """A column outside the declaration, which may hold any text."""
    return ColumnSchema(name, Kind.CHOICE, "", nullable=True)


def _nearest(name: str, others: list[str]) -> str | None:
    plain = {other.strip().lower().replace(" ", "_").replace("-", "_"): other for other in others}
    near = get_close_matches(name, plain, n=1, cutoff=0.75)
    return plain[near[0]] if near else None


def check_columns(given: pa.Schema, name: str, *, file: str) -> tuple[ColumnSchema, ...]:
    """The declared columns of a table that is to be used as `name`; TableError with every column that it cannot be."""
    findings = Findings()
    usable = usable_columns(given, SCHEMAS[name], findings)
    if problems := findings.problems(TableSource(name, given.empty_table(), file)):
        raise TableError(f"{file} cannot be used as the table {name}:", problems)
    return usable


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """A table as the declaration wants it, and what is wrong with its rows."""

    table: pa.Table  # `TableSchema.canonical`: null where a cell is empty or not good
    fault: Integers  # per row the first rule that it breaks, as a place in `rules`; -1: none
    rules: tuple[Rule, ...]

    def reasons(self) -> NDArray[np.object_]:
        """Why each row that breaks a rule was set aside, in the order of the rows."""
        return np.array([rule.reason for rule in self.rules], object)[self.fault[self.fault >= 0]]


def check_rows(name: str, table: pa.Table, locale: Locale = POUNDS_UTC) -> CheckedRows:
    """Every row by itself, for a reader that sets bad rows aside; the columns were checked before.

    locale: of the shop, for its money and for times without a zone.

    >>> rows = check_rows("returns", pa.table({"order_id": [17], "returned_at": ["2026-02-03"], "value": [-12.34]}))
    >>> [rows.rules[place].reason for place in rows.fault]
    ['value: expected an amount of 0 or more']
    """
    schema = SCHEMAS[name]
    rules = rules_of(schema, locale=locale)
    known = [column.name for column in schema.columns if column.name in table.column_names]
    (batch,) = table.select(known).combine_chunks().to_batches() or [_nothing(table.select(known).schema)]
    checked = check_batch(batch, schema.columns, rules, locale)
    fault = np.full(table.num_rows, -1)
    for rule, broken in reversed(checked.faults):  # the first rule has the last word
        fault[broken] = rules.index(rule)
    columns = {
        column.canonical_name: checked.cells[column.name].canonical(checked.good[column.name])
        for column in schema.columns
    }
    return CheckedRows(pa.table(columns), fault, rules)


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def typed_table(source: Source) -> pa.Table:
    """All columns in memory, text as the types of the declaration (ids stay text, times are of the shop's wall clock);
    further columns of bytes are text.

    Raises TableError with every cell that cannot be read; whether the values make sense is for the other rules.
    """
    names = source.schema().names
    known = {column.name: column for column in schema_of(source.name).columns}
    columns = [known.get(name) or further_column(name) for name in names]
    rules = [rule for column in columns for rule in tuple(cell_rules(column))[:2]]
    findings = Findings()
    batches: list[list[pa.Array]] = []
    rows = 0
    for batch in source.batches(names):
        cells = {
            column.name: read_cells(raw, column, source.locale)
            for column, raw in zip(columns, batch.columns, strict=True)
            if column.name in known or is_text(raw.type) or is_bytes(raw.type)
        }
        for rule in rules:
            if rule.column in cells and (broken := rule.broken(cells)).any():
                findings.note_batch(rule, cells, broken, offset=rows)
        batches.append([_common(_typed(cells[name]) if name in cells else batch.column(name)) for name in names])
        rows += batch.num_rows
    if problems := (*source.problems(), *findings.problems(source)):
        raise TableError(f"{source.file} cannot be read as the table {source.name}:", problems)
    if not batches:
        return pa.schema([(column.name, TYPED[column.kind]) for column in columns]).empty_table()
    return pa.table([pa.chunked_array(parts) for parts in zip(*batches, strict=True)], names=names)


def _typed(cells: Cells) -> pa.Array:
    """The column as it is; times written as text, of which some name a zone, are all of the wall clock."""
    is_moment = pa.types.is_timestamp(cells.typed.type) and cells.typed.type.tz is None
    if not is_moment or cells.locale.is_utc or not cells.zoned.any():
        return cells.typed
    return pa.array(cells.values, mask=~cells.valid).cast(cells.typed.type)


def readable(name: str, scan: pa.Table | pads.Dataset, *, locale: Locale = POUNDS_UTC) -> pa.Table | pads.Dataset:
    """The declared columns of a scan, with types that DuckDB has: streamed where the scan streams, or a table in memory
    where a column is text of another kind or a number of a rare type.

    The columns are checked first; TableError.
    """
    file = f"table {name}"
    declared = [column for column in check_columns(scan.schema, name, file=file) if column.name in scan.schema.names]
    scan = with_columns(scan, [column.name for column in declared])
    for column in declared:
        of = scan.schema.field(column.name).type
        of = of.value_type if pa.types.is_dictionary(of) else of
        if is_rare(of) or (is_text(of) and column.kind not in (Kind.ID, Kind.CHOICE)):
            return typed_table(TableSource(name, scan, file, locale))
    return scan


def with_columns(scan: pa.Table | pads.Dataset, names: Sequence[str]) -> pa.Table | pads.Dataset:
    """These columns, each of which is there once; a dataset stays one."""
    if list(names) == scan.schema.names:
        return scan
    if isinstance(scan, pa.Table):
        return scan.select(list(names))
    return scan.replace_schema(pa.schema([scan.schema.field(name) for name in names]))


def is_rare(of: pa.DataType) -> bool:
    """Types of numbers that DuckDB cannot read, alone or inside lists and structs."""
    inner = [of.field(at).type for at in range(of.num_fields)] if pa.types.is_nested(of) else []
    return bool(pa.types.is_float16(of) or pa.types.is_decimal256(of) or any(map(is_rare, inner)))


_COMMON_SCALE = 20  # digits after the point of a wide decimal: 18 before it are left, more than the largest amount has


def _common(values: pa.Array) -> pa.Array:
    """Numbers of a rare type in a common one; amounts of 10¹⁷ or more, beyond every limit, become 10¹⁷."""
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    if not pa.types.is_decimal256(values.type):
        return values
    scale, rough = max(0, min(values.type.scale, _COMMON_SCALE)), values.cast(pa.float64())
    small = pc.less(pc.abs(rough), 1e17)
    exact = pc.if_else(small, values, pa.scalar(None, values.type))
    exact = pc.round(exact, ndigits=scale, round_mode="half_to_even").cast(pa.decimal128(38, scale))
    beyond = pc.multiply(pc.sign(rough), 1e17).cast(pa.decimal128(38, scale))
    return pc.coalesce(exact, beyond)


def check_column(scan: pa.Table | pads.Dataset, name: str, column: str, *, file: str) -> None:
    """One declared column of a table of which nothing else is needed; TableError with what is wrong with it."""
    schema = replace(SCHEMAS[name], columns=(SCHEMAS[name].column(column),), rows=())
    source, findings, rows = TableSource(name, scan, file), Findings(), 0
    for usable in usable_columns(scan.schema, schema, findings):
        for batch in source.batches([usable.name]):
            checked = check_batch(batch, (usable,), tuple(cell_rules(usable)), POUNDS_UTC)
            for rule, broken in checked.faults:
                findings.note_batch(rule, checked.cells, broken, offset=rows)
            rows += batch.num_rows
    if problems := findings.problems(source):
        raise TableError(f"{file} cannot be used as the table {name}:", problems)
