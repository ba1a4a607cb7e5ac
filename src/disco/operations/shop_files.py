"""The files of a shop: space, permission to write, who else may read them, and what interrupted commands left."""

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from disco.records.diagnosis import Diagnosis, Repair

_LEAST_FREE_BYTES = 16 * 2**20
_LEAST_FREE_SHARE = 0.1  # of the shop's own size
_DAY_S = 24 * 3600
# names as `tempfile` makes them for us, and nothing that a user might have named so
_OF_TEMPORARY_PLACE = re.compile(r"disco-(spill|sql|train|browser|picture)-[a-z0-9_]{8}")
_OF_SHOP = re.compile(r"\.disco-[a-z0-9_]{8}\.partial|\.disco-init-[a-z0-9_]{8}")
_OF_ARTEFACTS = re.compile(r"\.(disco-)?[a-z0-9_]{8}\.partial")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopFiles:
    """Where a shop keeps its own files."""

    folder: Path  # of the settings
    artefacts: Path  # folder of the large tables
    database: Path | None  # the SQLite file; None: a database server

    def checks(self) -> Iterator[Diagnosis]:
        """All checks of the files; changes nothing."""
        yield self._space()
        yield self._writing()
        if (modes := self._modes()) is not None:
            yield modes
        if (left := self._left_behind()) is not None:
            yield left

    def sweep(self) -> tuple[Repair, ...]:
        """Remove what interrupted commands left more than a day ago."""
        done = []
        for place in self._leftovers():
            shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
            if not place.exists():
                done.append(Repair(where=str(place), changed="This remainder of an interrupted command was removed."))
        return tuple(done)

    def _space(self) -> Diagnosis:
        size = sum(path.stat().st_size for path in self._files())
        free = shutil.disk_usage(self.folder).free
        least = max(_LEAST_FREE_BYTES, int(_LEAST_FREE_SHARE * size))
        found = f"{_megabytes(free)} free; the shop's own files take {_megabytes(size)}"
        where, expected = str(self.folder.absolute()), f"at least {_megabytes(least)}"
        if free >= least and free < size:
            expected = f"{_megabytes(size)}, as much as the shop takes now"
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
        open_places = [place for place in places if place.stat().st_mode & _OTHERS]
        found = (
            f"{len(open_places):,} of {len(places):,} files and folders, such as {open_places[0]}"
            if open_places
            else ""
        )
        if not open_places:
            words = "only their owner can read them"
            return Diagnosis.of("files", "permission to read", True, words, expected="")
        return Diagnosis.note(
            "files",
            "permission to read",
            f"other users of this computer have access to {found}",
            expected="access for the owner alone, because they hold customers and codes",
            fix=f"Run `chmod -R go= {self.artefacts}`"
            + (f" and `chmod go= {self.database}`." if self.database else "."),
        )

    def _left_behind(self) -> Diagnosis | None:
        left = list(self._leftovers())
        if not left:
            return None
        return Diagnosis.note(
            "files",
            "temporary files",
            f"{len(left):,} of interrupted commands, such as {left[0]}",
            expected="none older than a day",
            fix="Run `disco doctor --repair`, which removes them.",
        )

    def _files(self) -> Iterator[Path]:
        """The database and the artefacts, with kept features."""
        if self.database is not None and self.database.is_file():
            yield self.database
        if self.artefacts.is_dir():
            yield from (path for path in self.artefacts.rglob("*") if path.is_file())

    def _leftovers(self) -> Iterator[Path]:
        """Files and folders that a command makes for itself, older than a day and of this user."""
        for folder, names in (
            (self.folder, _OF_SHOP),
            (self.artefacts, _OF_ARTEFACTS),
            (self.artefacts / "features", _OF_ARTEFACTS),
            (Path(tempfile.gettempdir()), _OF_TEMPORARY_PLACE),
        ):
            if folder.is_dir():
                yield from _old(path for path in folder.iterdir() if names.fullmatch(path.name))


def _old(places: Iterable[Path]) -> Iterator[Path]:
    for place in sorted(places):
        try:
            found = place.lstat()
        except OSError:
            continue  # another command has just removed it
        ours = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if ours and not stat.S_ISLNK(found.st_mode) and time.time() - found.st_mtime > _DAY_S:
            yield place


def _megabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
