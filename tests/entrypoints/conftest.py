"""The `disco` command inside this process: fast, and a traceback fails the test that caused it."""

import sys
from collections.abc import Callable

import pytest

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
