"""A table in a CSV file: a header line, then rows; every cell stays text.

The delimiter and a byte-order mark are found in the file. How numbers and dates are written is never guessed: the plain
form (12.50, 2026-12-31) is read, any other needs the setting `csv`. Ids keep their leading zeros because nothing
guesses types; an empty cell is null. A row's number is that of a spreadsheet: the header is row 1.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from disco.adapters.tables.columns import (
    NamedSource,
    readable,
    too_many_columns,
    too_many_rows,
)
from disco.adapters.tables.notation import NUMBERS, point_groups
from disco.records.arrays import Integers
from disco.records.cells import plain_text
from disco.records.errors import FileFormatError, Problem
from disco.records.tables import (
    DELIMITERS,
    LONGEST_HEADER_BYTES,
    MOST_COLUMNS,
    MOST_RAGGED_ROWS,
    PLAIN,
    TableFormat,
)

_EXPECTED = "a CSV file with a header line"
_FIX = "Export it again as CSV (UTF-8)."
_BLOCK_BYTES = 1 << 23  # also the longest row that can be read
_EMPTY_LINES = (b"\n\n", b"\n\r\n", b"\r\r", b"\n\0\n", b"\n\0\r\0\n")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class CsvSource(NamedSource):
    """Rows with too many or too few cells are set aside, counted and reported."""

    has_bytes = True

    def __init__(self, name: str, *, file: str, path: Path, written: TableFormat = PLAIN) -> None:
        super().__init__(name, file=file, written=written)
        self._path = path
        self._ragged: list[pa.csv.InvalidRow] = []
        self._point_groups: dict[str, _PointGroups] = {}

    @cached_property
    def _opening(self) -> bytes:
        with readable(self.file, expected=_EXPECTED, fix=_FIX), self._path.open("rb") as stream:
            opening = stream.read(1 << 16)
        found = None
        if not opening.removeprefix(codecs.BOM_UTF8).strip():
            found = "an empty file"
        elif b"\0" in _first_line(opening) and opening[:2] not in _UTF_16 and self._written.csv.encoding is None:
            found = "bytes that are not text"  # further below it is one cell, which the rules name by its row
        if found:
            raise FileFormatError(self.file, found=found, expected=_EXPECTED, fix=_FIX)
        return opening

    @cached_property
    def encoding(self) -> str:
        """As the settings say; without them UTF-8, or UTF-16 where the file begins with its byte-order mark."""
        opening = self._opening  # first: Arrow never ends with a file that is nothing but a mark, when told an encoding
        if self._written.csv.encoding is not None:
            return self._written.csv.encoding
        return "utf-16" if opening[:2] in _UTF_16 else "utf-8"

    @cached_property
    def delimiter(self) -> str:
        """As the settings say; else the only one that the header has. A header without any is a single column."""
        if self._written.csv.delimiter is not None:
            return self._written.csv.delimiter
        text = self._opening.decode(self.encoding, errors="replace").removeprefix("\ufeff")
        line = next(line for line in text.splitlines() if line.strip())
        split = {mark: next(csv.reader([line], delimiter=mark)) for mark in DELIMITERS}
        there = [mark for mark, names in split.items() if len(names) > 1]
        if len(there) > 1:  # a mark inside a name: the delimiter is the one that gives names we know
            own, other = self._written.own_names(self.name), self._written.other_names(self.name)
            known = {name.casefold() for name in (*self._kinds, *own.values(), *other.values())}
            there = [m for m in there if known & {name.strip().casefold() for name in split[m]}] or there
        if len(there) > 1:
            found = f"a header with {' and '.join(DELIMITERS[mark] for mark in there)}"
            fix = f'Say which one it is in disco.yaml, such as `csv: {{delimiter: "{there[-1]}"}}`.'
            raise FileFormatError(self.file, found=found, expected="one delimiter between columns", fix=fix)
        return there[0] if there else ","

    @cached_property
    def _given(self) -> pa.Schema:
        expected = f"a CSV file in {self.encoding.upper()} with a header line"
        check_header(self.file, self._path, delimiter=self.delimiter, encoding=self.encoding)
        ragged: list[pa.csv.InvalidRow] = []
        with _ragged_counted(self.file, ragged), readable(self.file, expected=expected, fix=_FIX):
            return pa.schema([(name, pa.string()) for name in self._open(ragged).schema.names])

    def notes(self) -> tuple[str, ...]:
        notes = []
        if self._written.csv.delimiter is None and self.delimiter != ",":
            notes.append(f"{self.file}: columns are separated by {DELIMITERS[self.delimiter]}")
        if self._written.csv.encoding is None and self.encoding != "utf-8":
            notes.append(f"{self.file}: text is in {self.encoding.upper()}")
        return (*notes, *super().notes())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        theirs = [self._columns[name] for name in columns]
        if not theirs:  # Arrow would give all of them
            return
        ragged: list[pa.csv.InvalidRow] = []
        rows, groups = 0, {name: _PointGroups() for name in columns if self._kinds.get(name) in NUMBERS}
        with (
            _ragged_counted(self.file, ragged),
            readable(self.file, expected=_EXPECTED, fix="Look for a quotation mark that is never closed."),
        ):
            for batch in self._open(ragged, columns=theirs):
                cells = [self._plain(name, column) for name, column in zip(columns, batch.columns, strict=True)]
                if self.delimiter != "," and self._written.csv.decimal is None:
                    for name, group in groups.items():
                        group.add(cells[columns.index(name)], offset=rows)
                rows += batch.num_rows
                yield pa.record_batch(cells, names=list(columns))
        self._ragged = ragged
        self._point_groups |= groups

    def _open(self, ragged: list[pa.csv.InvalidRow], *, columns: Sequence[str] = ()) -> pa.csv.CSVStreamingReader:
        """The rows; those with too many or too few cells are added to `ragged` instead."""

        def set_aside(row: pa.csv.InvalidRow) -> str:
            # their texts together may be as long as the file, and more: only the first is shown
            ragged.append(row._replace(text="") if ragged else row)
            return "error" if len(ragged) > MOST_RAGGED_ROWS else "skip"

        return pa.csv.open_csv(
            self._path,
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=self.encoding),
            parse_options=pa.csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                invalid_row_handler=set_aside if self._is_text else None,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.binary()),  # bytes: what is no UTF-8 is reported by row
                include_columns=list(columns),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )

    @cached_property
    def _is_text(self) -> bool:
        """Whether PyArrow can hand over any row as text; handing over one that it cannot ends the process."""
        if codecs.lookup(self.encoding).name != "utf-8":
            return True  # it is converted before it is cut into rows
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            with self._path.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    if not block.isascii() or decoder.getstate()[0]:  # most files are ASCII, which needs no decoding
                        decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return True

    def place(self, row: int) -> tuple[str, int]:
        before = np.array([ragged.number - 1 for ragged in self._ragged], np.int64)
        skipped = int(np.searchsorted(before - np.arange(before.size), row + 1, side="right"))
        return self.file, self._sheet_row(row + 2 + skipped)

    def _sheet_row(self, number: int) -> int:
        """The spreadsheet's row of a line that has this number when empty lines are not counted; the header is 1."""
        blank = self._blank_rows
        return number + int(np.searchsorted(blank - np.arange(blank.size), number, side="right"))

    def sheet_rows(self, rows: int) -> Integers | None:
        """The spreadsheet's numbers of the first rows, those set aside included; None: no line is empty, so 2, 3, …"""
        blank, numbers = self._blank_rows, np.arange(2, rows + 2)
        return numbers + np.searchsorted(blank - np.arange(blank.size), numbers, side="right") if blank.size else None

    @cached_property
    def _blank_rows(self) -> Integers:
        """The spreadsheet's rows that are empty lines."""
        with self._path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
            if content[0] not in b"\r\n" and all(content.find(pair) < 0 for pair in _EMPTY_LINES):
                return np.empty(0, np.int64)
        blank: list[int] = []
        with self._path.open(encoding=self.encoding, errors="replace", newline="") as text, suppress(csv.Error):
            # an Error: a cell too long for this reader; rows below it are numbered as if nothing empty followed
            for at, cells in enumerate(csv.reader(text, delimiter=self.delimiter), start=1):
                if not cells:
                    blank.append(at)
        return np.array(blank, np.int64)

    def problems(self) -> tuple[Problem, ...]:
        return (*self._ragged_problem(), *self._group_problems())

    def ragged_rows(self) -> tuple[tuple[int, str], ...]:
        """Of the rows with too many or too few cells: the place among all rows, from 0, and what was found."""
        return tuple(
            (row.number - 2, f"{row.actual_columns} cells; the header has {row.expected_columns}")
            for row in self._ragged
        )

    def _ragged_problem(self) -> Iterator[Problem]:
        if self._ragged:
            first = self._ragged[0]
            yield Problem(
                "ragged_row",
                self.file,
                "",
                found=f"{first.actual_columns} cells: {first.text[:60]!r}",
                expected=f"{first.expected_columns} cells, as in the header",
                fix=f"Put quotation marks around cells that hold {_a_mark(self.delimiter)}; give every cell.",
                row=self._sheet_row(first.number),
                rows=len(self._ragged),
            )

    def _group_problems(self) -> Iterator[Problem]:
        """Beside semicolons a point may well group thousands: asked about where no cell shows what it means."""
        for name, group in self._point_groups.items():
            if group.rows and not group.is_decimal:
                fix = (
                    'Say what the point means: write `csv: {decimal: ","}` (1.234 is one thousand) or '
                    '`csv: {decimal: "."}` (1.234 is a little more than one) in disco.yaml.'
                )
                found = f"{group.shown!r}, which may be {group.shown.replace('.', '')} or {group.shown}"
                _, row = self.place(group.row)
                expected = "numbers with one meaning"
                yield Problem("ambiguous_number", self.file, name, found, expected, fix, row=row, rows=group.rows)

    def advice(self, column: str, kind: str) -> str | None:
        if kind == "encoding" and self._written.csv.encoding is None:
            return "Save the file as UTF-8, or write `csv: {encoding: cp1252}` (Excel in Western Europe) in disco.yaml."
        return super().advice(column, kind)


