"""What every reader of tables needs: which column is which of ours, its text in the plain form, and refusals in words.

A column is ours by the setting `columns`, or by its name, whatever its case.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from disco.adapters.tables.notation import NUMBERS, TIMES, date_advice, number_advice, plain_cells
from disco.records.cells import is_bytes, is_text, plain_text
from disco.records.errors import FileFormatError, Problem, did_you_mean, listed
from disco.records.locale import Locale
from disco.records.table_rules import named_in_file, typed_table
from disco.records.tables import MOST_COLUMNS, Kind, TableFormat, schema_of


def matched_columns(table: str, given: Sequence[str], *, written: TableFormat, file: str) -> dict[str, str]:
    """Our name → the file's, for every column of the file, in its order; further columns keep their own names.

    given: the names in the file, each once.
    written: what the shop calls them (the setting `columns`).

    A column that has one of our names, while the setting gives that name to another one, is left out.

    >>> german = TableFormat(columns={"returns": {"returned_at": "datum"}})
    >>> matched_columns("returns", ["Order_ID", "Datum", "note"], written=german, file="x.csv")
    {'order_id': 'Order_ID', 'returned_at': 'Datum', 'note': 'note'}
    """
    own_names, other_names = written.own_names(table), written.other_names(table)
    theirs: dict[str, str] = {}  # the file's name → ours
    for ours, name in own_names.items():
        theirs[_found(ours, name, given, table=table, file=file)] = ours
    for column in schema_of(table).columns:
        if column.name in own_names:
            continue
        left = [name for name in given if name not in theirs]
        names = [name for name in (column.name, other_names.get(column.name), column.instead) if name]
        named = next((found for name in names if (found := alike(name, left))), [])
        if len(named) > 1:
            raise FileFormatError(
                file,
                found=f"{' and '.join(named)}, which differ in their case only",
                expected=f"one column {column.name}",
                fix=f"Say which one it is in disco.yaml: `columns: {{{table}: {{{column.name}: {named[0]}}}}}`.",
            )
        if named:
            theirs[named[0]] = column.name
    taken = set(own_names)
    return {theirs.get(name, name): name for name in given if name in theirs or name not in taken}


class NamedSource(ABC):
    """A table whose columns may have the shop's own names: what `table_rules.Source` asks of every reader alike."""

    name: str
    file: str
    locale: Locale
    has_bytes: bool = False
    has_numbers: bool = False
    """Whether its numbers were never text, so that the setting `csv.decimal` says nothing about them."""

    def __init__(self, name: str, *, file: str, written: TableFormat) -> None:
        self.name, self.file = name, file
        self._written, self.locale = written, written.locale
        self._kinds = {column.name: column.kind for column in schema_of(name).columns}

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those columns, by our names, in row order; text in the plain form."""

    @abstractmethod
    def place(self, row: int) -> tuple[str, int]:
        """The file, and the number that a person gives the row that came as number `row` out of `batches`."""

    def scan(self) -> pads.Dataset | pa.Table:
        """The whole table, with our names and the types of its declaration."""
        return typed_table(self)

    @property
    @abstractmethod
    def _given(self) -> pa.Schema:
        """The columns as they are called where they come from."""

    @cached_property
    def _columns(self) -> dict[str, str]:
        """Our name → the file's."""
        names = self._given.names
        refuse_doubled(self.file, names)
        return matched_columns(self.name, names, written=self._written, file=self.file)

    def schema(self) -> pa.Schema:
        columns = self._columns.items()  # first: two columns of one name have no field by that name
        return pa.schema([named_in_file(self._given.field(theirs).with_name(ours), theirs) for ours, theirs in columns])

    def notes(self) -> tuple[str, ...]:
        """What was found in the file without being told."""
        own = self._written.own_names(self.name)
        other = [f"{theirs} is {ours}" for ours, theirs in self._columns.items() if ours != theirs and ours not in own]
        return (f"{self.file}: {', '.join(other)}",) if other else ()

    def problems(self) -> tuple[Problem, ...]:
        """What reading has found; nothing where rows cannot be ragged."""
        return ()

    def advice(self, column: str, kind: str) -> str | None:
        """What to do about a problem, where a setting may solve it: which one to write for numbers or dates as text."""
        declared, written = self._kinds.get(column, Kind.CHOICE), self._written.csv
        if kind != "wrong_type":
            return None
        if declared in NUMBERS and not self.has_numbers:
            if written.decimal is None:
                return number_advice(self._texts(column))
            return f"Write numbers as {'12,50' if written.decimal == ',' else '12.50'}, as `csv.decimal` says."
        if declared in TIMES:
            if written.dates is None:
                return date_advice(self._texts(column))
            return f"Write dates as {written.dates}, as `csv.dates` says, or as YYYY-MM-DD."
        return None

    def _texts(self, column: str) -> Iterator[pa.Array]:
        if column not in self._columns:
            return
        for batch in self.batches([column]):
            if (text := _as_text(batch.column(0))) is not None:
                yield text

    def _is_plain(self, name: str) -> bool:
        """Whether text in the column is in the plain form already."""
        kind, written = self._kinds.get(name), self._written.csv
        is_number = kind in NUMBERS and written.decimal is not None and not self.has_numbers
        return not (is_number or (kind in TIMES and written.dates is not None))

    def _plain(self, name: str, column: pa.Array) -> pa.Array:
        """A column in which text has the plain form; bytes that are no text stay, and the rules name them by row."""
        text = None if self._is_plain(name) else _as_text(column)
        if text is None:
            return column
        return plain_cells(text, self._kinds[name], self._written.csv).cast(_text_type(column))


