"""One environment: a simulated retailer with its orders, its trained context network and four random campaigns.

Made once and kept in a folder, so that all studies look at the same shops and an interrupted run need not simulate
again. Nothing is tuned: the retailer's settings are the defaults, and the network is the one with the paper's head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.belief import EngagementCounts
from disco.features import ContextNetwork, TrainingSet
from disco.records.arrays import Flags, Ids, Matrix, Vector
from disco.records.decisions import Audience, Purchases
from disco.retailer import Retailer, RetailerSettings, Truth
from disco.retailer.settings import Campaign
from disco.studies.customers.recipes import LEVEL
from disco.studies.customers.shop import RandomCampaign, open_shop
from disco.studies.paper.cache import folder_written_whole

CAMPAIGNS = ("A", "B", "C", "D")
_ORDERS = ("training", "test")
_BESIDES = ("log_full_price", "depth", "depth_derived")


@dataclass(frozen=True, slots=True)
class CampaignLog:
    """A campaign whose codes were dealt at random to everybody: who, at which depth, and what was bought."""

    campaign: Campaign
    ids: Ids
    context: Matrix
    known: Flags  # a purchase in the year before: the context is the customer's own
    depth: Vector
    full_price: Vector  # NaN without a purchase

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
    def codes(self) -> EngagementCounts:
        return EngagementCounts.of(self.depth, self.bought)


@dataclass(frozen=True, slots=True)
class Environment:
    """A simulated retailer as the studies see it; features and orders are read from `folder` when asked for."""

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


def make(settings: RetailerSettings, folder: Path, *, max_epochs: int) -> None:
    """Simulate, train and deal campaigns A to D, into a folder that appears whole or not at all."""
    shop = open_shop(settings, dealt=CAMPAIGNS)
    network = LEVEL.fit(shop.training, seed=settings.seed, max_epochs=max_epochs)
    with folder_written_whole(folder) as unfinished:
        (unfinished / "retailer.json").write_text(settings.to_json(), encoding="utf-8")
        network.save(unfinished / "network.safetensors")
        for name, orders in zip(_ORDERS, (shop.training, shop.test), strict=True):
            pq.write_table(_orders_table(orders), unfinished / f"{name}.parquet")
        for dealt in shop.campaigns:
            pq.write_table(dealt.features, unfinished / f"features-{dealt.name}.parquet")
            pq.write_table(_log_table(dealt), unfinished / f"log-{dealt.name}.parquet")
            np.save(unfinished / f"context-{dealt.name}.npy", network.transform(dealt.features, check_scale=False))


def load(folder: Path) -> Environment:
    """The environment that `make` left in a folder."""
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


def _log_table(dealt: RandomCampaign) -> pa.Table:
    return pa.table(
        {
            "customer_id": dealt.features["customer_id"],
            "known": dealt.known,
            "depth": dealt.depth,
            "full_price": dealt.full_price,
        }
    )


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
