"""The few things the rooms ask of the outside world. Shells (adapters) implement them; tests use real ones."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Protocol, TypeVar

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Engine(Protocol):
    """Maps a pure function over chunks. Threads, processes or a cluster: the results are the same, in order."""

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]: ...


class Tables(Protocol):
    """A retailer's tables by name (customers, orders, returns, codes, site, outcomes)."""

    def names(self) -> tuple[str, ...]:
        """The tables that exist."""

    def scan(self, name: str) -> Any:
        """A `pyarrow.dataset.Dataset` or `pyarrow.Table` that DuckDB can stream from; InputError when absent."""


class Clock(Protocol):
    """Time is an argument: a campaign's clock in production, a fixed instant in simulations and tests."""

    def now(self) -> datetime: ...
