"""What campaigns teach, as exact integers that may be added and subtracted: evidence of baskets, and counts of codes.

`Evidence` knows no encoding, prior or noise. A row is z = (1, grid units of ψ1, grid units of ln F); per depth we want
Σzzᵀ. Products stay below 2⁴², so float64 sums of up to 2,048 of them are exact integers; the kernel carries
every _LANE rows of a depth into two 64-bit limbs, value = high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰, which hold 2⁶⁰ rows. Since
every sum is exact, the compiler may reorder and fuse it (`fastmath`) without changing a bit.

`EngagementCounts` says how many matured codes were sent and how many were redeemed, per depth and bin of the engagement
score. Both find a row's depth in the same small table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disco.belief.elementary import logarithm
from disco.belief.inputs import read_depth_column, read_depth_numbers, read_only, refuse_context, refuse_depth
from disco.records.arguments import read_array, read_column
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit, without_compiler
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.exact_sums import CONTEXT_LIMIT, GRID, LOG_PRICE_LIMIT
from disco.records.ports import Engine
from disco.records.score import ScoreBins

_MOST_ROWS = 2**60
_MOST_HIGH = 2**62  # what that many rows can reach; two such figures still add up within an int64
_FEW_DEPTHS, _MOST_DEPTHS = 32, 2**17  # that the kernel has room for without counting them; that evidence may have
_CHUNK_ROWS = 262_144  # to add up costs 0.2 ms a chunk, to tally this many rows 10 ms
_LIMB_BITS = 40
_LIMB = 1 << _LIMB_BITS
_LANE = 64  # rows of one depth that are summed together
_BLOCK = 512  # prices whose logarithms are taken together
_OK, _BAD_CONTEXT, _BAD_DEPTH, _BAD_PRICE, _TOO_MANY_DEPTHS = range(5)
_FEW_CODED_DEPTHS = 64  # that codes are counted at without sorting; more are sorted first
_FEW_CODES = 20_000  # below this, sorting takes less time than importing the compiler

_Table = tuple[Vector, Integers, Integers]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence:
    """Per depth played: n, Σx̃x̃ᵀ, Σx̃y and Σy² with x̃ = [1, ψ1], y = ln F, as exact integers in grid units.

    They are kept together as the upper triangle of Σzzᵀ, z = (1, ψ1, y), each sum as high·2⁴⁰ + low. Depths are sorted
    and a depth whose sums are all zero is absent, so equal evidence has equal bytes. `+` and `−` are exact: evidence
    is an abelian group, and undoing a batch is subtraction.

    Beside them stands ΣF, money itself, which `smearing` compares with what second moments say of it. It is no part of
    the hash, by which models without smearing are named. Evidence of earlier versions of the program does not know it.

    >>> rows = np.array([[0.5], [-1.0], [2.0]]), np.array([0.1, 0.2, 0.1]), np.array([20.0, 30.0, 25.0])
    >>> e = Evidence.of(*rows)
    >>> e.depths.tolist(), e.rows.tolist()
    ([0.1, 0.2], [2, 1])
    >>> (e + e) - e == e
    True
    """

    context_size: int
    depths: Vector  # (D,)
    high: Integers  # (D, m(m+1)/2), m = d1 + 2
    low: Integers  # (D, m(m+1)/2), in [0, 2⁴⁰)
    paid: Integers | None = None  # (D, 2) ΣF, each F rounded to 2⁻¹⁶, as high and low; None: not known

    def __post_init__(self) -> None:
        for array in (self.depths, self.high, self.low):
            array.flags.writeable = False
        if self.paid is not None:
            self.paid.flags.writeable = False

    @classmethod
    def empty(cls, context_size: int) -> Evidence:
        """Evidence of no purchases with contexts of `context_size` features: the zero of `+`."""
        none = np.zeros((0, (context_size + 2) * (context_size + 3) // 2), np.int64)
        return cls(context_size, np.zeros(0), none, none, none[:, :2])

    @classmethod
    def of(
        cls, context: ArrayLike, depth: ArrayLike, full_price: ArrayLike, *, engine: Engine | None = None
    ) -> Evidence:
        """Evidence of purchases.

        context: (rows, d1) numbers within ±4.
        depth: (rows,) from 0 to 1.
        full_price: (rows,) money before the discount, above 0.
        engine: what the rows are spread over; None is this thread.
        """
        contexts = _shaped("context", read_array(context, where="context"), 2)
        depths = _shaped("depth", read_depth_numbers(depth), 1)
        prices = _shaped("full_price", read_array(full_price, where="full_price"), 1)
        if not len(contexts) == len(depths) == len(prices):
            found = f"{len(contexts)} contexts, {len(depths)} depths, {len(prices)} full prices"
            raise InputError("evidence", found=found, expected="as many of each")

        def tallied(rows: slice) -> Evidence:
            part = read_only(contexts[rows]), read_only(depths[rows]), read_only(prices[rows])
            room = _Room.of(_FEW_DEPTHS, contexts.shape[1] + 2)
            # a few rows are not worth waiting for the compiler; prices that have no logarithm are refused afterwards
            with without_compiler(), np.errstate(divide="ignore", invalid="ignore"):
                problem, row, column, distinct = _tally(*part, room)
                if problem == _TOO_MANY_DEPTHS:  # rare enough to count them first
                    room = _Room.of(np.unique(depths[rows]).size, contexts.shape[1] + 2)
                    problem, row, column, distinct = _tally(*part, room)
            if problem == _BAD_CONTEXT:
                refuse_context(contexts, rows.start + row, column)
            if problem == _BAD_DEPTH:
                refuse_depth(depths, rows.start + row)
            if problem == _BAD_PRICE:
                raise InputError(
                    f"full_price, row {rows.start + row + 1}",
                    found=prices[rows.start + row],
                    expected="a finite amount of money above 0 with |ln| < 32",
                    fix="Only purchases are evidence of basket value; non-buyers enter through engagement.",
                )
            order = np.argsort(room.seen[:distinct])
            return cls(contexts.shape[1], room.seen[order], room.high[order], room.low[order], room.paid[order])

        total = cls.empty(contexts.shape[1])
        for part in spread(tallied, row_chunks(len(contexts), size=_CHUNK_ROWS), engine=engine):
            total = total + part if total.depths.size else part
            if total.depths.size > _MOST_DEPTHS:
                raise InputError(
                    "depth",
                    found=f"{np.unique(depths).size:,} distinct depths",
                    expected=f"at most {_MOST_DEPTHS:,}",
                    fix="Round depths to basis points (four decimals).",
                )
        return total

    @classmethod
    def from_arrays(cls, depths: Vector, high: Integers, low: Integers, paid: Integers | None = None) -> Evidence:
        """Evidence from its stored arrays, which are not trusted: no rows of purchases give other lengths or figures.

        depths: (D,) ascending, from 0 to 1. high, low: (D, m(m+1)/2) as the fields say. paid: (D, 2), or None.
        """
        for name, array, kind, axes in (("depths", depths, "f", 1), ("high", high, "i", 2), ("low", low, "i", 2)):
            if array.dtype.kind != kind or array.dtype.itemsize != 8 or array.ndim != axes:
                found, expected = f"{array.dtype} of shape {array.shape}", "int64" if kind == "i" else "float64"
                raise InputError(f"evidence, {name}", found=found, expected=f"{expected} with {axes} axes")
        m = (math.isqrt(8 * high.shape[1] + 1) - 1) // 2
        if m < 2 or high.shape != (depths.size, m * (m + 1) // 2) or low.shape != high.shape:
            found = f"{depths.size} depths, sums of shapes {high.shape} and {low.shape}"
            raise InputError("evidence", found=found, expected="for each depth the upper triangle of a square matrix")
        if depths.size > _MOST_DEPTHS:
            raise InputError("evidence, depths", found=f"{depths.size:,}", expected=f"at most {_MOST_DEPTHS:,}")
        inside = (depths >= 0) & (depths <= 1) & ~np.signbit(depths)
        if not inside.all() or (np.diff(depths) <= 0).any():
            raise InputError("evidence, depths", found="others", expected="depths from 0 to 1, each once, ascending")
        split = not depths.size or (low.min() >= 0 and low.max() < _LIMB)
        if not split or not (np.abs(high.clip(-_MOST_HIGH, _MOST_HIGH)) < _MOST_HIGH).all():
            raise InputError("evidence", found="sums in another form", expected="high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰")
        if depths.size and not (high[:, 0].min() >= 0 and high[:, 0].max() < _MOST_ROWS >> _LIMB_BITS):
            raise InputError("evidence", found="other numbers of rows", expected="from 1 to 2⁶⁰ at each depth")
        evidence = cls(m - 2, depths, high, low, paid)
        evidence._check_sums()
        if paid is not None:
            evidence._check_paid(paid)
        return evidence

    def _check_paid(self, paid: Integers) -> None:
        """Refuse totals of money that do not fit the sums of its logarithms: by Jensen, ΣF ≥ n·exp(Σy/n)."""
        usual = paid.dtype == np.int64 and paid.shape == (self.depths.size, 2)
        if usual and self.depths.size:
            usual = bool(paid.min() >= 0 and paid[:, 0].max() < _MOST_HIGH and paid[:, 1].max() < _LIMB)
        if usual and self.depths.size:
            rows, sums = self.rows.astype(np.float64), self.sums()
            total = paid[:, 0].astype(np.float64) * _LIMB + paid[:, 1]
            # each amount and each logarithm was rounded by half a unit at most
            least = rows * np.exp(sums[:, 0, -1] / rows - 1 / GRID) * GRID * (1 - 1e-9) - rows
            usual = bool((total >= least).all() and (total <= rows * np.exp(LOG_PRICE_LIMIT) * GRID).all())
        if not usual:
            raise InputError("evidence, paid", found="sums that no rows have", expected="money summed over the rows")

    def full_prices(self) -> Vector | None:
        """ΣF per depth, (D,), in currency units: each the float64 nearest to the exact sum. None: not known."""
        if self.paid is None:
            return None
        return np.asarray((self.paid[:, 0].astype(np.float64) * _LIMB + self.paid[:, 1].astype(np.float64)) / GRID)

    def _check_sums(self) -> None:
        """Refuse sums that no rows have: |z_i·z_j| is at most L_i·L_j in each row, and (Σz_i·z_j)² ≤ Σz_i²·Σz_j²."""
        sums, rows = self.sums(), self.rows.astype(np.float64)
        most = np.array([1.0, *[CONTEXT_LIMIT] * self.context_size, LOG_PRICE_LIMIT])
        squares = np.diagonal(sums, axis1=1, axis2=2)
        rounded = 1 + 1e-9  # `sums` are the nearest floats
        right = (rows >= 1) & (squares >= 0).all(axis=1)
        right &= (np.abs(sums) <= rows[:, None, None] * np.outer(most, most) * rounded).all(axis=(1, 2))
        bound = squares[:, :, None] * squares[:, None, :]
        right &= (sums**2 <= bound * rounded).all(axis=(1, 2))
        if not right.all():
            depth = self.depths[int(np.flatnonzero(~right)[0])]
            raise InputError(f"evidence at depth {depth:g}", found="sums that no rows have", expected="sums over rows")

    def __add__(self, other: Evidence) -> Evidence:
        return self._combined(other, 1)

    def __sub__(self, other: Evidence) -> Evidence:
        return self._combined(other, -1)

    def __neg__(self) -> Evidence:
        return Evidence.empty(self.context_size) - self

    def _combined(self, other: Evidence, sign: int) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        if other.context_size != self.context_size:
            raise SchemaMismatchError(
                "evidence of another schema",
                found=f"contexts of {other.context_size} features",
                expected=f"{self.context_size}",
            )
        depths, high, low = _by_depth(
            (self.depths, self.high, self.low), (other.depths, sign * other.high, sign * other.low)
        )
        high += low >> _LIMB_BITS
        low &= _LIMB - 1
        if depths.size and np.abs(high[:, 0]).max() >= _MOST_ROWS >> _LIMB_BITS:
            rows = (high[:, 0] << _LIMB_BITS) + low[:, 0]
            raise InputError("evidence", found=f"{np.abs(rows).max():,} rows at one depth", expected="fewer than 2⁶⁰")
        if depths.size and np.abs(high).max() >= _MOST_HIGH:  # differences may hold large sums of no rows at all
            raise InputError("evidence", found="sums beyond 2¹⁰²", expected="sums of fewer than 2⁶⁰ rows")
        paid = self._combined_paid(other, sign)
        present = high.any(axis=1) | low.any(axis=1)
        if not present.all():
            depths, high, low = depths[present], high[present], low[present]
            paid = None if paid is None else paid[present]
        return Evidence(self.context_size, depths, high, low, paid)

    def _combined_paid(self, other: Evidence, sign: int) -> Integers | None:
        """(D, 2) over the depths of both; None where one of them has purchases and does not know."""
        known = [part for part in (self, other) if part.depths.size or part.paid is not None]
        if any(part.paid is None for part in known):
            return None
        mine, theirs = (np.zeros((0, 2), np.int64) if part.paid is None else part.paid for part in (self, other))
        _, high, low = _by_depth(
            (self.depths, mine[:, 0], mine[:, 1]), (other.depths, sign * theirs[:, 0], sign * theirs[:, 1])
        )
        return np.column_stack((high + (low >> _LIMB_BITS), low & (_LIMB - 1)))

    def without_paid(self) -> Evidence:
        """The same evidence as earlier versions of the program kept it, without money."""
        return Evidence(self.context_size, self.depths, self.high, self.low)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evidence) or not _equal(self, other, ("context_size", "depths", "high", "low")):
            return False
        return self.paid is None or other.paid is None or np.array_equal(self.paid, other.paid)

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def __repr__(self) -> str:
        return f"Evidence({self.total_rows:,} rows at {self.depths.size} depths, {self.context_size} context features)"

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical bytes."""
        digest = sha256(f"evidence {self.context_size} {self.depths.size}\n".encode())
        for array in (self.depths, self.high, self.low):
            digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return digest.hexdigest()

    @property
    def rows(self) -> Integers:
        """n per depth."""
        return (self.high[:, 0] << _LIMB_BITS) + self.low[:, 0]

    @property
    def total_rows(self) -> int:
        """Purchases at all depths."""
        return sum(self.rows.tolist())

    def sums(self) -> Matrix:
        """Σzzᵀ per depth in natural units, shape (D, d1+2, d1+2): each the float64 nearest to the exact sum."""
        # two exact terms, one rounding; scaling by a power of two is exact
        packed = self.high.astype(np.float64) * _LIMB + self.low.astype(np.float64)
        unpack, scale = _layout(self.context_size + 2)
        return np.asarray(packed[:, unpack] * scale)

    def exact(self, depth: float) -> list[int]:
        """One depth's upper triangle of Σzzᵀ as Python integers in grid units: for audits and tests."""
        at = int(np.searchsorted(self.depths, depth))
        if at == self.depths.size or self.depths[at] != depth:
            return [0] * self.high.shape[1]
        return [(int(h) << _LIMB_BITS) + int(w) for h, w in zip(self.high[at], self.low[at], strict=True)]


