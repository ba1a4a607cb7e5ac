"""The plans that are kept, the newest first, and the one that a new plan is compared with."""

from dataclasses import dataclass
from datetime import date, datetime

from disco.operations.launching import plan_id_of
from disco.records.life import PlanRecord
from disco.records.result import Result
from disco.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanEntry(Result):
    """A kept plan in brief."""

    plan_id: str
    """The id of the plan."""
    campaign: str
    """The name of the campaign."""
    planned_at: datetime
    """When it was decided."""
    valid_from: date | datetime
    """The first day of its codes; with a time of day where the plan has one."""
    customers: int
    """Number of customers."""
    codes: int
    """Number of codes."""
    launched: bool
    """Whether its campaign was launched from this plan."""


def list_plans(
    store: Store, *, limit: int, before: tuple[datetime, str] | None = None
) -> tuple[tuple[PlanEntry, ...], tuple[datetime, str] | None]:
    """Some plans, and where the next ones begin; None: these are the last.

    before: where to begin, as an earlier call returned it; None: with the newest.
    """
    with store.reading() as transaction:
        records = transaction.plans.recent(limit + 1, before=before)
        launched = {record.plan_id for record in transaction.plans.campaigns()}
    shown = records[:limit]
    entries = tuple(
        PlanEntry(
            plan_id=record.plan_id,
            campaign=record.plan.campaign,
            planned_at=store.locale.local(record.planned_at),
            valid_from=record.plan.valid.opens,
            customers=record.summary.customers,
            codes=sum(sum(arm.codes.values()) for arm in record.summary.arms.values()),
            launched=record.plan_id in launched,
        )
        for record in shown
    )
    more = len(records) > limit
    return entries, (shown[-1].planned_at, shown[-1].plan_id) if more else None


def plan_to_compare(store: Store, campaign: str, *, against: str = "", other_than: str = "") -> PlanRecord | None:
    """The kept plan that a new one is compared with: the newest of the same campaign; else that of the last launch.

    against: instead of both, the id of a plan, its beginning, or a campaign. other_than: the id of the plan itself,
    where it is kept.
    """
    with store.reading() as transaction:
        if against:
            return transaction.plans.get(plan_id_of(transaction, against))
        own = [record for record in transaction.plans.of(campaign) if record.plan_id != other_than]
        if own:
            return max(own, key=lambda record: record.planned_at)
        launched = [record for record in transaction.plans.campaigns() if record.plan_id != other_than]
        if not launched:
            return None
        return transaction.plans.get(max(launched, key=lambda record: record.launched_at).plan_id)
