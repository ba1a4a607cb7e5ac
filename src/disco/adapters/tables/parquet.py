"""A table in one Parquet file, or in a folder of parts, streamed."""

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from disco.adapters.tables.columns import (
    NamedSource,
    readable,
    refuse_doubled,
    too_many_columns,
    too_many_rows,
)
from disco.records.cells import is_text
from disco.records.errors import FileFormatError
from disco.records.table_rules import typed_table
from disco.records.tables import (
    FEWEST_GROUP_ROWS,
    LARGEST_COLUMN_BYTES,
    LARGEST_FOOTER_BYTES,
    LARGEST_OUTCOMES_BYTES,
    MOST_COLUMNS,
    MOST_ROWS,
    PLAIN,
    TableFormat,
    schema_of,
)

_EXPECTED = "a complete Parquet file"
_FIX = "Write or copy the file again."


class ParquetSource(NamedSource):
    """Parts in the order of their names; a row's place is its part and the row there."""

    def __init__(
        self,
        name: str,
        *,
        file: str,
        parts: Sequence[tuple[str, Path]],
        written: TableFormat = PLAIN,
    ) -> None:
        super().__init__(name, file=file, written=written)
        self._parts = tuple(parts)

    @cached_property
    def dataset(self) -> pads.Dataset:
        first: pa.Schema | None = None
        for label, path in self._parts:
            with readable(label, expected=_EXPECTED, fix=_FIX):
                if path.stat().st_size == 0:
                    raise FileFormatError(label, found="a file of zero bytes", expected=_EXPECTED, fix=_FIX)
                check_sizes(label, path)
                refuse_doubled(label, pq.read_schema(path).names)
                schema = pads.dataset(path, format="parquet").schema
            first = first or schema
            self._same_columns(label, first, schema)
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            return pads.dataset([str(path) for _, path in self._parts], format="parquet", schema=first)

    def _same_columns(self, label: str, first: pa.Schema, schema: pa.Schema) -> None:
        """Arrow would fill a column that one part lacks with nulls, and say nothing."""
        own = self._written.own_names(self.name)
        names = [own.get(column.name, column.name) for column in schema_of(self.name).columns]
        alike = {name.strip().casefold() for name in names}
        names += [name for name in (*first.names, *schema.names) if name.strip().casefold() in alike]
        for name in dict.fromkeys(names):
            ours, theirs = _types(first, name), _types(schema, name)
            if ours != theirs:
                raise FileFormatError(
                    label,
                    found=f"column {name}: {theirs}",
                    expected=f"{ours}, as in {self._parts[0][0]}",
                    fix="Write all parts with one schema.",
                )

    @property
    def rows(self) -> int:
        """Of all parts, from their metadata."""
        return sum(self._rows)

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(fragment.count_rows() for fragment in self.dataset.get_fragments())

    @property
    def _given(self) -> pa.Schema:
        return self.dataset.schema

    @property
    def _is_renamed(self) -> bool:
        return any(ours != theirs for ours, theirs in self._columns.items())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        theirs = {ours: pc.field(self._columns[ours]) for ours in columns}
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            for batch in self.dataset.to_batches(columns=theirs, batch_size=1 << 17):
                cells = [self._plain(name, column) for name, column in zip(columns, batch.columns, strict=True)]
                yield pa.record_batch(cells, names=list(columns))

    def place(self, row: int) -> tuple[str, int]:
        if len(self._parts) == 1:
            return self._parts[0][0], row + 1
        for (label, _), rows in zip(self._parts, self._rows, strict=True):
            if row < rows:
                return label, row + 1
            row -= rows
        raise IndexError(f"{self.file} has become shorter while it was read")

    def scan(self) -> pads.Dataset | pa.Table:
        """A dataset that streams; a table in memory where columns have names of their own, which a dataset keeps, or
        text in another form than the plain one."""
        unplain = [theirs for ours, theirs in self._columns.items() if not self._is_plain(ours)]
        if any(_is_text_column(self._given, name) for name in unplain):
            return typed_table(self)
        if not self._is_renamed:
            return self.dataset
        with readable(self.file, expected=_EXPECTED, fix=_FIX):
            return self.dataset.to_table(columns={ours: pc.field(name) for ours, name in self._columns.items()})


