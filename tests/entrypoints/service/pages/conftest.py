"""Browsers in front of a shop, by what it has and who looks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from visitors import Browser, Visit, visiting


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
