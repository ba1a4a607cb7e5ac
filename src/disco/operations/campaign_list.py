"""The launched campaigns: state, dates, codes, outcomes, and every batch they received."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from disco.operations.code_sales import NO_SALES, AgainstForecast, CodeSales, against_forecast, code_sales
from disco.records.life import CampaignRecord, Disposition, Phase
from disco.records.locale import Locale
from disco.records.result import DepthKey, TableResult
from disco.store import Store, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A batch of outcomes; the counts are 0 once it is reverted."""

    batch_id: str
    """The id of the batch."""
    source: str
    """The file it came from."""
    received_at: datetime
    """When it was received."""
    reverted_at: datetime | None
    """When it was taken out again; null: it counts."""
    applied: int
    """Rows that count."""
    duplicate: int
    """Rows about an event that was received before."""
    expired: int
    """Purchases after their code had expired or was recalled, and outcomes of a closed campaign."""
    unmatched: int
    """Rows that fit no code, customer or event."""
    rejected: int
    """Rows that cannot be read, or contradict what counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEntry:
    """A launched campaign."""

    campaign: str
    """The name of the campaign."""
    state: Phase
    """scheduled (its codes are not valid yet), running, paused, recalled, ended (all codes have expired) or closed."""
    plan_id: str
    """The id of its plan."""
    policy: str
    """The name of the policy."""
    valid_from: date | datetime
    """The first day of its codes; with a time of day where its plan has one, by the clock of the shop."""
    valid_before: date | datetime
    """The day after their last, or the moment they expire."""
    recalled_at: datetime | None
    """The moment of the recall, from which on no code is valid; null: it was not recalled."""
    version: int | None
    """The version of the model that decided; null: none was learned."""
    customers: int
    """Number of customers."""
    codes: int
    """Codes of the launch."""
    outcomes: Mapping[Disposition, int]
    """Rows received that are not reverted, by what became of them."""
    reserve: Mapping[DepthKey, int | None]
    """Codes left for late arrivals, per depth; null: no limit."""
    batches: tuple[BatchEntry, ...]
    """In the order they were received."""
    against_forecast: AgainstForecast | None
    """How the codes of the launch did against the plan's forecast; null where nothing was learned before, and for a
    recalled campaign, whose forecast was for the whole validity."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CampaignList(TableResult):
    """The launched campaigns. As a table: one row per campaign."""

    campaigns: tuple[CampaignEntry, ...]
    """By their first day."""
    active_version: int | None
    """The version of the model that decides the next plan; null: nothing was learned."""

    def to_arrow(self) -> pa.Table:
        names = ("campaign", "policy", "valid_from", "valid_before", "version", "customers", "codes")
        columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in self.campaigns] for name in names}
        for name in ("valid_from", "valid_before"):  # one type for days and for moments
            zone = next((when.tzinfo for when in columns[name] if isinstance(when, datetime)), None)
            if zone is not None:
                columns[name] = [
                    when if isinstance(when, datetime) else datetime.combine(when, time(), zone)
                    for when in columns[name]
                ]
        outcomes = {str(kind): [one.outcomes[kind] for one in self.campaigns] for kind in Disposition}
        compared = [one.against_forecast for one in self.campaigns]
        sides = pa.array([None if one is None else str(one.revenue) for one in compared], pa.string())
        states = [str(one.state) for one in self.campaigns]
        return pa.table({**columns, "state": states, **outcomes, "revenue_against_forecast": sides})


def _with_offset(when: date | datetime, locale: Locale) -> date | datetime:
    return locale.moment(when) if isinstance(when, datetime) else when


def campaign_names(store: Store) -> tuple[str, ...]:
    """The launched campaigns by their first day, without looking at what they received."""
    with store.reading() as transaction:
        return tuple(record.campaign for record in transaction.plans.campaigns())


def list_campaigns(store: Store, campaign: str | None = None, *, today: date) -> CampaignList:
    """All launched campaigns, or one of them, as they stand today."""
    with store.reading() as transaction:
        records = transaction.plans.campaigns() if campaign is None else (transaction.plans.campaign(campaign),)
        active = transaction.beliefs.version()
        return CampaignList(
            campaigns=tuple(entry_of(transaction, record, today=today) for record in records),
            active_version=None if active is None else active.number,
        )


def entry_of(
    transaction: Transaction, record: CampaignRecord, *, today: date, sales: CodeSales | None = None
) -> CampaignEntry:
    """A campaign that was read already, as it stands today.

    sales: what its codes have sold; None: they are summed up where a forecast is compared, which is at the end.
    """
    summary = transaction.plans.get(record.plan_id).summary
    if sales is None:
        is_compared = summary.total is not None and today >= record.matures_on
        sales = code_sales(transaction, record.campaign) if is_compared else NO_SALES
    counted: dict[str, dict[str, int]] = {}
    for row in transaction.ledger.counts(record.campaign).to_pylist():
        counted.setdefault(row["batch_id"], {})[row["disposition"]] = row["rows"]
    batches = tuple(
        BatchEntry(
            batch_id=batch.batch_id,
            source=batch.source,
            received_at=transaction.locale.local(batch.received_at),
            reverted_at=None if batch.reverted_at is None else transaction.locale.local(batch.reverted_at),
            **{str(kind): counted.get(batch.batch_id, {}).get(str(kind), 0) for kind in Disposition},
        )
        for batch in transaction.ledger.batches(record.campaign)
    )
    return CampaignEntry(
        campaign=record.campaign,
        state=record.phase(today),
        plan_id=record.plan_id,
        policy=record.plan.policy.name,
        valid_from=_with_offset(record.plan.valid.opens, transaction.locale),
        valid_before=_with_offset(record.plan.valid.closes, transaction.locale),
        recalled_at=record.recalled_at,
        version=record.version,
        customers=summary.customers,
        codes=sum(sum(arm.codes.values()) for arm in summary.arms.values()),
        outcomes={kind: sum(getattr(batch, str(kind)) for batch in batches) for kind in Disposition},
        reserve=transaction.decisions.reserve(record.campaign),
        batches=batches,
        against_forecast=against_forecast(
            record,
            summary.total,
            purchases=sales.purchases,
            revenue=sales.revenue - sales.late_revenue,
            markdown=sales.markdown - sales.late_markdown,
            today=today,
            currency=transaction.locale.currency,
        ),
    )
