"""What executors of a cluster do: plain functions over Arrow batches. They import this module and the rooms, no Spark.

Between two stages rows travel as blocks, an Arrow stream per chunk in a column of bytes: the Java side moves them
without looking inside, so every Arrow type keeps its bits, and a pass over kept rows costs no conversion of columns.
Pickles are only what the driver and its executors send each other, as everything that Spark itself sends to Python.
"""

import base64
import gc
import os
import pickle  # nosec B403
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from disco.adapters.engines.local_table import TABLE_CHUNK_ROWS, ChunkFunction, Part, by_number
from disco.records.arrow_tables import in_pieces

Batches: TypeAlias = Iterable[pa.RecordBatch]
Dumps: TypeAlias = Callable[[Any], bytes]

BLOCKS = pa.schema([("block", pa.binary())])
BY_BUCKET = pa.schema([("bucket", pa.int32()), ("name", pa.string()), ("block", pa.binary())])
_CARRIED = re.compile(r"disco-error:([A-Za-z0-9+/=]+):")
_GATHERED_ROWS = 1 << 20  # divided by bucket at a time


# ---- where chunks come from ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FromParts:
    """Each row of a batch is the number of a part."""

    parts: tuple[Part, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.parts[number]()


@dataclass(frozen=True, slots=True)
class FromColumns:
    """Batches are the rows themselves, as Spark has them."""

    schema: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        for chunk in in_pieces(batches, TABLE_CHUNK_ROWS):
            yield chunk.select(self.schema.names).replace_schema_metadata(None).cast(self.schema)


@dataclass(frozen=True, slots=True)
class FromBlocks:
    """Each row of a batch is a block."""

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        for batch in batches:
            for block in batch.column(0):
                yield read_block(block.as_buffer())


@dataclass(frozen=True, slots=True)
class FromBuckets:
    """Each row of a batch is a block of one table and bucket; all rows of a bucket follow each other."""

    function: Callable[[Mapping[str, pa.Table]], pa.Table]
    schemas: Mapping[str, pa.Schema]
    """Of the tables, without the column of the bucket."""
    schema: pa.Schema
    """Of the results."""

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        number, held = None, dict[str, list[pa.Table]]()
        for batch in batches:
            for bucket, name, block in zip(*(batch.column(at) for at in range(3)), strict=True):
                if bucket.as_py() != number:
                    if held:
                        yield from self._result(held)
                    number, held = bucket.as_py(), {}
                held.setdefault(name.as_py(), []).append(read_block(block.as_buffer()))
        if held:
            yield from self._result(held)

    def _result(self, held: Mapping[str, list[pa.Table]]) -> Iterator[pa.Table]:
        rows = {
            name: pa.concat_tables(held.get(name) or [schema.empty_table()]) for name, schema in self.schemas.items()
        }
        found = self.function(rows).cast(self.schema)
        for first in range(0, found.num_rows, TABLE_CHUNK_ROWS):
            yield found.slice(first, TABLE_CHUNK_ROWS)


# ---- what becomes of them --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToBlocks:
    def __call__(self, chunks: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            yield _batch(BLOCKS, [block_of(chunk)])


@dataclass(frozen=True, slots=True)
class ToColumns:
    schema: pa.Schema
    """With the types that Spark has."""

    def __call__(self, chunks: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            yield from chunk.cast(self.schema).to_batches()


@dataclass(frozen=True, slots=True)
class ToBuckets:
    name: str

    def __call__(self, chunks: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        batches = (batch for chunk in chunks for batch in chunk.to_batches())
        for gathered in in_pieces(batches, _GATHERED_ROWS):
            for number, rows in by_number(gathered):
                yield _batch(BY_BUCKET, [number], [self.name], [block_of(rows)])


@dataclass(frozen=True, slots=True)
class ToSum:
    """The sum over the chunks of a partition, pickled; nothing where it has none."""

    function: Callable[[pa.Table], Any]
    add: Callable[[Any, Any], Any]
    dumps: Dumps

    def __call__(self, chunks: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        results = map(self.function, chunks)
        for first in results:
            yield _batch(BLOCKS, [self.dumps(reduce(self.add, results, first))])


@dataclass(frozen=True, slots=True)
class ToFile:
    """Written to a file of its own, whose name is the result: of a task that ran twice, one file counts."""

    folder: str
    schema: pa.Schema

    def __call__(self, chunks: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        for first in chunks:
            name = f"part-{uuid4().hex}.parquet"
            with pq.ParquetWriter(Path(self.folder) / name, self.schema) as writer:
                writer.write_table(first)
                for chunk in chunks:
                    writer.write_table(chunk)
            with (Path(self.folder) / name).open("rb+") as file:
                os.fsync(file.fileno())
            yield _batch(BLOCKS, [name.encode()])


@dataclass(frozen=True, slots=True)
class AddSums:
    """One level of a tree: the sum of the sums of a partition."""

    add: Callable[[Any, Any], Any]
    dumps: Dumps

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sums = (pickle.loads(block.as_buffer()) for batch in batches for block in batch.column("block"))  # nosec B301
        for first in sums:
            yield _batch(BLOCKS, [self.dumps(reduce(self.add, sums, first))])


@dataclass(frozen=True, slots=True)
class Task:
    """Read chunks, take them through the steps, do something with the results."""

    source: Callable[[Batches], Iterator[pa.Table]]
    steps: tuple[tuple[ChunkFunction, pa.Schema], ...]
    sink: Callable[[Iterator[pa.Table]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.sink(self._chunks(batches))

    def _chunks(self, batches: Batches) -> Iterator[pa.Table]:
        for chunk in self.source(batches):
            for function, schema in self.steps:
                chunk = function(chunk).cast(schema)
            yield chunk


@dataclass(frozen=True, slots=True)
class Sent:
    """A task as it travels: pickled once, and handed to every executor once."""

    value: Any
    """A broadcast variable of bytes."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with_errors = pickle.loads(self.value.value)  # nosec B301
        try:
            yield from with_errors(batches)
        except Exception as error:
            raise RuntimeError(carried(error)) from None
        finally:
            spare_modules()


_spared = 0  # modules of this process that were loaded when it was last tidied


def spare_modules() -> None:
    """Leave what the modules of this process hold out of later collections of garbage.

    A Python process of Spark collects garbage after every task. The functions and types of the libraries are hundreds
    of thousands of objects that stay: looking at them again took several times as long as a small task.
    """
    global _spared
    if len(sys.modules) > _spared:
        gc.collect()  # garbage that is frozen would stay, too
        gc.freeze()
        _spared = len(sys.modules)


def carried(error: Exception) -> str:
    """An exception as text, which survives the way through Java."""
    try:
        content = pickle.dumps(error)
    except Exception:
        content = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return f"disco-error:{base64.b64encode(content).decode()}: {type(error).__name__}: {error}"


def uncarried(text: str) -> Exception | None:
    """The exception in the message of a failed job; None: it was not one of a chunk function."""
    found = _CARRIED.search(text)
    return None if found is None else pickle.loads(base64.b64decode(found[1]))  # nosec B301


# ---- blocks ----------------------------------------------------------------------------------------------------------


def block_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_block(block: Any) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def _batch(schema: pa.Schema, *columns: list[Any]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
