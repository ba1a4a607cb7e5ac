"""Raw files as tables: lines summed into orders, queries over local files, workbooks, text dates in any format."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_exports import LINES, PAYMENTS, SHEET, order_lines, payments, workbook, write_settings, write_workbook

from disco.adapters.config import load_settings
from disco.adapters.tables import FolderTables, open_tables, validate_tables
from disco.records.errors import FileFormatError, InputError, PlanError, TableError
from disco.records.tables import CsvFormat, LinesFormat, TableFormat
from disco.records.validation import TablesReport

AS_OF = date(2026, 3, 1)
COLUMNS = {"order_id": "no", "customer_id": "who", "ordered_at": "day", "amount": "sum"}
FORMAT = TableFormat(lines=LinesFormat("lines.csv", COLUMNS))


def written(folder: Path, text: str, name: str = "lines.csv") -> Path:
    (folder / name).write_text(text)
    return folder


def report_of(folder: Path, form: TableFormat = FORMAT) -> TablesReport:
    return validate_tables(FolderTables(folder, written=form), as_of=AS_OF)


def rows_of(tables: FolderTables, name: str) -> list[tuple[object, ...]]:
    table = tables.scan(name)
    table = table if isinstance(table, pa.Table) else table.to_table()
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("export", "settings", "rows"),
    [
        (order_lines, LINES, {"customers": 400, "orders": 2980, "returns": 235}),
        (payments, PAYMENTS, {"customers": 400, "orders": 2980}),
        (workbook, SHEET, {"customers": 150, "orders": 1148}),
    ],
)
def test_a_raw_export_becomes_tables_without_a_problem(tmp_path, export, settings, rows) -> None:
    export(tmp_path)
    write_settings(tmp_path, settings, data=".")
    form = load_settings(tmp_path, environment={}).written
    report = report_of(tmp_path, form)
    assert (report.problems, report.rows) == ((), rows)
    assert [warning[:60] for warning in report.warnings] == (
        ["orders (from zahlungen.csv): order ids are mostly integers, "] if export is payments else []
    )


def test_lines_are_summed_and_cancellations_find_their_orders(tmp_path: Path) -> None:
    text = """No,Who,Day,Sum
