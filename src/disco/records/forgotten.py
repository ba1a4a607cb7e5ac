"""Names in the place of forgotten customers' ids: random, recognisable, the same wherever a customer appears.

Stored form: the text `forgotten-` and six hexadecimal digits; where ids are integers, `_FIRST` plus the same number.
Only one in 2⁴⁰ random integers looks like one of these names.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from secrets import randbelow
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags

_NAMES = 1 << 24
_TEXT = re.compile(r"forgotten-([0-9a-f]{6})")
_FIRST = -(1 << 63) + (0x5D15C0F0 << 24)


def new_name() -> int:
    """The number of a name, drawn at random; whoever uses it looks first whether it is taken."""
    return randbelow(_NAMES)


def as_text(name: int) -> str:
    """
    >>> as_text(255)
    'forgotten-0000ff'
    """
    return f"forgotten-{name:06x}"


def as_integer(name: int) -> int:
    return _FIRST + name


def is_forgotten(ids: "pa.Array | pa.ChunkedArray") -> Flags:
    """(n,) whether the customer of each id, integer or text, was forgotten.

    >>> is_forgotten(pa.array(["C1", as_text(7)])).tolist(), is_forgotten(pa.array([1, as_integer(7)])).tolist()
    ([False, True], [False, True])
    """
    if pa.types.is_integer(ids.type):
        found = pc.and_(pc.greater_equal(ids, _FIRST), pc.less(ids, _FIRST + _NAMES))
    else:
        found = pc.match_substring_regex(ids, f"^{_TEXT.pattern}$")
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)


def mentions(raw: str, customers: Collection[str]) -> bool:
    """Whether a row that was set aside, kept as JSON of its cells, names one of these customers.

    An id counts where it stands by itself: not within a longer word or number. An id of digits alone counts outside the
    column customer_id only as a whole cell, because prices and dates consist of digits, too.

    >>> mentions('{"customer_id": " C17", "code": "X"}', {"C17"}), mentions('{"code": "see C17!"}', {"C17"})
    (True, True)
    >>> mentions('{"customer_id": "C170"}', {"C17"}), mentions('{"full_price": "17.50"}', {"17"})
    (False, False)
    """
    try:
        cells = dict(json.loads(raw))
    except (ValueError, TypeError):
        return any(customer in raw for customer in customers)
    for customer in customers:
        alone = _alone(customer)
        for column, cell in cells.items():
            text = str(cell)
            if text.strip() == customer:
                return True
            if (column == "customer_id" or not customer.isdigit()) and alone.search(text):
                return True
    return False


class Renaming:
    """Other names in the place of ids, in texts that people wrote: names of drafts, sources, conditions of plans.

    An id counts where it stands by itself, as in `mentions`. An id of digits alone is given another name only as a
    whole text or between quotation marks, because another number may have the same digits.

    >>> names = Renaming({"C17": "forgotten-0000ff", "17": "-5"})
    >>> names.text("customer_id <> 'C17' and age > 17"), names.text("C170, 17.csv")
    ("customer_id <> 'forgotten-0000ff' and age > 17", 'C170, 17.csv')
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._by_word: dict[str, list[str]] = {}  # a word of each id: a text without it does not name them
        for customer in names:
            self._by_word.setdefault(next(iter(_WORD.findall(customer)), ""), []).append(customer)
        self.renamed: set[str] = set()
        """The customers whose id stood in one of the texts."""

    @property
    def customers(self) -> Collection[str]:
        """Whose ids are looked for."""
        return self._names.keys()

    def text(self, text: str) -> str:
        """The text with the other names."""
        for customer in self._near(text):
            changed = text
            for written in {customer, customer.replace("'", "''")}:
                if _is_number(customer):
                    changed = self._names[customer] if changed.strip() == written else changed
                    changed = changed.replace(f"'{written}'", f"'{self._names[customer]}'")
                else:
                    changed = _alone(written).sub(self._names[customer], changed)
            if changed != text:
                self.renamed.add(customer)
            text = changed
        return text

    def json(self, text: str) -> str:
        """A JSON text with the other names in all its texts and keys; unchanged, byte by byte, where there is none."""
        try:
            before = json.loads(text)
        except ValueError:
            return self.text(text)
        after = self._value(before)
        return text if after == before else json.dumps(after, allow_nan=False)

    def is_left(self, text: str) -> bool:
        """Whether a text still names one of the customers, as JSON or as it is."""
        return any(
            names_in_condition(text, customer)
            or text.strip() in (customer, json.dumps(customer))
            or (not _is_number(customer) and _alone(customer).search(text) is not None)
            for customer in self._near(text)
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(part) for part in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(part) for key, part in value.items()}
        return value

    def _near(self, text: str) -> Iterator[str]:
        for word in {"", *_WORD.findall(text)}:
            yield from self._by_word.get(word, ())


_WORD = re.compile(r"[0-9A-Za-z]+")


def _is_number(customer: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", customer) is not None


def _alone(customer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9A-Za-z]){re.escape(customer)}(?![0-9A-Za-z])")


def names_in_condition(condition: str, customer: str) -> bool:
    """Whether a plan's condition has this customer's id, also where it leaves them out.

    An id counts as a text of SQL and, in a condition about customer_id, wherever it stands by itself; a whole number
    may have zeros around it. `customer_id > 10 AND age > 17` also names customer 17: a removed plan can be made again.

    >>> names_in_condition("customer_id <> 17", "17"), names_in_condition("age > 17", "17")
    (True, False)
    >>> names_in_condition("customer_id = 'C170'", "C17")
    False
    """
    if "'{}'".format(customer.replace("'", "''")) in condition:
        return True
    if "customer_id" not in condition.casefold():
        return False
    if re.fullmatch(r"-?[0-9]+", customer):
        alone = rf"(?<![0-9A-Za-z_.])0*{customer.lstrip('-').lstrip('0') or '0'}(?:\.0*)?(?![0-9A-Za-z_.])"
    else:
        alone = rf"(?<![0-9A-Za-z_]){re.escape(customer)}(?![0-9A-Za-z_])"
    return re.search(alone, condition) is not None
