"""Data: what is there and what is needed, names of columns, files of the shop, checks with row and fix."""

import json
from pathlib import Path

import pytest
from visitors import Browser, Visit, visiting

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.data import TABLES
from disco.office.jobs.use_cases import claim, finish
from disco.records.people import Role

CUSTOMERS = "Kundennummer,joined_on\n1,2024-01-01\n2,2024-02-01\n"


def test_a_newcomer_reads_which_columns_a_table_needs(newcomer: Browser) -> None:
    page = newcomer.get("/data")
    assert "No table is there yet." in page.words
    assert all(f'href="/data/{name}"' in page.text for name in TABLES)
    assert "Check all tables" not in page.words
    page = newcomer.get("/data/customers")
    assert "The table customers is not there yet. It needs the columns customer_id" in page.words
    assert 'data-upload="/api/v1/tables/customers"' in page.text
    assert newcomer.get("/data/nothing").status == 404
    assert "The tables are" in newcomer.get("/data/nothing").words


def test_columns_are_named_and_then_the_file_is_the_table(newcomer: Browser, tmp_path: Path) -> None:
    named = newcomer.send("/data/customers/columns", of_customer_id="Kundennummer", of_joined_on="")
    assert (named.status, named.headers["hx-redirect"]) == (204, "/data/customers")
    assert "were saved" in named.said
    assert 'value="Kundennummer"' in newcomer.get("/data/customers").field("of_customer_id")
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "incoming.csv").write_text(CUSTOMERS)
    placed = newcomer.send("/data/customers/place", file="data/incoming.csv")
    assert placed.status == 204, placed.words
    assert "The table customers was replaced: 2 rows." in placed.said
    page = newcomer.get("/data/customers")
    assert "The table " in page.words
    assert 'value="Kundennummer"' in page.field("of_customer_id")
    assert "customers.csv" in newcomer.get("/data").words
    columns = newcomer.get("/data/customers?table=columns&format=csv").text
    assert "customer_id,Kundennummer,needed" in columns
    back = newcomer.send("/data/customers/columns", of_customer_id="")
    assert back.status == 204
    assert "lacks customer_id" in newcomer.get("/data/customers").words


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("", "expected a file"),
        ("nothing.csv", "a .parquet or .csv file there"),
        ("../../etc/passwd", "below data/"),
        ("x" * 2000, "below data/"),
    ],
)
def test_a_wrong_file_is_answered_beside_the_field(newcomer: Browser, file: str, words: str) -> None:
    answer = newcomer.send("/data/customers/place", file=file)
    assert answer.status == 422
    assert words in answer.error("file")
    assert f'value="{file}"' in answer.field("file")


def test_a_file_with_problems_is_refused_row_by_row(newcomer: Browser, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "bad.csv").write_text("customer_id,joined_on\n1,2024-01-01\n1,<b>soon</b>\n")
    answer = newcomer.send("/data/customers/place", file="data/bad.csv")
    assert answer.status == 422
    assert "what is wrong stands below" in answer.error("file")
    assert "joined_on 3" in answer.words
    assert "<b>soon" in answer.words
    assert "<b>soon" not in answer.text
    assert "not there yet" in newcomer.get("/data/customers").words


@pytest.mark.parametrize("theirs", ["x" * 301, "joined_on"])
def test_a_wrong_name_is_answered_beside_the_column(newcomer: Browser, theirs: str) -> None:
    answer = newcomer.send("/data/customers/columns", of_customer_id=theirs, of_joined_on="joined_on")
    assert answer.status == 422
    assert f'value="{theirs}"' in answer.field("of_customer_id")
    assert "expected" in answer.words
    assert "disco.yaml" not in answer.words or "columns" in answer.words


def test_a_query_needs_a_database_and_an_administrator(tmp_path: Path, visit: Visit) -> None:
    with visit(tmp_path, Role.PLANNER) as planner:
        assert planner.send("/data/customers/place", query="SELECT 1").status == 403
    with visiting(tmp_path) as admin:
        answer = admin.send("/data/customers/place", query="SELECT 1")
        assert answer.status == 422
        assert "there is nothing to query" in answer.words


def test_a_check_is_a_job_whose_findings_stand_at_the_table(browser: Browser, shop: Path) -> None:
    page = browser.get("/data")
    assert "nobody has checked them here yet" in page.words
    asked = browser.send("/data/check", key="once")
    address = asked.headers["hx-redirect"]
    assert address.startswith("/jobs/")
    assert browser.send("/data/check", key="once").headers["hx-redirect"] == address
    here = Shop.open(shop)
    problem = {
        "kind": "range",
        "file": "data/orders.parquet",
        "column": "paid",
        "found": "-3",
        "expected": "0 or more",
        "fix": "Correct it.",
        "row": 5,
        "rows": 2,
    }
    with here.store() as store:
        job = claim(store, worker="w", clock=here.clock)
        assert job is not None
        finish(store, job, json.dumps({"clean": False, "count": 1, "problems": [problem]}), clock=here.clock)
    assert "found 1 problem" in browser.get("/data").words
    orders = browser.get("/data/orders")
    assert "found 1 problem in it." in orders.words
    assert "orders.parquet paid 5 2 -3 0 or more Correct it." in orders.words
    assert "found no problem in it." in browser.get("/data/customers").words


def test_who_only_looks_changes_no_table(shop: Path, visit: Visit) -> None:
    with visit(shop, Role.VIEWER) as viewer:
        page = viewer.get("/data/orders")
        assert "Send the file" not in page.words
        assert "Save the names" not in page.words
        assert "Check all tables" not in viewer.get("/data").words
        assert viewer.send("/data/orders/columns", of_paid="x").status == 403


def test_an_administrator_sees_what_is_kept_about_a_customer(onlooker: Browser, learned_shop: Path) -> None:
    customer = Shop.open(learned_shop).export("first").to_arrow()["customer_id"][0].as_py()
    assert 'href="/access"' in onlooker.get("/data").text
    page = onlooker.get(f"/access?customer={customer}")
    assert f"records about customer {customer}." in page.words
    assert "first decision 1" in page.words
    assert f'href="/api/v1/access?customer={customer}"' in page.text
    assert "0 records about customer nobody." in onlooker.get("/access?customer=nobody").words
