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
    assert context.shape == (300, 6)


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
