"""Features computed by an engine, bucket by bucket of customers, are those of one program over all rows."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from disco.adapters.engines import LocalEngine
from disco.features import on_engine
from disco.features.builder import FeatureRequest, build_features
from disco.features.on_engine import IdRanges, Links, batches_by, used_codes
from disco.records.arrow_tables import content_hash
from disco.records.errors import InputError, TableError

AS_OF = dt.date(2026, 3, 1)
CUSTOMERS = 60
ENGINE = LocalEngine(threads=2)


def in_buckets(tables, size=20, **more):
    with batches_by(ENGINE, tables, FeatureRequest(as_of=AS_OF, **more), bucket_customers=size) as (schema, batches):
        return pa.Table.from_batches(batches, schema)


def with_column(table, column, values):
    return table.set_column(table.schema.get_field_index(column), column, values)


def as_text(table, column):
    return with_column(table, column, table[column].cast(pa.string()))


def shuffled(tables, seed):
    rng = np.random.default_rng(seed)
    return {name: table.take(pa.array(rng.permutation(table.num_rows))) for name, table in tables.items()}


@pytest.fixture(scope="module")
def tables(make_tables):
    return make_tables(customers=CUSTOMERS, seed=3, start=dt.date(2024, 12, 1), days=500)


@pytest.fixture(scope="module")
def whole(tables, memory_tables):
    return build_features(memory_tables(tables), as_of=AS_OF)


@pytest.mark.parametrize(
    ("ids", "size"), [*(("integers", size) for size in (1, 9, CUSTOMERS - 1, CUSTOMERS)), ("text", 1), ("text", 14)]
)
def test_features_are_the_same_bytes_for_any_size_of_a_bucket(tables, whole, make_tables, memory_tables, ids, size):
    if size == 1:  # a tenth of a second per bucket
        tables = make_tables(customers=8, seed=3, start=dt.date(2024, 12, 1), days=500)
        whole = build_features(memory_tables(tables), as_of=AS_OF)
    expected = whole.replace_schema_metadata(None)
    if ids == "text":
        named = ("customers", "orders", "site", "codes")
        tables = {name: as_text(table, "customer_id") if name in named else table for name, table in tables.items()}
        expected = as_text(expected, "customer_id").sort_by("customer_id")
    found = in_buckets(memory_tables(shuffled(tables, size)), size)
    assert found.replace_schema_metadata(None).combine_chunks().equals(expected.combine_chunks())
    assert content_hash(found) == content_hash(expected)


@pytest.mark.parametrize(
    "absent",
    [("site",), ("returns", "codes"), ("orders",), ("codes",), ("orders", "returns", "codes", "site")],
    ids=str,
)
def test_tables_may_be_absent(tables, memory_tables, absent):
    some = memory_tables({name: table for name, table in tables.items() if name not in absent})
    expected = build_features(some, as_of=AS_OF)
    assert in_buckets(some).equals(expected.replace_schema_metadata(None))


def test_buckets_compute_chosen_features(tables, whole, memory_tables):
    chosen = ["orders_365d", "visits_30d"]
    found = in_buckets(memory_tables(tables), features=chosen)
    assert found.equals(whole.select(["customer_id", *chosen]).replace_schema_metadata(None))
    without_codes = {**tables, "orders": tables["orders"].drop_columns(["code", "paid"])}
    expected = build_features(memory_tables(without_codes), as_of=AS_OF)
    assert in_buckets(memory_tables(without_codes)).equals(expected.replace_schema_metadata(None))


def test_a_code_that_another_customer_used_a_shared_code_and_an_order_id_of_two_customers(tables, whole, memory_tables):
    orders, codes = tables["orders"].to_pylist(), tables["codes"].to_pylist()
    for order in orders[:200]:  # a depth is that of the code, whoever was sent it
        order["code"] = codes[(order["customer_id"] * 7) % len(codes)]["code_id"]
    for one, other in zip(orders[200:230], orders[230:260], strict=True):
        other["order_id"] = one["order_id"]
    for code in codes[:40]:
        code["code_id"] = "everybody"
    for order in orders[260:300]:
        order["code"] = "everybody"
    changed = {
        **tables,
        "orders": pa.Table.from_pylist(orders, tables["orders"].schema),
        "codes": pa.Table.from_pylist(codes, tables["codes"].schema),
    }
    some = memory_tables(changed)
    expected = build_features(some, as_of=AS_OF).replace_schema_metadata(None)
    assert not expected.equals(whole.replace_schema_metadata(None))
    assert in_buckets(some).equals(expected)


def test_a_shared_code_reaches_a_bucket_once_whatever_its_customers_and_orders():
    rows = pa.table(
        {"code_key": ["all"] * 5 + ["own"], "depth_bp": pa.array([1000, 3000, 2000, 1000, 1000, 500], pa.int32())}
    ).append_column("key", pa.array([7] * 5 + [8]))
    links = pa.table({"key": [7, 7, 7, 9], "home": pa.array([1, 0, 1, 2], pa.int32())})
    found = used_codes({"rows": rows, "links": links}).sort_by("bucket")
    assert found.to_pylist() == [{"code_key": "all", "depth_bp": 3000, "bucket": home} for home in (0, 1)]


def test_what_is_wrong_with_a_table_is_said_as_ever(tables, memory_tables):
    people = tables["customers"]
    with pytest.raises(InputError, match="5 twice"):
        in_buckets(memory_tables({**tables, "customers": pa.concat_tables([people, people.slice(5, 1)])}))
    orders = tables["orders"]
    items = orders["items"].to_pylist()
    items[41] = -1
    negative = orders.set_column(orders.schema.get_field_index("items"), "items", pa.array(items))
    wrong = memory_tables({**tables, "orders": negative})
    with pytest.raises(TableError, match="table orders cannot be used") as ours:
        in_buckets(wrong)
    with pytest.raises(TableError) as theirs:
        build_features(wrong, as_of=AS_OF)
    assert ours.value.problems == theirs.value.problems
    nameless = people.set_column(0, "customer_id", pa.array([None, *people["customer_id"].to_pylist()[1:]]))
    with pytest.raises(TableError, match="customer_id"):
        in_buckets(memory_tables({**tables, "customers": nameless}))


@pytest.mark.parametrize(
    ("table", "date", "column", "bad"),
    [
        ("returns", "returned_at", "value", -1.0),
        ("codes", "sent_at", "depth", 1.5),
        ("codes", "sent_at", "depth", 1e300),
        ("site", "day", "visits", -1),
    ],
)
def test_rows_of_every_table_are_checked_also_those_from_before_the_year(
    tables, memory_tables, table, date, column, bad
):
    rows = tables[table].sort_by(date)  # the first one is 455 days old
    place = rows.schema.get_field_index(column)
    wrong = {**tables, table: rows.set_column(place, column, pa.array([bad, *rows[column].to_pylist()[1:]]))}
    for absent in ((), ("orders",)):
        some = memory_tables({name: rows for name, rows in wrong.items() if name not in absent})
        with pytest.raises(TableError, match=f"table {table} cannot be used"):
            in_buckets(some)


@pytest.mark.parametrize("type_", [pa.uint64(), pa.uint8(), pa.string_view()], ids=str)
def test_ids_of_every_type_that_a_file_may_have(tables, memory_tables, type_):
    named = ("customers", "orders", "site", "codes")
    others = {name: with_column(tables[name], "customer_id", tables[name]["customer_id"].cast(type_)) for name in named}
    some = memory_tables({**tables, **others})
    assert in_buckets(some).equals(build_features(some, as_of=AS_OF).replace_schema_metadata(None))


def refusal(function, tables):
    with pytest.raises(TableError) as refused:
        function(tables)
    return str(refused.value), refused.value.problems


@pytest.mark.parametrize("name", ["customers", "orders"])
def test_an_integer_beyond_the_largest_id_is_refused_in_the_same_words(tables, memory_tables, name):
    ids = pa.array([2**63, *tables[name]["customer_id"].to_pylist()[1:]], pa.uint64())
    wrong = memory_tables({**tables, name: with_column(tables[name], "customer_id", ids)})
    assert refusal(in_buckets, wrong) == refusal(lambda some: build_features(some, as_of=AS_OF), wrong)


def test_of_two_tables_with_bad_rows_the_same_one_is_named_and_none_for_rows_after_the_day(tables, memory_tables):
    orders = tables["orders"].sort_by([("ordered_at", "descending")])  # the first one is after the day
    late = with_column(orders, "items", pa.array([-1, *orders["items"].to_pylist()[1:]]))
    site = with_column(tables["site"], "visits", pa.array([-1, *tables["site"]["visits"].to_pylist()[1:]]))
    returns = with_column(tables["returns"], "value", pa.array([-1.0, *tables["returns"]["value"].to_pylist()[1:]]))
    for names in ({"orders": late, "site": site}, {"site": site, "returns": returns}):
        rest = {name: table for name, table in tables.items() if name not in names}
        wrong = memory_tables({**dict(reversed(names.items())), **rest})
        words = refusal(in_buckets, wrong)
        assert words == refusal(lambda some: build_features(some, as_of=AS_OF), wrong)
        assert "table orders" not in words[0]


def test_there_are_no_more_buckets_than_files_that_may_be_open(tables, memory_tables, monkeypatch):
    monkeypatch.setattr(on_engine, "_MOST_BUCKETS", 5)
    assert len(in_buckets(memory_tables(tables), 1).to_batches()) == 5


def test_orders_without_a_code_meet_nobody_whether_their_code_is_null_or_empty():
    orders = pa.table({"customer_id": [1, 2, 3], "code": [None, "", "c7"]})
    assert Links(IdRanges((2,)), "code")(orders)["home"].to_pylist() == [1]


def test_buckets_report_how_far_they_are(tables, memory_tables):
    told: list[tuple[int, int | None, str]] = []
    in_buckets(memory_tables(tables), 20, report=lambda *said: told.append(said))
    stages = [stage for _, _, stage in told]
    assert list(dict.fromkeys(stages)) == [
        "opening the tables",
        "reading customers",
        "reading the tables",
        "computing features",
    ]
    done = [done for done, _, stage in told if stage == "computing features"]
    assert done[0] == 0
    assert done == sorted(done)
    assert done[-1] == CUSTOMERS


def test_ranges_depend_on_the_ids_alone():
    ids = pa.table({"customer_id": [f"c{n:05}" for n in range(5000)]})
    backwards = ids.take(pa.array(np.arange(5000)[::-1]))
    assert IdRanges.of_customers(ENGINE.table(ids)) == IdRanges.of_customers(ENGINE.table(backwards))
    numbers = IdRanges.of_customers(ENGINE.table(ids)).number(ids["customer_id"]).to_numpy()
    assert (np.diff(numbers) >= 0).all()
    assert np.bincount(numbers).tolist() == [1250] * 4


def test_a_range_is_found_by_the_bytes_of_an_id():
    bounds = ("a", "aa", "ab", "b", "é", "日本")
    ids = pa.chunked_array([["", "a", "a\0"], ["aa", "aab", "abc", "z", "é", "éa", "日", "日本人", None]])
    expected = [sum(bound <= (text or "") for bound in bounds) for text in ids.to_pylist()]
    assert IdRanges(bounds).number(ids).to_pylist() == expected
    assert IdRanges((3, 10)).number(pa.array([-5, 3, 9, 10, None])).to_pylist() == [0, 1, 1, 2, 0]
