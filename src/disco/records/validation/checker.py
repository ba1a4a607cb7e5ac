"""The one checker of a table: its columns, then each batch by the rules of the declaration; every fault with its row.

`disco validate` lists what it finds, `disco ingest` sets the rows aside, the feature builder refuses the table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from disco.records.arrays import Flags, Integers
from disco.records.errors import FileFormatError, Problem, TableError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.tables import SCHEMAS, ColumnSchema, Kind, TableSchema
from disco.records.validation.cells import TYPED, Cells, is_accepted, is_bytes, is_text, read_cells
from disco.records.validation.rules import Rule, cell_rules, rules_of

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
        names = [column.name for column in SCHEMAS[source.name].columns]
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
            present = ", ".join(file_names(given)[:12]) + ("…" if len(given.names) > 12 else "")
            found = f"no such column (the file has {present})"
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
    known = {column.name: column for column in SCHEMAS[source.name].columns}
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