def check_sizes(
    label: str, path: Path, *, most_rows: int | None = None, in_memory: Collection[str] | None = None
) -> None:
    """Refuse a file whose columns, rows, or text of one column in one row group, are more than is read.

    Metadata says how many bytes a column takes, but text in a dictionary takes its bytes once, however often it is
    repeated; there the dictionary and its indices are read, which are as small as the metadata say.
    in_memory: columns that are read whole, so that their text is bounded over all row groups, too.
    """
    _check_footer(label, path)
    most_rows = MOST_ROWS if most_rows is None else most_rows
    with pq.ParquetFile(path) as file:
        meta = file.metadata
        if meta.num_columns > MOST_COLUMNS:
            raise too_many_columns(label, f"{meta.num_columns:,}")
        if meta.num_rows > most_rows:
            raise too_many_rows(label, f"{meta.num_rows:,} rows", most_rows)
        if meta.num_row_groups > FEWEST_GROUP_ROWS + meta.num_rows // FEWEST_GROUP_ROWS:
            found, expected = f"{meta.num_row_groups:,} row groups for {meta.num_rows:,} rows", "fewer"
            raise FileFormatError(label, found=found, expected=expected, fix="Write larger row groups.")
        names = [meta.schema.column(at).path for at in range(meta.num_columns)]
        texts = [at for at in range(meta.num_columns) if meta.schema.column(at).physical_type == "BYTE_ARRAY"]
        repeated, total = [], 0
        for group in range(meta.num_row_groups):
            for at in texts:
                chunk = meta.row_group(group).column(at)
                if chunk.total_uncompressed_size > LARGEST_COLUMN_BYTES:
                    raise _too_wide(label, names[at], chunk.total_uncompressed_size)
                most = chunk.total_uncompressed_size
                if chunk.has_dictionary_page:
                    most *= chunk.num_values
                    repeated.append((group, names[at], most))
                total += most if in_memory is not None and names[at] in in_memory else 0
    is_large = total > LARGEST_OUTCOMES_BYTES
    unsure = [
        (group, name, most)
        for group, name, most in repeated
        if most > LARGEST_COLUMN_BYTES or (is_large and in_memory is not None and name in in_memory)
    ]
    if unsure:
        with pq.ParquetFile(path, read_dictionary=sorted({name for _, name, _ in unsure})) as file:
            for group, name, most in unsure:
                columns = file.read_row_group(group, columns=[name]).columns
                size = sum(_unpacked_bytes(chunk) for column in columns for chunk in column.chunks)
                if size > LARGEST_COLUMN_BYTES:
                    raise _too_wide(label, name, size)
                total -= most - size if in_memory is not None and name in in_memory else 0
    if total > LARGEST_OUTCOMES_BYTES:
        found, expected = f"{total:,} bytes of text", f"at most {LARGEST_OUTCOMES_BYTES:,}"
        raise FileFormatError(label, found=found, expected=expected, fix="Cut the file, or shorten the cells.")


def _check_footer(label: str, path: Path) -> None:
    """Arrow reads the whole footer, into several times its size; its length stands before the last four bytes."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) < 8:
            return  # no Parquet file, which Arrow says better
        stream.seek(-8, os.SEEK_END)
        length = int.from_bytes(stream.read(4), "little")
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet and length > LARGEST_FOOTER_BYTES:
        found, expected = f"{length:,} bytes of metadata", f"at most {LARGEST_FOOTER_BYTES:,}"
        raise FileFormatError(label, found=found, expected=expected, fix="Write larger row groups or fewer columns.")


def _unpacked_bytes(column: pa.Array) -> int:
    while pa.types.is_nested(column.type):  # of one leaf, so each level has one child
        column = column.flatten()[0] if pa.types.is_struct(column.type) else column.flatten()
    if not isinstance(column, pa.DictionaryArray):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _too_wide(label: str, column: str, size: int) -> FileFormatError:
    found = f"{size:,} bytes of text in column {column} of one row group"
    fix = "Shorten the cells, leave the column out, or write smaller row groups."
    return FileFormatError(label, found=found, expected=f"at most {LARGEST_COLUMN_BYTES:,}", fix=fix)


def _is_text_column(schema: pa.Schema, name: str) -> bool:
    of = schema.field(name).type
    return is_text(of.value_type if pa.types.is_dictionary(of) else of)


def _types(schema: pa.Schema, name: str) -> str:
    return " and ".join(str(schema.field(at).type) for at in schema.get_all_field_indices(name)) or "absent"
