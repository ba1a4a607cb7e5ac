"""The local engine: threads over chunks. Kernels release the GIL, so two cores do two chunks at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from disco.records.errors import InputError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Maps in order, with at most `threads` chunks in flight, so that memory holds a few chunks and never all of them.

    >>> list(LocalEngine(threads=2).map(lambda chunk: chunk * 10, range(4)))
    [0, 10, 20, 30]
    """

    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise InputError("threads", found=self.threads, expected="at least one")

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        if self.threads == 1:
            yield from map(function, chunks)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            flying: deque[Future[Result]] = deque()
            for chunk in chunks:
                flying.append(pool.submit(function, chunk))
                if len(flying) > self.threads:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
