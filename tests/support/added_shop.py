"""A shop of 600 people with two campaigns and a lasting holdout, and orders that say what codes did.

Everybody ordered twice in the year before, for their usual amount. Since then they order once a month. In the months of
a campaign, those with codes pay 15 less and order a second time; a quarter of the second orders is missing the month
after.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from small_life import NETWORK, SECRET, FixedClock, nothing_known, people

from disco.entrypoints.python import Shop
from disco.operations.launch import Launched, launch
from disco.operations.plan import plan_campaign
from disco.records.plan import read_plan
from disco.store import Store, schema

PEOPLE = 600
NOW = datetime(2025, 9, 1, 9, tzinfo=UTC)
MONTHS = range(3, 9)  # of 2025; the first campaign is in March, the second one in May
CAMPAIGNS = {"first": 3, "second": 5}


def make(folder: Path, **plans: object) -> Shop:
    """The shop on the first of September. plans: keys of all plans, beyond those that the story needs."""
    (folder / "data").mkdir(parents=True)
    (folder / "disco.yaml").write_text("data: data\nmargin: 45%\n", encoding="utf-8")
    shop = opened(folder)
    with shop.store(missing="create") as store:
        _hold_out_always_the_same(store)
        launched = {name: launch_one(store, name, month=month, **plans) for name, month in CAMPAIGNS.items()}
    write_orders(folder, held_of(launched["first"]))
    return shop


def _hold_out_always_the_same(store: Store) -> None:
    """In place of the secret that was drawn with the database: what the tests say must not depend on chance."""
    with store.alone(action="test") as transaction:
        (row,) = transaction.session.raw(schema.secrets, "name", "holdout")
        transaction.session.set(schema.secrets, row, value=b"h" * 32)


def opened(folder: Path) -> Shop:
    return Shop.open(folder, now=NOW)


def launch_one(store: Store, campaign: str, *, month: int, among: range = range(PEOPLE), **more: object) -> Launched:
    content = {
        "campaign": campaign,
        "customers": {"as_of": f"2025-{month:02d}-01"},
        "depths": {0.1: {"at_most": "40%"}, 0.3: {"at_most": "40%"}},
        "objective": {"revenue_weight": 3},
        "policy": {"name": "random"},
        "holdout": {"share": "20%", "lasting": True},
        "valid": {"from": f"2025-{month:02d}-01", "days": 31},
        "seed": 4,
        **more,
    }
    planned = plan_campaign(
        store,
        read_plan(content),
        people(among),
        belief=nothing_known(),
        version=None,
        network=NETWORK,
        inputs={},
        clock=FixedClock(),
    )
    return launch(store, planned, clock=FixedClock(), secret=SECRET)


def held_of(launched: Launched) -> set[int]:
    decisions = launched.decisions
    return set(decisions.filter(pa.compute.equal(decisions["arm"], "holdout"))["customer_id"].to_pylist())


def write_orders(folder: Path, held: set[int]) -> None:
    rng = np.random.default_rng(6)
    usual = rng.gamma(4.0, 15.0, PEOPLE)
    rows = []

    def order(customer: int, when: datetime, full_price: float, off: float = 0.0) -> None:
        full_price = round(full_price, 2)
        rows.append((f"o{len(rows)}", customer, when, full_price, round(full_price - off, 2)))

    for customer, spent in enumerate(usual):
        for when in (datetime(2024, 6, 1), datetime(2025, 1, 15)):
            order(customer, when, spent * rng.uniform(0.9, 1.1))
        second = False
        for month in MONTHS:
            day = datetime(2025, month, 1 + int(rng.integers(1, 28)), 12)
            in_campaign = month in CAMPAIGNS.values() and customer not in held
            if not (second and rng.random() < 0.25):  # it was only brought forward
                order(customer, day, spent + 40 * rng.uniform(0.9, 1.1), 15.0 if in_campaign else 0.0)
            second = in_campaign
            if in_campaign:
                order(customer, day, spent * rng.uniform(0.9, 1.1) + 20, 15.0)
    names = ("order_id", "customer_id", "ordered_at", "full_price", "paid")
    table = pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
    table = table.append_column("earned", pa.compute.multiply(table["full_price"], 0.2))
    pyarrow.csv.write_csv(table, folder / "data" / "orders.csv")
