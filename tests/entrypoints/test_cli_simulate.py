"""`disco simulate` and `disco respond`: the promised files, once only, and clear refusals that change nothing."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from disco.records.tables import SCHEMAS
from disco.retailer import RetailerSettings
from disco.retailer.settings import Curves, Shape

Disco = Callable[..., tuple[int, str, str]]


def _codes(count: int = 200) -> pa.Table:
    return pa.table(
        {
            "code_id": [f"x{i}" for i in range(count)],
            "customer_id": [f"c{i:07d}" for i in range(count)],
            "campaign_id": ["spring"] * count,
            "depth": [(0.2, 0.4)[i % 2] for i in range(count)],
            "sent_at": pa.array([datetime(2025, 9, 9, 8)] * count, pa.timestamp("us")),
        }
    )


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def shop(disco: Disco, tmp_path: Path) -> Path:
    assert disco("simulate", "--customers", 300, "--seed", 7, "-o", tmp_path / "shop", "--quiet") == (0, "", "")
    return tmp_path / "shop"


def test_simulate_writes_the_tables_and_says_so(disco: Disco, tmp_path: Path) -> None:
    code, out, _ = disco("simulate", "--customers", 300, "--seed", 7, "-o", tmp_path / "one", "--json")
    assert code == 0
    said = json.loads(out)
    tables = {path.stem: path for path in (tmp_path / "one").glob("*.parquet")}
    assert {name: said[name] for name in ("folder", "customers", "seed", "today")} == {
        "folder": str(tmp_path / "one"),
        "customers": 300,
        "seed": 7,
        "today": "2025-09-01",
    }
    assert said["rows"] == {name: pq.read_metadata(path).num_rows for name, path in tables.items()}
    assert said["written_bytes"] == sum(path.stat().st_size for path in tables.values())
    assert said["seconds"] > 0
    assert 10e6 < said["peak_memory_bytes"] < 100e9
    assert disco("simulate", "--customers", 300, "--seed", 7, "-o", tmp_path / "two")[0] == 0
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    assert pq.read_metadata(tmp_path / "one" / "customers.parquet").num_rows == 300


def test_simulated_tables_take_the_place_of_the_examples_and_of_nothing_else(disco: Disco, tmp_path: Path) -> None:
    data = tmp_path / "shop" / "data"
    simulate = ("simulate", "--customers", 300, "-o", data)
    assert disco("init", tmp_path / "shop")[0] == 0
    own = (data / "orders.csv").read_text() + "\n"
    (data / "orders.csv").write_text(own)
    before = _bytes(data)
    code, _, err = disco(*simulate)
    assert (code, "orders.csv" in err) == (1, True)
    assert _bytes(data) == before
    (data / "orders.csv").unlink()
    assert disco(*simulate)[0] == 0
    assert disco("validate", data)[0] == 0
    assert not list(data.glob("*.csv"))


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("label", [form for name in SCHEMAS for form in (f"{name}.parquet", name, f"{name}.csv")])
def test_a_table_of_ones_own_is_refused_and_left_as_it_is(
    disco: Disco, tmp_path: Path, label: str, overwrite: tuple[str, ...]
) -> None:
    data = tmp_path / "shop" / "data"
    assert disco("init", tmp_path / "shop")[0] == 0
    own = data / label if "." in label else data / label / "part-1.parquet"
    own.parent.mkdir(exist_ok=True)
    own.write_bytes(b"our own rows")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    code, said, err = disco("simulate", "--customers", 100, "--seed", 1, "-o", data, *overwrite)
    assert (code, said) == (1, "")
    assert f"{data / label} is a table of your own" in err
    assert "move the table away" in err
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_link_to_a_table_is_a_table_wherever_it_leads(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.parquet").symlink_to(tmp_path / "away" / "orders.parquet")  # unmounted, perhaps
    code, _, err = disco("simulate", "--customers", 100, "-o", tmp_path / "data")
    assert (code, "a table of your own" in err) == (1, True)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["orders.parquet"]


def test_overwriting_a_simulated_retailer_keeps_what_was_never_simulated(disco: Disco, shop: Path) -> None:
    again = ("simulate", "--customers", 10, "-o", shop, "--overwrite")
    (shop / "outcomes.csv").write_text("our own outcomes")
    assert disco(*again)[0] == 0
    assert (shop / "outcomes.csv").read_text() == "our own outcomes"
    (shop / "orders").mkdir()
    (shop / "orders" / "part-1.parquet").write_bytes(b"our own rows")
    before = (shop / "orders.parquet").read_bytes()
    code, _, err = disco(*again)
    assert (code, f"{shop / 'orders'} is a table of your own" in err) == (1, True)
    assert (shop / "orders.parquet").read_bytes() == before
    assert (shop / "orders" / "part-1.parquet").read_bytes() == b"our own rows"


@pytest.mark.parametrize("content", ['{"name": "our retailer"}', "[]", "no JSON"])
def test_a_retailer_json_of_another_program_does_not_open_the_folder(
    disco: Disco, tmp_path: Path, content: str
) -> None:
    (tmp_path / "retailer.json").write_text(content)
    (tmp_path / "orders.parquet").write_bytes(b"our own rows")
    before = _bytes(tmp_path)
    for options in ((), ("--overwrite",)):
        code, _, err = disco("simulate", "--customers", 10, "-o", tmp_path, *options)
        assert (code, "retailer.json was not written by disco simulate" in err) == (1, True)
        assert _bytes(tmp_path) == before


def test_simulated_tables_do_not_land_among_artefacts(disco: Disco, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    assert disco("init", shop)[0] == 0
    (shop / "artefacts").mkdir()
    code, _, err = disco("simulate", "--customers", 10, "-o", shop / "artefacts")
    assert (code, "the shop's folder of artefacts" in err) == (1, True)
    assert not list((shop / "artefacts").iterdir())


def test_simulate_reads_settings_and_lets_options_override_them(disco: Disco, tmp_path: Path) -> None:
    settings = RetailerSettings(customers=50, seed=1, curves=Curves(shape=Shape.THRESHOLD))
    (tmp_path / "s.json").write_text(settings.to_json())
    assert disco("simulate", "--settings", tmp_path / "s.json", "--seed", 9, "-o", tmp_path / "shop")[0] == 0
    kept = json.loads((tmp_path / "shop" / "retailer.json").read_text())["settings"]
    assert (kept["customers"], kept["seed"], kept["curves"]["shape"]) == (50, 9, "threshold")


def test_simulate_replaces_a_shop_only_when_told(disco: Disco, shop: Path) -> None:
    before = _bytes(shop)
    code, _, err = disco("simulate", "--customers", 10, "-o", shop)
    assert code == 1
    assert "--overwrite" in err
    assert _bytes(shop) == before
    assert disco("simulate", "--customers", 10, "-o", shop, "--overwrite")[0] == 0
    assert pq.read_metadata(shop / "customers.parquet").num_rows == 10


@pytest.mark.parametrize("customers", [0, -5, 10_000_001])
def test_simulate_refuses_sizes_and_writes_nothing(disco: Disco, tmp_path: Path, customers: int) -> None:
    code, _, err = disco("simulate", "--customers", customers, "-o", tmp_path / "shop")
    assert code == 1
    assert f"found {customers}" in err
    assert not (tmp_path / "shop").exists()


def test_simulate_refuses_a_file_where_a_folder_should_be(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "shop"):
        code, _, err = disco("simulate", "--customers", 10, "-o", folder)
        assert code == 1
        assert str(folder) in err


def test_respond_answers_appends_and_refuses_a_second_time(disco: Disco, shop: Path, tmp_path: Path) -> None:
    pq.write_table(_codes(), tmp_path / "codes.parquet")
    before = {
        name: pq.read_metadata(shop / f"{name}.parquet").num_rows for name in ("orders", "returns", "codes", "site")
    }
    code, out, _ = disco("respond", shop, tmp_path / "codes.parquet", "-o", tmp_path / "outcomes.parquet", "--json")
    assert code == 0
    told = json.loads(out)
    outcomes = pq.read_table(tmp_path / "outcomes.parquet")
    assert told["purchases"] == outcomes.num_rows > 10
    after = {name: pq.read_metadata(shop / f"{name}.parquet").num_rows for name in before}
    assert {name: after[name] - before[name] for name in before} == told["appended"]
    held = _bytes(shop)
    code, _, err = disco("respond", shop, tmp_path / "codes.parquet", "-o", tmp_path / "again.parquet")
    assert code == 1
    assert "2025-09-12" in err
    assert _bytes(shop) == held
    assert not (tmp_path / "again.parquet").exists()


def test_respond_reads_csv_with_a_byte_order_mark(disco: Disco, shop: Path, tmp_path: Path) -> None:
    pq.write_table(_codes(), tmp_path / "codes.parquet")
    pyarrow.csv.write_csv(_codes(), tmp_path / "plain.csv")
    (tmp_path / "codes.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "plain.csv").read_bytes())
    assert disco("simulate", "--customers", 300, "--seed", 7, "-o", tmp_path / "other", "--quiet")[0] == 0
    assert disco("respond", shop, tmp_path / "codes.parquet", "-o", tmp_path / "a.parquet")[0] == 0
    assert disco("respond", tmp_path / "other", tmp_path / "codes.csv", "-o", tmp_path / "b.parquet")[0] == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_respond_refuses_bad_input_without_a_trace(disco: Disco, shop: Path, tmp_path: Path) -> None:
    held = _bytes(shop)
    pq.write_table(_codes(), tmp_path / "codes.parquet")
    deep = _codes().set_column(3, "depth", pa.array([20.0] * 200))
    pq.write_table(deep, tmp_path / "deep.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 but no more")
    good, out = tmp_path / "codes.parquet", tmp_path / "outcomes.parquet"
    for folder, codes, where, named in (
        (tmp_path / "nowhere", good, out, "nowhere"),
        (shop, tmp_path / "absent.parquet", out, "absent.parquet"),
        (shop, tmp_path / "damaged.parquet", out, "damaged.parquet"),
        (shop, tmp_path / "deep.parquet", out, "0.20 for 20% off"),
        (shop, good, tmp_path, "a folder"),
        (shop, good, good, "is an input of this command"),
        (shop, good, shop / "orders.parquet", "the folder of tables that this command reads"),
        (shop, good, shop / "new.parquet", "the folder of tables that this command reads"),
        (shop, good, tmp_path / "no" / "outcomes.parquet", "no folder"),
    ):
        code, _, err = disco("respond", folder, codes, "-o", where)
        assert code == 1
        assert named in err
        assert not out.exists()
    assert _bytes(shop) == held


def test_respond_does_not_append_to_a_table_of_ones_own(disco: Disco, shop: Path, tmp_path: Path) -> None:
    pq.write_table(_codes(), tmp_path / "codes.parquet")
    pq.write_table(pa.table({"order_id": ["1"], "till": ["7"]}), shop / "orders.parquet")
    before = _bytes(shop)
    code, _, err = disco("respond", shop, tmp_path / "codes.parquet", "-o", tmp_path / "outcomes.parquet")
    assert (code, "orders.parquet" in err) == (1, True)
    assert _bytes(shop) == before
    assert not (tmp_path / "outcomes.parquet").exists()


def test_settings_that_are_no_text_are_refused(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b"\xff\xfe")
    code, _, err = disco("simulate", "--settings", tmp_path / "settings.json", "-o", tmp_path / "shop")
    assert code == 1
    assert "settings.json" in err
    assert not (tmp_path / "shop").exists()
