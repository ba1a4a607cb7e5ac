"""DISCO: which customer gets which discount code, decided exactly and learned from what customers buy.

Public names are loaded on first use, so that `import disco` and `disco --help` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    pass

_HOME = {
    "allocate": "disco.allocation",
    "Allocation": "disco.allocation",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'disco' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
