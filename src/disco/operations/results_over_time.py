"""How the verdict of a campaign came about: decided against control as it stood on each of some days.

Each point is what the results of that day say about the primary metric, made in one pass over the decisions. Before the
end its interval is the one that is valid at every look, so a line of points may be watched from day to day.
"""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.estimates import Comparison, Look
from disco.evaluation.read_out import ArmOutcomes, Metric, compare_arms
from disco.operations.audience import ShopData
from disco.operations.purchases import bought_with
from disco.operations.results import load_orders, spent_before
from disco.records.arrays import Flags
from disco.records.decisions import Arm
from disco.records.life import CampaignRecord
from disco.records.plan import Plan
from disco.store import Store

MOST_DAYS = 10
_LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class UpliftOnDay:
    """Decided against control as it stood at the end of a day."""

    day: date
    """The day; what was ordered after it does not count."""
    purchases: int
    """Of both groups, to date."""
    comparison: Comparison
    """The primary metric per customer, adjusted by spend of the year before where that is known; before the end with an
    interval that is valid at every look."""
    final: bool
    """Whether all codes had expired, and the days of grace were over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsOverTime:
    """A campaign from its first day on."""

    campaign: str
    """The name of the campaign."""
    metric: Metric
    """The primary metric."""
    days: tuple[UpliftOnDay, ...]
    """Ascending; empty where there is no control group, or it is too early."""


def days_to_read(record: CampaignRecord, *, as_of: date, most: int = MOST_DAYS) -> tuple[date, ...]:
    """At most so many days, evenly spread, from the first one of the codes to the day on which all is known, or today.

    >>> from types import SimpleNamespace
    >>> codes = SimpleNamespace(start=date(2027, 3, 1))
    >>> spring = SimpleNamespace(plan=SimpleNamespace(valid=codes), matures_on=date(2027, 3, 16))
    >>> [day.day for day in days_to_read(spring, as_of=date(2027, 3, 20), most=4)]
    [1, 6, 11, 16]
    """
    first, last = record.plan.valid.start, min(as_of, record.matures_on)
    if last < first:
        return ()
    steps = np.linspace(0, (last - first).days, min(most, (last - first).days + 1))
    return tuple(first + timedelta(days=round(float(step))) for step in steps)


def results_over_time(
    store: Store, data: ShopData, campaign: str, *, as_of: date, most: int = MOST_DAYS
) -> ResultsOverTime:
    """What `campaign_results` would have said on each of at most so many days."""
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        days = days_to_read(record, as_of=as_of, most=most)
        after = store.locale.moment((days[-1] if days else as_of) + timedelta(days=1))
        applied = transaction.ledger.applied(campaign, before=after)
    plan, locale = record.plan, store.locale
    on_time = pc.invert(decisions["late"])
    both = pc.is_in(decisions["arm"], value_set=pa.array([str(Arm.DECIDED), str(Arm.CONTROL)]))
    part = decisions.filter(pc.and_(both, on_time))
    groups = _groups(part, plan)
    if groups is None or not applied.num_rows:
        return ResultsOverTime(campaign=campaign, metric="objective", days=())
    planned = round(float(np.nan_to_num(part["expected_engagement"].to_numpy()).sum()))
    orders, depth = load_orders(data), part["depth"].to_numpy()
    spent = None if orders is None else spent_before(orders, part, plan)
    read = []
    for day in days:
        final = record.matures_on <= day
        if not final and planned < 1:
            continue  # an interim look needs a forecast of purchases
        tomorrow = locale.moment(day + timedelta(days=1))
        full_price = bought_with(part["code"], applied, before=tomorrow, currency=locale.currency)
        decided, control = (
            ArmOutcomes(
                depth=depth[rows],
                full_price=full_price[rows],
                before=None if spent is None else spent[rows][:, None],
                other_revenue=None,
            )
            for rows in groups
        )
        purchases = int(decided.purchased.sum()) + int(control.purchased.sum())
        weight = plan.objective.revenue_weight
        found = compare_arms(
            decided.sample("objective", revenue_weight=weight),
            control.sample("objective", revenue_weight=weight),
            "objective",
            to_date=None if final else Look(information=max(purchases, 1) / planned),
            level=_LEVEL,
        )
        seen = UpliftOnDay(day=day, purchases=purchases, comparison=found.read(final=final), final=final)
        read.append(seen)
    return ResultsOverTime(campaign=campaign, metric="objective", days=tuple(read))


def _groups(decisions: pa.Table, plan: Plan) -> tuple[Flags, Flags] | None:
    """(n,) who was decided about, and who is in control; None where there is nothing to compare."""
    decided = np.asarray(pc.equal(decisions["arm"], str(Arm.DECIDED)).to_numpy(), np.bool_)
    control = ~decided
    enough = plan.control.share > 0 and decided.sum() > 1 and control.sum() > 1
    return (decided, control) if enough else None
