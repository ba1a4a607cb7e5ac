"""The items in the order of the paper. Each is a module of this folder with `KEY` and `run(lab) -> Item`."""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from disco.records.errors import UsageError
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab

ITEMS: tuple[str, ...] = (
    "rbf",
    "plays",
    "uncertainty",
    "elasticity",
    "encodings",
    "demand",
    "models",
    "campaigns",
    "warm",
    "cold",
    "ulcc",
    "explanation",
    "ab",
)


class ItemModule(Protocol):
    """A figure or table: measured where needed, told as an item."""

    def run(self, lab: Lab) -> Item: ...


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The keys asked for, in the paper's order; all where none was named."""
    unknown = sorted(set(only) - set(ITEMS))
    if unknown:
        raise UsageError("--only", found=", ".join(unknown), expected=f"some of {', '.join(ITEMS)}")
    return tuple(key for key in ITEMS if key in only or not only)


def module_of(key: str) -> ItemModule:
    return cast(ItemModule, import_module(f"disco.studies.paper.{key}"))
