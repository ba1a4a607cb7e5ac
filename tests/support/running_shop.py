"""A small shop whose campaign runs today, and `disco serve` and `disco worker` as processes over it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from made_once import copy_of

from disco.entrypoints.python import Shop
from disco.office.keys.use_cases import create_key
from disco.records.people import Role

CAMPAIGN = "running"
ENTRY = "from disco.entrypoints.cli import command; command()"
_SECONDS = 60


def running_shop(folder: Path, url: str | None, *, customers: int = 400) -> Shop:
    """A shop with one campaign that was launched today and holds codes in reserve.

    url: of its database; None: an SQLite file.
    """
    copy_of(_make_data_and_network, datetime.now(UTC).date(), customers, at=folder)
    settings = {"threads": 1, "service": {"requests_per_second": 1e6}}
    (folder / "disco.yaml").write_text(json.dumps(settings | ({} if url is None else {"database_url": url})))
    shop = Shop.open(folder)
    shop.launch(shop.plan(running_plan(CAMPAIGN)).plan_id)
    shop.contexts(CAMPAIGN)
    return shop


def _make_data_and_network(folder: Path, today: date, customers: int) -> None:
    from disco.adapters.tables import open_tables
    from disco.features import ContextNetwork
    from disco.features.builder import build_features

    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(7)
    ids = np.arange(1, customers + 1)
    joined = np.full(customers, np.datetime64(today - timedelta(days=300)))
    buyers = rng.integers(1, customers + 1, 3 * customers)
    prices = np.round(rng.lognormal(4, 0.5, buyers.size), 2)
    bought = np.datetime64(today - timedelta(days=60)).astype("datetime64[us]")
    orders = {
        "order_id": np.arange(buyers.size),
        "customer_id": buyers,
        "ordered_at": np.full(buyers.size, bought),
        "full_price": prices,
        "paid": prices,
        "items": rng.integers(1, 5, buyers.size),
        "code": pa.nulls(buyers.size, pa.string()),
    }
    for name, columns in (("customers", {"customer_id": ids, "joined_on": joined}), ("orders", orders)):
        pq.write_table(pa.table(columns), folder / "data" / f"{name}.parquet")
    with open_tables(folder / "data") as tables:
        features = build_features(tables, as_of=today).drop_columns(["customer_id"])
    network = ContextNetwork(heads="level", max_epochs=1).fit(features, rng.normal(4, 1, features.num_rows))
    network.save(folder / "context.safetensors")


def running_plan(campaign: str, **more: Any) -> dict[str, Any]:
    """A plan for today."""
    today = datetime.now(UTC).date().isoformat()
    return {
        "campaign": campaign,
        "customers": {"table": "customers", "as_of": today},
        "depths": {"0.1": {"at_most": "40%"}, "0.2": {"at_most": "30%"}},
        "objective": {"revenue_weight": 3},
        "policy": {"name": "random"},
        "reserve": {"share": "50%"},
        "valid": {"from": today, "days": 30},
        "seed": 4,
        **more,
    }


def key_of(shop: Shop, *, name: str = "drill") -> str:
    """A new key with every right."""
    with shop.store() as store:
        return create_key(store, name=name, role=Role.ADMIN, expires=None, clock=shop.clock).key


class Served:
    """`disco serve` in a process of its own."""

    def __init__(self, shop: Path, log: Path, *, worker: bool, before: str = "") -> None:
        """before: Python that the process runs first."""
        options = ["--port", "0", "--json", *([] if worker else ["--no-worker"])]
        command = [sys.executable, "-c", before + ENTRY, "serve", "--shop", str(shop), *options]
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        said = ""
        while not said.strip().endswith("}"):
            line = self.process.stdout.readline()
            assert line, log.read_text()
            said += line
        self.url: str = json.loads(said)["url"]

    def client(self, key: str) -> httpx.Client:
        """Requests with this key."""
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"authorization": f"Bearer {key}"}, timeout=_SECONDS)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        return ended(self.process, number)


def start_worker(shop: Path, log: Path) -> subprocess.Popen[str]:
    """`disco worker` in a process of its own."""
    command = [sys.executable, "-c", ENTRY, "worker", "--shop", str(shop), "--grace", "0"]
    with log.open("ab") as errors:
        return subprocess.Popen(command, stdout=errors, stderr=errors, text=True)


def ended(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> int:
    """End a process by a signal; its exit code."""
    if process.poll() is None:
        os.kill(process.pid, number)
    code = process.wait(_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
    return code


@contextmanager
def ended_at_last(*processes: "subprocess.Popen[str]") -> Iterator[None]:
    """None of these outlives the block."""
    try:
        yield
    finally:
        for process in processes:
            ended(process, signal.SIGKILL)
