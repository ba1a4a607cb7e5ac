"""Files and folders that are their owner's alone, and what killed processes left of theirs.

Modes do not depend on the umask: files 0600, folders 0700. In a folder that its owner shares with a group and with
nobody else (such as mode 2770), they are 0660 and 0770, so that colleagues can share one folder of artefacts. What is
there already keeps its mode.

Whoever writes an unfinished file or folder, or uses a temporary one, holds a lock on it, which the system releases when
the process ends, however it ends. A leftover that nobody holds a lock on is removed by the next process that makes one
in the same place. Only names that this file makes, owned by this user, are ever looked at.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from disco.records.errors import InputError

_FILE, _FOLDER = 0o600, 0o700
_SHARED_FILE, _SHARED_FOLDER = 0o660, 0o770
_PARTIAL = re.compile(r"\.disco-[a-z0-9_]{8}\.partial")
_LOCK = ".lock"
_TEMPORARY = re.compile(rf"[a-z]+-[a-z0-9_]{{8}}({re.escape(_LOCK)})?")


def new_file_mode(folder: Path) -> int:
    """The mode of a new file in this folder."""
    return _SHARED_FILE if _is_shared(folder) else _FILE


def private_folder(path: Path) -> None:
    """Make a folder and its missing parents, each its owner's alone; those that exist are left as they are."""
    if path.is_dir():
        return
    if path.parent != path:
        private_folder(path.parent)
    try:
        path.mkdir(_FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:  # the umask may have taken bits away
        path.chmod(_SHARED_FOLDER if _is_shared(path.parent) else _FOLDER)


def _is_shared(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0o070


@contextmanager
def unfinished_file(folder: Path) -> Iterator[Path]:
    """A new file in this folder, mode 0600; removed at the end, unless the caller gave it another name.

    Its name cannot be guessed, no planted link is followed, and two processes never share one.
    """
    sweep_unfinished(folder)
    descriptor, name = _locked_file(folder, prefix=".disco-", suffix=".partial")
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """A new folder in this one, mode 0700; removed at the end with all that is in it, unless the caller renamed it."""
    sweep_unfinished(folder)
    descriptor, name = _locked_folder(folder)
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """A new folder below the one that this user's temporary folders share; it is gone after the block.

    purpose: a word, the beginning of its name.
    """
    sweep_temporary()
    descriptor, lock = _locked_file(_temporary_root(), prefix=f"{purpose}-", suffix=_LOCK)
    folder = Path(lock.removesuffix(_LOCK))
    try:
        folder.mkdir(_FOLDER)
        folder.chmod(_FOLDER)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        Path(lock).unlink(missing_ok=True)
        os.close(descriptor)


def leftovers(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Temporary folders, and what is unfinished in these folders, of processes that have ended."""
    return (*temporary_leftovers(), *(path for folder in folders for path in unfinished_leftovers(folder)))


def sweep(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Remove leftovers of processes that have ended; what was removed."""
    return (*sweep_temporary(), *(path for folder in folders for path in sweep_unfinished(folder)))


def unfinished_leftovers(folder: Path) -> tuple[Path, ...]:
    """Unfinished files and folders of processes that have ended."""
    named = sorted(_ours(folder, _PARTIAL))
    return tuple(path for path in named if (path.is_file() or path.is_dir()) and _is_abandoned(path))


def temporary_leftovers() -> tuple[Path, ...]:
    """Temporary folders of processes that have ended."""
    folders = {path.with_name(path.name.removesuffix(_LOCK)) for path in _ours(_temporary_root(), _TEMPORARY)}
    locks = {folder: folder.with_name(folder.name + _LOCK) for folder in sorted(folders)}
    # the lock is made before its folder and removed after it
    return tuple(folder for folder, lock in locks.items() if not lock.exists() or _is_abandoned(lock))


def sweep_unfinished(folder: Path) -> tuple[Path, ...]:
    """Remove unfinished files and folders of processes that have ended; what was removed."""
    swept = unfinished_leftovers(folder)
    for path in swept:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return swept


def sweep_temporary() -> tuple[Path, ...]:
    """Remove temporary folders of processes that have ended; what was removed."""
    swept = temporary_leftovers()
    for folder in swept:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(folder.name + _LOCK).unlink(missing_ok=True)
    return swept


def _temporary_root() -> Path:
    """The folder of this user's temporary folders; refused where somebody else made it."""
    root = Path(tempfile.gettempdir()) / f"disco-{os.geteuid()}"
    with suppress(FileExistsError):
        root.mkdir(_FOLDER)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise InputError(
            f"{root} belongs to another user or is no folder, so temporary files are not safe there",
            fix="Set TMPDIR to a folder of your own, or ask its owner to remove it.",
        )
    if stat.S_IMODE(found.st_mode) != _FOLDER:
        root.chmod(_FOLDER)
    return root


def _locked_file(folder: Path, *, prefix: str, suffix: str) -> tuple[int, str]:
    """(descriptor, name) of a new file that we hold the lock of."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
        os.fchmod(descriptor, _FILE)
        if _take_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # somebody who sweeps was faster than the lock


def _locked_folder(folder: Path) -> tuple[int, Path]:
    """(descriptor, path) of a new folder that we hold the lock of."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=".disco-", suffix=".partial", dir=folder))
        with suppress(FileNotFoundError):  # somebody who sweeps was faster
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            if _take_lock(descriptor) and path.is_dir():
                return descriptor, path
            os.close(descriptor)


def _take_lock(descriptor: int) -> bool:
    """Whether nobody else holds it; also true on a file system without locks, where nothing is ever swept."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _is_abandoned(path: Path) -> bool:
    """Whether the process that made this file has ended: its lock can be taken."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or a file system without locks
        return False
    finally:
        os.close(descriptor)
    return True


def _ours(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Entries with such a name that are no links and belong to this user."""
    try:
        with os.scandir(folder) as entries:
            named = [entry for entry in entries if name.fullmatch(entry.name) and not entry.is_symlink()]
            return [Path(one.path) for one in named if one.stat(follow_symlinks=False).st_uid == os.geteuid()]
    except OSError:  # no such folder, or not to be read; or an entry that went away meanwhile: next time
        return []
