"""Engines run chunk functions on threads or on a cluster; they hold no mathematics."""

from typing import TYPE_CHECKING, Any

from disco.adapters.engines.local import LocalEngine

if TYPE_CHECKING:
    from disco.adapters.engines.spark import SparkEngine as SparkEngine

__all__ = ["LocalEngine", "SparkEngine"]


def __getattr__(name: str) -> Any:
    if name == "SparkEngine":  # its modules import pyarrow, which short commands do without
        from disco.adapters.engines.spark import SparkEngine

        return SparkEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
