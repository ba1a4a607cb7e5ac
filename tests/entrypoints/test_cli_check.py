"""`disco check` from outside: what it looks at by itself, what it is told to look at, and its exit codes."""

import datetime as dt
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CUSTOMERS, ORDERS = 1500, 12_000


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A shop with orders of a year and a half, and nothing else."""
    shop = tmp_path_factory.mktemp("shop")
    (shop / "data").mkdir()
    rng = np.random.default_rng(0)
    full = np.exp(rng.normal(4, 0.6, ORDERS)).round(2)
    customers = {"customer_id": np.arange(CUSTOMERS), "joined_on": pa.array([dt.date(2024, 5, 1)] * CUSTOMERS)}
    pq.write_table(pa.table(customers), shop / "data" / "customers.parquet")
    orders = {
        "order_id": np.arange(ORDERS),
        "customer_id": rng.integers(0, CUSTOMERS, ORDERS),
        "ordered_at": np.datetime64("2025-01-01", "us") + (rng.uniform(0, 546, ORDERS) * 86_400e6).astype("m8[us]"),
        "full_price": full,
        "paid": full,
        "items": rng.integers(1, 5, ORDERS),
        "code": pa.nulls(ORDERS, pa.string()),
    }
    pq.write_table(pa.table(orders), shop / "data" / "orders.parquet")
    return shop


@pytest.fixture
def shop(made, tmp_path, disco):
    """A copy with a network trained on the spring's orders."""
    folder = tmp_path / "shop"
    shutil.copytree(made, folder)
    place = ("--tables", folder / "data", "-o", folder / "context.safetensors")
    disco("train", "context", *place, "--window-start", "2026-03-01", "--max-epochs", 1, "--quiet")
    return folder


def test_a_shop_is_checked_as_it_stands(disco, shop):
    code, out, _ = disco("check", "--shop", shop, "--json")
    said = json.loads(out)
    assert (code, said["failed"]) == (0, False)
    assert said["customers"] == CUSTOMERS
    assert said["counts"]["failed"] == 0
    assert {one["check"] for one in said["diagnoses"]} >= {"drift", "range", "clipped", "dead units", "schema", "unit"}
    assert any("site" in warning for warning in said["warnings"])  # absent now as it was in training: no failure
    code, out, _ = disco("check", "--shop", shop)
    assert code == 0
    assert "The check passed" in out
    assert disco("check", "--shop", shop, "--quiet")[:2] == (0, "")


def test_prices_in_pence_end_with_one_and_name_the_features(disco, shop):
    orders = pq.read_table(shop / "data" / "orders.parquet")
    for name in ("full_price", "paid"):
        place = orders.column_names.index(name)
        orders = orders.set_column(place, name, pa.array(orders[name].to_numpy() * 100))
    pq.write_table(orders, shop / "data" / "orders.parquet")
    code, out, _ = disco("check", "--shop", shop, "--json")
    said = json.loads(out)
    assert (code, said["failed"]) == (1, True)
    units = {one["where"] for one in said["diagnoses"] if one["check"] == "unit" and one["outcome"] == "failed"}
    assert {"spend_365d", "paid_365d", "basket_mean_365d"} <= units
    code, out, _ = disco("check", "--shop", shop)
    assert code == 1
    assert "Convert the column back" in " ".join(out.split())


def test_a_file_of_features_and_a_network_need_no_shop(disco, shop, tmp_path):
    built = tmp_path / "features.parquet"
    disco("features", shop / "data", "--as-of", "2026-06-01", "-o", built, "--quiet")
    both = ("--network", shop / "context.safetensors", "--features", built)
    code, out, _ = disco("check", *both, "--shop", tmp_path / "nowhere", "--json")
    assert (code, json.loads(out)["failed"]) == (0, False)
    by_date = json.loads(disco("check", "--shop", shop, "--as-of", "2026-06-01", "--json")[1])
    assert by_date["diagnoses"] == json.loads(out)["diagnoses"]
    pq.write_table(pq.read_table(built).drop_columns(["spend_90d"]), built)
    code, out, _ = disco("check", *both, "--json")
    assert code == 1
    assert json.loads(out)["diagnoses"][0]["where"] == "spend_90d"


def test_a_file_of_features_without_rows_fails_in_words(disco, shop, tmp_path):
    built = tmp_path / "features.parquet"
    disco("features", shop / "data", "--as-of", "2026-06-01", "-o", built, "--quiet")
    pq.write_table(pq.read_table(built).slice(0, 0), built)
    code, out, _ = disco("check", "--network", shop / "context.safetensors", "--features", built)
    assert code == 1
    assert "0 of 0 customers with a purchase" in " ".join(out.split())


def test_what_cannot_be_checked_is_refused_by_name(disco, shop, tmp_path):
    network = ("--network", shop / "context.safetensors")
    for words, exit_code, message in (
        (("--shop", tmp_path / "nowhere"), 1, "no such folder"),
        (("--shop", tmp_path), 1, "context.safetensors: found no such file"),
        ((*network, "--features", tmp_path / "none.parquet"), 1, "no such file"),
        ((*network, "--features", shop / "context.safetensors"), 1, "a complete Parquet file"),
        ((*network, "--features", tmp_path / "x", "--as-of", "2026-06-01"), 2, "cannot be combined"),
        ((*network, "--as-of", "June"), 2, "--as-of"),
        (("--network", shop / "data" / "orders.parquet", "--shop", shop), 1, "undamaged file"),
    ):
        code, out, err = disco("check", *words)
        assert (code, out) == (exit_code, ""), words
        assert message in " ".join(err.split())
    (shop / "data" / "orders.parquet").unlink()
    code, _, err = disco("check", "--shop", shop)
    assert code == 1
    assert "a table orders" in err
