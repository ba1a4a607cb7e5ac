"""The examples are scripts: their folders are on the path while they run, as when a newcomer starts them."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path += [str(EXAMPLES / name) for name in ("loan_offers", "complete_journey")]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs an example as its command line would, in this process; returns the exit code."""

    def run(example: str, *arguments: object) -> int:
        script = EXAMPLES / example / "run.py"
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script), run_name="__main__")
        return int(stopped.value.code or 0)

    return run
