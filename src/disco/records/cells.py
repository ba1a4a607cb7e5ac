"""One column of one batch, read: text is parsed, typed columns are taken as they are; what cannot be read is flagged.

A column of text is read alike wherever it comes from: cells of a CSV file (bytes), of a database, of a Parquet file.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Flags, Integers
from disco.records.identity import customer_keys
from disco.records.locale import Locale
from disco.records.money import minor_units
from disco.records.tables import ColumnSchema, Kind


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a batch. `typed` and `values` mean something where `valid`."""

    column: ColumnSchema
    raw: pa.Array  # what the retailer wrote, for the message
    typed: pa.Array  # ids: text or integers; money, depths, counts: numbers; times: UTC where `zoned`, else local
    values: NDArray[Any]  # float64 | int64 µs of the wall clock | int64 place among the choices (-1: none); no ids
    valid: Flags
    not_unicode: Flags
    unreadable: Flags
    zoned: Flags  # times that name their zone
    locale: Locale  # of the shop

    @property
    def missing(self) -> Flags:
        """Empty, and not because it could not be read."""
        return ~(self.valid | self.unreadable | self.not_unicode)

    def show(self, row: int) -> str:
        return shown(self.raw[row])

    def comparable(self) -> NDArray[Any]:
        """What keys and references compare: 64-bit keys of ids, minor units of money, else `values`."""
        if self.column.kind is Kind.ID:
            empty = "" if is_text(self.typed.type) else 0
            typed = self.typed.cast(pa.int64(), safe=False) if pa.types.is_uint64(self.typed.type) else self.typed
            return customer_keys(typed.fill_null(empty), where=self.column.name)
        if self.column.kind is Kind.MONEY:
            return np.asarray(minor_units(self.typed, self.locale.currency).fill_null(0).to_numpy(zero_copy_only=False))
        return self.values

    def canonical(self, good: Flags) -> pa.Array:
        """The column in the type `Kind.canonical` names, with null where `good` is false."""
        kind = self.column.kind
        if kind is Kind.MONEY:
            values = minor_units(self.typed, self.locale.currency)
        elif kind is Kind.MOMENT:
            instants = self.values
            if not self.locale.is_utc:
                instants = np.where(self.zoned, microseconds(self.typed), self.locale.instants(self.values))
            values = pa.array(instants).cast(kind.canonical, safe=False)
        elif kind is Kind.DAY:
            values = pa.array(self.values).cast(pa.timestamp("us", "UTC")).cast(kind.canonical, safe=False)
        elif kind is Kind.DEPTH:
            values = pc.round(pa.array(self.values), ndigits=6)  # a 32-bit 0.2 is 0.2, not 0.20000000298
        elif kind is Kind.COUNT:
            values = pa.array(np.where(good, self.values, 0.0).astype(np.int64))
        else:
            values = self.typed.cast(kind.canonical)
        return values if good.all() else pc.if_else(pa.array(good), values, pa.scalar(None, values.type))


_LONGEST_SHOWN = 60  # characters of a cell in a message


def shown(cell: pa.Scalar) -> str:
    """A cell for a message, at most 60 characters long."""
    cell = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
    text = cell_texts(pa.array([cell], cell.type), most=8 * _LONGEST_SHOWN)[0]
    if text is None:
        return "None"
    if is_text(cell.type) or is_bytes(cell.type):
        text = repr(text).replace("\\\\x", "\\x")  # bytes that are no text are written out once
    elif pa.types.is_timestamp(cell.type) and cell.type.tz:
        text = f"{text} UTC"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def cell_texts(column: pa.Array, *, most: int | None = None) -> list[str | None]:
    """Every cell as text, also what Python has no value for: bytes that are not UTF-8, times without a year.

    most: bytes of a cell that are kept; what was cut off ends in an ellipsis.
    """
    if pa.types.is_timestamp(column.type):  # times are UTC here, whatever zone the column names
        column = column.cast(pa.timestamp(column.type.unit))
    elif pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_ready = is_bytes(column.type) or (is_text(column.type) and not pa.types.is_string_view(column.type))
    texts = column if is_ready else column.cast(pa.string())
    is_cut = [False] * len(texts)
    if most is not None:
        is_cut = pc.fill_null(pc.greater(pc.binary_length(texts), most), False).to_pylist()
        texts = pc.binary_slice(texts.cast(pa.large_binary()), 0, most)
    cells = texts.cast(pa.large_binary()).to_pylist()
    return [
        None if cell is None else cell.decode(errors="backslashreplace") + ("…" if cut else "")
        for cell, cut in zip(cells, is_cut, strict=True)
    ]


