"""From a simulated shop to a stage: campaigns A and B, dealt at random, are the past; campaign C is played.

Customers without a purchase in the year before stay outside, as in the paper.
"""

from collections.abc import Mapping

import numpy as np

from disco.evaluation.passes import generator
from disco.features import ContextNetwork
from disco.retailer import Retailer, RetailerSettings
from disco.studies.bandits.stage import Law, Past, Stage
from disco.studies.customers.shop import Shop
from disco.studies.paper.environment import CampaignLog, Environment
from disco.studies.paper.readings import DEPTH_SCALE

PAST, PLAYED = ("A", "B"), "C"


def stage_of(environment: Environment) -> Stage:
    return _stage(f"environment {environment.seed}", environment.retailer, environment.campaigns)


def stage_of_shop(shop: Shop, network: ContextNetwork) -> Stage:
    """A shop that lived through A, B and C, its customers as this network sees them."""
    settings = shop.shop.settings
    logs = {
        dealt.name: CampaignLog(
            campaign=settings.campaign(dealt.name),
            ids=dealt.features["customer_id"].to_numpy(),
            context=network.transform(dealt.features, check_scale=False),
            known=dealt.known,
            depth=dealt.depth,
            full_price=dealt.full_price,
        )
        for dealt in shop.campaigns
    }
    return _stage(f"{settings.curves.shape} shop {settings.seed}", settings, logs)


def _stage(name: str, settings: RetailerSettings, logs: Mapping[str, CampaignLog]) -> Stage:
    played = logs[PLAYED]
    campaign, known = played.campaign, played.known
    truth = Retailer.simulate(settings).truth(played.ids[known], campaign.depths, channel=str(campaign.channel))
    residual_sd = settings.baskets.campaign_residual_sd
    law = Law(
        depths=campaign.depths,
        log_full_price=np.log(truth.expected_full_price) - residual_sd**2 / 2,
        purchase_probability=truth.purchase_probability,
        residual_sd=residual_sd,
    )
    past = _past([logs[each] for each in PAST], seed=settings.seed)
    return Stage(
        name=name, seed=settings.seed, context=played.context[known], law=law, past=past, depth_scale=DEPTH_SCALE
    )


def _past(logs: list[CampaignLog], *, seed: int) -> Past:
    """All codes shuffled together: any first part is a fair sample of both campaigns."""
    context, depth, full_price = (
        np.concatenate([getattr(log, name)[log.known] for log in logs]) for name in ("context", "depth", "full_price")
    )
    order = generator("bandit past", seed).permutation(depth.size)
    return Past(context=context[order], depth=depth[order], full_price=full_price[order])
