"""Simulated shops as the studies see them, and environments: shops that are made once and kept in a folder.

A shop has orders to train and test a context network on, and campaigns whose codes were assigned at random to all
customers. An environment is such a shop after campaigns A to D, with its trained network. All studies look at the same
ones, and an interrupted run need not simulate them again. Nothing is tuned: the retailer's settings are the defaults,
and the network is the one with the paper's head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disco.belief import EngagementCounts
from disco.campaign import Lesson
from disco.features import ContextNetwork, TrainingSet, build_features, has_history, training_set
from disco.operations.arms import assign_at_random
from disco.records.arrays import Flags, Ids, Matrix, Vector
from disco.records.decisions import Audience, Offer, Purchases
from disco.records.maturity import Maturity
from disco.records.score import EngagementHead
from disco.retailer import Retailer, RetailerSettings, Truth
from disco.retailer.settings import Campaign
from studies.cache import folder_written_whole

TRAINING = (date(2025, 5, 1), date(2025, 8, 1))  # three months, and the calendar month after them: both in the history
TEST = (date(2025, 8, 1), date(2025, 9, 1))
CAMPAIGNS = ("A", "B", "C", "D")
PAST_CAMPAIGNS, PLAYED_CAMPAIGN = ("A", "B"), "C"  # what is learned from, and what is decided after it
REVENUE_WEIGHT = 3.0
MATURITY = Maturity(35)  # as when the reproduction was run

#: The source that decides what an environment is.
ENVIRONMENT_ROOMS = (
    "records/identity.py",
    "records/depths.py",
    "records/tables.py",
    "features",
    "retailer",
    "operations/arms.py",
    "studies/environment.py",
)


def equal_caps(*, customers: int, depths: int) -> tuple[int, ...]:
    """Every depth to the same share of the customers, everybody one code: the design that prefers no depth.

    Depth mixes of all policies are then equal, so that baskets can be compared.

    >>> equal_caps(customers=5000, depths=3)
    (1667, 1667, 1666)
    """
    return tuple(customers // depths + (place < customers % depths) for place in range(depths))


# ---- contexts that are compared ------------------------------------------------------------------------------------

PLAIN = 0.0  # the paper's ReLU


@dataclass(frozen=True, slots=True)
class ContextRecipe:
    """How a context network is built.

    >>> ContextRecipe("level", PLAIN).name
    'plain ReLU, level'
    """

    heads: str
    leak: float | None = None  # of the output layer; None is the product's own
    dimensions: int = 6

    @property
    def name(self) -> str:
        layer = "plain ReLU" if self.leak == PLAIN else "ours"
        return f"{layer}, {self.heads}" + (f", {self.dimensions} dimensions" if self.dimensions != 6 else "")

    def network(self, *, seed: int, max_epochs: int = 40) -> ContextNetwork:
        network = ContextNetwork(
            heads=self.heads, dimensions=self.dimensions, seed=seed, max_epochs=max_epochs, device="cpu"
        )
        return network if self.leak is None else network.set_params(leak=self.leak)

    def fit(self, training: TrainingSet, *, seed: int, max_epochs: int = 40) -> ContextNetwork:
        network = self.network(seed=seed, max_epochs=max_epochs)
        return network.fit(training.X, training.log_full_price, training.depth, codes=training.codes)


LEVEL, SLOPE = ContextRecipe("level"), ContextRecipe("level+slope")
ENGAGEMENT = ContextRecipe("level+slope+engagement")  # the product's own


# ---- shops ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryTables:
    """Tables held in memory, as the features ask for them."""

    tables: Mapping[str, pa.Table]

    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def scan(self, name: str) -> pa.Table:
        return self.tables[name]


@dataclass(frozen=True, slots=True)
class CampaignLog:
    """A campaign whose codes were assigned at random to everybody, as one network sees its customers."""

    campaign: Campaign
    ids: Ids
    context: Matrix
    known: Flags  # a purchase in the year before: the context is the customer's own
    depth: Vector
    full_price: Vector  # NaN without a purchase
    head: EngagementHead | None = None  # of the network; without one, everybody has the rate of the depth

    @property
    def bought(self) -> Flags:
        return ~np.isnan(self.full_price)

    @property
    def audience(self) -> Audience:
        return Audience(ids=self.ids, context=self.context, known=self.known)

    @property
    def purchases(self) -> Purchases:
        """Of customers with a purchase in the year before, as in the paper."""
        rows = self.bought & self.known
        return Purchases(context=self.context[rows], depth=self.depth[rows], full_price=self.full_price[rows])

    @property
    def lesson(self) -> Lesson:
        """What it teaches: purchases, and every code sent."""
        scores, bins = (None, None) if self.head is None else (self.head.scores(self.context), self.head.bins)
        codes = EngagementCounts.of(self.depth, self.bought, score=scores, bins=bins)
        return Lesson.of(self.campaign.name, self.purchases, codes)


@dataclass(frozen=True, slots=True)
class RandomCampaign:
    """The same campaign before any network: its customers' features on the day, and what they bought."""

    campaign: Campaign
    features: pa.Table
    known: Flags
    depth: Vector
    full_price: Vector  # NaN without a purchase

    def log(self, network: ContextNetwork) -> CampaignLog:
        return CampaignLog(
            campaign=self.campaign,
            ids=self.features["customer_id"].to_numpy(),
            context=network.transform(self.features, check_scale=False),
            known=self.known,
            depth=self.depth,
            full_price=self.full_price,
            head=network.head_,
        )


@dataclass(frozen=True, slots=True)
class StudyShop:
    """Orders to train and test on, campaigns to learn from, and the customers of the campaign to decide."""

    retailer: Retailer  # on the morning when the campaign is decided
    training: TrainingSet
    test: TrainingSet
    campaigns: tuple[RandomCampaign, ...]
    ids: Ids
    features: pa.Table
    known: Flags


