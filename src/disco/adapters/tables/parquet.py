"""A table in one Parquet file, or in a folder of parts, streamed."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads

from disco.adapters.tables.file_errors import readable
from disco.records.errors import FileFormatError, Problem
from disco.records.tables import SCHEMAS

_EXPECTED = "a complete Parquet file"
_FIX = "Write or copy the file again."


class ParquetSource:
    """Parts in the order of their names; a row's place is its part and the row there."""

    has_bytes = False

    def __init__(self, name: str, *, file: str, parts: Sequence[tuple[str, Path]]) -> None:
        self.name, self.file = name, file
        self._parts = tuple(parts)

    @cached_property
    def dataset(self) -> pads.Dataset:
        first: pa.Schema | None = None
        for label, path in self._parts:
            with readable(label, expected=_EXPECTED, fix=_FIX):
                if path.stat().st_size == 0:
                    raise FileFormatError(label, found="a file of zero bytes", expected=_EXPECTED, fix=_FIX)
                schema = pads.dataset(path, format="parquet").schema
            first = first or schema
            self._same_columns(label, first, schema)
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            return pads.dataset([str(path) for _, path in self._parts], format="parquet", schema=first)

    def _same_columns(self, label: str, first: pa.Schema, schema: pa.Schema) -> None:
        """Arrow would fill a column that one part lacks with nulls, and say nothing."""
        for column in SCHEMAS[self.name].columns:
            ours, theirs = _types(first, column.name), _types(schema, column.name)
            if ours != theirs:
                raise FileFormatError(
                    label,
                    found=f"column {column.name}: {theirs}",
                    expected=f"{ours}, as in {self._parts[0][0]}",
                    fix="Write all parts with one schema.",
                )

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(fragment.count_rows() for fragment in self.dataset.get_fragments())

    def schema(self) -> pa.Schema:
        return self.dataset.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            yield from self.dataset.to_batches(columns=list(columns), batch_size=1 << 17)

    def place(self, row: int) -> tuple[str, int]:
        if len(self._parts) == 1:
            return self._parts[0][0], row + 1
        for (label, _), rows in zip(self._parts, self._rows, strict=True):
            if row < rows:
                return label, row + 1
            row -= rows
        raise IndexError(f"{self.file} has become shorter while it was read")

    def problems(self) -> tuple[Problem, ...]:
        return ()

    def scan(self) -> pads.Dataset:
        return self.dataset


def _types(schema: pa.Schema, name: str) -> str:
    return " and ".join(str(schema.field(at).type) for at in schema.get_all_field_indices(name)) or "absent"
