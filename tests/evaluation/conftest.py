"""The simulations of benchmarks/evaluation.py, here with fewer repetitions and the matching, wider band."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from disco.evaluation.log import RandomLog, random_log

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def offline() -> ModuleType:
    return load("_offline")


@pytest.fixture(scope="session")
def experiments() -> ModuleType:
    return load("_experiments")


@pytest.fixture(scope="session")
def make_log(offline: ModuleType) -> Callable[..., RandomLog]:
    """Logs of the small world, with depths at random in given shares."""

    def make(rows: int, seed: int = 1, shares: Sequence[float] = (1 / 3, 1 / 3, 1 / 3), **more: Any) -> RandomLog:
        rng = np.random.default_rng(seed)
        x, place = offline.customers(rng, rows), rng.choice(3, rows, p=shares)
        return random_log(x, offline.GRID[place], offline.outcomes(rng, x, place), check_balance=False, **more)

    return make


@pytest.fixture(scope="session")
def log(make_log: Callable[..., RandomLog]) -> RandomLog:
    return make_log(1200)
