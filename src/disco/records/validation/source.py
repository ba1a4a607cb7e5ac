"""Where a table's rows come from while it is checked: batches in row order, and the way back from a row to its file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from disco.records.errors import Problem


class Source(Protocol):
    """One table. Typed sources carry Arrow types that are checked; text sources (CSV, SQL) carry cells to be parsed."""

    @property
    def name(self) -> str:
        """The table: customers, orders, …"""

    @property
    def file(self) -> str:
        """What problems call it."""

    @property
    def is_text(self) -> bool: ...

    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those columns, in row order; may be asked for more than once."""

    def place(self, row: int) -> tuple[str, int]:
        """(file, row from 1) of the row that came as number `row`, counted from 0, out of `batches`."""

    def problems(self) -> tuple[Problem, ...]:
        """What the reader itself found on the way, such as ragged rows; complete once `batches` has been read."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A typed table in memory."""

    name: str
    table: pa.Table
    file: str

    @property
    def is_text(self) -> bool:
        return False

    def schema(self) -> pa.Schema:
        return self.table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.table.select(list(columns)).to_batches(max_chunksize=1 << 17))

    def place(self, row: int) -> tuple[str, int]:
        return self.file, row + 1

    def problems(self) -> tuple[Problem, ...]:
        return ()
