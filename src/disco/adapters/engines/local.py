"""The local engine: chunks on the threads of this machine. Kernels release the GIL, so two cores do two chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from disco.records.chunks import processors, read_threads
from disco.records.ports import ChunkedTable

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.adapters.engines.local_table import LocalTable

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs chunks on `threads` threads (by default one per processor) and gives their results in order.

    Chunks are taken as results are used, so memory holds two per thread and never all of them. A single chunk, or a
    single thread, runs on the caller's own thread.

    >>> list(LocalEngine(threads=2).map(lambda chunk: chunk * 10, range(4)))
    [0, 10, 20, 30]
    """

    threads: int = field(default_factory=processors)
    """How many chunks run at once."""
    watch: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called on the caller's thread before each result is handed over; what it raises ends the work."""

    def __post_init__(self) -> None:
        read_threads(self.threads)

    @property
    def in_process(self) -> bool:
        """Its threads are those of this process."""
        return True

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results of `function` over the chunks, in their order; the first error ends it."""
        for result in self._results(function, chunks):
            if self.watch is not None:
                self.watch()
            yield result

    def table(self, source: Any) -> LocalTable:
        """A Parquet file, a folder of them or a `pyarrow.Table`, in chunks; files may be larger than memory."""
        from disco.adapters.engines.local_table import LocalTable

        return LocalTable.of(self, source)

    def by_bucket(
        self,
        tables: Mapping[str, ChunkedTable],
        function: Callable[[Mapping[str, pa.Table]], pa.Table],
        schema: pa.Schema,
    ) -> AbstractContextManager[ChunkedTable]:
        """A function over the rows of several tables that have the same number in the column `bucket`."""
        from disco.adapters.engines.local_table import local_buckets

        return local_buckets(self, tables, function, schema)

    def _results(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        waiting = iter(chunks)
        first = list(islice(waiting, 2))
        if self.threads == 1 or len(first) < 2:
            yield from map(function, chain(first, waiting))
            return
        with ThreadPoolExecutor(self.threads) as pool:
            flying: deque[Future[Result]] = deque()
            for chunk in chain(first, waiting):
                flying.append(pool.submit(function, chunk))
                if len(flying) == 2 * self.threads:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
