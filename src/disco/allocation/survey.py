"""The first pass over a table in chunks: how many customers, the largest cells, a sample, and whether ids are unique.

Every part is a sum that knows no order: numbers are counted or compared, and the sample is that of the customers with
the smallest keys.

Ids are unique where their hashes are. The pass collects 32 bits of each hash, four bytes per customer. Whoever shares
them with somebody else is a suspect, whose id a later pass collects and compares. Where that would be more than
`MOST_HASHES`, only hashes that begin with some zero bits are collected, and further passes over the ids collect the
others: memory is bounded, and the answer stays exact.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from disco.allocation.chunk_rows import ID, ChunkRows, Layout
from disco.allocation.pennies import SEEN_WHOLE
from disco.records.arrays import Array, Flags, Integers, Keys
from disco.records.errors import InputError
from disco.records.identity import customer_keys

SAMPLED = SEEN_WHOLE  # customers in the sample; a table with fewer is solved as a whole
_SPARE = 1.1  # times as many are looked for where the number of rows is known: keys are spread evenly, but not quite
_ALL = 1 << 64  # no key is larger
MOST_HASHES = 1 << 26  # of ids, collected at a time: 256 MB


def below_which(rows: int | None) -> int:
    """Of so many customers, the smallest `SAMPLED` keys are below this; so are those of not many others."""
    return _ALL if not rows else min(int(_SPARE * SAMPLED / rows * _ALL), _ALL)


def short_hashes(keys: Keys) -> Array:
    """32 bits of each key; the sample goes by the others."""
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)


@dataclass(frozen=True, slots=True)
class IdHashes:
    """Hashes of ids, those that begin with `level` bits as `begin` says."""

    level: int
    begin: int
    parts: tuple[Array, ...]  # uint32 each
    size: int

    @classmethod
    def of(cls, keys: Array, *, level: int = 0, begin: int = 0) -> "IdHashes":
        hashes = short_hashes(keys)
        return cls(0, 0, (hashes,), hashes.size)._narrowed(level, begin)

    def _narrowed(self, level: int, begin: int) -> "IdHashes":
        if level == self.level:
            return self
        parts = tuple(part[part >> np.uint32(32 - level) == np.uint32(begin)] for part in self.parts)
        return IdHashes(level, begin, parts, sum(part.size for part in parts))

    def __add__(self, other: "IdHashes") -> "IdHashes":
        level = max(self.level, other.level)
        mine, others = self._narrowed(level, self.begin), other._narrowed(level, other.begin)
        both = IdHashes(level, self.begin, (*mine.parts, *others.parts), mine.size + others.size)
        while both.size > MOST_HASHES and both.begin == 0 and both.level < 16:
            both = both._narrowed(both.level + 1, 0)
        return both

    def twice(self) -> Array:
        """Those of more than one customer."""
        ordered = np.sort(np.concatenate(self.parts))
        return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])

    @property
    def nbytes(self) -> int:
        return 4 * self.size


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a table after one pass. Cells that cost more than the whole budget count as not eligible."""

    customers: int
    largest: float  # value of an eligible cell, at least 0
    magnitude: float  # of an eligible cell's value
    largest_cost: float  # of an eligible cell
    in_group: Integers  # (groups,) customers
    hashes: IdHashes
    sample: ChunkRows  # by key, at most `most`
    most: int

    @property
    def whole(self) -> bool:
        """Whether everybody is in the sample."""
        return self.sample.size == self.customers

    @property
    def complete(self) -> bool:
        """Whether the sample is that of the customers with the smallest keys, as many as there should be."""
        return self.sample.size == min(self.customers, self.most)

    @property
    def nbytes(self) -> int:
        return self.sample.nbytes + self.hashes.nbytes

    def __add__(self, other: "Survey") -> "Survey":
        sample = ChunkRows.joined([self.sample, other.sample])
        return Survey(
            self.customers + other.customers,
            max(self.largest, other.largest),
            max(self.magnitude, other.magnitude),
            max(self.largest_cost, other.largest_cost),
            self.in_group + other.in_group,
            self.hashes + other.hashes,
            _smallest(sample, self.most),
            self.most,
        )

    def in_order(self) -> "Survey":
        return replace(self, sample=self.sample.in_order())


