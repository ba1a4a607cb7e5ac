"""`disco backup` and `disco restore`: which files of a shop go into a backup, and where they go when it is restored."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

from disco.adapters.config import FILE, load_settings
from disco.records.errors import InputError, StateError
from disco.records.files import private_folder, temporary_folder, written_whole

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.operations.backup import BackedUp, Restored


def back_up(shop: "Shop", file: Path, *, damaged: bool = False) -> "BackedUp":
    """Write database, artefacts, settings and context network of a shop to one file; others may go on writing.

    damaged: write it although rows were changed by another program; without it that is refused, so that a damaged
    backup never takes the place of the last good one.
    """
    from disco.entrypoints.outputs import check_outputs
    from disco.operations import backup
    from disco.store.copying import copy_out
    from disco.store.schema import REVISION
    from disco.store.store import open_database

    check_outputs(file, shop=shop.folder)
    with ExitStack() as stack:
        store = stack.enter_context(shop.store())  # refuses an empty database, or one of another revision
        if not damaged:
            backup.refuse_damaged_shop(store)
        tables = stack.enter_context(temporary_folder("backup"))
        database = open_database(shop.database_url)
        stack.callback(database.engine.dispose)
        copied = copy_out(database, tables)
        parts = {f"{backup.TABLES}/{path.name}": path for path in tables.iterdir()}
        for name in copied.artefacts:
            parts[f"{backup.ARTEFACTS}/{name}.arrow"] = shop.artefacts / f"{name}.arrow"
        own = {backup.SETTINGS: shop.folder / FILE, backup.NETWORK: shop.data.network_file}
        parts.update({name: path for name, path in own.items() if path.is_file()})
        return backup.pack(
            file,
            parts,
            made_at=shop.settings.locale.local(shop.clock.now()),
            revision=REVISION,
            campaigns=copied.campaigns,
            rows=copied.rows,
        )


def restore(file: Path, folder: Path) -> "Restored":
    """Make the shop of a backup in a folder that has no campaigns; everything is compared before anything is written.

    A disco.yaml or context network that is there stays. The database comes last and in one transaction: whatever
    fails before its end leaves the folder as it was.
    """
    from disco.entrypoints.python import Shop
    from disco.operations import backup
    from disco.store.copying import copy_in, refuse_used
    from disco.store.store import open_database, shown

    if folder.exists() and not folder.is_dir():
        raise InputError(f"shop {folder}", found="a file", expected="a folder, or nothing yet")
    with _undone_when_it_fails() as new, ExitStack() as stack:
        new.make_folder(folder)
        unpacked = stack.enter_context(temporary_folder("restore"))  # swept after a kill
        manifest = backup.unpack(file, unpacked)
        _refuse_another_backup(file, manifest.revision)
        own = (folder / FILE).is_file()
        shop = Shop(folder, load_settings(folder if own or not (unpacked / FILE).is_file() else unpacked))
        database = open_database(shop.database_url)
        stack.callback(database.engine.dispose)
        refuse_used(database)
        kept = []
        for name, target in ((backup.SETTINGS, folder / FILE), (backup.NETWORK, shop.data.network_file)):
            if (unpacked / name).is_file() and not new.place(unpacked / name, target):
                kept.append(str(target))
        for name in manifest.artefacts:
            new.place(unpacked / name, shop.artefacts / Path(name).name, damaged=True)
        if database.engine.dialect.name == "sqlite":
            new.expect(Path(str(database.engine.url.database)))
        copy_in(database, unpacked / backup.TABLES)
        return backup.Restored(
            shop=str(folder),
            database=shown(database.engine.url),
            made_at=shop.settings.locale.local(manifest.made_at),
            campaigns=manifest.campaigns,
            rows=manifest.rows,
            artefacts=len(manifest.artefacts),
            kept=tuple(kept),
            missing_tables=_missing_tables(shop),
        )


def _refuse_another_backup(file: Path, revision: str) -> None:
    """Refuse a backup of another revision than this program's: there is one way to upgrade, that of a database."""
    from disco.store.schema import BASELINE, REVISION
    from disco.store.store import BEFORE_BASELINE

    if revision < BASELINE:
        words = f"The backup {file} is of revision {revision}, from before the first release, which this disco cannot"
        raise StateError(f"{words} upgrade", fix=BEFORE_BASELINE)
    if revision != REVISION:
        newer = revision > REVISION
        raise StateError(
            f"The backup {file} is of revision {revision}; this disco restores {REVISION}",
            fix="Install the newer disco." if newer else "Restore it with the disco that made it, then upgrade.",
        )


def _missing_tables(shop: "Shop") -> str | None:
    """The folder of the retailer's tables, where it is none or empty; null: a database, or a folder with something."""
    place = shop.data.place
    if "://" in place or (Path(place).is_dir() and any(Path(place).iterdir())):
        return None
    return place


class _New:
    """Files and folders that were not there before."""

    def __init__(self) -> None:
        self._new: list[Path] = []

    def remove(self) -> None:
        for path in reversed(self._new):
            if path.is_dir():
                with suppress(OSError):  # somebody else uses it
                    path.rmdir()
            else:
                path.unlink(missing_ok=True)

    def make_folder(self, folder: Path) -> None:
        self._new += [path for path in (*reversed(folder.parents), folder) if not path.exists()]
        private_folder(folder)

    def expect(self, file: Path) -> None:
        """The file will be made by somebody else."""
        if not file.exists():
            self._new.append(file)

    def place(self, source: Path, target: Path, *, damaged: bool = False) -> bool:
        """Copy a file where there is none yet (or, with `damaged`, another content); whether that was so."""
        if target.exists():
            if not damaged or _hash(target) == _hash(source):
                return False
        else:
            self.make_folder(target.parent)
            self._new.append(target)
        with written_whole(target) as unfinished:
            shutil.copyfile(source, unfinished)
        return True


@contextmanager
def _undone_when_it_fails() -> Iterator[_New]:
    new = _New()
    try:
        yield new
    except BaseException:
        new.remove()
        raise


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
