"""What the model has learned: what it says about each depth, and how it came to know it."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from disco.belief import EngagementCounts, Movement
from disco.belief.curves import demand_curve
from disco.campaign import Belief
from disco.operations.learn import belief_of, stored_evidence, version_of
from disco.operations.purchases import CodeSales, code_sales
from disco.records.arrays import Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.compiled import without_compiler
from disco.records.decisions import Arm
from disco.records.errors import SealError
from disco.records.estimate import LEVEL, Estimate
from disco.records.money import GBP
from disco.records.plan_summary import PlanSummary
from disco.records.result import TableResult
from disco.store import Store, Transaction
from disco.store.beliefs import VersionRecord

# ---- what a version says ----
#
# What a belief says about the depths that were played, with intervals of the belief itself.

_DRAWS = 2000
_ENDS = ("value", "lower", "upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCurve:
    """What was learned about one depth."""

    depth: float
    """The depth: 0.1 is 10% off."""
    purchases: int
    """Purchases with such a code."""
    basket: Estimate
    """Basket before the discount of a customer with the average context, in currency units."""
    codes: int
    """Expired codes; only those assigned at random, where there were any."""
    engagement: Estimate
    """The share of receivers who buy, over the campaigns learned from."""
    next_engagement: Estimate | None = None
    """The same in the next campaign, whose level may differ from that of all before: the interval is wider. Null where
    `movement` is."""
    revenue_per_code: Estimate
    """Expected revenue of a code sent, used or not: the share who buy times the basket after the discount."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LearnedBelief(TableResult):
    """What a version of the model has learned. As a table: one row per depth."""

    version: int
    """The number of the version."""
    made_at: datetime
    """When it was made."""
    campaigns: tuple[str, ...]
    """The campaigns it was learned from."""
    purchases: int
    """Their purchases."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    depths: tuple[LearnedCurve, ...]
    """One entry per depth that was bought with, ascending."""
    movement: str | None = None
    """How far the share who buy moved between campaigns, and what that rests on, in a sentence. Null where codes of a
    campaign were counted anew since this version was made, or none has matured."""
    warnings: tuple[str, ...]
    """Where what was seen contradicts the model, in sentences."""

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {
                    "depth": point.depth,
                    "purchases": point.purchases,
                    **{f"basket_{end}": getattr(point.basket, end) for end in _ENDS},
                    "codes": point.codes,
                    **{f"engagement_{end}": getattr(point.engagement, end) for end in _ENDS},
                    **{f"next_engagement_{end}": getattr(point.next_engagement, end, None) for end in _ENDS},
                    **{f"revenue_per_code_{end}": getattr(point.revenue_per_code, end) for end in _ENDS},
                }
                for point in self.depths
            ]
        )


def learned_belief(store: Store, version: int | None = None) -> LearnedBelief:
    """What that version of the model has learned; None: the active one."""
    with store.reading() as transaction:
        record = version_of(transaction, version)
        belief = belief_of(record)
        parts = list(belief.engagement.campaigns.values()) or _codes_by_campaign(transaction, record)
    with without_compiler():  # one customer's curve
        movement = None if not parts else Movement.of_engagement(belief.engagement, parts)
        curve = learned_curve(belief, movement)
    return LearnedBelief(
        version=record.number,
        made_at=record.made_at,
        campaigns=tuple(record.campaigns),
        purchases=sum(point.purchases for point in curve),
        currency=store.locale.currency.code,
        depths=curve,
        movement=None if movement is None else movement.words("the share who buy"),
        warnings=contradictions(belief),
    )


def contradictions(belief: Belief, depths: ArrayLike | None = None) -> tuple[str, ...]:
    """Depths whose codes were used less often than those of a shallower one, which the model takes as chance.

    depths: those to speak of; None: all.
    """
    return tuple(
        f"{found}. The model takes the share who buy as never falling with depth, so it is wrong about one of them: "
        "see whether all codes of that depth worked and went to customers like the others."
        for found in belief.engagement.contradictions()
        if depths is None or found.deeper in np.asarray(depths)
    )


def _codes_by_campaign(transaction: Transaction, record: VersionRecord) -> list[EngagementCounts]:
    """The matured codes of each campaign that this version counts; empty where they are not known any more."""
    parts = []
    for campaign, learned in record.campaigns.items():
        kept = None
        with suppress(SealError):  # the version itself is sound, and `disco doctor` names what is not
            kept = stored_evidence(transaction, campaign, record.network)
        if kept is None or learned not in (kept.hash, replace(kept, codes=EngagementCounts()).hash):
            return []
        if learned == kept.hash and kept.codes.depths.size:
            parts.append(kept.codes)
    return parts


def learned_curve(belief: Belief, movement: Movement | None = None) -> tuple[LearnedCurve, ...]:
    """The depths seen in purchases, ascending; contexts are standardised, so the average customer's is 0.

    movement: of the share who buy between the campaigns learned from; None: the next campaign is not predicted.
    """
    evidence = belief.basket.evidence
    if not evidence.depths.size:
        return ()
    curve = demand_curve(belief.basket, np.zeros(evidence.context_size), evidence.depths, draws=_DRAWS)
    generator = np.random.Generator(np.random.Philox(key=0))
    rates = belief.engagement.rates(evidence.depths)
    lower, upper = belief.engagement.interval(evidence.depths, LEVEL)
    following = None if movement is None else belief.engagement.interval(evidence.depths, LEVEL, movement=movement)
    drawn = belief.engagement.draws(evidence.depths, count=_DRAWS, generator=generator)
    revenue = curve.revenue.mean * rates, curve.revenue.draws * drawn
    counts = belief.engagement.counts.margin
    sent = dict(zip(counts.depths.tolist(), counts.sent.tolist(), strict=True))
    return tuple(
        LearnedCurve(
            depth=depth,
            purchases=int(evidence.rows[column]),
            basket=Estimate(
                float(curve.full_price.mean[column]),
                float(curve.full_price.lower[column]),
                float(curve.full_price.upper[column]),
            ),
            codes=sent.get(depth, 0),
            engagement=Estimate(float(rates[column]), float(lower[column]), float(upper[column]), LEVEL),
            next_engagement=None
            if following is None
            else Estimate(float(rates[column]), float(following[0][column]), float(following[1][column]), LEVEL),
            revenue_per_code=Estimate.around(float(revenue[0][column]), revenue[1][:, column], level=LEVEL),
        )
        for column, depth in enumerate(evidence.depths.tolist())
    )


# ---- from version to version ----
#
# What learning has brought: how certain each version was, forecasts beside actual revenue, codes at random.

MOST_VERSIONS = 12
MOST_CAMPAIGNS = 12
_PROGRESS_DRAWS = 500


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
    level: float | None = None
    """What the forecast took the model's expectation times, for all depths alike; None where it was not corrected."""
    season: float | None = None
    """What it took it times on top, for the season of the campaign; None where no season was known."""
    step: float | None = None
    """How far the level was taken to move from campaign to campaign; None where it was taken as fixed."""

    @property
    def ratio(self) -> float | None:
        """actual / forecast; None where nothing was expected."""
        return self.actual / self.forecast.value if self.forecast.value > 0 else None

    @property
    def factor(self) -> float:
        """Level times season."""
        return (1.0 if self.level is None else self.level) * (1.0 if self.season is None else self.season)

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
            draws=_PROGRESS_DRAWS,
        )
    band = curve.revenue_per_code
    assert band is not None  # with engagement
    return float(((band.upper - band.lower) / (2 * band.mean)).mean())


