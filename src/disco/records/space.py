"""Whether the disks have room for what a long piece of work will write; asked before the work."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Space:
    """What will be written somewhere, about."""

    place: Path
    """A folder, which may not be there yet."""
    nbytes: int
    what: str
    """Such as "features"."""


def require_space(needed: Iterable[Space]) -> None:
    """InputError where a disk has less room than all that will be written to it."""
    by_disk: dict[int, list[Space]] = {}
    for one in needed:
        by_disk.setdefault(os.stat(_existing(one.place)).st_dev, []).append(one)
    for parts in by_disk.values():
        place, total = _existing(parts[0].place), sum(part.nbytes for part in parts)
        free = free_bytes(place)
        if total > free:
            listed = ", ".join(f"{part.what} {_size(part.nbytes)}" for part in parts)
            raise InputError(
                f"The disk of {place} is too small: about {_size(total)} will be written ({listed}), and "
                f"{_size(free)} are free",
                fix="Free some space, or use a larger disk: TMPDIR names the place of temporary files, the setting "
                "`artefacts` that of features and plans.",
            )


def free_bytes(place: Path) -> int:
    """That this user may write."""
    return shutil.disk_usage(place).free


def _existing(place: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())


def _size(nbytes: int) -> str:
    """
    >>> _size(5_250_000_000), _size(3_000_000), _size(10)
    ('5.2 GB', '3 MB', '1 MB')
    """
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{max(1, round(nbytes / 1e6)):,} MB"
