"""Tables of the local engine: Parquet files larger than memory, read and written a chunk at a time by its threads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from disco.records.arrow_tables import in_pieces
from disco.records.errors import FileFormatError, InputError
from disco.records.files import temporary_folder
from disco.records.manifest import (
    TableFile,
    TableManifest,
    common_schema,
    complete_parquet,
    folder_written_whole,
    table_files,
)
from disco.records.ports import ChunkedTable, Engine

# ---- parts of a table: a few row groups of a Parquet file, or rows in memory, read by whoever they are handed to
#
# A part can be pickled: threads of this machine and executors of a cluster read files with the same function, so a
# column has the same type and the same bits everywhere.


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


# ---- the local engine's tables


Result = TypeVar("Result")
ChunkFunction: TypeAlias = Callable[[pa.Table], pa.Table]

_FILE_ROWS = 1 << 22  # of a file that is written
_GATHERED_ROWS = 1 << 20  # divided by bucket at a time
BUCKET = "bucket"


@dataclass(frozen=True, slots=True, eq=False)
class LocalTable:
    """Implements `records.ports.ChunkedTable` with files, or with a table in memory."""

    engine: Engine
    schema: pa.Schema
    parts: tuple[Part, ...]
    steps: tuple[tuple[ChunkFunction, pa.Schema], ...] = ()
    """What is done to a chunk after it was read."""
    expected_rows: int | None = None

    @classmethod
    def of(cls, engine: Engine, source: Any) -> "LocalTable":
        """What `parts_of` takes."""
        if isinstance(source, LocalTable):
            return source
        schema, parts = parts_of(source)
        return cls(engine, schema, parts, expected_rows=sum(part.rows for part in parts))

    def transform(self, function: ChunkFunction, schema: pa.Schema) -> "LocalTable":
        return replace(self, schema=schema, steps=(*self.steps, (function, schema)))

    def fold(self, function: Callable[[pa.Table], Result], add: Callable[[Result, Result], Result]) -> Result:
        def folded(part: Part) -> Result:
            return reduce(add, (function(chunk) for chunk in self._chunks(part)))

        return reduce(add, self.engine.map(folded, self.parts))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for chunks in self.engine.map(lambda part: list(self._chunks(part)), self.parts):
            for chunk in chunks:
                yield from chunk.to_batches()

    @contextmanager
    def kept(self) -> Iterator[ChunkedTable]:
        # what is in files or in memory need not be kept again
        if not self.steps and all(isinstance(part, InMemory | RowGroups) for part in self.parts):
            yield self
            return
        with temporary_folder("kept") as folder:
            numbers = count()
            named = ((folder / f"{next(numbers):07}.parquet", part) for part in self.parts)

            def written(one: tuple[Path, Part]) -> Path:
                path, part = one
                with pq.ParquetWriter(path, self.schema, compression="lz4", use_dictionary=False) as writer:
                    for chunk in self._chunks(part):
                        writer.write_table(chunk)
                return path

            for _ in self.engine.map(written, named):
                pass
            yield LocalTable.of(self.engine, folder)

    def write(self, folder: Path) -> TableManifest:
        with folder_written_whole(folder) as unfinished, ExitStack() as stack:
            writer, rows, files = None, 0, 0
            for batch in self.batches():
                if writer is None or rows >= _FILE_ROWS:
                    stack.close()
                    place = unfinished / f"part-{files:05}.parquet"
                    writer, rows, files = stack.enter_context(pq.ParquetWriter(place, self.schema)), 0, files + 1
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is None:
                pq.write_table(self.schema.empty_table(), unfinished / "part-00000.parquet")
            stack.close()
        written = TableManifest.read(folder)
        assert written is not None  # for the type checker
        return written

    def _chunks(self, part: Part) -> Iterator[pa.Table]:
        for chunk in part():
            for function, schema in self.steps:
                chunk = function(chunk).cast(schema)
            yield chunk


@contextmanager
def local_buckets(
    engine: Engine,
    tables: Mapping[str, ChunkedTable],
    function: Callable[[Mapping[str, pa.Table]], pa.Table],
    schema: pa.Schema,
) -> Iterator[LocalTable]:
    """Implements `TableEngine.by_bucket`: the rows of each table are laid aside in one file per bucket."""
    with temporary_folder("buckets") as folder:
        found = sorted(set[int]().union(*(_laid_aside(table, folder, name) for name, table in tables.items())))

        def part(bucket: int) -> Part:
            def read() -> Iterator[pa.Table]:
                rows = {name: _read_bucket(_place(folder, name, bucket), table) for name, table in tables.items()}
                yield function(rows).cast(schema)

            return read

        nothing = {name: without_bucket(table.schema).empty_table() for name, table in tables.items()}
        parts = [part(bucket) for bucket in found] or [lambda: iter([function(nothing).cast(schema)])]
        yield LocalTable(engine, schema, tuple(parts), expected_rows=most_rows(tables))


def most_rows(tables: Mapping[str, ChunkedTable]) -> int | None:
    """About how many rows the largest of several tables has; None: that of one of them is not known."""
    expected = [table.expected_rows for table in tables.values()]
    known = [rows for rows in expected if rows is not None]
    return max(known, default=None) if len(known) == len(expected) else None


def without_bucket(schema: pa.Schema) -> pa.Schema:
    """The schema of what a function of a bucket sees."""
    if schema.get_field_index(BUCKET) < 0 or schema.field(BUCKET).type != pa.int32():
        raise InputError("table", found=", ".join(schema.names), expected=f"a column {BUCKET} of type int32")
    return schema.remove(schema.get_field_index(BUCKET))


def by_number(chunk: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket of a chunk, without the column."""
    numbers = chunk[BUCKET].to_numpy()
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    rows = chunk.drop_columns([BUCKET]).take(pa.array(order))
    for number, start, end in zip(found.tolist(), starts, [*starts[1:], len(numbers)], strict=True):
        yield number, rows.slice(start, end - start)


def _laid_aside(table: ChunkedTable, folder: Path, name: str) -> set[int]:
    """Write the rows of each bucket to a file; which buckets there are."""
    schema, writers = without_bucket(table.schema), dict[int, Any]()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        for chunk in in_pieces(table.batches(), _GATHERED_ROWS):
            for number, rows in by_number(chunk):
                if number not in writers:
                    file = stack.enter_context(pa.OSFile(str(_place(folder, name, number)), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_file(file, schema, options=options))
                writers[number].write_table(rows)
    return set(writers)


def _place(folder: Path, name: str, bucket: int) -> Path:
    return folder / f"{name}-{bucket}.arrow"


def _read_bucket(path: Path, table: ChunkedTable) -> pa.Table:
    if not path.is_file():
        return without_bucket(table.schema).empty_table()
    with pa.memory_map(str(path)) as content, pa.ipc.open_file(content) as reader:
        return reader.read_all()