class ArrowSource(NamedSource):
    """Rows in memory: of a data frame, a query, a sheet of a workbook, or summed from others."""

    def __init__(
        self,
        name: str,
        table: pa.Table | Callable[[], tuple[pa.Table, int]],
        *,
        file: str,
        written: TableFormat,
        has_numbers: bool = False,
    ) -> None:
        """table: the rows, or what reads them when they are asked for, and the number of the first one."""
        super().__init__(name, file=file, written=written)
        self._rows, self.has_numbers = table, has_numbers

    @cached_property
    def _read(self) -> tuple[pa.Table, int]:
        table, first_row = (self._rows, 1) if isinstance(self._rows, pa.Table) else self._rows()
        refuse_doubled(self.file, table.column_names)
        for ours, theirs in matched_columns(
            self.name, table.column_names, written=self._written, file=self.file
        ).items():
            if self._kinds.get(ours) is Kind.ID:
                table = table.set_column(table.column_names.index(theirs), theirs, _whole_ids(table[theirs]))
        return table, first_row

    @property
    def table(self) -> pa.Table:
        """The rows under their own names; ids that came as floats are integers."""
        return self._read[0]

    @property
    def _given(self) -> pa.Schema:
        return self.table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.table.select([self._columns[name] for name in columns]).to_batches(max_chunksize=1 << 17):
            cells = [self._plain(name, column) for name, column in zip(columns, batch.columns, strict=True)]
            yield pa.record_batch(cells, names=list(columns))

    def place(self, row: int) -> tuple[str, int]:
        return self.file, row + self._read[1]

    def scan(self) -> pa.Table:
        if not all(map(self._is_plain, self._columns)):
            return typed_table(self)
        return self.table.select(list(self._columns.values())).rename_columns(list(self._columns))


def _whole_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers that came as floats, because some were missing, as pandas has them; other ids as they are."""
    if not pa.types.is_floating(ids.type) or not pc.all(pc.equal(ids, pc.floor(ids)), min_count=0).as_py():
        return ids
    known = pc.if_else(pc.is_finite(ids), ids, pa.scalar(None, ids.type))
    return known.cast(pa.int64()) if known.null_count < len(known) else ids


def _as_text(column: pa.Array) -> pa.Array | None:
    """A column of text as strings; None for other types, and for bytes that are no text."""
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if not (is_text(column.type) or is_bytes(column.type)):
        return None
    text = plain_text(column)
    return text if pa.types.is_string(text.type) else None


def _text_type(column: pa.Array) -> pa.DataType:
    """The type that its text had; that of its values where they came in a dictionary."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def alike(name: str, given: Sequence[str]) -> list[str]:
    """The names that are this one: exactly, or else whatever their case and the spaces around them."""
    if name in given:
        return [name]
    return [other for other in given if other.strip().casefold() == name.strip().casefold()]


def _found(ours: str, name: str, given: Sequence[str], *, table: str, file: str) -> str:
    named = alike(name, given)
    if len(named) == 1:
        return named[0]
    found, meant = f"no column {name} (the file has {listed(given)})", did_you_mean(name, given)
    if named:
        found, meant = f"{' and '.join(named)}, which differ in their case only", None
    fix = meant or "Correct the setting, or remove that line."
    setting = f"lines.{ours}" if table == "lines" else f"columns.{table}.{ours}"
    expected = f"the column that `{setting}` in disco.yaml names"
    raise FileFormatError(file, found=found, expected=expected, fix=fix)


# ---- what Arrow and the operating system say about a file, as errors that a person can act on


def refuse_doubled(file: str, names: Sequence[str]) -> None:
    """No reader can tell two columns of one name apart."""
    for name, count in Counter(names).items():
        if count > 1:
            fix = "Remove or rename the others."
            raise FileFormatError(file, found=f"{count} columns named {name!r:.80}", expected="one", fix=fix)


def too_many_columns(file: str, found: str) -> FileFormatError:
    """The refusal of a file, whatever its kind; found: how many it has."""
    fix = "Leave out the columns that are not needed."
    return FileFormatError(file, found=f"{found} columns", expected=f"at most {MOST_COLUMNS:,}", fix=fix)


def too_many_rows(file: str, found: str, most: int) -> FileFormatError:
    """The refusal of a file of which so many rows are read at once."""
    fix = "Cut it into several files, or leave rows out."
    return FileFormatError(file, found=found, expected=f"at most {most:,}", fix=fix)


@contextmanager
def readable(file: str, *, expected: str, fix: str) -> Iterator[None]:
    """The body reads `file`; whatever goes wrong there becomes a FileFormatError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(file, found=reason[:200], expected=expected, fix=fix) from error
