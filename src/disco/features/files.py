"""Feature and training rows on disk: Parquet, written batch by batch, there whole or not at all."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.features.snapshot import SnapshotCounter, with_snapshot
from disco.records.arrays import Flags
from disco.records.arrow_tables import in_pieces
from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole

_ROW_GROUP = 1 << 17  # rows that are read at a time
_COLUMNS_AT_ONCE = 4  # that Arrow reads side by side
SAMPLE_ROWS = 300_000  # enough to see a change of distribution


def write_batches(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Stream batches to a Parquet file; returns the number of rows."""
    with written_whole(path) as unfinished:
        return _stream(unfinished, schema, batches, complete=lambda: schema)


def write_features(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Stream the features of a shop to a Parquet file whose metadata holds their snapshot; returns the customers."""
    with written_whole(path) as unfinished:
        return stream_features(unfinished, schema, batches)


def stream_features(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """As `write_features`, into a file that its caller brings to disk and names."""
    counter = SnapshotCounter(schema)
    return _stream(path, schema, counter.watch(batches), complete=lambda: with_snapshot(schema, counter.snapshot))


def _stream(
    path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, complete: Callable[[], pa.Schema]
) -> int:
    """The bytes do not depend on how the rows are divided into batches.

    complete: the same schema with the metadata that is known only after the last batch.
    """
    rows = 0
    with pq.ParquetWriter(path, schema) as writer:
        for piece in in_pieces(batches, _ROW_GROUP):
            writer.write_table(piece.cast(schema), row_group_size=_ROW_GROUP)
            rows += piece.num_rows
        last = complete()
        if last.metadata != schema.metadata:
            # Arrow reads the metadata of a file from the copy of its schema under this key
            own = base64.b64encode(last.serialize().to_pybytes())
            writer.add_key_value_metadata({**last.metadata, b"ARROW:schema": own})
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class FeatureFile:
    """Features in a Parquet file, of all its customers or of some, read a column or a row group at a time.

    Implements `records.arrow_tables.TableRows`. The file stays open, so it can be read after its name is gone.
    """

    file: pq.ParquetFile
    schema: pa.Schema
    rows: Flags | None = None
    """Of the file, which are meant; None: all."""
    content: str | None = None
    """The hash of these rows (`records.arrow_tables`), where it is known."""
    path: Path | None = None
    """Where others can open the file; None: it has no name."""

    @classmethod
    def open(cls, path: Path) -> "FeatureFile":
        """OSError or ArrowException where it cannot be read."""
        file = pq.ParquetFile(pa.OSFile(str(path)))
        return cls(file, file.schema_arrow, path=path)

    @property
    def num_rows(self) -> int:
        return int(self.file.metadata.num_rows if self.rows is None else np.count_nonzero(self.rows))

    @property
    def column_names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def columns(self) -> Iterator[pa.ChunkedArray]:
        names = self.column_names
        for first in range(0, len(names), _COLUMNS_AT_ONCE):
            yield from self._read(names[first : first + _COLUMNS_AT_ONCE]).columns

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._read([name])[0]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for number, wanted in self.row_groups():
            yield from self.row_group(number, wanted).to_batches()

    def row_groups(self) -> Iterator[tuple[int, Flags | None]]:
        """The numbers of the row groups with rows that are meant, and which these are; None: all."""
        at = 0
        for number in range(self.file.num_row_groups):
            rows = self.file.metadata.row_group(number).num_rows
            wanted = None if self.rows is None else self.rows[at : at + rows]
            at += rows
            if wanted is None or wanted.any():
                yield number, None if wanted is None or wanted.all() else wanted

    def row_group(self, number: int, wanted: Flags | None) -> pa.Table:
        """These rows of a row group."""
        group = self.file.read_row_group(number)
        return (group if wanted is None else group.filter(pa.array(wanted))).cast(self.schema)

    def filter(self, rows: Flags) -> "FeatureFile":
        """Those of these customers for whom the flag is set."""
        if rows.all():
            return self
        kept = rows
        if self.rows is not None:
            kept = self.rows.copy()
            kept[self.rows] = rows
        return replace(self, rows=kept, content=None)

    def head(self, rows: int) -> pa.Table:
        """The first rows, in memory."""
        found = next(in_pieces(self.to_batches(), rows), None)
        return self.schema.empty_table() if found is None else found

    def read(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(self.to_batches(), self.schema).combine_chunks()

    def _read(self, names: list[str]) -> Any:
        found = self.file.read(columns=names).select(names)
        return found if self.rows is None else found.filter(pa.array(self.rows))


def read_schema(path: Path) -> pa.Schema:
    """Columns and metadata of a Parquet file."""
    with _complete(path) as file:
        return file.schema_arrow


def read_sample(path: Path, *, rows: int = SAMPLE_ROWS) -> pa.Table:
    """Evenly spread rows of a feature file, about so many at most, one row group in memory at a time."""
    with _complete(path) as file:
        stride = max(1, -(-file.metadata.num_rows // rows))
        groups = (file.read_row_group(number) for number in range(file.num_row_groups))
        parts = [group.take(pa.array(range(0, group.num_rows, stride), pa.int64())) for group in groups]
        return pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()


@contextmanager
def _complete(path: Path) -> Iterator[pq.ParquetFile]:
    """The file, opened; refused where it is absent or not whole."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file written by `disco features`")
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        raise FileFormatError(
            str(path), found=str(error).splitlines()[0], expected="a complete Parquet file"
        ) from error
