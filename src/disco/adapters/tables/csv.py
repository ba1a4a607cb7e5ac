"""A table in a CSV file: UTF-8 with or without a byte-order mark, commas, a header line; every cell stays text.

Ids keep their leading zeros because nothing guesses types; an empty cell is null.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from disco.adapters.tables.file_errors import readable, refuse_doubled
from disco.records.errors import FileFormatError, Problem
from disco.records.validation import typed_table

_EXPECTED = "a CSV file in UTF-8 with a header line and commas"
_FIX = "Export it again as CSV UTF-8 (comma delimited)."
_BLOCK_BYTES = 1 << 23  # also the longest row that can be read


class CsvSource:
    """Rows with too many or too few cells are set aside, counted and reported."""

    has_bytes = True

    def __init__(self, name: str, *, file: str, path: Path) -> None:
        self.name, self.file = name, file
        self._path = path
        self._ragged: list[pa.csv.InvalidRow] = []

    @cached_property
    def _header(self) -> tuple[str, ...]:
        with readable(self.file, expected=_EXPECTED, fix=_FIX), self._path.open("rb") as stream:
            opening = stream.read(1 << 16)
        found = None
        if not opening.strip():
            found = "an empty file"
        elif opening[:2] in (b"\xff\xfe", b"\xfe\xff"):
            found = "text in UTF-16"
        elif b"\0" in opening:
            found = "bytes that are not text"
        elif b"," not in (line := opening.removeprefix(b"\xef\xbb\xbf").splitlines()[0]):
            other = next((mark for mark in (";", "\t", "|") if mark.encode() in line), None)
            found = f"a header with {other!r} between the columns" if other else "a header with a single column"
        if found:
            raise FileFormatError(self.file, found=found, expected=_EXPECTED, fix=_FIX)
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            names = self._open(lambda _: "skip").schema.names
        refuse_doubled(self.file, names)
        return tuple(names)

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._header])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = self._header
        ragged: list[pa.csv.InvalidRow] = []

        def set_aside(row: pa.csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        with readable(self.file, expected=_EXPECTED, fix="Look for a quotation mark that is never closed."):
            yield from self._open(set_aside, names=names, columns=columns)
        self._ragged = ragged

    def _open(
        self, set_aside: Callable[[pa.csv.InvalidRow], str], *, names: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> pa.csv.CSVStreamingReader:
        return pa.csv.open_csv(
            self._path,
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),  # bytes: what is no UTF-8 is reported by row
                include_columns=list(columns),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )

    def place(self, row: int) -> tuple[str, int]:
        before = np.array([ragged.number - 1 for ragged in self._ragged], np.int64)
        skipped = int(np.searchsorted(before - np.arange(before.size), row + 1, side="right"))
        return self.file, row + 1 + skipped

    def problems(self) -> tuple[Problem, ...]:
        if not self._ragged:
            return ()
        first = self._ragged[0]
        return (
            Problem(
                "ragged_row",
                self.file,
                "",
                found=f"{first.actual_columns} cells: {first.text[:60]!r}",
                expected=f"{first.expected_columns} cells, as in the header",
                fix="Put quotation marks around cells that hold a comma; give every cell.",
                row=first.number - 1,
                rows=len(self._ragged),
            ),
        )

    def scan(self) -> pa.Table:
        return typed_table(self)
