"""Engines run chunk functions on threads or on a cluster; they hold no mathematics."""

from collections.abc import Callable

from disco.adapters.engines.local import LocalEngine
from disco.records.chunks import read_threads
from disco.records.errors import InputError

__all__ = ["LocalEngine", "open_engine", "read_engine"]


def read_engine(name: str) -> str:
    """The name of an engine that this version has."""
    if name == "spark":
        raise InputError(
            "engine",
            found="'spark'",
            expected="'local'",
            fix="Spark is not supported yet: this version has no extra `disco[spark]`. Use local.",
        )
    if name != "local":
        raise InputError("engine", found=repr(name), expected="'local'", fix="Use local: it is the only engine so far.")
    return name


def open_engine(
    name: str = "local", *, threads: int | None = None, watch: Callable[[], None] | None = None
) -> LocalEngine:
    """The engine of that name; `threads` None is one per processor. watch: called before each result is handed over.

    >>> open_engine("local", threads=2).threads
    2
    """
    read_engine(name)
    return LocalEngine(read_threads(threads), watch)
