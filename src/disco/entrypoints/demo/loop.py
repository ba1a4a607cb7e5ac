"""The whole loop on a simulated retailer: two random campaigns to learn from, two decided ones with a control group.

Decisions are judged twice: by what the simulated customers did (noisy, as in life), and by the simulation's truth
(what a decision is really worth). Nothing here is tuned; the retailer, the limits and the seed are arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco import objective
from disco.adapters.config import EXPLORATION, ShopSettings
from disco.adapters.tables import FolderTables
from disco.campaign import Belief, decide
from disco.entrypoints.demo.shop import NETWORK, TABLES, ShopClock, open_shop, shop_data, shop_prior
from disco.evaluation.accuracy import Accuracy, Judgement, accuracy, judge
from disco.evaluation.estimates import Uplift, uplift
from disco.features import ContextNetwork, build_features, has_history, training_set
from disco.operations.arms import offer_of, share_offers
from disco.operations.export import export_codes
from disco.operations.launch import launch
from disco.operations.learn import learn_campaigns, purchases_of
from disco.operations.outcomes import ingest
from disco.operations.plan import Planned, plan_campaign
from disco.operations.purchases import bought
from disco.policy import Thompson
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Arm, Audience, Purchases
from disco.records.estimate import Estimate
from disco.records.plan import Plan, read_plan
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.settings import Campaign
from disco.store import Store

REVENUE_WEIGHT = 3.0
DECIDED_SHARES = (0.3, 0.2, 0.1)  # of the customers, shallow to deep: codes are scarce, deep ones scarcer
CONTROL_SHARE = 0.2
NETWORK_WINDOW_MONTHS = 3
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoArm:
    """One group of one campaign; money in currency units."""

    customers: int
    codes: dict[float, int]  # sent, by depth
    purchases: int
    revenue: float
    markdown: float
    predicted_revenue: Estimate | None  # 90%; None before anything was learned
    predicted_markdown: Estimate | None

    @property
    def reward(self) -> float:
        return self.revenue - self.markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCampaign:
    """What a campaign decided, what it brought, and what the decision was really worth."""

    name: str
    decided_by: str
    plan: Plan
    decided: DemoArm  # decided by the system, or assigned at random where the campaign is random
    control: DemoArm | None
    revenue_uplift: Uplift | None  # actual revenue per customer compared with control
    reward_uplift: Uplift | None
    judgement: Judgement | None  # of the decided group, by the simulation's truth
    accuracy: Accuracy | None  # of ln full price, belief before the campaign, all purchases of the campaign
    prices: dict[float, float]  # shadow prices as pounds of revenue


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    seed: int
    customers: int
    campaigns: tuple[DemoCampaign, ...]
    again: Judgement  # campaign C decided again with the belief after all campaigns, same customers and limits
    belief_before: Belief  # after the random campaigns
    belief_after: Belief
    observed: Purchases  # with codes assigned at random: campaigns A and B, control groups of C and D
    # expected buyers among campaign C's customers, at each of CURVE_DEPTHS
    buyer_contexts: Matrix  # (depths, d1) their mean context
    buyer_log_full_price: Vector  # (depths,) the true mean of ln(full price)


CURVE_DEPTHS = np.linspace(0.05, 0.5, 19)


def run_demo(
    *, customers: int, seed: int, folder: Path | None, scratch: Path, progress: Progress = lambda step: None
) -> DemoResult:
    """Run the loop; shop, store and (where `folder` is given) allocations are written below these folders."""
    progress("simulating the retailer")
    shop = Retailer.simulate(RetailerSettings(customers=customers, seed=seed))
    tables_folder = scratch / TABLES
    shop.write(tables_folder)
    clock = ShopClock(shop.today)
    store = open_shop(scratch, clock=clock)
    progress("training the context network")
    network = _train_network(FolderTables(tables_folder), before=shop.today, seed=seed)
    network.save(scratch / NETWORK)
    network_name = shop_data(scratch).network_hash()
    prior = replace(shop_prior(), head=network.head_)

    results: list[DemoCampaign] = []
    belief, version = prior, None
    before, audience_c, decided_c = belief, None, None
    for campaign in shop.settings.campaigns:
        progress(f"campaign {campaign.name}: features and contexts")
        audience = _audience(FolderTables(tables_folder), network, as_of=shop.today)
        plan = _plan(campaign, random=campaign.name in ("A", "B"), seed=seed, as_of=shop.today)
        progress(f"campaign {campaign.name}: decide, launch, customers answer, learn")
        clock.today = shop.today
        planned = plan_campaign(
            store, plan, audience, belief=belief, version=version, network=network_name, inputs={}, clock=clock
        )
        launched = launch(store, planned, clock=clock, secret=code_secret(seed))
        response = shop.respond(export_codes(store, plan.campaign))
        clock.today = response.end
        ingest(store, plan.campaign, response.outcomes, source="simulated customers", clock=clock)
        results.append(demo_campaign(planned, audience, belief=belief, store=store, shop=shop))
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(launched.decisions, folder / f"{campaign.name}.parquet")
        if campaign.name == "C":
            before, audience_c, decided_c = belief, audience, planned
        response.append_to(tables_folder)
        shop = response.shop
        clock.today = as_of = plan.valid.end + timedelta(days=3)
        learned = learn_campaigns(store, [plan.campaign], prior=prior, as_of=as_of, clock=clock)
        belief, version = learned.belief, learned.version

    if audience_c is None or decided_c is None:
        raise AssertionError("the retailer's settings name no campaign C")
    progress("deciding campaign C again with everything learned")
    truth = shop.truth(audience_c.ids, CURVE_DEPTHS.tolist())
    known = audience_c.known
    buyers = truth.purchase_probability[known] / truth.purchase_probability[known].sum(axis=0)  # (customers, depths)
    purchases = [purchases_of(store, campaign.name, only_random=True) for campaign in shop.settings.campaigns]
    store.close()
    return DemoResult(
        seed=seed,
        customers=customers,
        campaigns=tuple(results),
        again=_decide_again(decided_c, audience_c, belief, shop),
        belief_before=before,
        belief_after=belief,
        observed=Purchases(
            context=np.concatenate([part.context for part in purchases]),
            depth=np.concatenate([part.depth for part in purchases]),
            full_price=np.concatenate([part.full_price for part in purchases]),
        ),
        buyer_contexts=buyers.T @ audience_c.context[known],
        buyer_log_full_price=(buyers * np.log(truth.expected_full_price[known])).sum(axis=0)
        - shop.settings.baskets.campaign_residual_sd**2 / 2,
    )


def code_secret(seed: int) -> bytes:
    """The demo's codes are worth nothing, so that runs with one seed can be equal byte for byte."""
    return f"simulated shop {seed}".encode()


