"""Running the screening pass over chunks of customers."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.problem import Problem
from disco.allocation.sampling import gather
from disco.allocation.screen import screen
from disco.allocation.solution import PriceBox
from disco.records.chunks import row_chunks, spread
from disco.records.ports import Engine

_CHUNK = 262_144  # customers per chunk: a pass is memory-bound and takes milliseconds, so fewer and longer chunks
_TOO_MANY = 0.5  # more open customers than this: their values are tied, and keeping them would copy the matrix


@dataclass(frozen=True, slots=True)
class Screened:
    """What a pass leaves behind.

    choice: (customers,), only a guess for the open ones · counts: (groups, depths) settled · rows, kept: row numbers
    and values (depths, open) of the open customers · opened: how many there are (more than rows: too many to keep) ·
    largest: the largest value (with floors: magnitude) · margin: by how much a settled customer's place wins.
    """

    choice: Array
    counts: Array
    rows: Array
    kept: Array
    opened: int
    largest: float
    margin: float


class _Part(NamedTuple):
    """What the pass found in one chunk: how many are open, two bit patterns of values, and arrays as in `Screened`."""

    opened: int
    largest: int
    magnitude: int
    choice: Array
    counts: Array
    rows: Array


def run_screen(
    problem: Problem,
    box: PriceBox,
    *,
    rate: float = 0.0,
    least_margin: float = 0.0,
    room_share: float = 1.0,
    checked: bool = False,
    engine: Engine | None = None,
    chunk: int | None = None,
) -> Screened:
    """Screen all customers at all prices of a box; InputError names a NaN or infinity.

    room_share: room for this share of the customers to stay open; where it does not do, the pass is repeated once ·
    checked: an earlier pass has seen these values, in which -∞ now stands for ineligible.
    """
    centre, width, none_width = box.centre, box.width, box.none_width
    values = problem.values
    columns, customers = values.shape
    wide = values.dtype.itemsize == 8
    bits = bits_of(values)
    groups = centre.shape[0]
    costs = problem.costs if rate != 0.0 else None
    direct = bool(values.flags.c_contiguous and problem.eligible is None and costs is None and groups == 1)
    margin = max(least_margin, 1e-12 * float(np.abs(centre).max() + np.abs(width).max() + none_width))
    segment = problem.limits.segment

    def screened(chunk: slice) -> _Part:
        size = chunk.stop - chunk.start
        room = int(size * share) + 256
        choice = np.empty(size, np.int16)
        counts = np.zeros((groups, columns), np.int64)
        rows = np.empty(room, np.int64)
        opened, top, largest_size = screen(
            values, bits, problem.eligible, costs, rate, segment, chunk.start, chunk.stop, direct, centre, width,
            none_width, margin, choice, counts, rows,
        )  # fmt: skip
        return _Part(opened, top, largest_size, choice, counts, rows[: min(opened, room)])

    share = room_share
    for _ in range(3):
        parts = list(spread(screened, row_chunks(customers, size=chunk or _CHUNK), engine=engine))
        opened = sum(part.opened for part in parts)
        largest = as_float(max(part.largest for part in parts), wide=wide)
        magnitude = as_float(max(part.magnitude for part in parts), wide=wide)
        top = 0.0
        if not checked:
            problem.refuse_unless_finite(magnitude)
            top = problem.grid_top(largest, magnitude, rate)
        needed = 1e-12 * top
        copied = sum(part.rows.size for part in parts)
        if needed <= margin and copied == opened:
            break
        if copied < opened and opened > _TOO_MANY * customers:
            break
        margin = max(margin, needed)
        if copied < opened:
            share = 1.0
    choice, counts, rows = parts[0].choice, parts[0].counts, parts[0].rows
    if len(parts) > 1:
        choice = np.concatenate([part.choice for part in parts])
        counts = np.sum([part.counts for part in parts], axis=0)
        rows = np.concatenate([part.rows for part in parts])
    kept = np.empty((columns, rows.size if rows.size == opened else 0))
    if rows.size == opened:
        gather(values, problem.eligible, costs, rate, rows, kept)
    return Screened(choice, counts, rows, kept, opened, top, margin)


def bits_of(values: Array) -> Array:
    """The same memory as integers of the same size."""
    return values.view(np.int64 if values.dtype.itemsize == 8 else np.int32)


def as_float(pattern: int, *, wide: bool) -> float:
    """The float whose bits these are."""
    if wide:
        return float(np.int64(pattern).view(np.float64))
    return float(np.int32(pattern).view(np.float32))
