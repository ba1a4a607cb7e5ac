"""Tables that lie elsewhere and are fetched once into temporary files, so that rows keep their numbers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from disco.adapters.tables.columns import NamedSource
from disco.records.errors import InputError, Problem, did_you_mean
from disco.records.files import temporary_folder
from disco.records.locale import Locale
from disco.records.tables import SCHEMAS, TableFormat


def refuse_unknown(queries: Mapping[str, str] | None) -> None:
    """InputError where a query is of no table of ours."""
    for name in queries or ():
        if name not in SCHEMAS:
            expected = f"one of {', '.join(SCHEMAS)}"
            raise InputError("queries", found=name, expected=expected, fix=did_you_mean(name, SCHEMAS))


class FetchedTables(ABC):
    """The `Tables` port over what is fetched at its first use. A context manager: its files go when it closes."""

    locale: Locale

    def __init__(self, shown: str, wanted: Mapping[str, str], *, written: TableFormat) -> None:
        """shown: the place, without secrets. wanted: what is asked for, by table."""
        if not wanted:
            raise InputError(shown, found="none of our tables", expected=f"one of {', '.join(SCHEMAS)}")
        self._shown, self._wanted = shown, dict(wanted)
        self._written, self.locale = written, written.locale
        self._opened = ExitStack()
        self._folder = self._opened.enter_context(temporary_folder("sql"))
        self._sources: dict[str, NamedSource] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown!r}: {', '.join(self.names())})"

    @abstractmethod
    def _fetch(self, name: str, wanted: str, folder: Path) -> NamedSource:
        """A table, fetched into this folder."""

    def names(self) -> tuple[str, ...]:
        return tuple(name for name in SCHEMAS if name in self._wanted)

    def scan(self, name: str) -> Any:
        """The retailer's own types."""
        return self.source(name).scan()

    def source(self, name: str) -> NamedSource:
        """The table as validation reads it."""
        if name not in self._wanted:
            found = f"only {', '.join(self.names())}"
            raise InputError(f"table {name} in {self._shown}", found=found, expected="a query or a table of that name")
        if name not in self._sources:
            self._sources[name] = self._fetch(name, self._wanted[name], self._folder)
        return self._sources[name]

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with names of files; there are none."""
        return ()

    def notes(self) -> tuple[str, ...]:
        """Nothing has to be found out about a query."""
        return ()

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> "FetchedTables":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
