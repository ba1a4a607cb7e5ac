"""What a campaign of the demo came to: arms, money predicted and realised, uplift, and judgement by truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco import objective
from disco.adapters.store import SqlStore
from disco.belief import draw_full_price_totals
from disco.campaign import Belief
from disco.evaluation import Accuracy, Judgement, Uplift, accuracy, judge, uplift
from disco.operations import Launched, purchases_of
from disco.records.arrays import Integers
from disco.records.decisions import Arm, Audience
from disco.records.money import from_minor_units
from disco.records.plan import Plan
from disco.retailer import Retailer


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One arm of one campaign; money in currency units, `predicted_*` with 90 % intervals, None before any evidence."""

    customers: int
    codes: dict[float, int]
    purchases: int
    revenue: float
    markdown: float
    predicted_revenue: Interval | None
    predicted_markdown: Interval | None

    @property
    def reward(self) -> float:
        return self.revenue - self.markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """What a campaign decided, what came of it, and how good the decision really was."""

    name: str
    decided_by: str
    plan: Plan
    test: ArmResult
    control: ArmResult | None
    revenue_uplift: Uplift | None  # revenue per customer against control, realised
    reward_uplift: Uplift | None
    judgement: Judgement | None  # of the test arm, by truth
    accuracy: Accuracy | None  # of ln full price, belief before the campaign, all purchases of the campaign
    prices: dict[float, float]  # shadow prices as pounds of revenue


def _choice(decisions: pa.Table, depths: tuple[float, ...]) -> Integers:
    column = {depth: place for place, depth in enumerate(depths)}
    return np.array([-1 if depth is None else column[depth] for depth in decisions["depth"].to_pylist()], np.int64)


def campaign_result(
    launched: Launched, audience: Audience, *, belief: Belief, store: SqlStore, shop: Retailer
) -> CampaignResult:
    """Everything there is to say about one campaign; `belief` and `shop` are those before it."""
    plan, decisions = launched.plan, launched.decisions
    ledger = store.ledger(plan.campaign)
    bought = dict(zip(ledger["code"].to_pylist(), from_minor_units(ledger["full_price_minor"].to_numpy()), strict=True))
    full_price = np.array([bought.get(code, 0.0) for code in decisions["code"].to_pylist()])
    choice = _choice(decisions, plan.offered)
    depth = np.append(plan.offered, 0.0)[choice]
    arms = {arm: np.array(decisions["arm"].to_pylist()) == arm for arm in (Arm.TEST, Arm.CONTROL)}

    def arm_result(arm: Arm) -> ArmResult:
        rows = arms[arm]
        predicted = _predicted(belief, audience.take(rows), choice[rows], plan) if belief.basket.campaigns else None
        return ArmResult(
            customers=int(rows.sum()),
            codes={d: int((choice[rows] == place).sum()) for place, d in enumerate(plan.offered)},
            purchases=int((full_price[rows] > 0).sum()),
            revenue=float(objective.revenue(full_price[rows], depth[rows]).sum()),
            markdown=float(objective.markdown(full_price[rows], depth[rows]).sum()),
            predicted_revenue=predicted[0] if predicted else None,
            predicted_markdown=predicted[1] if predicted else None,
        )

    def compare(figure: Callable[..., np.ndarray]) -> Uplift | None:
        if not arms[Arm.CONTROL].any():
            return None
        return uplift(*(figure(full_price[rows], depth[rows]) for rows in (arms[Arm.TEST], arms[Arm.CONTROL])))

    seen = purchases_of(store, plan.campaign)
    return CampaignResult(
        name=plan.campaign,
        decided_by="at random" if launched.test is None else "the system",
        plan=plan,
        test=arm_result(Arm.TEST),
        control=arm_result(Arm.CONTROL) if arms[Arm.CONTROL].any() else None,
        revenue_uplift=compare(objective.revenue),
        reward_uplift=compare(objective.reward),
        judgement=None
        if launched.test is None
        else judge_by_truth(launched.test.choice, audience.ids[arms[Arm.TEST]], plan, shop),
        accuracy=accuracy(belief.basket.predict(seen.context, seen.depth)[0], np.log(seen.full_price))
        if belief.basket.campaigns and len(seen)
        else None,
        prices={}
        if launched.test is None
        else dict(zip(plan.offered, (launched.test.prices / plan.objective.revenue_weight).tolist(), strict=True)),
    )


def _predicted(belief: Belief, audience: Audience, choice: Integers, plan: Plan) -> tuple[Interval, Interval]:
    """Revenue and markdown of an arm with 90 % intervals: one θ for everybody per draw."""
    depths = np.asarray(plan.offered)
    totals = draw_full_price_totals(
        belief.basket, audience.context, choice, depths, engagement=belief.engagement, draws=200, seed=plan.seed
    )
    figures = (totals @ (1 - depths), totals @ depths)
    ends = [np.quantile(figure, (0.05, 0.95)) for figure in figures]
    first, second = (
        Interval(mean=float(figure.mean()), lower=float(low), upper=float(high))
        for figure, (low, high) in zip(figures, ends, strict=True)
    )
    return first, second


def judge_by_truth(choice: Integers, ids: np.ndarray, plan: Plan, shop: Retailer) -> Judgement:
    truth = shop.truth(ids, plan.offered, channel=plan.channel)
    return judge(
        choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=plan.offered,
        revenue_weight=plan.objective.revenue_weight,
    )
