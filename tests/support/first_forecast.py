"""Two campaigns of the shop in tests/operations: one at random, and one that was decided with what it taught."""

from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa

from disco.operations.launch import launch
from disco.operations.learn import learn_campaigns
from disco.operations.outcomes import ingest

LEARNED, OVER = date(2027, 4, 1), date(2027, 5, 10)


@dataclass
class Clock:
    moment: datetime

    def now(self):
        return self.moment


def clock(day):
    return Clock(datetime(day.year, day.month, day.day, 9, tzinfo=UTC))


def answer(shop, launched, name, day, *, every):
    """Every so many codes are used; customers with a larger first context spend more."""
    rows = shop.sent(launched)[::every]
    first = shop.people().context[[row["customer_id"] for row in rows], 0]
    table = shop.outcomes(
        rows,
        event_id=[f"{name}{row['customer_id']}" for row in rows],
        campaign_id=[name] * len(rows),
        ordered_at=pa.array([datetime(day.year, day.month, day.day, 12)] * len(rows), pa.timestamp("us")),
        full_price=np.round(40.0 * np.exp(0.5 * first), 2),
    )
    ingest(shop.store, name, table, source=name, clock=clock(OVER))
    return rows, table["full_price"].to_numpy()


def first_forecast(shop):
    """A random campaign, and one that was decided with what it taught; the rows that bought in the first."""
    features = pa.table({"customer_id": np.arange(200)})
    spring = shop.launch(shop.plan(policy={"name": "random"}, control={"share": 0}), features=features)
    bought, paid = answer(shop, spring, "spring", date(2027, 3, 9), every=3)
    settings = {"prior": shop.prior, "as_of": LEARNED, "clock": clock(LEARNED)}
    first = learn_campaigns(shop.store, ["spring"], **settings)
    plan = shop.plan(
        campaign="summer", customers={"as_of": LEARNED}, valid={"from": date(2027, 4, 5), "days": 14}, seed=5
    )
    summer = shop.planned(plan, belief=first.belief, version=first.version, features=features)
    launched = launch(shop.store, summer, clock=clock(LEARNED), secret=shop.secret)
    answer(shop, launched, "summer", date(2027, 4, 6), every=4)
    return spring, bought, paid
