"""Tables as shops write them: own names, semicolons, decimal commas, days first, cp1252; nothing is guessed."""

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from disco.adapters.tables import FolderTables, SqlTables, open_tables, validate_tables
from disco.adapters.tables.single_files import read_outcomes_file
from disco.records.errors import FileFormatError, InputError, Problem, TableError
from disco.records.tables import CsvFormat, TableFormat, read_columns, read_dates, read_decimal, read_encoding

AS_OF = date(2026, 3, 1)
GERMAN = TableFormat(
    columns={
        "customers": {"customer_id": "Kundennummer", "joined_on": "Registriert"},
        "returns": {"order_id": "Auftrag", "returned_at": "Zeit", "value": "Wert"},
    },
    csv=CsvFormat(decimal=",", dates="%d.%m.%Y", encoding="cp1252"),
)


def folder(place: Path, written: TableFormat | None = None, **files: bytes | str) -> FolderTables:
    for name, content in files.items():
        (place / f"{name}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return FolderTables(place, written=written or TableFormat())


def problems(tables: FolderTables | SqlTables) -> tuple[Problem, ...]:
    return validate_tables(tables, as_of=AS_OF).problems


def test_a_german_table_is_read(tmp_path: Path) -> None:
    content = "Kundennummer;Registriert;Stadt\n007;31.01.2025;Köln\n8;1.2.2025 9:05;Münster\n".encode("cp1252")
    tables = folder(tmp_path, GERMAN, customers=content)
    assert problems(tables) == ()
    assert tables.scan("customers").to_pylist() == [
        {"customer_id": "007", "joined_on": datetime(2025, 1, 31), "Stadt": "Köln"},
        {"customer_id": "8", "joined_on": datetime(2025, 2, 1, 9, 5), "Stadt": "Münster"},
    ]
    assert tables.notes() == ("customers.csv: columns are separated by semicolons",)


@pytest.mark.parametrize(
    ("decimal", "cell", "value"),
    [
        (",", "143,20", 143.2),
        (",", "1.234,50", 1234.5),
        (",", "1.234", 1234.0),
        (",", "1\u202f234,5", 1234.5),
        (",", "-3,00", -3.0),
        (".", "1,234.50", 1234.5),
        (".", "1'234.50", 1234.5),
        (".", "12", 12.0),
    ],
)
def test_numbers_are_read_by_the_decimal_mark_of_the_settings(
    tmp_path: Path, decimal: str, cell: str, value: float
) -> None:
    written = TableFormat(csv=CsvFormat(decimal=decimal))
    tables = folder(tmp_path, written, returns=f'order_id;returned_at;value\n1;2025-01-31;"{cell}"\n')
    assert tables.scan("returns")["value"].to_pylist() == [value]


@pytest.mark.parametrize(("decimal", "cell"), [(",", "143.20"), (",", "0.125"), (".", "143,20"), (",", "1.23,5")])
def test_a_number_that_contradicts_the_setting_is_refused(tmp_path: Path, decimal: str, cell: str) -> None:
    written = TableFormat(csv=CsvFormat(decimal=decimal))
    tables = folder(tmp_path, written, returns=f"order_id;returned_at;value\n1;2025-01-31;{cell}\n")
    with pytest.raises(TableError) as caught:
        tables.scan("returns")
    (problem,) = caught.value.problems
    assert (problem.kind, problem.column, problem.row) == ("wrong_type", "value", 2)
    assert cell in problem.found
    assert "csv.decimal" in problem.fix


@pytest.mark.parametrize(
    ("cells", "asked"),
    [
        (("143,20",), '`csv: {decimal: ","}`'),
        (("1.234,50",), '`csv: {decimal: ","}`'),
        (("1,234.50",), '`csv: {decimal: "."}`'),
        (("1,234", "2,500"), "Say which"),
        (("1,234.50", "1.234,50"), "in two ways"),
    ],
)
def test_a_comma_in_a_number_is_asked_about(tmp_path: Path, cells: tuple[str, ...], asked: str) -> None:
    rows = "".join(f'{at},2025-01-31,"{cell}"\n' for at, cell in enumerate(cells))
    with pytest.raises(TableError) as caught:
        folder(tmp_path, returns="order_id,returned_at,value\n" + rows).scan("returns")
    (problem,) = caught.value.problems
    assert asked in problem.fix


def test_points_beside_semicolons_are_asked_about_unless_a_cell_shows_what_they_mean(tmp_path: Path) -> None:
    header = "order_id;returned_at;value\n"
    (problem,) = _own(folder(tmp_path, returns=header + "1;2025-01-31;7\n2;2025-01-31;1.234\n"))
    assert (problem.kind, problem.row, problem.found) == ("ambiguous_number", 3, "'1.234', which may be 1234 or 1.234")
    with pytest.raises(TableError, match="Say what the point means"):
        FolderTables(tmp_path).scan("returns")
    clear = folder(tmp_path, returns=header + "1;2025-01-31;12.50\n2;2025-01-31;1.234\n")
    assert _own(clear) == []


def _own(tables: FolderTables) -> list[Problem]:
    """Without what is said about the table of orders, which is not there."""
    return [problem for problem in problems(tables) if problem.kind != "missing_table"]


@pytest.mark.parametrize(
    ("cells", "asked"),
    [
        (("26.08.2024", "01.02.2025"), '`csv: {dates: "%d.%m.%Y"}`'),
        (("08/26/2024",), '`csv: {dates: "%m/%d/%Y"}`'),
        (("01/02/2025", "03/04/2025"), "Day or month may come first"),
        (("26/08/2024", "08/26/2024"), "Some dates have the day first, others the month"),
        (("2025/01/31",), "%Y/%m/%d"),
    ],
)
def test_the_order_of_day_and_month_is_never_guessed(tmp_path: Path, cells: tuple[str, ...], asked: str) -> None:
    rows = "".join(f"{at},{cell}\n" for at, cell in enumerate(cells))
    (problem,) = problems(folder(tmp_path, customers="customer_id,joined_on\n" + rows))
    assert problem.kind == "wrong_type"
    assert asked in problem.fix


@pytest.mark.parametrize(
    ("dates", "cell", "moment"),
    [
        ("%d.%m.%Y", "31.12.2025 14:05:09", datetime(2025, 12, 31, 14, 5, 9)),
        ("%d.%m.%Y %H:%M", "31.12.2025 14:05", datetime(2025, 12, 31, 14, 5)),
        ("%d/%m/%y", "1/2/25", datetime(2025, 2, 1)),
        ("%m/%d/%Y", "2/1/2025", datetime(2025, 2, 1)),
        ("%d %b %Y", "3 Mar 2025", datetime(2025, 3, 3)),
        ("%d.%m.%Y", "2025-02-01", datetime(2025, 2, 1)),
        ("%d.%m.%Y", "31.12.2025 15:05+01:00", datetime(2025, 12, 31, 14, 5)),
    ],
)
def test_dates_are_read_by_the_format_of_the_settings(tmp_path: Path, dates: str, cell: str, moment: datetime) -> None:
    tables = folder(tmp_path, TableFormat(csv=CsvFormat(dates=dates)), customers=f"customer_id,joined_on\n1,{cell}\n")
    assert tables.scan("customers")["joined_on"].to_pylist() == [moment]


@pytest.mark.parametrize("cell", ["31.02.2025", "01.13.2025", "1.2.25", "1.2.2025 noon"])
def test_dates_that_do_not_follow_the_format_are_refused(tmp_path: Path, cell: str) -> None:
    written = TableFormat(csv=CsvFormat(dates="%d.%m.%Y"))
    (problem,) = problems(folder(tmp_path, written, customers=f"customer_id,joined_on\n1,{cell}\n"))
    assert problem.kind == "wrong_type"


def test_utf_16_tabs_and_a_single_column_are_found(tmp_path: Path) -> None:
    tables = folder(tmp_path, customers="customer_id\tjoined_on\n1\t2025-01-31\n".encode("utf-16"))
    assert problems(tables) == ()
    assert tables.notes() == (
        "customers.csv: columns are separated by tabs",
        "customers.csv: text is in UTF-16",
    )
    (problem,) = problems(folder(tmp_path, customers="customer_id\n1\n"))
    assert (problem.kind, problem.column) == ("missing_column", "joined_on")


def test_a_header_with_two_marks_is_split_where_it_has_names_we_know(tmp_path: Path) -> None:
    tables = folder(tmp_path, customers="customer_id;joined_on;name, first\n1;2025-01-31;x\n")
    assert tables.scan("customers").column_names == ["customer_id", "joined_on", "name, first"]
    with pytest.raises(FileFormatError, match="commas and semicolons"):
        folder(tmp_path, customers="a;b,c\n1;2,3\n").scan("customers")


@pytest.mark.parametrize("header", ["Kundennummer,Registriert", "Kundennummer"])
def test_a_file_with_no_known_column_gets_a_sentence(tmp_path: Path, header: str) -> None:
    found = problems(folder(tmp_path, customers=f"{header}\n1,2025-01-31\n"))
    assert {"customer_id", "joined_on"} <= {problem.column for problem in found}
    assert f"the file has {header.replace(',', ', ')}" in found[-1].found


def test_names_match_whatever_their_case(tmp_path: Path) -> None:
    tables = folder(tmp_path, customers="Customer_ID,JOINED_ON,City\n1,2025-01-31,Ely\n")
    assert problems(tables) == ()
    assert tables.scan("customers").column_names == ["customer_id", "joined_on", "City"]
    assert tables.notes() == ("customers.csv: Customer_ID is customer_id, JOINED_ON is joined_on",)
    with pytest.raises(FileFormatError, match="differ in their case only"):
        folder(tmp_path, customers="Customer_ID,CUSTOMER_ID,joined_on\n1,2,2025-01-31\n").scan("customers")


def test_a_name_that_the_file_lacks_is_said_with_the_nearest_one(tmp_path: Path) -> None:
    written = TableFormat(columns={"customers": {"joined_on": "Registrirt"}})
    with pytest.raises(FileFormatError, match="no column Registrirt") as caught:
        folder(tmp_path, written, customers="customer_id,Registriert\n1,2025-01-31\n").scan("customers")
    assert "Did you mean Registriert?" in str(caught.value)


def test_a_column_of_our_name_that_is_not_the_one_is_left_out(tmp_path: Path) -> None:
    written = TableFormat(columns={"returns": {"value": "Wert"}})
    tables = folder(tmp_path, written, returns="order_id,returned_at,value,Wert\n1,2025-01-31,gold,7.5\n")
    assert tables.scan("returns")["value"].to_pylist() == [7.5]


def test_parquet_and_sql_have_names_of_their_own_too(tmp_path: Path) -> None:
    own = pa.table({"Kundennummer": [1], "REGISTRIERT": [date(2025, 1, 31)], "Stadt": ["Ely"]})
    pq.write_table(own, tmp_path / "customers.parquet")
    tables = FolderTables(tmp_path, written=GERMAN)
    assert problems(tables) == ()
    assert tables.scan("customers").column_names == ["customer_id", "joined_on", "Stadt"]
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE customers (Kundennummer TEXT, Registriert TEXT)"))
        connection.execute(sa.text("INSERT INTO customers VALUES ('1', '2025-01-31')"))
    engine.dispose()
    with open_tables(f"sqlite:///{tmp_path}/shop.db", written=GERMAN) as database:
        assert problems(database) == ()
        assert database.scan("customers").column_names == ["customer_id", "joined_on"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"order": {}}, "Did you mean orders?"),
        ({"orders": {"full_prise": "Wert"}}, "Did you mean full_price?"),
        ({"orders": {"Wert": "full_price"}}, "Write our name first: `full_price: Wert`"),
        ({"orders": {"full_price": "Wert", "paid": "Wert"}}, "Wert of orders for both full_price and paid"),
        ({"customers": {"email": "E-Mail"}}, "further columns keep their own names, so use E-Mail as it is"),
        ({"orders": {"full_price": " "}}, "an empty name for orders.full_price"),
    ],
)
def test_a_map_of_columns_that_cannot_be_is_refused(columns: dict[str, dict[str, str]], said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_columns(columns)
    assert said in str(caught.value)


def test_a_missing_column_is_told_with_the_names_that_the_file_has(tmp_path: Path) -> None:
    written = TableFormat(columns={"orders": {"full_price": "Warenwert", "ordered_at": "Zeit"}})
    named = {"Zeit": ["2026-02-01"], "Warenwert": ["12.50"], "Gutschein": ["A"], "Stadt": ["Berlin"]}
    (tmp_path / "orders.csv").write_text(
        "\n".join([",".join(named), ",".join(cells[0] for cells in named.values()), ""])
    )
    pq.write_table(pa.table(named), tmp_path / "orders.parquet")
    for file in ("orders.csv", "orders.parquet"):
        with pytest.raises(TableError) as caught:
            read_outcomes_file(tmp_path / file, written=written)
        missing = {problem.column: problem.found for problem in caught.value.problems}
        there = "no such column (the file has Zeit, Warenwert, Gutschein, Stadt)"
        assert missing == {"customer_id": there, "code": there}
    (found,) = [one for one in problems(FolderTables(tmp_path, written=written)) if one.column == "customer_id"]
    assert found.found == "no such column (the file has Zeit, Warenwert, Gutschein, Stadt)"


def test_settings_of_csv_that_cannot_be_are_refused() -> None:
    for read, value in (
        (read_dates, "%d.%m"),
        (read_dates, "%d.%m.%Y %p"),
        (read_dates, "%Y-%d-%m"),
        (read_dates, "dd.mm.yyyy"),
        (read_decimal, ";"),
        (read_encoding, "excel"),
    ):
        with pytest.raises(InputError, match=r"csv\."):
            read(value)


@pytest.mark.parametrize(("written", "meant"), [("1.0", "1"), (" 1", "1"), ("7", "007"), ("C9", "c9")])
def test_ids_that_a_spreadsheet_has_changed_are_asked_about(tmp_path: Path, written: str, meant: str) -> None:
    tables = folder(
        tmp_path,
        customers="customer_id,joined_on\n1,2025-01-01\n007,2025-01-01\nc9,2025-01-01\n",
        orders=f"order_id,customer_id,ordered_at,full_price\nA1,{written},2025-02-01,5\n",
    )
    (problem,) = [one for one in problems(tables) if one.file == "orders.csv"]
    assert (problem.kind, problem.row) == ("unknown_customer", 2)
    assert f"Did you mean '{meant}'?" in problem.fix


def test_a_stranger_is_no_typing_error(tmp_path: Path) -> None:
    tables = folder(
        tmp_path,
        customers="customer_id,joined_on\n1,2025-01-01\n",
        orders="order_id,customer_id,ordered_at,full_price\nA1,2,2025-02-01,5\n",
    )
    assert [problem.fix for problem in problems(tables)] == ["Add it to customers, or leave the row out."]


@pytest.mark.parametrize(("kind", "fix"), [("Purchse", "Did you mean purchase?"), ("gift", "Use one of these words.")])
def test_a_kind_that_is_none_is_asked_about(tmp_path: Path, kind: str, fix: str) -> None:
    line = f"e1,spring,1,X,2025-02-01,5,{kind}"
    header = "event_id,campaign_id,customer_id,code,ordered_at,full_price,kind"
    tables = folder(tmp_path, outcomes=f"{header}\n{line.replace(kind, ' Purchase')}\n{line.replace('e1', 'e2')}\n")
    (problem,) = problems(tables)
    assert (problem.kind, problem.row, problem.fix) == ("unknown_choice", 3, fix)


def test_purchases_have_the_names_of_the_orders_they_are_exported_from(tmp_path: Path) -> None:
    names = {"order_id": "Bestellung", "customer_id": "Kunde", "ordered_at": "Zeit", "full_price": "Wert"}
    german = TableFormat(columns={"orders": names}, csv=GERMAN.csv)
    path = tmp_path / "export.csv"
    path.write_bytes("Bestellung;Kunde;Zeit;Wert;Code;Größe\nB7;007;1.2.2026 9:05;1.234,50;AB-1;XL\n".encode("cp1252"))
    rows = read_outcomes_file(path, written=german).drop_columns("Größe").to_pylist()
    assert rows == [
        {
            "event_id": "B7",
            "customer_id": "007",
            "ordered_at": "2026-02-01T09:05",
            "full_price": "1234.50",
            "code": "AB-1",
        }
    ]
    own = TableFormat(columns={"orders": names, "outcomes": {"event_id": "Größe"}}, csv=GERMAN.csv)
    assert read_outcomes_file(path, written=own)["event_id"].to_pylist() == ["XL"]


def test_a_missing_column_is_asked_about_with_the_setting_that_names_it(tmp_path: Path) -> None:
    tables = folder(tmp_path, customers="customerid,since\n1,2025-01-01\n")
    assert [problem.fix for problem in problems(tables)] == [
        "Did you mean 'customerid'? Rename it, or write `columns: {customers: {customer_id: customerid}}` "
        "in disco.yaml.",
        "Add it, or say what yours is called: write `columns: {customers: {joined_on: …}}` in disco.yaml.",
    ]


@pytest.mark.parametrize(("paid", "said"), [("50.00", True), ("40.00", False), ("", False)])
def test_orders_with_a_code_whose_full_price_was_paid_are_asked_about(tmp_path: Path, paid: str, said: bool) -> None:
    rows = "".join(f"A{row},1,2025-02-01,50.00,{paid or 50 - row % 7},C{row}\n" for row in range(30))
    tables = folder(
        tmp_path,
        customers="customer_id,joined_on\n1,2025-01-01\n",
        orders=f"order_id,customer_id,ordered_at,full_price,paid,code\n{rows}",
    )
    report = validate_tables(tables, as_of=AS_OF)
    assert report.problems == ()
    assert report.warnings == (
        (
            "orders.csv: 30 of 30 orders with a code have the same amount in full_price and paid. full_price is the "
            "value of the basket before the discount; is it the right column?",
        )
        if said
        else ()
    )


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (("1.2.2026", "17,50"), 'csv: {decimal: ","}'),
        (("13.2.2026", "17.50"), 'csv: {dates: "%d.%m.%Y"}'),
        (("2026-02-01", "1,234"), "Say which"),
    ],
)
def test_purchases_in_another_notation_are_refused_whole_with_the_setting(
    tmp_path: Path, cells: tuple[str, str], advice: str
) -> None:
    path = tmp_path / "export.csv"
    line = ";".join(("C1", "7", *cells))
    path.write_text(f"code;customer_id;ordered_at;full_price\n{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(TableError) as caught:
        read_outcomes_file(path)
    assert any(advice in problem.fix and (problem.row, problem.rows) == (2, 2) for problem in caught.value.problems)


def test_one_purchase_in_another_notation_is_left_to_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    rows = "C1;7;2026-02-01;17,50\nC2;8;2026-02-01;17.50\n"
    path.write_text(f"code;customer_id;ordered_at;full_price\n{rows}", encoding="utf-8")
    assert read_outcomes_file(path).num_rows == 2


def test_validate_and_plan_agree_about_text_in_a_further_column(tmp_path: Path) -> None:
    content = "customer_id,joined_on,note\n1,2025-01-01,plain\n2,2025-01-01,Müller\n".encode("cp1252")
    tables = folder(tmp_path, customers=content)
    (problem,) = problems(tables)
    assert (problem.kind, problem.column, problem.row) == ("encoding", "note", 3)
    assert problem.found == r"'M\xfcller'"
    with pytest.raises(TableError) as caught:
        tables.scan("customers")
    assert caught.value.problems == (problem,)
