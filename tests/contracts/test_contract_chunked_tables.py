"""Every engine that holds tables, one contract: chunks, sums, what is kept, what is written, rows brought together."""

import sys
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from spark_cluster import spark_engine

from disco.adapters.engines import LocalEngine, local_table
from disco.belief import Evidence
from disco.records.errors import FileFormatError, InputError
from disco.records.identity import buckets_of
from disco.records.manifest import MANIFEST, TableManifest
from disco.records.ports import TableEngine

ROWS = 900
rng = np.random.default_rng(5)
TABLE = pa.table(
    {
        "customer_id": [f"c{n}" for n in range(ROWS)],
        "x": np.rint(rng.normal(size=ROWS).clip(-4, 4) * 65536) / 65536,
        "depth": rng.choice([0.1, 0.2], ROWS),
        "full_price": rng.lognormal(3, 1, ROWS),
    }
)
DOUBLED = pa.schema([("customer_id", pa.string()), ("twice", pa.float64())])


@pytest.fixture(scope="module", params=["one thread", "two threads", "spark"])
def engine(request):
    if request.param != "spark":
        yield LocalEngine(threads=1 if request.param == "one thread" else 2)
        return
    with spark_engine() as engine:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import a test
        yield engine


however_rows_are_divided = pytest.mark.parametrize(
    ("engine", "folder"),
    [*product(("one thread", "two threads"), (1, 4, 37)), ("spark", 4)],  # other files on Spark: test_contract_spark
    indirect=True,
)


@pytest.fixture
def folder(request, tmp_path, monkeypatch):
    """The table in so many files, its rows shuffled: files of many chunks, of three, and smaller than one."""
    monkeypatch.setattr(local_table, "TABLE_CHUNK_ROWS", 85)
    shuffled = TABLE.take(pa.array(np.random.default_rng(request.param).permutation(ROWS)))
    place = tmp_path / "table"
    place.mkdir()
    size = -(-ROWS // request.param)
    for number in range(request.param):
        pq.write_table(shuffled.slice(number * size, size), place / f"{number}.parquet", row_group_size=30)
    return place


def doubled(chunk):
    return pa.table({"customer_id": chunk["customer_id"], "twice": pc.multiply(chunk["x"], 2.0)})


def in_order(table):
    return pa.Table.from_batches(list(table.batches()), table.schema).sort_by("customer_id").combine_chunks()


EXPECTED = doubled(TABLE).cast(DOUBLED).sort_by("customer_id").combine_chunks()


def test_engines_hold_tables(engine):
    assert isinstance(engine, TableEngine)


@however_rows_are_divided
def test_every_row_is_read_once(engine, folder):
    table = engine.table(folder)
    assert table.schema == TABLE.schema
    assert table.expected_rows == ROWS
    assert in_order(table).equals(TABLE.sort_by("customer_id").combine_chunks())


@however_rows_are_divided
def test_a_transform_is_a_table(engine, folder):
    table = engine.table(folder).transform(doubled, DOUBLED)
    assert table.schema == DOUBLED
    assert in_order(table).equals(EXPECTED)


@however_rows_are_divided
def test_evidence_has_the_same_bits_however_rows_are_divided(engine, folder):
    def seen(chunk):
        return Evidence.of(chunk.select(["x"]).to_pandas().to_numpy(), chunk["depth"], chunk["full_price"])

    whole = Evidence.of(TABLE["x"].to_numpy()[:, None], TABLE["depth"], TABLE["full_price"])
    assert engine.table(folder).fold(seen, lambda one, other: one + other) == whole


@however_rows_are_divided
def test_what_is_kept_is_computed_at_most_once_and_is_the_same(engine, folder):
    with engine.table(folder).transform(doubled, DOUBLED).kept() as kept:
        assert in_order(kept).equals(EXPECTED)
        assert kept.fold(lambda chunk: chunk.num_rows, lambda one, other: one + other) == ROWS


@however_rows_are_divided
def test_a_written_table_is_read_back_and_writing_it_again_doubles_nothing(engine, folder, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        said = engine.table(folder).transform(doubled, DOUBLED).write(out)
        assert said.rows == ROWS
        assert said == TableManifest.read(out)
        assert in_order(engine.table(out)).equals(EXPECTED)
    assert {file.name for file in said.files} | {MANIFEST} == {path.name for path in out.iterdir()}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_file_that_the_manifest_does_not_name_is_no_part_of_the_table(engine, tmp_path):
    out = tmp_path / "out"
    engine.table(TABLE).write(out)
    pq.write_table(TABLE, out / "left-by-somebody.parquet")
    assert in_order(engine.table(out)).num_rows == ROWS


def test_a_missing_file_of_a_manifest_is_refused(engine, tmp_path):
    out = tmp_path / "out"
    said = engine.table(TABLE).write(out)
    (out / said.files[0].name).unlink()
    with pytest.raises(FileFormatError, match="no such file"):
        engine.table(out)


def test_a_folder_with_other_content_is_not_replaced(engine, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="a folder with other content"):
        engine.table(TABLE).write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@however_rows_are_divided
def test_an_error_leaves_no_folder(engine, folder, tmp_path):
    def wrong(chunk):
        raise InputError("row", found="nothing", expected="something")

    with pytest.raises(InputError, match="row: found nothing"):
        engine.table(folder).transform(wrong, DOUBLED).write(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (TABLE.drop_columns(["x"]), "no column x"),
        (TABLE.append_column("more", TABLE["x"]), "a column more"),
        (TABLE.set_column(1, "x", TABLE["x"].cast(pa.float32())), "column x of type float instead of double"),
        (TABLE.select(["x", "customer_id", "depth", "full_price"]), "another order"),
    ],
)
def test_files_with_different_columns_are_refused(engine, tmp_path, other, found):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=found):
        engine.table(tmp_path)


