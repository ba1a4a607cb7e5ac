"""Numbers and dates as a shop's CSV files write them, turned into the plain form: 1234.50, 2026-12-31T14:05:00.

Nothing is guessed. A cell that does not follow the format stays as it is, and the rules of its table refuse it.
"""

import re
from collections.abc import Iterable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags
from disco.records.cells import flags
from disco.records.tables import CsvFormat, Kind, split_dates
from disco.records.wording import MONTHS

NUMBERS = (Kind.MONEY, Kind.DEPTH, Kind.COUNT)
TIMES = (Kind.MOMENT, Kind.DAY)
_GAP = "[ '’\u00a0\u202f]"  # what groups thousands beside points and commas: spaces of three widths, apostrophes
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_TIME = r"(?:[ T,]+(\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:\.\d+)?)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{0,2}))?))?"


def plain_cells(text: pa.Array, kind: Kind, written: CsvFormat) -> pa.Array:
    """The cells of a declared column in the plain form; text: strings.

    >>> german = CsvFormat(decimal=",", dates="%d.%m.%Y")
    >>> plain_cells(pa.array(["1.234,50", "143,2", "7"]), Kind.MONEY, german).to_pylist()
    ['1234.50', '143.2', '7']
    >>> plain_cells(pa.array(["1.12.2026", "31.12.2026 9:05"]), Kind.MOMENT, german).to_pylist()
    ['2026-12-01', '2026-12-31T09:05']
    """
    if kind in NUMBERS and written.decimal is not None:
        return _numbers(text, written.decimal)
    if kind in TIMES and written.dates is not None:
        return _dates(text, written.dates)
    return text


def _numbers(text: pa.Array, decimal: str) -> pa.Array:
    text = pc.utf8_trim_whitespace(text)
    point, comma = re.escape(decimal), re.escape("," if decimal == "." else ".")
    grouped = rf"^[-+]?[1-9]\d{{0,2}}((?:{comma}\d{{3}})+|(?:{_GAP}\d{{3}})+)({point}\d*)?$"
    is_grouped = pc.fill_null(pc.match_substring_regex(text, grouped), False)
    ungrouped = pc.replace_substring_regex(text, rf"{_GAP}|{comma}", "")
    plain = pc.if_else(is_grouped, ungrouped, text)
    if decimal == ".":
        return plain
    # a point that groups nothing contradicts the setting: it must not be read as a decimal point
    wrong = pc.fill_null(pc.match_substring(plain, "."), False)
    plain = pc.replace_substring(plain, ",", ".")
    return pc.if_else(wrong, pc.binary_join_element_wise(text, "(with a point; csv.decimal is a comma)", " "), plain)


@cache
def _date_shape(dates: str) -> tuple[str, str, bool, bool]:
    """RE2 of a cell, its ISO form, whether months are names, whether years have two digits."""
    date_part, _ = split_dates(dates)
    shape, order = "^", []
    for piece in re.split(r"(%[dmbBYy])", date_part):
        if piece in ("%d", "%m"):
            shape += r"(\d{1,2})"
        elif piece in ("%b", "%B"):
            shape += r"(\d{1,2})"  # names have become numbers before
        elif piece == "%Y":
            shape += r"(\d{4})"
        elif piece == "%y":
            shape += r"(\d{2})"
        else:
            shape += re.escape(piece)
            continue
        order.append(piece[1].lower() if piece != "%B" else "b")
    place = {part: at + 1 for at, part in enumerate(order)}
    iso = rf"\{place['y']}-\{place.get('m', place.get('b'))}-\{place['d']}T\4"
    return shape + _TIME + r"\s*$", iso, "b" in place, "%y" in date_part


def _dates(text: pa.Array, dates: str) -> pa.Array:
    shape, iso, has_names, is_short = _date_shape(dates)
    cells = pc.utf8_trim_whitespace(text)
    if has_names:
        for number, name in enumerate(_MONTH_NAMES, start=1):
            either = rf"(?i)\b({name}|{MONTHS[number - 1]})\b\.?"
            cells = pc.replace_substring_regex(cells, either, f"{number:02d}")
    follows = pc.fill_null(pc.match_substring_regex(cells, shape), False)
    turned = pc.replace_substring_regex(cells, shape, iso)
    if is_short:
        turned = pc.replace_substring_regex(turned, r"^(69|[7-9]\d)-", r"19\1-")
        turned = pc.replace_substring_regex(turned, r"^(\d{2})-", r"20\1-")
    for pattern, replacement in (
        (r"T$", ""),
        (r"^(\d{4})-(\d)-", r"\1-0\2-"),
        (r"^(\d{4}-\d{2})-(\d)(T|$)", r"\1-0\2\3"),
        (r"T(\d)([:.])", r"T0\1\2"),
        (r"T(\d{2})\.(\d{2})", r"T\1:\2"),
        (r"T(\d{2}:\d{2})\.(\d{2})", r"T\1:\2"),
    ):
        turned = pc.replace_substring_regex(turned, pattern, replacement)
    return pc.if_else(follows, turned, text)


