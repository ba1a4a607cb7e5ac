"""A shop whose work runs on Spark: train, learn again and plan leave the same bytes as on this machine."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from spark_cluster import spark_engine

from disco.adapters.engines import LocalEngine
from disco.entrypoints.python import Shop, tables_opener
from disco.features import ContextNetwork
from disco.operations.contexts import EmbeddedGroup, EmbeddedRows
from disco.operations.training import train_context
from disco.records.arrow_tables import content_hash

NOW = datetime(2025, 10, 1, 8, tzinfo=UTC)


@pytest.fixture(params=["threads", "spark"])
def engine(request):
    if request.param == "threads":
        yield LocalEngine(threads=2)
        return
    with spark_engine() as started:
        yield started


def life(folder: Path, engine) -> dict[str, object]:
    """A new network, all campaigns learned again under it, and a plan: everything that was written."""
    shop = Shop.open(folder, now=NOW, engine=engine)
    trained = train_context(
        ContextNetwork(max_epochs=1, seed=3),
        tables_opener(folder),
        out=folder / "context.safetensors",
        tables=str(folder / "data"),
        window_start=date(2025, 5, 1),
        cluster=shop.cluster_engine,
    )
    learned = shop.rebuild(as_of=date(2025, 10, 3))
    planned = shop.plan(folder / "second.yaml")
    return {
        "network": (folder / "context.safetensors").read_bytes(),
        "rows": (trained.codes, trained.validation_mse, trained.test),
        "version": (learned.version, learned.belief.basket.hash, learned.campaigns),
        "plan": (planned.plan_id, dict(planned.inputs), planned.value, planned.total),
        "decisions": content_hash(planned.planned.decisions),
        "files": sorted(path.name for path in shop.artefacts.rglob("*") if path.is_file()),
    }


@pytest.fixture(scope="module")
def expected(learned_shop, tmp_path_factory):
    """What is written without an engine."""
    return life(Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("local") / "shop")), None)


def test_the_engine_changes_no_byte(learned_shop, expected, tmp_path, monkeypatch, engine):
    def not_here(*given):
        raise AssertionError("this process embedded customers")

    if not isinstance(engine, LocalEngine):  # executors have the module from its file
        monkeypatch.setattr(EmbeddedGroup, "__call__", not_here)
        monkeypatch.setattr(EmbeddedGroup, "of", not_here)
        monkeypatch.setattr(EmbeddedRows, "__call__", not_here)
    assert life(Path(shutil.copytree(learned_shop, tmp_path / "spread")), engine) == expected


def test_a_file_that_executors_do_not_see_is_embedded_here(learned_shop, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(EmbeddedGroup, "__call__", lambda self, chunk: None)
    assert life(Path(shutil.copytree(learned_shop, tmp_path / "spread")), LocalEngine(threads=2)) == expected


def test_a_slice_of_features_travels_alone():
    from disco.operations.contexts import _sent

    rows = pa.table({"x": list(range(100_000))})
    assert _sent(rows.slice(5, 10)).size < 2_000
