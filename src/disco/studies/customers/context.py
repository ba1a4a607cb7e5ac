"""What a context knows (linear probes of the truth) and what it is worth (a campaign decided with it)."""

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts, SmoothSpline
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation import Judgement, judge
from disco.features import ContextNetwork
from disco.policy import Thompson
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Audience, Offer, Purchases
from disco.studies.customers.shop import DECIDED_CAMPAIGN, REVENUE_WEIGHT, Shop

DECIDED_SHARES = (0.3, 0.2, 0.1)  # of the customers, shallow to deep, as in the demo


def probe(context: Matrix, target: Vector) -> float:
    """R² of the best line from context to target, fitted on every other row and judged on the rest.

    >>> x = np.random.default_rng(0).standard_normal((1000, 2))
    >>> round(probe(x, 2 * x[:, 0] - x[:, 1]), 6), abs(probe(x, x[:, 0] * x[:, 1])) < 0.05
    (1.0, True)
    """
    design = np.column_stack([np.ones(len(context)), context])
    weights = np.linalg.lstsq(design[::2], target[::2], rcond=None)[0]
    left = target[1::2] - design[1::2] @ weights
    return float(1 - left.var() / target[1::2].var())


def probes(network: ContextNetwork, shop: Shop) -> dict[str, float]:
    """R² of the true elasticity and the true baseline from ψ1, over customers with a purchase in the year."""
    truth = shop.shop.truth(shop.ids[shop.known], [0.1])
    context = network.transform(shop.features.filter(shop.known), check_scale=False)
    return {"elasticity": probe(context, truth.elasticity), "baseline": probe(context, truth.baseline)}


def decided_campaign(network: ContextNetwork, shop: Shop) -> Judgement:
    """Learn from campaigns A and B, decide C as in production, and judge the choice by the truth."""
    belief = Belief(basket=BasketModel(encoding=SmoothSpline(), depth_scale=0.5), engagement=Engagement())
    for past in shop.campaigns:
        bought = ~np.isnan(past.full_price)
        rows = bought & past.known
        seen = Purchases(
            context=network.transform(past.features.filter(rows), check_scale=False),
            depth=past.depth[rows],
            full_price=past.full_price[rows],
        )
        belief = learn(belief, [Lesson.of(past.name, seen, EngagementCounts.of(past.depth, bought))])
    campaign = shop.shop.settings.campaign(DECIDED_CAMPAIGN)
    caps = tuple(int(share * len(shop.ids)) for share in DECIDED_SHARES)
    decisions = decide(
        Audience(ids=shop.ids, context=network.transform(shop.features, check_scale=False), known=shop.known),
        belief=belief,
        offer=Offer(depths=campaign.depths, caps=caps, revenue_weight=REVENUE_WEIGHT),
        policy=Thompson(),
        campaign=campaign.name,
        seed=shop.shop.settings.seed,
    )
    truth = shop.shop.truth(shop.ids, campaign.depths, channel=str(campaign.channel))
    return judge(
        decisions.choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=campaign.depths,
        revenue_weight=REVENUE_WEIGHT,
    )
