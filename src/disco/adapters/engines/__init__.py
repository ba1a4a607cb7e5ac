"""Engines run chunk functions on threads or on a cluster; they hold no mathematics."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from disco.adapters.engines.local import LocalEngine
from disco.records.chunks import read_threads
from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.adapters.engines.spark import SparkEngine as SparkEngine

__all__ = ["LocalEngine", "SparkEngine", "open_engine", "read_engine"]


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


def open_engine(
    name: str = "local",
    *,
    threads: int | None = None,
    master: str | None = None,
    watch: Callable[[], None] | None = None,
) -> "LocalEngine | SparkEngine":
    """The engine of that name; `threads` None is one per processor. watch: called before each result is handed over.

    master: of Spark, such as local[2] or spark://HOST:7077; None is local[*].

    >>> open_engine("local", threads=2).threads
    2
    """
    if read_engine(name) == "spark":
        from disco.adapters.engines.spark import SparkEngine

        return SparkEngine(master=master, watch=watch)
    if master is not None:
        raise InputError("master", found=repr(master), expected="none", fix="Only the engine spark has a master.")
    return LocalEngine(read_threads(threads), watch)
