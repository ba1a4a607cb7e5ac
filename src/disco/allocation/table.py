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

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, takewhile
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation.limits import Limits, SegmentLimits
from disco.allocation.problem import SEEN_WHOLE, AllocationProblem, Rows, TableCells
from disco.records.arrays import Array, Flags, Floats, Integers, Keys
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import inner_kernel, njit
from disco.records.depths import read_depth
from disco.records.errors import InputError, LimitError
from disco.records.exact_sums import exact_sum
from disco.records.identity import customer_keys, mix
from disco.records.ports import Engine


@njit(nogil=True, cache=True, patient=True)
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
def _less_costs(cells: TableCells, rate: float, rows: Array, out: Array) -> None:
    """out[k, j] -= rate · cost of customer rows[j], and -∞ where ineligible."""
    _, eligible, costs, _ = cells
    for k in range(out.shape[0]):
        if costs.size > 0:
            for j in range(rows.size):
                out[k, j] -= rate * np.float64(costs[k, rows[j]])
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]]:
                    out[k, j] = -np.inf


@njit(nogil=True, cache=True, patient=True)
def _take(cells: TableCells, rate: float, rows: Array, out: Array, found: Array) -> None:
    values, eligible = cells.values, cells.eligible
    _read(values, rows, out)
    bits = out.view(np.int64)
    for k in range(values.shape[0]):
        if eligible.size > 0:
            for j in range(rows.size):
                if not eligible[k, rows[j]] and np.isfinite(out[k, j]):
                    out[k, j] = 0.0
        value_range(bits[k], eligible[0, 0:0], found)  # without flags: what is not eligible was set to 0
    _less_costs(cells, rate, rows, out)
    if found[1] >= 0x7FF0000000000000:  # some cell is no finite number
        for k in range(values.shape[0]):
            for j in range(rows.size):
                out[k, j] = out[k, j] if np.isfinite(out[k, j]) else -np.inf


def take(rows: Rows, rate: float, numbers: Array, out: Array) -> tuple[float, float]:
    """out[k, j] = value - rate · cost of customer numbers[j]; -∞ where ineligible, or no finite number.

    Returns the largest magnitude (NaN or ∞ when any value is) and the largest value, at least 0, of eligible cells
    before costs.
    """
    found = np.zeros(2, np.int64)
    _take(rows.cells(costs=rate != 0.0, segments=False), rate, numbers, out, found)
    largest, magnitude = found.view(np.float64).tolist()
    return magnitude, largest


@inner_kernel(cache=True)
def load_line(cells: TableCells, rate: float, centre: Array, width: Array, k: int, start: int, line: Array) -> None:
    """line[j] = value - rate · cost - (centre - width) of customer start + j; -∞ where ineligible."""
    values, eligible, costs, segment = cells
    count = line.size
    worth = values[k, start : start + count]  # a slice has no negative places, for which the compiler would look
    # each cell is rounded to the type of the line once, at the end: costs may nearly cancel values
    paid = costs[k if costs.size > 0 else 0, start : start + count]
    if segment.size == 0:
        shift = centre[0, k] - width[0, k]
        if costs.size > 0:
            for j in range(count):
                line[j] = np.float64(worth[j]) - shift - rate * np.float64(paid[j])
        else:
            for j in range(count):
                line[j] = np.float64(worth[j]) - shift
    else:
        for j in range(count):
            group = segment[start + j]
            shift = centre[group, k] - width[group, k]
            cost = rate * np.float64(paid[j]) if costs.size > 0 else 0.0
            line[j] = np.float64(worth[j]) - shift - cost
    if eligible.size > 0:
        allowed = eligible[k, start : start + count]
        for j in range(count):
            line[j] = line[j] if allowed[j] else -np.inf


def bits_of(values: Array) -> Array:
    """The same memory as integers of the same size."""
    return values.view(np.int64 if values.dtype.itemsize == 8 else np.int32)


