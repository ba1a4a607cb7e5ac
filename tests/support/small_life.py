"""A small random campaign on a real store, as steps that separate processes can take at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from arriving import decide_late_arrivals
from stores import open_store

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief
from disco.operations.launch import launch
from disco.operations.outcomes import ingest
from disco.operations.plan import Planned, plan_campaign
from disco.records.decisions import Audience
from disco.records.plan import read_plan
from disco.store import Store

CAMPAIGN = "drill"
NETWORK = "network"
SECRET = b"a drill's secret, thirty-two long"
_DEPTHS = (0.1, 0.3)


@dataclass(frozen=True)
class FixedClock:
    moment: datetime = datetime(2027, 3, 8, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


def people(ids: Sequence[int]) -> Audience:
    """Customers whose context depends on their id alone."""
    numbers = np.asarray(ids, np.int64)
    context = np.stack([np.sin(numbers), np.cos(1.7 * numbers)], axis=1)
    return Audience(ids=numbers, context=np.round(context * 2**16) / 2**16, known=numbers % 9 != 0)


def planned(store: Store, *, customers: int, reserve: int = 0, seed: int = 4, campaign: str = CAMPAIGN) -> Planned:
    """Depths assigned at random to a half of the customers; `reserve` codes of the first depth stay back."""
    cap = customers // 4
    content = {
        "campaign": campaign,
        "customers": {"as_of": "2027-03-01"},
        "depths": {depth: {"at_most": cap} for depth in _DEPTHS},
        "objective": {"revenue_weight": 3},
        "policy": {"name": "random"},
        "valid": {"from": "2027-03-08", "days": 14},
        "reserve": {"share": reserve / (2 * cap)},
        "seed": seed,
    }
    return plan_campaign(
        store,
        read_plan(content),
        people(range(customers)),
        belief=nothing_known(),
        version=None,
        network=NETWORK,
        inputs={},
        clock=FixedClock(),
    )


def nothing_known() -> Belief:
    return Belief(basket=BasketModel(), engagement=Engagement())


def launch_small(store: Store, *, customers: int, reserve: int = 0, seed: int = 4) -> bool:
    """Plan and launch; whether it was launched before."""
    return launch(
        store, planned(store, customers=customers, reserve=reserve, seed=seed), clock=FixedClock(), secret=SECRET
    ).again


def ingest_small(store: Store, outcomes: pa.Table, *, source: str = "outcomes") -> str:
    return ingest(store, CAMPAIGN, outcomes, source=source, clock=FixedClock()).batch_id


def late_code(store: Store, customer: int) -> str | None:
    """The code of a customer who arrives after the launch."""
    decided = decide_late_arrivals(
        store, CAMPAIGN, people([customer]), network=NETWORK, prior=nothing_known(), clock=FixedClock(), secret=SECRET
    )
    code: str | None = decided["code"][0].as_py()
    return code


def outcomes_of(store: Store, *, seed: int = 3) -> pa.Table:
    """What customers did with their codes, in a random order: purchases, a tenth of them refunded, a tenth corrected,
    a tenth sent twice, and a few with codes nobody has."""
    with store.reading() as transaction:
        decisions = transaction.decisions.of(CAMPAIGN)
    coded = decisions.filter(decisions["code"].is_valid())
    rng = np.random.default_rng(seed)
    customer, code = coded["customer_id"].to_numpy(), coded["code"].to_numpy(zero_copy_only=False).astype(object)
    code[::50] = "NOBODYS-CODE"
    price = np.round(np.exp(rng.normal(4.0, 0.5, customer.size)), 2)
    event = np.array([f"order-{number}" for number in customer], object)
    minute = rng.integers(0, 10 * 24 * 60, customer.size)
    rows = np.arange(customer.size)
    changed, twice = rows[rows % 5 == 0], rows[rows % 10 == 1]
    take = np.concatenate([rows, changed, twice])
    follows = np.concatenate([np.zeros(rows.size, bool), np.ones(changed.size, bool), np.zeros(twice.size, bool)])
    refund = follows & (take % 10 == 0)
    kind = np.where(refund, "refund", np.where(follows, "correction", "purchase"))
    table = pa.table(
        {
            "event_id": np.where(follows, "change-" + event[take].astype(str), event[take].astype(str)),
            "campaign_id": np.full(take.size, CAMPAIGN),
            "customer_id": customer[take],
            "code": code[take],
            "ordered_at": np.datetime64("2027-03-09T00:00", "us") + (minute[take] + follows).astype("timedelta64[m]"),
            "full_price": np.round(np.where(follows, price[take] / 2, price[take]), 2),
            "kind": kind,
            "refers_to": pa.array(np.where(follows, event[take], None), pa.string()),
        }
    )
    return table.take(pa.array(rng.permutation(table.num_rows)))


# the same as steps of a process of its own, which knows the database by its URL


def launch_step(url: str, seed: int) -> bool:
    return launch_small(open_store(url), customers=300, seed=seed)


def ingest_step(url: str, outcomes: pa.Table) -> str:
    return ingest_small(open_store(url), outcomes)


def late_step(url: str, customer: int) -> str | None:
    return late_code(open_store(url), customer)


def open_step(url: str) -> bytes:
    with open_store(url).reading() as transaction:
        return transaction.decisions.secret()
