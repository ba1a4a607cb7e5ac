"""The `disco` command inside this process: fast, and a traceback fails the test that caused it."""

import contextlib
import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from two_campaigns import FIRST, SECOND

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
    shop = tmp_path_factory.mktemp("learned") / "shop"
    shop.mkdir()
    (shop / "first.yaml").write_text(FIRST)
    (shop / "second.yaml").write_text(SECOND)
    data, codes, outcomes = shop / "data", shop / "codes.parquet", shop / "outcomes.parquet"
    network = shop / "context.safetensors"
    _done("simulate", "--customers", 900, "--seed", 7, "-o", data)
    _done("train", "context", "--tables", data, "--window-start", "2025-06-01", "--max-epochs", 2, "-o", network)
    _done("plan", shop / "first.yaml", "--shop", shop)
    _done("launch", "first", "--shop", shop)
    _done("export", "first", "-o", codes, "--shop", shop)
    _done("respond", data, codes, "-o", outcomes)
    _done("ingest", "first", outcomes, "--shop", shop)
    _done("learn", "first", "--as-of", "2025-10-03", "--shop", shop)
    return shop


@pytest.fixture
def shop(learned_shop: Path, tmp_path: Path) -> Path:
    """A copy of that shop, to do with as one likes."""
    return Path(shutil.copytree(learned_shop, tmp_path / "shop"))


def _done(*arguments: object) -> None:
    before, sys.argv = sys.argv, ["disco", *map(str, arguments)]
    shown = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(shown),
            contextlib.redirect_stderr(shown),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main()
    finally:
        sys.argv = before
    assert not ended.value.code, shown.getvalue()
