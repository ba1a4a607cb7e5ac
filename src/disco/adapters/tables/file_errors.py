"""Turns what Arrow and the operating system say about a file into an error a person can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from disco.records.errors import FileFormatError


@contextmanager
def readable(file: str, *, expected: str, fix: str) -> Iterator[None]:
    """The body reads `file`; whatever goes wrong there becomes a FileFormatError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(file, found=reason[:200], expected=expected, fix=fix) from error
