"""Tables in from DuckDB and Delta, and rows out, exactly once. PostgreSQL: `./run drill warehouse`."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from disco.adapters.tables import open_tables, validate_tables
from disco.adapters.tables.warehouse import Export, export_to
from disco.records.errors import InputError, MissingPartError, UsageError

CUSTOMERS = pa.table({"customer_id": ["007", "8"], "joined_on": [date(2025, 1, 31), date(2025, 2, 1)]})
ORDERS = pa.table(
    {
        "order_id": ["a", "b"],
        "customer_id": ["007", "8"],
        "ordered_at": [datetime(2025, 3, 1, 10), datetime(2025, 3, 2)],
        "full_price": [12.0, 20.5],
        "paid": [9.99, 20.5],
        "items": [2, 1],
        "code": pa.array([None, None], pa.string()),
    }
)


def codes(campaign: str, customers: int, *, depth: float = 0.1) -> Export:
    rows = pa.table(
        {
            "campaign_id": pa.array([campaign] * customers, pa.string()),
            "customer_id": pa.array([f"c{n}" for n in range(customers)], pa.string()),
            "depth": pa.array([None, *[depth] * customers][:customers], pa.float64()),
            "sent_at": pa.array([datetime(2027, 3, 8, tzinfo=UTC)] * customers, pa.timestamp("us", "Europe/Berlin")),
            "known": pa.array([True] * customers, pa.bool_()),
        }
    )
    return Export(rows, campaign, ("campaign_id", "customer_id"))


def of_sqlite(folder: Path) -> list[tuple[str, str, float | None]]:
    with sqlite3.connect(folder / "w.db") as there:
        return sorted(there.execute("SELECT campaign_id, customer_id, depth FROM codes"), key=str)


def of_duckdb(folder: Path) -> list[tuple[str, str, float | None]]:
    with duckdb.connect(str(folder / "w.duckdb")) as there:
        return sorted(there.execute("SELECT campaign_id, customer_id, depth FROM codes").fetchall(), key=str)


def of_delta(folder: Path) -> list[tuple[str, str, float | None]]:
    there = DeltaTable(folder / "lake" / "codes").to_pyarrow_table()
    return sorted(
        zip(*(there[name].to_pylist() for name in ("campaign_id", "customer_id", "depth")), strict=True), key=str
    )


PLACES = pytest.mark.parametrize(
    ("url", "rows_of"),
    [
        pytest.param("sqlite:///{}/w.db", of_sqlite, id="sqlite"),
        pytest.param("duckdb:///{}/w.duckdb", of_duckdb, id="duckdb"),
        pytest.param("delta:///{}/lake", of_delta, id="delta"),
    ],
)


@PLACES
def test_an_export_is_there_once_however_often_it_is_run(
    url: str, rows_of: Callable[[Path], list[tuple[str, str, float | None]]], tmp_path: Path
) -> None:
    place = f"{url.format(tmp_path)}#codes"

    def run(export: Export) -> bool:
        table, changed = export_to(place, export, own_database="sqlite:////elsewhere/disco.db")
        assert table.endswith("#codes")
        return changed

    assert run(codes("spring", 3))
    once = rows_of(tmp_path)
    assert once == [("spring", "c0", None), ("spring", "c1", 0.1), ("spring", "c2", 0.1)]
    assert not run(codes("spring", 3))
    assert rows_of(tmp_path) == once
    assert run(codes("o'brien", 1))  # another campaign beside it
    assert not run(codes("spring", 3))
    assert run(codes("spring", 4, depth=0.2))  # what was changed meanwhile, such as by late arrivals
    assert rows_of(tmp_path) == [
        *[("o'brien", "c0", None), ("spring", "c0", None)],
        *[("spring", f"c{n}", 0.2) for n in (1, 2, 3)],
    ]
    assert run(codes("spring", 0))  # everybody was forgotten
    assert rows_of(tmp_path) == [("o'brien", "c0", None)]


@PLACES
def test_an_export_that_fails_leaves_what_was_there_and_can_be_run_again(
    url: str, rows_of: Callable[[Path], list[tuple[str, str, float | None]]], tmp_path: Path
) -> None:
    place, own = f"{url.format(tmp_path)}#codes", "sqlite://"
    export_to(place, codes("spring", 3), own_database=own)
    before, more = rows_of(tmp_path), codes("spring", 4)
    wide = Export(more.rows.append_column("minimum", pa.nulls(4, pa.float64())), "spring", more.key)
    with pytest.raises(InputError, match=r"table codes: found columns .*expected also minimum.*another table"):
        export_to(place, wide, own_database=own)
    assert rows_of(tmp_path) == before
    assert export_to(place, more, own_database=own)[1]


def test_half_an_export_is_undone(tmp_path: Path) -> None:
    """The second of two rows cannot be written; so the first and the removal of those before are undone."""
    place = f"sqlite:///{tmp_path}/w.db#codes"
    export_to(place, codes("spring", 2), own_database="sqlite://")
    doubled = codes("spring", 3)
    rows = pa.concat_tables([doubled.rows, doubled.rows.slice(0, 1)])
    with pytest.raises(InputError, match=r"w\.db.*UNIQUE.*Nothing was changed; run the command again"):
        export_to(place, Export(rows, "spring", doubled.key), own_database="sqlite://")
    assert [row[1] for row in of_sqlite(tmp_path)] == ["c0", "c1"]


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        (
            "postgresql://user:s3cret@127.0.0.1:9/shop#codes",
            InputError,
            r"\*\*\*@127\.0\.0\.1:9.*run the command again",
        ),
        ("postgresql://user:s3cret@host/shop", UsageError, r"--to: found …@host/shop; expected URL#TABLE"),
        ("codes", UsageError, "expected URL#TABLE"),
        ("duckdb://shop.duckdb#codes", InputError, r"duckdb:///FOLDER/FILE"),
        ("nonsense://x#codes", InputError, "nonsense"),
        ("oracle://user:s3cret@host/x#codes", MissingPartError, "oracledb|cx_Oracle"),
        ("sqlite:////srv/shop/disco.db#codes", InputError, "the shop's own database"),
        ("duckdb:////nowhere/at/all.duckdb#codes", InputError, "run the command again"),
    ],
)
def test_places_that_cannot_be_written_to(place: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        export_to(place, codes("spring", 1), own_database="sqlite:////srv/shop/disco.db")
    assert "s3cret" not in str(caught.value)


def test_the_extra_of_delta_is_named_where_it_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(MissingPartError, match=r"pip install 'disco-codes\[delta\]'"):
        open_tables(f"delta:///{tmp_path}")
    with pytest.raises(MissingPartError, match=r"pip install 'disco-codes\[delta\]'"):
        export_to(f"delta:///{tmp_path}#codes", codes("spring", 1), own_database="sqlite://")


# ---- tables in ----


def test_tables_of_a_duckdb_file(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        made.register("given", ORDERS)
        made.execute("CREATE TABLE fact_order AS SELECT * RENAME (order_id AS id) FROM given")
        made.register("people", CUSTOMERS)
        made.execute("CREATE TABLE customers AS SELECT * FROM people")
    url = f"duckdb:///{tmp_path}/shop.duckdb"
    with open_tables(url) as tables:
        assert tables.names() == ("customers",)
    queries = {"customers": "SELECT * FROM customers", "orders": "SELECT * RENAME (id AS order_id) FROM fact_order"}
    with open_tables(url, queries=queries) as tables:
        assert validate_tables(tables, as_of=date(2026, 3, 1)).problems == ()
        assert tables.scan("orders").to_table()["full_price"].to_pylist() == [12.0, 20.5]
    with open_tables(url, queries={"orders": f"SELECT * FROM '{tmp_path}/other.csv'"}) as tables:
        (tmp_path / "other.csv").write_text("order_id\n1\n")
        with pytest.raises(InputError, match="query of orders"):  # a query reads this file and no others
            tables.scan("orders")


def test_tables_of_a_delta_lake_have_the_version_of_their_first_use(tmp_path: Path) -> None:
    for name, table in {"customers": CUSTOMERS, "orders": ORDERS}.items():
        write_deltalake(tmp_path / "lake" / name, table)
    with open_tables(f"delta:///{tmp_path}/lake") as tables:
        assert tables.names() == ("customers", "orders")
        assert validate_tables(tables, as_of=date(2026, 3, 1)).rows == {"customers": 2, "orders": 2}
        write_deltalake(tmp_path / "lake" / "orders", ORDERS.slice(0, 1), mode="overwrite")
        assert tables.scan("orders").to_table().num_rows == 2
    with pytest.raises(InputError, match="none of our tables"):
        open_tables(f"delta:///{tmp_path}")
    with pytest.raises(InputError, match="no such file"):
        open_tables(f"duckdb:///{tmp_path}/none.duckdb")
