"""The door of the ledger: each received row is read once and either admitted or settled for good, with the reason.

What is settled here never changes again: rows that cannot be read, purchases outside their code's validity, rows of
another campaign or customer. What is admitted is judged together with everything else received, in `standing.py`.
"""

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers
from disco.records.errors import InputError
from disco.records.life import Disposition
from disco.records.money import MINOR_PER_UNIT, minor_units_of_decimals
from disco.records.tables import SCHEMAS, Column, Kind
from disco.records.validation.cells import is_accepted
from disco.records.validation.text import parse_text

_COLUMNS = SCHEMAS["outcomes"].columns
_KINDS = SCHEMAS["outcomes"].column("kind").choices
_OPTIONAL = ("refers_to",)
_MOMENT = pa.timestamp("us", "UTC")
_LONGEST_ID_BYTES = 1000  # PostgreSQL has no room for more than 2,704 in an index; both databases take the same
_LARGEST_BASKET = math.floor(math.exp(31.9))  # evidence takes |ln| < 32
_EARLIEST, _LATEST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**6 for year in (1900, 9000))


def read_outcomes(
    outcomes: pa.Table, *, campaign: str, decisions: pa.Table, start: date, end: date, closed: bool
) -> pa.Table:
    """The received rows as the ledger keeps them (without batch_id); `disposition` is null where a row is admitted.

    outcomes: as `known_columns` gives them · decisions: code and customer_id of the campaign's codes, at least of those
    in the outcomes · start, end: first day of the codes' validity, and the first day after it.
    """
    table = _typed_outcomes(outcomes)
    settled = np.zeros(table.num_rows, np.bool_)
    disposition = np.full(table.num_rows, None, object)
    reason = np.full(table.num_rows, None, object)
    tests = _closed(table) if closed else _tests(table, campaign=campaign, decisions=decisions, start=start, end=end)
    for kind, words, passed in tests:  # the first test that fails gives the reason
        failed = ~passed & ~settled
        disposition[failed], reason[failed] = str(kind), words
        settled |= failed
    purchase = pc.fill_null(pc.equal(table["kind"], "purchase"), False)
    return pa.table(
        {
            "row": pa.array(np.arange(table.num_rows)),
            **{name: table[name] for name in ("event_id", "customer_id", "code", "kind")},
            "refers_to": pc.if_else(purchase, pa.scalar(None, pa.string()), table["refers_to"]),
            "ordered_at": table["ordered_at"],
            "full_price_minor": table["full_price_minor"],
            "disposition": pa.array(disposition, pa.string()),
            "reason": pa.array(reason, pa.string()),
            "raw": _raw(outcomes, settled),
        }
    )


def known_columns(outcomes: pa.Table) -> pa.Table:
    """The columns of the outcomes table, plainly typed; what else a file brings is left alone.

    A column that is missing, or whose type can never hold what it should, is refused by name.
    """
    missing = [c.name for c in _COLUMNS if c.name not in outcomes.column_names and c.name not in _OPTIONAL]
    if missing:
        raise InputError("outcomes", found=f"no column {', '.join(missing)}", expected="the outcomes table")
    columns: dict[str, pa.Array] = {}
    for column in _COLUMNS:
        if column.name not in outcomes.column_names:
            continue
        given = outcomes[column.name].combine_chunks()
        if pa.types.is_dictionary(given.type):
            given = given.cast(given.type.value_type)
        if pa.types.is_string_view(given.type) or pa.types.is_large_string(given.type):
            given = given.cast(pa.string())
        if not pa.types.is_string(given.type) and not is_accepted(column.kind, given.type):
            raise InputError(f"outcomes, column {column.name}", found=f"type {given.type}", expected=str(column.kind))
        columns[column.name] = given
    return pa.table(columns)


def _typed_outcomes(outcomes: pa.Table) -> pa.Table:
    """Ids and words as text (17 and "17" are one customer), times as UTC, money as minor units; null: unreadable."""
    nothing = pa.nulls(outcomes.num_rows, pa.string())
    return pa.table(
        {
            column.canonical_name: _typed(outcomes[column.name].combine_chunks(), column)
            if column.name in outcomes.column_names
            else nothing
            for column in _COLUMNS
        }
    )


def _typed(given: pa.Array, column: Column) -> pa.Array:
    if pa.types.is_string(given.type):
        given = parse_text(given, column.kind).values
    if column.kind is Kind.MOMENT:
        return _moments(given)
    if column.kind is Kind.MONEY:
        return _minor_units(given)
    words = given.cast(pa.string())
    unfit = pc.or_(pc.match_substring(words, "\0"), pc.greater(pc.binary_length(words), _LONGEST_ID_BYTES))
    return pc.if_else(_flags_of(unfit), pa.scalar(None, pa.string()), words)


