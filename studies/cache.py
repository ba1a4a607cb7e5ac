"""Cache of study results: one file or folder per piece of work, computed once, in one or several processes.

A piece is named by a hash of everything that decides its content: its settings, and the source of the rooms that had a
part in it. A changed source file therefore makes results anew, and a piece is never taken for that of another version.
A piece is written whole or not at all, so an interrupted study continues where it stopped. An .npz file that cannot be
read is made again. Only numbers are kept (.npz, Parquet), no pickles. Each process of a pool runs one thread, so the
processes share the cores.
"""

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import disco
from disco.records.errors import FileFormatError, StateError
from disco.records.files import unfinished_folder, written_whole

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Progress = Callable[[str], None]

STUDIES, PACKAGE = Path(__file__).parent, Path(str(disco.__file__)).parent
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file (.npz) or a folder of a study, and how to make it."""

    path: Path
    make: Callable[..., None]  # called as make(path, *arguments); at the top of a module, so that it reaches a process
    arguments: tuple[Any, ...]
    rooms: tuple[str, ...]  # files and folders whose source decides the content: of the package, or below studies/
    step: str  # what is made, in words


def make_missing(
    pieces: Sequence[Piece], *, pool: Executor | None = None, progress: Progress = lambda step: None
) -> None:
    """Make each piece that is not there yet; without a `pool`, in this process."""
    wanted = {piece.path: piece for piece in pieces}
    missing = [piece for path, piece in wanted.items() if not is_made(path)]
    done, total = len(wanted) - len(missing), len(wanted)
    if pool is None:
        for count, piece in enumerate(missing, start=done + 1):
            _make(piece, source_version(piece.rooms))
            progress(f"{piece.step} ({count:,} of {total:,})")
        return
    waiting: dict[Future[None], Piece] = {
        pool.submit(_make, piece, source_version(piece.rooms)): piece for piece in missing
    }
    try:
        for count, future in enumerate(as_completed(waiting), start=done + 1):
            future.result()
            progress(f"{waiting[future].step} ({count:,} of {total:,})")
    except BrokenProcessPool:
        raise StateError(
            "A process of the study ended in the middle of its work, most likely for lack of memory",
            fix="Free memory and start the study again: finished pieces are kept.",
        ) from None
    finally:
        for future in waiting:
            future.cancel()  # an interruption waits for the pieces under way and starts no other


def _make(piece: Piece, version: str) -> None:
    require_same_source(piece.rooms, version)
    piece.path.parent.mkdir(parents=True, exist_ok=True)
    piece.make(piece.path, *piece.arguments)


@contextmanager
def worker_pool(processes: int) -> Iterator[Executor | None]:
    """Processes for a whole study, so that each loads the libraries once; None where one process is asked for."""
    if processes == 1:
        yield None
        return
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        # a fork would inherit threads that no longer run
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ---- names -----------------------------------------------------------------------------------------------------------


def key_of(*parts: object) -> str:
    """A short name for a piece of work, from the text of whatever decides it.

    >>> key_of("environment", 11) == key_of("environment", 11), key_of("environment", 11) == key_of("environment", 12)
    (True, False)
    """
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]


def place_of(room: str) -> Path:
    """Where its source lies: rooms of the package are named from src/disco, those of the studies by studies/…"""
    return (STUDIES.parent if room.startswith("studies/") else PACKAGE) / room


def source_hash(rooms: tuple[str, ...]) -> str:
    """A hash of the source of these files and folders, as it is on disk now."""
    digest = sha256()
    for room in rooms:
        place = place_of(room)
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{room}/{path.relative_to(place)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def source_version(rooms: tuple[str, ...]) -> str:
    """`source_hash` as of this process's first call; pieces are named by it."""
    return source_hash(rooms)


def require_same_source(rooms: tuple[str, ...], version: str) -> None:
    """Raise StateError if the source has changed since `version`.

    A worker imports source late, and its piece would carry the wrong name.
    """
    if source_hash(rooms) != version:
        raise StateError(
            "The source of the study changed while it ran", fix="Start it again: finished pieces are kept."
        )


def source_of(function: Callable[..., object]) -> str:
    """A function and all of its module that it refers to, directly or through others, as text.

    A module that measures and reports can thus change its words and charts without being measured again.
    """
    module = import_module(function.__module__)
    at_top = _definitions(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
    reached: dict[str, str] = {}
    waiting = [function.__name__]
    while waiting:
        name = waiting.pop()
        if name in at_top and name not in reached:
            reached[name] = ast.unparse(at_top[name])
            waiting += [node.id for node in ast.walk(at_top[name]) if isinstance(node, ast.Name)]
    return "\n".join(reached[name] for name in sorted(reached))


def _definitions(module: ast.Module) -> dict[str, ast.stmt]:
    """Each name at the top of a module with the statement that gives it its meaning."""
    found: dict[str, ast.stmt] = {}
    for statement in module.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = statement
            case ast.ImportFrom(module=origin, names=aliases, level=level):
                for alias in aliases:
                    found[alias.asname or alias.name] = ast.ImportFrom(origin, [alias], level)
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
                found |= dict.fromkeys(names, statement)
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def is_made(path: Path) -> bool:
    """Whether a piece is there; a file that cannot be read is deleted, so that it is made again."""
    if path.suffix != ".npz":
        return path.is_dir()
    if not path.is_file():
        return False
    try:
        load_arrays(path)
    except FileFormatError:
        path.unlink(missing_ok=True)
        return False
    return True


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Named arrays as one .npz, whole or not at all."""
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **dict[str, Any](arrays))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Named arrays; a damaged file is refused by name."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, BadZipFile) as error:
        raise FileFormatError(
            str(path), found=f"a damaged file ({error})", expected="an .npz", fix="Delete it; it is made again."
        ) from None


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """A folder beside `path` to fill; it becomes `path` when the body ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished_folder(path.parent) as unfinished:
        yield unfinished
        if not path.exists():  # two runs may make the same piece: equal, so whoever comes first
            unfinished.rename(path)
