"""Folders that are costly to make, such as a shop with a trained network: made once, and copied by each test.

The original lies under out/tests. It serves all processes of a run, and later runs of the day as long as nothing
changes that could make it different: its key is a hash of the package with its templates, of tests/support, of the
pinned versions, of settings in the environment, of the arguments and of the date, because a shop remembers when it was
made.
"""

import fcntl
import hashlib
import inspect
import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_ORIGINALS = _ROOT / "out" / "tests"
_COMPLETE = "complete"
_UNUSED_SECONDS = 24 * 3600  # after which an original is deleted


def copy_of(make: Callable[..., object], *arguments: object, at: Path) -> Path:
    """A copy of what `make(folder, *arguments)` makes, in the folder `at`, which is empty or absent.

    Whatever else decides what is made must be among the arguments, and `repr` must show them.
    """
    return Path(shutil.copytree(original_of(make, *arguments), at, symlinks=True, dirs_exist_ok=True))


def original_of(make: Callable[..., object], *arguments: object) -> Path:
    """The folder itself, for those who only read files. A database is copied before it is opened: use `copy_of`."""
    source = inspect.getsourcefile(make)
    assert source is not None
    name = f"{Path(source).stem}-{make.__name__}"
    settings = sorted((key, value) for key, value in os.environ.items() if key == "TZ" or key.startswith("DISCO_"))
    settled = hashlib.sha256(repr((_sources(), settings, Path(source).read_bytes(), arguments)).encode()).hexdigest()
    place = _ORIGINALS / f"{name}-{settled[:16]}"
    _ORIGINALS.mkdir(parents=True, exist_ok=True)
    # It is made where it stays, because a shop may remember its folder. A lock keeps others out meanwhile.
    with (_ORIGINALS / f"{name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / _COMPLETE).is_file():
            _delete_unused(name)
            shutil.rmtree(place, ignore_errors=True)  # one that a process left unfinished
            place.mkdir()
            make(place / "made", *arguments)
            (place / _COMPLETE).touch()
        os.utime(place)
    return place / "made"


def _delete_unused(name: str) -> None:
    for place in _ORIGINALS.glob(f"{name}-" + "[0-9a-f]" * 16):
        if time.time() - place.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(place)


@cache
def _sources() -> str:
    """A hash of the day and of all files that decide what is made."""
    files = [
        *(file for file in (_ROOT / "src" / "disco").rglob("*") if file.is_file() and "__pycache__" not in file.parts),
        *Path(__file__).parent.glob("*.py"),
        _ROOT / "constraints.txt",
        _ROOT / "pyproject.toml",
    ]
    content = hashlib.sha256(f"{sys.version} {datetime.now(UTC).date()}".encode())
    for file in sorted(files):
        content.update(f"{file.relative_to(_ROOT)}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return content.hexdigest()