def as_float(pattern: int, *, wide: bool) -> float:
    """The float whose bits these are."""
    if wide:
        return float(np.int64(pattern).view(np.float64))
    return float(np.int32(pattern).view(np.float32))


ID = "customer_id"
# Stands before the depth in the name of a column of costs.
COST = "cost_"


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

    def read(self, chunk: pa.Table) -> Rows:
        """The arrays of a chunk; InputError names the customer with a cell that cannot be used."""
        keys = customer_keys(chunk[ID])
        values, eligible = self._matrix(chunk, self.values)
        costs = None
        if self.costs is not None:
            costs, known = self._matrix(chunk, self.costs)
            self._check_costs(chunk, costs, known, eligible)
        group = None if self.segment is None else self._groups(chunk[self.segment])
        return Rows(keys, values, eligible, costs, group)

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
            fix = "Leave the cell null where a customer may not get this depth."
            _refuse_cell(chunk, names, ~np.isfinite(matrix), matrix, expected="a finite number", fix=fix)
        return matrix, known

    def _check_costs(self, chunk: pa.Table, costs: Floats, known: Flags | None, eligible: Flags | None) -> None:
        assert self.costs is not None
        if known is not None:
            missing = ~known if eligible is None else ~known & eligible
            if missing.any():
                expected = "a cost, because the values let this customer have this depth"
                _refuse_cell(chunk, self.costs, missing, None, expected=expected)
        if costs.size and costs.min() < 0:
            _refuse_cell(chunk, self.costs, costs == costs.min(), costs, expected="a cost of at least 0")

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


def _refuse_cell(
    chunk: pa.Table, names: tuple[str, ...], bad: Array, cells: Array | None, *, expected: str, fix: str | None = None
) -> None:
    """InputError about the first bad cell; cells: what stands there, None: nothing."""
    row, at = (int(place) for place in np.argwhere(bad)[0])
    found = "a null" if cells is None else float(cells[row, at])
    raise InputError(f"column {names[row]}, customer {chunk[ID][at].as_py()}", found=found, expected=expected, fix=fix)


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


class Grid(NamedTuple):
    """What all cells of a table together say: how fine the grid is, and how far a place must win by.

    Whatever part of a table is solved, the grid is that of the whole: otherwise a decision would depend on the part.
    """

    top: float  # the largest value; with floors, the largest magnitude
    margin: float  # `MARGIN` of it, at least: far above the rounding of a bid


class TableSample(NamedTuple):
    """Some customers, the same for the same table."""

    net: Array  # (depths, customers) value - budget price · cost, -∞ where ineligible
    group: Array | None  # (customers,) their segments
    numbers: Array  # (customers,) their row numbers
    magnitude: float  # the largest of an eligible cell, before costs

    @property
    def size(self) -> int:
        return int(self.net.shape[1])

    @property
    def rows(self) -> Rows:
        return Rows(np.empty(0, np.uint64), self.net, None, None, self.group)


class Settling(NamedTuple):
    """What a rule says about some customers."""

    opened: int  # how many stay open; more than `rows` has where there was no room for all
    choice: Array  # (customers,) int16; only a guess for the open ones
    counts: Integers  # (groups, depths) settled customers
    rows: Array  # (open,) row numbers
    largest: float = 0.0  # value of an eligible cell, at least 0, where the rule looks at it; NaN or ∞ where a cell is
    magnitude: float = 0.0
    worth: int = 0  # Σ values of the settled in grid units, where there is a budget price
    spent: int = 0  # Σ costs of the settled in grid units


