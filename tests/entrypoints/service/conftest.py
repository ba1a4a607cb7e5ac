"""A service in this process, over a shop that has learned one campaign; a key for every role."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service import logs
from disco.entrypoints.service.app import create_app
from disco.operations.people import create_key
from disco.records.people import Role

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


@pytest.fixture
def client(shop: Path) -> Iterator[TestClient]:
    """A client of a shop of its own, with an administrator's key."""
    made = make_keys(shop)
    with serving(shop) as one:
        one.headers["authorization"] = f"Bearer {made[Role.ADMIN]}"
        yield one
