"""What can be wrong with a cell or between the cells of a row: the rules that follow from a table's declaration.

Each rule is written once, in two spellings side by side: `broken` for a batch in memory (`disco validate`, `disco
ingest`), and `sql` for DuckDB, which builds features from tables that are never in memory as a whole.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Flags, Integers
from disco.records.currency import Currency
from disco.records.depths import EXPECTED_DEPTH, depth_advice
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.suggestions import did_you_mean
from disco.records.tables import (
    END_DAY,
    FIRST_DAY,
    LARGEST_COUNT,
    LONGEST_ID_BYTES,
    AtMost,
    ColumnSchema,
    Kind,
    NeededUnless,
    NotBefore,
    SaidWith,
    TableSchema,
)
from disco.records.validation.cells import READABLE, Cells, flags, is_text

DAY_MICROSECONDS = 86_400_000_000
_LARGEST_ID = 2**63 - 1  # of integers: larger ones have no key and have to be text

Row = Mapping[str, Cells]
Test = Callable[[Cells], Flags]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which a cell or a row can be wrong."""

    kind: str  # of the problem, as `--json` names it
    column: str  # where it is reported
    broken: Callable[[Row], Flags]  # the rows of a batch that break it
    sql: str  # the same as a condition on {column}, see `features.sources`; empty: typed columns keep it anyway
    expected: str
    fix: str | Callable[[Cells, int], str]
    needs: tuple[str, ...] = ()  # columns whose cells must be good for the rule to be asked
    found: Callable[[Row, int], str] | None = None  # what to show of a row; None: the cell
    of_absent: bool = False  # asked where the whole column is absent, and only there

    @property
    def reason(self) -> str:
        """Why a row was set aside."""
        return f"{self.column}: expected {self.expected}"

    def show(self, row: Row, place: int) -> str:
        return self.found(row, place) if self.found else row[self.column].show(place)

    def advice(self, row: Row, place: int) -> str:
        return self.fix if isinstance(self.fix, str) else self.fix(row[self.column], place)


def rules_of(schema: TableSchema, *, as_of: date | None = None, locale: Locale = POUNDS_UTC) -> tuple[Rule, ...]:
    """Cell by cell in the order of the columns, then between the cells of a row.

    as_of: the last day that dates may name; None: any day that a calendar has. locale: of the shop.
    """
    cells = (rule for column in schema.columns for rule in cell_rules(column, as_of, locale=locale))
    return (*cells, *(_row_rule(declared, locale) for declared in schema.rows))


def cell_rules(column: ColumnSchema, as_of: date | None = None, *, locale: Locale = POUNDS_UTC) -> Iterator[Rule]:
    """The rules of a column by itself; the first two say whether its text can be read."""
    name = column.name

    def rule(kind: str, test: Test, sql: str, expected: str, fix: str | Callable[[Cells, int], str]) -> Rule:
        return Rule(kind, name, lambda row: test(row[name]), sql.replace("{x", f"{{{name}"), expected, fix)

    notation = "Write numbers without currency signs or thousands separators, with a decimal point."
    if column.kind in (Kind.MOMENT, Kind.DAY):
        notation = "Write dates as YYYY-MM-DD."
    sql = "try(decode(encode({x_text}))) IS NULL AND {x_text} IS NOT NULL"
    yield rule("encoding", lambda cells: cells.not_unicode, sql, "UTF-8 text", "Save the file as UTF-8.")
    yield rule("wrong_type", lambda cells: cells.unreadable, "", READABLE.get(column.kind, "text"), notation)
    if not column.nullable:
        empty = rule("null", _missing, "{x} IS NULL", "a value in every row", "Fill it in or leave the row out.")
        yield replace(empty, found=lambda row, place: "nothing")
    if column.kind is Kind.ID:
        sql = (
            f"strlen({{x_text}}) > {LONGEST_ID_BYTES} OR contains({{x_text}}, chr(0)) OR {{x_integer}} > {_LARGEST_ID}"
        )
        fit = f"an integer below 2⁶³, or text of at most {LONGEST_ID_BYTES:,} bytes without NUL characters"
        yield rule("unusable_id", _is_unusable_id, sql, fit, "Store large integers as text, and shorten long ids.")
    elif column.kind is Kind.CHOICE:
        listed = ", ".join(f"'{word}'" for word in column.choices)
        words = f"one of {', '.join(column.choices)}"
        sql = f"lower(trim({{x}})) NOT IN ({listed})"
        yield rule("unknown_choice", _where(lambda v: v < 0), sql, words, _choice_fix)
    elif column.before_as_of:
        for kind, test, sql, expected, fix in _dates(as_of):
            yield rule(kind, _where(test), sql, expected, fix)
    else:
        # no SQL: there NaN is above every number, so the ranges below refuse what is not finite
        yield rule("not_finite", _where(_is_infinite), "", "a finite number", _FIGURE)
        numbers = (
            _money(locale.currency, positive=column.positive) if column.kind is Kind.MONEY else _NUMBERS[column.kind]
        )
        for kind, test, sql, expected, fix in numbers:
            yield rule(kind, _where_finite(test), sql, expected, fix)


