"""What a campaign of the demo came to: arms, money predicted and realised, uplift, and judgement by truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco import objective
from disco.campaign import Belief
from disco.evaluation import Accuracy, Judgement, Uplift, accuracy, judge, uplift
from disco.operations import Planned, purchases_of
from disco.operations.forecast import Interval
from disco.operations.purchases import bought
from disco.records.arrays import Integers
from disco.records.decisions import Arm, Audience
from disco.records.plan import Plan
from disco.records.ports import Store
from disco.retailer import Retailer


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
    planned: Planned, audience: Audience, *, belief: Belief, store: Store, shop: Retailer
) -> CampaignResult:
    """Everything there is to say about one campaign; `belief` and `shop` are those before it."""
    plan, decisions = planned.plan, planned.decisions
    with store.reading() as shelves:
        full_price = bought(shelves, plan.campaign, shelves.decisions(plan.campaign))
    choice = _choice(decisions, plan.offered)
    depth = np.append(plan.offered, 0.0)[choice]
    arms = {arm: np.array(decisions["arm"].to_pylist()) == arm for arm in (Arm.TEST, Arm.CONTROL)}

    def arm_result(arm: Arm) -> ArmResult:
        rows = arms[arm]
        expected = planned.arms[arm].money
        return ArmResult(
            customers=int(rows.sum()),
            codes={d: int((choice[rows] == place).sum()) for place, d in enumerate(plan.offered)},
            purchases=int((full_price[rows] > 0).sum()),
            revenue=float(objective.revenue(full_price[rows], depth[rows]).sum()),
            markdown=float(objective.markdown(full_price[rows], depth[rows]).sum()),
            predicted_revenue=expected.revenue if expected else None,
            predicted_markdown=expected.markdown if expected else None,
        )

    def compare(figure: Callable[..., np.ndarray]) -> Uplift | None:
        if not arms[Arm.CONTROL].any():
            return None
        return uplift(*(figure(full_price[rows], depth[rows]) for rows in (arms[Arm.TEST], arms[Arm.CONTROL])))

    seen = purchases_of(store, plan.campaign)
    prices = planned.solution.prices
    return CampaignResult(
        name=plan.campaign,
        decided_by="at random" if prices is None else "the system",
        plan=plan,
        test=arm_result(Arm.TEST),
        control=arm_result(Arm.CONTROL) if arms[Arm.CONTROL].any() else None,
        revenue_uplift=compare(objective.revenue),
        reward_uplift=compare(objective.reward),
        judgement=None
        if prices is None
        else judge_by_truth(choice[arms[Arm.TEST]], audience.ids[arms[Arm.TEST]], plan, shop),
        accuracy=accuracy(belief.basket.predict(seen.context, seen.depth)[0], np.log(seen.full_price))
        if belief.basket.campaigns and len(seen)
        else None,
        prices={}
        if prices is None
        else {d: price / plan.objective.revenue_weight for d, price in zip(plan.offered, prices, strict=True)},
    )


def judge_by_truth(choice: Integers, ids: np.ndarray, plan: Plan, shop: Retailer) -> Judgement:
    truth = shop.truth(ids, plan.offered, channel=plan.channel)
    return judge(
        choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=plan.offered,
        revenue_weight=plan.objective.revenue_weight,
    )
