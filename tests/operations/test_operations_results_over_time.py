"""Results from day to day: each point is what the results of that day say, made in one pass."""

from contextlib import contextmanager
from datetime import date, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from disco.operations.outcomes import ingest
from disco.operations.results import days_to_read, primary_comparison, read_out, results_over_time
from disco.records.locale import POUNDS_UTC

MATURED = date(2027, 3, 24)


class Tables:
    """A shop's tables, of which results read the orders."""

    locale = POUNDS_UTC

    def __init__(self, orders=None):
        self.orders = orders

    @contextmanager
    def tables(self):
        yield self

    def names(self):
        return () if self.orders is None else ("orders",)

    def scan(self, name):
        return self.orders


def ordered(days):
    return pa.array([datetime(2027, 3, 8, 12) + timedelta(days=int(day)) for day in days], pa.timestamp("us"))


@pytest.fixture
def launched(shop):
    plan = shop.plan(depths={0.1: {"at_most": "50%"}, 0.3: {"at_most": "40%"}}, control={"share": "40%"})
    launched = shop.launch(plan, shop.people(600))
    rows = shop.sent(launched)[::2]
    rng = np.random.default_rng(3)
    outcomes = shop.outcomes(
        rows,
        ordered_at=ordered(rng.integers(0, 13, len(rows))),
        full_price=np.round(np.exp(rng.normal(4, 0.5, len(rows))), 2),
    )
    ingest(shop.store, "spring", outcomes, source="test", clock=shop.clock)
    return launched


def orders_of(launched):
    """Orders of the year before, which the comparison is adjusted by."""
    ids = [str(one) for one in launched.decisions["customer_id"].to_pylist()]
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "customer_id": ids,
            "ordered_at": pa.array([datetime(2026, 9, 1)] * len(ids), pa.timestamp("us")),
            "paid": rng.gamma(2.0, 40.0, len(ids)),
            "code": pa.array([None] * len(ids), pa.string()),
        }
    )


@pytest.mark.parametrize("with_orders", [False, True])
def test_each_day_is_what_the_results_of_that_day_say(shop, launched, with_orders):
    orders = orders_of(launched) if with_orders else None
    found = results_over_time(shop.store, Tables(orders), "spring", as_of=date(2027, 4, 1))
    assert len(found.days) == 10
    assert [found.days[0].day, found.days[-1].day] == [date(2027, 3, 8), MATURED]
    assert [one.final for one in found.days] == [False] * 9 + [True]
    for one in found.days:
        results = read_out(shop.store, "spring", as_of=one.day, orders=orders)
        expected, other = primary_comparison(results.ab)
        assert other == "control"
        assert results.ab.primary == found.metric
        assert one.comparison.difference.value == pytest.approx(expected.difference.value, rel=1e-12)
        assert one.comparison.difference.ends == pytest.approx(expected.difference.ends, rel=1e-12)
        assert one.comparison.p_value == pytest.approx(expected.p_value, rel=1e-9)
        assert one.purchases == sum(results.arms[arm].summary.purchasers for arm in ("decided", "control"))


def test_a_campaign_that_runs_is_read_until_today(shop, launched):
    found = results_over_time(shop.store, Tables(), "spring", as_of=date(2027, 3, 10))
    assert [one.day for one in found.days] == [date(2027, 3, 8), date(2027, 3, 9), date(2027, 3, 10)]
    assert not any(one.final for one in found.days)


def test_before_its_first_day_there_is_nothing_to_read(shop, launched):
    assert results_over_time(shop.store, Tables(), "spring", as_of=date(2027, 3, 7)).days == ()


def test_without_control_there_is_nothing_to_compare(shop):
    launched = shop.launch(shop.plan(control={"share": 0}))
    ingest(shop.store, "spring", shop.outcomes(shop.sent(launched)), source="test", clock=shop.clock)
    assert results_over_time(shop.store, Tables(), "spring", as_of=MATURED).days == ()


def test_days_are_spread_evenly_and_never_more_than_asked_for():
    year = SimpleNamespace(plan=SimpleNamespace(valid=SimpleNamespace(start=date(2027, 1, 1))), matures_on=date.max)
    days = days_to_read(year, as_of=date(2027, 12, 31))
    assert (len(days), days[0], days[-1]) == (10, date(2027, 1, 1), date(2027, 12, 31))
    steps = {(after - before).days for before, after in pairwise(days)}
    assert steps <= {40, 41}
    assert days_to_read(year, as_of=date(2027, 1, 1)) == (date(2027, 1, 1),)


def test_results_of_a_day_read_the_rows_ordered_until_then_alone(shop, launched, monkeypatch):
    """However long the ledger has become: a later purchase never leaves the database."""
    database, fetched = type(shop.store._database), []
    select = database.select

    def counted(self, connection, statement, schema):
        found = select(self, connection, statement, schema)
        if "ordered_at" in schema.names:
            fetched.append(found.num_rows)
        return found

    monkeypatch.setattr(database, "select", counted)
    with shop.store.reading() as transaction:
        every = transaction.ledger.applied("spring")["ordered_at"].to_pylist()
        assert transaction.ledger.applied("spring", before=None).num_rows == len(every) > 0
    for day in (date(2027, 3, 7), date(2027, 3, 9), date(2027, 3, 12), MATURED):
        until = sum(moment.date() <= day for moment in every)
        fetched.clear()
        read_out(shop.store, "spring", as_of=day)
        assert fetched == [until]
        fetched.clear()
        results_over_time(shop.store, Tables(), "spring", as_of=day)
        assert fetched == [until]