_ValueRule = tuple[str, Callable[[NDArray[Any]], Flags], str, str, str | Callable[[Cells, int], str]]


def _dates(as_of: date | None) -> tuple[_ValueRule, _ValueRule]:
    as_of = None if as_of is None or as_of >= END_DAY else as_of  # a later day bounds nothing
    end = END_DAY if as_of is None else as_of + timedelta(days=1)
    first, after = start_of_day(FIRST_DAY), start_of_day(end)
    years = f"a date from {FIRST_DAY.year} to {END_DAY.year - 1}"
    kind, expected, fix = "date_range", years, "Correct the date."
    if as_of is not None:
        kind, expected, fix = (
            "future_date",
            f"a date no later than {as_of}",
            "Correct the date, or give a later --as-of.",
        )
    return (
        ("date_range", lambda v: v < first, f"{{x}} < DATE '{FIRST_DAY}'", years, "Correct the date."),
        (kind, lambda v: v >= after, f"{{x}} >= DATE '{end}'", expected, fix),
    )


def _choice_fix(cells: Cells, place: int) -> str:
    return did_you_mean(cells.typed[place].as_py(), cells.column.choices) or "Use one of these words."


def _depth_fix(cells: Cells, place: int) -> str:
    return depth_advice(cells.values[place]) or "Give the depth as a share."


_FIGURE, _SIGN = "Put in the true figure, or leave the row out.", "Correct the sign or the figure."
_NOBODY = "Leave out customers who bought nothing, or give the basket's full price."
_MOST = f"at most {LARGEST_COUNT:,}"
_NUMBERS: Mapping[Kind, tuple[_ValueRule, ...]] = {
    Kind.DEPTH: (("depth_range", lambda v: (v < 0) | (v >= 1), "{x} < 0 OR {x} >= 1", EXPECTED_DEPTH, _depth_fix),),
    Kind.COUNT: (
        ("negative_count", lambda v: v < 0, "{x} < 0", "a count of 0 or more", _SIGN),
        (
            "not_whole",
            lambda v: v != np.floor(v),
            "{x_real} <> floor({x_real})",
            "a whole number",
            "Correct the count.",
        ),
        ("too_large", lambda v: v > LARGEST_COUNT, f"{{x}} > {LARGEST_COUNT}", _MOST, "Check the column."),
    ),
}


def _money(currency: Currency, *, positive: bool) -> tuple[_ValueRule, ...]:
    """positive: an amount that rounds to nothing is refused, too."""
    most, per_unit = currency.largest_amount, currency.minor_per_unit
    amounts: tuple[_ValueRule, ...] = (
        ("negative_money", lambda v: v < 0, "{x} < 0", "an amount of 0 or more", _SIGN),
        ("too_large", lambda v: v > most, f"{{x}} > {most}", f"at most {most:,}", "Check the unit."),
    )
    zero: _ValueRule = (
        "zero_amount",
        lambda v: (v >= 0) & (np.rint(np.minimum(v, 1.0) * per_unit) == 0),
        "{x_minor} = 0",
        f"an amount of at least {currency.smallest}",
        _NOBODY,
    )
    return (*amounts, zero) if positive else amounts


def _where(test: Callable[[NDArray[Any]], Flags]) -> Test:
    return lambda cells: np.asarray(cells.valid & test(cells.values))


