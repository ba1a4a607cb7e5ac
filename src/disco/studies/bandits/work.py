"""Units of work over processes: each writes its own file, so an interrupted study goes on where it stopped."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from disco.records.errors import StateError
from disco.studies.bandits.stage import Stage
from disco.studies.bandits.unit import Shelf, Unit, code_version

Progress = Callable[[int, int], None]
# one thread per process: several processes share the cores already, and small matrices gain nothing from more
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_units(
    units: Sequence[Unit],
    *,
    shelf: Shelf,
    processes: int | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Do what is missing; `progress(done, total)` counts units, those found on the shelf included."""
    todo = shelf.missing(dict.fromkeys(units))
    total = len(dict.fromkeys(units))
    progress(total - len(todo), total)
    workers = min(processes or os.cpu_count() or 1, len(todo))
    if workers <= 1:
        for place, unit in enumerate(todo, start=total - len(todo) + 1):
            shelf.do(unit, _stage(shelf.stages / f"{unit.stage}.npz"))
            progress(place, total)
        return
    with _one_thread_each():
        executor = ProcessPoolExecutor(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),  # a fork would inherit threads that no longer run
        )
        try:
            waiting = [executor.submit(_do, shelf, unit, code_version()) for unit in todo]
            for done, future in enumerate(as_completed(waiting), start=total - len(todo) + 1):
                future.result()
                progress(done, total)
        finally:
            executor.shutdown(cancel_futures=True)  # an interruption waits for the units under way, starts no other


def _do(shelf: Shelf, unit: Unit, version: str) -> None:
    if code_version() != version:  # a process reads the source when it starts
        raise StateError(
            "study",
            found="source that changed while it ran",
            expected="one version of the code from start to end",
            fix="Start it again: finished pieces are kept.",
        )
    shelf.do(unit, _stage(shelf.stages / f"{unit.stage}.npz"))


@lru_cache(maxsize=2)
def _stage(path: Path) -> Stage:
    return Stage.load(path)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """For processes started within: their libraries read these names when they load."""
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