class SettlingRule(Protocol):
    """Settles customers one by one, whoever else is in the table (`rules`)."""

    def settle(self, rows: Rows, part: slice, room: int) -> Settling:
        """The customers of a part of these rows; at most `room` open ones are listed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass leaves behind. A customer is settled, or open: then a later step decides.

    `choice` and `rows` are about the customers at hand: everybody of a table in memory, and of a table in chunks those
    whom the pass left open.
    """

    rule: SettlingRule
    counts: Integers  # (groups, depths) settled customers
    opened: int  # how many are open
    rows: Array  # (open,) their row numbers among those at hand; fewer than `opened`: too many to be kept
    choice: Array  # (customers at hand,), only a guess for the open ones
    grid: Grid  # of the whole table
    worth: int = 0  # Σ values of the settled, grid units
    spent: int = 0  # Σ costs of the settled, grid units
    cost: int = 0  # Σ costs of the settled, exact; of tables in chunks
    at_hand: Rows | None = None  # the open customers of a table in chunks

    @property
    def kept(self) -> bool:
        """Whether the open customers are few enough to be looked at together."""
        return self.rows.size == self.opened

    def fill_open(self, choice: Array) -> Array:
        """(customers at hand,) everybody's choice: that of the open ones is written into `choice`, without a copy."""
        self.choice[self.rows] = choice
        return self.choice


Result = TypeVar("Result")
PartFunction: TypeAlias = Callable[[Rows, slice], Result]
"""A pure function of a part of some rows, whose results are added."""