def _forecast(
    transaction: Transaction, record: CampaignRecord, sales_of: Callable[[Transaction, str], CodeSales]
) -> ForecastOutcome | None:
    summary = transaction.plans.get(record.plan_id).summary
    expected = summary.total
    if expected is None:
        return None
    sales = sales_of(transaction, record.campaign)
    if not sales.purchases:  # its outcomes were not sent
        return None
    actual = sales.revenue - sales.late_revenue
    found = ForecastOutcome(campaign=record.campaign, forecast=expected.revenue, actual=actual)
    corrected = [
        arm.correction for arm in summary.arms.values() if arm.correction is not None and arm.money is not None
    ]
    if not corrected:
        return found
    first = corrected[0]  # of the decided codes, where there are any; the others have the same level
    return replace(
        found,
        level=math.exp(first.log_factor - (first.log_season or 0.0)),
        season=None if first.log_season is None else math.exp(first.log_season),
        step=first.level_step,
    )


def _exploration(record: CampaignRecord, summary: PlanSummary) -> Exploration:
    codes = {arm: sum(group.codes.values()) for arm, group in summary.arms.items()}
    total = sum(codes.values())
    random = total if record.plan.policy.assigns_at_random else codes.get(Arm.CONTROL, 0)
    return Exploration(campaign=record.campaign, codes=total, at_random=random)
