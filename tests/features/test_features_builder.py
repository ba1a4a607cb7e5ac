"""Features from raw tables: by hand, by invariances, at the door, and never from the future."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.features import FEATURES, Feature, build_features
from disco.features.builder import MissingTableWarning
from disco.records.errors import InputError, TableError

AS_OF = dt.date(2026, 3, 1)


def moment(day: str, clock: str = "12:00") -> dt.datetime:
    return dt.datetime.fromisoformat(f"{day}T{clock}")


@pytest.fixture
def one_customer(memory_tables):
    """Two orders (one with a 20 % code), a return, two codes, two days on the site; and somebody who did nothing."""
    return {
        "customers": pa.table({"customer_id": [7, 8], "joined_on": [dt.date(2025, 3, 1), dt.date(2026, 2, 28)]}),
        "orders": pa.table(
            {
                "order_id": ["a", "b"],
                "customer_id": [7, 7],
                "ordered_at": [moment("2025-12-01", "19:30"), moment("2026-02-22", "10:00")],  # Monday evening; Sunday
                "full_price": [40.0, 100.0],
                "paid": [40.0, 80.0],
                "items": [1, 4],
                "code": pa.array([None, "k1"], pa.string()),
            }
        ),
        "returns": pa.table({"order_id": ["a"], "returned_at": [moment("2025-12-11")], "value": [10.0]}),
        "codes": pa.table(
            {
                "code_id": ["k1", "k2"],
                "customer_id": [7, 7],
                "campaign_id": ["x", "x"],
                "depth": [0.2, 0.3],
                "sent_at": [moment("2026-02-20"), moment("2025-10-01")],
                "redeemed_at": pa.array([moment("2026-02-22"), None], pa.timestamp("us")),
            }
        ),
        "site": pa.table(
            {
                "customer_id": [7, 7],
                "day": [dt.date(2026, 2, 22), dt.date(2025, 6, 1)],
                "visits": [2, 3],
                "views": [10, 20],
                "add_to_bag": [3, 1],
                "saves": [0, 5],
                "checkouts": [1, 0],
            }
        ),
    }


def test_one_customer_by_hand(one_customer, memory_tables):
    row = build_features(memory_tables(one_customer), as_of=AS_OF).slice(0, 1).to_pylist()[0]
    by_hand = {
        "orders_365d": 2,
        "orders_90d": 2,  # 1 December is exactly 90 days before 1 March
        "orders_30d": 1,
        "orders_7d": 1,
        "spend_365d": 140,
        "paid_365d": 120,
        "basket_mean_365d": 70,
        "basket_log_sd_365d": (math.log(100) - math.log(40)) / math.sqrt(2),
        "basket_last": 100,
        "items_per_order_365d": 2.5,
        "item_price_mean_365d": 28,
        "days_since_last_order": 7,
        "days_since_first_order": 90,
        "days_between_orders": 83,
        "active_months_365d": 2,
        "weekend_order_share_365d": 0.5,
        "evening_order_share_365d": 0.5,
        "tenure_days": 365,
        "returns_90d": 1,
        "returned_order_share_365d": 0.5,
        "returned_value_share_365d": 10 / 120,
        "fully_returned_share_365d": 0,
        "return_delay_mean_days": 10,
        "kept_per_order_365d": 55,
        "codes_received_365d": 2,
        "codes_received_30d": 1,
        "redemption_rate_365d": 0.5,
        "depth_received_mean_365d": 0.25,
        "depth_redeemed_mean_365d": 0.2,
        "redemption_delay_mean_days": 2,
        "days_since_last_redemption": 7,
        "markdown_365d": 20,
        "coded_basket_premium_365d": math.log(100) - math.log(40),
        # depths 0 and 0.2: spread 0.02, damped by 0.1
        "basket_depth_slope_365d": 0.1 * (math.log(100) - math.log(40)) / (0.02 + 0.1),
        "visits_365d": 5,
        "visits_7d": 2,
        "views_per_visit_365d": 6,
        "bag_rate_365d": 4 / 30,
        "checkout_rate_365d": 1 / 4,
        "orders_per_visit_365d": 2 / 5,
    }
    for name, expected in by_hand.items():
        assert row[name] == pytest.approx(expected, abs=2e-5), name


def test_a_customer_who_did_nothing_has_zeros_far_recencies_and_unknown_means(one_customer, memory_tables):
    row = build_features(memory_tables(one_customer), as_of=AS_OF).slice(1, 1).to_pylist()[0]
    assert row["customer_id"] == 8
    assert row["orders_365d"] == row["spend_365d"] == row["visits_365d"] == row["codes_received_365d"] == 0
    assert row["days_since_last_order"] == row["days_since_last_return"] == row["days_since_last_visit"] == 366
    assert row["basket_mean_365d"] is row["redemption_rate_365d"] is row["basket_log_sd_365d"] is None
    assert row["tenure_days"] == 1


def same_bytes(left: pa.Table, right: pa.Table) -> bool:
    sinks = [pa.BufferOutputStream(), pa.BufferOutputStream()]
    for sink, table in zip(sinks, (left, right), strict=True):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sinks[0].getvalue().equals(sinks[1].getvalue())


def test_neither_row_order_nor_threads_change_a_bit(make_tables, memory_tables):
    tables = make_tables(customers=3000, seed=5, start=dt.date(2025, 1, 1), days=420)
    rng = np.random.default_rng(0)
    shuffled = {name: table.take(rng.permutation(table.num_rows)) for name, table in tables.items()}
    first = build_features(memory_tables(tables), as_of=AS_OF, threads=1)
    assert same_bytes(first, build_features(memory_tables(shuffled), as_of=AS_OF, threads=2))
    assert first["customer_id"].to_pylist() == sorted(first["customer_id"].to_pylist())


WHEN = st.integers(0, 400).map(lambda days: dt.datetime.combine(AS_OF, dt.time()) + dt.timedelta(days=days))
ANY_MONEY = st.one_of(st.floats(-1e4, 1e9), st.just(math.nan), st.just(math.inf))


@pytest.fixture(scope="module")
def twelve(make_tables):
    return make_tables(customers=12, seed=1, start=dt.date(2025, 6, 1), days=270, orders_each=2)


@pytest.fixture(scope="module")
def twelve_built(twelve, memory_tables):
    return build_features(memory_tables(twelve), as_of=AS_OF)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_rows_dated_on_or_after_the_date_change_nothing(data, twelve, twelve_built, memory_tables):
    some = st.integers(0, 11)
    order_ids = twelve["orders"]["order_id"].to_pylist()
    code_ids = twelve["codes"]["code_id"].to_pylist()
    future = {
        "customers": [{"customer_id": data.draw(st.integers(0, 30)), "joined_on": data.draw(WHEN).date()}],
        "orders": [
            {
                "order_id": data.draw(st.sampled_from([*order_ids, "new"])),
                "customer_id": data.draw(some),
                "ordered_at": data.draw(WHEN),
                "full_price": data.draw(ANY_MONEY),
                "paid": data.draw(ANY_MONEY),
                "items": data.draw(st.integers(-5, 1000)),
                "code": data.draw(st.sampled_from([*code_ids[:20], None])),
            }
        ],
        "returns": [
            {
                "order_id": data.draw(st.sampled_from(order_ids)),
                "returned_at": data.draw(WHEN),
                "value": data.draw(ANY_MONEY),
            }
        ],
        "codes": [
            {
                "code_id": data.draw(st.sampled_from([*code_ids, "new"])),
                "customer_id": data.draw(some),
                "campaign_id": "z",
                "depth": data.draw(st.floats(-2, 2)),
                "sent_at": data.draw(WHEN),
                "redeemed_at": data.draw(st.one_of(st.none(), WHEN)),
            }
        ],
        "site": [
            {
                "customer_id": data.draw(some),
                "day": data.draw(WHEN).date(),
                **{
                    name: data.draw(st.integers(0, 9))
                    for name in ("visits", "views", "add_to_bag", "saves", "checkouts")
                },
            }
        ],
    }
    appended = {
        name: pa.concat_tables([table, pa.Table.from_pylist(future[name], table.schema)])
        for name, table in twelve.items()
    }
    assert same_bytes(twelve_built, build_features(memory_tables(appended), as_of=AS_OF))


def test_a_code_redeemed_later_counts_as_not_redeemed_yet(one_customer, memory_tables):
    codes = one_customer["codes"]
    later = codes.set_column(5, "redeemed_at", pa.array([moment("2026-03-01", "00:00"), None], pa.timestamp("us")))
    row = build_features(memory_tables({**one_customer, "codes": later}), as_of=AS_OF).to_pylist()[0]
    assert row["codes_redeemed_365d"] == 0
    assert row["depth_redeemed_mean_365d"] is None


@pytest.mark.parametrize("absent", ["orders", "returns", "codes", "site"])
def test_a_missing_table_warns_and_makes_its_features_unknown(absent, make_tables, memory_tables):
    tables = make_tables(customers=30, seed=2, start=dt.date(2025, 6, 1), days=270)
    del tables[absent]
    with pytest.warns(MissingTableWarning, match=absent):
        built = build_features(memory_tables(tables), as_of=AS_OF)
    group = {"orders": "purchases"}.get(absent, absent)
    touched = [f.name for f in FEATURES if f.group == group and f.name != "tenure_days" and absent != "codes"]
    for name in touched:
        assert built[name].null_count == built.num_rows, name
    assert built["tenure_days"].null_count == 0
    if absent != "orders":
        assert built["spend_365d"].null_count == 0


def test_without_customers_there_is_nobody_to_describe(make_tables, memory_tables):
    tables = make_tables(customers=5, seed=2, start=dt.date(2025, 6, 1), days=270)
    del tables["customers"]
    with pytest.raises(InputError, match="a table customers"):
        build_features(memory_tables(tables), as_of=AS_OF)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("orders", "full_price", math.nan, "orders, column full_price"),
        ("orders", "paid", math.inf, "orders, column paid"),
        ("returns", "value", math.nan, "returns, column value"),
        ("codes", "depth", 20.0, "codes, column depth"),
    ],
)
def test_bad_values_stop_at_the_door_and_are_named(table, column, value, message, one_customer, memory_tables):
    bad = one_customer[table]
    values = [value, *bad[column].to_pylist()[1:]]
    one_customer[table] = bad.set_column(bad.column_names.index(column), column, pa.array(values, pa.float64()))
    with pytest.raises(InputError, match=message):
        build_features(memory_tables(one_customer), as_of=AS_OF)


def test_a_dropped_or_retyped_column_is_named(one_customer, memory_tables):
    with pytest.raises(InputError, match="add_to_bag"):
        build_features(
            memory_tables({**one_customer, "site": one_customer["site"].drop_columns(["add_to_bag"])}), as_of=AS_OF
        )
    orders = one_customer["orders"]
    as_number = orders.set_column(2, "ordered_at", orders["ordered_at"].cast(pa.int64()))
    with pytest.raises(InputError, match="orders, column ordered_at"):
        build_features(memory_tables({**one_customer, "orders": as_number}), as_of=AS_OF)


def test_a_column_of_text_is_read_as_from_csv(one_customer, memory_tables):
    plain = build_features(memory_tables(one_customer), as_of=AS_OF)
    orders = one_customer["orders"]
    for place, name in ((2, "ordered_at"), (3, "full_price")):
        orders = orders.set_column(place, name, orders[name].cast(pa.string()))
    assert same_bytes(plain, build_features(memory_tables({**one_customer, "orders": orders}), as_of=AS_OF))
    never = orders.set_column(2, "ordered_at", pa.array(["never"] * len(orders)))
    with pytest.raises(InputError, match="orders, column ordered_at, row 1"):
        build_features(memory_tables({**one_customer, "orders": never}), as_of=AS_OF)


def test_a_customer_listed_twice_is_refused(one_customer, memory_tables):
    customers = pa.concat_tables([one_customer["customers"], one_customer["customers"].slice(0, 1)])
    with pytest.raises(InputError, match="7 twice"):
        build_features(memory_tables({**one_customer, "customers": customers}), as_of=AS_OF)


def test_ids_that_are_integers_in_one_table_and_text_in_another_are_refused(one_customer, memory_tables):
    orders = one_customer["orders"]
    one_customer["orders"] = orders.set_column(1, "customer_id", orders["customer_id"].cast(pa.string()))
    with pytest.raises(TableError, match=r"table orders, column customer_id: found text here, integers in customers"):
        build_features(memory_tables(one_customer), as_of=AS_OF)


def test_money_as_decimal_and_zoned_timestamps_give_the_same_features(one_customer, memory_tables):
    plain = build_features(memory_tables(one_customer), as_of=AS_OF)
    orders = one_customer["orders"]
    zoned = orders["ordered_at"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "America/New_York"))
    for place, name in ((3, "full_price"), (4, "paid")):
        orders = orders.set_column(place, name, orders[name].cast(pa.decimal128(12, 2)))
    one_customer["orders"] = orders.set_column(2, "ordered_at", zoned)
    assert same_bytes(plain, build_features(memory_tables(one_customer), as_of=AS_OF))


def test_an_order_with_a_code_listed_twice_counts_once(one_customer, memory_tables):
    codes = one_customer["codes"]
    twice = {**one_customer, "codes": pa.concat_tables([codes, codes])}
    assert build_features(memory_tables(twice), as_of=AS_OF)["orders_365d"].to_pylist() == [2, 0]


def test_features_are_chosen_and_added_by_the_caller(one_customer, memory_tables):
    own = Feature("views_per_order", "site", "views_365 / nullif(orders_365, 0)", "product views per order", "ratio")
    built = build_features(memory_tables(one_customer), as_of=AS_OF, features=["orders_7d", own])
    assert built.column_names == ["customer_id", "orders_7d", "views_per_order"]
    assert built["views_per_order"].to_pylist() == [15, None]
    everything = build_features(memory_tables(one_customer), as_of=AS_OF)
    assert built.schema.metadata[b"disco.schema"] != everything.schema.metadata[b"disco.schema"]


def test_nonsense_settings_are_refused_in_words(one_customer, memory_tables):
    with pytest.raises(InputError, match="threads"):
        build_features(memory_tables(one_customer), as_of=AS_OF, threads=0)
    with pytest.raises(InputError):
        build_features(memory_tables(one_customer), as_of=AS_OF, memory_limit="a lot")
    with pytest.raises(InputError, match="orders_8d"):
        build_features(memory_tables(one_customer), as_of=AS_OF, features=["orders_8d"])
