"""A context network from features that an engine computed is the same file as one from features of this machine."""

from datetime import date
from pathlib import Path

from disco.adapters.engines import LocalEngine
from disco.adapters.tables import open_tables
from disco.features import ContextNetwork
from disco.operations.training import train_context
from disco.retailer.settings import RetailerSettings
from disco.retailer.simulation import Retailer


def test_an_engine_changes_no_byte_of_the_network(tmp_path: Path) -> None:
    Retailer.simulate(RetailerSettings(customers=300, seed=4)).write(tmp_path / "data")
    trained = {}
    for name, engine in {"this machine": None, "an engine": LocalEngine(threads=2)}.items():
        out = tmp_path / f"{name}.safetensors"
        trained[name] = train_context(
            ContextNetwork(max_epochs=1, dimensions=2, hidden=(8,)),
            open_tables,
            out=out,
            tables=str(tmp_path / "data"),
            window_start=date(2025, 3, 1),
            cluster=engine,
        ).as_dict() | {"file": out.read_bytes()}
    assert trained["an engine"] == trained["this machine"]
