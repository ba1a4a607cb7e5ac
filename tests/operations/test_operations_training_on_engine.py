"""A context network from features that an engine computed is the same file as one from features of this machine."""

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from disco.adapters.engines import LocalEngine
from disco.adapters.tables import open_tables
from disco.features import ContextNetwork
from disco.features.builder import FeatureRequest, build_features
from disco.features.catalogue import FEATURES
from disco.features.on_engine import CustomerSample
from disco.features.training_set import opened_training
from disco.operations.training import train_context
from disco.records.identity import customer_keys
from disco.retailer.settings import RetailerSettings
from disco.retailer.simulation import Retailer

WITHOUT_HISTORY = tuple(feature for feature in FEATURES if feature.name != "orders_365d")[:20]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / "data"
    Retailer.simulate(RetailerSettings(customers=300, seed=4)).write(folder)
    return folder


@pytest.mark.parametrize(
    "asked",
    [{}, {"most_customers": 200}, {"catalogue": WITHOUT_HISTORY}],
    ids=["everybody", "a sample", "without the feature of history"],
)
def test_an_engine_changes_no_byte_of_the_network(data: Path, tmp_path: Path, asked: dict) -> None:
    trained = {}
    for name, engine in {"this machine": None, "an engine": LocalEngine(threads=2)}.items():
        out = tmp_path / f"{name}.safetensors"
        trained[name] = train_context(
            ContextNetwork(max_epochs=1, dimensions=2, hidden=(8,)),
            open_tables,
            out=out,
            tables=str(data),
            window_start=date(2025, 3, 1),
            cluster=engine,
            **asked,
        ).as_dict() | {"file": out.read_bytes()}
    assert trained["an engine"] == trained["this machine"]
    assert trained["this machine"]["test"] is not None


def test_those_with_the_smallest_hashes_are_trained_on(data: Path) -> None:
    request = FeatureRequest(as_of=date(2025, 3, 1))

    def ids(most: int) -> set[int]:
        with opened_training(open_tables(data), request, window_end=date(2025, 6, 1), most_customers=most) as training:
            schema, batches = training.orders()
            return set(pa.Table.from_batches(batches, schema)["customer_id"].to_pylist())

    everybody = ids(10_000)
    assert ids(300) == everybody
    some = ids(100)
    joined = build_features(open_tables(data), as_of=date(2025, 3, 1)).num_rows
    assert some == {one for one in everybody if customer_keys([one])[0] < np.uint64((100 << 64) // joined)}
    assert 0 < len(some) < 0.5 * len(everybody)


def test_a_sample_does_not_depend_on_chunks() -> None:
    rows = pa.table({"customer_id": [f"c{number}" for number in range(5000)]})
    sample = CustomerSample(5000, 1000)
    whole = sample(rows)["customer_id"].to_pylist()
    parts = [one for first in range(0, 5000, 37) for one in sample(rows.slice(first, 37))["customer_id"].to_pylist()]
    assert parts == whole
    assert abs(len(whole) - 1000) < 5 * 1000**0.5
    assert CustomerSample(5000, 5000)(rows) is rows
