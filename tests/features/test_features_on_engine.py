"""Features computed by an engine, bucket by bucket of customers, are those of one program over all rows."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from disco.adapters.engines import LocalEngine
from disco.features import on_engine
from disco.features.builder import feature_table
from disco.features.on_engine import IdRanges, batches_by
from disco.records.errors import InputError, TableError

AS_OF = dt.date(2026, 3, 1)
ENGINE = LocalEngine(threads=2)


def by_engine(tables, **more):
    with batches_by(ENGINE, tables, as_of=AS_OF, **more) as (schema, batches):
        return pa.Table.from_batches(batches, schema)


def as_text(table, column):
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, table[column].cast(pa.string()))


def shuffled(tables, seed):
    rng = np.random.default_rng(seed)
    return {name: table.take(pa.array(rng.permutation(table.num_rows))) for name, table in tables.items()}


@pytest.fixture
def tables(make_tables):
    return make_tables(customers=60, seed=3, start=dt.date(2024, 12, 1), days=500)


@pytest.mark.parametrize("customers", [9, 100], ids=lambda size: f"buckets of {size}")
@pytest.mark.parametrize("ids", ["integers", "text"])
def test_features_are_the_same_bytes(tables, memory_tables, monkeypatch, ids, customers):
    monkeypatch.setattr(on_engine, "_BUCKET_CUSTOMERS", customers)
    if ids == "text":
        named = ("customers", "orders", "site", "codes")
        tables = {name: as_text(table, "customer_id") if name in named else table for name, table in tables.items()}
    whole = feature_table(memory_tables(tables), as_of=AS_OF).replace_schema_metadata(None)
    found = by_engine(memory_tables(shuffled(tables, customers)))
    assert found.replace_schema_metadata(None).combine_chunks().equals(whole)


@pytest.mark.parametrize("absent", [("site",), ("returns", "codes"), ("orders",), ("codes",)], ids=str)
def test_tables_may_be_absent(tables, memory_tables, absent):
    some = memory_tables({name: table for name, table in tables.items() if name not in absent})
    expected = feature_table(some, as_of=AS_OF)
    assert by_engine(some).replace_schema_metadata(None).equals(expected.replace_schema_metadata(None))


def test_a_code_that_another_customer_used_and_an_order_id_of_two_customers(tables, memory_tables):
    orders, codes = tables["orders"].to_pylist(), tables["codes"].to_pylist()
    for order in orders[:200]:  # a depth is that of the code, whoever was sent it
        order["code"] = codes[(order["customer_id"] * 7) % len(codes)]["code_id"]
    for one, other in zip(orders[200:230], orders[230:260], strict=True):
        other["order_id"] = one["order_id"]
    changed = {**tables, "orders": pa.Table.from_pylist(orders, tables["orders"].schema)}
    some = memory_tables(changed)
    expected = feature_table(some, as_of=AS_OF).replace_schema_metadata(None)
    assert not expected.equals(feature_table(memory_tables(tables), as_of=AS_OF).replace_schema_metadata(None))
    assert by_engine(some).replace_schema_metadata(None).equals(expected)


def test_what_is_wrong_with_a_table_is_said_as_ever(tables, memory_tables):
    people = tables["customers"]
    with pytest.raises(InputError, match="5 twice"):
        by_engine(memory_tables({**tables, "customers": pa.concat_tables([people, people.slice(5, 1)])}))
    orders = tables["orders"]
    items = orders["items"].to_pylist()
    items[41] = -1
    negative = orders.set_column(orders.schema.get_field_index("items"), "items", pa.array(items))
    wrong = memory_tables({**tables, "orders": negative})
    with pytest.raises(TableError) as ours:
        by_engine(wrong)
    with pytest.raises(TableError) as theirs:
        feature_table(wrong, as_of=AS_OF)
    assert ours.value.problems == theirs.value.problems
    nameless = people.set_column(0, "customer_id", pa.array([None, *people["customer_id"].to_pylist()[1:]]))
    with pytest.raises(TableError, match="customer_id"):
        by_engine(memory_tables({**tables, "customers": nameless}))


def test_ranges_depend_on_the_ids_alone():
    ids = pa.table({"customer_id": [f"c{n:05}" for n in range(5000)]})
    backwards = ids.take(pa.array(np.arange(5000)[::-1]))
    assert IdRanges.of_customers(ENGINE.table(ids)) == IdRanges.of_customers(ENGINE.table(backwards))
    numbers = IdRanges.of_customers(ENGINE.table(ids)).number(ids["customer_id"]).to_numpy()
    assert (np.diff(numbers) >= 0).all()
    assert np.bincount(numbers).tolist() == [1250] * 4