def _where_finite(test: Callable[[NDArray[Any]], Flags]) -> Test:
    return lambda cells: np.asarray(cells.valid & np.isfinite(cells.values) & test(cells.values))


def _is_infinite(values: NDArray[Any]) -> Flags:
    return np.asarray(~np.isfinite(values))


def _missing(cells: Cells) -> Flags:
    return cells.missing


def _is_unusable_id(cells: Cells) -> Flags:
    ids = cells.typed
    if pa.types.is_uint64(ids.type):
        return flags(pc.greater(ids, pa.scalar(_LARGEST_ID, pa.uint64())))
    if not is_text(ids.type):
        return np.zeros(len(ids), np.bool_)
    too_long = flags(pc.greater(pc.binary_length(ids), LONGEST_ID_BYTES))
    letters = np.frombuffer(ids.buffers()[2] or b"", np.uint8)
    if letters.all():  # quick: no NUL anywhere
        return too_long
    return too_long | flags(pc.match_substring(ids, "\0"))


def _row_rule(declared: AtMost | NotBefore | NeededUnless | SaidWith, locale: Locale) -> Rule:
    name, other = declared.column, declared.other
    if isinstance(declared, SaidWith):
        return Rule(
            "missing_kind",
            name,
            lambda row: row[other].valid,
            "",
            f"the column {name} in a file with {other}",
            "Say which rows are refunds or corrections.",
            needs=(other,),
            found=lambda row, place: f"no column {name}, but {other} {row[other].show(place)}",
            of_absent=True,
        )
    if isinstance(declared, AtMost):
        return Rule(
            "paid_above_full_price",
            name,
            lambda row: row[name].comparable() > row[other].comparable(),
            f"{{{name}_minor}} > {{{other}_minor}}",
            f"at most the {other} of its row",
            f"Check that {other} is the value before the discount.",
            needs=(name, other),
        )
    if isinstance(declared, NotBefore):
        return Rule(
            "redeemed_before_sent",
            name,
            lambda row: is_before(row[name].values, row[other].values, reversed_us=locale.reversed_us),
            _is_before_sql(f"{{{name}}}", f"{{{other}}}", reversed_us=locale.reversed_us),
            f"a time at or after {other}",
            "Check whether the two columns are swapped or in different time zones.",
            needs=(name, other),
            found=lambda row, place: f"{row[name].show(place)}, before {row[other].show(place)}",
        )
    return Rule(
        "missing_refers_to",
        name,
        lambda row: (row[other].values != row[other].column.choices.index(declared.value)) & row[name].missing,
        f"{{{other}}} <> '{declared.value}' AND {{{name}}} IS NULL",
        "the event_id that it changes",
        "Name the event that is refunded or corrected.",
        needs=(other,),
        found=lambda row, place: f"nothing, in a {row[other].typed[place].as_py()}",
    )


def start_of_day(day: date) -> int:
    """Midnight in microseconds of the wall clock."""
    return (day - date(1970, 1, 1)).days * DAY_MICROSECONDS


def is_before(later: Integers, earlier: Integers, *, reversed_us: int = 0) -> Flags:
    """Where what should come later came first. Midnight means that only the day is known.

    reversed_us: how much it may precede the other on the wall clock, because clocks go back (`Locale.reversed_us`).

    >>> noon, midnight = 36 * 3_600_000_000, 24 * 3_600_000_000
    >>> is_before(np.array([midnight, noon - 1]), np.array([noon, noon])).tolist()
    [False, True]
    """
    only_day = (later % DAY_MICROSECONDS == 0) | (earlier % DAY_MICROSECONDS == 0)
    days_apart = later // DAY_MICROSECONDS - earlier // DAY_MICROSECONDS
    return np.where(only_day, days_apart < 0, later + reversed_us < earlier)


def _is_before_sql(later: str, earlier: str, *, reversed_us: int) -> str:
    a, b = (f"epoch_us(CAST({time} AS TIMESTAMP))" for time in (later, earlier))
    day, shift = DAY_MICROSECONDS, f" + {reversed_us}" if reversed_us else ""
    return f"CASE WHEN {a} % {day} = 0 OR {b} % {day} = 0 THEN {a} // {day} < {b} // {day} ELSE {a}{shift} < {b} END"
