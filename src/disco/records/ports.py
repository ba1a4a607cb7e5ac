"""The few things the rooms ask of the outside world. Shells (adapters) implement them; tests use real ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from disco.records.locale import POUNDS_UTC, Locale

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.manifest import TableManifest

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """The only thing that spreads computation: threads of this machine, or a cluster.

    `function` is a pure function of its chunk. What else it needs (prices, a posterior, depths) is small and frozen and
    travels inside it, so that an engine may send it elsewhere once. The caller lays the results side by side or adds
    them up (`records.chunks`). tests/contracts/test_contract_engines.py holds every engine to this.
    """

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results in the order of the chunks, which are taken as results are used; the first error ends it."""


class ChunkedTable(Protocol):
    """A table that an engine holds in chunks: Parquet files of this machine, or partitions of a cluster.

    Chunk functions are pure, as those of `Engine.map`, and what they need travels inside them. How rows are divided
    into chunks, and in which order chunks come, is the engine's business: no result may depend on it. A table without
    rows is one chunk without rows. The first error of a chunk function reaches the caller.
    """

    @property
    def schema(self) -> "pa.Schema":
        """Of every chunk: types that Parquet and Arrow have in common with Spark (no unsigned ones, for instance)."""

    @property
    def expected_rows(self) -> int | None:
        """About how many rows there are, as far as files or the tables before say so; None: not before a pass.

        Only the time that a pass takes may depend on it. Chunk functions that leave rows out make it too large.
        """

    def transform(self, function: "Callable[[pa.Table], pa.Table]", schema: "pa.Schema") -> "ChunkedTable":
        """The table of the function's results, which have this schema. Nothing is computed before it is asked for."""

    def fold(self, function: "Callable[[pa.Table], Result]", add: Callable[[Result, Result], Result]) -> Result:
        """One pass: the sum of the function's results over all chunks.

        Results are added in pairs and in no particular order, where they arise: `add` must be exact, associative and
        commutative, and may change neither argument.
        """

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """All rows, brought to this process a few at a time, in no particular order."""

    def kept(self) -> "AbstractContextManager[ChunkedTable]":
        """The same rows, computed at most once and read back from then on, until the end of the block."""

    def write(self, folder: Path) -> "TableManifest":
        """Write Parquet files and their manifest (`records.manifest`); the folder is there whole or not at all.

        Where a table was written there before, it is replaced. A task or a job that is repeated doubles nothing.
        """


@runtime_checkable
class TableEngine(Engine, Protocol):
    """An engine that also holds tables."""

    @property
    def in_process(self) -> bool:
        """Whether functions run in this process. The results of buckets then come in the order of their numbers."""

    def table(self, source: Any) -> ChunkedTable:
        """A table: the path of a Parquet file or of a folder of them, a `pyarrow.Table`, or the engine's own kind.

        InputError where files of a folder have different columns.
        """

    def by_bucket(
        self,
        tables: Mapping[str, ChunkedTable],
        function: "Callable[[Mapping[str, pa.Table]], pa.Table]",
        schema: "pa.Schema",
    ) -> AbstractContextManager[ChunkedTable]:
        """The results of a function over the rows of several tables that have the same number in the column `bucket`.

        The column (int32, `records.identity.buckets_of`) is there for this alone: the function sees the tables without
        it, each with all rows of the bucket, in no particular order, or with none. A bucket has to fit into memory.
        The result can be used until the end of the block.
        """


class Tables(Protocol):
    """A retailer's tables by name (customers, orders, returns, codes, site, outcomes)."""

    def names(self) -> tuple[str, ...]:
        """The tables that exist."""

    def scan(self, name: str) -> Any:
        """A `pyarrow.dataset.Dataset` or `pyarrow.Table` that DuckDB can stream from; InputError when absent."""


@runtime_checkable
class Localised(Protocol):
    """Tables that say where they are from."""

    @property
    def locale(self) -> Locale:
        """The currency of their money, and the time zone of times without one, in which days begin."""


def locale_of(tables: Tables) -> Locale:
    """Where tables are from; those that do not say are in pounds and UTC."""
    return tables.locale if isinstance(tables, Localised) else POUNDS_UTC


class Clock(Protocol):
    """Time is an argument: a campaign's clock in production, a fixed instant in simulations and tests."""

    def now(self) -> datetime: ...
