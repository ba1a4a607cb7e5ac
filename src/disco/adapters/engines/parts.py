"""The parts of a table: a few row groups of a Parquet file, or rows in memory, read by whoever they are handed to.

A part can be pickled: threads of this machine and executors of a cluster read files with the same function, so a column
has the same type and the same bits everywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from disco.records.errors import FileFormatError, InputError
from disco.records.manifest import TableFile, common_schema, complete_parquet, table_files
from disco.records.table_rows import in_pieces

TABLE_CHUNK_ROWS = 1 << 17  # of 9 columns: 9 MB


class Part(Protocol):
    """Reads a few chunks."""

    def __call__(self) -> Iterator[pa.Table]: ...


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Rows that travel with the part."""

    chunk: pa.Table

    @property
    def rows(self) -> int:
        return int(self.chunk.num_rows)

    def __call__(self) -> Iterator[pa.Table]:
        yield self.chunk


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups of a Parquet file; a large one is read as several chunks."""

    path: str
    groups: tuple[int, ...]
    rows: int
    """How many these have together."""
    schema: pa.Schema
    """The columns that are read, and their types."""
    chunk_rows: int
    keys: tuple[tuple[str, str | None], ...] = ()
    """Columns that the folder of the file says (`TableFile`)."""

    def __call__(self) -> Iterator[pa.Table]:
        own = self.schema.names[: len(self.schema) - len(self.keys)]
        with complete_parquet(Path(self.path)), pq.ParquetFile(self.path) as file:
            if absent := sorted({*own}.difference(file.schema_arrow.names)):
                expected, fix = "the columns that it had before", "Change no file while it is read."
                raise FileFormatError(self.path, found=f"no column {absent[0]}", expected=expected, fix=fix)
            batches = file.iter_batches(self.chunk_rows, row_groups=list(self.groups), columns=own, use_threads=False)
            for chunk in in_pieces(batches, self.chunk_rows):
                chunk = chunk.select(own).replace_schema_metadata(None)
                for name, value in self.keys:
                    chunk = chunk.append_column(name, pa.repeat(pa.scalar(value, pa.string()), chunk.num_rows))
                yield chunk.cast(self.schema)


StoredPart: TypeAlias = InMemory | RowGroups


def parts_of(source: Any) -> tuple[pa.Schema, tuple[StoredPart, ...]]:
    """The schema and the parts of a table in memory, a Parquet file, a folder of such files or a dataset of them.

    There is at least one part; a table without rows is one in memory.
    """
    if isinstance(source, pa.Table):
        return source.schema.remove_metadata(), tuple(_slices(source))
    if isinstance(source, pads.FileSystemDataset):
        files, schema = [TableFile(Path(file)) for file in source.files], source.schema.remove_metadata()
    elif isinstance(source, str | Path):
        files = table_files(Path(source))
        schema = common_schema(files)
    else:
        expected = "the path of a Parquet file or of a folder of them, or a pyarrow.Table"
        raise InputError("table", found=type(source).__name__, expected=expected)
    parts = [part for file in files for part in _groups(file, schema)]
    return schema, tuple(parts) or tuple(_slices(schema.empty_table()))


def _slices(table: pa.Table) -> Iterator[InMemory]:
    bare = table.replace_schema_metadata(None)
    for first in range(0, max(table.num_rows, 1), TABLE_CHUNK_ROWS):
        yield InMemory(bare.slice(first, TABLE_CHUNK_ROWS))


def _groups(file: TableFile, schema: pa.Schema) -> Iterator[RowGroups]:
    """Consecutive row groups of about a chunk together; a larger one alone."""
    held, rows, place = list[int](), 0, str(file.path.absolute())
    with complete_parquet(file.path):
        metadata = pq.read_metadata(file.path)
    for number in range(metadata.num_row_groups):
        more = metadata.row_group(number).num_rows
        if not more:
            continue
        if held and rows + more > TABLE_CHUNK_ROWS:
            yield RowGroups(place, tuple(held), rows, schema, TABLE_CHUNK_ROWS, file.keys)
            held, rows = [], 0
        held.append(number)
        rows += more
    if held:
        yield RowGroups(place, tuple(held), rows, schema, TABLE_CHUNK_ROWS, file.keys)