def _by_depth(mine: _Table, theirs: _Table) -> _Table:
    """Depths with two figures, or rows of figures, for each: those of both tables, added up."""
    depths = np.union1d(mine[0], theirs[0])
    first, second = (np.zeros((depths.size, *figures.shape[1:]), np.int64) for figures in mine[1:])
    for own, left, right in (mine, theirs):
        at = np.searchsorted(depths, own)
        first[at] += left
        second[at] += right
    return depths, first, second


def _equal(one: object, other: object, names: tuple[str, ...]) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@lru_cache(maxsize=32)
def _layout(m: int) -> tuple[Integers, Matrix]:
    unpack = np.empty((m, m), np.int64)
    upper = np.triu_indices(m)
    unpack[upper] = np.arange(upper[0].size)
    unpack.T[upper] = unpack[upper]
    unit = np.full(m, 1.0 / GRID)
    unit[0] = 1.0
    return unpack, np.outer(unit, unit)


def _shaped(name: str, array: Matrix, dimensions: int) -> Matrix:
    if array.ndim == 1 and array.size == 0:
        array = array.reshape((0,) * dimensions)  # an empty list is an empty batch
    if array.ndim != dimensions:
        shape = "(rows, features)" if dimensions == 2 else "(rows,)"
        raise InputError(name, found=f"an array of shape {array.shape}", expected=f"shape {shape}")
    return array


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _carry(waiting: Matrix, count: int, high: Integers, low: Integers) -> None:
    """Add Σzzᵀ of the `count` rows waiting (m, _LANE) to one depth's limbs, upper triangle by rows."""
    place = 0
    for i in range(waiting.shape[0]):
        for j in range(i, waiting.shape[0]):
            dot = 0.0
            for b in range(count):
                dot += waiting[i, b] * waiting[j, b]
            total = low[place] + np.int64(dot)
            high[place] += total >> _LIMB_BITS
            low[place] = total & (_LIMB - 1)
            place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _log_units(full_price: Vector, start: int, size: int, out: Vector) -> None:
    """ln F in grid units; figures that are not finite and positive give rubbish here and are refused by the caller."""
    for b in range(size):
        out[b] = np.rint(logarithm(full_price[start + b]) * GRID)


