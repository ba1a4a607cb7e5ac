"""Large tables of Arrow, wherever they lie: read a column or a few rows at a time, and hashed by their content."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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


# ---- content as one hash: of a table, whatever file, chunks or width of text it came in, and of a file's bytes


NAME_LENGTH = 32  # hexadecimal digits of a hash in the name of a file: 128 bits


def content_hash(table: TableRows) -> str:
    """SHA-256 of column names, kinds, values and nulls, in their order. One column is in memory at a time.

    >>> whole = pa.table({"x": ["a", None, "b"]})
    >>> content_hash(whole) == content_hash(pa.concat_tables([whole[:1], whole[1:]]))
    True
    >>> content_hash(whole) == content_hash(whole[::-1])
    False
    """
    digest = sha256(f"{table.num_rows}".encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.combine_chunks()
        kind, parts = _parts(values)
        digest.update(f"\x1f{name}\x1f{kind}\x1f".encode())
        digest.update(np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
        for part in parts:
            digest.update(part)
    return digest.hexdigest()


def bytes_hash(path: Path) -> str:
    """SHA-256 of the bytes of a file, as it stands in names."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:NAME_LENGTH]


def _parts(values: pa.Array) -> tuple[str, list[bytes | memoryview]]:
    """What a column is called whatever its width, and the bytes of its values with nulls filled."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _parts(values.cast(kind.value_type))
    if pa.types.is_null(kind):
        return "null", []
    if pa.types.is_boolean(kind):
        return "truth", [_bytes(values.cast(pa.uint8()), 0)]
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "integer", [_bytes(values.cast(pa.int64()), 0)]
    if pa.types.is_floating(kind):
        return "number", [_bytes(values.cast(pa.float64()), 0.0)]
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns"):
        try:
            return "moment", [_bytes(values.cast(pa.timestamp("us")).cast(pa.int64()), 0)]
        except pa.ArrowInvalid:  # a moment that no microseconds can count: its own unit and ticks
            ticks = values.cast(pa.int32()) if pa.types.is_date32(kind) else values
            return str(kind), [_bytes(ticks.cast(pa.int64()), 0)]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):  # text of which a cell is not UTF-8
        texts = pc.fill_null(values.cast(pa.large_binary()), b"")
    else:
        texts = pc.fill_null(values.cast(pa.large_string()), "")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8) if len(texts) else np.zeros(1, np.int64)
    letters = b"" if data is None else data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
    return "text", [np.diff(ends).tobytes(), letters]


def _bytes(values: pa.Array, filler: float) -> memoryview:
    """Of the values, without a copy of them."""
    return np.ascontiguousarray(pc.fill_null(values, filler).to_numpy(zero_copy_only=False)).data
