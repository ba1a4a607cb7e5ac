"""A shop as its use cases see it: what they work on, as one value, and where its own files lie."""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disco.records.diagnosis import Diagnosis, Repair
from disco.records.files import leftovers, sweep
from disco.records.forecasting import USUAL_RULES, ForecastRules

if TYPE_CHECKING:
    from disco.campaign import Belief
    from disco.operations.audience import ShopData
    from disco.operations.contexts import FeatureCache
    from disco.records.ports import Clock, Engine
    from disco.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """The first argument of use cases that load customers. It is made by `Shop.site`, and lives as long as its store is
    open; making it takes longer than a short question may (docs/decisions/145-who-takes-a-site.md)."""

    store: "Store"
    """The database and the artefacts of campaigns."""
    data: "ShopData"
    """The retailer's tables, the files that plans name, and the context network."""
    clock: "Clock"
    """The time it is in the shop."""
    prior: "Belief"
    """The belief before any campaign."""
    cache: "FeatureCache"
    """Features and contexts that were made before; it also says whether new ones are kept."""
    engine: "Engine | None" = None
    """What runs chunks of work on this machine; None: one thread."""
    rules: ForecastRules = USUAL_RULES
    """By which forecasts are made."""


# ---- the files of a shop ----
#
# Space, permission to write, who else may read them, and what killed processes left.


_LEAST_FREE_BYTES = 16 * 2**20
_LEAST_FREE_SHARE = 0.1  # of the shop's own size
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopFiles:
    """Where a shop keeps its own files."""

    folder: Path  # of the settings
    artefacts: Path  # folder of the large tables
    database: Path | None  # the SQLite file; None: a database server

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where unfinished files may lie."""
        return self.folder, self.artefacts, self.artefacts / "features"

    def checks(self) -> Iterator[Diagnosis]:
        """All checks of the files; changes nothing."""
        yield self._space()
        yield self._writing()
        if (modes := self._modes()) is not None:
            yield modes
        if (left := self._left_behind()) is not None:
            yield left

    def sweep(self) -> tuple[Repair, ...]:
        """Remove what killed processes left."""
        words = "This leftover of a killed process was removed."
        return tuple(Repair(where=str(place), changed=words) for place in sweep(self.folders))

    def _space(self) -> Diagnosis:
        size = sum(path.stat().st_size for path in self._files())
        free = shutil.disk_usage(self.folder).free
        least = max(_LEAST_FREE_BYTES, int(_LEAST_FREE_SHARE * size))
        found = f"{_size(free)} free; the shop's own files take {_size(size)}"
        where, expected = str(self.folder.absolute()), f"at least {_size(least)}"
        if free >= least and free < size:
            expected = f"{_size(size)}, as much as the shop takes now"
            return Diagnosis.note("disk", where, found, expected=expected, fix="Free some space soon.")
        return Diagnosis.of("disk", where, free >= least, found, expected=expected, fix="Free some space.")

    def _writing(self) -> Diagnosis:
        places = [self.folder, self.artefacts, *([] if self.database is None else [self.database])]
        refused = [str(place) for place in places if place.exists() and not os.access(place, os.W_OK)]
        return Diagnosis.of(
            "files",
            "permission to write",
            not refused,
            f"none for {', '.join(refused)}" if refused else "given",
            expected="a shop that can be written",
            fix="Change the owner or the permissions, or mount the file system for writing.",
        )

    def _modes(self) -> Diagnosis | None:
        if os.name != "posix":
            return None
        places = [*self._files(), *([self.artefacts] if self.artefacts.is_dir() else [])]
        # a folder that its owner shares with a group is shared on purpose
        open_places = [place for place in places if place.stat().st_mode & _OTHERS & ~_shared(place)]
        if not open_places:
            words = "only their owner can read them"
            return Diagnosis.of("files", "permission to read", True, words, expected="")
        found = f"{len(open_places):,} of {len(places):,} files and folders, such as {open_places[0]}"
        return Diagnosis.note(
            "files",
            "permission to read",
            f"other users of this computer have access to {found}",
            expected="access for the owner alone, because they hold customers and codes",
            fix=f"Run `chmod -R go= {self.artefacts}`"
            + (f" and `chmod go= {self.database}`." if self.database else "."),
        )

    def _left_behind(self) -> Diagnosis | None:
        left = leftovers(self.folders)
        if not left:
            return None
        return Diagnosis.note(
            "files",
            "temporary files",
            f"{len(left):,} of killed processes, such as {left[0]}",
            expected="none",
            fix="Run `disco doctor --repair`, which removes them.",
        )

    def _files(self) -> Iterator[Path]:
        """The database and the artefacts, with kept features."""
        if self.database is not None and self.database.is_file():
            yield self.database
        if self.artefacts.is_dir():
            yield from (path for path in self.artefacts.rglob("*") if path.is_file())


def _shared(place: Path) -> int:
    """The bits for a group, where the folder is shared with one and with nobody else."""
    folder = place if place.is_dir() else place.parent
    return stat.S_IRWXG if stat.S_IMODE(folder.stat().st_mode) & _OTHERS == stat.S_IRWXG else 0


def _size(length_bytes: int) -> str:
    return f"{length_bytes / 1e9:,.1f} GB" if length_bytes >= 1e9 else f"{length_bytes / 1e6:,.1f} MB"
