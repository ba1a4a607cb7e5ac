"""One campaign at a glance: where it stands, what its codes have sold and cost, and whether its groups are sound."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow.compute as pc

from disco.evaluation.arms import SampleRatio, sample_ratio
from disco.operations.campaign_list import CampaignEntry, entry_of
from disco.operations.net_purchases import net_purchases
from disco.operations.next_steps import CampaignProgress, progress_of
from disco.records.currency import Currency
from disco.records.decisions import Arm
from disco.records.life import CampaignRecord
from disco.records.matching import places_in
from disco.records.money import from_minor_units
from disco.records.plan import Plan
from disco.records.plan_summary import MoneyForecast, PlanSummary
from disco.records.ports import Store, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSales:
    """What was bought with the codes of a campaign, after refunds and corrections."""

    purchases: int
    """Codes with a purchase of which something was kept."""
    revenue: float
    """What customers paid, in currency units."""
    markdown: float
    """What the discounts took from the full price: the cost of the codes so far."""
    late_revenue: float
    """The part of the revenue that customers paid who arrived after the launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOverview:
    """One launched campaign on a day."""

    progress: CampaignProgress
    """Where it stands, and what to do next."""
    entry: CampaignEntry
    """Codes, outcomes and batches."""
    matured: bool
    """Whether the last purchase has been reported."""
    sales: CodeSales
    """What its codes have sold, as far as outcomes were received."""
    budget: float | None
    """What the codes may cost; None: the plan has no budget."""
    expected: MoneyForecast | None
    """What the plan forecast for all codes; None where nothing was learned before, and for a recalled campaign."""
    sample_ratio: SampleRatio | None
    """Whether the groups have their planned sizes; None where there is only one group."""
    warnings: tuple[str, ...]
    """What the plan warned about when it was decided."""
    plan: Plan
    currency: Currency


def campaign_overview(
    store: Store,
    campaign: str,
    *,
    today: date,
    sales_of: Callable[[Transaction, str], CodeSales] | None = None,
) -> CampaignOverview:
    """A launched campaign; NotFoundError where there is none of this name.

    sales_of: sums up what was bought; None: `code_sales`.
    """
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        summary = transaction.plans.get(record.plan_id).summary
        return CampaignOverview(
            progress=progress_of(transaction, record, transaction.beliefs.version(), today=today),
            entry=entry_of(transaction, record, today=today),
            matured=today >= record.matures_on,
            sales=(sales_of or code_sales)(transaction, campaign),
            budget=record.plan.budget_amount,
            expected=summary.total if record.recalled_at is None else None,
            sample_ratio=_groups(record, summary),
            warnings=summary.warnings,
            plan=record.plan,
            currency=store.locale.currency,
        )


def code_sales(transaction: Transaction, campaign: str) -> CodeSales:
    """What was bought with the codes of a campaign, of the launch and of late arrivals.

    Reads the outcomes that count and looks up the codes they name, so it costs what was bought and not what was sent.
    """
    net = net_purchases(transaction.ledger.applied(campaign))
    if not len(net.code):
        return CodeSales(purchases=0, revenue=0.0, markdown=0.0, late_revenue=0.0)
    order = pc.sort_indices(net.code)  # sums of money are made in one order, whatever came first
    codes = net.code.take(order)
    sold = transaction.decisions.of(campaign, codes=codes)
    place = places_in(codes, among=sold["code"].combine_chunks())
    depth = sold["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False)
    full_price = from_minor_units(net.full_price_minor[order.to_numpy()], transaction.locale.currency)
    late = sold["late"].combine_chunks().take(place).to_numpy(zero_copy_only=False).astype(np.bool_)
    paid = full_price * (1 - depth)
    return CodeSales(
        purchases=net.purchases,
        revenue=float(paid.sum()),
        markdown=float((full_price * depth).sum()),
        late_revenue=float(paid[late].sum()),
    )


def _groups(record: CampaignRecord, summary: PlanSummary) -> SampleRatio | None:
    """Sizes of the launch; None without a second group that was planned."""
    plan = record.plan
    shares = {
        str(Arm.DECIDED): 1 - plan.control.share - plan.holdout.share,
        str(Arm.CONTROL): plan.control.share,
        str(Arm.HOLDOUT): plan.holdout.share,
    }
    planned = {arm: share for arm, share in shares.items() if share > 0}
    found = {str(arm): group.customers for arm, group in summary.arms.items() if group.customers}
    return sample_ratio(found, planned) if len(planned) > 1 and found.keys() <= planned.keys() else None
