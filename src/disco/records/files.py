"""Results that appear whole or not at all: the one way to write a file that somebody may be reading."""

import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from disco.records.errors import InputError
from disco.records.private import new_file_mode, temporary_folder, unfinished_file

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
    A new file is its owner's alone (`records.private`); one that is replaced keeps its mode. A symbolic link stays one,
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
