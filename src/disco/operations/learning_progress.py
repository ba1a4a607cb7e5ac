"""What learning has brought: how certain each version was, forecasts beside actual revenue, codes at random."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np

from disco.belief.curves import demand_curve
from disco.campaign import Belief
from disco.operations.code_sales import CodeSales, code_sales
from disco.operations.versions import belief_of
from disco.records.arrays import Vector
from disco.records.compiled import without_compiler
from disco.records.decisions import Arm
from disco.records.estimate import LEVEL, Estimate
from disco.records.life import CampaignRecord
from disco.records.plan_summary import PlanSummary
from disco.store import Store, Transaction

MOST_VERSIONS = 12
MOST_CAMPAIGNS = 12
_DRAWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionProgress:
    """A version of the model, and how certain it was."""

    version: int
    """The number of the version."""
    made_at: datetime
    """When it was made, by the clock of the shop."""
    campaigns: tuple[str, ...]
    """The campaigns it was learned from."""
    purchases: int
    """Their purchases."""
    active: bool
    """Whether it decides the next plan."""
    uncertainty: float | None
    """Half the width of the 90% interval of revenue per code, as a share of it: the mean over the depths that the
    active version knows, for the average customer. None before any purchase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOutcome:
    """A campaign that is over: its forecast and its actual revenue."""

    campaign: str
    """The name of the campaign."""
    forecast: Estimate
    """Revenue of the codes of the launch, with its 90% interval."""
    actual: float
    """Revenue with these codes."""

    @property
    def ratio(self) -> float | None:
        """actual / forecast; None where nothing was expected."""
        return self.actual / self.forecast.value if self.forecast.value > 0 else None

    @property
    def inside(self) -> bool:
        """Whether the actual revenue lies in the interval."""
        return self.forecast.covers(self.actual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """How many codes of a campaign were assigned at random."""

    campaign: str
    """The name of the campaign."""
    codes: int
    """Codes of the launch."""
    at_random: int
    """Those of a control group, or all codes of a random campaign: they teach without the choice of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningProgress:
    """The model from version to version, and the campaigns it was tried on."""

    versions: tuple[VersionProgress, ...]
    """The latest, ascending."""
    forecasts: tuple[ForecastOutcome, ...]
    """Campaigns that are over and had a forecast, the latest, by their first day; without recalled ones."""
    exploration: tuple[Exploration, ...]
    """The latest campaigns, by their first day."""


def learning_progress(
    store: Store, *, today: date, sales_of: Callable[[Transaction, str], CodeSales] | None = None
) -> LearningProgress:
    """What was learned so far. sales_of: sums up what was bought in a campaign; None: `code_sales`."""
    with store.reading() as transaction:
        active = transaction.beliefs.version()
        records = transaction.beliefs.versions()[-MOST_VERSIONS:]
        campaigns = transaction.plans.campaigns()
        over = [one for one in campaigns if one.matures_on <= today and one.recalled_at is None]
        forecasts = [
            found
            for one in over[-MOST_CAMPAIGNS:]
            if (found := _forecast(transaction, one, sales_of or code_sales)) is not None
        ]
        exploration = [
            _exploration(one, transaction.plans.get(one.plan_id).summary) for one in campaigns[-MOST_CAMPAIGNS:]
        ]
    depths = np.zeros(0) if active is None else belief_of(active).basket.evidence.depths
    versions = []
    for record in records:
        belief = belief_of(record)
        versions.append(
            VersionProgress(
                version=record.number,
                made_at=store.locale.local(record.made_at),
                campaigns=tuple(record.campaigns),
                purchases=int(belief.basket.evidence.rows.sum()),
                active=active is not None and record.number == active.number,
                uncertainty=uncertainty(belief, depths),
            )
        )
    return LearningProgress(versions=tuple(versions), forecasts=tuple(forecasts), exploration=tuple(exploration))


def uncertainty(belief: Belief, depths: Vector) -> float | None:
    """Mean over the depths (D,) of half the interval of revenue per code, as a share of it; None without purchases."""
    evidence = belief.basket.evidence
    if not evidence.depths.size or not depths.size:
        return None
    with without_compiler():  # one customer's curve
        curve = demand_curve(
            belief.basket,
            np.zeros(evidence.context_size),
            depths,
            engagement=belief.engagement,
            level=LEVEL,
            draws=_DRAWS,
        )
    band = curve.revenue_per_code
    assert band is not None  # with engagement
    return float(((band.upper - band.lower) / (2 * band.mean)).mean())


def _forecast(
    transaction: Transaction, record: CampaignRecord, sales_of: Callable[[Transaction, str], CodeSales]
) -> ForecastOutcome | None:
    expected = transaction.plans.get(record.plan_id).summary.total
    if expected is None:
        return None
    sales = sales_of(transaction, record.campaign)
    if not sales.purchases:  # its outcomes were not sent
        return None
    actual = sales.revenue - sales.late_revenue
    return ForecastOutcome(campaign=record.campaign, forecast=expected.revenue, actual=actual)


def _exploration(record: CampaignRecord, summary: PlanSummary) -> Exploration:
    codes = {arm: sum(group.codes.values()) for arm, group in summary.arms.items()}
    total = sum(codes.values())
    random = total if record.plan.policy.assigns_at_random else codes.get(Arm.CONTROL, 0)
    return Exploration(campaign=record.campaign, codes=total, at_random=random)
