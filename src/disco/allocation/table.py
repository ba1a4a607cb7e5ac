"""Customers as the arrays of the solver: how cells and chunks are read, samples, and the first pass over chunks.

A table in chunks has a column customer_id, one column of values per depth (null: not eligible), and where there is a
budget or limits of segments, one column of costs per depth and one of labels. `Layout` reads a chunk of it and checks
it, whoever holds the table.

The first pass (`Survey`) says how many customers there are, the largest cells, a sample, and whether ids are unique.
Every part is a sum that knows no order: numbers are counted or compared, and the sample is that of the customers with
the smallest keys.

Ids are unique where their hashes are. The pass collects 32 bits of each hash, four bytes per customer. Whoever shares
them with somebody else is a suspect, whose id a later pass collects and compares. Where that would be more than
`MOST_HASHES`, only hashes that begin with some zero bits are collected, and further passes over the ids collect the
others: memory is bounded, and the answer stays exact.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation.limits import SegmentLimits
from disco.allocation.problem import SEEN_WHOLE
from disco.records.arrays import Array, Flags, Floats, Integers, Keys
from disco.records.compiled import inner_kernel, njit
from disco.records.depths import read_depth
from disco.records.errors import InputError, LimitError
from disco.records.identity import customer_keys
from disco.records.identity_kernels import mix


@njit(nogil=True, cache=True)
def sample_rows(customers: int, size: int, run: int) -> Array:
    """About `size` row numbers: one run of neighbours (they share a cache line) from each of size / run strata."""
    runs = size // run
    rows = np.empty(runs * run, np.int64)
    for stratum in range(runs):
        begin = stratum * customers // runs
        room = max((stratum + 1) * customers // runs - begin - run, 0)
        offset = np.int64(mix(np.uint64(stratum + 1)) % np.uint64(room + 1))
        for j in range(run):
            rows[stratum * run + j] = begin + offset + j
    return rows


@inner_kernel(cache=True)
def value_range(line: Array, allowed: Array, found: Array) -> None:
    """Raise found (2,) to the largest value and the largest magnitude of a line of cells, as bit patterns.

    Finite floats of one sign sort like their bits, and NaN and infinities lie above all of them; integer maxima run at
    memory speed, float ones must mind NaN.

    line: (customers,) `bits_of` the cells.
    allowed: (customers,) Booleans, or empty. Ineligible cells count only when they are not finite: what stands there
        must not set the grid.
    """
    magnitude_mask = 0x7FFFFFFFFFFFFFFF if line.itemsize == 8 else 0x7FFFFFFF
    infinity = 0x7FF0000000000000 if line.itemsize == 8 else 0x7F800000
    largest, magnitude = found[0], found[1]
    if allowed.size == 0:  # a loop of its own: without a condition in it the compiler reads several words at once
        for j in range(line.size):
            word = line[j]
            size = word & magnitude_mask
            largest = word if word > largest else largest
            magnitude = size if size > magnitude else magnitude
    else:
        for j in range(line.size):
            word = line[j]
            size = word & magnitude_mask
            if not allowed[j] and size < infinity:
                continue
            largest = word if word > largest else largest
            magnitude = size if size > magnitude else magnitude
    found[0] = largest
    found[1] = magnitude


@inner_kernel(cache=True)
def _read(values: Array, rows: Array, out: Array) -> None:
    """out[k, j] = value of customer rows[j]. Alone, so that many cells far from each other are on their way at once."""
    for k in range(values.shape[0]):
        for j in range(rows.size):
            out[k, j] = values[k, rows[j]]


@inner_kernel(cache=True)
def _less_costs(eligible: Array, costs: Array, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] -= rate · cost of customer rows[j], and -∞ where ineligible."""
    for k in range(out.shape[0]):
        if costs.size > 0:
            for j in range(rows.size):
                out[k, j] -= rate * np.float64(costs[k, rows[j]])
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]]:
                    out[k, j] = -np.inf


@njit(nogil=True, cache=True)
def _take(values: Array, eligible: Array, costs: Array, rate: float, rows: Array, out: Array, found: Array) -> None:
    _read(values, rows, out)
    bits = out.view(np.int64)
    for k in range(values.shape[0]):
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]] and np.isfinite(out[k, j]):
                    out[k, j] = 0.0
        value_range(bits[k], eligible[0, 0:0], found)  # without flags: what is not eligible was set to 0
    _less_costs(eligible, costs, rate, rows, out)
    if found[1] >= 0x7FF0000000000000:  # some cell is no finite number
        for k in range(values.shape[0]):
            for j in range(rows.size):
                out[k, j] = out[k, j] if np.isfinite(out[k, j]) else -np.inf


def take(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, rows: Array, out: Array
) -> tuple[float, float]:
    """out[k, j] = value - rate · cost of customer rows[j]; -∞ where ineligible, or no finite number.

    Returns the largest magnitude (NaN or ∞ when any value is) and the largest value, at least 0, of eligible cells
    before costs.
    """
    found = np.zeros(2, np.int64)
    values, allowed, paid = map(np.ascontiguousarray, (values, or_none(eligible), or_no_costs(costs, values)))
    _take(values, allowed, paid, rate, rows, out, found)
    largest, magnitude = found.view(np.float64).tolist()
    return magnitude, largest


