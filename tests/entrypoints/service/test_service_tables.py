"""Tables by the service: checked as `disco validate` does before they replace the old ones; columns and settings."""

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.adapters.config import load_settings
from disco.office.settings.file import change_settings
from disco.records.errors import InputError, PlanError, StateError

API = "/api/v1"
PARQUET, CSV = {"content-type": "application/vnd.apache.parquet"}, {"content-type": "text/csv"}


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_the_tables_and_their_columns(reader: TestClient) -> None:
    found = {one["name"]: one for one in reader.get(f"{API}/tables").json()["items"]}
    assert found["orders"]["present"] is True
    assert found["orders"]["source"] == "orders.parquet"
    assert found["outcomes"]["present"] is False
    orders = reader.get(f"{API}/tables/orders").json()
    assert orders == found["orders"]
    assert orders["rows"] > 1000
    columns = {one["name"]: one for one in orders["columns"]}
    assert columns["full_price"] == columns["full_price"] | {"found_as": "full_price", "required": True}
    assert reader.get(f"{API}/tables/nothing").status_code == 404
    assert reader.get(f"{API}/tables/..%2f..%2fetc").status_code == 404


def test_a_table_is_replaced_whole_or_not_at_all(client: TestClient, shop: Path) -> None:
    old = pq.read_table(shop / "data" / "orders.parquet")
    fewer = old.slice(0, old.num_rows - 5)
    answer = client.put(f"{API}/tables/orders", content=parquet(fewer), headers=PARQUET)
    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == fewer.num_rows
    assert pq.read_table(shop / "data" / "orders.parquet").num_rows == fewer.num_rows
    before = (shop / "data" / "orders.parquet").read_bytes()
    twice = pa.concat_tables([fewer, fewer.slice(0, 1)])
    refused = client.put(f"{API}/tables/orders", content=parquet(twice), headers=PARQUET)
    assert refused.status_code == 422
    problem = refused.json()
    assert problem["type"] == "urn:disco:problem:table"
    assert problem["errors"][0]["column"] == "order_id"
    assert str(shop) not in problem["detail"]
    for content, kind in ((b"no parquet", PARQUET), (b"", PARQUET), (b"\x00\xff", CSV), (b"a,b\n1\n", CSV)):
        assert client.put(f"{API}/tables/orders", content=content, headers=kind).status_code in (400, 422)
    assert (shop / "data" / "orders.parquet").read_bytes() == before
    assert not list((shop / "data").glob(".disco-*"))


def test_a_csv_file_takes_the_place_of_a_parquet_file(client: TestClient, shop: Path) -> None:
    text = io.BytesIO()
    pacsv.write_csv(pq.read_table(shop / "data" / "returns.parquet"), text)
    answer = client.put(f"{API}/tables/returns", content=text.getvalue(), headers=CSV)
    assert answer.status_code == 200, answer.text
    assert answer.json()["source"] == "returns.csv"
    assert (shop / "data" / "returns.csv").is_file()
    assert not (shop / "data" / "returns.parquet").exists()


def test_a_table_can_be_pointed_to_below_the_folder_of_the_tables_alone(
    client: TestClient, shop: Path, tmp_path: Path
) -> None:
    (shop / "data" / "exports").mkdir()
    (shop / "data" / "returns.parquet").rename(shop / "data" / "exports" / "r.parquet")
    (tmp_path / "outside.parquet").write_bytes((shop / "data" / "exports" / "r.parquet").read_bytes())
    (shop / "r.parquet").write_bytes((shop / "data" / "exports" / "r.parquet").read_bytes())
    (shop / "data" / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    for wrong in (
        "../outside.parquet",
        str(tmp_path / "outside.parquet"),
        "data/link.parquet",
        "r.parquet",
        "data/exports",
        "disco.db",
        "/etc/passwd",
    ):
        assert client.put(f"{API}/tables/returns", json={"file": wrong}).status_code == 422, wrong
    for wrong_body in ({}, {"file": "a.csv", "query": "SELECT 1"}, {"file": 1}, [], {"other": 1}):
        assert client.put(f"{API}/tables/returns", json=wrong_body).status_code == 422, wrong_body
    assert client.put(f"{API}/tables/returns", json={"query": "SELECT 1"}).status_code == 409
    assert not (shop / "data" / "returns.parquet").exists()
    answer = client.put(f"{API}/tables/returns", json={"file": "data/exports/r.parquet"})
    assert answer.status_code == 200, answer.text
    assert (shop / "data" / "returns.parquet").is_file()


def test_columns_are_mapped_in_the_settings_which_keep_their_comments(client: TestClient, shop: Path) -> None:
    (shop / "disco.yaml").write_text("# ours\ncurrency: GBP  # pounds\n\n# the model\nmodel:\n  forgetting: 1\n")
    answer = client.put(f"{API}/tables/site/columns", json={"visits": "Besuche"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["warnings"]  # the file has no such column yet
    text = (shop / "disco.yaml").read_text()
    assert text.startswith("# ours\ncurrency: GBP  # pounds\n\n# the model\nmodel:\n  forgetting: 1\n")
    assert load_settings(shop).columns == {"site": {"visits": "Besuche"}}
    refused = client.put(f"{API}/tables/site/columns", json={"besuche": "visits"})
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:disco:problem:plan"
    assert (shop / "disco.yaml").read_text() == text
    assert client.put(f"{API}/tables/site/columns", json={}).status_code == 200
    assert load_settings(shop).columns == {}


def test_single_settings_change_and_the_rest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "disco.yaml"
    before = '# top\ndata: tables\ncsv: {decimal: ","}  # german\nmodel:\n  forgetting: 0.9\n  # inside\n\n# last\n'
    before += "threads: 2\n"
    file.write_text(before)
    assert change_settings(tmp_path, {"csv": {"decimal": "."}}).csv.decimal == "."
    assert file.read_text() == before.replace('csv: {decimal: ","}  # german\n', "csv:\n  decimal: .\n")
    change_settings(tmp_path, {"model": {"forgetting": 0.5}, "threads": None})
    text = file.read_text()
    assert "# top\ndata: tables\n" in text
    assert "# last\n" in text
    assert load_settings(tmp_path).model.forgetting == 0.5
    assert load_settings(tmp_path).threads is None
    for wrong, kind in (({"database_url": "sqlite:///x"}, InputError), ({"currency": "XYZW"}, PlanError)):
        with pytest.raises(kind):
            change_settings(tmp_path, wrong)
    monkeypatch.setenv("DISCO_CURRENCY", "EUR")
    with pytest.raises(StateError, match="DISCO_CURRENCY"):
        change_settings(tmp_path, {"currency": "USD"})
    assert file.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "{currency: EUR, time_zone: Europe/Berlin}\n",
        "{time_zone: Europe/Berlin}\n",
        "time_zone: Europe/Berlin\n...\n",
        "currency: [EUR\n",
        "csv: &same {decimal: ','}\ncurrency: EUR\nengagement: *same\n---\nthreads: 2\n",
        "? currency\n: EUR\n",
    ],
)
def test_a_file_in_another_form_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "disco.yaml").write_text(text)
    with pytest.raises(StateError, match=r"^disco.yaml .* Whoever runs the service"):
        change_settings(tmp_path, {"currency": "USD"})
    assert (tmp_path / "disco.yaml").read_text() == text


