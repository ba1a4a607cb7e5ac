"""The few things the rooms ask of the outside world. Shells (adapters) implement them; tests use real ones."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.plan import Plan

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


class Store(Protocol):
    """The truth of launched campaigns. Every method is one transaction: it happens whole or not at all."""

    def launch(self, plan: "Plan", decisions: "pa.Table") -> None:
        """Keep a campaign with its decisions and codes; StateError when it was launched before."""

    def plan(self, campaign: str) -> "Plan":
        """The plan of a launched campaign."""

    def decisions(self, campaign: str) -> "pa.Table":
        """One row per customer, as launched."""

    def known_events(self, events: Iterable[str]) -> frozenset[str]:
        """Which of these event ids the ledger has already."""

    def append(self, campaign: str, outcomes: "pa.Table", quarantined: "pa.Table") -> None:
        """Add ledger rows (event_id, customer_id, code, ordered_at, full_price_minor), and refused ones with why."""

    def ledger(self, campaign: str) -> "pa.Table":
        """All ledger rows of a campaign."""
