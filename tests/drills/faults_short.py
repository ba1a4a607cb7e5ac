"""The short form of `./run drill faults`: one small life, a few faults of every kind, and a sabotaged program.

Prints one JSON object: per part its counts and failures, and per sabotage whether the drill has seen it.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import faults_drill
from faults_life import live
from faults_report import Report
from warm_commands import warm

from disco.records.errors import MissingPartError

_STEPS = ("plan", "launch", "export as CSV", "ingest")
_SEED = 1  # the first lines of the whole drill


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="disco-faults-short-"))
    try:
        warm()
        moments = live(folder, _STEPS, say=lambda text: print(text, file=sys.stderr))
        of = {moment.step.name: moment for moment in moments}
        files = [of["ingest"]]
        told: dict[str, Any] = {
            "io": _told(lambda: faults_drill.io(list(of.values()), folder, points=1, lanes=2)),
            "full": _told(lambda: faults_drill.full(files, folder, lanes=2)),
            "interrupt": _told(lambda: faults_drill.interrupt(moments, folder, count=4, seed=_SEED, lanes=2)),
            "commands": _told(lambda: faults_drill.command_lines(moments[-1], folder, count=20, seed=_SEED, lanes=2)),
        }
        for name, sabotage in (("writes in place", _in_place), ("hides errors", _hiding)):
            with _sabotaged(sabotage):
                told[name] = _told(lambda: faults_drill.io([of["export as CSV"]], folder, points=1, lanes=2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(told))


def _told(part: Callable[[], Report]) -> dict[str, Any]:
    try:
        return asdict(part())
    except MissingPartError as missing:
        return {"missing": str(missing)}


@contextmanager
def _sabotaged(writer: Callable[[Path], Any]) -> Iterator[None]:
    """An export that writes its file in another way."""
    from disco.operations import export

    good, export.written_whole = export.written_whole, writer
    try:
        yield
    finally:
        export.written_whole = good


@contextmanager
def _in_place(path: Path) -> Iterator[Path]:
    """Under the final name from the first byte on."""
    yield path


@contextmanager
def _hiding(path: Path) -> Iterator[Path]:
    """Whatever happens, it is called a success, and an empty file is left."""
    aside = path.with_name(".aside.partial")
    try:
        yield aside
        aside.rename(path)
    except OSError:
        aside.unlink(missing_ok=True)
        path.write_bytes(b"")


if __name__ == "__main__":
    main()