def open_shop(settings: RetailerSettings, *, campaigns: Sequence[str] = PAST_CAMPAIGNS) -> StudyShop:
    """A shop after these campaigns, whose codes were assigned at random to everybody."""
    retailer = Retailer.simulate(settings)
    tables = retailer.tables()
    orders = {
        name: training_set(MemoryTables(tables), window_start=start, window_end=end, maturity=MATURITY)
        for name, (start, end) in (("training", TRAINING), ("test", TEST))
    }
    run = []
    for name in campaigns:
        features = build_features(MemoryTables(tables), as_of=retailer.today)
        campaign = settings.campaign(name)
        codes = _codes(campaign, features["customer_id"], seed=settings.seed)
        response = retailer.respond(codes)
        run.append(_random_campaign(campaign, features, codes, response.outcomes))
        tables = {**tables, **{each: pa.concat_tables([tables[each], new]) for each, new in response.tables().items()}}
        retailer = response.shop
    features = build_features(MemoryTables(tables), as_of=retailer.today)
    return StudyShop(
        retailer=retailer,
        training=orders["training"],
        test=orders["test"],
        campaigns=tuple(run),
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
    choice = assign_at_random(ids.to_numpy(), offer, seed=seed, campaign=campaign.name)
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


def _random_campaign(campaign: Campaign, features: pa.Table, codes: pa.Table, outcomes: pa.Table) -> RandomCampaign:
    place = pc.index_in(codes["code_id"], outcomes["code"].combine_chunks())
    bought = pc.take(outcomes["full_price"], place).to_numpy()
    rows = pc.index_in(codes["customer_id"], features["customer_id"].combine_chunks())
    sent = features.take(rows)
    return RandomCampaign(campaign, sent, has_history(sent), codes["depth"].to_numpy(), np.asarray(bought, np.float64))


# ---- environments --------------------------------------------------------------------------------------------------

_BESIDES = ("log_full_price", "depth", "depth_derived")


@dataclass(frozen=True, slots=True)
class Environment:
    """A kept shop; features and orders are read from `folder` when asked for."""

    seed: int
    folder: Path
    retailer: RetailerSettings
    network: ContextNetwork  # heads="level"
    campaigns: Mapping[str, CampaignLog]

    def truth(self, ids: Ids, depths: tuple[float, ...], *, channel: str = "on-site") -> Truth:
        """The law behind the answers: for judging, never for deciding."""
        return Retailer.simulate(self.retailer).truth(ids, depths, channel=channel)

    def orders(self, name: str) -> TrainingSet:
        """Orders with the buyers' features: "training" (three months) or "test" (the calendar month after them)."""
        table = pq.read_table(self.folder / f"{name}.parquet")
        return TrainingSet(
            table["customer_id"].to_numpy(),
            table.drop_columns(["customer_id", *_BESIDES]),
            table["log_full_price"].to_numpy(),
            table["depth"].to_numpy(),
            table["depth_derived"].to_numpy(),
        )

    def features(self, campaign: str) -> pa.Table:
        """The 76 features of a campaign's customers on the day it was decided, in the order of its log."""
        return pq.read_table(self.folder / f"features-{campaign}.parquet")


def make_environment(folder: Path, settings: RetailerSettings, max_epochs: int) -> None:
    """Simulate, train and run campaigns A to D, into a folder that appears whole or not at all."""
    shop = open_shop(settings, campaigns=CAMPAIGNS)
    network = LEVEL.fit(shop.training, seed=settings.seed, max_epochs=max_epochs)
    with folder_written_whole(folder) as unfinished:
        (unfinished / "retailer.json").write_text(settings.to_json(), encoding="utf-8")
        network.save(unfinished / "network.safetensors")
        pq.write_table(_orders_table(shop.training), unfinished / "training.parquet")
        pq.write_table(_orders_table(shop.test), unfinished / "test.parquet")
        for run in shop.campaigns:
            name, log = run.campaign.name, run.log(network)
            table = pa.table(
                {"customer_id": log.ids, "known": log.known, "depth": log.depth, "full_price": log.full_price}
            )
            pq.write_table(run.features, unfinished / f"features-{name}.parquet")
            pq.write_table(table, unfinished / f"log-{name}.parquet")
            np.save(unfinished / f"context-{name}.npy", log.context)


def load_environment(folder: Path) -> Environment:
    """The environment that `make_environment` left in a folder."""
    settings = RetailerSettings.from_json((folder / "retailer.json").read_text(encoding="utf-8"))
    return Environment(
        seed=settings.seed,
        folder=folder,
        retailer=settings,
        network=ContextNetwork.load(folder / "network.safetensors"),
        campaigns={name: _load_log(folder, settings.campaign(name)) for name in CAMPAIGNS},
    )


def _orders_table(orders: TrainingSet) -> pa.Table:
    table = orders.X.add_column(0, "customer_id", pa.array(orders.ids))
    for name, column in zip(_BESIDES, (orders.log_full_price, orders.depth, orders.depth_derived), strict=True):
        table = table.append_column(name, pa.array(column))
    return table


def _load_log(folder: Path, campaign: Campaign) -> CampaignLog:
    table = pq.read_table(folder / f"log-{campaign.name}.parquet")
    return CampaignLog(
        campaign=campaign,
        ids=table["customer_id"].to_numpy(),
        context=np.load(folder / f"context-{campaign.name}.npy"),
        known=table["known"].to_numpy(),
        depth=table["depth"].to_numpy(),
        full_price=table["full_price"].to_numpy(),
    )