_POINT_GROUPS = r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$"
_POINT_DECIMAL = r"\.(\d{1,2}|\d{4,})\s*$|^\s*[-+]?0*\."


def point_groups(text: pa.Array) -> tuple[Flags, bool]:
    """Cells such as 1.234, which are one thousand and something in one half of Europe; and whether another cell, such
    as 12.50, shows that the point is the decimal mark."""
    shows = pc.any(pc.match_substring_regex(text, _POINT_DECIMAL)).as_py()
    return flags(pc.match_substring_regex(text, _POINT_GROUPS)), bool(shows)


def number_advice(cells: Iterable[pa.Array]) -> str | None:
    """What to write in disco.yaml for numbers that cannot be read; None where no setting would help."""
    comma = grouped_comma = point_after_comma = comma_after_point = False
    for text in cells:
        plain = pc.utf8_trim_whitespace(text)
        comma |= _any(plain, r"^[-+]?\d*,(\d{1,2}|\d{4,}|)$|^[-+]?0+,\d+$")
        comma_after_point |= _any(plain, rf"^[-+]?\d{{1,3}}((\.|{_GAP})\d{{3}})+,\d*$")
        grouped_comma |= _any(plain, r"^[-+]?[1-9]\d{0,2}(,\d{3})+$")
        point_after_comma |= _any(plain, r"^[-+]?\d{1,3}(,\d{3})+\.\d*$|\d'\d{3}")
    if (comma or comma_after_point) and point_after_comma:
        return "Numbers are written in two ways, such as 1.234,50 and 1,234.50: export the file again in one of them."
    if comma or comma_after_point:
        return 'If the comma is the decimal mark, write `csv: {decimal: ","}` in disco.yaml.'
    if point_after_comma:
        return 'If the comma groups thousands, write `csv: {decimal: "."}` in disco.yaml.'
    if grouped_comma:
        return (
            'The comma may be the decimal mark or group thousands. Say which: write `csv: {decimal: ","}` '
            'or `csv: {decimal: "."}` in disco.yaml.'
        )
    return None


def date_advice(cells: Iterable[pa.Array]) -> str | None:
    """What to write in disco.yaml for dates that cannot be read; None where no setting would help."""
    day_first = month_first = year_first = False
    mark, year = None, "%Y"
    for text in cells:
        parts = pc.extract_regex(text, r"^\s*(?P<a>\d{1,2})(?P<mark>[./ -])(?P<b>\d{1,2})[./ -](?P<y>\d{4}|\d{2})\b")
        parts = parts.filter(parts.is_valid())
        if len(parts):
            first, second = (np.asarray(parts.field(name).cast(pa.int64())) for name in ("a", "b"))
            mark = mark or parts.field("mark")[0].as_py()
            year = "%Y" if len(parts.field("y")[0].as_py()) == 4 else "%y"
            day_first, month_first = day_first or bool((first > 12).any()), month_first or bool((second > 12).any())
        year_first |= _any(text, r"^\s*\d{4}[./]\d{1,2}[./]\d{1,2}\b")
    if mark is None:
        return 'Write `csv: {dates: "%Y/%m/%d"}` in disco.yaml, with the marks of the file.' if year_first else None
    days, months = f"%d{mark}%m{mark}{year}", f"%m{mark}%d{mark}{year}"
    if day_first and month_first:
        return "Some dates have the day first, others the month: export the file again in one of the two ways."
    if day_first or month_first:
        return f'Write `csv: {{dates: "{days if day_first else months}"}}` in disco.yaml.'
    return (
        f'Day or month may come first. Say which: write `csv: {{dates: "{days}"}}` or '
        f'`csv: {{dates: "{months}"}}` in disco.yaml.'
    )


def _any(text: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, pattern)).as_py())