1,a,2026-01-05T10:00,10.10
1,a,2026-01-05T10:00,0.20
2,a,2026-01-06,5
3,,2026-01-06,99
C1,a,2026-01-09,-4
C8,a,2026-01-10,-5
C9,a,2026-01-11,-11
4,b,2026-01-12,7
4,b,2026-01-12,-7
"""
    tables = FolderTables(written(tmp_path, text), written=FORMAT)
    assert tables.names() == ("customers", "orders", "returns")
    orders = [(row[0], row[1], float(row[3])) for row in rows_of(tables, "orders")]
    assert orders == [("1", "a", 10.3), ("2", "a", 5.0)]
    returns = [(row[0], row[1].day, float(row[2])) for row in rows_of(tables, "returns")]
    assert returns == [
        ("1", 9, 4.0),
        ("2", 10, 5.0),
    ]  # C1 names its order; C8 is of the last one that was worth as much
    assert rows_of(tables, "customers") == [("a", date(2026, 1, 5)), ("b", date(2026, 1, 12))]
    assert tables.notes() == (
        "lines.csv: 9 lines are 2 orders of 2 customers; 1 line without a customer left out; 3 cancellations became 2 "
        "returns, and 1 of no known order were left out; 1 order worth nothing left out",
    )


def test_customers_without_a_join_date_have_the_day_of_their_first_order(tmp_path: Path) -> None:
    written(tmp_path, "no,who,day,sum\n1,a,2026-01-05,1\n2,a,2026-01-09,1\n3,b,2026-01-07,1\n")
    written(tmp_path, "customer_id,country,joined_on\na,GB,\nb,FR,2025-01-01\n", "customers.csv")
    assert report_of(tmp_path).problems == ()
    tables = FolderTables(tmp_path, written=FORMAT)
    assert [row[2].date() for row in rows_of(tables, "customers")] == [date(2026, 1, 5), date(2025, 1, 1)]
    pq.write_table(pa.table({"customer_id": ["a", "b"]}), tmp_path / "customers.parquet")
    (tmp_path / "customers.csv").unlink()
    tables = FolderTables(tmp_path, written=FORMAT)
    assert [row[1] for row in rows_of(tables, "customers")] == [date(2026, 1, 5), date(2026, 1, 7)]
    written(tmp_path, "customer_id\na\nc\n", "customers.csv")
    (tmp_path / "customers.parquet").unlink()
    kinds = {(problem.kind, problem.column, problem.row) for problem in report_of(tmp_path).problems}
    assert kinds == {("null", "joined_on", 3), ("unknown_customer", "customer_id", 2)}


HEADER = "no,who,day,sum,currency\n"
GUESSES = {
    "no such file": ("", {"table": "line.csv"}, "Did you mean lines.csv?"),
    "no such column": (
        HEADER + "1,a,2026-01-05,1,GBP\n",
        {"order_id": "number"},
        "`lines.order_id` in disco.yaml names",
    ),
    "two currencies": (HEADER + "1,a,2026-01-05,1,GBP\n2,b,2026-01-05,1,EUR\n", {}, "WHERE currency = 'GBP'"),
    "another currency": (HEADER + "1,a,2026-01-05,1,USD\n", {}, "Write `currency: USD` in disco.yaml."),
    "no customers": (HEADER + "1,,2026-01-05,1,GBP\n", {}, "Correct `lines.customer_id`"),
    "no lines": (
        HEADER + "x,a,2026-01-05,1,GBP\nx,b,2026-01-05,1,GBP\n",
        {},
        "Let `lines.order_id` in disco.yaml name",
    ),
    "signs reversed": (HEADER + "1,a,2026-01-05,-1,GBP\n", {}, "name columns with purchases above 0"),
    "odd dates": (HEADER + "1,a,5.1.2026,1,GBP\n2,a,31.1.2026,1,GBP\n", {}, '`csv: {dates: "%d.%m.%Y"}`'),
    "comma": ('no,who,day,sum\n1,a,2026-01-05,"1,50"\n', {}, '`csv: {decimal: ","}`'),
    "encoding": ("no,who,day,sum\n1,\udce9,2026-01-05,1\n", {}, "`csv: {encoding: cp1252}`"),
}


@pytest.mark.parametrize("case", GUESSES)
def test_a_wrong_guess_gets_the_setting_to_write(tmp_path: Path, case: str) -> None:
    text, change, fix = GUESSES[case]
    (tmp_path / "lines.csv").write_text(text or HEADER, errors="surrogateescape")
    columns = COLUMNS | {name: theirs for name, theirs in change.items() if name != "table"}
    form = replace(FORMAT, lines=LinesFormat(change.get("table", "lines.csv"), columns))
    with pytest.raises((TableError, InputError)) as refused:
        FolderTables(tmp_path, written=form).names()
    assert fix in str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"amount": "x"}, "the column x for both quantity and amount"),
        ({"unit_price": "y", "amount": "z"}, "amount and quantity and unit_price"),
        ({"quantity": None}, "none"),
        ({"quantity": None, "unit_price": "y"}, "unit_price"),
    ],
)
def test_a_column_meant_twice_and_amounts_given_twice_or_never_are_refused(tmp_path: Path, given, words) -> None:
    lines = {"table": "l.csv", "order_id": "a", "customer_id": "b", "ordered_at": "c", "quantity": "x"} | given
    write_settings(tmp_path, {"lines": {name: theirs for name, theirs in lines.items() if theirs}})
    with pytest.raises(PlanError, match=words):
        load_settings(tmp_path, environment={})


def test_lines_that_were_one_of_the_tables_files_are_not_also_that_table(tmp_path: Path) -> None:
    written(tmp_path, "order_id,customer_id,ordered_at,full_price\n1,a,2026-01-05,1\n1,a,2026-01-05,2\n", "orders.csv")
    columns = {name: name for name in ("order_id", "customer_id", "ordered_at")} | {"amount": "full_price"}
    report = report_of(tmp_path, TableFormat(lines=LinesFormat("orders.csv", columns)))
    assert (report.problems, report.rows) == ((), {"customers": 1, "orders": 1})
    pq.write_table(pa.table({"order_id": ["1"]}), tmp_path / "orders.parquet")
    (problem,) = report_of(tmp_path, TableFormat(lines=LinesFormat("orders.csv", columns))).problems
    assert problem.kind == "two_sources"


# ---- queries


def test_queries_add_and_compare_and_keep_zeros_in_front_of_ids(tmp_path: Path) -> None:
    written(tmp_path, 'id;no;price;day\n007;1;"1.000,5";31.1.2026\n007;1;2;31.1.2026\n;2;3;1.2.2026\n')
    pq.write_table(pa.table({"id": ["007"], "country": ["GB"]}), tmp_path / "people.parquet")
    queries = {
        "orders": "SELECT no AS order_id, id AS customer_id, min(day) AS ordered_at, sum(price) AS full_price "
        "FROM 'lines.csv' WHERE id IS NOT NULL GROUP BY ALL",
        "customers": "SELECT id AS customer_id, country, min(day) AS joined_on "
        "FROM 'people.parquet' JOIN 'lines.csv' USING (id) GROUP BY ALL",
    }
    form = TableFormat(csv=CsvFormat(decimal=",", dates="%d.%m.%Y"))
    tables = open_tables(tmp_path, queries=queries, written=form)
    assert validate_tables(tables, as_of=AS_OF).problems == ()
    ((order, customer, day, price),) = rows_of(tables, "orders")
    assert (order, customer, day.date(), price) == (1, "007", date(2026, 1, 31), 1002.5)
    assert rows_of(tables, "customers")[0][1] == "GB"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT * FROM 'absent.csv'",
        "SELECT * FROM '../secret.csv'",
        "SELECT * FROM 'link.csv'",
        "SELECT * FROM '.hidden.csv'",
        "SELECT * FROM 'lines.csv', read_csv('/etc/passwd')",
        "SELECT * FROM 'lines.csv', read_text('disco.yaml')",
        "SELECT * FROM 'lines.csv', glob('*')",
        "COPY (SELECT * FROM 'lines.csv') TO 'x.csv'",
        "SELECT * FROM 'lines.csv'; SELECT 1",
        "DELETE FROM 'lines.csv'",
        "ATTACH 'x.db'; SELECT * FROM 'lines.csv'",
        "SELECT nothing FROM 'lines.csv'",
        "SELECT * FROM 'artefacts/a.parquet'",
    ],
)
def test_queries_see_the_files_they_name_in_the_folder_and_nothing_else(tmp_path: Path, query: str) -> None:
    folder = tmp_path / "data"
    (folder / "artefacts").mkdir(parents=True)
    for path in (tmp_path / "secret.csv", folder / "lines.csv", folder / ".hidden.csv", folder / "x.csv"):
        path.write_text("secret\n42\n")
    pq.write_table(pa.table({"secret": [42]}), folder / "artefacts" / "a.parquet")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "disco.yaml").touch()  # the folder of the tables is that of the shop: artefacts are none of its files
    with pytest.raises(InputError) as refused:
        open_tables(folder, queries={"orders": query}).scan("orders")
    assert "42" not in str(refused.value)


def test_a_query_of_no_known_table_and_one_beside_lines_are_refused(tmp_path: Path) -> None:
    written(tmp_path, HEADER)
    with pytest.raises(InputError, match="Did you mean orders"):
        open_tables(tmp_path, queries={"order": "SELECT * FROM 'lines.csv'"})
    with pytest.raises(InputError, match="one source of orders"):
        open_tables(tmp_path, queries={"orders": "SELECT * FROM 'lines.csv'"}, written=FORMAT)


# ---- workbooks, and dates as text


def test_a_workbook_is_a_table_like_any_other(tmp_path: Path) -> None:
    rows = [["Customer_ID", "joined_on"], [7, None], [None, None], ["008", "soon"]]
    write_workbook(tmp_path / "customers.xlsx", rows)
    (null, empty, soon) = sorted(report_of(tmp_path, TableFormat()).problems, key=lambda problem: problem.row or 0)[:3]
    assert (null.kind, null.row, null.file) == ("null", 2, "customers.xlsx")
    assert (empty.row, soon.kind, soon.row) == (3, "wrong_type", 4)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"PK no", "no workbook"), (b"", "no workbook"), (None, "an empty first sheet"), ("gap", "no name in column 2")],
)
def test_a_damaged_or_empty_workbook_is_refused_by_name(tmp_path: Path, content, words: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "customers.xlsx").write_bytes(content)
    else:
        write_workbook(tmp_path / "customers.xlsx", [] if content is None else [["a", None, "c"], [1, 2, 3]])
    with pytest.raises(FileFormatError, match=words):
        FolderTables(tmp_path).scan("customers")


def test_dates_as_text_are_read_from_every_format(tmp_path: Path) -> None:
    table = pa.table({"customer_id": ["a", "b"], "joined_on": ["31.12.2025", "1.2.2026"]})
    pq.write_table(table, tmp_path / "customers.parquet")
    (problem,) = report_of(tmp_path, TableFormat()).problems
    assert problem.fix == 'Write `csv: {dates: "%d.%m.%Y"}` in disco.yaml.'
    form = TableFormat(csv=CsvFormat(dates="%d.%m.%Y"))
    assert report_of(tmp_path, form).problems == ()
    days = FolderTables(tmp_path, written=form).scan("customers")["joined_on"].to_pylist()
    assert [day.date() for day in days] == [date(2025, 12, 31), date(2026, 2, 1)]
    as_words = pa.table({"customer_id": ["a"], "joined_on": pa.array(["31.12.2025"]).dictionary_encode()})
    pq.write_table(as_words, tmp_path / "customers.parquet")
    assert report_of(tmp_path, form).problems == ()
