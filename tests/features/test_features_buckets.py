"""A large shop is measured bucket by bucket of customers; the features are the same bytes for any size of a bucket."""

import datetime as dt

import pyarrow as pa
import pytest

from disco.features.builder import feature_batches, feature_table
from disco.records.content import content_hash
from disco.records.errors import InputError, TableError

AS_OF = dt.date(2026, 3, 1)
CUSTOMERS = 60


def in_buckets(tables: object, size: int, **more: object) -> pa.Table:
    with feature_batches(tables, as_of=AS_OF, bucket_customers=size, **more) as (schema, batches):
        return pa.Table.from_batches(batches, schema)


def as_text(table: pa.Table, column: str) -> pa.Table:
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, table[column].cast(pa.string()))


@pytest.mark.parametrize("size", [1, 7, 59, 60, 1000])
@pytest.mark.parametrize("ids", ["integers", "text"])
def test_features_are_the_same_bytes_for_any_size_of_a_bucket(make_tables, memory_tables, ids, size):
    tables = make_tables(customers=CUSTOMERS, seed=3, start=dt.date(2024, 12, 1), days=500)
    if ids == "text":
        named = ("customers", "orders", "site", "codes")
        tables = {name: as_text(table, "customer_id") if name in named else table for name, table in tables.items()}
    whole = feature_table(memory_tables(tables), as_of=AS_OF).replace_schema_metadata(None)
    found = in_buckets(memory_tables(tables), size)
    assert found.replace_schema_metadata(None).equals(whole)
    assert content_hash(found) == content_hash(whole)


def test_buckets_work_without_some_tables_and_with_chosen_features(make_tables, memory_tables):
    tables = make_tables(customers=CUSTOMERS, seed=3, start=dt.date(2024, 12, 1), days=500)
    for absent in (("site",), ("returns", "codes"), ("orders", "returns", "codes", "site")):
        some = memory_tables({name: table for name, table in tables.items() if name not in absent})
        assert in_buckets(some, 7).equals(feature_table(some, as_of=AS_OF))
    chosen = ["orders_365d", "visits_30d"]
    some = memory_tables(tables)
    found = in_buckets(some, 7, features=chosen)
    assert found.equals(feature_table(some, as_of=AS_OF, features=chosen))


def test_what_is_wrong_with_a_table_is_said_from_buckets_too(make_tables, memory_tables):
    tables = make_tables(customers=CUSTOMERS, seed=3, start=dt.date(2024, 12, 1), days=500)
    twice = {**tables, "customers": pa.concat_tables([tables["customers"], tables["customers"].slice(5, 1)])}
    with pytest.raises(InputError, match="5 twice"):
        in_buckets(memory_tables(twice), 7)
    orders = tables["orders"]
    negative = orders.set_column(orders.schema.get_field_index("items"), "items", pa.array([-1] * orders.num_rows))
    with pytest.raises(TableError, match="table orders cannot be used"):
        in_buckets(memory_tables({**tables, "orders": negative}), 7)


def test_buckets_report_how_far_they_are(make_tables, memory_tables):
    tables = make_tables(customers=CUSTOMERS, seed=3, start=dt.date(2024, 12, 1), days=500)
    told: list[tuple[int, int | None, str]] = []
    in_buckets(memory_tables(tables), 20, report=lambda *said: told.append(said))
    assert told[:2] == [(0, None, "opening the tables"), (0, 1, "checking the tables")]
    assert [done for done, total, stage in told if stage == "computing features" and total == 3] == [0, 1, 2, 3]
    assert {"reading orders", "reading site"} <= {stage for _, _, stage in told}
