"""CSV as people export it: byte-order marks, zeros in front, ragged rows, other encodings, other separators."""

from datetime import date, datetime
from pathlib import Path

import pytest

from disco.adapters.tables import FolderTables, validate_tables
from disco.records.errors import FileFormatError, Problem, TableError
from disco.records.tables import CsvFormat, TableFormat

AS_OF = date(2026, 3, 1)
HEADER = b"customer_id,joined_on\n"


def customers(folder: Path, content: bytes) -> FolderTables:
    (folder / "customers.csv").write_bytes(content)
    return FolderTables(folder)


def problems(tables: FolderTables) -> list[Problem]:
    return list(validate_tables(tables, as_of=AS_OF).problems)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_byte_order_mark_and_line_ends_change_nothing(tmp_path: Path, mark: bytes, line_end: bytes) -> None:
    tables = customers(
        tmp_path, mark + line_end.join([b"customer_id,joined_on", b"007,2025-01-31", b"7,2025-02-01", b""])
    )
    assert problems(tables) == []
    assert tables.scan("customers").to_pylist() == [
        {"customer_id": "007", "joined_on": datetime(2025, 1, 31)},
        {"customer_id": "7", "joined_on": datetime(2025, 2, 1)},
    ]


def test_further_columns_are_kept_as_text(tmp_path: Path) -> None:
    tables = customers(tmp_path, b"customer_id,joined_on,shop\n1,2025-01-31,007\n2,2025-01-31,\n")
    assert tables.scan("customers")["shop"].to_pylist() == ["007", None]


def test_quoted_commas_line_breaks_and_blank_lines(tmp_path: Path) -> None:
    tables = customers(tmp_path, HEADER + b'"a,b",2025-01-31\n\n"c\nd",2025-01-31\n\nx,never\n')
    (problem,) = problems(tables)
    assert (problem.kind, problem.row, problem.found) == ("wrong_type", 6, "'never'")


def test_ragged_rows_are_named_and_do_not_shift_the_rows_after_them(tmp_path: Path) -> None:
    rows = [b"1,2025-01-31", b"2", b"3,2025-01-31,x", b"4,never", b"5,2025-01-31,y", b"6,2099-01-01"]
    found = problems(customers(tmp_path, HEADER + b"\n".join(rows) + b"\n"))
    assert [(problem.kind, problem.row, problem.rows) for problem in found] == [
        ("ragged_row", 3, 3),
        ("wrong_type", 5, 1),
        ("future_date", 7, 1),
    ]
    assert "1 cells" in found[0].found


@pytest.mark.parametrize("encoding", [None, "cp1252"])
def test_a_file_that_is_nothing_but_a_byte_order_mark_is_empty(tmp_path: Path, encoding: str | None) -> None:
    (tmp_path / "customers.csv").write_bytes(b"\xef\xbb\xbf\r\n")
    written = TableFormat(csv=CsvFormat(encoding=encoding))
    (problem,) = problems(FolderTables(tmp_path, written=written))
    assert (problem.kind, problem.found) == ("unreadable_file", "an empty file")


def test_ragged_rows_stop_a_scan(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="row 3"):
        customers(tmp_path, HEADER + b"1,2025-01-31\n2\n").scan("customers")


def test_every_unreadable_cell_stops_a_scan(tmp_path: Path) -> None:
    tables = customers(tmp_path, HEADER + b"1,2025-01-31\n2,31.01.2025\n\xe9,2025-01-31\n")
    with pytest.raises(TableError) as caught:
        tables.scan("customers")
    assert [(problem.kind, problem.row) for problem in caught.value.problems] == [("encoding", 4), ("wrong_type", 3)]


def test_latin_1_is_named_by_row(tmp_path: Path) -> None:
    (problem,) = problems(customers(tmp_path, HEADER + b"a,2025-01-31\nZo\xeb,2025-01-31\n"))
    assert (problem.kind, problem.row) == ("encoding", 3)
    assert "xeb" in problem.found


def test_latin_1_in_a_further_column_is_named_by_every_reader(tmp_path: Path) -> None:
    tables = customers(tmp_path, b"customer_id,joined_on,city\n1,2025-01-31,Ely\n2,2025-01-31,K\xf6ln\n")
    (problem,) = problems(tables)
    assert (problem.kind, problem.column, problem.row) == ("encoding", "city", 3)
    with pytest.raises(TableError) as caught:
        tables.scan("customers")
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty file"),
        (b"\n\n", "empty file"),
        (b"PK\x03\x04\0\0\0\0,", "not text"),
    ],
)
def test_files_that_are_no_csv_of_ours(tmp_path: Path, content: bytes, found: str) -> None:
    tables = customers(tmp_path, content)
    (problem,) = problems(tables)
    assert problem.kind == "unreadable_file"
    assert found in problem.found
    with pytest.raises(FileFormatError, match=r"customers\.csv"):
        tables.scan("customers")


def test_a_header_without_rows_is_an_empty_table(tmp_path: Path) -> None:
    assert [problem.kind for problem in problems(customers(tmp_path, HEADER))] == ["empty_table"]


def test_mixed_time_zones_in_one_column(tmp_path: Path) -> None:
    customers(tmp_path, HEADER + b"c,2025-01-31\n")
    (tmp_path / "codes.csv").write_text(
        "code_id,customer_id,campaign_id,depth,sent_at,redeemed_at\n"
        "a,c,spring,0.1,2025-02-01T10:00:00Z,\n"
        "b,c,spring,0.1,2025-02-01T11:00:00+01:00,\n"
        "d,c,spring,0.1,2025-02-01T10:00:00,\n"
    )
    (problem,) = problems(FolderTables(tmp_path))
    assert (problem.kind, problem.column, problem.row) == ("mixed_time_zones", "sent_at", 4)
    assert "with an offset (such as '2025-02-01T10:00:00Z'), or all without one, by the clock of" in problem.fix


def test_an_unclosed_quotation_mark_is_a_clear_error(tmp_path: Path) -> None:
    (problem,) = problems(customers(tmp_path, HEADER + b'1,2025-01-31\n"2,2025-01-31\n' + b"3,2025-01-31\n" * 3))
    assert problem.kind in ("unreadable_file", "ragged_row")


def test_more_rows_than_one_block_keep_their_numbers(tmp_path: Path) -> None:
    good = b"".join(b"c%07d,2025-01-31\n" % row for row in range(500_000))
    assert len(good) > 1 << 23
    tables = customers(tmp_path, HEADER + good + b"ragged\nlast,never\n")
    found = problems(tables)
    assert [(problem.kind, problem.row) for problem in found] == [("ragged_row", 500_002), ("wrong_type", 500_003)]
