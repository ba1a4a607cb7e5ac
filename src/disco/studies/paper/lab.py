"""Where items get their environments and have things measured in them: in parallel, and never twice."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from disco.records.errors import StateError
from disco.retailer import RetailerSettings
from disco.studies.paper import environment
from disco.studies.paper.cache import (
    ENVIRONMENT_ROOMS,
    MEASURE_ROOMS,
    Arrays,
    key_of,
    load_arrays,
    save_arrays,
)
from disco.studies.paper.environment import Environment
from disco.studies.paper.settings import Settings
from disco.studies.processes import code_version, require_same_source, single_threaded

Measure = Callable[[Environment, Settings], Arrays]  # a function at the top of a module: it travels to a process
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """`folder` holds what was made; `items` are the keys of this run, `progress` hears of each step that is done.

    Without a `pool` everything is done in this process.
    """

    settings: Settings
    folder: Path
    items: tuple[str, ...] = ()
    pool: Executor | None = None
    progress: Progress = lambda step: None

    def environments(self) -> tuple[Environment, ...]:
        """All environments, made where they are not there yet."""
        self.make_environments()
        return tuple(environment.load(self.environment_folder(seed)) for seed in self.settings.seeds)

    def make_environments(self) -> None:
        """Simulate what is missing; nothing is read."""
        missing = [seed for seed in self.settings.seeds if not self.environment_folder(seed).is_dir()]
        version = code_version(ENVIRONMENT_ROOMS)
        self._map(
            _make, [(self._retailer(seed), self.environment_folder(seed), self.settings, version) for seed in missing]
        )

    def measure(self, function: Measure) -> list[Arrays]:
        """The function's named arrays for every environment, in the order of the seeds."""
        self.make_environments()
        paths = [self._measured(function, seed) for seed in self.settings.seeds]
        missing = [(seed, path) for seed, path in zip(self.settings.seeds, paths, strict=True) if not path.is_file()]
        version = code_version(MEASURE_ROOMS)
        self._map(
            _measure,
            [(function, self.environment_folder(seed), self.settings, path, version) for seed, path in missing],
        )
        return [load_arrays(path) for path in paths]

    def environment_folder(self, seed: int) -> Path:
        parts = (self._retailer(seed).to_json(), self.settings.max_epochs, code_version(ENVIRONMENT_ROOMS))
        return self.folder / "environments" / f"{seed}-{key_of(*parts)}"

    def _retailer(self, seed: int) -> RetailerSettings:
        return RetailerSettings(customers=self.settings.customers, seed=seed)

    def _measured(self, function: Measure, seed: int) -> Path:
        source = Path(str(import_module(function.__module__).__file__)).read_text(encoding="utf-8")
        version = code_version(MEASURE_ROOMS)
        effort = replace(
            self.settings, environments=1, first_seed=0, processes=1
        )  # what may change a figure of one shop
        key = key_of(self.environment_folder(seed).name, effort, function.__qualname__, source, version)
        return self.folder / "measured" / f"{function.__module__.rpartition('.')[2]}-{seed}-{key}.npz"

    def _map(self, task: Callable[..., str], arguments: Sequence[tuple[Any, ...]]) -> None:
        """Each task once, in the pool's processes where there is one."""
        if self.pool is None:
            for each in arguments:
                self.progress(task(*each))
            return
        waiting: list[Future[str]] = [self.pool.submit(task, *each) for each in arguments]
        try:
            for done in as_completed(waiting):
                self.progress(done.result())
        except BrokenProcessPool:
            raise StateError(
                "reproduction",
                found="a process that ended in the middle of its work, most likely for lack of memory",
                expected="every process to finish",
                fix="Free memory and start it again: finished pieces are kept.",
            ) from None
        finally:
            for left in waiting:
                left.cancel()


@contextmanager
def worker_pool(settings: Settings) -> Iterator[Executor | None]:
    """Processes for a whole run, so that each reads the libraries once; none where one process is asked for."""
    if settings.processes == 1:
        yield None
        return
    with single_threaded(), ProcessPoolExecutor(settings.processes, mp_context=get_context("spawn")) as pool:
        yield pool


def _make(retailer: RetailerSettings, folder: Path, settings: Settings, version: str) -> str:
    require_same_source(ENVIRONMENT_ROOMS, version)
    environment.make(retailer, folder, max_epochs=settings.max_epochs)
    return f"environment {retailer.seed}: simulated"


def _measure(function: Measure, folder: Path, settings: Settings, path: Path, version: str) -> str:
    require_same_source(MEASURE_ROOMS, version)
    found = environment.load(folder)
    save_arrays(path, function(found, settings))
    return f"environment {found.seed}: {function.__module__.rpartition('.')[2]}"
