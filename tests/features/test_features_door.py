"""Odd arguments of the room's public names end in an error that names them, never in a traceback."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.tables import open_tables
from disco.features import ContextNetwork, Feature, build_features, training_set
from disco.features.builder import opened_duckdb
from disco.records.errors import InputError, SchemaMismatchError, TableError

AS_OF = dt.date(2025, 3, 1)
KEYED = ("customers", "orders", "codes", "site")


@pytest.fixture(scope="module")
def raw(make_tables):
    return make_tables(customers=200, seed=1, start=dt.date(2024, 2, 1), days=500)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.lognormal(size=(400, 2)), rng.normal(4, 1, 400)


@pytest.fixture(scope="module")
def fitted(rows):
    return ContextNetwork(heads="level+slope", max_epochs=1).fit(*rows, np.tile([0.1, 0.3], 200))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"as_of": "2025-03-01"}, "as-of date"),
        ({"as_of": dt.datetime(2025, 3, 1, 12)}, "as-of date"),
        ({"as_of": dt.date.min}, "as-of date"),
        ({"threads": "two"}, "threads"),
        ({"threads": 0}, "threads"),
        ({"memory_limit": "plenty"}, "memory limit"),
        ({"memory_limit": 4}, "memory limit"),
        ({"features": "orders_365d"}, "a list of names"),
        ({"features": [1]}, "features: found 1"),
        ({"features": ["orders_365d", "orders_365d"]}, "each once"),
    ],
)
def test_features_name_what_they_cannot_read(memory_tables, raw, change, named):
    with pytest.raises(InputError, match=named):
        build_features(memory_tables(raw), **{"as_of": AS_OF} | change)


def test_a_formula_that_is_no_sql_points_to_the_formulas(memory_tables, raw):
    with pytest.raises(InputError, match="formulas of your own features"):
        build_features(memory_tables(raw), as_of=AS_OF, features=[Feature("odd", "site", "visits_365 +", "odd", "")])


@pytest.mark.parametrize("name", ["customer_id", "depth", "log_full_price", "Upper"])
def test_a_feature_may_not_take_the_name_of_a_target_or_an_id(name):
    with pytest.raises(InputError, match="feature name"):
        Feature(name, "site", "visits_365", "visits", "visits")


def test_prices_beyond_all_money_name_their_column(memory_tables, raw):
    orders = raw["orders"]
    prices = orders["full_price"].to_numpy().copy()
    prices[np.argmax(orders["ordered_at"].to_numpy() < np.datetime64(AS_OF))] = 1e300
    place = orders.column_names.index("full_price")
    broken = raw | {"orders": orders.set_column(place, "full_price", pa.array(prices))}
    with pytest.raises(InputError, match=r"table orders, column full_price, row \d+: found 1e\+300"):
        build_features(memory_tables(broken), as_of=AS_OF)


def test_ids_of_any_size_are_the_same_customers(memory_tables, raw):
    plain = build_features(memory_tables(raw), as_of=AS_OF)

    def shifted(by):
        moved = {}
        for name in KEYED:
            place = raw[name].column_names.index("customer_id")
            ids = pa.array(raw[name]["customer_id"].to_numpy().astype(by.dtype) + by)
            moved[name] = raw[name].set_column(place, "customer_id", ids)
        return build_features(memory_tables(raw | moved), as_of=AS_OF)

    for by in (np.int64(2**62), np.uint64(2**62)):
        assert shifted(by).drop_columns(["customer_id"]).equals(plain.drop_columns(["customer_id"]))
    with pytest.raises(InputError, match=r"customer_id.*below 2⁶³"):
        shifted(np.uint64(2**63 + 5))


def test_windows_are_dates(memory_tables, raw):
    with pytest.raises(InputError, match="training window"):
        training_set(memory_tables(raw), window_start="2025-03-01", window_end="2025-04-01")


@pytest.mark.parametrize("place", ["shop/data", Path("shop/data")])
def test_a_folder_in_place_of_opened_tables_gets_the_call_that_opens_it(place):
    with pytest.raises(InputError, match=r"disco\.open_tables\('shop/data'\)"):
        build_features(place, as_of=AS_OF)
    with pytest.raises(InputError, match=r"disco\.open_tables\('shop/data'\)"):
        training_set(place, window_start=AS_OF, window_end=dt.date(2025, 4, 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 64),
        ("hidden", (16, 0)),
        ("dimensions", "6"),
        ("leak", "a"),
        ("dropout", None),
        ("learning_rate", 0),
        ("batch_rows", 1.5),
        ("max_epochs", True),
        ("patience", None),
        ("validation_share", np.nan),
        ("seed", -1),
        ("seed", 2**70),
        ("seed", "a"),
        ("device", "tpu"),
    ],
)
def test_a_network_names_the_parameter_it_cannot_use(rows, name, value):
    with pytest.raises(InputError, match=f"ContextNetwork, {name}: found"):
        ContextNetwork(**{name: value}).fit(*rows)


@pytest.mark.parametrize("depth", ["a", np.nan, 20, -0.1, [0.1, 0.2], ["a"] * 400])
def test_a_prediction_is_at_depths_alone(fitted, rows, depth):
    with pytest.raises(InputError, match="depth"):
        fitted.predict(rows[0], depth)


def test_a_renamed_column_is_guessed_among_those_not_wanted(rows):
    table = pa.table({"spend_30d": rows[0][:, 0], "spend_90d": rows[0][:, 1]})
    network = ContextNetwork(heads="level", max_epochs=1).fit(table, rows[1])
    with pytest.raises(SchemaMismatchError, match="Is it the column spend90"):
        network.transform(table.rename_columns(["spend_30d", "spend90"]))
    with pytest.raises(SchemaMismatchError, match="same catalogue"):
        network.transform(table.select(["spend_30d"]))


def test_a_target_of_text_in_a_file_is_refused_by_name(rows, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": rows[0][:, 0], "log_full_price": ["x"] * 400}), path)
    with pytest.raises(InputError, match="y: found"):
        ContextNetwork(heads="level", max_epochs=1).fit(path)


def replaced(table, name, column):
    return table.set_column(table.schema.get_field_index(name), name, column)


def test_numbers_of_types_that_duckdb_lacks_are_read(memory_tables, raw, tmp_path):
    """Half-precision floats and wide decimals, in declared columns and beside them."""
    orders = raw["orders"]
    wide = orders["full_price"].cast(pa.decimal128(12, 2)).cast(pa.decimal256(60, 2))
    odd = replaced(replaced(orders, "full_price", wide), "items", orders["items"].cast(pa.float16()))
    odd = odd.append_column("note", pa.nulls(len(odd), pa.decimal256(60, 2)))
    (tmp_path / "data").mkdir()
    for name, table in (raw | {"orders": odd}).items():
        pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
    plain = build_features(memory_tables(raw), as_of=AS_OF)
    assert build_features(memory_tables(raw | {"orders": odd}), as_of=AS_OF).equals(plain)
    assert build_features(open_tables(tmp_path / "data"), as_of=AS_OF).equals(plain)


def test_a_wide_decimal_beyond_every_limit_is_refused_by_its_row(memory_tables, raw):
    prices = [Decimal(12)] * (len(raw["orders"]) - 1) + [Decimal(10) ** 50]
    orders = replaced(raw["orders"], "full_price", pa.array(prices, pa.decimal256(76, 2)))
    with pytest.raises(TableError, match=rf"column full_price, row {len(prices)}: found 1000.*expected at most"):
        build_features(memory_tables(raw | {"orders": orders}), as_of=AS_OF)


@pytest.mark.parametrize("limit", ["1KB", "100KB"])
def test_too_little_memory_is_a_sentence(memory_tables, raw, limit):
    with pytest.raises(InputError, match=r"memory limit|ran out of memory"):
        build_features(memory_tables(raw), as_of=AS_OF, memory_limit=limit)


def test_formulas_meet_a_database_that_sees_no_file(memory_tables, raw):
    with opened_duckdb() as connection:
        for query in ("SELECT * FROM read_text('/etc/hostname')", "SET enable_external_access = true"):
            with pytest.raises(duckdb.Error):
                connection.execute(query)


def test_a_query_beyond_its_memory_spills_to_disk_without_access_to_files():
    rows = pa.table({"x": np.random.default_rng(0).permutation(3_000_000)})
    with opened_duckdb(threads=1, memory_limit="40MB") as connection:
        connection.register("rows_", rows)
        ordered = connection.sql("SELECT x, x::VARCHAR || 'some text beside it' AS t FROM rows_ ORDER BY t")
        assert sum(batch.num_rows for batch in ordered.to_arrow_reader(65536)) == 3_000_000
