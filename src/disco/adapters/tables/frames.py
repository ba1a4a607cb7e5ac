"""Tables in data frames, whatever library they are of."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from disco.adapters.tables.columns import ArrowSource
from disco.records.errors import InputError, Problem, did_you_mean
from disco.records.frames import as_arrow
from disco.records.locale import Locale
from disco.records.tables import PLAIN, SCHEMAS, TableFormat


class FrameTables:
    """The `Tables` port over data frames by name, which are read by the rules of files."""

    locale: Locale

    def __init__(self, frames: Mapping[str, Any], *, written: TableFormat = PLAIN) -> None:
        self.locale = written.locale
        for name in frames:
            if name not in SCHEMAS:
                expected = f"tables named {', '.join(SCHEMAS)}"
                raise InputError("tables", found=repr(name), expected=expected, fix=did_you_mean(str(name), SCHEMAS))
        if not frames:
            raise InputError("tables", found="none", expected=f"data frames by name: {', '.join(SCHEMAS)}")
        self._sources = {
            name: ArrowSource(name, as_arrow(frames[name], where=f"table {name}"), file=name, written=written)
            for name in SCHEMAS
            if name in frames
        }

    def __repr__(self) -> str:
        return f"FrameTables({', '.join(self.names())})"

    def names(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def source(self, name: str) -> ArrowSource:
        if name not in self._sources:
            raise InputError(f"table {name}", found=f"only {', '.join(self.names())}", expected="a data frame of it")
        return self._sources[name]

    def scan(self, name: str) -> pads.Dataset | pa.Table:
        return self.source(name).scan()

    def problems(self) -> tuple[Problem, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return tuple(note for source in self._sources.values() for note in source.notes())

    def __enter__(self) -> "FrameTables":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""
