"""A small shop with a bit of everything that is kept: what damages are done to, and outputs are compared of.

Campaigns c1 (depths at random, reserve, three batches of which one was reverted), c2 (decided by version 1 of the
model, with control, holdout, reserve, budget and late arrivals), c3 (planned, not launched) and c4 (codes of a pool).
"""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from arriving import decide_late_arrivals
from made_once import copy_of

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief
from disco.entrypoints.python import Shop
from disco.operations.launch import Launched, launch
from disco.operations.learn import active_belief, learn_campaigns
from disco.operations.outcomes import ingest, revert
from disco.operations.plan import Planned, keep, plan_campaign
from disco.operations.replay import add_propensities
from disco.records.decisions import Audience
from disco.records.plan import read_plan
from disco.store import Store

NETWORK = "f" * 64
CUSTOMERS = 120
START = date(2025, 9, 1)
SECRET = b"a secret of thirty-two bytes long"


@dataclass
class Clock:
    moment: datetime = datetime(2025, 9, 1, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


def people(ids: "range | list[int]") -> Audience:
    numbers = np.asarray(ids, np.int64)
    context = np.stack([np.sin(numbers), np.cos(1.7 * numbers)], axis=1)
    return Audience(
        ids=np.array([f"customer-{number:04d}" for number in numbers]),
        context=np.round(context * 2**16) / 2**16,
        known=numbers % 9 != 0,
    )


def features_of(audience: Audience) -> pa.Table:
    return pa.table(
        {"customer_id": audience.ids, "spend_365d": audience.context[:, 0], "visits": audience.context[:, 1]}
    )


def nothing_known() -> Belief:
    return Belief(basket=BasketModel(), engagement=Engagement())


def make_shop(folder: Path) -> Path:
    """The shop in a folder that does not exist."""
    return copy_of(_make, at=folder)


def _make(folder: Path) -> None:
    folder.mkdir()
    (folder / "disco.yaml").write_text("data: data\n")
    (folder / "data").mkdir()
    pq.write_table(pa.table({"customer_id": people(range(CUSTOMERS)).ids}), folder / "data" / "customers.parquet")
    shop = Shop.open(folder)
    with shop.store(missing="create") as store:
        _live(store)


def _live(store: Store) -> None:
    first = _launched(store, "c1", START, policy={"name": "random"}, reserve={"share": "5%"})
    clock = Clock()
    rows = _outcomes(first, "c1", START)
    for part, source in ((rows.slice(0, 40), "monday"), (rows.slice(40), "tuesday")):
        ingest(store, "c1", part, source=source, clock=clock)
    wrong = _outcomes(first, "c1", START, prefix="again", price=7.0).slice(0, 25)
    revert(store, ingest(store, "c1", wrong, source="by mistake", clock=clock).batch_id, clock=clock)
    _learn(store, "c1", START)

    october = START + timedelta(days=30)
    arms = {"control": {"share": "20%"}, "holdout": {"share": "10%"}, "reserve": {"share": "20%"}, "budget": 400}
    second = _launched(store, "c2", october, **arms)
    for late in (901, 902, 903):
        newcomer = people([late])
        decide_late_arrivals(
            store,
            "c2",
            newcomer,
            network=NETWORK,
            prior=nothing_known(),
            clock=Clock(datetime(2025, 10, 2, tzinfo=UTC)),
            secret=SECRET,
            features=features_of(newcomer),
        )
    add_propensities(store, "c2", prior=nothing_known(), draws=10)
    ingest(store, "c2", _outcomes(second, "c2", october), source="october.csv", clock=Clock())
    _learn(store, "c2", october)

    keep(store, _planned(store, "c3", october + timedelta(days=31), **arms))
    pool = [f"POOL-{number:04d}" for number in range(100)]
    _launched(store, "c4", october, pool=pool, policy={"name": "random"}, codes={"pool": "pool.txt"})


def _planned(store: Store, campaign: str, start: date, **more: object) -> Planned:
    content = {
        "campaign": campaign,
        "customers": {"as_of": start},
        "depths": {depth: {"at_most": "20%"} for depth in (0.1, 0.2, 0.3, 0.4)},
        "objective": {"revenue_weight": 3},
        "valid": {"from": start, "days": 30},
        "seed": 7,
    }
    audience = people(range(CUSTOMERS))
    belief, version = active_belief(store, prior=nothing_known())
    return plan_campaign(
        store,
        read_plan({**content, **more}),
        audience,
        belief=belief,
        version=None if version is None else version.number,
        network=NETWORK,
        inputs={},
        clock=Clock(datetime(start.year, start.month, start.day, tzinfo=UTC)),
        features=features_of(audience),
    )


def _launched(store: Store, campaign: str, start: date, *, pool: "list[str] | None" = None, **more: object) -> Launched:
    planned = _planned(store, campaign, start, **more)
    clock = Clock(datetime(start.year, start.month, start.day, 12, tzinfo=UTC))
    return launch(store, planned, clock=clock, pool=pool, secret=None if pool else SECRET)


def _outcomes(
    launched: Launched, campaign: str, start: date, *, prefix: str = "order", price: float = 50.0
) -> pa.Table:
    """Two purchases of three, some refunded, corrected, sent twice, expired, or with codes and texts nobody knows."""
    coded = launched.decisions.filter(launched.decisions["code"].is_valid()).to_pylist()
    rows = []
    day = datetime(start.year, start.month, start.day, 10) + timedelta(days=2)
    for number, decision in enumerate(coded):
        if number % 3 == 2:
            continue
        event = f"{prefix}-{campaign}-{decision['customer_id']}"
        row = {
            "event_id": event,
            "campaign_id": campaign,
            "customer_id": decision["customer_id"],
            "code": decision["code"] if number % 20 else "NOBODYS-CODE",
            "ordered_at": (day + timedelta(hours=number, days=90 * (number % 25 == 7))).isoformat(),
            "full_price": f"{price + number % 17:.2f}" if number % 30 != 3 else "a lot",
            "kind": "purchase",
            "refers_to": None,
        }
        rows.append(row)
        if number % 10 == 1:
            rows.append(
                {**row, "event_id": f"refund-{event}", "kind": "refund", "refers_to": event, "full_price": "5.00"}
            )
        if number % 10 == 4:
            rows.append({**row, "event_id": f"fix-{event}", "kind": "correction", "refers_to": event})
        if number % 10 == 6:
            rows.append(row)
    names = list(rows[0])
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})


def _learn(store: Store, campaign: str, start: date) -> None:
    learn_campaigns(store, [campaign], prior=nothing_known(), as_of=start + timedelta(days=40), clock=Clock())


def outputs(folder: Path) -> dict[str, str]:
    """What export, results, explain, campaigns and belief say, as text; errors are raised."""
    shop = Shop.open(folder, now=datetime(2025, 12, 1, tzinfo=UTC))
    said = {f"belief {number}": shop.belief(number).to_json() for number in (1, 2)}
    said["belief"] = shop.belief().to_json()
    said["campaigns"] = shop.campaigns().to_json()
    said["all results"] = shop.results().to_json()
    for campaign in ("c1", "c2", "c4"):
        said[f"export {campaign}"] = json.dumps(shop.export(campaign).to_arrow().to_pylist(), default=str)
        said[f"results {campaign}"] = shop.results(campaign).to_json()
        said[f"campaign {campaign}"] = shop.campaigns(campaign).to_json()
        for customer in ("customer-0001", "customer-0002", "customer-0050"):
            said[f"explain {campaign} {customer}"] = shop.explain(campaign, customer).to_json()
    said["explain late"] = shop.explain("c2", "customer-0901").to_json()
    return said
