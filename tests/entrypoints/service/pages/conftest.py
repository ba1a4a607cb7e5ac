"""Browsers in front of a shop, by what it has and who looks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from visitors import Browser, Visit, visiting

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.office.keys.use_cases import create_key
from disco.records.people import Role


@pytest.fixture(scope="session")
def visit() -> Visit:
    return visiting


@pytest.fixture
def browser(shop: Path) -> Iterator[Browser]:
    """An administrator in front of a shop of their own, which has learned one campaign."""
    with visiting(shop) as one:
        yield one


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Browser]:
    """An administrator in front of a shop that has nothing yet."""
    with visiting(tmp_path) as one:
        yield one


@pytest.fixture(scope="session")
def onlooker(learned_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """An administrator, for tests that change nothing."""
    folder = Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("looked at") / "shop"))
    with visiting(folder) as one:
        yield one


@pytest.fixture(scope="module")
def planning_shop(learned_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop that has learned one campaign."""
    return Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("planning") / "shop"))


@pytest.fixture(scope="module")
def planning(planning_shop: Path) -> Iterator[TestClient]:
    """Its service, for an administrator."""
    shop = Shop.open(planning_shop)
    with shop.store() as store:
        key = create_key(store, name="Paul", role=Role.ADMIN, expires=None, clock=shop.clock).key
    with TestClient(create_app(shop), base_url="http://localhost", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {key}"
        yield client
