"""The screening pass: decide every customer whose best place is the same for all prices in a box.

Prices p_k = t + s_k with |t - t₀| ≤ none_width and |s_k - s₀_k| ≤ width_k: depths compete by s alone, "no code" feels t
too. A customer is settled when their best place still wins at the corner of the box that is worst for it. The kernel is
a pure function of one chunk of customers; `run_screen` hands the chunks to an engine.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.problem import AllocationProblem
from disco.allocation.table import (
    as_float,
    bits_of,
    load_line,
    or_no_costs,
    or_no_segments,
    or_none,
    take,
    value_range,
)
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import inner_kernel, njit
from disco.records.ports import Engine

BLOCK = 2048  # customers per block: long enough for the prefetcher, short enough for the second-level cache


@inner_kernel(cache=True)
def compete(line: Array, shift: float, place: int, first: Array, second: Array, winner: Array) -> None:
    """Let one more place bid line - shift for every customer: keep the best two bids and who made the best."""
    for j in range(line.size):
        x = line[j] - shift
        f = first[j]
        s = second[j]
        ahead = x > f
        lesser = f if ahead else x
        second[j] = lesser if lesser > s else s
        first[j] = x if ahead else f
        winner[j] = place if ahead else winner[j]


@inner_kernel(cache=True)
def compete_two(
    line: Array, other: Array, shift: float, other_shift: float, place: int, first: Array, second: Array,
    winner: Array,
) -> None:  # fmt: skip
    """Two places at once: half the traffic of `compete` for the three state arrays."""
    for j in range(line.size):
        x = line[j] - shift
        y = other[j] - other_shift
        f = first[j]
        s = second[j]
        w = winner[j]
        larger = x if x >= y else y
        smaller = y if x >= y else x
        of = place if x >= y else place + 1
        ahead = larger > f
        lesser = f if ahead else larger
        lesser = lesser if lesser > smaller else smaller
        second[j] = lesser if lesser > s else s
        first[j] = larger if ahead else f
        winner[j] = of if ahead else w


@inner_kernel(cache=True)
def compete_four(
    a: Array, b: Array, c: Array, d: Array, shifts: Array, place: int, first: Array, second: Array, winner: Array
) -> None:
    """Four places at once, by the better of either pair; equal bids go to the first of them, as in `compete_two`."""
    shift_a, shift_b, shift_c, shift_d = shifts[0], shifts[1], shifts[2], shifts[3]
    for j in range(a.size):
        x = a[j] - shift_a
        y = b[j] - shift_b
        z = c[j] - shift_c
        t = d[j] - shift_d
        f = first[j]
        s = second[j]
        w = winner[j]
        front = x if x >= y else y
        behind = y if x >= y else x
        of = place if x >= y else place + 1
        other_front = z if z >= t else t
        other_behind = t if z >= t else z
        other_of = place + 2 if z >= t else place + 3
        mine = front >= other_front
        larger = front if mine else other_front
        smaller = other_front if mine else front
        third = behind if mine else other_behind
        of = of if mine else other_of
        smaller = smaller if smaller > third else third
        ahead = larger > f
        lesser = f if ahead else larger
        lesser = lesser if lesser > smaller else smaller
        second[j] = lesser if lesser > s else s
        first[j] = larger if ahead else f
        winner[j] = of if ahead else w


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


@inner_kernel(cache=True)
def _left_apart(
    values: Array, eligible: Array, costs: Array, rate: float, base: int, reach: Array, winner: Array,
    near: Array,
) -> int:  # fmt: skip
    """Move to the front of near those of its customers base + near[at] whose winner may lose; how many they are.

    reach: (1 + depths, 1 + depths) by how much place a must be worth more than place b, with "no code" first.
    Without branches, which nothing could predict.
    """
    left = 0
    for at in range(near.size):
        j = near[at]
        place = winner[j]
        own = 0.0
        if place > 0:
            own = np.float64(values[place - 1, base + j])
            if costs.size > 0:
                own -= rate * np.float64(costs[place - 1, base + j])
        wins = own > reach[place, 0]
        for k in range(values.shape[0]):
            x = np.float64(values[k, base + j])
            if costs.size > 0:
                x -= rate * np.float64(costs[k, base + j])
            beaten = own - x > reach[place, k + 1]
            if eligible.size > 0:
                beaten |= not eligible[k, base + j]
            wins &= beaten
        near[left] = j
        left += 0 if wins else 1
    return left


@inner_kernel(cache=True)
def _reaches(box: PriceBox, margin: float, reach: Array) -> float:
    """Fill by how much a place must win (groups · (1 + depths),), "no code" first; returns the largest lower price."""
    groups, columns = box.centre.shape
    dearest = 0.0
    for group in range(groups):
        reach[group * (columns + 1)] = 2.0 * box.none_width + margin
        for k in range(columns):
            reach[group * (columns + 1) + k + 1] = 2.0 * box.width[group, k] + margin
            dearest = max(dearest, abs(box.centre[group, k] - box.width[group, k]))
    return dearest


@njit(nogil=True, cache=True)
def _screen(
    values: Array,
    bits: Array,
    eligible: Array,
    costs: Array,
    rate: float,
    segment: Array,
    start: int,
    stop: int,
    box: PriceBox,
    margin: float,
    apart: Array,
    choice: Array,
    counts: Array,
    rows: Array,
    found: Array,
) -> int:
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    bits: `values` seen as integers. eligible, costs, segment: empty where there are none.
    apart: what else is known of the prices, for whom the box leaves open; without segments. Or empty.
    found: (2,), raised to the bit patterns of the largest value and magnitude.
    Returns how many are open (beyond the room in rows: counted, not listed).
    """
    columns: int = values.shape[0]
    centre, width, none_width = box.centre, box.width, box.none_width
    groups, places = centre.shape[0], columns + 1
    room = rows.size
    direct = eligible.size == 0 and costs.size == 0 and segment.size == 0
    # single-precision values compete in single precision, twice as fast; its rounding then counts as doubt
    first = np.empty(BLOCK, values.dtype)
    second = np.empty(BLOCK, values.dtype)
    winner = np.empty(BLOCK, bits.dtype)
    lines = np.empty((4, BLOCK), values.dtype)
    shifts = np.empty(columns + 4, values.dtype)
    for k in range(columns):
        shifts[k] = centre[0, k] - width[0, k]
    for k in range(columns, columns + 4):
        shifts[k] = 0.0  # of a line from which the price is taken already
    doubt = 0.0 if values.itemsize == 8 else 2.0**-21
    reach = np.empty(groups * places, np.float64)
    dearest = _reaches(box, margin, reach)
    won = np.zeros((4, groups * places), np.int64)  # four, because neighbours often choose alike
    of_group = np.zeros(BLOCK, np.int64)  # where the places of each customer's segment begin in these two
    near = np.empty(BLOCK + 1, np.int64)
    beyond = np.empty(apart.shape, np.float64)
    for a in range(apart.shape[0]):
        for b in range(apart.shape[0]):
            beyond[a, b] = apart[a, b] + margin if a != b else -np.inf  # nobody competes with themselves
    opened = 0
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        end = base + count
        for j in range(count):
            first[j] = none_width
            second[j] = -np.inf
            winner[j] = 0
        if segment.size > 0:
            for j in range(count):
                of_group[j] = segment[base + j] * places
        for k in range(0, columns, 4):
            together = min(columns - k, 4)
            if not direct:
                for ahead in range(together):
                    line = lines[ahead, :count]
                    load_line(values, eligible, costs, rate, segment, centre, width, k + ahead, base, line)
            if together == 4 and direct:
                compete_four(
                    values[k, base:end], values[k + 1, base:end], values[k + 2, base:end], values[k + 3, base:end],
                    shifts[k : k + 4], k + 1, first, second, winner,
                )  # fmt: skip
            elif together == 4:
                compete_four(
                    lines[0, :count], lines[1, :count], lines[2, :count], lines[3, :count],
                    shifts[columns:], k + 1, first, second, winner,
                )  # fmt: skip
            else:
                for ahead in range(together):
                    bids = values[k + ahead, base:end] if direct else lines[ahead, :count]
                    shift = shifts[k + ahead if direct else columns]
                    compete(bids, shift, k + ahead + 1, first, second, winner)
        for k in range(columns):
            value_range(bits[k, base:end], eligible[k if eligible.size > 0 else 0, base:end], found)
        # short loops: each alone runs several times as fast as all in one
        for j in range(count):
            choice[base - start + j] = winner[j] - 1
        for j in range(count):
            won[j & 3, of_group[j] + winner[j]] += 1
        left = 0  # the open ones are written down without a branch, which nothing could predict
        for j in range(count):
            best = np.float64(first[j])
            near[left] = j
            left += 1 if best - second[j] <= reach[of_group[j] + winner[j]] + doubt * (abs(best) + dearest) else 0
        still = left
        if apart.size > 0:
            still = _left_apart(values, eligible, costs, rate, base, beyond, winner, near[:left])
        for at in range(still):
            j = near[at]
            won[0, of_group[j] + winner[j]] -= 1
            if opened + at < room:
                rows[opened + at] = base + j
        opened += still
    for lane in range(4):
        for group in range(groups):
            for k in range(columns):
                counts[group, k] += won[lane, group * places + k + 1]
    return opened


