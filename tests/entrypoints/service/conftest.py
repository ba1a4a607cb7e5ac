"""A service in this process, over a shop that has learned one campaign; a key for every role."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from quick_hashes import quick_hashes

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.office.keys.use_cases import create_key
from disco.records.people import Role
from disco.web import logs

Keys = dict[Role, str]


def make_keys(folder: Path) -> Keys:
    shop = Shop.open(folder)
    with shop.store(missing="create") as store:
        return {
            role: create_key(store, name=f"of a {role}", role=role, expires=None, clock=shop.clock).key for role in Role
        }


@contextmanager
def serving(folder: Path) -> Iterator[TestClient]:
    with TestClient(
        create_app(Shop.open(folder)), base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        yield client


@pytest.fixture(scope="session", autouse=True)
def logged() -> Iterator[io.StringIO]:
    """What the service logs, away from what commands print."""
    logs.stream = io.StringIO()
    yield logs.stream
    logs.stream = None


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick_hashes(monkeypatch):
        yield


@pytest.fixture(scope="session")
def served_shop(learned_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop behind `reader`, which tests only read."""
    return Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("served") / "shop"))


@pytest.fixture(scope="session")
def keys(served_shop: Path) -> Keys:
    return make_keys(served_shop)


@pytest.fixture(scope="session")
def reader(served_shop: Path, keys: Keys) -> Iterator[TestClient]:
    """A client with an administrator's key, for tests that change nothing."""
    with serving(served_shop) as client:
        client.headers["authorization"] = f"Bearer {keys[Role.ADMIN]}"
        yield client


@pytest.fixture(scope="session")
def second_reader(learned_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A reader of a shop whose second campaign was decided, with a control group, a holdout, and outcomes."""
    folder = Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("second") / "shop"))
    shop = Shop.open(folder)
    decisions = shop.launch(shop.plan(folder / "second.yaml").plan_id).decisions
    codes = decisions.filter(decisions["code"].is_valid())
    codes = codes.take(list(range(0, codes.num_rows, 2)))
    places = range(codes.num_rows)
    moments = [datetime(2025, 10, 2, 12) + timedelta(days=place % 25) for place in places]
    outcomes = {
        "event_id": [f"order {place}" for place in places],
        "campaign_id": ["second" for _ in places],
        "customer_id": codes["customer_id"],
        "code": codes["code"],
        "ordered_at": pa.array(moments, pa.timestamp("us")),
        "full_price": [40.0 + place % 37 for place in places],
        "kind": ["purchase" for _ in places],
        "refers_to": pa.nulls(codes.num_rows, pa.string()),
    }
    shop.ingest("second", pa.table(outcomes))
    made = make_keys(folder)
    with serving(folder) as client:
        client.headers["authorization"] = f"Bearer {made[Role.ADMIN]}"
        yield client


@pytest.fixture
def client(shop: Path) -> Iterator[TestClient]:
    """A client of a shop of its own, with an administrator's key."""
    made = make_keys(shop)
    with serving(shop) as one:
        one.headers["authorization"] = f"Bearer {made[Role.ADMIN]}"
        yield one
