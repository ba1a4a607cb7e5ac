"""Read-outs of campaigns that were made a moment ago, so that pages which show them again do not read ledgers again.

A read-out is kept under everything it was made from: the batches that count and what became of their rows, a recall, a
close, late arrivals, the content of the tables, the day. So a kept one is never an old one. Where the content of the
tables is not known before they are read (a database), what needs them is made anew each time.
"""

from collections.abc import Hashable
from datetime import date
from typing import Any, Protocol, TypeVar

from disco.operations.audience import ShopData
from disco.operations.decide import Recent
from disco.operations.demand import PartDemand, demand_of_part, divided_campaign
from disco.operations.learn import version_of
from disco.operations.learned import LearningProgress, learning_progress
from disco.operations.overview import CampaignOverview, campaign_overview
from disco.operations.purchases import CodeSales, code_sales
from disco.operations.results import CampaignResults, ResultsOverTime, campaign_results, results_over_time
from disco.records.campaign_records import CampaignRecord
from disco.store import Store, Transaction

Value = TypeVar("Value")
Read = TypeVar("Read", covariant=True)
_MOST = 256
"""Read-outs have no customers in them: each is some kilobytes."""


class _Reader(Protocol[Read]):
    """A use case that reads a campaign out."""

    def __call__(self, store: Store, data: ShopData, campaign: str, *, as_of: date) -> Read: ...


class KeptReadings:
    """The read-outs that were asked for last. Threads may share it; one that is being made is made once."""

    def __init__(self, most: int = _MOST) -> None:
        self._kept = Recent[Hashable, Any](most)

    def overview(self, store: Store, campaign: str, *, today: date) -> CampaignOverview:
        """As `campaign_overview`; purchases are summed up again only where the ledger has changed."""
        return campaign_overview(store, campaign, today=today, sales_of=self._sales)

    def learning(self, store: Store, *, today: date) -> LearningProgress:
        """As `learning_progress`; likewise."""
        return learning_progress(store, today=today, sales_of=self._sales)

    def demand(self, store: Store, part: str | None, *, today: date) -> PartDemand:
        """As `demand_of_part`."""
        with store.reading() as transaction:
            version = version_of(transaction, None)
            last = divided_campaign(transaction, version)
            state = ledger_state(transaction, last)
        key = ("demand", version.number, version.made_at, state, part, today >= last.matures_on)
        found: PartDemand = self._kept.made(key, lambda: demand_of_part(store, part, today=today))
        return found

    def _sales(self, transaction: Transaction, campaign: str) -> CodeSales:
        state = ledger_state(transaction, transaction.plans.campaign(campaign))
        found: CodeSales = self._kept.made(("sales", state), lambda: code_sales(transaction, campaign))
        return found

    def results(self, store: Store, data: ShopData, campaign: str, *, as_of: date) -> CampaignResults:
        """As `campaign_results`."""
        return self._read("results", campaign_results, store, data, campaign, as_of=as_of)

    def over_time(self, store: Store, data: ShopData, campaign: str, *, as_of: date) -> ResultsOverTime:
        """As `results_over_time`."""
        return self._read("over time", results_over_time, store, data, campaign, as_of=as_of)

    def _read(
        self, kind: str, read: "_Reader[Value]", store: Store, data: ShopData, campaign: str, *, as_of: date
    ) -> Value:
        with store.reading() as transaction:
            state = ledger_state(transaction, transaction.plans.campaign(campaign))
        tables = data.tables_hash()
        if tables is None:
            return read(store, data, campaign, as_of=as_of)
        key = (kind, state, tables, as_of)
        found: Value = self._kept.made(key, lambda: read(store, data, campaign, as_of=as_of))
        return found


def ledger_state(transaction: Transaction, record: CampaignRecord) -> Hashable:
    """Names what a campaign's figures are made from, without reading a row of its ledger."""
    counts = transaction.ledger.counts(record.campaign).to_pydict()
    return (
        record.campaign,
        record.plan_id,
        record.state,
        record.recalled_at,
        transaction.decisions.late_seal(record.campaign),
        tuple((batch.batch_id, batch.reverted_at) for batch in transaction.ledger.batches(record.campaign)),
        tuple(tuple(column) for column in counts.values()),
    )
