"""Feature and training rows on disk: Parquet, written batch by batch, there whole or not at all."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from disco.features.builder import AS_OF_KEY
from disco.features.catalogue import Feature
from disco.features.selection import FEATURES_KEY, from_text
from disco.features.snapshot import SnapshotCounter, with_snapshot
from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole

_ROW_GROUP = 1 << 17  # rows that training reads at a time
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
    rows, waiting, held = 0, 0, []
    with written_whole(path) as unfinished, pq.ParquetWriter(unfinished, schema) as writer:
        for batch in batches:
            held.append(batch)
            rows, waiting = rows + batch.num_rows, waiting + batch.num_rows
            if waiting >= _ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held, schema), row_group_size=waiting)
                held, waiting = [], 0
        writer.write_table(pa.Table.from_batches(held, schema))
        if at_end is not None:
            complete = at_end()
            # Arrow reads the metadata of a file from the copy of its schema under this key
            own = base64.b64encode(complete.serialize().to_pybytes())
            writer.add_key_value_metadata({**(complete.metadata or {}), b"ARROW:schema": own})
    return rows


def write_features(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Stream the features of a shop to a Parquet file whose metadata holds their snapshot; returns the customers."""
    counter = SnapshotCounter(schema)
    return write_batches(path, schema, counter.watch(batches), at_end=lambda: with_snapshot(schema, counter.snapshot))


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
