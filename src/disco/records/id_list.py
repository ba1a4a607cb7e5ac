"""A list of customer ids, such as those who unsubscribed: who of it is a customer, and what to say about the others."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.cells import flags
from disco.records.errors import InputError
from disco.records.wording import counted


@dataclass(frozen=True, slots=True, eq=False)
class IdList:
    """The ids of a file in its order, as they are written there."""

    file: str
    """What to call the file in messages."""
    ids: pa.Array
    """Text (large_string), without null."""
    rows: pa.Array
    """int64, for each id its row: in CSV and text files as a spreadsheet numbers it (a header is row 1)."""
    may_have_header: bool
    """Whether the first of the ids may be a header instead: a file of one column whose first line is no known name."""

    def among(self, customers: pa.Array) -> "ListedCustomers":
        """Who of the list is among the customers (ids as text).

        The first line is a header where it is no customer's id and another line is. InputError where nobody on the
        list is a customer, or where ids are those of customers but for what a spreadsheet does to them (`1.0` for 1):
        leaving them out would be wrong, and so might be taking them. Messages quote ids of customers and no other
        cell: the file may be another one than was meant.
        """
        customers, rows, header = customers.cast(pa.large_string()), self.rows, None
        # spaces around an id are those of the file, unless the table of customers has them, too
        ids = pc.if_else(pc.is_in(self.ids, value_set=customers), self.ids, pc.utf8_trim_whitespace(self.ids))
        known = flags(pc.is_in(ids, value_set=customers))
        if self.may_have_header and len(ids) > 1 and not known[0] and known.any():
            header, ids, rows, known = rows[0].as_py(), ids[1:], rows[1:], known[1:]
        unknown, places = ids.filter(pa.array(~known)), rows.filter(pa.array(~known))
        near = near_ids(unknown, customers) if len(unknown) else unknown
        changed = flags(near.is_valid())
        if changed.any():
            at = int(np.argmax(changed))
            raise InputError(
                f"{self.file}, row {places[at]}" + _and_more(int(changed.sum())),
                found="an id that no customer has in this form",
                expected="the id of a customer",
                fix=f"Did you mean {near[at].as_py()!r}? Save the ids as text, as the table of customers has them.",
            )
        if len(ids) and not known.any():
            raise InputError(
                self.file,
                found=f"{counted(len(ids), 'id')}, none of them a customer's",
                expected=f"ids such as {customers[0].as_py()!r}" if len(customers) else "ids of customers",
                fix="Give one customer id per line, as the table of customers has them.",
            )
        notes = [] if header is None else [f"{self.file}: row {header}, which names no customer, is read as a header"]
        if len(unknown):
            number = f"{len(unknown):,} of {counted(len(ids), 'id')}"
            notes.append(f"{self.file}: {number} name no customer, the first in row {places[0]}")
        return ListedCustomers(pc.unique(ids.filter(pa.array(known))), len(unknown), tuple(notes), pc.unique(unknown))


@dataclass(frozen=True, slots=True, eq=False)
class ListedCustomers:
    """The customers on a list."""

    ids: pa.Array
    """Text (large_string), each once, in the order of the list."""
    unknown: int
    """How many other ids the list has."""
    notes: tuple[str, ...]
    """What to know about the list: a first line read as a header, ids that name no customer."""
    others: pa.Array
    """Text, each once: those other ids. They may be customers whom the shop's tables do not have yet."""


def _and_more(number: int) -> str:
    return f" (and {number - 1} more)" if number > 1 else ""


# ---- ids that programs have changed on the way


# what programs do to an id on the way, undone: spaces, quotes, 1.0 for 1, zeros in front, capitals
_REWRITES = (("^['\"\\s\u00a0]+|['\"\\s\u00a0]+$", ""), (r"^([-+]?\d+)[.,]0+$", r"\1"), (r"^0+(\d)", r"\1"))


def near_ids(ids: pa.Array, known: pa.Array) -> pa.Array:
    """For each id the first known one that is the same but for spaces, quotes, capitals, `.0` and zeros in front.

    ids, known: text. Null where no known id is alike.

    >>> near_ids(pa.array(["1.0", " 7", "42", "C9"]), pa.array(["1", "007", "c9"])).to_pylist()
    ['1', '007', None, 'c9']
    """
    known = known.cast(pa.large_string())
    places = pc.index_in(_plain(ids.cast(pa.large_string())), value_set=_plain(known))
    return known.take(places)


def _plain(ids: pa.Array) -> pa.Array:
    for pattern, replacement in _REWRITES:
        ids = pc.replace_substring_regex(ids, pattern, replacement)
    return pc.utf8_lower(ids)