class _PointGroups:
    """How many cells of a column are written as 1.234, the first of them, and whether others show what it means."""

    def __init__(self) -> None:
        self.rows, self.row, self.shown, self.is_decimal = 0, 0, "", False

    def add(self, cells: pa.Array, *, offset: int) -> None:
        text = plain_text(cells.view(pa.string()))
        if not pa.types.is_string(text.type):
            return
        grouped, shows = point_groups(text)
        if not self.rows and grouped.any():
            place = int(np.argmax(grouped))
            self.row, self.shown = offset + place, text[place].as_py().strip()
        self.rows += int(np.count_nonzero(grouped))
        self.is_decimal = self.is_decimal or shows


def check_header(file: str, path: Path, *, delimiter: str, encoding: str) -> None:
    """Refuse too many columns by counting delimiters in the header line: Arrow takes kilobytes for each column."""
    with readable(file, expected=_EXPECTED, fix=_FIX), path.open("rb") as stream:
        text = stream.read(LONGEST_HEADER_BYTES).decode(encoding, errors="replace").lstrip("\ufeff\r\n")
        is_whole = not stream.read(1)
    # as Arrow reads: a quotation mark counts at the beginning of a cell alone
    cell = re.compile(rf'(?:"(?:[^"]++|"")*+"?)?[^\r\n{re.escape(delimiter)}]*+(.?)', re.DOTALL)
    at = columns = 0
    while (match := cell.match(text, at)) and match[1] == delimiter:
        at, columns = match.end(), columns + 1
        if columns == MOST_COLUMNS:
            raise too_many_columns(file, f"more than {MOST_COLUMNS:,}")
    if match and match[1]:
        return
    if not is_whole:
        found = f"a header line of more than {LONGEST_HEADER_BYTES:,} bytes"
        raise FileFormatError(file, found=found, expected=_EXPECTED, fix="Look for a quotation mark never closed.")