class ValueTable(Protocol):
    """All customers, wherever they are: what the driver (`solve`) and the search for a budget price ask of them.

    There are two. `TableInMemory` reads slices of arrays where they are and can copy everybody who is needed. Of
    `TableInChunks` there are only a sample and the open customers here, and everything else is a pass over files or
    partitions. What they differ in is what is at hand (`Pass.rows`, `contested`) and what is too much to ask
    (`everybody`); rules, samples by size and sums of passes are the same.
    """

    @property
    def customers(self) -> int: ...

    @property
    def problem(self) -> AllocationProblem:
        """Those who are here: everybody, or a sample; with the limits of everybody."""

    @property
    def grid(self) -> Grid | None:
        """None: nobody has looked at all cells yet."""

    @property
    def engine(self) -> Engine | None: ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of samples, the first and larger ones, in customers."""

    def sample(self, size: int, *, scattered: bool = True) -> TableSample:
        """scattered: no two customers next to each other, who may be alike."""

    def screen(self, rule: SettlingRule, *, open_share: float = 1.0) -> Pass:
        """One pass with a rule. open_share: of the customers, about, who will stay open."""

    def fold(self, function: PartFunction[Result], add: Callable[[Result, Result], Result]) -> Result:
        """One pass with a function whose results are added."""

    def contested(self, passed: Pass) -> tuple[Array, Rows]:
        """The open customers as they are, and their numbers among those at hand: by key, so that the order of rows
        shows nowhere."""

    def net(self, passed: Pass) -> AllocationProblem:
        """The open customers with their net values: a table in memory."""

    def keys_of(self, numbers: Array) -> Keys:
        """Of the customers with these row numbers of a sample."""

    def keyed(self) -> "ValueTable":
        """The same table, all of whose customers have their keys at hand."""

    def known_grid(self) -> Grid:
        """Of all cells; a pass where nobody has looked at all of them."""

    def everybody(self) -> "TableInMemory | None":
        """All customers with their net values; None: they are too many to be copied."""


# Customers per chunk of a pass without segments and costs: it is bound by memory and takes milliseconds, so few and
# long chunks. One with them is bound by arithmetic, so that two threads halve it: its chunks are the usual ones.
CHUNK = 262_144
# A pass that leaves a larger share open saves too little: values tie, and keeping the customers would copy the matrix.
TOO_MANY = 0.6
# Customers, at most, who are all copied where a sample tells too little: 100 MB as float64 of eight depths.
COPIED = 1_500_000
# Customers in a first sample: so many times the root of their number. At 1,000,000 × 8, half as many leave twice as
# many customers open, twice as many take longer than they save.
_SAMPLED_PER_ROOT = 48
# By how much a place must win, as a share of the largest value: a thousand times the rounding of a bid. And where that
# value is known from a sample only, or several prices are compared.
MARGIN, SAMPLE_MARGIN = 1e-12, 1e-10


@dataclass(frozen=True, slots=True)
class TableInMemory:
    """Rows in memory, read where they are: parts are slices, and an engine's threads take one each."""

    problem: AllocationProblem
    rate: float = 0.0  # the budget price
    engine: Engine | None = None
    grid: Grid | None = None  # None: nobody has looked at all cells yet

    @property
    def customers(self) -> int:
        return self.problem.customers

    @property
    def rows(self) -> Rows:
        return self.problem.rows

    @property
    def sizes(self) -> tuple[int, ...]:
        customers = self.customers
        first = int(min(_SAMPLED_PER_ROOT * math.sqrt(customers), customers // 2))
        larger = (first * 4**step for step in range(1, 32))
        return (first, *takewhile(lambda size: size <= customers // 3, larger))

    def _chunks(self) -> list[slice]:
        plain = self.problem.limits.segment is None and self.problem.costs is None
        return row_chunks(self.customers, size=CHUNK if plain else None)

    def sample(self, size: int, *, scattered: bool = True) -> TableSample:
        problem, segment = self.problem, self.problem.limits.segment
        if size >= self.customers and self.grid is not None:  # net values already, and all of them
            return TableSample(problem.values, segment, np.arange(self.customers), self.grid.top)
        # neighbours share cache lines, but may be alike
        run = 1 if scattered or self.customers < 100_000 else 32
        numbers = sample_rows(self.customers, min(size, self.customers), run)
        net = np.empty((problem.columns, numbers.size))
        magnitude, _ = take(self.rows, self.rate, numbers, net)
        return TableSample(net, None if segment is None else segment[numbers], numbers, magnitude)

    def screen(self, rule: SettlingRule, *, open_share: float = 1.0) -> Pass:
        """InputError names a NaN or infinity. Where there is too little room for the open ones, the pass is
        repeated."""
        rows, problem, share = self.rows, self.problem, min(1.0, 1.5 * open_share + 0.02)

        def settled(part: slice) -> Settling:
            return rule.settle(rows, part, int((part.stop - part.start) * share) + 256)

        chunks = self._chunks()
        engine = self.engine if len(chunks) > 1 else None
        for _ in range(2):
            parts = list(spread(settled, chunks, engine=engine))
            opened = sum(part.opened for part in parts)
            listed = sum(part.rows.size for part in parts)
            if listed == opened or opened > TOO_MANY * self.customers:
                break
            share = 1.0
        grid = self.grid
        if grid is None:
            magnitude = float(np.max([part.magnitude for part in parts]))  # NaN where one is
            problem.refuse_unless_finite(magnitude)
            grid = self._grid(max(part.largest for part in parts), magnitude)
        first = parts[0]
        return Pass(
            rule,
            first.counts if len(parts) == 1 else np.sum([part.counts for part in parts], axis=0),
            opened,
            first.rows if len(parts) == 1 else np.concatenate([part.rows for part in parts]),
            first.choice if len(parts) == 1 else np.concatenate([part.choice for part in parts]),
            grid,
            sum(part.worth for part in parts),
            sum(part.spent for part in parts),
        )

    def _grid(self, largest: float, magnitude: float) -> Grid:
        top = self.problem.grid_top(largest, magnitude, self.rate)
        return Grid(top, MARGIN * top)

    def fold(self, function: PartFunction[Result], add: Callable[[Result, Result], Result]) -> Result:
        rows = self.rows
        return reduce(add, spread(lambda part: function(rows, part), self._chunks(), engine=self.engine))

    def contested(self, passed: Pass) -> tuple[Array, Rows]:
        keys = self.keys_of(passed.rows)
        order = np.argsort(keys, kind="stable")
        numbers = passed.rows[order]
        return numbers, self.rows.take(numbers)._replace(keys=keys[order])

    def net(self, passed: Pass) -> AllocationProblem:
        return self.net_of(passed.rows)

    def net_of(self, numbers: Array) -> AllocationProblem:
        """Net values of some customers."""
        return self._net(numbers)[0]

    def _net(self, numbers: Array) -> tuple[AllocationProblem, float, float]:
        """Net values of some customers, with the largest magnitude and the largest value before costs.

        They are read from all over the table, so that threads wait for memory side by side.
        """
        problem, pieces = self.problem, row_chunks(numbers.size)

        def gathered(part: slice) -> tuple[Array, tuple[float, float]]:
            own = np.empty((problem.columns, part.stop - part.start))
            return own, take(self.rows, self.rate, numbers[part], own)

        if len(pieces) > 1:
            parts = list(spread(gathered, pieces, engine=self.engine))
            net = np.concatenate([own for own, _ in parts], axis=1)
            magnitude = float(np.max([size for _, (size, _) in parts]))  # NaN where one is
            largest = max(largest for _, (_, largest) in parts)
        else:
            net, (magnitude, largest) = gathered(slice(0, numbers.size))
        segment = problem.limits.segment
        limits = problem.limits if segment is None else replace(problem.limits, segment=segment[numbers])
        all_by_number = problem.keys is None and numbers.size == problem.customers
        keys = None if all_by_number else self.keys_of(numbers)
        return AllocationProblem(net, limits, keys=keys), magnitude, largest

    def keys_of(self, numbers: Array) -> Keys:
        return self.problem.keys_of(numbers)

    def keyed(self) -> "TableInMemory":
        if self.problem.keys is not None:
            return self
        return replace(self, problem=replace(self.problem, keys=self.problem.all_keys))

    def known_grid(self) -> Grid:
        """By one more look at every cell; InputError names a NaN or infinity."""
        if self.grid is not None:
            return self.grid
        largest, magnitude = self.fold(cell_range, _larger)
        self.problem.refuse_unless_finite(magnitude)
        return self._grid(largest, magnitude)

    def everybody(self) -> "TableInMemory | None":
        if self.customers > COPIED:
            return None
        problem, magnitude, largest = self._net(np.arange(self.customers))
        if self.grid is not None:
            return TableInMemory(problem, engine=self.engine, grid=self.grid)
        self.problem.refuse_unless_finite(magnitude)
        return TableInMemory(problem, engine=self.engine, grid=self._grid(largest, magnitude))


@njit(nogil=True, cache=True, patient=True)
def _range_of(bits: Array, eligible: Array, start: int, stop: int, found: Array) -> None:
    """`value_range` of the customers start to stop, block by block."""
    for k in range(bits.shape[0]):
        value_range(bits[k, start:stop], eligible[k if eligible.size > 0 else 0, start:stop], found)


def cell_range(rows: Rows, part: slice) -> tuple[float, float]:
    """The largest value, at least 0, and the largest magnitude of eligible cells; NaN or ∞ where any cell is."""
    found = np.zeros(2, np.int64)
    _range_of(bits_of(rows.values), rows.cells().eligible, part.start, part.stop, found)
    largest, magnitude = (as_float(pattern, wide=rows.values.itemsize == 8) for pattern in found.tolist())
    return largest, magnitude


def _larger(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], other[0]), float(np.maximum(one[1], other[1]))  # NaN stays NaN


@dataclass(frozen=True, slots=True)
class Reading:
    """How chunks become rows: what a customer cannot be given at all, they are not eligible for."""

    layout: Layout
    closed: Array | None = None  # (groups, depths) places that nobody may get
    budget: float | None = None  # cells that cost more than the whole budget cannot be taken

    def read(self, chunk: pa.Table) -> Rows:
        return self.offered(self.layout.read(chunk))

    def offered(self, rows: Rows) -> Rows:
        """The same customers, eligible for no closed place and for nothing that costs more than the whole budget."""
        flags = rows.eligible if self.closed is None else open_cells(rows, self.closed)
        if self.budget is not None and rows.costs is not None:
            flags = affordable(rows._replace(eligible=flags), self.budget)
        return rows._replace(eligible=flags)


def of_chunk(reading: Reading, function: PartFunction[Result], chunk: pa.Table) -> Result:
    """A function of rows as a chunk function: it travels to wherever the chunk is."""
    rows = reading.read(chunk)
    return function(rows, slice(0, rows.size))


@dataclass(frozen=True, slots=True)
class Screening:
    """What a pass over chunks leaves behind; its parts are added in any order."""

    settled: Settling  # counts and sums of all chunks; without choice and rows, which stay where the chunk is
    cost: int  # Σ costs of the settled, exact (`records.exact_sums`)
    parts: tuple[Rows, ...]  # the open customers; () where they are too many
    open_bytes: int  # of all open customers
    most_bytes: int

    def __add__(self, other: "Screening") -> "Screening":
        open_bytes, one, two = self.open_bytes + other.open_bytes, self.settled, other.settled
        parts = (*self.parts, *other.parts) if open_bytes <= self.most_bytes else ()
        settled = one._replace(
            opened=one.opened + two.opened,
            counts=one.counts + two.counts,
            worth=one.worth + two.worth,
            spent=one.spent + two.spent,
        )
        return Screening(settled, self.cost + other.cost, parts, open_bytes, self.most_bytes)

    @property
    def nbytes(self) -> int:
        return self.open_bytes if self.parts else 0


def _screened(rule: SettlingRule, most_bytes: int, rows: Rows, part: slice) -> Screening:
    """The part function of a pass with a rule over chunks."""
    settled = rule.settle(rows, part, rows.size)
    cost = 0
    if rows.costs is not None:
        placed = settled.choice.copy()
        placed[settled.rows] = -1
        cost = cost_of(rows, placed)
    opened = rows.take(settled.rows)
    nothing = settled._replace(choice=np.empty(0, np.int16), rows=np.empty(0, np.int64))
    return Screening(nothing, cost, (opened,), opened.nbytes, most_bytes)


def cost_of(rows: Rows, choice: Array) -> int:
    """Σ costs of a choice, exact."""
    assert rows.costs is not None
    taken = np.flatnonzero(choice >= 0)
    return exact_sum(rows.costs[choice[taken], taken].astype(np.float64))


class TableInChunks:
    """Parquet files or Spark partitions: a sample is here, passes go to the chunks, open customers are brought here.

    limits: without the customers' segments, which only the chunks know.
    fold: one pass with a chunk function whose results are added.
    most_bytes: of open customers who are brought here.
    """

    def __init__(
        self, survey: "Survey", limits: Limits, reading: Reading, fold: Callable[..., Any], most_bytes: int
    ) -> None:
        self.limits, self.reading, self._fold, self.most_bytes = limits, reading, fold, most_bytes
        self.customers, self.survey, self.engine = survey.customers, survey, None
        self.offered = reading.offered(survey.sample)
        top = survey.magnitude if limits.has_floors else survey.largest
        self.grid = Grid(top, SAMPLE_MARGIN * survey.magnitude)
        self.problem = self._problem(self.offered)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.offered.size,)

    def _problem(self, rows: Rows) -> AllocationProblem:
        """Customers who are here, as a problem with the limits of everybody."""
        return AllocationProblem.of(rows, self.limits, self.reading.layout.depths, self.survey.largest_cost)

    def sample(self, size: int, *, scattered: bool = True) -> TableSample:
        """By key: the order of rows shows nowhere."""
        numbers = np.arange(min(size, self.offered.size))
        net = np.empty((self.problem.columns, numbers.size))
        take(self.offered, 0.0, numbers, net)
        group = self.offered.group
        return TableSample(net, None if group is None else group[numbers], numbers, self.survey.magnitude)

    def screen(self, rule: SettlingRule, *, open_share: float = 1.0) -> Pass:
        found = self.fold(partial(_screened, rule, self.most_bytes), Screening.__add__)
        rows = Rows.joined(found.parts).in_order() if found.parts else None
        opened = 0 if rows is None else rows.size
        return Pass(
            rule,
            found.settled.counts,
            found.settled.opened,
            np.arange(opened),
            np.full(opened, -1, np.int16),
            self.grid,
            found.settled.worth,
            found.settled.spent,
            found.cost,
            rows,
        )

    def fold(self, function: PartFunction[Result], add: Callable[[Result, Result], Result]) -> Result:
        result: Result = self._fold(partial(of_chunk, self.reading, function), add)
        return result

    def contested(self, passed: Pass) -> tuple[Array, Rows]:
        assert passed.at_hand is not None
        return passed.rows, self.reading.offered(passed.at_hand)

    def net(self, passed: Pass) -> AllocationProblem:
        problem = self._problem(self.contested(passed)[1]._replace(costs=None))
        return TableInMemory(problem)._net(np.arange(problem.customers))[0]

    def keys_of(self, numbers: Array) -> Keys:
        return self.offered.keys[numbers]

    def keyed(self) -> "TableInChunks":
        return self

    def known_grid(self) -> Grid:
        return self.grid

    def everybody(self) -> TableInMemory | None:
        return None


# Customers in the sample of a table in chunks; a table with fewer is solved as a whole.
SAMPLED = SEEN_WHOLE
# So many times as many are looked for where the number of rows is known: keys are spread evenly, but not quite.
_SPARE = 1.1
# No key is larger.
_ALL = 1 << 64
# Hashes of ids that are collected at a time: 256 MB.
MOST_HASHES = 1 << 26


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
    sample: Rows  # by key, at most `most`
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
        sample = Rows.joined([self.sample, other.sample])
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


def _smallest(rows: Rows, most: int) -> Rows:
    """Those with the smallest keys, in no particular order."""
    return rows if rows.size <= most else rows.take(np.argpartition(rows.keys, most)[:most])


def survey(layout: Layout, budget: float | None, most: int, below: int, chunk: pa.Table) -> Survey:
    """The chunk function of the first pass.

    most: customers in the sample. below: keys from here on are not in it.
    """
    rows = layout.read(chunk)
    offered = rows if budget is None else rows._replace(eligible=affordable(rows, budget))
    largest, magnitude = cell_range(offered, slice(0, rows.size))
    groups = len(layout.labels) + 1
    in_group = np.array([rows.size]) if rows.group is None else np.bincount(rows.group, minlength=groups)
    sampled = rows if below >= _ALL else rows.take(np.flatnonzero(rows.keys < np.uint64(below)))
    return Survey(
        rows.size, largest, magnitude, offered.largest_cost, in_group, IdHashes.of(rows.keys),
        _smallest(sampled, most), most,
    )  # fmt: skip


def open_cells(rows: Rows, closed: Flags) -> Flags:
    """(depths, customers) eligible cells at places that are not closed; closed: (groups, depths)."""
    open_to = ~closed.T[:, rows.group] if rows.group is not None else np.repeat(~closed.T, rows.size, axis=1)
    flags: Flags = np.ascontiguousarray(open_to if rows.eligible is None else open_to & rows.eligible)
    return flags


def affordable(rows: Rows, budget: float) -> Flags:
    """(depths, customers) eligible cells that the whole budget could pay: no other can be taken."""
    assert rows.costs is not None
    within: Flags = rows.costs <= np.float64(budget)  # a plain float would be rounded to the precision of the costs
    return within if rows.eligible is None else within & rows.eligible


def _more_hashes(level: int, begin: int, chunk: pa.Table) -> IdHashes:
    """The chunk function of a further pass over the ids: the hashes that begin with other bits."""
    return IdHashes.of(customer_keys(chunk[ID]), level=level, begin=begin)


def suspected(hashes: Array, chunk: pa.Table) -> tuple[list[str], ...]:
    """The chunk function that brings the ids with one of these hashes (ascending), as text."""
    if not hashes.size:
        return ()
    own = short_hashes(customer_keys(chunk[ID]))
    place = np.minimum(np.searchsorted(hashes, own), hashes.size - 1)
    ids = chunk[ID].take(pa.array(np.flatnonzero(hashes[place] == own))).to_pylist()
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
        more = fold(partial(_more_hashes, hashes.level, begin), IdHashes.__add__)
        found.append(more.twice())
    return np.sort(np.concatenate(found))