@inner_kernel(cache=True)
def load_line(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    rate: float,
    segment: Array | None,
    centre: Array,
    width: Array,
    k: int,
    start: int,
    line: Array,
) -> None:
    """line[j] = value - rate · cost - (centre - width) of customer start + j; -∞ where ineligible.

    eligible, costs, segment: None or empty where there are none.
    """
    count = line.size
    cells = values[k, start : start + count]  # a slice has no negative places, for which the compiler would look
    if segment is None or segment.size == 0:
        shift = centre[0, k] - width[0, k]
        for j in range(count):
            line[j] = np.float64(cells[j]) - shift
    else:
        for j in range(count):
            group = segment[start + j]
            line[j] = np.float64(cells[j]) - (centre[group, k] - width[group, k])
    if costs is not None and costs.size > 0:
        paid = costs[k, start : start + count]
        for j in range(count):
            line[j] -= rate * np.float64(paid[j])
    if eligible is not None and eligible.size > 0:
        allowed = eligible[k, start : start + count]
        for j in range(count):
            line[j] = line[j] if allowed[j] else -np.inf


# Kernels take arrays only: one that may be None would be compiled once with it and once without. Where there are no
# flags, costs or segments, it is given one of these.
NO_FLAGS = np.empty((1, 0), np.bool_)  # of whose row every slice is empty
NO_SEGMENTS = np.empty(0, np.int64)


def or_none(eligible: Array | None) -> Array:
    """(depths, customers) Booleans, or an array of size 0: everybody may have everything."""
    return NO_FLAGS if eligible is None else eligible


def or_no_costs(costs: Array | None, values: Array) -> Array:
    """(depths, customers) costs of the type of the values, or an array of size 0: nothing costs anything."""
    return np.empty((1, 0), values.dtype) if costs is None else costs


def or_no_segments(segment: Array | None) -> Array:
    """(customers,) segments, or an empty array: everybody is in the same."""
    return NO_SEGMENTS if segment is None else segment


def bits_of(values: Array) -> Array:
    """The same memory as integers of the same size."""
    return values.view(np.int64 if values.dtype.itemsize == 8 else np.int32)


def as_float(pattern: int, *, wide: bool) -> float:
    """The float whose bits these are."""
    if wide:
        return float(np.int64(pattern).view(np.float64))
    return float(np.int32(pattern).view(np.float32))


ID = "customer_id"
COST = "cost_"  # before the depth, in the name of a column of costs


