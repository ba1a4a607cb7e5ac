"""Training rows: who is in, as of when, with which depth."""

import datetime as dt
import math

import pyarrow as pa
import pytest

from disco.features import build_features, training_set
from disco.features.builder import FeatureRequest
from disco.features.training_set import OWN_CODES, months_later, opened_training
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.maturity import Maturity

START, END = dt.date(2026, 1, 1), dt.date(2026, 4, 1)


@pytest.fixture(scope="module")
def tables(make_tables):
    return make_tables(customers=200, seed=4, start=dt.date(2025, 1, 1), days=480, orders_each=3)


def expected_orders(tables):
    """The orders that belong into the set, in plain Python: in the window, and the buyer bought in the year before."""
    orders = tables["orders"].to_pylist()
    year = START - dt.timedelta(days=365)
    known = {row["customer_id"] for row in orders if year <= row["ordered_at"].date() < START}
    inside = [row for row in orders if START <= row["ordered_at"].date() < END and row["customer_id"] in known]
    return sorted(inside, key=lambda row: (row["ordered_at"], row["order_id"]))


def test_one_row_per_order_of_known_customers_in_time_order(tables, memory_tables):
    rows = training_set(memory_tables(tables), window_start=START, window_end=END)
    orders = expected_orders(tables)
    strangers = {row["customer_id"] for row in tables["orders"].to_pylist()} - {row["customer_id"] for row in orders}
    assert 0 < len(orders) < tables["orders"].num_rows
    assert strangers
    assert rows.ids.tolist() == [row["customer_id"] for row in orders]
    assert rows.log_full_price == pytest.approx([math.log(row["full_price"]) for row in orders])
    depth = dict(zip(tables["codes"]["code_id"].to_pylist(), tables["codes"]["depth"].to_pylist(), strict=True))
    assert rows.depth == pytest.approx([depth.get(row["code"], 0.0) for row in orders])
    assert (rows.depth == 0).any()
    assert (rows.depth > 0).any()
    assert not rows.depth_derived.any()


def test_features_are_those_before_the_window(tables, memory_tables):
    rows = training_set(memory_tables(tables), window_start=START, window_end=END)
    before = build_features(memory_tables(tables), as_of=START)
    place = {customer: row for row, customer in enumerate(before["customer_id"].to_pylist())}
    expected = before.drop_columns(["customer_id"]).take([place[customer] for customer in rows.ids.tolist()])
    assert rows.X.equals(expected)
    assert rows.X.schema.metadata == before.schema.metadata


def test_features_built_before_give_the_same_rows_and_others_are_refused(tables, memory_tables):
    fresh = training_set(memory_tables(tables), window_start=START, window_end=END)

    def with_built(built):
        request = FeatureRequest(as_of=START)
        with opened_training(memory_tables(tables), request, window_end=END, built=built) as training:
            schema, batches = training.orders()
            return pa.Table.from_batches(batches, schema)

    again = with_built(build_features(memory_tables(tables), as_of=START))
    assert again.select(fresh.X.column_names).combine_chunks().equals(fresh.X)
    with pytest.raises(InputError, match="as of 2025-12-01"):
        with_built(build_features(memory_tables(tables), as_of=dt.date(2025, 12, 1)))
    with pytest.raises(SchemaMismatchError, match="schema"):
        with_built(build_features(memory_tables(tables), as_of=START, features=["orders_365d"]))


def test_history_is_required_even_when_its_feature_is_not_asked_for(tables, memory_tables):
    rows = training_set(memory_tables(tables), window_start=START, window_end=END, features=["visits_365d"])
    assert rows.X.column_names == ["visits_365d"]
    assert len(rows) == len(expected_orders(tables))


def test_a_code_nobody_knows_gets_its_depth_from_what_was_paid(tables, memory_tables):
    known = training_set(memory_tables(tables), window_start=START, window_end=END)
    without = {name: table for name, table in tables.items() if name != "codes"}
    with pytest.warns(UserWarning, match="codes"):
        rows = training_set(memory_tables(without), window_start=START, window_end=END)
    assert rows.depth == pytest.approx(known.depth, abs=0.002)  # paid is rounded to pennies
    assert (rows.depth_derived == (known.depth > 0)).all()


def test_a_window_that_ends_before_it_starts_is_refused(tables, memory_tables):
    with pytest.raises(InputError, match="an end after its start"):
        training_set(memory_tables(tables), window_start=END, window_end=START)


def test_months_end_on_days_that_exist():
    assert months_later(dt.date(2026, 1, 31), 1) == dt.date(2026, 2, 28)
    assert months_later(dt.date(2023, 11, 15), 3) == dt.date(2024, 2, 15)


def test_codes_of_own_campaigns_teach_without_a_table_of_codes_and_none_counts_twice(tables, memory_tables):
    """The same codes as DISCO knows them, beside a table with all of them, with half of them, and without one."""
    maturity, sent_codes = Maturity(1), tables["codes"].to_pylist()
    rows = [
        {
            **{name: row[name] for name in ("depth", "sent_at")},
            "code_id": str(row["code_id"]),
            "customer_id": str(row["customer_id"]),
            "campaign_id": f"of {row['code_id']}",  # a campaign sends a customer one code
            "used": row["redeemed_at"] is not None and row["redeemed_at"] < row["sent_at"] + dt.timedelta(days=1),
        }
        for row in sent_codes
    ]
    own = pa.Table.from_pylist(rows, schema=OWN_CODES)

    def sent(given, **more):
        with opened_training(memory_tables(given), FeatureRequest(as_of=START), window_end=END) as training:
            schema, batches = training.codes(maturity, **more)
            return pa.Table.from_batches(batches, schema).select(["customer_id", "sent_at", "depth", "code_used"])

    known = sent(tables)
    assert known.num_rows > 0
    assert sent(tables, own=own).equals(known)
    half = tables["codes"].slice(0, tables["codes"].num_rows // 2)
    without = {name: table for name, table in tables.items() if name != "codes"}
    key = [("sent_at", "ascending"), ("customer_id", "ascending"), ("depth", "ascending")]
    for given in (tables | {"codes": half}, without):
        assert sent(given, own=own).sort_by(key).equals(known.sort_by(key))
    assert sent(without).num_rows == 0
