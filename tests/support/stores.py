"""Stores of tests: a database of a URL, with its artefacts in a folder that every process finds by that URL."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from disco.records.locale import POUNDS_UTC, Locale
from disco.store import Store

on_both_databases = pytest.mark.parametrize("new_database_url", ["sqlite", "postgresql"], indirect=True)
"""For a test of a room whose tests run on SQLite alone."""


def new_urls(request: pytest.FixtureRequest, folder: Path) -> Callable[..., str]:
    """What gives the URL of an empty database at each call; of which kind, the parameter of the fixture says."""
    if request.param == "postgresql":
        make: Callable[..., str] = request.getfixturevalue("new_postgres_url")
        return make
    numbers = count()
    return lambda: f"sqlite:///{folder / f'trial_{next(numbers)}.db'}"


def artefacts_of(url: str) -> Path:
    """Beside an SQLite file; in the folder of the trial server, under the name of the database."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(f"{parsed.database}-artefacts")
    return Path(str(parsed.query["host"])) / f"artefacts-{parsed.database}"


def open_store(url: str, locale: Locale = POUNDS_UTC) -> Store:
    return Store(url, artefacts_of(url), locale=locale)
