"""Engines run chunk functions on threads or on a cluster; they hold no mathematics."""

from typing import TYPE_CHECKING, Any

from disco.adapters.engines.local import LocalEngine
from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.adapters.engines.spark import SparkEngine as SparkEngine

__all__ = ["LocalEngine", "SparkEngine", "read_engine"]


def __getattr__(name: str) -> Any:
    if name == "SparkEngine":  # its modules import pyarrow, which short commands do without
        from disco.adapters.engines.spark import SparkEngine

        return SparkEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read_engine(name: str) -> str:
    """The name of an engine that this version has."""
    if name not in ("local", "spark"):
        raise InputError("engine", found=repr(name), expected="'local' or 'spark'")
    return name