@contextmanager
def _ragged_counted(file: str, ragged: Sequence[pa.csv.InvalidRow]) -> Iterator[None]:
    """Name the cause where reading stopped: Arrow takes a millisecond for each such row, so too many end it."""
    try:
        yield
    except FileFormatError:
        if len(ragged) <= MOST_RAGGED_ROWS:
            raise
        found = f"more than {MOST_RAGGED_ROWS:,} rows with too many or too few cells"
        raise FileFormatError(file, found=found, expected=_EXPECTED, fix=_FIX) from None


def check_lines(file: str, path: Path, *, most_rows: int) -> None:
    """Refuse a file of more lines, by counting their ends, before any of them is cut into cells."""
    ends = {b"\n": 0, b"\r": 0}
    with readable(file, expected=_EXPECTED, fix=_FIX), path.open("rb") as stream:
        while block := stream.read(1 << 20):
            for end in ends:
                ends[end] += block.count(end)
    if (lines := max(ends.values()) - 1) > most_rows:  # one of them is the header's
        raise too_many_rows(file, f"{lines:,} lines", most_rows)


def _first_line(opening: bytes) -> bytes:
    return re.split(rb"[\r\n]", opening.lstrip(b"\r\n"), maxsplit=1)[0]


def _a_mark(delimiter: str) -> str:
    return f"a {DELIMITERS[delimiter].removesuffix('s')}"
