"""A folder of tables: one file, parts, damaged files, misnamed files, nothing at all."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.tables import FolderTables, open_tables, validate_tables
from disco.records.errors import FileFormatError, InputError, Problem

AS_OF = date(2026, 3, 1)


def some_customers(*ids: object, day: date = date(2025, 1, 31)) -> pa.Table:
    return pa.table({"customer_id": list(ids), "joined_on": [day] * len(ids)})


def problems(folder: Path) -> list[Problem]:
    return list(validate_tables(FolderTables(folder), as_of=AS_OF).problems)


def test_parquet_is_scanned_as_it_is_without_being_loaded(tmp_path: Path) -> None:
    pq.write_table(some_customers(1, 2), tmp_path / "customers.parquet")
    tables = open_tables(tmp_path)
    assert tables.names() == ("customers",)
    scan = tables.scan("customers")
    assert isinstance(scan, pa.dataset.Dataset)
    assert scan.to_table().equals(some_customers(1, 2))


def test_a_folder_of_tables_reads_in_a_line_and_a_file_in_its_place_is_sent_to_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(some_customers(1, 2), tmp_path / "customers.parquet")
    assert repr(open_tables(tmp_path)) == f"FolderTables({str(tmp_path)!r}: customers)"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        open_tables("customers.parquet")
    expected = f"customers.parquet: found a file; expected the folder it lies in. Give the folder: {tmp_path}"
    assert str(refused.value) == expected


@pytest.mark.parametrize("name", ["customers", "customers.parquet"])
def test_parts_are_one_table_and_problems_name_the_part(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "year=2025").mkdir(parents=True)
    pq.write_table(some_customers("a", "b", "c"), tmp_path / name / "part-0.parquet")
    pq.write_table(some_customers("d", "a", "e"), tmp_path / name / "year=2025" / "part-1.parquet")
    (tmp_path / name / "_SUCCESS").touch()
    (tmp_path / name / "_temporary.parquet").touch()
    (problem,) = problems(tmp_path)
    assert (problem.kind, problem.file, problem.row) == ("duplicate_key", f"{name}/year=2025/part-1.parquet", 2)
    assert f"'a' again, first in row 1 of {name}/part-0.parquet" in problem.found
    assert FolderTables(tmp_path).scan("customers").count_rows() == 6


@pytest.mark.parametrize(
    "other", [some_customers(7), some_customers("x").drop_columns(["joined_on"])], ids=["type", "column"]
)
def test_parts_that_differ_are_refused_not_filled_with_nulls(tmp_path: Path, other: pa.Table) -> None:
    (tmp_path / "customers").mkdir()
    pq.write_table(some_customers("a"), tmp_path / "customers" / "part-0.parquet")
    pq.write_table(other, tmp_path / "customers" / "part-1.parquet")
    (problem,) = problems(tmp_path)
    assert problem.kind == "unreadable_file"
    with pytest.raises(FileFormatError, match=r"part-1\.parquet"):
        FolderTables(tmp_path).scan("customers")


@pytest.mark.parametrize("damage", ["truncated", "zero bytes", "text", "middle"])
def test_a_damaged_parquet_file_is_one_clear_problem_beside_the_others(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "customers.parquet"
    pq.write_table(some_customers(*map(str, range(5000))), path, compression="snappy")
    content = path.read_bytes()
    middle = content[:200] + bytes(200) + content[400:]
    path.write_bytes(
        {"truncated": content[: len(content) // 2], "zero bytes": b"", "text": b"a,b\n", "middle": middle}[damage]
    )
    pq.write_table(some_customers("a"), tmp_path / "site.parquet")
    found = problems(tmp_path)
    assert [problem.kind for problem in found if problem.file == "customers.parquet"] == ["unreadable_file"]
    assert {problem.kind for problem in found if problem.file == "site.parquet"} == {"missing_column"}


def test_a_missing_folder_a_file_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        FolderTables(tmp_path / "nowhere")
    file = tmp_path / "orders.csv"
    file.touch()
    with pytest.raises(InputError, match="found a file"):
        FolderTables(file)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found nothing"):
        FolderTables(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(InputError, match=r"notes\.txt"):
        FolderTables(tmp_path / "other")


def test_an_absent_table_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    pq.write_table(some_customers(1), tmp_path / "customers.parquet")
    with pytest.raises(InputError, match=r"only customers; expected orders\.parquet"):
        FolderTables(tmp_path).scan("orders")


def test_two_files_for_one_table_and_a_misnamed_one(tmp_path: Path) -> None:
    pq.write_table(some_customers(1), tmp_path / "customers.parquet")
    (tmp_path / "customers.csv").write_text("customer_id,joined_on\n1,2025-01-31\n")
    (tmp_path / "order.csv").touch()
    (tmp_path / "truth.parquet").touch()
    found = {problem.kind: problem for problem in problems(tmp_path)}
    assert set(found) == {"two_sources", "misnamed_file"}
    assert "orders.csv" in found["misnamed_file"].fix


def test_csv_and_parquet_may_stand_side_by_side_if_ids_are_text(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("customer_id,joined_on\n01,2025-01-31\n")
    site = {"customer_id": ["01"], "day": [date(2025, 2, 1)]}
    counts = {name: [1] for name in ("visits", "views", "add_to_bag", "saves", "checkouts")}
    pq.write_table(pa.table(site | counts), tmp_path / "site.parquet")
    assert problems(tmp_path) == []
    pq.write_table(pa.table(site | {"customer_id": [1]} | counts), tmp_path / "site.parquet")
    assert {problem.kind for problem in problems(tmp_path)} == {"mixed_ids", "unknown_customer"}
