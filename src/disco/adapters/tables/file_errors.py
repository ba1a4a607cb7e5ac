"""Turns what Arrow and the operating system say about a file into an error a person can act on."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from disco.records.errors import FileFormatError
from disco.records.tables import MOST_COLUMNS


def refuse_doubled(file: str, names: Sequence[str]) -> None:
    """No reader can tell two columns of one name apart."""
    for name, count in Counter(names).items():
        if count > 1:
            fix = "Remove or rename the others."
            raise FileFormatError(file, found=f"{count} columns named {name!r:.80}", expected="one", fix=fix)


def too_many_columns(file: str, found: str) -> FileFormatError:
    """The refusal of a file, whatever its kind; found: how many it has."""
    fix = "Leave out the columns that are not needed."
    return FileFormatError(file, found=f"{found} columns", expected=f"at most {MOST_COLUMNS:,}", fix=fix)


def too_many_rows(file: str, found: str, most: int) -> FileFormatError:
    """The refusal of a file of which so many rows are read at once."""
    fix = "Cut it into several files, or leave rows out."
    return FileFormatError(file, found=found, expected=f"at most {most:,}", fix=fix)


@contextmanager
def readable(file: str, *, expected: str, fix: str) -> Iterator[None]:
    """The body reads `file`; whatever goes wrong there becomes a FileFormatError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(file, found=reason[:200], expected=expected, fix=fix) from error
