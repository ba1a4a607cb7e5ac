"""One campaign at a glance: where it stands, what its codes have sold and cost, and whether its groups are sound."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from disco.evaluation.read_out import SampleRatio, sample_ratio
from disco.operations.campaign_list import CampaignEntry, entry_of
from disco.operations.code_sales import AgainstForecast, CodeSales, code_sales
from disco.operations.next_steps import CampaignProgress, progress_of
from disco.records.currency import Currency
from disco.records.decisions import Arm
from disco.records.life import CampaignRecord
from disco.records.plan import Plan
from disco.records.plan_summary import MoneyForecast, PlanSummary
from disco.store import Store, Transaction


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
    against_forecast: AgainstForecast | None
    """How the codes of the launch did against it; None likewise."""
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
        sales = (sales_of or code_sales)(transaction, campaign)
        entry = entry_of(transaction, record, today=today, sales=sales)
        return CampaignOverview(
            progress=progress_of(transaction, record, transaction.beliefs.version(), today=today),
            entry=entry,
            matured=today >= record.matures_on,
            sales=sales,
            budget=record.plan.budget_amount,
            expected=summary.total if record.recalled_at is None else None,
            against_forecast=entry.against_forecast,
            sample_ratio=_groups(record, summary),
            warnings=summary.warnings,
            plan=record.plan,
            currency=store.locale.currency,
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
