"""Files and folders: written whole or not at all, their owner's alone, swept when a process was killed, with room."""

import errno
import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from disco.records.errors import InputError

# ---- files that appear whole or not at all: the one way to write a file that somebody may be reading


_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_MOST_LINKS = 40  # as the kernel follows


@dataclass(frozen=True, slots=True)
class Protected:
    """A file or folder that an output must leave alone."""

    path: Path
    what: str
    """Completes the sentence "FILE is …", or "FILE lies in …" for what is inside a folder."""
    inside: bool = False
    """Everything below `path` is protected too."""


def check_place(path: Path, *, protected: Iterable[Protected] = ()) -> None:
    """Refuse a name that no file can have, or that is protected, before the work is done."""
    if _stream(path) is not None:
        return
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise InputError(f"The symbolic link {path} leads in a circle", fix="Name another file for the output.")
    if target.is_dir():
        raise InputError(str(path), found="a folder", expected="the name of a file")
    if not target.parent.is_dir():
        raise InputError(str(path), found=f"no folder {target.parent}", expected="a folder that exists")
    if _is_special(target):
        return
    for one in protected:
        place = Path(os.path.realpath(one.path))
        if target == place:
            fix = "Name another file for the output."
            raise InputError(f"{path} is {one.what}, and an output must not replace it", fix=fix)
        if one.inside and place in target.parents:
            fix = "Name a file outside that folder for the output."
            raise InputError(f"{path} lies in {one.what}, and an output must not change that", fix=fix)


@contextmanager
def written_whole(path: Path, *, name: Callable[[], str] | None = None) -> Iterator[Path]:
    """A name to write under; its content becomes `path` when the body succeeds, and is removed otherwise.

    name: of the file in the folder of `path`, where it depends on the content; asked for at the end.

    What was written has reached the disk before it takes the name, so a crash leaves the old file or the new one.
    A new file is its owner's alone (`records.files`); one that is replaced keeps its mode. A symbolic link stays one,
    and the file it points to is replaced. A device, FIFO or socket is never replaced: the finished content is written
    into it.
    """
    check_place(path)
    target, through = Path(os.path.realpath(path)), _stream(path) is not None or _is_special(path)
    partial = None
    try:
        with ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("output")) if through else target.parent
            partial = stack.enter_context(unfinished_file(folder))
            yield partial
            if through:
                with partial.open("rb") as content, _opened(path) as sink:
                    shutil.copyfileobj(content, sink)
                return
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            if name is not None:
                target = target.with_name(name())
            partial.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else new_file_mode(target.parent))
            os.replace(partial, target)
    except OSError as error:
        ours = partial is None or error.filename in (None, str(partial), str(path))
        if error.errno is None or not ours:
            raise  # about something else that the body read or wrote
        reason = error.strerror or str(error)
        raise InputError(str(path), found=reason, expected="a place that can be written") from None


def _stream(path: Path) -> int | None:
    """The descriptor that a name such as /dev/stdout stands for; None for any other name.

    It may be a pipe, a socket or a file that the shell appends to: only the descriptor itself writes to all of them.
    """
    for _ in range(_MOST_LINKS):
        name = os.path.abspath(path)
        if name in _STREAMS:
            return _STREAMS[name]
        if found := _DESCRIPTOR.fullmatch(name):
            return int(found[1])
        if not os.path.islink(name):
            return None
        path = Path(name).parent / os.readlink(name)
    return None


def _is_special(path: Path) -> bool:
    """Something is there that is neither a regular file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A stream, device, FIFO or socket, ready to be written to."""
    descriptor = _stream(path)
    if descriptor is None and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            with peer.makefile("wb") as sink:
                yield sink
        return
    with os.fdopen(os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor), "wb") as sink:
        yield sink


# ---- files and folders that are their owner's alone, and what killed processes left of theirs
#
# Modes do not depend on the umask: files 0600, folders 0700. In a folder that its owner shares with a group and with
# nobody else (such as mode 2770), they are 0660 and 0770, so that colleagues can share one folder of artefacts. What is
# there already keeps its mode.
#
# Whoever writes an unfinished file or folder, or uses a temporary one, holds a lock on it, which the system releases
# when the process ends, however it ends. A leftover that nobody holds a lock on is removed by the next process that
# makes one in the same place. Only names that this part makes, owned by this user, are ever looked at.


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
    return _removed(unfinished_leftovers(folder))


def sweep_temporary() -> tuple[Path, ...]:
    """Remove temporary folders of processes that have ended; what was removed."""
    return _removed(temporary_leftovers())


def _removed(left: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        path.with_name(path.name + _LOCK).unlink(missing_ok=True)  # of a temporary folder
    return left


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


# ---- whether the disks have room for what a long piece of work will write; asked before the work


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
