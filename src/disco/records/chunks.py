"""Chunks of rows: the one way in which rooms hand work to an engine.

A chunk function is a pure function of its chunk and of frozen values: it returns its part, and the caller lays parts
side by side or adds them up. So no result depends on the engine, on the number of threads or on the size of a chunk.

`engine=None` means this thread, one chunk after another, in every room. The functions under the name `disco` itself
(`disco.allocate`, `disco.decide`, …) put the processors of this machine in its place; see `disco/__init__.py`.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from time import perf_counter
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from disco.records.arguments import kind_of
from disco.records.errors import InputError
from disco.records.ports import Engine

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Scalar = TypeVar("Scalar", bound=np.generic)

CHUNK_ROWS = 65_536  # a chunk of 8 columns is 4 MB: it stays in the cache between one step and the next
_MOST_PER_PROCESSOR = 4  # more threads than that only take memory and time from each other


def spread(
    function: Callable[[Chunk], Result], chunks: Iterable[Chunk], *, engine: Engine | None = None
) -> Iterator[Result]:
    """The results of a chunk function over the chunks, in their order.

    >>> list(spread(lambda rows: rows.stop - rows.start, row_chunks(5, size=2)))
    [2, 2, 1]
    """
    require_engine(engine)
    return map(function, chunks) if engine is None else engine.map(function, chunks)


def require_engine(engine: object) -> None:
    """Refuse an engine's name or class where the engine itself is needed."""
    if engine is not None and not _is_engine(cast(Hashable, type(engine))):
        raise InputError(
            "engine",
            found=kind_of(engine),
            expected="an engine object, not its name or class, or None",
            fix="Pass one such as disco.LocalEngine(threads=2), or leave it out.",
        )


@cache  # a protocol takes longer to check than a small table to solve
def _is_engine(kind: Hashable) -> bool:
    return isinstance(kind, type) and issubclass(kind, Engine)


def row_chunks(rows: int, *, size: int | None = None) -> list[slice]:
    """The numbers 0 to rows - 1 as consecutive slices of `size` (None: CHUNK_ROWS), the last one shorter."""
    size = size or CHUNK_ROWS
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def stack_rows(
    function: Callable[[slice], NDArray[Scalar]], rows: int, *, engine: Engine | None = None
) -> NDArray[Scalar]:
    """One array (rows, …) from a chunk function that gives its own rows of it, in the memory order of the parts.

    >>> stack_rows(lambda rows: np.arange(rows.start, rows.stop)[:, None] * 10.0, 3).ravel().tolist()
    [0.0, 10.0, 20.0]
    """
    require_engine(engine)
    chunks = row_chunks(rows)
    if len(chunks) <= 1:
        return function(slice(0, rows))
    parts = spread(function, chunks, engine=engine)
    first = next(parts)
    out = np.empty((rows, *first.shape[1:]), first.dtype, order="C" if first.flags.c_contiguous else "F")
    out[chunks[0]] = first
    for chunk, part in zip(chunks[1:], parts, strict=True):
        out[chunk] = part
    return out


def processors() -> int:
    """How many processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux alone can say it of a process
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def read_threads(threads: int | None) -> int:
    """A number of threads: None is one per processor; refused unless this machine can use that many."""
    if threads is None:
        return processors()
    most = _MOST_PER_PROCESSOR * processors()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= most:
        raise InputError(
            "threads",
            found=repr(threads),
            expected=f"a whole number from 1 to {most}, {_MOST_PER_PROCESSOR} per processor of this machine",
            fix="Leave it empty to use one thread per processor.",
        )
    return threads


# ---- how far a long piece of work is, and how long each of its stages took


Report = Callable[[int, int | None, str], None]
"""Is told (done, total, stage) now and then; a total of None is not known. What it raises ends the work."""


def tell(report: Report | None, done: int, total: int | None, stage: str) -> None:
    """Tell whoever wants to know."""
    if report is not None:
        report(done, total, stage)


class Stages:
    """A report that passes everything on and adds up the seconds of each stage, in the order in which they began.

    >>> from itertools import count
    >>> seconds = count(0.0, 2.0)
    >>> stages = Stages(clock=lambda: next(seconds))
    >>> stages(0, 1, "features"); stages(1, 1, "features"); stages(0, 1, "deciding")
    >>> stages.seconds()
    {'features': 4.0, 'deciding': 2.0}
    """

    def __init__(self, report: Report | None = None, *, clock: Callable[[], float] = perf_counter) -> None:
        self._report, self._clock = report, clock
        self._seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def __call__(self, done: int, total: int | None, stage: str) -> None:
        self._count(stage)
        tell(self._report, done, total, stage)

    def seconds(self) -> dict[str, float]:
        """By stage, up to now."""
        self._count(self._stage)
        return {stage: seconds for stage, seconds in self._seconds.items() if stage}

    def _count(self, stage: str) -> None:
        now = self._clock()
        if self._stage:
            self._seconds[self._stage] += now - self._since
        self._seconds.setdefault(stage, 0.0)
        self._stage, self._since = stage, now