def is_accepted(kind: Kind, arrow_type: pa.DataType) -> bool:
    """Whether a column of this Arrow type can hold the kind. Text and all-null columns always can."""
    arrow_type = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    if pa.types.is_null(arrow_type) or is_text(arrow_type):
        return True
    if kind is Kind.ID:
        return bool(pa.types.is_integer(arrow_type))
    if kind is Kind.CHOICE:
        return False
    if kind in (Kind.MOMENT, Kind.DAY):
        return bool(pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type))
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type))


def is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of))


def is_bytes(of: pa.DataType) -> bool:
    return bool(pa.types.is_binary(of) or pa.types.is_large_binary(of))


def plain_text(cells: pa.Array) -> pa.Array:
    """Text as strings of one width; as its bytes where some are not UTF-8, which Arrow itself does not check."""
    cells = cells.cast(pa.string()) if pa.types.is_string_view(cells.type) else cells
    bytes_ = cells.cast(pa.large_binary() if pa.types.is_large_string(cells.type) else pa.binary())
    try:
        return bytes_.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8, or more than 2 GB in one array
        return bytes_


def plain_column(given: pa.Array) -> pa.Array:
    """A column without a dictionary, its text as `plain_text` gives it."""
    given = given.cast(given.type.value_type) if pa.types.is_dictionary(given.type) else given
    return plain_text(given) if is_text(given.type) else given


def read_cells(raw: pa.Array, column: ColumnSchema, locale: Locale) -> Cells:
    """A column whose type `is_accepted`; text may come as its bytes. locale: of times without a zone, and of money."""
    no_flags = np.zeros(len(raw), np.bool_)
    typed = raw.cast(raw.type.value_type) if pa.types.is_dictionary(raw.type) else raw
    if is_text(typed.type) or is_bytes(typed.type):
        parsed = parse_text(typed, column.kind)
        typed, not_unicode, unreadable, zoned = parsed.values, parsed.not_unicode, parsed.unreadable, parsed.zoned
    else:
        not_unicode = unreadable = no_flags
        zoned = ~no_flags if pa.types.is_timestamp(typed.type) and typed.type.tz is not None else no_flags
    if pa.types.is_null(typed.type):
        typed = typed.cast(TYPED[column.kind])
    if column.choices:
        typed = pc.utf8_lower(typed)
    valid = flags(typed.is_valid())
    values = _values(typed, column)
    if column.before_as_of and not locale.is_utc and zoned.any():
        values = np.where(zoned, locale.wall_clock(values), values)
    return Cells(column, raw, typed, values, valid, not_unicode, unreadable, zoned, locale)


def _values(typed: pa.Array, column: ColumnSchema) -> NDArray[Any]:
    kind = column.kind
    if kind is Kind.ID:
        return np.empty(0)
    if kind is Kind.CHOICE:
        number = pc.index_in(typed, value_set=pa.array(column.choices, typed.type)).fill_null(-1).cast(pa.int64())
    elif kind in (Kind.MOMENT, Kind.DAY):
        return microseconds(typed)
    else:
        number = typed.cast(pa.float64(), safe=False).fill_null(0.0)
    return np.asarray(number.to_numpy(zero_copy_only=False))


_MICROSECONDS = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1000, "us": 1}


