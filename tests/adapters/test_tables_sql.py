"""Tables through a database URL, on a real SQLite database."""

import sqlite3
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from disco.adapters.tables import SqlTables, open_tables, validate_tables
from disco.records.errors import InputError, MissingPartError

AS_OF = date(2026, 3, 1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE customers (customer_id TEXT, joined_on DATE, country TEXT);
        INSERT INTO customers VALUES ('007', '2025-01-31', 'GB'), ('8', '2025-02-01', NULL);
        CREATE TABLE fact_order (id INTEGER, who TEXT, at TIMESTAMP, price NUMERIC, paid REAL, n INTEGER);
        INSERT INTO fact_order VALUES (1, '007', '2025-03-01 10:00:00', 12, 9.99, 2),
          (2, '8', '2025-03-02', 20.5, 20.5, 1);
        """
    )
    connection.commit()
    connection.close()
    yield path
    path.unlink()


ORDERS = """SELECT id AS order_id, who AS customer_id, at AS ordered_at, price AS full_price, paid, n AS items,
            NULL AS code FROM fact_order"""


def test_a_table_of_the_right_name_needs_no_query(database: Path) -> None:
    with open_tables(f"sqlite:///{database}") as tables:
        assert isinstance(tables, SqlTables)
        assert tables.names() == ("customers",)
        assert tables.scan("customers").to_pylist() == [
            {"customer_id": "007", "joined_on": datetime(2025, 1, 31), "country": "GB"},
            {"customer_id": "8", "joined_on": datetime(2025, 2, 1), "country": None},
        ]


def test_queries_bring_tables_of_other_names_clean_through_validation(database: Path) -> None:
    queries = {"customers": "SELECT * FROM customers", "orders": ORDERS}
    with SqlTables(f"sqlite:///{database}", queries=queries) as tables:
        report = validate_tables(tables, as_of=AS_OF)
        assert report.problems == ()
        assert report.rows == {"customers": 2, "orders": 2}
        orders = tables.scan("orders")
        assert orders["full_price"].to_pylist() == [12.0, 20.5]
        assert orders["order_id"].to_pylist() == ["1", "2"]


def test_problems_carry_the_row_of_the_query(database: Path) -> None:
    query = ORDERS.replace("paid,", "-paid AS paid,") + " ORDER BY id DESC"
    with SqlTables(
        f"sqlite:///{database}", queries={"orders": query, "customers": "SELECT * FROM customers"}
    ) as tables:
        (problem,) = validate_tables(tables, as_of=AS_OF).problems
    assert (problem.kind, problem.file, problem.row, problem.found) == ("negative_money", "orders (SQL)", 1, "'-20.5'")


def test_the_query_runs_once_so_that_rows_keep_their_numbers(database: Path) -> None:
    with SqlTables(f"sqlite:///{database}") as tables:
        before = tables.scan("customers")
        connection = sqlite3.connect(database)
        connection.execute("DELETE FROM customers")
        connection.commit()
        connection.close()
        assert tables.scan("customers").equals(before)


def test_temporary_files_go_when_it_closes(database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SqlTables(f"sqlite:///{database}") as tables:
        tables.scan("customers")
        assert list(tmp_path.glob("disco-*/sql-*/customers.arrow"))
    assert not list(tmp_path.glob("disco-*/*"))


@pytest.mark.parametrize(
    ("url", "queries", "found"),
    [
        ("nonsense://x", None, "nonsense"),
        ("sqlite:///{folder}/missing.db", None, "no such file"),
        ("sqlite:///{database}", {"order": "SELECT 1"}, "Did you mean orders"),
        ("sqlite://", None, "none of our tables"),
    ],
)
def test_urls_and_names_that_cannot_be_used(
    database: Path, url: str, queries: dict[str, str] | None, found: str
) -> None:
    with pytest.raises(InputError, match=found):
        SqlTables(url.format(folder=database.parent, database=database), queries=queries)
    assert not (database.parent / "missing.db").exists()


def test_a_query_that_fails_is_quoted_with_the_databases_own_words(database: Path) -> None:
    with (
        SqlTables(f"sqlite:///{database}", queries={"orders": "SELECT * FROM nowhere"}) as tables,
        pytest.raises(InputError, match=r"query of orders.*no such table: nowhere"),
    ):
        tables.scan("orders")


def test_a_password_is_never_shown() -> None:
    with pytest.raises(InputError) as caught:
        SqlTables("sqlite://user:s3cret@host/missing.db")
    assert "s3cret" not in str(caught.value)


def test_a_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingPartError, match="oracledb"):
        SqlTables("oracle+oracledb://user@host/shop")


def test_a_query_changes_nothing(database_url: str) -> None:
    url = database_url.replace("+psycopg", "")  # a plain URL has the driver that the store uses
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (customer_id TEXT, joined_on TEXT)")
        connection.exec_driver_sql("INSERT INTO customers VALUES ('1', '2025-01-31')")
    for query in (
        "WITH one AS (SELECT 1) DELETE FROM customers",
        "WITH one AS (SELECT 1) UPDATE customers SET joined_on = '2025-02-01' RETURNING customer_id, joined_on",
    ):
        with (
            SqlTables(url, queries={"customers": query}) as tables,
            pytest.raises(InputError, match="query of customers"),
        ):
            tables.source("customers")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT * FROM customers").all() == [("1", "2025-01-31")]
    engine.dispose()
