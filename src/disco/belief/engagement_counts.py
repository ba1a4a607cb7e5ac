"""Matured codes, counted: how many were sent and how many redeemed, per depth and bin of the engagement score."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disco.belief.inputs import read_depth_column
from disco.records.arguments import read_column
from disco.records.arrays import Flags, Integers, Keys, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.score import ScoreBins

_FEW_DEPTHS = 64  # that the kernel counts without sorting; more are sorted first
_FEW_ROWS = 20_000  # below this, sorting takes less time than importing the compiler


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
        depths = np.union1d(self.depths, other.depths)
        shape = (depths.size,) if bins is None else (depths.size, bins.count + 1)
        sent, redeemed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for counts, factor in ((self, 1), (other, sign)):
            if counts.depths.size:
                at = np.searchsorted(depths, counts.depths)
                sent[at] += factor * counts.sent
                redeemed[at] += factor * counts.redeemed
        return EngagementCounts(depths, sent, redeemed, bins)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EngagementCounts)
            and self.bins == other.bins
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        )

    def __hash__(self) -> int:
        return hash((*(getattr(self, name).tobytes() for name in _ARRAYS), self.bins))


_ARRAYS = ("depths", "sent", "redeemed")


def _bins_text(bins: ScoreBins | None) -> str:
    return "codes counted by depth alone" if bins is None else f"{bins.count} bins of the engagement score"


def _counted(depth: Vector, redeemed: Flags, place: Integers, columns: int) -> tuple[Vector, Integers, Integers]:
    """Distinct depths with sent and redeemed per (depth, column), flat; `place` (codes,) is the column of a code."""
    if depth.size > _FEW_ROWS:
        seen, sent, used = _count_codes(depth, depth.view(np.uint64), redeemed, place, columns, _FEW_DEPTHS)
        if sent.size:
            return seen, sent, used
    seen, which = np.unique(depth, return_inverse=True)
    cell = which * columns + place
    cells = seen.size * columns
    return seen, np.bincount(cell, minlength=cells), np.bincount(cell[redeemed], minlength=cells)


@njit(cache=True, nogil=True)
def _count_codes(
    depth: Vector, bits: Keys, redeemed: Flags, place: Integers, columns: int, limit: int
) -> tuple[Vector, Integers, Integers]:
    """As `_counted`, in one pass and in order of first appearance; empty when there are more than `limit` depths.

    Depths are found in a table with open addressing that is at most half full; `bits` are the depths' own.
    """
    slots = 1
    while slots < 2 * limit:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    seen = np.empty(limit)
    sent, used = np.zeros(limit * columns, np.int64), np.zeros(limit * columns, np.int64)
    distinct = 0
    for row in range(depth.size):
        at = np.int64((bits[row] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (slots - 1)
        while table[at] >= 0 and seen[table[at]] != depth[row]:
            at = (at + 1) & (slots - 1)
        if table[at] < 0:
            if distinct == limit:
                return seen[:0], sent[:0], used[:0]
            table[at] = distinct
            seen[distinct] = depth[row]
            distinct += 1
        cell = table[at] * columns + place[row]
        sent[cell] += 1
        used[cell] += redeemed[row]
    cells = distinct * columns
    return seen[:distinct], sent[:cells], used[:cells]


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
