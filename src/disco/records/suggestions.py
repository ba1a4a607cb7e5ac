"""What was probably meant: a word among those that are known, an id that a spreadsheet has changed."""

from collections.abc import Iterable
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

# what programs do to an id on the way, undone: spaces, quotes, 1.0 for 1, zeros in front, capitals
_REWRITES = (("^['\"\\s\u00a0]+|['\"\\s\u00a0]+$", ""), (r"^([-+]?\d+)[.,]0+$", r"\1"), (r"^0+(\d)", r"\1"))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question after a word that is not known, whatever its case; None where nothing comes close.

    >>> did_you_mean("Purchse", ["purchase", "refund"]), did_you_mean("x", ["refund"])
    ('Did you mean purchase?', None)
    """
    plain = {other.strip().casefold(): other for other in known}
    near = get_close_matches(name.strip().casefold(), plain, n=1)
    return f"Did you mean {plain[near[0]]}?" if near else None


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
