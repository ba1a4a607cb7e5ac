"""What a refusal says: the value that was found, what was expected, and what was probably meant."""

import re
import reprlib
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

# ---- values of other people: short, on one line, and without characters that drive a terminal


MOST_QUOTED = 200  # characters of one value in a message
_MOST_LISTED = 12

# C0 controls, DEL, C1 controls, marks of direction and of invisible width, line separators, bytes that were no UTF-8
_DRIVING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
)
_IN_TEXT = re.compile(f"[{_DRIVING}]")
_IN_LINE = re.compile(f"[\t\n{_DRIVING}]")
_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = 6
_SHORT.maxstring = _SHORT.maxother = MOST_QUOTED
_SHORT.maxlong = 60


def escaped(text: str) -> str:
    """Text of several lines, with what would drive a terminal written out.

    >>> escaped("a\\x1b[2J b\\u202e\\n"), escaped("caf\\udce9")
    ('a\\\\x1b[2J b\\\\u202e\\n', 'caf\\\\xe9')
    """
    return _IN_TEXT.sub(_written_out, text)


def one_line(text: str) -> str:
    """The same for a cell or a quoted value: line breaks and tabs are written out as well.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return _IN_LINE.sub(_written_out, text)


def shortened(text: str, *, most: int = MOST_QUOTED) -> str:
    """A value on one line, cut after `most` characters.

    >>> shortened("x" * 1000, most=5)
    'xxxxx… (1,000 characters)'
    """
    if len(text) <= most:
        return one_line(text)
    return f"{one_line(text[:most])}… ({len(text):,} characters)"


def quoted(value: object) -> str:
    """Its `repr`, short however large the value is: nested collections are not spelled out.

    >>> quoted("=1+1"), quoted({"a": [[[["deep"]]]]})
    ("'=1+1'", "{'a': [[[...]]]}")
    """
    return shortened(_SHORT.repr(value))


def as_given(value: object) -> str:
    """The `repr` of a value that somebody gave; whoever shows it shortens it.

    >>> as_given("a"), as_given(16**5000)
    ("'a'", 'a number of more than 4,300 digits')
    """
    try:
        return repr(value)
    except ValueError:  # Python does not write out longer ones
        return f"a number of more than {sys.get_int_max_str_digits():,} digits"


def _written_out(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that Python could not decode
        code -= 0xDC00
    return _NAMES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


# ---- what was expected, in our own words instead of the library's


_WORDS = {
    "string_type": "text",
    "string_too_short": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "list_type": "a list, such as [a, b]",
    "dict_type": "keys and values, such as {name: value}",
    "too_short": "at least one entry",
    "model_type": "keys and values, such as {name: value}",
    "model_attributes_type": "keys and values, such as {name: value}",
}
_DAY = "a day such as 2027-03-01"


def expected_of(detail: Any) -> str:
    """The words for one error of pydantic (an item of `ValidationError.errors()`).

    >>> expected_of({"type": "date_from_datetime_parsing", "msg": "Input should be a valid date or datetime, …"})
    'a day such as 2027-03-01'
    >>> expected_of({"type": "greater_than", "msg": "Input should be greater than 0"})
    'greater than 0'
    """
    kind = str(detail["type"])
    if kind.startswith("date"):
        return _DAY
    return _WORDS.get(kind) or str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


# ---- what was probably meant


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question after a word that is not known, whatever its case; None where nothing comes close.

    >>> did_you_mean("Purchse", ["purchase", "refund"]), did_you_mean("x", ["refund"])
    ('Did you mean purchase?', None)
    """
    plain = {other.strip().casefold(): other for other in known}
    near = get_close_matches(name.strip().casefold(), plain, n=1)
    return f"Did you mean {plain[near[0]]}?" if near else None


def listed(names: Sequence[str]) -> str:
    """The first dozen of the names that there are.

    >>> listed(["a", "b"]), listed(list("abcdefghijklmn"))
    ('a, b', 'a, b, c, d, e, f, g, h, i, j, k, l…')
    """
    return ", ".join(names[:_MOST_LISTED]) + ("…" if len(names) > _MOST_LISTED else "")
