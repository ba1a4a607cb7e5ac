"""Tables that end long before the day a plan looks at, and a day long before the codes: a warning, never more."""

from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from tests.features.conftest import MemoryTables

from disco.operations.audience import far_dates, stale_features, stale_tables
from disco.records.plan import Plan

DAY = date(2026, 9, 1)


def features(**columns):
    return pa.table({"customer_id": ["a", "b"], **columns})


@pytest.mark.parametrize(
    ("days", "orders", "said"),
    [
        ([1, 300], [40, 2000], None),
        ([7, None], [40, 2000], None),
        ([21, 25], [40, 2000], "is of 2026-08-11, 21 days before 2026-09-01"),
        ([21, 25], [90, 90], "21 days"),
        ([21, 25], [60, 60], None),  # an order every three days: three weeks without one happen
        ([None, None], [0, 0], "has no order in the year before 2026-09-01"),
    ],
)
def test_the_last_order_tells_whether_the_tables_are_stale(days, orders, said):
    found = stale_features(features(days_since_last_order=pa.array(days, pa.float64()), orders_365d=orders), DAY)
    assert (len(found) == 0) if said is None else (said in found[0])


def test_a_table_of_visits_that_ends_earlier_is_named():
    found = stale_features(
        features(
            days_since_last_order=[1.0, 2.0],
            orders_365d=[900, 900],
            days_since_last_visit=[40.0, 90.0],
            site_days_365d=[900, 900],
        ),
        DAY,
    )
    assert len(found) == 1
    assert "last visit in the table site is of 2026-07-23" in found[0]


def test_an_absent_table_is_not_called_stale():
    nothing = pa.nulls(2, pa.float64())
    assert stale_features(features(days_since_last_visit=nothing, site_days_365d=nothing), DAY) == ()


@pytest.mark.parametrize("kind", ["typed", "text"])
def test_the_tables_themselves_tell_the_same(kind):
    last = datetime(2026, 8, 11, 23, 59)
    times = [last - timedelta(hours=3 * at) for at in range(1000)] + [datetime(2026, 9, 5)]  # the last one is later
    orders = pa.table(
        {
            "order_id": list(range(1001)),
            "customer_id": [1] * 1001,
            "ordered_at": times if kind == "typed" else [time.isoformat() for time in times],
            "full_price": [5.0] * 1001,
        }
    )
    assert "is of 2026-08-11, 21 days before 2026-09-01" in stale_tables(MemoryTables({"orders": orders}), DAY)[0]
    assert stale_tables(MemoryTables({"orders": orders}), date(2026, 8, 13)) == ()


@pytest.mark.parametrize(("start", "said"), [("2026-09-01", False), ("2026-10-02", False), ("2026-11-01", True)])
def test_a_plan_that_looks_long_before_its_codes_is_told(start, said):
    plan = Plan.model_validate(
        {
            "campaign": "x",
            "customers": {"as_of": "2026-09-01"},
            "depths": {0.1: {}},
            "objective": {"revenue_weight": 3},
            "valid": {"from": start, "days": 7},
        }
    )
    assert bool(far_dates(plan)) is said
