"""`disco features` and `disco train context`, as a user calls them: files, words and exit codes."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from disco.adapters.tables import open_tables
from disco.entrypoints.cli import features, train
from disco.features import ContextNetwork, build_features
from disco.records.errors import InputError, SchemaMismatchError, UsageError

START = "2026-01-01"


@pytest.fixture(scope="module")
def app():
    app = typer.Typer()
    features.register(app)
    train.register(app)
    return app


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Three hundred customers, orders on most days of a year and a half; money as float64."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    moments = np.datetime64("2025-01-01", "us") + (rng.uniform(0, 490, 6000) * 86_400_000_000).astype("m8[us]")
    full = np.exp(rng.normal(4, 0.6, 6000)).round(2)
    pq.write_table(
        pa.table({"customer_id": np.arange(300), "joined_on": pa.array([dt.date(2024, 5, 1)] * 300)}),
        folder / "customers.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "order_id": np.arange(6000),
                "customer_id": rng.integers(0, 300, 6000),
                "ordered_at": moments,
                "full_price": full,
                "paid": full,
                "items": rng.integers(1, 5, 6000),
                "code": pa.nulls(6000, pa.string()),
            }
        ),
        folder / "orders.parquet",
    )
    return folder


def call(app, *words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if code == 0:
        assert result.exception is None, result.output
    else:
        assert result.exit_code == code
    return result


@pytest.fixture(scope="module")
def built(app, shop, tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "features.parquet"
    said = json.loads(call(app, "features", shop, "--as-of", START, "-o", path, "--json").stdout)
    assert said["customers"] == 300
    assert said["features"] == 76
    assert any("site" in warning for warning in said["warnings"])
    return path


def test_the_file_holds_what_build_features_gives(built, shop):
    with pytest.warns(UserWarning, match="missing"):
        expected = build_features(open_tables(shop), as_of=dt.date.fromisoformat(START))
    assert pq.read_table(built).equals(expected)
    assert [path.name for path in built.parent.iterdir()] == [built.name]


def test_a_network_is_trained_from_features_and_used(app, built, tmp_path):
    out = tmp_path / "context.safetensors"
    words = ("train", "context", "--features", built, "--max-epochs", 2, "-o", out, "--json")
    said = json.loads(call(app, *words).stdout)
    assert said["epochs"] == 2
    assert said["test"]["rows"] > 100  # April, the month after the window
    context = ContextNetwork.load(out).transform(pq.read_table(built))
    assert context.shape == (300, 8)  # six learned numbers and two habits


def test_tables_alone_give_the_same_network(app, built, shop, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    call(app, "train", "context", "--features", built, "--max-epochs", 1, "-o", one, "--quiet")
    by_hand = ("--tables", shop, "--window-start", START)
    call(app, "train", "context", *by_hand, "--max-epochs", 1, "-o", two, "--quiet")
    assert one.read_bytes() == two.read_bytes()


def test_rows_with_their_own_target_need_no_tables(app, tmp_path):
    rng = np.random.default_rng(1)
    rows = pa.table({"a": rng.lognormal(size=400), "log_full_price": rng.normal(4, 1, 400)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    out = tmp_path / "context"
    said = call(app, "train", "context", "--features", tmp_path / "rows.parquet", "--max-epochs", 1, "-o", out)
    assert "Trained the context network (level, 6 numbers) for 1 epoch;" in said.stdout
    assert ContextNetwork.load(out).feature_names_in_.tolist() == ["a"]


@pytest.fixture(scope="module")
def shop_with_codes(shop, tmp_path_factory):
    """The same shop, which sent each customer four codes in the window; every third was used."""
    folder = tmp_path_factory.mktemp("codes")
    for name in ("customers", "orders"):
        (folder / f"{name}.parquet").write_bytes((shop / f"{name}.parquet").read_bytes())
    _write_codes(folder, customers=300)
    return folder


def _write_codes(folder, *, customers, redeemed_days=3):
    rows = customers * 4
    sent = np.datetime64(START, "us") + (np.arange(rows) % 40).astype("m8[D]").astype("m8[us]")
    used = np.arange(rows) % 3 == 0
    pq.write_table(
        pa.table(
            {
                "code_id": [f"c{row}" for row in range(rows)],
                "customer_id": np.arange(rows) % customers,
                "campaign_id": ["monthly"] * rows,
                "depth": np.array([0.1, 0.2, 0.3, 0.4])[np.arange(rows) // customers],
                "sent_at": sent,
                "redeemed_at": pa.array(sent + np.timedelta64(redeemed_days, "D"), pa.timestamp("us"), mask=~used),
            }
        ),
        folder / "codes.parquet",
    )


def test_codes_of_the_tables_teach_who_uses_them(app, shop_with_codes, tmp_path):
    tables = ("train", "context", "--tables", shop_with_codes, "--window-start", START, "--max-epochs", 1)
    said = json.loads(call(app, *tables, "-o", tmp_path / "one", "--json").stdout)
    assert said["heads"] == "level+slope+engagement"
    assert said["codes"] > 1000
    assert 0 < said["validation_log_loss"] < 1
    network = ContextNetwork.load(tmp_path / "one")
    assert network.head_.bins.count == 32
    features = tmp_path / "features.parquet"
    call(app, "features", shop_with_codes, "--as-of", START, "-o", features, "--quiet")
    call(app, "train", "context", "--features", features, "--max-epochs", 1, "-o", tmp_path / "two", "--quiet")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    # contexts of the day of training are those of training: nothing is left to centre
    table = pq.read_table(features)
    assert (network.transform(table) == network.transform(table.replace_schema_metadata(None))).all()
    text = call(app, *tables, "--heads", "level+slope+engagement", "-o", tmp_path / "three").stdout
    assert "It learned who uses a code from 1," in text


def test_codes_that_take_longer_than_they_have_count_as_unused(app, shop_with_codes, tmp_path):
    tables = ("train", "context", "--tables", shop_with_codes, "--window-start", START, "--max-epochs", 1)
    said = json.loads(call(app, *tables, "--maturity-days", 2, "-o", tmp_path / "c", "--json").stdout)
    assert said["heads"] == "level+slope"
    assert any("0 of them used" in warning for warning in said["warnings"])


def test_a_shop_without_codes_is_told_what_its_network_cannot_do(app, built, tmp_path):
    said = json.loads(
        call(app, "train", "context", "--features", built, "--max-epochs", 1, "-o", tmp_path / "c", "--json").stdout
    )
    assert (said["heads"], said["codes"], said["validation_log_loss"]) == ("level+slope", 0, None)
    assert any('no codes, so the network was fitted with heads="level+slope"' in text for text in said["warnings"])


def test_a_code_redeemed_before_it_was_sent_leaves_no_network(app, shop, tmp_path):
    folder, out = tmp_path / "data", tmp_path / "context"
    folder.mkdir()
    for name in ("customers", "orders"):
        (folder / f"{name}.parquet").write_bytes((shop / f"{name}.parquet").read_bytes())
    _write_codes(folder, customers=300, redeemed_days=-1)
    failed = call(app, "train", "context", "--tables", folder, "--window-start", START, "-o", out, code=1)
    assert "redeemed_at" in str(failed.exception)
    assert not out.exists()


def test_too_little_depth_is_said_in_a_warning_and_not_fatal(app, built, tmp_path):
    words = ("--features", built, "--max-epochs", 1, "--heads", "level+slope", "-o", tmp_path / "c")
    assert "hardly vary" in call(app, "train", "context", *words).stderr


def test_wrong_usage_ends_with_two(app, shop, built, tmp_path):
    call(app, "features", shop, "-o", tmp_path / "f.parquet", code=2)
    call(app, "train", "context", "--features", built, "--seed", "-1", code=2)
    call(app, "features", shop, "--as-of", "1 March", "-o", tmp_path / "f.parquet", code=2)
    assert isinstance(call(app, "train", "context", code=1).exception, UsageError)
    dated = ("--features", built, "--window-start", "2025-12-01")
    assert isinstance(call(app, "train", "context", *dated, code=1).exception, UsageError)
    for wrong in (("--heads", "slope"), ("--device", "tpu")):
        assert isinstance(call(app, "train", "context", "--features", built, *wrong, code=1).exception, UsageError)
    large = ("--as-of", START, "-o", tmp_path / "f.parquet", "--memory-limit", "plenty")
    assert isinstance(call(app, "features", shop, *large, code=1).exception, UsageError)


def test_refused_input_names_itself_and_leaves_no_file(app, shop, built, tmp_path):
    def refused(*words):
        result = call(app, *words, "-o", tmp_path / "out" / "file" if "nowhere" in words else tmp_path / "file", code=1)
        assert isinstance(result.exception, InputError | SchemaMismatchError)
        assert list(tmp_path.iterdir()) == []
        return str(result.exception)

    assert "no such folder" in refused("features", tmp_path / "absent", "--as-of", START)
    assert "no such file" in refused("train", "context", "--features", tmp_path / "absent.parquet")
    assert "no orders" in refused("train", "context", "--tables", shop, "--window-start", "2030-01-01")
    assert "heads" in refused("train", "context", "--features", built, "--heads", "slope")
    assert "--as-of" in refused("features", shop, "--as-of", "1900-01-01")  # nobody had joined by then
    assert "as-of date" in refused("train", "context", "--features", shop / "orders.parquet")
    gone = ("--features", built, "--tables", tmp_path / "absent")
    assert "no such folder" in refused("train", "context", *gone)


def test_a_broken_table_leaves_the_old_file(app, shop, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in shop.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    orders = pq.read_table(shop / "orders.parquet")
    prices = orders["full_price"].to_numpy().copy()
    prices[np.argmax(orders["ordered_at"].to_numpy() < np.datetime64(START))] = np.nan
    pq.write_table(orders.set_column(3, "full_price", pa.array(prices)), broken / "orders.parquet")
    out = tmp_path / "features.parquet"
    out.write_bytes(b"old")
    result = call(app, "features", broken, "--as-of", START, "-o", out, code=1)
    assert "orders.parquet, column full_price" in str(result.exception)
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "features.parquet"]


def test_a_shop_may_choose_its_features(app, shop, tmp_path):
    choice = tmp_path / "features.yaml"
    choice.write_text(
        "drop: [saves_365d]\nadd:\n"
        "  - {name: own, group: purchases, formula: orders_365 / items_365, meaning: orders per item, unit: ratio}\n"
    )
    built, one, two = tmp_path / "features.parquet", tmp_path / "one", tmp_path / "two"
    call(app, "features", shop, "--as-of", START, "-o", built, "--catalogue", choice, "--quiet")
    columns = pq.read_schema(built).names
    assert "own" in columns
    assert "saves_365d" not in columns
    call(app, "train", "context", "--features", built, "--max-epochs", 1, "-o", one, "--quiet")
    by_hand = ("--tables", shop, "--window-start", START, "--catalogue", choice)
    call(app, "train", "context", *by_hand, "--max-epochs", 1, "-o", two, "--quiet")
    assert one.read_bytes() == two.read_bytes()
    assert ContextNetwork.load(one).catalogue_[-1].name == "own"
    both = call(app, "train", "context", "--features", built, "--catalogue", choice, code=1)
    assert isinstance(both.exception, UsageError)
    choice.write_text("drop: [nothing]")
    wrong = call(app, "features", shop, "--as-of", START, "-o", built, "--catalogue", choice, code=1)
    assert "'nothing'" in str(wrong.exception)


@pytest.mark.parametrize("words", [("features",), ("train", "context")])
def test_help_ends_with_an_example(app, words):
    text = " ".join(call(app, *words, "--help").stdout.split())
    assert f"Example: disco {' '.join(words)} " in text
    assert "--json" in text
    assert "--quiet" in text
