"""What can be wrong with a column by itself: its cells, batch by batch, and what only shows at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags
from disco.records.depths import depth_advice
from disco.records.money import LARGEST_AMOUNT
from disco.records.tables import Column, Kind
from disco.records.validation.cells import Cells, shown
from disco.records.validation.findings import Findings
from disco.records.validation.text import READABLE

_EPOCH = date(1970, 1, 1)
DAY_MICROSECONDS = 86_400_000_000
_LARGEST_COUNT = 2**31


def end_of_day(day: date) -> int:
    """UTC microseconds at which the day is over."""
    return (day + timedelta(days=1) - _EPOCH).days * DAY_MICROSECONDS


def check_cells(cells: Cells, findings: Findings, *, offset: int, as_of: date) -> Flags:
    """Notes everything wrong with single cells; returns which cells are good."""
    column, valid = cells.column, cells.valid

    def note(kind: str, rows: Flags, expected: str, fix: str) -> None:
        findings.of_rows(
            kind, column=column.name, rows=rows, offset=offset, found=cells.show, expected=expected, fix=fix
        )

    note_unreadable(
        column, cells.raw, findings, not_unicode=cells.not_unicode, unreadable=cells.unreadable, offset=offset
    )
    if not column.nullable:
        findings.of_rows(
            "null",
            column=column.name,
            rows=cells.missing,
            offset=offset,
            found=lambda _: "nothing",
            expected="a value in every row",
            fix="Fill it in or leave the row out.",
        )
    if column.kind in (Kind.MONEY, Kind.DEPTH, Kind.COUNT):
        return _check_numbers(cells, findings, offset=offset)
    if column.before_as_of:
        late = valid & (cells.values >= end_of_day(as_of))
        note("future_date", late, f"nothing after {as_of}", "Mend the date, or validate with a later --as-of.")
        return np.asarray(valid & ~late)
    if column.kind is Kind.CHOICE:
        unknown = valid & (cells.values < 0)
        note("unknown_choice", unknown, "one of " + ", ".join(column.choices), "Use one of these words.")
        return np.asarray(valid & ~unknown)
    return valid


def note_unreadable(
    column: Column, raw: pa.Array, findings: Findings, *, not_unicode: Flags, unreadable: Flags, offset: int
) -> None:
    """Cells of text that are no text, or not the text of what the column holds."""
    findings.of_rows(
        "encoding",
        column=column.name,
        rows=not_unicode,
        offset=offset,
        found=lambda row: shown(raw[row]),
        expected="UTF-8 text",
        fix="Save the file as UTF-8.",
    )
    findings.of_rows(
        "wrong_type",
        column=column.name,
        rows=unreadable,
        offset=offset,
        found=lambda row: shown(raw[row]),
        expected=READABLE.get(column.kind, "text"),
        fix="Write numbers plainly with a point, and dates as YYYY-MM-DD.",
    )


def _check_numbers(cells: Cells, findings: Findings, *, offset: int) -> Flags:
    column, values = cells.column, cells.values
    finite = cells.valid & np.isfinite(values)
    bad = cells.valid & ~finite

    def note(kind: str, rows: Flags, expected: str, fix: Callable[[int], str] | str) -> None:
        nonlocal bad
        bad = bad | rows
        findings.of_rows(
            kind, column=column.name, rows=rows, offset=offset, found=cells.show, expected=expected, fix=fix
        )

    note("not_finite", bad, "a finite number", "Put in the true figure, or leave the row out.")
    if column.kind is Kind.DEPTH:
        outside = finite & ~((values >= 0) & (values < 1))
        share = "a share of the price in [0, 1), such as 0.20 for 20 % off"
        note("depth_range", outside, share, lambda row: depth_advice(values[row]) or "Give the depth as a share.")
        return np.asarray(cells.valid & ~bad)
    if column.kind is Kind.MONEY:
        note("negative_money", finite & (values < 0), "an amount of 0 or more", "Mend the sign or the figure.")
        note("too_large", finite & (values > LARGEST_AMOUNT), f"at most {LARGEST_AMOUNT:,}", "Check the unit.")
        return np.asarray(cells.valid & ~bad)
    note("negative_count", finite & (values < 0), "a count of 0 or more", "Mend the sign or the figure.")
    note("not_whole", finite & (values != np.floor(values)), "a whole number", "A count has no fraction: mend it.")
    note("too_large", finite & (values > _LARGEST_COUNT), f"at most {_LARGEST_COUNT:,}", "Check the column.")
    return np.asarray(cells.valid & ~bad)


@dataclass(slots=True)
class Tally:
    """How many cells, and the first of them."""

    rows: int = 0
    first_row: int = 0
    first: str = ""

    def count(self, rows: Flags, cells: Cells, *, offset: int) -> None:
        if not self.rows and rows.any():
            row = int(np.argmax(rows))
            self.first_row, self.first = offset + row, cells.show(row)
        self.rows += int(np.count_nonzero(rows))


class Habits:
    """How a column is written, over all its batches: do times name their zone, do ids look like integers?

    A time at midnight without a zone may be a mere date: it counts neither as zoned nor as local.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        self.zoned, self.local = Tally(), Tally()
        self.integers, self.words = Tally(), Tally()

    def watch(self, cells: Cells, *, offset: int) -> None:
        if self.column.kind is Kind.MOMENT:
            self.zoned.count(cells.valid & cells.zoned, cells, offset=offset)
            clock = cells.values % DAY_MICROSECONDS != 0
            self.local.count(cells.valid & ~cells.zoned & clock, cells, offset=offset)
        elif self.column.kind is Kind.ID and not pa.types.is_integer(cells.raw.type):
            looks_whole = _is_integer_text(cells.raw)
            self.integers.count(cells.valid & looks_whole, cells, offset=offset)
            self.words.count(cells.valid & ~looks_whole, cells, offset=offset)

    @property
    def is_pure(self) -> bool:
        """Times of one sort only."""
        return bool(self.zoned.rows) != bool(self.local.rows)

    def note(self, findings: Findings) -> None:
        """Mixed zones; and ids of which most, but not all, are integers (of random hexadecimal ids few are)."""
        if self.zoned.rows and self.local.rows:
            fewer, how = min((self.local, "without"), (self.zoned, "with"), key=lambda pair: pair[0].rows)
            self._note(
                findings,
                "mixed_time_zones",
                fewer,
                found=f"{fewer.first} {how} a time zone, among times of the other sort",
                expected="all times with a zone, or none",
                fix="Write every time in UTC.",
            )
        if 0 < self.words.rows <= self.integers.rows:
            self._note(
                findings,
                "mixed_ids",
                self.words,
                found=f"{self.words.first} among ids that are mostly integers",
                expected="all ids integers, or all of another form",
                fix="Mend the id, or give all ids one form.",
            )

    def _note(self, findings: Findings, kind: str, tally: Tally, *, found: str, expected: str, fix: str) -> None:
        findings.of_rows(
            kind,
            column=self.column.name,
            rows=np.ones(tally.rows, np.bool_),
            offset=tally.first_row,
            found=lambda _: found,
            expected=expected,
            fix=fix,
        )


def _is_integer_text(raw: pa.Array) -> Flags:
    text = raw.cast(raw.type.value_type) if pa.types.is_dictionary(raw.type) else raw
    if pa.types.is_null(text.type):
        return np.zeros(len(text), np.bool_)
    digits = pc.match_substring_regex(text.cast(pa.large_binary()), r"^-?[0-9]+$")
    return np.asarray(digits.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
