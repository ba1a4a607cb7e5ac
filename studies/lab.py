"""Where items get their environments and have things measured in them: in parallel, and never twice."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from disco.records.errors import InputError
from disco.retailer import RetailerSettings
from studies.baselines import Effort
from studies.cache import (
    Arrays,
    Piece,
    Progress,
    key_of,
    load_arrays,
    make_missing,
    save_arrays,
    source_of,
    source_version,
)
from studies.environment import ENVIRONMENT_ROOMS, Environment, load_environment, make_environment

#: The source behind what is measured in an environment, besides that of the measuring function.
MEASURE_ROOMS = (
    *ENVIRONMENT_ROOMS,
    "belief",
    "policy",
    "allocation",
    "objective.py",
    "campaign.py",
    "evaluation",
    "studies/readings.py",
    "studies/stage.py",
    "studies/simulation.py",
    "studies/ladder.py",
)
MAX_ENVIRONMENTS = 100


class RunSize(StrEnum):
    TINY = "tiny"  # does it run
    QUICK = "quick"  # minutes: what it looks like
    FULL = "full"  # the figures that docs/reproduction.md speaks of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionSettings:
    """One run. An environment is a simulated retailer with the frozen settings and a seed of its own.

    Seeds start at 11: the retailer was calibrated on 1 to 8, and these shops have had no say in it.
    """

    size: RunSize = RunSize.FULL
    environments: int = 4
    first_seed: int = 11
    customers: int = 200_000
    max_epochs: int = 40
    effort: Effort = field(default_factory=lambda: Effort(threads=1))
    processes: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.environments <= MAX_ENVIRONMENTS:
            raise InputError("environments", found=self.environments, expected=f"1 to {MAX_ENVIRONMENTS}")
        if self.first_seed < 0:
            raise InputError("seed", found=self.first_seed, expected="0 or more")

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.environments))

    @property
    def is_full(self) -> bool:
        return self.size is RunSize.FULL


FULL = ReproductionSettings()
QUICK = ReproductionSettings(
    size=RunSize.QUICK,
    environments=4,
    customers=15_000,
    effort=Effort(boosting_rounds=100, forest_trees=30, threads=1),
)
TINY = ReproductionSettings(
    size=RunSize.TINY,
    environments=2,
    customers=1_200,
    max_epochs=2,
    effort=Effort(boosting_rounds=10, forest_trees=5, threads=1),
    processes=1,
)


def settings_of(size: RunSize, *, environments: int | None = None, seed: int | None = None) -> ReproductionSettings:
    """The settings of a size, with another number of environments or other seeds where asked for."""
    base = {RunSize.FULL: FULL, RunSize.QUICK: QUICK, RunSize.TINY: TINY}[size]
    return replace(
        base,
        environments=base.environments if environments is None else environments,
        first_seed=base.first_seed if seed is None else seed,
    )


Measure = Callable[[Environment, ReproductionSettings], Arrays]  # at the top of a module: it travels to a process


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One run of the reproduction, as its items see it."""

    settings: ReproductionSettings
    folder: Path  # holds what was made
    items: tuple[str, ...] = ()  # keys of this run
    pool: Executor | None = None  # without one, everything is done in this process
    progress: Progress = lambda step: None  # hears of each step that is done

    def environments(self) -> tuple[Environment, ...]:
        """All environments, made where they are not there yet."""
        return tuple(load_environment(path) for path in self.make_environments())

    def make_environments(self) -> list[Path]:
        """Simulate what is missing; nothing is read."""
        pieces = [self.environment(seed) for seed in self.settings.seeds]
        make_missing(pieces, pool=self.pool, progress=self.progress)
        return [piece.path for piece in pieces]

    def measure(self, function: Measure) -> list[Arrays]:
        """The function's named arrays for every environment, in the order of the seeds."""
        self.make_environments()
        pieces = [self.measured(function, seed) for seed in self.settings.seeds]
        make_missing(pieces, pool=self.pool, progress=self.progress)
        return [load_arrays(piece.path) for piece in pieces]

    def environment(self, seed: int) -> Piece:
        retailer = RetailerSettings(customers=self.settings.customers, seed=seed)
        epochs = self.settings.max_epochs
        key = key_of(retailer.to_json(), epochs, source_version(ENVIRONMENT_ROOMS))
        return Piece(
            path=self.folder / "environments" / f"{seed}-{key}",
            make=make_environment,
            arguments=(retailer, epochs),
            rooms=ENVIRONMENT_ROOMS,
            step=f"simulating retailer {seed}",
        )

    def measured(self, function: Measure, seed: int) -> Piece:
        shop, item = self.environment(seed).path, function.__name__.removeprefix("measure_")
        effort = replace(self.settings, environments=1, first_seed=0, processes=1)  # what may change a figure
        key = key_of(shop.name, effort, function.__qualname__, source_of(function), source_version(MEASURE_ROOMS))
        return Piece(
            path=self.folder / "measured" / f"{item}-{seed}-{key}.npz",
            make=_measure,
            arguments=(function, shop, self.settings),
            rooms=MEASURE_ROOMS,
            step=f"{item}: measuring retailer {seed}",
        )


def _measure(path: Path, function: Measure, environment: Path, settings: ReproductionSettings) -> None:
    save_arrays(path, function(load_environment(environment), settings))
