"""Feature and training rows on disk: Parquet, written batch by batch, there whole or not at all."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.features.builder import AS_OF_KEY
from disco.features.catalogue import FEATURES_KEY, Feature, from_text
from disco.features.snapshot import SnapshotCounter, with_snapshot
from disco.records.arrays import Flags
from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole
from disco.records.table_rows import in_pieces

_ROW_GROUP = 1 << 17  # rows that are read at a time
_COLUMNS_AT_ONCE = 4  # that Arrow reads side by side
SAMPLE_ROWS = 300_000  # enough to see a change of distribution
TABLES_KEY = b"disco.tables"  # metadata: the folder the rows were computed from


def write_batches(
    path: Path,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    *,
    at_end: Callable[[], pa.Schema] | None = None,
) -> int:
    """Stream batches to a Parquet file; returns the number of rows.

    at_end: the same schema with the metadata that is known only after the last batch.
    """
    with written_whole(path) as unfinished:
        return stream_batches(unfinished, schema, batches, at_end=at_end)


def stream_batches(
    path: Path,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    *,
    at_end: Callable[[], pa.Schema] | None = None,
) -> int:
    """As `write_batches`, into a file that its caller brings to disk and names.

    The bytes do not depend on how the rows are divided into batches.
    """
    rows = 0
    with pq.ParquetWriter(path, schema) as writer:
        for piece in in_pieces(batches, _ROW_GROUP):
            writer.write_table(piece.cast(schema), row_group_size=_ROW_GROUP)
            rows += piece.num_rows
        if at_end is not None:
            complete = at_end()
            # Arrow reads the metadata of a file from the copy of its schema under this key
            own = base64.b64encode(complete.serialize().to_pybytes())
            writer.add_key_value_metadata({**(complete.metadata or {}), b"ARROW:schema": own})
    return rows


def write_features(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Stream the features of a shop to a Parquet file whose metadata holds their snapshot; returns the customers."""
    with written_whole(path) as unfinished:
        return stream_features(unfinished, schema, batches)


def stream_features(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """As `write_features`, into a file that its caller brings to disk and names."""
    counter = SnapshotCounter(schema)
    return stream_batches(path, schema, counter.watch(batches), at_end=lambda: with_snapshot(schema, counter.snapshot))


@dataclass(frozen=True, slots=True, eq=False)
class FeatureFile:
    """Features in a Parquet file, of all its customers or of some, read a column or a row group at a time.

    Implements `records.table_rows.TableRows`. The file stays open, so it can be read after its name is gone.
    """

    file: pq.ParquetFile
    schema: pa.Schema
    rows: Flags | None = None
    """Of the file, which are meant; None: all."""
    content: str | None = None
    """The hash of these rows (`records.content`), where it is known."""
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
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file written by `disco features`")
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileFormatError(
            str(path), found=str(error).splitlines()[0], expected="a complete Parquet file"
        ) from error


def read_sample(path: Path, *, rows: int = SAMPLE_ROWS) -> pa.Table:
    """Evenly spread rows of a feature file, about so many at most, one row group in memory at a time."""
    schema = read_schema(path)
    try:
        with pq.ParquetFile(path) as file:
            stride = max(1, -(-file.metadata.num_rows // rows))
            groups = (file.read_row_group(number) for number in range(file.num_row_groups))
            parts = [group.take(pa.array(range(0, group.num_rows, stride), pa.int64())) for group in groups]
    except (pa.ArrowInvalid, OSError) as error:
        raise FileFormatError(
            str(path), found=str(error).splitlines()[0], expected="a complete Parquet file"
        ) from error
    return pa.concat_tables(parts) if parts else schema.empty_table()


def built_as_of(schema: pa.Schema) -> str | None:
    """The date a feature table was built as of; None where it does not say."""
    value = (schema.metadata or {}).get(AS_OF_KEY)
    return None if value is None else value.decode()


def built_features(schema: pa.Schema) -> tuple[Feature, ...]:
    """The definitions of a feature file's columns."""
    return from_text((schema.metadata or {}).get(FEATURES_KEY, b"").decode())


def built_from(schema: pa.Schema) -> str | None:
    """The folder of tables a feature file was built from; None where it does not say."""
    value = (schema.metadata or {}).get(TABLES_KEY)
    return None if value is None else value.decode()