def _train_network(tables: FolderTables, *, before: date, seed: int) -> ContextNetwork:
    """Orders and codes of the last three months, features of the year before them."""
    months = before.year * 12 + before.month - 1 - NETWORK_WINDOW_MONTHS
    rows = training_set(tables, window_start=date(months // 12, months % 12 + 1, 1), window_end=before)
    network = ContextNetwork(seed=seed, habits=ShopSettings.model_validate({}).habits)
    return network.fit(rows.X, rows.log_full_price, rows.depth, codes=rows.codes)


def _audience(tables: FolderTables, network: ContextNetwork, *, as_of: date) -> Audience:
    features = build_features(tables, as_of=as_of)
    return Audience(
        ids=features["customer_id"].to_numpy(),
        context=network.transform(features),
        known=has_history(features),
    )


def _plan(campaign: Campaign, *, random: bool, seed: int, as_of: date) -> Plan:
    shares = (1 / len(campaign.depths),) * len(campaign.depths) if random else DECIDED_SHARES
    return read_plan(
        {
            "campaign": campaign.name,
            "customers": {"as_of": as_of},
            "depths": {depth: {"at_most": share} for depth, share in zip(campaign.depths, shares, strict=True)},
            "objective": {"revenue_weight": REVENUE_WEIGHT},
            "policy": {"name": "random"} if random else {"name": "thompson", "exploration": EXPLORATION},
            "control": {"share": 0.0 if random else CONTROL_SHARE},
            "valid": {"from": campaign.starts_on, "days": campaign.valid_days},
            "channel": str(campaign.channel),
            "seed": seed,
        }
    )


def _decide_again(planned: Planned, audience: Audience, belief: Belief, shop: Retailer) -> Judgement:
    """Campaign C's decided customers and limits under a later belief, judged by the same truth."""
    members = audience.take(np.array(planned.decisions["arm"].to_pylist()) == Arm.DECIDED)
    offer = share_offers(offer_of(planned.plan, eligible=len(audience)), [len(members), len(audience) - len(members)])[
        0
    ]
    again = decide(
        members,
        belief=belief,
        offer=offer,
        policy=Thompson(exploration=EXPLORATION),
        campaign=planned.plan.campaign,
        seed=planned.plan.seed,
    )
    return judge_by_truth(again.choice, members.ids, planned.plan, shop)


# ---- what a campaign brought -----------------------------------------------------------------------------------------


def _choice(decisions: pa.Table, depths: tuple[float, ...]) -> Integers:
    column = {depth: place for place, depth in enumerate(depths)}
    return np.array([-1 if depth is None else column[depth] for depth in decisions["depth"].to_pylist()], np.int64)


def demo_campaign(
    planned: Planned, audience: Audience, *, belief: Belief, store: Store, shop: Retailer
) -> DemoCampaign:
    """Everything there is to say about one campaign; `belief` and `shop` are those before it."""
    plan, decisions = planned.plan, planned.decisions
    with store.reading() as transaction:
        full_price = bought(transaction, plan.campaign, transaction.decisions.of(plan.campaign))
    choice = _choice(decisions, plan.offered)
    depth = np.append(plan.offered, 0.0)[choice]
    arms = {arm: np.array(decisions["arm"].to_pylist()) == arm for arm in (Arm.DECIDED, Arm.CONTROL)}

    def arm_result(arm: Arm) -> DemoArm:
        rows = arms[arm]
        expected = planned.arms[arm].money
        return DemoArm(
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
        return uplift(*(figure(full_price[rows], depth[rows]) for rows in (arms[Arm.DECIDED], arms[Arm.CONTROL])))

    seen = purchases_of(store, plan.campaign)
    prices = planned.solution.prices
    return DemoCampaign(
        name=plan.campaign,
        decided_by="at random" if prices is None else "the system",
        plan=plan,
        decided=arm_result(Arm.DECIDED),
        control=arm_result(Arm.CONTROL) if arms[Arm.CONTROL].any() else None,
        revenue_uplift=compare(objective.revenue),
        reward_uplift=compare(objective.reward),
        judgement=None
        if prices is None
        else judge_by_truth(choice[arms[Arm.DECIDED]], audience.ids[arms[Arm.DECIDED]], plan, shop),
        accuracy=accuracy(belief.basket.predict(seen.context, seen.depth)[0], np.log(seen.full_price))
        if belief.basket.campaigns and len(seen)
        else None,
        prices={}
        if prices is None
        else {d: price / plan.objective.revenue_weight for d, price in zip(plan.offered, prices, strict=True)},
    )


def judge_by_truth(choice: Integers, ids: np.ndarray, plan: Plan, shop: Retailer) -> Judgement:
    truth = shop.truth(ids, plan.offered, channel=str(plan.channel_name))
    return judge(
        choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=plan.offered,
        revenue_weight=plan.objective.revenue_weight,
    )
