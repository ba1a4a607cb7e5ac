"""One column of one batch as plain numbers: ids as 64-bit keys, amounts as floats, times as UTC microseconds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Flags, Integers
from disco.records.identity import customer_keys
from disco.records.tables import Column, Kind
from disco.records.validation.text import parse_text


@dataclass(frozen=True, slots=True)
class Cells:
    """`values` mean something where `valid`; `raw` is what the retailer wrote, for the message."""

    column: Column
    raw: pa.Array
    values: NDArray[Any]  # uint64 keys | float64 | int64 µs | int64 place among the choices (-1: none of them)
    valid: Flags
    not_unicode: Flags
    unreadable: Flags
    zoned: Flags

    @property
    def missing(self) -> Flags:
        """Empty, and not because it could not be read."""
        return ~(self.valid | self.unreadable | self.not_unicode)

    def show(self, row: int) -> str:
        return shown(self.raw[row])


def shown(cell: pa.Scalar) -> str:
    """A cell for a message, at most 60 characters long."""
    if pa.types.is_timestamp(cell.type):  # Python's own times have neither nanoseconds nor years above 9999
        return f"{cell.cast(pa.timestamp(cell.type.unit)).cast(pa.string())}{' UTC' if cell.type.tz else ''}"
    value = cell.as_py()
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def is_accepted(kind: Kind, of: pa.DataType) -> bool:
    """Whether a typed column of this Arrow type can hold the kind; a column of nulls alone holds any."""
    if pa.types.is_dictionary(of):
        of = of.value_type
    if pa.types.is_null(of):
        return True
    if kind is Kind.ID:
        return bool(pa.types.is_integer(of)) or _is_text(of)
    if kind is Kind.CHOICE:
        return _is_text(of)
    if kind in (Kind.MOMENT, Kind.DAY):
        return bool(pa.types.is_timestamp(of) or pa.types.is_date(of))
    return bool(pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of))


def _is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of))


def read_cells(raw: pa.Array, column: Column, *, is_text: bool) -> Cells:
    """A column whose type `is_accepted`, or text."""
    nowhere = np.zeros(len(raw), np.bool_)
    if is_text:
        parsed = parse_text(raw, column.kind)
        values, valid = _numbers(parsed.values, column)
        return Cells(column, raw, values, valid, parsed.not_unicode, parsed.unreadable, parsed.zoned)
    typed = raw.cast(raw.type.value_type) if pa.types.is_dictionary(raw.type) else raw
    zone = pa.types.is_timestamp(typed.type) and typed.type.tz is not None
    values, valid = _numbers(typed, column)
    return Cells(column, raw, values, valid, nowhere, nowhere, ~nowhere if zone else nowhere)


def _numbers(typed: pa.Array, column: Column) -> tuple[NDArray[Any], Flags]:
    kind = column.kind
    if pa.types.is_null(typed.type):
        return _values_of_nothing(len(typed), kind), np.zeros(len(typed), np.bool_)
    if _is_text(typed.type):
        typed = typed.cast(pa.large_string())
        typed = pc.if_else(pc.equal(pc.binary_length(typed), 0), pa.scalar(None, typed.type), typed)
    elif pa.types.is_date(typed.type):
        typed = typed.cast(pa.timestamp("us"))
    valid = np.asarray(typed.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if kind is Kind.ID:
        return customer_keys(typed.fill_null("" if _is_text(typed.type) else 0), where=column.name), valid
    if kind is Kind.CHOICE:
        number = pc.index_in(typed, value_set=pa.array(column.choices, typed.type)).fill_null(-1)
    elif kind in (Kind.MOMENT, Kind.DAY):
        return _microseconds(typed.cast(pa.int64()).fill_null(0), unit=typed.type.unit), valid
    else:
        number = typed.cast(pa.float64(), safe=False).fill_null(0.0)
    return np.asarray(number.to_numpy(zero_copy_only=False)), valid


def _microseconds(ticks: pa.Array, *, unit: str) -> Integers:
    """UTC microseconds; times beyond ±146,000 years stay there instead of wrapping round into the past."""
    count = ticks.to_numpy(zero_copy_only=False)
    if unit == "ns":
        return np.asarray(count // 1000)
    factor = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return np.asarray(np.clip(count, -(2**62) // factor, 2**62 // factor) * factor)


def _values_of_nothing(rows: int, kind: Kind) -> NDArray[Any]:
    if kind is Kind.ID:
        return np.zeros(rows, np.uint64)
    return np.zeros(rows, np.float64 if kind in (Kind.MONEY, Kind.DEPTH, Kind.COUNT) else np.int64)