def test_folders_in_a_folder_are_read_and_those_of_a_partition_become_columns(engine, tmp_path):
    pieces = {"plain/a": TABLE.slice(0, 10), "plain": TABLE.slice(10, 5)}
    for place, rows in pieces.items():
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, tmp_path / place / "rows.parquet")
    assert in_order(engine.table(tmp_path / "plain")).equals(TABLE.slice(0, 15).sort_by("customer_id").combine_chunks())
    labels = ["AT", "DE%20east", "__HIVE_DEFAULT_PARTITION__"]
    for number, label in enumerate(labels):
        folder = tmp_path / "parted" / f"country={label}" / "year=2026"
        folder.mkdir(parents=True)
        pq.write_table(TABLE.slice(10 * number, 10), folder / "part-0.parquet")
    (tmp_path / "parted" / "_temporary" / "0").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / "parted" / "_temporary" / "0" / "unfinished.parquet")
    found = in_order(engine.table(tmp_path / "parted"))
    countries = [*["AT"] * 10, *["DE east"] * 10, *[None] * 10]
    expected = TABLE.slice(0, 30).append_column("country", pa.array(countries)).append_column("year", [["2026"] * 30])
    assert found.equals(expected.sort_by("customer_id").combine_chunks())


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["country=AT/a", "b"], "found country=…; expected no folder key=value"),
        (["country=AT/a", "city=Graz/b"], "found country=…; expected city=…"),
        (["x=1/a"], "a column x in the files and a folder x=…"),
        (["x=1/x=2/a"], "each column once"),
        (["a", "_delta_log/0"], "found a table of Delta.*table:NAME"),
    ],
)
def test_folders_that_do_not_make_one_table_are_refused(tmp_path, places, said):
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(TABLE.slice(0, 3), tmp_path / f"{place}.parquet")
    with pytest.raises(InputError, match=said):
        LocalEngine(threads=1).table(tmp_path)


def test_a_table_without_rows_is_one_chunk_without_rows(engine, tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet")
    for source in (tmp_path, TABLE.slice(0, 0)):
        table = engine.table(source)
        assert table.fold(lambda chunk: chunk.num_rows, lambda one, other: one + other) == 0
        assert table.transform(doubled, DOUBLED).write(tmp_path / "out").rows == 0
        assert engine.table(tmp_path / "out").schema == DOUBLED


@pytest.mark.parametrize("source", [17, None, {"a": 1}])
def test_what_is_no_table_is_refused(engine, source):
    with pytest.raises(InputError, match="table: found"):
        engine.table(source)


@however_rows_are_divided
def test_rows_of_several_tables_come_together_by_bucket(engine, folder):
    visits = pa.table({"customer_id": [f"c{n % 700}" for n in range(5000)], "pages": np.arange(5000)})

    def numbered(chunk):
        return chunk.append_column("bucket", buckets_of(chunk["customer_id"], 7))

    def counted(rows):
        people, seen = rows["people"], rows["visits"]
        assert people.schema == TABLE.schema
        per = seen.group_by("customer_id").aggregate([("pages", "sum")])
        joined = people.select(["customer_id"]).join(per, "customer_id", join_type="left outer")
        return pa.table({"customer_id": joined["customer_id"], "pages": joined["pages_sum"]})

    tables = {
        "people": engine.table(folder).transform(numbered, TABLE.schema.append(pa.field("bucket", pa.int32()))),
        "visits": engine.table(visits).transform(numbered, visits.schema.append(pa.field("bucket", pa.int32()))),
    }
    schema = pa.schema([("customer_id", pa.string()), ("pages", pa.int64())])
    with engine.by_bucket(tables, counted, schema) as result:
        found = in_order(result)
    expected = counted({"people": TABLE, "visits": visits}).sort_by("customer_id").combine_chunks()
    assert found.equals(expected.cast(schema))


def test_a_file_that_is_damaged_changed_or_gone_after_it_was_opened_is_named(engine, tmp_path):
    file = tmp_path / "table.parquet"
    pq.write_table(TABLE, file)
    table, content = engine.table(file), file.read_bytes()
    file.write_bytes(content[:40] + bytes(byte ^ 255 for byte in content[40:400]) + content[400:])
    with pytest.raises(FileFormatError, match=r"table\.parquet: found .*; expected a complete Parquet file"):
        list(table.batches())
    pq.write_table(TABLE.rename_columns(["customer_id", "x", "depth", "price"]), file)
    with pytest.raises(FileFormatError, match=r"table\.parquet: found no column full_price"):
        list(table.batches())
    file.unlink()
    with pytest.raises(FileFormatError, match=r"table\.parquet: found .*No such file"):
        list(table.batches())