def _moments(given: pa.Array) -> pa.Array:
    """UTC microseconds; times that no calendar of ours holds are unreadable."""
    moments = given.cast(pa.timestamp("us", getattr(given.type, "tz", None)), safe=False).cast(pa.int64())
    sane = pc.and_(pc.greater_equal(moments, _EARLIEST), pc.less(moments, _LATEST))
    return pc.if_else(_flags_of(sane), moments, pa.scalar(None, pa.int64())).cast(_MOMENT)


def _minor_units(given: pa.Array) -> pa.Array:
    """Whole minor units; null where there is no finite, positive amount of at least one of them."""
    rough = given.cast(pa.float64(), safe=False)
    fine = _flags_of(pc.and_(pc.greater(rough, 0), pc.less_equal(rough, _LARGEST_BASKET)))
    if pa.types.is_decimal(given.type):
        minor = minor_units_of_decimals(pc.if_else(fine, given, pa.scalar(None, given.type)))
    else:
        amount = np.nan_to_num(pc.fill_null(rough, 0.0).to_numpy(zero_copy_only=False))
        minor = pa.array(np.rint(np.where(fine, amount, 0.0) * MINOR_PER_UNIT).astype(np.int64))
    return pc.if_else(_flags_of(pc.and_(fine, pc.greater(minor, 0))), minor, pa.scalar(None, pa.int64()))


def _closed(table: pa.Table) -> list[tuple[Disposition, str, Flags]]:
    return [(Disposition.LATE, "the campaign is closed", np.zeros(table.num_rows, np.bool_))]


def _tests(
    table: pa.Table, *, campaign: str, decisions: pa.Table, start: date, end: date
) -> list[tuple[Disposition, str, Flags]]:
    """Each test with what becomes of a row that fails it, in the order in which they are asked."""
    rejected, unmatched, late = Disposition.REJECTED, Disposition.UNMATCHED, Disposition.LATE
    changes = ~_flags(pc.equal(table["kind"], "purchase"))
    place = pc.index_in(table["code"].combine_chunks(), value_set=decisions["code"].combine_chunks())
    owner = decisions["customer_id"].cast(pa.string()).combine_chunks().take(place)
    first, after = (pa.scalar(datetime(day.year, day.month, day.day, tzinfo=UTC), _MOMENT) for day in (start, end))
    return [
        (rejected, "no event_id that can be read", _there(table, "event_id")),
        (rejected, "no campaign_id that can be read", _there(table, "campaign_id")),
        (rejected, "no customer_id that can be read", _there(table, "customer_id")),
        (rejected, "kind is not purchase, refund or correction", _flags(pc.is_in(table["kind"], pa.array(_KINDS)))),
        (rejected, "no ordered_at that can be read", _there(table, "ordered_at")),
        (rejected, "full_price is not a positive amount of money", _there(table, "full_price_minor")),
        (rejected, "refers_to does not say what it changes", ~changes | _there(table, "refers_to")),
        (unmatched, "another campaign", _flags(pc.equal(table["campaign_id"], campaign))),
        (unmatched, "a purchase without a code", changes | _there(table, "code")),
        (unmatched, "no such code in this campaign", changes | _flags(place.is_valid())),
        (unmatched, "the code of another customer", changes | _flags(pc.equal(owner, table["customer_id"]))),
        (rejected, "ordered before the code was valid", changes | _flags(pc.greater_equal(table["ordered_at"], first))),
        (late, "ordered after the code had run out", changes | _flags(pc.less(table["ordered_at"], after))),
    ]


def _there(table: pa.Table, name: str) -> Flags:
    return _flags(table[name].is_valid())


def _flags_of(mask: Any) -> pa.Array:
    return pc.fill_null(mask, False)


def _flags(mask: Any) -> Flags:
    return np.asarray(_flags_of(mask).to_numpy(zero_copy_only=False), np.bool_)


def _raw(outcomes: pa.Table, settled: Flags) -> pa.Array:
    """The settled rows as they were sent, as JSON of text; null for the admitted ones."""
    texts = np.full(outcomes.num_rows, None, object)
    rows: Integers = np.flatnonzero(settled)
    cells = {
        column.name: _texts(outcomes[column.name].take(rows))
        for column in _COLUMNS
        if column.name in outcomes.column_names
    }
    for place, row in enumerate(rows):
        texts[row] = json.dumps({name: column[place] for name, column in cells.items() if column[place] is not None})
    return pa.array(texts, pa.string())


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    kind = column.type
    if pa.types.is_timestamp(kind):  # Python's own times have neither nanoseconds nor years above 9999
        column = column.cast(pa.timestamp(kind.unit))
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts
