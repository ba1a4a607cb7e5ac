"""The `disco` command inside this process: fast, and a traceback fails the test that caused it."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import service_shop

from disco.entrypoints import cli


@pytest.fixture
def disco(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `disco ARGUMENTS`; gives exit code, stdout, stderr. Any other end than SystemExit is an error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["disco", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


@pytest.fixture(scope="session")
def learned_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated shop after its first campaign, which was random: launched, answered, ingested and learned."""
    return service_shop.learned(tmp_path_factory.mktemp("learned") / "shop")


@pytest.fixture
def shop(learned_shop: Path, tmp_path: Path) -> Path:
    """A copy of that shop, to do with as one likes."""
    return Path(shutil.copytree(learned_shop, tmp_path / "shop"))