@pytest.mark.parametrize("style", [">", "|-", ">+"])
def test_a_value_of_several_lines_ends_before_the_next_key(tmp_path: Path, style: str) -> None:
    (tmp_path / "disco.yaml").write_text(f"currency: {style}\n  EUR\n\n# where\ntime_zone: Europe/Berlin\n")
    change_settings(tmp_path, {"currency": "USD"})
    assert (tmp_path / "disco.yaml").read_text() == "currency: USD\n\n# where\ntime_zone: Europe/Berlin\n"


@pytest.mark.parametrize(
    "name", ["a\u2028b: c", "a\x85b", "x\n\ncurrency: USD #", "\ufeffb", "&a *a", "!!python/none", "'\"", "- "]
)
def test_a_name_of_a_column_is_nothing_but_a_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "disco.yaml").write_text("currency: EUR\n")
    wanted = {"orders": {"full_price": name}}
    assert change_settings(tmp_path, {"columns": wanted}).columns == wanted
    assert load_settings(tmp_path).columns == wanted
    assert load_settings(tmp_path).currency == "EUR"


def test_a_table_of_a_database_is_a_query_that_only_reads(client: TestClient, shop: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "warehouse.db")) as warehouse, warehouse:
        warehouse.execute("CREATE TABLE people (id TEXT, since TEXT)")
        warehouse.executemany("INSERT INTO people VALUES (?, '2025-01-01')", [("c1",), ("c2",)])
    (shop / "disco.yaml").write_text(f"data: sqlite:///{tmp_path / 'warehouse.db'}\n")
    for wrong in (
        *(
            "   ",
            "\n\t",
            "DELETE FROM people",
            "SELECT id FROM people; DROP TABLE people",
            "SELECT nothing FROM nowhere",
        ),
        *(
            "SELECT id AS customer_id FROM people",
            "WITH p AS (SELECT 1) DELETE FROM people",
            "SELECT :x AS customer_id",
        ),
    ):
        answer = client.put(f"{API}/tables/customers", json={"query": wrong})
        assert answer.status_code == 422, (wrong, answer.text)
    assert load_settings(shop).queries is None
    query = "SELECT id AS customer_id, since AS joined_on FROM people"
    answer = client.put(f"{API}/tables/customers", json={"query": query})
    assert answer.status_code == 200, answer.text
    assert answer.json()["present"]
    assert load_settings(shop).queries == {"customers": query}
    assert client.put(f"{API}/tables/customers", content=b"customer_id\n", headers=CSV).status_code == 409
    with closing(sqlite3.connect(tmp_path / "warehouse.db")) as warehouse:
        assert warehouse.execute("SELECT count(*) FROM people").fetchone() == (2,)


def test_only_an_administrator_sets_a_query(client: TestClient) -> None:
    key = client.post(f"{API}/keys", json={"name": "crm", "role": "planner"}).json()["key"]
    planner = {"authorization": f"Bearer {key}"}
    refused = client.put(f"{API}/tables/customers", json={"query": "SELECT 1"}, headers=planner)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:disco:problem:role")
    large = client.put(f"{API}/tables/customers", json={"file": "x" * 1_100_000}, headers=planner)
    assert large.status_code == 413, "JSON is read into memory"


def test_settings_that_cannot_be_used_leave_the_ones_before(client: TestClient, shop: Path) -> None:
    before = client.get(f"{API}/campaigns")
    assert before.status_code == 200
    for wrong in ("database_url: nonsense://x\n", "currency: [EUR\n", "currency: XYZW\n"):
        (shop / "disco.yaml").write_text(wrong)
        answer = client.get(f"{API}/campaigns")
        assert (answer.status_code, answer.json()) == (200, before.json()), wrong
