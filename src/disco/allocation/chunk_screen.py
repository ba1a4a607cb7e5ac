"""The screening pass over a table in chunks: who is settled, and the rows of those who are not.

A rule settles every customer whose place is the same for all prices that are still possible: those of a box
(`screen`), of a range of budget prices (`rate_range`), or grid prices with a width for hashes (`ties`). Each is the
same function of a customer in every pass, so that settled customers need not be remembered: a later pass settles them
again, and only the choice of the others travels with it (`DecidedChunks`).
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from disco.allocation.screen import Apart, PriceBox, screen
from disco.allocation.table import ID, ChunkRows, Layout, affordable
from disco.allocation.ties import GridBox, screen_exactly
from disco.records.arrays import Array, Integers, Keys
from disco.records.exact_sums import exact_sum


class Settling(NamedTuple):
    """What a rule says about the customers of a chunk."""

    choice: Array  # (customers,) int16; only a guess for the open ones
    counts: Integers  # (groups, depths) settled customers
    opened: Array  # (open,) rows
    worth: int = 0  # Σ values of the settled in grid units, where there is a budget price
    spent: int = 0  # Σ costs of the settled in grid units


class SettlingRule(Protocol):
    """Settles customers one by one, whoever else is in the chunk."""

    def settle(self, rows: ChunkRows) -> Settling: ...


@dataclass(frozen=True, slots=True)
class Nobody:
    """Everybody stays open."""

    groups: int

    def settle(self, rows: ChunkRows) -> Settling:
        counts = np.zeros((self.groups, rows.values.shape[0]), np.int64)
        return Settling(np.full(rows.size, -1, np.int16), counts, np.arange(rows.size))


@dataclass(frozen=True, slots=True)
class InBox:
    """Whose place is the same for all prices of a box, or for all that are no further apart than is possible."""

    box: PriceBox
    margin: float
    apart: Apart | None = None  # without segments
    closed: Array | None = None  # (groups, depths) places that nobody may get
    budget: float | None = None  # cells that cost more than this cannot be taken

    def settle(self, rows: ChunkRows) -> Settling:
        rows = self.offered(rows)
        segment = rows.group if self.box.centre.shape[0] > 1 else None
        everybody = slice(0, rows.size)
        found = screen(
            rows.values, rows.eligible, None, 0.0, segment, everybody, self.box, self.margin, self.apart, room=rows.size
        )
        return Settling(found.choice, found.counts, found.rows)

    def holds(self, prices: Array) -> bool:
        """Whether final prices (groups, depths) are among those for which customers were settled."""
        return self.box.holds(prices) and (self.apart is None or self.apart.holds(prices[0], margin=self.margin))

    def offered(self, rows: ChunkRows) -> ChunkRows:
        """The same customers, eligible for what they can be given at all."""
        return offered(rows, closed=self.closed, budget=self.budget)


def offered(rows: ChunkRows, *, closed: Array | None, budget: float | None) -> ChunkRows:
    """The same customers, eligible for no closed place and for nothing that costs more than the whole budget."""
    flags = rows.eligible
    if closed is not None:
        open_to = ~closed.T[:, rows.group] if rows.group is not None else np.repeat(~closed.T, rows.size, axis=1)
        flags = np.ascontiguousarray(open_to if flags is None else open_to & flags)
    if budget is not None and rows.costs is not None:
        flags = affordable(rows._replace(eligible=flags), budget)
    return rows._replace(eligible=flags)


@dataclass(frozen=True, slots=True)
class OnGrid:
    """Whose place wins on the grid, ties by hash, by more than the width of the hash prices."""

    box: GridBox
    scale: float
    keep_negative: bool
    closed: Array | None = None
    budget: float | None = None

    def settle(self, rows: ChunkRows) -> Settling:
        rows = offered(rows, closed=self.closed, budget=self.budget)
        segment = rows.group if self.box.value_price.shape[0] > 1 else None
        found = screen_exactly(
            rows.values, rows.eligible, None, 0.0, segment, rows.keys, self.scale, self.keep_negative, self.box,
            room=rows.size,
        )  # fmt: skip
        return Settling(found.choice, found.counts, found.rows)


@dataclass(frozen=True, slots=True)
class Screening:
    """What the pass leaves behind."""

    counts: Integers  # (groups, depths) settled customers
    worth: int
    spent: int
    cost: int  # Σ costs of the settled, exact (`records.exact_sums`)
    opened: int
    parts: tuple[ChunkRows, ...]  # the open customers; () where they are too many
    open_bytes: int  # of all open customers
    most_bytes: int

    def __add__(self, other: "Screening") -> "Screening":
        open_bytes = self.open_bytes + other.open_bytes
        parts = (*self.parts, *other.parts) if open_bytes <= self.most_bytes else ()
        return Screening(
            self.counts + other.counts,
            self.worth + other.worth,
            self.spent + other.spent,
            self.cost + other.cost,
            self.opened + other.opened,
            parts,
            open_bytes,
            self.most_bytes,
        )

    @property
    def nbytes(self) -> int:
        return self.open_bytes if self.parts else 0

    def rows(self) -> ChunkRows | None:
        """The open customers by key; None: they are too many."""
        return ChunkRows.joined(self.parts).in_order() if self.parts else None


@dataclass(frozen=True, slots=True)
class ScreenedChunks:
    """The chunk function of the pass."""

    layout: Layout
    rule: SettlingRule
    most_bytes: int

    def __call__(self, chunk: pa.Table) -> Screening:
        rows = self.layout.read(chunk)
        found = self.rule.settle(rows)
        cost = 0
        if rows.costs is not None:
            settled = np.ones(rows.size, np.bool_)
            settled[found.opened] = False
            taken = np.flatnonzero(settled & (found.choice >= 0))
            cost = exact_sum(rows.costs[found.choice[taken], taken].astype(np.float64))
        opened = rows.take(found.opened)
        return Screening(
            found.counts, found.worth, found.spent, cost, opened.size, (opened,), opened.nbytes, self.most_bytes
        )


@dataclass(frozen=True, slots=True)
class DecidedChunks:
    """Everybody's choice: by the rule, or for those it leaves open by a table of their keys."""

    layout: Layout
    rule: SettlingRule
    keys: Keys  # ascending, of those whom the rule leaves open
    choice: Array  # int16, theirs

    def choose(self, rows: ChunkRows) -> Array:
        """(customers,) column, -1 = none."""
        found = self.rule.settle(rows)
        own = rows.keys[found.opened]
        at = np.searchsorted(self.keys, own)
        found.choice[found.opened] = self.choice[at] if self.keys.size else 0
        return found.choice

    def __call__(self, chunk: pa.Table) -> pa.Table:
        """The chunk function that writes: customer_id, depth (null: none) and value."""
        rows = self.layout.read(chunk)
        choice = self.choose(rows)
        none, column = choice < 0, np.maximum(choice, 0)
        value = np.where(none, rows.values.dtype.type(0), rows.values[column, np.arange(rows.size)])
        depth = pa.array(np.asarray(self.layout.depths)[column], mask=none)
        value = pa.array(value).cast(self.layout.value_type)  # exact: it was of that type in the table
        return pa.table([chunk[ID], depth, value], schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        names = (ID, self.layout.id_type), ("depth", pa.float64()), ("value", self.layout.value_type)
        return pa.schema([pa.field(name, kind) for name, kind in names])


def open_choices(keys: Keys, choice: Array) -> tuple[Keys, Array]:
    """By key, as `DecidedChunks` looks them up."""
    order = np.argsort(keys, kind="stable")
    return keys[order], choice[order].astype(np.int16)