def microseconds(moments: pa.Array) -> Integers:
    """Dates or times as microseconds since 1970, null as 0; what lies beyond ±146,000 years stays there instead of
    wrapping round into the past."""
    kind = moments.type
    unit = "day" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    ticks = moments.cast(pa.int32()).cast(pa.int64()) if unit == "day" else moments.cast(pa.int64())
    count = ticks.fill_null(0).to_numpy(zero_copy_only=False)
    if unit == "ns":
        return np.asarray(count // 1000)
    factor = _MICROSECONDS[unit]
    return np.asarray(np.clip(count, -(2**62) // factor, 2**62 // factor) * factor)


def by_wall_clock(moments: pa.ChunkedArray, locale: Locale) -> pa.ChunkedArray:
    """Times that name a zone as times of the shop without one, so that they lie in its days; others as they are."""
    if not pa.types.is_timestamp(moments.type) or moments.type.tz is None or locale.is_utc:
        return moments
    given = moments.combine_chunks()
    local = pa.array(locale.wall_clock(microseconds(given)), mask=given.is_null().to_numpy(zero_copy_only=False))
    return pa.chunked_array([local.cast(pa.timestamp("us"))])


# the types that text is read into; times are UTC where the text names a zone, else of the shop's wall clock
TYPED = {
    Kind.ID: pa.string(),
    Kind.MONEY: pa.float64(),
    Kind.DEPTH: pa.float64(),
    Kind.COUNT: pa.float64(),
    Kind.MOMENT: pa.timestamp("us"),
    Kind.DAY: pa.timestamp("us"),
    Kind.CHOICE: pa.string(),
}

# what a message says was expected; also stored as the reason of a rejected outcome, so reword rarely
READABLE = {
    Kind.MONEY: "a number such as 12.50",
    Kind.DEPTH: "a number such as 0.20",
    Kind.COUNT: "a whole number",
    Kind.MOMENT: "a time such as 2026-03-01T14:05:00",
    Kind.DAY: "a date such as 2026-03-01",
}

_SHAPE = {
    Kind.MONEY: r"^-?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[nN][aA][nN]|[iI][nN][fF])$",
    Kind.MOMENT: r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([ T][0-2]\d(:?[0-5]\d){0,2}(\.\d{1,6})?(Z|[+-]\d{2}(:?\d{2})?)?)?$",
}
_SHAPE |= {Kind.DEPTH: _SHAPE[Kind.MONEY], Kind.COUNT: _SHAPE[Kind.MONEY], Kind.DAY: _SHAPE[Kind.MOMENT]}
_ZONE = r"[ T]\d{2}(:?\d{2})*(\.\d+)?(Z|[+-]\d{2}(:?\d{2})?)$"
_TIME_REWRITES = (  # ways to write a time that databases use and Arrow does not read
    (r"(\.\d{6})\d+", r"\1"),
    (r"(\d) +(Z|UTC|[+-]\d{2})", r"\1\2"),
    (r"(\d)UTC$", r"\1Z"),
)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A column of text, read: null where a cell was empty or could not be read."""

    values: pa.Array
    not_unicode: Flags
    unreadable: Flags
    zoned: Flags  # times that name their zone


def parse_text(cells: pa.Array, kind: Kind) -> ParsedText:
    """Text (or its bytes) to the type of `kind`; empty cells are null.

    >>> parsed = parse_text(pa.array(["12.5", "a lot", ""]), Kind.MONEY)
    >>> parsed.values.to_pylist(), parsed.unreadable.tolist()
    ([12.5, None, None], [False, True, False])
    """
    text, not_unicode = _decoded(cells)
    if kind is not Kind.ID:
        text = pc.utf8_trim_whitespace(text)
    empty = pc.equal(pc.binary_length(text), 0)
    if pc.any(empty).as_py():
        text = pc.if_else(empty, pa.scalar(None, text.type), text)
    no_flags = np.zeros(len(text), np.bool_)
    if kind in (Kind.ID, Kind.CHOICE):
        return ParsedText(text, not_unicode, no_flags, no_flags)
    if kind in (Kind.MOMENT, Kind.DAY):
        values, zoned = _moments(text, kind)
    else:
        values, zoned = _cast_where_possible(text, TYPED[kind], _SHAPE[kind]), no_flags
    return ParsedText(values, not_unicode, flags(pc.and_(text.is_valid(), values.is_null())), zoned)


def _moments(text: pa.Array, kind: Kind) -> tuple[pa.Array, Flags]:
    try:
        return text.cast(TYPED[kind]), np.zeros(len(text), np.bool_)  # succeeds only if no cell names a zone
    except pa.ArrowInvalid:
        pass  # some cell names a zone, uses another notation, or is not a time
    for pattern, replacement in _TIME_REWRITES:
        text = pc.replace_substring_regex(text, pattern, replacement)
    named = pc.fill_null(pc.match_substring_regex(text, _ZONE), False)
    none = pa.scalar(None, text.type)
    local = _cast_where_possible(pc.if_else(named, none, text), TYPED[kind], _SHAPE[kind])
    zoned = _cast_where_possible(pc.if_else(named, text, none), pa.timestamp("us", "UTC"), _SHAPE[kind])
    return pc.coalesce(local, zoned.cast(TYPED[kind])), flags(named)


def _cast_where_possible(text: pa.Array, target: pa.DataType, shape: str) -> pa.Array:
    """Null where the cast fails. The shape sorts out most failures at once; the rest is found by halving."""
    try:
        return text.cast(target)
    except pa.ArrowInvalid:
        fitting = pc.match_substring_regex(text, shape)
        return _halved(pc.if_else(fitting, text, pa.scalar(None, text.type)), target)


def _halved(text: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return text.cast(target)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, target)
        middle = len(text) // 2
        return pa.concat_arrays([_halved(text[:middle], target), _halved(text[middle:], target)])


def _decoded(cells: pa.Array) -> tuple[pa.Array, Flags]:
    text = plain_text(cells)
    if is_text(text.type):
        return text, np.zeros(len(cells), np.bool_)
    broken = np.array([not _is_unicode(cell) for cell in text.to_pylist()], np.bool_)  # in this batch, cell by cell
    kept = pc.if_else(pa.array(broken), pa.scalar(None, text.type), text)
    return kept.cast(pa.string()), broken


def _is_unicode(cell: bytes | None) -> bool:
    try:
        return cell is None or cell.decode() is not None
    except UnicodeDecodeError:
        return False


def flags(mask: Any) -> Flags:
    """An Arrow column of booleans as a NumPy array; null is false."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), np.bool_)
