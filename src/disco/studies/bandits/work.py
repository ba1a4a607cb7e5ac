"""Units of work over processes: each writes its own file, so an interrupted study goes on where it stopped."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path

from disco.studies.bandits.stage import Stage
from disco.studies.bandits.unit import SOURCES, Shelf, Unit
from disco.studies.processes import code_version, require_same_source, single_threaded

Progress = Callable[[int, int], None]


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
    with single_threaded():
        executor = ProcessPoolExecutor(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),  # a fork would inherit threads that no longer run
        )
        try:
            waiting = [executor.submit(_do, shelf, unit, code_version(SOURCES)) for unit in todo]
            for done, future in enumerate(as_completed(waiting), start=total - len(todo) + 1):
                future.result()
                progress(done, total)
        finally:
            executor.shutdown(cancel_futures=True)  # an interruption waits for the units under way, starts no other


def _do(shelf: Shelf, unit: Unit, version: str) -> None:
    require_same_source(SOURCES, version)
    shelf.do(unit, _stage(shelf.stages / f"{unit.stage}.npz"))


@lru_cache(maxsize=2)
def _stage(path: Path) -> Stage:
    return Stage.load(path)
