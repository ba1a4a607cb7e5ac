"""What every reader of tables needs: which column is which of ours, and refusals of files in words.

A column is ours by the setting `columns`, or by its name, whatever its case.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa

from disco.records.errors import FileFormatError, Problem
from disco.records.refusals import did_you_mean, listed
from disco.records.table_rules import named_in_file
from disco.records.tables import MOST_COLUMNS, SCHEMAS, TableFormat


def matched_columns(table: str, given: Sequence[str], *, written: TableFormat, file: str) -> dict[str, str]:
    """Our name → the file's, for every column of the file, in its order; further columns keep their own names.

    given: the names in the file, each once.
    written: what the shop calls them (the setting `columns`).

    A column that has one of our names, while the setting gives that name to another one, is left out.

    >>> german = TableFormat(columns={"returns": {"returned_at": "datum"}})
    >>> matched_columns("returns", ["Order_ID", "Datum", "note"], written=german, file="x.csv")
    {'order_id': 'Order_ID', 'returned_at': 'Datum', 'note': 'note'}
    """
    own_names, other_names = written.own_names(table), written.other_names(table)
    theirs: dict[str, str] = {}  # the file's name → ours
    for ours, name in own_names.items():
        theirs[_found(ours, name, given, table=table, file=file)] = ours
    for column in SCHEMAS[table].columns:
        if column.name in own_names:
            continue
        left = [name for name in given if name not in theirs]
        names = [name for name in (column.name, other_names.get(column.name), column.instead) if name]
        named = next((found for name in names if (found := alike(name, left))), [])
        if len(named) > 1:
            raise FileFormatError(
                file,
                found=f"{' and '.join(named)}, which differ in their case only",
                expected=f"one column {column.name}",
                fix=f"Say which one it is in disco.yaml: `columns: {{{table}: {{{column.name}: {named[0]}}}}}`.",
            )
        if named:
            theirs[named[0]] = column.name
    taken = set(own_names)
    return {theirs.get(name, name): name for name in given if name in theirs or name not in taken}


class NamedSource(ABC):
    """A table whose columns may have the shop's own names: what `table_rules.Source` asks of every reader alike."""

    has_bytes = False

    def __init__(self, name: str, *, file: str, written: TableFormat) -> None:
        self.name, self.file = name, file
        self._written, self.locale = written, written.locale

    @property
    @abstractmethod
    def _given(self) -> pa.Schema:
        """The columns as they are called where they come from."""

    @cached_property
    def _columns(self) -> dict[str, str]:
        """Our name → the file's."""
        names = self._given.names
        refuse_doubled(self.file, names)
        return matched_columns(self.name, names, written=self._written, file=self.file)

    def schema(self) -> pa.Schema:
        columns = self._columns.items()  # first: two columns of one name have no field by that name
        return pa.schema([named_in_file(self._given.field(theirs).with_name(ours), theirs) for ours, theirs in columns])

    def notes(self) -> tuple[str, ...]:
        """What was found in the file without being told."""
        own = self._written.own_names(self.name)
        other = [f"{theirs} is {ours}" for ours, theirs in self._columns.items() if ours != theirs and ours not in own]
        return (f"{self.file}: {', '.join(other)}",) if other else ()

    def problems(self) -> tuple[Problem, ...]:
        """What reading has found; nothing where rows cannot be ragged."""
        return ()

    def advice(self, column: str, kind: str) -> str | None:
        """What to do about a problem, where a setting may solve it: none is about other files than CSV."""
        return None


def alike(name: str, given: Sequence[str]) -> list[str]:
    """The names that are this one: exactly, or else whatever their case and the spaces around them."""
    if name in given:
        return [name]
    return [other for other in given if other.strip().casefold() == name.strip().casefold()]


def _found(ours: str, name: str, given: Sequence[str], *, table: str, file: str) -> str:
    named = alike(name, given)
    if len(named) == 1:
        return named[0]
    found, meant = f"no column {name} (the file has {listed(given)})", did_you_mean(name, given)
    if named:
        found, meant = f"{' and '.join(named)}, which differ in their case only", None
    fix = meant or "Correct the setting, or remove that line."
    expected = f"the column that `columns.{table}.{ours}` in disco.yaml names"
    raise FileFormatError(file, found=found, expected=expected, fix=fix)


# ---- what Arrow and the operating system say about a file, as errors that a person can act on


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
