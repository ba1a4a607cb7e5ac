"""A simulated shop as the study sees it: training and test orders, then campaigns A and B dealt at random, then C."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.features import TrainingSet, build_features, has_history, training_set
from disco.operations.arms import assign_at_random
from disco.records.arrays import Flags, Ids, Vector
from disco.records.decisions import Offer
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.settings import Campaign

TRAINING = (date(2025, 5, 1), date(2025, 8, 1))  # three months, and the calendar month after them: both in the history
TEST = (date(2025, 8, 1), date(2025, 9, 1))
RANDOM_CAMPAIGNS, DECIDED_CAMPAIGN = ("A", "B"), "C"
REVENUE_WEIGHT = 3.0


@dataclass(frozen=True, slots=True)
class MemoryTables:
    """Tables held in memory, as the features ask for them."""

    tables: Mapping[str, pa.Table]

    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def scan(self, name: str) -> pa.Table:
        return self.tables[name]


@dataclass(frozen=True, slots=True)
class RandomCampaign:
    """A campaign dealt at random to everybody, its customers' features on the day, and what they bought."""

    name: str
    features: pa.Table
    known: Flags
    depth: Vector
    full_price: Vector  # NaN without a purchase


@dataclass(frozen=True, slots=True)
class Shop:
    """Orders to train and test on, campaigns to learn from, and the customers of the campaign to decide."""

    shop: Retailer  # on the morning when the campaign is decided
    training: TrainingSet
    test: TrainingSet
    campaigns: tuple[RandomCampaign, ...]
    ids: Ids
    features: pa.Table
    known: Flags


def open_shop(settings: RetailerSettings, *, dealt: Sequence[str] = RANDOM_CAMPAIGNS) -> Shop:
    """A shop that has lived through the campaigns named in `dealt`, their codes dealt at random to everybody."""
    shop = Retailer.simulate(settings)
    tables = shop.tables()
    orders = {
        name: training_set(MemoryTables(tables), window_start=start, window_end=end)
        for name, (start, end) in (("training", TRAINING), ("test", TEST))
    }
    campaigns = []
    for name in dealt:
        features = build_features(MemoryTables(tables), as_of=shop.today)
        codes = _codes(settings.campaign(name), features["customer_id"], seed=settings.seed)
        response = shop.respond(codes)
        campaigns.append(_campaign(name, features, codes, response.outcomes))
        tables = {**tables, **{each: pa.concat_tables([tables[each], new]) for each, new in response.tables().items()}}
        shop = response.shop
    features = build_features(MemoryTables(tables), as_of=shop.today)
    return Shop(
        shop=shop,
        training=orders["training"],
        test=orders["test"],
        campaigns=tuple(campaigns),
        ids=features["customer_id"].to_numpy(),
        features=features,
        known=has_history(features),
    )


def confounded(settings: RetailerSettings, confounding: float) -> RetailerSettings:
    """The same shop, had its ordinary codes followed spend this closely."""
    return replace(settings, ordinary_codes=replace(settings.ordinary_codes, confounding=confounding))


def _codes(campaign: Campaign, ids: pa.ChunkedArray, *, seed: int) -> pa.Table:
    count, kinds = len(ids), len(campaign.depths)
    offer = Offer(depths=campaign.depths, caps=(-(-count // kinds),) * kinds, revenue_weight=REVENUE_WEIGHT)
    choice = assign_at_random(ids.to_numpy(), offer, costs=np.zeros(kinds), seed=seed, campaign=campaign.name)
    start, moment = datetime.combine(campaign.starts_on, time()), pa.timestamp("us")
    table = pa.table(
        {
            "code_id": pc.binary_join_element_wise(campaign.name, ids.cast(pa.string()), "-"),
            "customer_id": ids,
            "campaign_id": pa.repeat(campaign.name, count),
            "depth": np.asarray(campaign.depths)[choice],
            "sent_at": pa.repeat(pa.scalar(start, moment), count),
            "expires_at": pa.repeat(pa.scalar(start + timedelta(days=campaign.valid_days), moment), count),
            "channel": pa.repeat(str(campaign.channel), count),
        }
    )
    return table.filter(pa.array(choice >= 0))


def _campaign(name: str, features: pa.Table, codes: pa.Table, outcomes: pa.Table) -> RandomCampaign:
    place = pc.index_in(codes["code_id"], outcomes["code"].combine_chunks())
    bought = pc.take(outcomes["full_price"], place).to_numpy()
    rows = pc.index_in(codes["customer_id"], features["customer_id"].combine_chunks())
    dealt = features.take(rows)
    return RandomCampaign(name, dealt, has_history(dealt), codes["depth"].to_numpy(), np.asarray(bought, np.float64))
