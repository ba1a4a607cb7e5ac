"""Cells that come as text (CSV, SQL) become typed values; what cannot be read is flagged, never dropped."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags
from disco.records.tables import Kind

# the types that text is read into; times are UTC, whether or not the text said so
TYPED = {
    Kind.ID: pa.string(),
    Kind.MONEY: pa.float64(),
    Kind.DEPTH: pa.float64(),
    Kind.COUNT: pa.float64(),
    Kind.MOMENT: pa.timestamp("us"),
    Kind.DAY: pa.timestamp("us"),
    Kind.CHOICE: pa.string(),
}

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
_LONG_WAY = (  # ways to write a time that databases use and Arrow does not read
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
    text = pc.if_else(pc.equal(pc.binary_length(text), 0), pa.scalar(None, text.type), text)
    nowhere = np.zeros(len(text), np.bool_)
    if kind in (Kind.ID, Kind.CHOICE):
        return ParsedText(text, not_unicode, nowhere, nowhere)
    if kind in (Kind.MOMENT, Kind.DAY):
        values, zoned = _moments(text, kind)
    else:
        values, zoned = _cast_where_possible(text, TYPED[kind], _SHAPE[kind]), nowhere
    return ParsedText(values, not_unicode, _flags(pc.and_(text.is_valid(), values.is_null())), zoned)


def _moments(text: pa.Array, kind: Kind) -> tuple[pa.Array, Flags]:
    try:
        return text.cast(TYPED[kind]), np.zeros(len(text), np.bool_)  # succeeds only if no cell names a zone
    except pa.ArrowInvalid:
        pass  # the long way round: some cell names a zone, or is written otherwise, or is no time at all
    for pattern, replacement in _LONG_WAY:
        text = pc.replace_substring_regex(text, pattern, replacement)
    named = pc.fill_null(pc.match_substring_regex(text, _ZONE), False)
    none = pa.scalar(None, text.type)
    local = _cast_where_possible(pc.if_else(named, none, text), TYPED[kind], _SHAPE[kind])
    zoned = _cast_where_possible(pc.if_else(named, text, none), pa.timestamp("us", "UTC"), _SHAPE[kind])
    return pc.coalesce(local, zoned.cast(TYPED[kind])), _flags(named)


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
    nowhere = np.zeros(len(cells), np.bool_)
    try:
        return cells.cast(pa.string()), nowhere
    except pa.ArrowInvalid:  # some bytes are no UTF-8: look at this batch cell by cell
        broken = np.array([not _is_unicode(cell) for cell in cells.to_pylist()], np.bool_)
        kept = pc.if_else(pa.array(broken), pa.scalar(None, cells.type), cells)
        return kept.cast(pa.string()), broken


def _is_unicode(cell: bytes | None) -> bool:
    try:
        return cell is None or cell.decode() is not None
    except UnicodeDecodeError:
        return False


def _flags(mask: pa.Array) -> Flags:
    return np.asarray(mask.to_numpy(zero_copy_only=False), np.bool_)