@njit(cache=True, nogil=True)
def _slot(table: Integers, seen: Vector, depth: float, bits: np.uint64) -> np.int64:
    """Where a depth is, or would go, in the table."""
    mask = table.size - 1
    at = np.int64((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[at] >= 0 and seen[table[at]] != depth:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True, patient=True)
def _tally(context: Matrix, depth: Vector, full_price: Vector, room: _Room) -> tuple[int, int, int, int]:
    """Sums per distinct depth into `room`, in order of first appearance: (problem, row, column, distinct depths)."""
    table, seen, waiting, count, high, low, paid, log_units = room
    bits = depth.view(np.uint64)
    rows, d1 = context.shape
    lane = int(_LANE)  # a number, not a literal: `_carry` is compiled once
    distinct = 0
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        _log_units(full_price, start, size, log_units)
        for b in range(size):
            row = start + b
            d = depth[row]
            if not (0.0 <= d <= 1.0):
                return _BAD_DEPTH, row, 0, 0
            # the second bound is in grid units; the first keeps NaN, ≤ 0 and infinity out
            if not (0.0 < full_price[row] < math.inf and abs(log_units[b]) < LOG_PRICE_LIMIT * GRID):
                return _BAD_PRICE, row, 0, 0
            at = _slot(table, seen, d, bits[row])
            if table[at] < 0:
                if distinct == seen.size:
                    return _TOO_MANY_DEPTHS, row, 0, 0
                table[at] = distinct
                seen[distinct] = d
                waiting[distinct, 0] = 1.0
                distinct += 1
            which = table[at]
            place = count[which]
            for column in range(d1):
                value = context[row, column]
                if not (-CONTEXT_LIMIT <= value <= CONTEXT_LIMIT):
                    return _BAD_CONTEXT, row, column, 0
                waiting[which, 1 + column, place] = np.rint(value * GRID)
            waiting[which, d1 + 1, place] = log_units[b]
            money = np.rint(full_price[row] * GRID)
            top = math.floor(money / _LIMB)
            paid[which, 0] += np.int64(top)
            paid[which, 1] += np.int64(money - top * _LIMB)
            count[which] = place + 1
            if count[which] == lane:
                _carry(waiting[which], lane, high[which], low[which])
                count[which] = 0
    for which in range(distinct):
        _carry(waiting[which], count[which], high[which], low[which])
        paid[which, 0] += paid[which, 1] >> _LIMB_BITS
        paid[which, 1] &= _LIMB - 1
    return _OK, 0, 0, distinct


class _Room(NamedTuple):
    """Room for the sums of a few distinct depths, found in a table with open addressing that is at most half full."""

    table: Integers  # (slots,) the number of the depth there, or −1
    seen: Vector  # (limit,) the depths
    waiting: Matrix  # (limit, m, _LANE) rows z of each depth that are not yet summed
    waits: Integers  # (limit,) how many
    high: Integers  # (limit, m(m+1)/2)
    low: Integers  # (limit, m(m+1)/2)
    paid: Integers  # (limit, 2)
    log_units: Vector  # (_BLOCK,)

    @classmethod
    def of(cls, limit: int, m: int) -> _Room:
        sums = (limit, m * (m + 1) // 2)
        high, low = np.zeros(sums, np.int64), np.zeros(sums, np.int64)
        waiting, count = np.empty((limit, m, _LANE)), np.zeros(limit, np.int64)
        paid = np.zeros((limit, 2), np.int64)
        return cls(_no_depths(limit), np.empty(limit), waiting, count, high, low, paid, np.empty(_BLOCK))


def _no_depths(limit: int) -> Integers:
    return np.full(1 << (2 * limit - 1).bit_length(), -1, np.int64)


# ---- codes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class EngagementCounts:
    """Matured codes per depth: how many were sent, how many of them were redeemed. Exact, so `−` undoes `+`.

    With bins each depth has a row of counts, one per bin of the engagement score and a last one for customers without
    a score; `margin` are the same codes without bins. Empty counts may be added to counts with any bins.

    >>> counts = EngagementCounts.of([0.1, 0.1, 0.2], [True, False, True])
    >>> counts.depths.tolist(), counts.sent.tolist(), counts.redeemed.tolist()
    ([0.1, 0.2], [2, 1], [1, 1])
    >>> bins = ScoreBins([0.0], [-1.0, 1.0])
    >>> counts = EngagementCounts.of([0.1, 0.1, 0.2], [True, False, True], score=[0.5, -2.0, np.nan], bins=bins)
    >>> counts.sent.tolist(), counts.margin.sent.tolist()
    ([[1, 1, 0], [0, 0, 1]], [2, 1])
    """

    depths: Vector = field(default_factory=lambda: np.zeros(0))  # (depths,), ascending
    sent: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (depths,) codes, or (depths, bins+1)
    redeemed: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # of those sent, the same shape
    bins: ScoreBins | None = None  # of the scores; None: codes are counted by depth alone

    def __post_init__(self) -> None:
        if self.bins is not None and not isinstance(self.bins, ScoreBins):
            raise InputError("engagement counts, bins", found=repr(self.bins)[:60], expected="ScoreBins or None")
        depths = read_depth_column(self.depths)
        columns = None if self.bins is None else self.bins.count + 1
        sent = _counts("codes sent", self.sent, columns)
        redeemed = _counts("codes redeemed", self.redeemed, columns)
        if not depths.size == len(sent) == len(redeemed):
            found = f"{depths.size} depths, {len(sent)} sent, {len(redeemed)} redeemed"
            raise InputError("engagement counts", found=found, expected="as many of each")
        if np.unique(depths).size != depths.size:
            raise InputError("engagement counts", found="a depth twice", expected="each depth once")
        if (sent < 0).any() or (redeemed < 0).any() or (redeemed > sent).any():
            raise InputError(
                "engagement counts", found="negative counts, or more redeemed than sent", expected="0 ≤ redeemed ≤ sent"
            )
        order = np.argsort(depths)
        order = order[sent.reshape(depths.size, columns or 1).sum(axis=1)[order] > 0]
        for name, array in (("depths", depths), ("sent", sent), ("redeemed", redeemed)):
            kept = array[order]
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)

    @classmethod
    def of(
        cls,
        depth: ArrayLike,
        redeemed: ArrayLike,
        *,
        score: ArrayLike | None = None,
        bins: ScoreBins | None = None,
    ) -> EngagementCounts:
        """Counts from matured codes, one row each.

        depth: (codes,) from 0 to 1.
        redeemed: (codes,) Booleans.
        score: (codes,) engagement scores of the receivers, NaN for those without one; None: nobody has a score.
        bins: in which to count them; None: codes are counted by depth alone.
        """
        flags = np.asarray(redeemed)
        if flags.dtype != np.bool_ and flags.size:
            raise InputError("redeemed", found=f"values of type {flags.dtype}", expected="true or false per code")
        flags = flags.astype(np.bool_, copy=False)
        column = read_depth_column(depth, rows=flags.size)
        if bins is None:
            if score is not None:
                fix = "Pass the bins that belong to these scores, such as `head.bins`."
                raise InputError("bins", found="None", expected="bins beside scores", fix=fix)
            place, columns = np.zeros(flags.size, np.int64), 1
        else:
            given = np.full(flags.size, np.nan) if score is None else score
            place, columns = bins.places(read_column(given, where="score", rows=flags.size)), bins.count + 1
        seen, sent, used = _counted(column, flags, place, columns)
        shape = seen.size if bins is None else (seen.size, columns)
        return cls(seen, sent.reshape(shape), used.reshape(shape), bins)

    @classmethod
    def matured(
        cls,
        depth: ArrayLike,
        redeemed: ArrayLike,
        *,
        valid_until: ArrayLike,
        as_of: ArrayLike,
        grace_days: int = 2,
        score: ArrayLike | None = None,
        bins: ScoreBins | None = None,
    ) -> EngagementCounts:
        """Counts from codes whose validity plus a grace period has passed; the others are left out.

        An unexpired, unused code is not yet a non-redemption. An unexpired code that was used does not count either:
        learning in mid-campaign would otherwise push the rates up.

        depth: (codes,) from 0 to 1.
        redeemed: (codes,) Booleans.
        valid_until: (codes,) dates, or one for all.
        as_of: today's date.
        grace_days: how long after the last day an outcome may still arrive.
        score, bins: as in `of`.
        """
        flags = np.asarray(redeemed)
        ends, today = _dates("valid_until", valid_until), _dates("as_of", as_of)
        if ends.shape not in ((), flags.shape) or today.shape:
            found = f"valid_until of shape {ends.shape}, as_of of shape {today.shape}"
            raise InputError("matured codes", found=found, expected="a date for each code and one for today")
        over = np.broadcast_to(ends + np.timedelta64(grace_days, "D") <= today, flags.shape)
        known = None if score is None else read_column(score, where="score", rows=flags.size)[over]
        return cls.of(read_depth_column(depth, rows=flags.size)[over], flags[over], score=known, bins=bins)

    @property
    def margin(self) -> EngagementCounts:
        """The same codes counted by depth alone."""
        if self.bins is None:
            return self
        return EngagementCounts(self.depths, self.sent.sum(axis=1), self.redeemed.sum(axis=1))

    def __add__(self, other: EngagementCounts) -> EngagementCounts:
        return self._combined(other, 1)

    def __sub__(self, other: EngagementCounts) -> EngagementCounts:
        return self._combined(other, -1)

    def _combined(self, other: EngagementCounts, sign: int) -> EngagementCounts:
        counted = [counts for counts in (self, other) if counts.depths.size]  # only those say how they were counted
        bins = counted[0].bins if counted else self.bins or other.bins
        if self.depths.size and other.depths.size and self.bins != other.bins:
            raise SchemaMismatchError(
                "engagement counts of other bins",
                found=_bins_text(other.bins),
                expected=_bins_text(self.bins),
                fix="Count the codes again with the bins of the network in use (`disco learn --rebuild`).",
            )
        shape = (-1,) if bins is None else (-1, bins.count + 1)  # empty counts take that of the others
        mine, theirs = (
            (counts.depths, factor * counts.sent.reshape(shape), factor * counts.redeemed.reshape(shape))
            for counts, factor in ((self, 1), (other, sign))
        )
        return EngagementCounts(*_by_depth(mine, theirs), bins)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngagementCounts) and self.bins == other.bins and _equal(self, other, _ARRAYS)

    def __hash__(self) -> int:
        return hash((*(getattr(self, name).tobytes() for name in _ARRAYS), self.bins))


