"""The screening pass: decide every customer whose best place is the same for all prices in a box.

Prices p_k = t + s_k with |t - t₀| ≤ none_width and |s_k - s₀_k| ≤ width_k: depths compete by s alone, "no code" feels t
too. A customer is settled when their best place still wins at the corner of the box that is worst for it. The kernel is
a pure function of one chunk of customers; `run_screen` hands the chunks to an engine.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.bids import BLOCK, compete, compete_four
from disco.allocation.cells import as_float, bits_of, copy_all, gather, load_line, value_range
from disco.allocation.problem import AllocationProblem
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit
from disco.records.ports import Engine


class PriceBox(NamedTuple):
    """Prices p = centre ± width, up to a common shift of ± none_width per group; kernels take it as it is."""

    centre: Array  # (groups, depths)
    width: Array  # (groups, depths)
    none_width: float

    def holds(self, prices: Array) -> bool:
        """Whether some common shift within none_width brings every price within its width, group by group.

        >>> box = PriceBox(np.array([[1.0, 2.0]]), np.array([[0.1, 0.1]]), 1.0)
        >>> box.holds(np.array([[1.5, 2.55]])), box.holds(np.array([[1.5, 2.0]]))
        (True, False)
        """
        off = prices - self.centre
        least = np.maximum((off - self.width).max(axis=1), -self.none_width)
        most = np.minimum((off + self.width).min(axis=1), self.none_width)
        return bool((least <= most).all())


class Apart(NamedTuple):
    """How far prices may be apart: more precisely known than each price, where depths compete in a chain."""

    most: Array  # (1 + depths, 1 + depths) the largest p_a - p_b, with "no code" first; ∞: nobody is settled at a

    def holds(self, prices: Array, *, margin: float = 0.0) -> bool:
        """Whether no two prices (depths,) are further apart, but for a margin.

        >>> apart = Apart(np.array([[0.0, -1.9], [2.1, 0.0]]))
        >>> apart.holds(np.array([2.05])), apart.holds(np.array([1.8]))
        (True, False)
        """
        every = np.append(0.0, prices)
        return bool((every[:, None] - every <= self.most + margin).all())


@njit(nogil=True, cache=True)
def _left_apart(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, base: int, reach: Array, winner: Array,
    near: Array, found: int,
) -> int:  # fmt: skip
    """Keep of the first `found` customers base + near[at] those whose winner may lose; returns how many they are.

    reach: (1 + depths, 1 + depths) by how much place a must be worth more than place b, with "no code" first.
    Without branches, which nothing could predict.
    """
    left = 0
    for at in range(found):
        j = near[at]
        place = winner[j]
        own = 0.0
        if place > 0:
            own = np.float64(values[place - 1, base + j])
            if costs is not None:
                own -= rate * np.float64(costs[place - 1, base + j])
        wins = own > reach[place, 0]
        for k in range(values.shape[0]):
            x = np.float64(values[k, base + j])
            if costs is not None:
                x -= rate * np.float64(costs[k, base + j])
            beaten = own - x > reach[place, k + 1]
            if eligible is not None:
                beaten |= not eligible[k, base + j]
            wins &= beaten
        near[left] = j
        left += 0 if wins else 1
    return left


@njit(nogil=True, cache=True)
def screen(
    values: Array,
    bits: Array,
    eligible: Array | None,
    costs: Array | None,
    rate: float,
    segment: Array | None,
    start: int,
    stop: int,
    direct: bool,
    box: PriceBox,
    margin: float,
    choice: Array,
    counts: Array,
    rows: Array,
    apart: Apart | None = None,
) -> tuple[int, int, int]:
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    bits: `values` seen as integers. direct: nothing but depth-major `values`.
    apart: what else is known of the prices, for whom the box leaves open; without segments.
    Returns how many are open (beyond the room in rows: counted, not listed) and the bit patterns of the largest value
    and magnitude.
    """
    columns = values.shape[0]
    centre, width, none_width = box.centre, box.width, box.none_width
    room = rows.size
    # single-precision values compete in single precision, twice as fast; its rounding then counts as doubt
    first = np.empty(BLOCK, values.dtype)
    second = np.empty(BLOCK, values.dtype)
    winner = np.empty(BLOCK, bits.dtype)
    lines = np.empty((4, BLOCK), values.dtype)
    shifts = np.empty(columns, values.dtype)
    shifts[:] = centre[0] - width[0]
    doubt = 0.0 if values.itemsize == 8 else 2.0**-21
    dearest = np.abs(centre - width).max()
    nought = np.zeros(4, values.dtype)
    groups = centre.shape[0]
    reach = np.empty((groups, columns + 1))
    reach[:, 0] = 2.0 * none_width + margin
    reach[:, 1:] = 2.0 * width + margin
    won = np.zeros((4, groups, columns + 1), np.int64)  # four, because neighbours often choose alike
    near = np.empty(BLOCK + 1, np.int64)
    beyond = np.zeros((columns + 1, columns + 1))
    if apart is not None:
        beyond[:] = apart.most + margin
        for place in range(columns + 1):
            beyond[place, place] = -np.inf  # nobody competes with themselves
    opened = 0
    largest = 0
    magnitude = 0
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        end = base + count
        for j in range(count):
            first[j] = none_width
            second[j] = -np.inf
            winner[j] = 0
        taken = 0
        while taken + 4 <= columns:
            k = taken
            if direct:
                compete_four(
                    values[k, base:end], values[k + 1, base:end], values[k + 2, base:end], values[k + 3, base:end],
                    shifts[k : k + 4], k + 1, first, second, winner,
                )  # fmt: skip
            else:
                for at in range(4):
                    load_line(
                        values, eligible, costs, rate, segment, centre, width, k + at, base, lines[at, :count]
                    )  # fmt: skip
                compete_four(
                    lines[0, :count], lines[1, :count], lines[2, :count], lines[3, :count],
                    nought, k + 1, first, second, winner,
                )  # fmt: skip
            taken += 4
        for k in range(taken, columns):
            if direct:
                compete(values[k, base:end], shifts[k], k + 1, first, second, winner)
            else:
                load_line(values, eligible, costs, rate, segment, centre, width, k, base, lines[0, :count])
                compete(lines[0, :count], nought[0], k + 1, first, second, winner)
        for k in range(columns):
            largest, magnitude = value_range(bits, eligible, k, base, end, largest, magnitude)
        # short loops: each alone runs several times as fast as all in one
        for j in range(count):
            choice[base - start + j] = winner[j] - 1
        for j in range(count):
            won[j & 3, 0 if segment is None else segment[base + j], winner[j]] += 1
        found = 0  # the open ones are written down without a branch, which nothing could predict
        for j in range(count):
            best = np.float64(first[j])
            group = 0
            if segment is not None:
                group = segment[base + j]
            near[found] = j
            found += 1 if best - second[j] <= reach[group, winner[j]] + doubt * (abs(best) + dearest) else 0
        if apart is not None:
            found = _left_apart(values, eligible, costs, rate, base, beyond, winner, near, found)
        for at in range(found):
            j = near[at]
            won[0, 0 if segment is None else segment[base + j], winner[j]] -= 1
            if opened + at < room:
                rows[opened + at] = base + j
        opened += found
    for lane in range(4):
        for group in range(groups):
            for k in range(columns):
                counts[group, k] += won[lane, group, k + 1]
    return opened, largest, magnitude


