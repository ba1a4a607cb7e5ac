"""A large table that is read a column or a few rows at a time, wherever it lies."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class TableRows(Protocol):
    """As much of a `pyarrow.Table` as large tables are asked for; one in a file (`features.files.FeatureFile`) has it
    too, without ever being in memory as a whole."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def column_names(self) -> list[str]: ...

    @property
    def columns(self) -> Iterable[pa.ChunkedArray]:
        """One after the other, in their order."""

    def __getitem__(self, name: str) -> pa.ChunkedArray: ...

    def to_batches(self) -> Iterable[pa.RecordBatch]:
        """All rows, in their order."""


def columns_of(scan: Any, names: Sequence[str]) -> pa.Table:
    """These columns of a table in memory or of a dataset (`Tables.scan`), read into memory."""
    return scan.select(names) if isinstance(scan, pa.Table) else scan.to_table(columns=list(names))


def in_pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows as tables of exactly so many, the last one shorter; each column of a table is one array.

    >>> parts = pa.table({"x": [1, 2, 3, 4, 5]}).to_batches(max_chunksize=2)
    >>> [piece["x"].to_pylist() for piece in in_pieces(parts, 3)]
    [[1, 2, 3], [4, 5]]
    """
    held: list[pa.RecordBatch] = []
    waiting = 0
    for batch in batches:
        at = 0
        while waiting + batch.num_rows - at >= rows:
            until = at + rows - waiting
            yield pa.Table.from_batches([*held, batch.slice(at, until - at)]).combine_chunks()
            held, waiting, at = [], 0, until
        if at < batch.num_rows:
            held.append(batch.slice(at))
            waiting += batch.num_rows - at
    if held:
        yield pa.Table.from_batches(held).combine_chunks()
