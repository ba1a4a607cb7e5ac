"""Evidence: what was seen, as exact integers that know no encoding, prior or noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from disco.belief import tally as kernel
from disco.belief.inputs import read_depth_numbers, refuse_context, refuse_depth, refuse_full_price
from disco.records.arguments import read_array
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.chunks import row_chunks, spread
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.grid import CONTEXT_LIMIT, GRID, LOG_PRICE_LIMIT
from disco.records.ports import Engine

_MOST_ROWS = 2**60
_MOST_HIGH = 2**62  # what that many rows can reach; two such figures still add up within an int64
_FEW_DEPTHS, _MOST_DEPTHS = 32, 2**17
_CHUNK_ROWS = 262_144  # to add up costs 0.2 ms a chunk, to tally this many rows 10 ms


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence:
    """Per depth played: n, Σx̃x̃ᵀ, Σx̃y and Σy² with x̃ = [1, ψ1], y = ln F, as exact integers in grid units.

    They are kept together as the upper triangle of Σzzᵀ, z = (1, ψ1, y), each sum as high·2⁴⁰ + low. Depths are sorted
    and a depth whose sums are all zero is absent, so equal evidence has equal bytes. `+` and `−` are exact: evidence
    is an abelian group, and undoing a batch is subtraction.

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

    def __post_init__(self) -> None:
        for array in (self.depths, self.high, self.low):
            array.flags.writeable = False

    @classmethod
    def empty(cls, context_size: int) -> Evidence:
        """Evidence of no purchases with contexts of `context_size` features: the zero of `+`."""
        entries = (context_size + 2) * (context_size + 3) // 2
        none = np.zeros((0, entries), np.int64)
        return cls(context_size, np.zeros(0), none, none)

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
            part = contexts[rows], depths[rows], depths[rows].view(np.uint64), prices[rows]
            problem, row, column, seen, high, low = kernel.tally(*part, _FEW_DEPTHS)
            if problem == kernel.TOO_MANY_DEPTHS:  # rare enough to count them first
                problem, row, column, seen, high, low = kernel.tally(*part, np.unique(depths[rows]).size)
            if problem == kernel.BAD_CONTEXT:
                refuse_context(contexts, rows.start + row, column)
            if problem == kernel.BAD_DEPTH:
                refuse_depth(depths, rows.start + row)
            if problem == kernel.BAD_PRICE:
                refuse_full_price(prices, rows.start + row)
            order = np.argsort(seen)
            return cls(contexts.shape[1], seen[order], high[order], low[order])

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
    def from_arrays(cls, depths: Vector, high: Integers, low: Integers) -> Evidence:
        """Evidence from its stored arrays, which are not trusted: no rows of purchases give other lengths or figures.

        depths: (D,) ascending, from 0 to 1. high, low: (D, m(m+1)/2) as the fields say.
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
        split = not depths.size or (low.min() >= 0 and low.max() < kernel.LIMB)
        if not split or not (np.abs(high.clip(-_MOST_HIGH, _MOST_HIGH)) < _MOST_HIGH).all():
            raise InputError("evidence", found="sums in another form", expected="high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰")
        if depths.size and not (high[:, 0].min() >= 0 and high[:, 0].max() < _MOST_ROWS >> kernel.LIMB_BITS):
            raise InputError("evidence", found="other numbers of rows", expected="from 1 to 2⁶⁰ at each depth")
        evidence = cls(m - 2, depths, high, low)
        evidence._check_sums()
        return evidence

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
        if np.array_equal(self.depths, other.depths):
            depths, high, low = self.depths, self.high + sign * other.high, self.low + sign * other.low
        else:
            depths = np.union1d(self.depths, other.depths)
            high = np.zeros((depths.size, self.high.shape[1]), np.int64)
            low = np.zeros_like(high)
            mine, theirs = np.searchsorted(depths, self.depths), np.searchsorted(depths, other.depths)
            high[mine], low[mine] = self.high, self.low
            high[theirs] += sign * other.high
            low[theirs] += sign * other.low
        high += low >> kernel.LIMB_BITS
        low &= kernel.LIMB - 1
        rows = (high[:, 0] << kernel.LIMB_BITS) + low[:, 0]
        if depths.size and np.abs(high[:, 0]).max() >= _MOST_ROWS >> kernel.LIMB_BITS:
            raise InputError("evidence", found=f"{np.abs(rows).max():,} rows at one depth", expected="fewer than 2⁶⁰")
        if depths.size and np.abs(high).max() >= _MOST_HIGH:  # differences may hold large sums of no rows at all
            raise InputError("evidence", found="sums beyond 2¹⁰²", expected="sums of fewer than 2⁶⁰ rows")
        present = high.any(axis=1) | low.any(axis=1)
        if not present.all():
            depths, high, low = depths[present], high[present], low[present]
        return Evidence(self.context_size, depths, high, low)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Evidence)
            and self.context_size == other.context_size
            and np.array_equal(self.depths, other.depths)
            and np.array_equal(self.high, other.high)
            and np.array_equal(self.low, other.low)
        )

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
        return (self.high[:, 0] << kernel.LIMB_BITS) + self.low[:, 0]

    @property
    def total_rows(self) -> int:
        """Purchases at all depths."""
        return sum(self.rows.tolist())

    def sums(self) -> Matrix:
        """Σzzᵀ per depth in natural units, shape (D, d1+2, d1+2): each the float64 nearest to the exact sum."""
        # two exact terms, one rounding; scaling by a power of two is exact
        packed = self.high.astype(np.float64) * kernel.LIMB + self.low.astype(np.float64)
        unpack, scale = _layout(self.context_size + 2)
        return np.asarray(packed[:, unpack] * scale)

    def exact(self, depth: float) -> list[int]:
        """One depth's upper triangle of Σzzᵀ as Python integers in grid units: for audits and tests."""
        at = int(np.searchsorted(self.depths, depth))
        if at == self.depths.size or self.depths[at] != depth:
            return [0] * self.high.shape[1]
        return [(int(h) << kernel.LIMB_BITS) + int(w) for h, w in zip(self.high[at], self.low[at], strict=True)]


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
