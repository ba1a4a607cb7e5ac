"""The few things the rooms ask of the outside world. Shells (adapters) implement them; tests use real ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.arrays import Integers, Matrix
    from disco.records.life import BatchRecord, CampaignRecord, Disposition, PlanRecord, State, VersionRecord

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Engine(Protocol):
    """The only thing that spreads computation: threads of this machine, or a cluster.

    `function` is a pure function of its chunk. What else it needs (prices, a posterior, depths) is small and frozen and
    travels inside it, so that an engine may send it elsewhere once. The caller lays the results side by side or adds
    them up (`records.chunks`). tests/contracts/test_contract_engines.py holds every engine to this.
    """

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results in the order of the chunks, which are taken as results are used; the first error ends it."""


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
    """The truth of campaigns: plans, decisions with codes, ledger, evidence, versions of belief."""

    def reading(self) -> "AbstractContextManager[Shelves]":
        """One consistent view of everything; nothing can be written through it. Keep it short: a writer may wait."""

    def writing(self, subject: str) -> "AbstractContextManager[Shelves]":
        """One transaction: kept whole at the end of the block, not at all when the block raises.

        `subject` (a campaign, or a model) has one writer at a time: another one waits, and then sees what this one
        wrote. Nothing is acknowledged before it is on disk. Not to be opened within another block of the same store.
        """

    def close(self) -> None: ...


class Shelves(Protocol):
    """What lies in the store, within one transaction. Tables are Arrow, with the schemas of `records.kept`; text with
    NUL characters, NaN and infinity are an InputError; a missing thing, or one that is there already, a StateError."""

    # plans and campaigns
    def add_plan(self, record: "PlanRecord") -> None:
        """Keep a plan; the same plan again changes nothing."""

    def plan(self, plan_id: str) -> "PlanRecord":
        """By its id, or the beginning of one where that names a single plan."""

    def plans(self, campaign: str) -> "tuple[PlanRecord, ...]": ...

    def add_campaign(self, record: "CampaignRecord") -> None:
        """Its plan was kept before. StateError when the campaign exists."""

    def campaign(self, campaign: str) -> "CampaignRecord": ...

    def find_campaign(self, campaign: str) -> "CampaignRecord | None": ...

    def campaigns(self) -> "tuple[CampaignRecord, ...]":
        """All, by the first day of validity, then by name."""

    def set_state(self, campaign: str, state: "State") -> None: ...

    # decisions, as kept.DECISIONS
    def add_decisions(self, campaign: str, decisions: "pa.Table") -> int:
        """Append rows and number them; the number of the first. Columns that may be null may be absent.

        StateError when a customer or a code is there already.
        """

    def decisions(
        self,
        campaign: str,
        *,
        codes: "pa.Array | None" = None,
        customers: "pa.Array | None" = None,
        only_late: bool = False,
    ) -> "pa.Table":
        """By row; all, or those of these codes or customers, or those decided after the launch.

        customer_id has the type it was launched with.
        """

    def set_propensities(self, campaign: str, propensities: "pa.Table") -> None:
        """row, propensity, propensity_draws."""

    def known_codes(self, codes: "pa.Array") -> "pa.Array":
        """Which of these are in use, in any campaign; sorted."""

    # contexts of the decisions, by row, per context network: what learning uses
    def add_contexts(self, campaign: str, network: str, contexts: "Matrix", *, first_row: int) -> None: ...

    def contexts(self, campaign: str, network: str, rows: "Integers | None" = None) -> "Matrix":
        """Of these decisions, in the order asked for; of all without `rows`."""

    # what is left for customers who arrive after the launch
    def set_reserve(self, campaign: str, codes: "Mapping[float, int | None]") -> None:
        """Codes per depth that late arrivals may still take; None: no limit."""

    def reserve(self, campaign: str) -> "dict[float, int | None]": ...

    def take_code(self, campaign: str, depth: float) -> bool:
        """One less at this depth, by a conditional update; False when none was left."""

    # the ledger, as kept.OUTCOMES: rows in the order received, never deleted
    def add_batch(self, record: "BatchRecord") -> None: ...

    def batch(self, batch_id: str) -> "BatchRecord":
        """By its id, or the beginning of one where that names a single batch."""

    def batches(self, campaign: str) -> "tuple[BatchRecord, ...]":
        """In the order they were received."""

    def set_reverted(self, batch_id: str, at: datetime) -> None:
        """Its rows keep their dispositions and are no longer in force. StateError when it was reverted before."""

    def add_outcomes(self, campaign: str, outcomes: "pa.Table") -> None:
        """Append received rows. No two APPLIED rows in force of a campaign share an event id (a unique index)."""

    def outcomes(
        self,
        campaign: str,
        *,
        events: "pa.Array | None" = None,
        codes: "pa.Array | None" = None,
        refers_to: "pa.Array | None" = None,
        batch_id: str | None = None,
        dispositions: "Iterable[Disposition] | None" = None,
    ) -> "pa.Table":
        """By batch as received, then row; restrictions given together must all hold.

        Rows of reverted batches are left out, unless their batch is asked for by its id.
        """

    def counts(self, campaign: str) -> "pa.Table":
        """batch_id, disposition, rows (int64) of the batches in force: counted in the ledger when asked."""

    def set_dispositions(self, campaign: str, changes: "pa.Table") -> None:
        """batch_id, row, disposition, reason: the only thing about a received row that ever changes. All at once:
        an event may lose APPLIED in one row and gain it in another."""

    # evidence per campaign and context network, engagement counts per campaign; both opaque here
    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None: ...

    def evidence(self, campaign: str, network: str) -> bytes | None: ...

    def networks(self, campaign: str) -> tuple[str, ...]:
        """The context networks under which this campaign has evidence, sorted: more than one after a retraining."""

    # versions of belief
    def add_version(self, record: "VersionRecord", *, activate: bool) -> None:
        """Keep a version; with `activate` it becomes the model's only active one in the same transaction."""

    def version(self, model: str, number: int | None = None) -> "VersionRecord | None":
        """That version, or the active one; None where there is none."""

    def versions(self, model: str) -> "tuple[VersionRecord, ...]": ...

    def activate(self, model: str, number: int) -> None: ...

    def secret(self) -> bytes:
        """The key of the codes' HMAC: 32 random bytes, made with the database."""