_CHUNK = 262_144  # customers per chunk: a pass is memory-bound and takes milliseconds, so fewer and longer chunks
_GATHERED = 65_536  # open customers per chunk, whose values are read from all over the table
_TOO_MANY = 0.5  # more open customers than this: their values are tied, and keeping them would copy the matrix


@dataclass(frozen=True, slots=True)
class Screened:
    """What a pass leaves behind. A customer is settled, or open: then a later step decides."""

    choice: Array  # (customers,), only a guess for the open ones
    counts: Array  # (groups, depths) settled customers
    rows: Array  # (open,) row numbers of the open ones
    kept: Array  # (depths, open) their values
    opened: int  # how many are open; more than `rows` has: too many to keep
    largest: float  # the largest value; with floors, the largest magnitude
    margin: float  # by how much a settled customer's place wins, at least


class _Part(NamedTuple):
    """What the pass found in one chunk: how many are open, two bit patterns of values, and arrays as in `Screened`."""

    opened: int
    largest: int
    magnitude: int
    choice: Array
    counts: Array
    rows: Array


def run_screen(
    problem: AllocationProblem,
    box: PriceBox,
    *,
    rate: float = 0.0,
    least_margin: float = 0.0,
    room_share: float = 1.0,
    checked: bool = False,
    apart: Apart | None = None,
    engine: Engine | None = None,
    chunk: int | None = None,
) -> Screened:
    """Screen all customers at all prices of a box; InputError names a NaN or infinity.

    apart: as for `screen`.

    room_share: room for this share of the customers to stay open; where that is too little, the pass is repeated once.
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
    margin = max(least_margin, 1e-12 * float(np.abs(centre - width).max() + none_width))
    segment = problem.limits.segment

    def screened(chunk: slice) -> _Part:
        size = chunk.stop - chunk.start
        room = int(size * share) + 256
        choice = np.empty(size, np.int16)
        counts = np.zeros((groups, columns), np.int64)
        rows = np.empty(room, np.int64)
        opened, top, largest_size = screen(
            values, bits, problem.eligible, costs, rate, segment, chunk.start, chunk.stop, direct, box, margin,
            choice, counts, rows, apart,
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

    def gathered(part: slice) -> Array:
        found = np.empty((columns, part.stop - part.start))
        gather(values, problem.eligible, costs, rate, rows[part], found)
        return found

    if rows.size == opened:
        pieces = row_chunks(rows.size, size=_GATHERED)
        for part, found in zip(pieces, spread(gathered, pieces, engine=engine), strict=True):
            kept[:, part] = found
    return Screened(choice, counts, rows, kept, opened, top, margin)


def keep_everybody(
    problem: AllocationProblem, rate: float, *, rows: Array | None = None, grid: Screened | None = None
) -> Screened:
    """All customers as open ones: where a sample would hardly be smaller, or tells too little.

    rows: their numbers in the whole table (None: this is the whole table).
    grid: the pass above this one.
    """
    here = np.arange(problem.customers)
    numbers = here if rows is None or not rows.size else rows
    by_depth = np.empty(problem.values.shape)
    costs = problem.costs if rate != 0.0 else None
    patterns = copy_all(problem.values, bits_of(problem.values), problem.eligible, costs, rate, by_depth)
    wide = problem.values.dtype.itemsize == 8
    largest, magnitude = as_float(patterns[0], wide=wide), as_float(patterns[1], wide=wide)
    counts = np.zeros((1, problem.columns), np.int64)
    if grid is not None:
        return Screened(here, counts, numbers, by_depth, here.size, grid.largest, grid.margin)
    problem.refuse_unless_finite(magnitude)
    top = problem.grid_top(largest, magnitude, rate)
    return Screened(here, counts, numbers, by_depth, here.size, top, 1e-12 * top)