_NOT_APART = np.empty((0, 0))


class _Part(NamedTuple):
    """What a pass finds in some customers; arrays as in `Screened`."""

    opened: int
    largest: float  # value of an eligible cell, at least 0; NaN or ∞ where a cell is
    magnitude: float
    choice: Array
    counts: Array
    rows: Array


def screen(
    values: Array, eligible: Array | None, costs: Array | None, rate: float, segment: Array | None, part: slice,
    box: PriceBox, margin: float, apart: Apart | None, *, room: int,
) -> _Part:  # fmt: skip
    """Settle the customers of a part whose place is the same at all prices of a box; list at most `room` others.

    A pure function of the part, for chunks of a table in memory and for chunks that an engine holds.
    """
    choice, rows = np.empty(part.stop - part.start, np.int16), np.empty(room, np.int64)
    counts, found = np.zeros(box.centre.shape, np.int64), np.zeros(2, np.int64)
    opened = _screen(
        values, bits_of(values), or_none(eligible), or_no_costs(costs, values), rate, or_no_segments(segment),
        part.start, part.stop, box, margin, _NOT_APART if apart is None else apart.most, choice, counts, rows, found,
    )  # fmt: skip
    largest, magnitude = (as_float(pattern, wide=values.itemsize == 8) for pattern in found.tolist())
    return _Part(opened, largest, magnitude, choice, counts, rows[: min(opened, room)])


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
    values = problem.values
    columns, customers = values.shape
    costs = problem.costs if rate != 0.0 else None
    margin = max(least_margin, 1e-12 * float(np.abs(box.centre - box.width).max() + box.none_width))
    segment = problem.limits.segment if box.centre.shape[0] > 1 else None

    def screened(chunk: slice) -> _Part:
        room = int((chunk.stop - chunk.start) * share) + 256
        return screen(values, problem.eligible, costs, rate, segment, chunk, box, margin, apart, room=room)

    share = room_share
    for _ in range(3):
        parts = list(spread(screened, row_chunks(customers, size=chunk or _CHUNK), engine=engine))
        opened = sum(part.opened for part in parts)
        top = 0.0
        if not checked:
            magnitude = float(np.max([part.magnitude for part in parts]))  # NaN where one is
            largest = max(part.largest for part in parts)
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
        take(values, problem.eligible, costs, rate, rows[part], found)
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
    magnitude, largest = take(problem.values, problem.eligible, costs, rate, here, by_depth)
    counts = np.zeros((1, problem.columns), np.int64)
    if grid is not None:
        return Screened(here, counts, numbers, by_depth, here.size, grid.largest, grid.margin)
    problem.refuse_unless_finite(magnitude)
    top = problem.grid_top(largest, magnitude, rate)
    return Screened(here, counts, numbers, by_depth, here.size, top, 1e-12 * top)
