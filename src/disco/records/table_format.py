"""How a shop writes its tables: what its columns are called, and how its CSV files write numbers, dates and text.

The readers of tables (`adapters.tables`) turn all of it into the declared form, so nothing behind them knows about it.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from disco.records.errors import InputError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.tables import SCHEMAS

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
DECIMALS = (".", ",")
_DATE_PARTS = {"%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year"}
_TIME_OF_DAY = re.compile(r"[ T,]*(%H[:.]%M([:.]%S(\.%f)?)?|%T|%R)(%z)?")
_EXAMPLE = "strftime, such as %d.%m.%Y for 31.12.2026 or %m/%d/%Y for 12/31/2026"


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How CSV files are written; None is the plain form, or what can be found in the file without doubt."""

    delimiter: str | None = None
    """Between the columns: one of DELIMITERS; None: found in the header."""
    decimal: str | None = None
    """The decimal mark, `.` or `,`; the other one may then group thousands. None: a point, and no groups."""
    dates: str | None = None
    """strftime of a date; a time of day may follow. None: 2026-12-31. Dates such as 2026-12-31 are always read."""
    encoding: str | None = None
    """A name that Python knows, such as cp1252; None: UTF-8, or UTF-16 with a byte-order mark."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How all tables of a shop are written."""

    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Table → our name of a column → the name in the shop's own table."""
    csv: CsvFormat = CsvFormat()
    locale: Locale = POUNDS_UTC
    """The currency of all money, and the time zone of times without one."""

    def own_names(self, table: str) -> Mapping[str, str]:
        """Our name → the shop's, of the columns of a table that are called otherwise."""
        return self.columns.get(table, {})

    def other_names(self, table: str) -> Mapping[str, str]:
        """Our name → what the column may be called as well: purchases often come as an export of the shop's orders."""
        if table != "outcomes":
            return {}
        known = {column.instead or column.name: column.name for column in SCHEMAS[table].columns}
        return {known[ours]: theirs for ours, theirs in self.own_names("orders").items() if ours in known}

    def fingerprint(self) -> str:
        """Changes what a file means; empty for the plain form."""
        if self == PLAIN:
            return ""
        columns = sorted((table, sorted(names.items())) for table, names in self.columns.items())
        return repr((columns, self.csv)) + self.locale.fingerprint()


PLAIN = TableFormat()
"""Our own names; numbers and dates as 12.50 and 2026-12-31; pounds and UTC."""


def read_columns(columns: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The setting `columns`, after looking for names that are unknown or used twice; InputError.

    >>> read_columns({"orders": {"full_prise": "Warenwert"}})
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: columns: found orders.full_prise; expected a column of the table: order_id, ...
    """
    for table, names in columns.items():
        if table not in SCHEMAS:
            raise InputError(
                "columns", found=table, expected=f"a table: {', '.join(SCHEMAS)}", fix=_did_you_mean(table, SCHEMAS)
            )
        known = [column.name for column in SCHEMAS[table].columns]
        for ours in names:
            if ours not in known:
                expected = f"a column of the table: {', '.join(known)}"
                fix = _did_you_mean(ours, known)
                if names[ours] in known:
                    fix = f"Write our name first: `{names[ours]}: {ours}`."
                elif fix is None:
                    fix = f"Remove the line: further columns keep their own names, so use {names[ours]} as it is."
                raise InputError("columns", found=f"{table}.{ours}", expected=expected, fix=fix)
        used: dict[str, str] = {}
        for ours, theirs in names.items():
            if not theirs.strip():
                raise InputError(
                    "columns", found=f"an empty name for {table}.{ours}", expected="the name of your column"
                )
            if theirs in used:
                raise InputError(
                    "columns",
                    found=f"{theirs} of {table} for both {used[theirs]} and {ours}",
                    expected="one column of yours for each of ours",
                    fix="Remove one of the two lines; a column that may be absent can be left out.",
                )
            used[theirs] = ours
    return columns


def read_delimiter(delimiter: str) -> str:
    """The setting `csv.delimiter`; InputError."""
    delimiter = "\t" if delimiter.lower() in ("tab", "\\t") else delimiter
    if delimiter not in DELIMITERS:
        raise InputError("csv.delimiter", found=repr(delimiter), expected='one of "," ";" "|" or "\\t" (a tab)')
    return delimiter


def read_decimal(decimal: str) -> str:
    """The setting `csv.decimal`; InputError."""
    if decimal not in DECIMALS:
        raise InputError("csv.decimal", found=repr(decimal), expected='"." or ","')
    return decimal


def read_dates(dates: str) -> str:
    """The setting `csv.dates`: day, month and year once each; InputError."""
    date_part, _ = split_dates(dates)
    found = [_DATE_PARTS[part] for part in re.findall(r"%[a-zA-Z]", date_part) if part in _DATE_PARTS]
    if sorted(found) != ["day", "month", "year"] or len(re.findall(r"%[a-zA-Z]", date_part)) != 3:
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix="Name day, month and year once each.")
    if found == ["year", "day", "month"]:
        fix = "Write such dates as 2026-12-31 in the file."
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix=fix)
    return dates


def split_dates(dates: str) -> tuple[str, str]:
    """A format's date, and the time of day after it; InputError where something else follows.

    >>> split_dates("%d.%m.%Y %H:%M")
    ('%d.%m.%Y', ' %H:%M')
    """
    ends = [match.end() for match in re.finditer(r"%[dmbBYy]", dates)]
    end = ends[-1] if ends else len(dates)
    rest = dates[end:]
    if rest.strip() and not _TIME_OF_DAY.fullmatch(rest):
        fix = f"Leave the time of day out: {dates[:end]!r}; one such as 14:05 or 14:05:00 may follow a date anyway."
        raise InputError("csv.dates", found=repr(dates), expected=_EXAMPLE, fix=fix)
    return dates[:end], rest


_SAMPLE = "customer_id,country\n" * 40  # some codecs, such as idna, are only for short names


def read_encoding(encoding: str) -> str:
    """The setting `csv.encoding`; InputError."""
    codec, read = None, None
    try:
        codec = codecs.lookup(encoding)
        written = _SAMPLE.encode(codec.name)
        if codec.incrementaldecoder is not None:  # files are read in parts
            decoder, half = codec.incrementaldecoder(), len(written) // 2
            read = decoder.decode(written[:half]) + decoder.decode(written[half:], final=True)
    except (LookupError, UnicodeError, TypeError, AttributeError):
        pass  # refused with those that read something else
    if codec is None or read != _SAMPLE:
        expected = "the name of an encoding, such as utf-8, cp1252 (Excel in Western Europe) or utf-16"
        raise InputError("csv.encoding", found=repr(encoding), expected=expected) from None
    return str(codec.name)


def _did_you_mean(name: str, known: "Mapping[str, object] | list[str]") -> str | None:
    near = get_close_matches(name.lower(), list(known), n=1)
    return f"Did you mean {near[0]}?" if near else None