_ARRAYS = ("depths", "sent", "redeemed")


def aged_counts(
    counts: EngagementCounts, campaigns: Mapping[str, EngagementCounts], forgetting: float
) -> tuple[Matrix, Matrix]:
    """Codes sent and redeemed (depths, columns) where a campaign that is k campaigns old weighs forgettingᵏ.

    campaigns: of `counts`, the oldest first; codes of none of them weigh 1.
    """
    columns = 1 if counts.bins is None else counts.bins.count + 1
    sent, used = (part.reshape(-1, columns).astype(np.float64) for part in (counts.sent, counts.redeemed))
    for age, one in enumerate(reversed(list(campaigns.values()))):
        at, lost = np.searchsorted(counts.depths, one.depths), 1.0 - forgetting**age
        sent[at] -= lost * one.sent.reshape(-1, columns)
        used[at] -= lost * one.redeemed.reshape(-1, columns)
    return sent, used


def _bins_text(bins: ScoreBins | None) -> str:
    return "codes counted by depth alone" if bins is None else f"{bins.count} bins of the engagement score"


def _counted(depth: Vector, redeemed: Flags, place: Integers, columns: int) -> tuple[Vector, Integers, Integers]:
    """Distinct depths with sent and redeemed per (depth, column), flat; `place` (codes,) is the column of a code."""
    if depth.size > _FEW_CODES:
        table, seen = _no_depths(_FEW_CODED_DEPTHS), np.empty(_FEW_CODED_DEPTHS)
        cells = np.zeros((2, seen.size * columns), np.int64)
        distinct = _count_codes(read_only(depth), read_only(redeemed), place, columns, table, seen, cells)
        if distinct >= 0:
            return seen[:distinct], cells[0, : distinct * columns], cells[1, : distinct * columns]
    seen, which = np.unique(depth, return_inverse=True)
    cell, size = which * columns + place, seen.size * columns
    return seen, np.bincount(cell, minlength=size), np.bincount(cell[redeemed], minlength=size)


