"""Studies over processes: one thread in each, and one version of the source from start to end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

from disco.records.errors import StateError

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def single_threaded() -> Iterator[None]:
    """Processes started inside have one thread each for BLAS, OpenMP and numba: the cores are taken by processes."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def source_hash(rooms: tuple[str, ...]) -> str:
    """A hash of the source of these files and folders of the package, as it is on disk now."""
    root = Path(__file__).parents[1]
    digest = sha256()
    for room in rooms:
        place = root / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def code_version(rooms: tuple[str, ...]) -> str:
    """The same as it was when this process first asked: the version that its pieces are named by."""
    return source_hash(rooms)


def require_same_source(rooms: tuple[str, ...], version: str) -> None:
    """A process reads source when it needs it: what it makes must not carry the name of another version."""
    if source_hash(rooms) != version:
        raise StateError(
            "study",
            found="source that changed while it ran",
            expected="one version of the code from start to end",
            fix="Start it again: finished pieces are kept.",
        )