class ChunkRows(NamedTuple):
    """Some customers of a table; matrices are depth-major."""

    keys: Keys  # (customers,)
    values: Floats  # (depths, customers), 0 where not eligible
    eligible: Flags | None  # (depths, customers); None: everybody for every depth
    costs: Floats | None  # (depths, customers)
    group: Integers | None  # (customers,) row of their segment in the limits

    @property
    def size(self) -> int:
        return int(self.keys.size)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self if part is not None)

    def take(self, rows: Array) -> "ChunkRows":
        """Some of them, in this order."""
        return ChunkRows(
            self.keys[rows],
            np.ascontiguousarray(self.values[:, rows]),
            None if self.eligible is None else np.ascontiguousarray(self.eligible[:, rows]),
            None if self.costs is None else np.ascontiguousarray(self.costs[:, rows]),
            None if self.group is None else self.group[rows],
        )

    @staticmethod
    def joined(parts: Iterable["ChunkRows"]) -> "ChunkRows":
        """Those of several chunks, one after another."""
        some = list(parts)
        flags = None
        if any(part.eligible is not None for part in some):
            flags = np.concatenate(
                [np.ones(part.values.shape, np.bool_) if part.eligible is None else part.eligible for part in some],
                axis=1,
            )
        return ChunkRows(
            np.concatenate([part.keys for part in some]),
            np.concatenate([part.values for part in some], axis=1),
            flags,
            None if some[0].costs is None else np.concatenate([p.costs for p in some if p.costs is not None], axis=1),
            None if some[0].group is None else np.concatenate([p.group for p in some if p.group is not None]),
        )

    def in_order(self) -> "ChunkRows":
        """By key: the same whatever chunks they came in."""
        return self.take(np.argsort(self.keys, kind="stable"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a table are what."""

    depths: tuple[float, ...]
    values: tuple[str, ...]  # their columns
    costs: tuple[str, ...] | None  # those of the costs; None: there is no budget
    segment: str | None  # the column of labels; None: no segment has limits
    labels: tuple[str, ...]  # segments with limits, in the order of the rows of the limits
    id_type: pa.DataType
    narrow: bool  # all values are float32
    single: bool  # all values and costs are float32: cells are read as that, else as float64

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        budget: bool = False,
        segment: str | None = None,
        limits: SegmentLimits | None = None,
        where: str = "values",
    ) -> "Layout":
        """From the names and types of the columns; InputError names what is missing.

        segment: the column of labels; limits: those of the segments.
        """
        if ID not in schema.names:
            raise InputError(where, found=", ".join(schema.names), expected=f"a column {ID}")
        columns = depth_columns(schema, where=where)
        costs = None
        if budget:
            own = depth_columns(schema, where=where, prefix=COST)
            missing = [name for depth, name in columns.items() if depth not in own]
            if missing:
                expected = f"a column {COST}{missing[0]}, what depth {missing[0]} costs the budget"
                raise LimitError("budget", found=f"a budget, and no costs in {where}", expected=expected)
            costs = tuple(own[depth] for depth in columns)
        if segment is not None and segment not in schema.names:
            raise LimitError("segments", found=f"column {segment!r}", expected=f"a column of {where}")
        labels = tuple(str(label) for label in sorted(limits or {}, key=str))
        narrow, narrow_costs = (
            all(schema.field(name).type == pa.float32() for name in names) for names in (columns.values(), costs or ())
        )
        return cls(
            tuple(columns),
            tuple(columns.values()),
            costs,
            segment if labels else None,
            labels,
            schema.field(ID).type,
            narrow,
            narrow and narrow_costs,
        )

    @property
    def value_type(self) -> pa.DataType:
        return pa.float32() if self.narrow else pa.float64()

    def read(self, chunk: pa.Table) -> ChunkRows:
        """The arrays of a chunk; InputError names the customer with a cell that cannot be used."""
        keys = customer_keys(chunk[ID])
        values, eligible = self._matrix(chunk, self.values)
        costs = None
        if self.costs is not None:
            costs, known = self._matrix(chunk, self.costs)
            self._check_costs(chunk, costs, known, eligible)
        group = None if self.segment is None else self._groups(chunk[self.segment])
        return ChunkRows(keys, values, eligible, costs, group)

    def _matrix(self, chunk: pa.Table, names: tuple[str, ...]) -> tuple[Floats, Flags | None]:
        matrix = np.empty((len(names), chunk.num_rows), np.float32 if self.single else np.float64)
        known = None
        for row, name in enumerate(names):
            column = chunk[name]
            if pa.types.is_null(column.type):  # what pandas writes where nobody has a value
                column = column.cast(pa.float64())
            if column.null_count:
                known = np.ones(matrix.shape, np.bool_) if known is None else known
                known[row] = pc.is_valid(column).to_numpy()
                column = pc.fill_null(column, 0)
            matrix[row] = column.to_numpy()
        if not np.isfinite(matrix.sum()) and not np.isfinite(matrix).all():
            row, at = (int(place) for place in np.argwhere(~np.isfinite(matrix))[0])
            raise InputError(
                f"column {names[row]}, customer {chunk[ID][at].as_py()}",
                found=float(matrix[row, at]),
                expected="a finite number",
                fix="Leave the cell null where a customer may not get this depth.",
            )
        return matrix, known

    def _check_costs(self, chunk: pa.Table, costs: Floats, known: Flags | None, eligible: Flags | None) -> None:
        assert self.costs is not None
        if known is not None:
            missing = ~known if eligible is None else ~known & eligible
            if missing.any():
                row, at = (int(place) for place in np.argwhere(missing)[0])
                raise InputError(
                    f"column {self.costs[row]}, customer {chunk[ID][at].as_py()}",
                    found="a null",
                    expected="a cost, because the values let this customer have this depth",
                )
        if costs.size and costs.min() < 0:
            row, at = (int(place) for place in np.unravel_index(int(costs.argmin()), costs.shape))
            raise InputError(
                f"column {self.costs[row]}, customer {chunk[ID][at].as_py()}",
                found=float(costs[row, at]),
                expected="a cost of at least 0",
            )

    def _groups(self, labels: pa.ChunkedArray) -> Integers:
        """The row of each customer's segment; that of all others is the last."""
        encoded = labels.combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = pc.dictionary_encode(encoded, null_encoding="encode")
        row_of: Mapping[str, int] = {label: row for row, label in enumerate(self.labels)}
        rows = [row_of.get(str(value), len(self.labels)) for value in encoded.dictionary.to_pylist()]
        missing = row_of.get("None", len(self.labels))
        numbers = pc.fill_null(encoded.indices.cast(pa.int64()), len(rows)).to_numpy(zero_copy_only=False)
        groups: Integers = np.array([*rows, missing], np.int64)[numbers]
        return groups


def depth_columns(schema: pa.Schema, *, where: str, prefix: str = "") -> dict[float, str]:
    """The columns named by depth, as 0.1, in their order."""
    columns: dict[float, str] = {}
    for field in schema:
        if not field.name.startswith(prefix):
            continue
        try:
            float(field.name.removeprefix(prefix))
        except ValueError:
            continue
        depth = read_depth(field.name.removeprefix(prefix), where=f"{where}, column {field.name}")
        if depth in columns:
            found = f"the depth of {columns[depth]} again"
            raise InputError(f"{where}, column {field.name}", found=found, expected="it once")
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_null(field.type)):
            raise InputError(f"{where}, column {field.name}", found=str(field.type), expected="float")
        columns[depth] = field.name
    if not columns and not prefix:
        raise InputError(where, found=", ".join(schema.names), expected="columns named by depth, as 0.1")
    return columns


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