@njit(cache=True, nogil=True, patient=True)
def _count_codes(
    depth: Vector, redeemed: Flags, place: Integers, columns: int, table: Integers, seen: Vector, cells: Integers
) -> int:
    """As `_counted`, in one pass and in order of first appearance; −1 when there are more depths than `seen` can hold.

    cells (2, depths·columns): sent and redeemed.
    """
    distinct, bits = 0, depth.view(np.uint64)
    for row in range(depth.size):
        at = _slot(table, seen, depth[row], bits[row])
        if table[at] < 0:
            if distinct == seen.size:
                return -1
            table[at] = distinct
            seen[distinct] = depth[row]
            distinct += 1
        cell = table[at] * columns + place[row]
        cells[0, cell] += 1
        cells[1, cell] += redeemed[row]
    return distinct


def _dates(name: str, values: ArrayLike) -> NDArray[np.datetime64]:
    try:
        dates = np.asarray(values, "datetime64[s]")
    except (TypeError, ValueError):
        raise InputError(name, found=repr(values)[:60], expected="dates") from None
    if np.isnat(dates).any():
        raise InputError(name, found="no date", expected="a date everywhere")
    return dates


def _counts(name: str, values: ArrayLike, columns: int | None) -> Integers:
    """Whole numbers: one per depth, or a row of `columns` per depth."""
    array = np.asarray(values)
    if not array.size and array.ndim == 1 and columns is not None:  # empty counts need no shape
        array = array.reshape(0, columns)
    shaped = array.ndim == 1 if columns is None else array.ndim == 2 and array.shape[1] == columns
    if not shaped or (array.size and array.dtype.kind not in "iu"):
        wanted = "one whole number per depth" if columns is None else f"{columns} whole numbers per depth"
        raise InputError(name, found=f"{array.dtype} of shape {array.shape}", expected=wanted)
    return array.astype(np.int64)
