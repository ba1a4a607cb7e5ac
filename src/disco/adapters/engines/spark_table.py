"""Tables of the Spark engine: partitions of a cluster, each worked on where it lies."""

import math
import pickle  # nosec B403
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from disco.adapters.engines import spark_tasks as tasks
from disco.adapters.engines.local_table import ChunkFunction, most_rows, without_bucket
from disco.adapters.engines.parts import parts_of
from disco.records.errors import InputError
from disco.records.locale import Locale
from disco.records.manifest import TableManifest, folder_written_whole, parquet_files
from disco.records.ports import ChunkedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from disco.adapters.engines.spark import SparkEngine

Result = TypeVar("Result")

_FEW_SUMS = 16  # that the driver adds up by itself
_MANY = 64  # partitions, where their number is not known
_NAMED = "table:"  # before the name of a table of the catalogue
_WAREHOUSE = Path("spark-warehouse")  # where Spark keeps tables, unless its settings say otherwise
_BLOCKS, _BY_BUCKET = "block binary", "bucket int, name string, block binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkTable:
    """Implements `records.ports.ChunkedTable` with a Spark DataFrame and what is done to its rows in Python.

    All steps between two actions run as one function in one stage: rows go from Java to Python once.
    """

    engine: "SparkEngine"
    frame: "DataFrame"
    """Numbers of parts, blocks, or rows; `source` knows."""
    source: Any
    schema: pa.Schema
    steps: tuple[tuple[ChunkFunction, pa.Schema], ...] = ()
    partitions: int | None = None
    """None: Spark decides when it runs."""
    expected_rows: int | None = None

    @classmethod
    def of(cls, engine: "SparkEngine", source: Any) -> "SparkTable":
        """A DataFrame, the name of a table that the session knows as `table:NAME`, or what `parts_of` takes.

        Files are read by the executors, which have to see them under the same path.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import to_arrow_schema

        if isinstance(source, SparkTable):
            return source
        if isinstance(source, str | Path) and str(source).startswith(_NAMED):
            source = _of_catalogue(engine, str(source).removeprefix(_NAMED))
        if isinstance(source, DataFrame):
            if len(set(source.columns)) < len(source.columns):
                raise InputError("table", found="a column twice", expected="each column once")
            schema = to_arrow_schema(source.schema, timezone="UTC")
            return cls(engine, source, tasks.FromColumns(schema), schema)
        schema, parts = parts_of(source)
        frame = engine.session.range(0, len(parts), 1, len(parts))
        expected = sum(part.rows for part in parts)
        return cls(engine, frame, tasks.FromParts(parts), schema, partitions=len(parts), expected_rows=expected)

    def transform(self, function: ChunkFunction, schema: pa.Schema) -> "SparkTable":
        return replace(self, schema=schema, steps=(*self.steps, (function, schema)))

    def fold(self, function: Callable[[pa.Table], Result], add: Callable[[Result, Result], Result]) -> Result:
        dumps = self.engine.dumps
        sums = self._then(tasks.ToSum(function, add, dumps), _BLOCKS)
        partitions = self.partitions or _MANY
        while partitions > _FEW_SUMS:  # a tree: the driver gets few sums, however many partitions there are
            partitions = math.isqrt(partitions)
            sums = sums.repartition(partitions).mapInArrow(self.engine.send(tasks.AddSums(add, dumps)), _BLOCKS)
        found = [pickle.loads(row[0]) for row in self.engine.collect(sums)]  # nosec B301
        return reduce(add, found) if found else function(self.schema.empty_table())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._stored() as blocks:
            self.engine.collect(blocks.groupBy().count())  # all partitions side by side, then one after the other
            for row in blocks.toLocalIterator(prefetchPartitions=True):
                yield from tasks.read_block(pa.py_buffer(bytes(row[0]))).to_batches()

    @contextmanager
    def kept(self) -> Iterator[ChunkedTable]:
        with self._stored() as blocks:
            yield replace(self, frame=blocks, source=tasks.FromBlocks(), steps=())

    @contextmanager
    def _stored(self) -> Iterator["DataFrame"]:
        """The rows as blocks on the executors' disks.

        Not in the heap of Java: each block is larger than one of its regions, and where all of them do not fit, every
        pass drops some and reads them again. The operating system keeps files in memory as far as there is room.
        """
        from pyspark import StorageLevel

        blocks = self._then(tasks.ToBlocks(), _BLOCKS).persist(StorageLevel.DISK_ONLY)
        try:
            yield blocks
        finally:
            blocks.unpersist()

    def write(self, folder: Path) -> TableManifest:
        with folder_written_whole(folder) as unfinished:
            files = self._then(tasks.ToFile(str(unfinished), self.schema), _BLOCKS)
            named = {bytes(row[0]).decode() for row in self.engine.collect(files)}
            for path in parquet_files(unfinished):
                if path.name not in named:  # of a task that was repeated
                    path.unlink()
            there = {path.name for path in parquet_files(unfinished)}
            if there != named:
                raise InputError(
                    str(folder),
                    found=f"{len(there)} of {len(named)} files",
                    expected="a folder that the driver and all executors share under one path",
                )
            if not named:
                import pyarrow.parquet as pq

                pq.write_table(self.schema.empty_table(), unfinished / "part-00000.parquet")
        written = TableManifest.read(folder)
        assert written is not None  # for the type checker
        return written

    def to_frame(self) -> "DataFrame":
        """The rows as a DataFrame, to be saved as whatever table the session can write."""
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        schema = from_arrow_schema(self.schema)
        return self._then(tasks.ToColumns(to_arrow_schema(schema, timezone="UTC")), schema)

    def _then(self, sink: Any, schema: Any) -> "DataFrame":
        task = self.engine.send(tasks.Task(self.source, self.steps, sink))
        return self.frame.mapInArrow(task, schema)


def _of_catalogue(engine: "SparkEngine", name: str) -> "DataFrame":
    """A table or view that the session knows by this name."""
    from pyspark.errors import AnalysisException, ParseException

    before = _WAREHOUSE.exists()
    try:
        return engine.session.table(name)
    except (AnalysisException, ParseException) as error:
        if not before and _WAREHOUSE.is_dir() and not any(_WAREHOUSE.iterdir()):
            _WAREHOUSE.rmdir()  # Spark made it when it looked for the table
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        absent = "NOT_FOUND" in said
        raise InputError(
            f"{_NAMED}{name}",
            found="no such table or view in the catalogue of the Spark session" if absent else said,
            expected="the name of a table, such as table:shop.values",
            fix="`spark.catalog.listTables()` shows the tables of a session, and spark-defaults.conf names catalogues.",
        ) from None


@dataclass(frozen=True, slots=True)
class SparkTables:
    """The `Tables` port over what `SparkEngine.table` takes, by name."""

    engine: "SparkEngine"
    sources: Mapping[str, Any]
    locale: Locale

    def names(self) -> tuple[str, ...]:
        return tuple(self.sources)

    def scan(self, name: str) -> SparkTable:
        if name not in self.sources:
            raise InputError(f"table {name}", found=f"only {', '.join(self.sources)}", expected=f"a table {name}")
        return self.engine.table(self.sources[name])


@contextmanager
def spark_buckets(
    engine: "SparkEngine",
    tables: Mapping[str, ChunkedTable],
    function: Callable[[Mapping[str, pa.Table]], pa.Table],
    schema: pa.Schema,
) -> Iterator[SparkTable]:
    """Implements `TableEngine.by_bucket`: blocks of rows are exchanged between executors by their bucket."""
    schemas = {name: without_bucket(table.schema) for name, table in tables.items()}
    divided = [engine.table(table)._then(tasks.ToBuckets(name), _BY_BUCKET) for name, table in tables.items()]
    together = reduce(lambda one, other: one.unionAll(other), divided)
    together = together.repartition("bucket").sortWithinPartitions("bucket")
    source = tasks.FromBuckets(function, schemas, schema)
    yield SparkTable(engine, together, source, schema, expected_rows=most_rows(tables))
