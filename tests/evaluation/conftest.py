"""The simulations of benchmarks/evaluation.py, here with fewer repetitions and the matching, wider band."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
