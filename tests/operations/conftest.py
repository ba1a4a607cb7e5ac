"""A small campaign on a real store: customers, a belief, plans and outcomes to play with."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from stores import new_urls

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief
from disco.operations.arms import split
from disco.operations.launch import launch
from disco.operations.plan import plan_campaign
from disco.records.decisions import Audience
from disco.records.plan import read_plan
from disco.records.score import EngagementHead, ScoreBins
from disco.store import Store


@dataclass
class FixedClock:
    moment: datetime = datetime(2027, 3, 8, 15, tzinfo=UTC)

    def now(self):
        return self.moment


def on_grid(values):
    return np.round(np.clip(values, -4, 4) * 65536) / 65536


class Shop:
    """Everything a test needs to run a campaign's life; `prior` has seen nothing, `belief` a random campaign."""

    clock = FixedClock()
    after = date(2027, 4, 1)
    network = "first network"
    secret = b"s" * 32
    on_grid = staticmethod(on_grid)

    def __init__(self, store, head=None):
        self.store = store
        self.head = head  # of the network: with it customers differ in their chance to buy
        self.prior = Belief(basket=BasketModel(), engagement=Engagement())

    @staticmethod
    def plan(**more):
        content = {
            "campaign": "spring",
            "customers": {"as_of": date(2027, 3, 1)},
            "depths": {0.1: {"at_most": 60}, 0.3: {"at_most": 20}},
            "objective": {"revenue_weight": 3},
            "control": {"share": "25%"},
            "holdout": {"share": "10%"},
            "valid": {"from": date(2027, 3, 8), "days": 14},
            "seed": 4,
        }
        return read_plan({**content, **more})

    @classmethod
    def arm_of(cls, customer):
        """The arm of a customer in `plan()`."""
        plan = cls.plan()
        arms = split(
            [customer], control=plan.control.share, holdout=plan.holdout.share, seed=plan.seed, campaign="spring"
        )
        return next(str(arm) for arm, here in arms.items() if here[0])

    @staticmethod
    def people(rows=200, ids=None, seed=1):
        rng = np.random.default_rng(seed)
        known = np.arange(rows) % 10 != 0
        context = on_grid(rng.normal(size=(rows, 2)))
        return Audience(ids=np.arange(rows) if ids is None else ids, context=context, known=known)

    @staticmethod
    def knowledge(spread=0.0):
        """A belief from 500 purchases that no store has seen; with `spread`, customers differ in what they spend."""
        rng = np.random.default_rng(2)
        context, depth = on_grid(rng.normal(size=(500, 2))), rng.choice([0.1, 0.3], 500)
        full_price = np.exp(rng.normal(4, 0.5, 500) + spread * context[:, 0])
        basket = BasketModel().update(context, depth, full_price, campaign="old")
        return Belief(basket=basket, engagement=Engagement())

    def planned(self, plan=None, audience=None, *, belief=None, version=None, inputs=None, **more):
        belief = belief or self.knowledge()
        return plan_campaign(
            self.store,
            plan or self.plan(),
            audience or self.people(),
            belief=belief if self.head is None else replace(belief, head=self.head),
            version=version,
            network=self.network,
            inputs=inputs or {},
            clock=self.clock,
            **more,
        )

    def launch(self, plan=None, audience=None, **more):
        return launch(self.store, self.planned(plan, audience, **more), clock=self.clock, secret=self.secret)

    @staticmethod
    def sent(launched):
        return launched.decisions.filter(launched.decisions["code"].is_valid()).to_pylist()

    @staticmethod
    def outcomes(rows, **columns):
        """Outcomes of decisions (dicts with customer_id, code): one purchase of 50.25 each, unless said otherwise."""
        table = {
            "event_id": [f"e{row['customer_id']}" for row in rows],
            "campaign_id": ["spring"] * len(rows),
            "customer_id": [row["customer_id"] for row in rows],
            "code": [row["code"] for row in rows],
            "ordered_at": pa.array([datetime(2027, 3, 9, 12)] * len(rows), pa.timestamp("us")),
            "full_price": [50.25] * len(rows),
            "kind": ["purchase"] * len(rows),
            "refers_to": pa.array([None] * len(rows), pa.string()),
        }
        return pa.table({**table, **columns})


@pytest.fixture(params=["sqlite"])
def new_database_url(request, tmp_path):
    """On SQLite: what both databases do is the contract of the store. Tests of what differs are `on_both_databases`."""
    return new_urls(request, tmp_path)


@pytest.fixture
def shop(tmp_path):
    store = Store.embedded(tmp_path / "disco.sqlite")
    yield Shop(store)
    store.close()


@pytest.fixture
def head():
    """An engagement head for the contexts of `Shop.people`, with five bins."""
    return EngagementHead([0.1, 0.7, -0.4], ScoreBins.of(np.random.default_rng(5).normal(0, 0.8, 4000), count=5))


@pytest.fixture
def scored_shop(shop, head):
    """The shop with a network that has an engagement head."""
    return Shop(shop.store, head)


@pytest.fixture
def make_shop():
    """A shop on a store of the test's own choosing."""
    return Shop