def _smallest(rows: ChunkRows, most: int) -> ChunkRows:
    """Those with the smallest keys, in no particular order."""
    return rows if rows.size <= most else rows.take(np.argpartition(rows.keys, most)[:most])


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The chunk function of the pass."""

    layout: Layout
    budget: float | None
    most: int
    below: int = _ALL  # keys from here on are not in the sample

    def __call__(self, chunk: pa.Table) -> Survey:
        rows = self.layout.read(chunk)
        offered = rows.eligible if self.budget is None else affordable(rows, self.budget)
        largest = _largest(rows.values, offered)
        magnitude = max(largest, _largest(-rows.values, offered))
        largest_cost = 0.0 if rows.costs is None else _largest(rows.costs, offered)
        in_group = np.array([rows.size]) if rows.group is None else np.bincount(
            rows.group, minlength=len(self.layout.labels) + 1
        )  # fmt: skip
        return Survey(
            rows.size, largest, magnitude, largest_cost, in_group, IdHashes.of(rows.keys),
            _smallest(self._sampled(rows), self.most), self.most,
        )  # fmt: skip

    def _sampled(self, rows: ChunkRows) -> ChunkRows:
        return rows if self.below >= _ALL else rows.take(np.flatnonzero(rows.keys < np.uint64(self.below)))


def _largest(matrix: Array, where: Flags | None) -> float:
    return float(matrix.max(initial=0.0) if where is None else matrix.max(initial=0.0, where=where))


def affordable(rows: ChunkRows, budget: float) -> Flags:
    """(depths, customers) eligible cells that the whole budget could pay: no other can be taken."""
    assert rows.costs is not None
    within: Flags = rows.costs <= np.float64(budget)  # a plain float would be rounded to the precision of the costs
    return within if rows.eligible is None else within & rows.eligible


@dataclass(frozen=True, slots=True)
class Hashed:
    """The chunk function of a further pass over the ids: the hashes that begin with other bits."""

    level: int
    begin: int

    def __call__(self, chunk: pa.Table) -> IdHashes:
        return IdHashes.of(customer_keys(chunk[ID]), level=self.level, begin=self.begin)


@dataclass(frozen=True, slots=True)
class Suspected:
    """A chunk function: the ids with one of these hashes, as text."""

    hashes: Array  # ascending

    def __call__(self, chunk: pa.Table) -> tuple[list[str], ...]:
        if not self.hashes.size:
            return ()
        own = short_hashes(customer_keys(chunk[ID]))
        place = np.minimum(np.searchsorted(self.hashes, own), self.hashes.size - 1)
        ids = chunk[ID].take(pa.array(np.flatnonzero(self.hashes[place] == own))).to_pylist()
        return ([str(one) for one in ids],) if ids else ()


def side_by_side(one: tuple[list[str], ...], other: tuple[list[str], ...]) -> tuple[list[str], ...]:
    """The ids of both; merging counts here would take longer with every chunk."""
    return (*one, *other)


def refuse_duplicates(ids: tuple[list[str], ...]) -> None:
    """InputError names an id that is there more than once."""
    found = Counter(chain.from_iterable(ids))
    twice = sorted(name for name, times in found.items() if times > 1)
    if twice:
        raise InputError(
            "customer_id",
            found=f"{twice[0]!r} {found[twice[0]]} times, and {len(twice) - 1:,} other ids more than once"
            if len(twice) > 1
            else f"{twice[0]!r} {found[twice[0]]} times",
            expected="each customer once",
            fix="Remove the duplicates: a customer gets one code at most.",
        )


def suspects(hashes: IdHashes, fold: Callable[..., IdHashes]) -> Array:
    """The hashes that more than one customer has; passes over the ids collect those that `hashes` leaves out."""
    found = [hashes.twice()]
    for begin in range(1, 1 << hashes.level):
        more = fold(Hashed(hashes.level, begin), IdHashes.__add__)
        found.append(more.twice())
    return np.sort(np.concatenate(found))
