"""Databases for tests: an SQLite file, and a PostgreSQL server that is started once per process and gone afterwards."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from trial_server import TrialServer, trial_server

from disco.records.errors import MissingPartError

_LONG = ("drills", "e2e", "studies")  # rooms of few tests, each of which takes long


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that no process ends with one of them while the others have nothing left to do."""
    items.sort(key=lambda item: not set(_LONG) & set(item.path.parts))


@pytest.fixture(scope="session")
def postgres() -> Iterator[TrialServer]:
    try:
        # nobody's data: what a crash would lose is tested by the drill, on a server that syncs
        with trial_server("fsync=off", "max_connections=200", "shared_buffers=64MB") as server:
            yield server
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")


@pytest.fixture(scope="session")
def new_postgres_url(postgres: TrialServer) -> Callable[[], str]:
    """Each call gives the URL of a database that is empty."""
    numbers = count()

    def make() -> str:
        name = f"trial_{next(numbers)}"
        postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return postgres.url(name)

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Each call gives the URL of a database that is empty: the test runs on SQLite and on PostgreSQL."""
    if request.param == "postgresql":
        make: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        return make
    numbers = count()
    return lambda: f"sqlite:///{tmp_path / f'trial_{next(numbers)}.db'}"


@pytest.fixture
def database_url(new_database_url: Callable[[], str]) -> str:
    return new_database_url()
