"""Content as one hash: of a table, whatever file, chunks or width of text it came in, and of the bytes of a file."""

from hashlib import file_digest, sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.table_rows import TableRows

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
