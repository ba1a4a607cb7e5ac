"""Results that appear whole or not at all: the one way this house writes a file somebody may be reading."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from disco.records.errors import InputError


def check_place(path: Path) -> None:
    """Refuse a name that no file can have, before the work is done."""
    if path.is_dir():
        raise InputError(str(path), found="a folder", expected="the name of a file")
    if not path.parent.is_dir():
        raise InputError(str(path), found=f"no folder {path.parent}", expected="a folder that exists")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write under; it becomes `path` when the body ends well and goes away when it does not.

    What was written has reached the disk before it takes the name, so a crash leaves the old file or the new one.
    """
    check_place(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial)):
            raise  # about something else that the body read or wrote
        reason = error.strerror or str(error)
        raise InputError(str(path), found=reason, expected="a place that can be written") from None
    finally:
        partial.unlink(missing_ok=True)
