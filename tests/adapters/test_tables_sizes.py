"""A small file can unpack to more than memory holds: sizes are known, and refused, before rows are read."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.tables import csv, parquet, single_files
from disco.adapters.tables.folder import FolderTables, check_sent
from disco.adapters.tables.single_files import read_outcomes_file
from disco.records.errors import FileFormatError, InputError
from disco.records.table_rules import check_rows

OUTCOMES = {
    "event_id": "e1",
    "campaign_id": "spring",
    "customer_id": "c1",
    "code": "CODE",
    "ordered_at": "2026-03-01",
    "full_price": 50.0,
    "kind": "purchase",
}


def repeated(rows: int, **cells: object) -> pa.Table:
    return pa.table({name: pa.repeat(pa.scalar(value), rows) for name, value in {**OUTCOMES, **cells}.items()})


def test_many_equal_outcomes_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_files, "MOST_OUTCOMES", 50_000)
    path = tmp_path / "outcomes.parquet"
    pq.write_table(repeated(50_001), path)
    assert path.stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    with pytest.raises(InputError, match=r"found 50,001 rows; expected at most 50,000 rows of outcomes at once"):
        read_outcomes_file(path)
    assert pa.total_allocated_bytes() - before < 100_000


def test_a_csv_of_too_many_outcomes_is_refused_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "outcomes.csv"
    path.write_text("customer_id,code,ordered_at,full_price\n" + "7,A,2026-02-01,12.50\n" * 11)
    assert read_outcomes_file(path).num_rows == 11
    monkeypatch.setattr(single_files, "MOST_OUTCOMES", 10)
    with pytest.raises(InputError, match="more than 10 rows"):
        read_outcomes_file(path)


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_a_cell_that_unpacks_to_too_much_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dictionary: bool
) -> None:
    monkeypatch.setattr(parquet, "LARGEST_COLUMN_BYTES", 1 << 20)
    table = pa.table({"event_id": pa.array(["x" * (3 << 20)], pa.large_string())})
    pq.write_table(table, tmp_path / "outcomes.parquet", compression="zstd", use_dictionary=dictionary)
    assert (tmp_path / "outcomes.parquet").stat().st_size < 10_000
    del table
    before = pa.total_allocated_bytes()
    with pytest.raises(FileFormatError, match="bytes of text in column event_id of one row group; expected at most"):
        read_outcomes_file(tmp_path / "outcomes.parquet")
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_long_cell_repeated_by_a_dictionary_is_refused_unread(tmp_path: Path) -> None:
    """The metadata of such a file speak of a megabyte; unpacked it would be 100 GB."""
    long = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 100_000), pa.array(["x" * (1 << 20)]))
    joined = pa.repeat(pa.scalar("2025-01-01"), 100_000)
    pq.write_table(pa.table({"customer_id": long, "joined_on": joined}), tmp_path / "customers.parquet")
    with pytest.raises(FileFormatError, match=r"104,857,600,000 bytes of text in column customer_id"):
        FolderTables(tmp_path).scan("customers")


@pytest.mark.parametrize(
    ("name", "cell", "leaf"),
    [
        ("notes", ["x" * 1_000] * 4, "notes.list.element"),
        ("notes", {"text": "x" * 4_000}, "notes.text"),
        ("notes", [{"texts": ["x" * 4_000]}], "notes.list.element.texts.list.element"),
        ("my.notes", "x" * 4_000, "my.notes"),
    ],
    ids=["list", "struct", "both", "name with a point"],
)
def test_text_in_lists_and_structs_is_counted_as_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cell: object, leaf: str
) -> None:
    monkeypatch.setattr(parquet, "LARGEST_COLUMN_BYTES", 1 << 20)
    path = tmp_path / "customers.parquet"
    for rows in (262, 263):  # of 4,000 bytes each
        pq.write_table(pa.table({"customer_id": [f"c{row}" for row in range(rows)], name: [cell] * rows}), path)
        assert path.stat().st_size < 20_000
        if rows == 262:
            FolderTables(tmp_path).scan("customers")
    with pytest.raises(FileFormatError, match=f"1,052,000 bytes of text in column {leaf} of one row group"):
        FolderTables(tmp_path).scan("customers")


def test_a_table_of_too_many_rows_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_ROWS", 1_000)
    pq.write_table(repeated(1_001), tmp_path / "outcomes.parquet")
    with pytest.raises(FileFormatError, match="found 1,001 rows; expected at most 1,000"):
        FolderTables(tmp_path).scan("outcomes")


def test_columns_are_counted_in_the_header_line(tmp_path: Path) -> None:
    quoted = ",".join(f'"a, {number}\nb"' for number in range(1_000))
    inner = 'a"' + "," * 1_000 + 'b"\n1\n'  # marks within cells are letters, and quote nothing
    for content in ("," * 250_000, "a;" * 1_000, f"{quoted},one more\n", '"' + "a" * 2_000_000, inner, f'"a"{inner}'):
        (tmp_path / "outcomes.csv").write_text(content)
        with pytest.raises(FileFormatError, match=r"more than 1,000 columns|header line of more than 1,048,576 bytes"):
            read_outcomes_file(tmp_path / "outcomes.csv")
    (tmp_path / "customers.csv").write_text(f"{quoted}\n")
    assert len(FolderTables(tmp_path).source("customers").schema()) == 1_000


def test_columns_and_row_groups_of_parquet_are_counted_in_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(1_001)}), path)
    with pytest.raises(FileFormatError, match="found 1,001 columns; expected at most 1,000"):
        read_outcomes_file(path)
    pq.write_table(pa.table({"a": [[{f"leaf{number}": 1 for number in range(1_001)}]]}), path)
    with pytest.raises(FileFormatError, match="found 1,001 columns"):
        read_outcomes_file(path)
    pq.write_table(repeated(1_200), path, row_group_size=1)
    with pytest.raises(FileFormatError, match="found 1,200 row groups for 1,200 rows"):
        read_outcomes_file(path)


def test_texts_of_all_row_groups_are_added_up_where_they_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outcomes.parquet"
    pq.write_table(repeated(4_000, event_id="x" * 100), path, row_group_size=1_000)
    assert read_outcomes_file(path).num_rows == 4_000
    monkeypatch.setattr(parquet, "LARGEST_OUTCOMES_BYTES", 4_000 * 100)
    with pytest.raises(FileFormatError, match="bytes of text; expected at most 400,000"):
        read_outcomes_file(path)


def test_a_file_that_is_sent_is_counted_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 11)
    pq.write_table(repeated(11), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        check_sent(tmp_path / name, most_rows=11)
        with pytest.raises(FileFormatError, match=r"body: found 11 (rows|lines); expected at most 10"):
            check_sent(tmp_path / name, most_rows=10)


def test_too_many_ragged_rows_are_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "MOST_RAGGED_ROWS", 10)
    path = tmp_path / "outcomes.csv"
    header, row = "customer_id,code,ordered_at,full_price\n", "7,A,2026-02-01,12.50\n"
    path.write_text(header + row + "x\n" * 10)
    assert read_outcomes_file(path).num_rows == 11
    path.write_text(header + row + "x\n" * 11)
    with pytest.raises(FileFormatError, match="more than 10 rows with too many or too few cells"):
        read_outcomes_file(path)


def test_a_nul_in_one_cell_is_a_bad_cell_and_no_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.csv"
    path.write_bytes(b"customer_id,code,ordered_at,full_price\n7,A,2026-02-01,12.50\n8\0,B,2026-02-01,12.50\n")
    checked = check_rows("outcomes", read_outcomes_file(path))
    assert [None if place < 0 else checked.rules[place].reason[:11] for place in checked.fault] == [
        None,
        "customer_id",
    ]


def test_columns_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["note", "note"])
    pq.write_table(twice, tmp_path / "customers.parquet")
    (tmp_path / "orders.csv").write_text("order_id,note,note\n1,a,b\n")
    tables = FolderTables(tmp_path)
    for name in ("customers", "orders"):
        with pytest.raises(FileFormatError, match=f"{name}.*found 2 columns named 'note'; expected one"):
            tables.source(name).schema()
