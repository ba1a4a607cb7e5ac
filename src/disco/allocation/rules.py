"""Rules that settle customers: whose place is the same at all prices that are still possible.

A rule is a pure function of some customers. It says where each of them goes, and which of them stay open because their
place depends on where the prices will be in the end. There are three:

- `InBox`: prices p_k = t + s_k with |t - t₀| ≤ none_width and |s_k - s₀_k| ≤ width_k. Depths compete by s alone, "no
  code" feels t too. A customer is settled when their best place still wins at the corner of the box that is worst for
  it. Segments have a box each.
- `OnGrid`: prices in grid integers that are known, and a width for the prices of tie hashes. For values that come again
  and again.
- `InRange`: two budget prices with a box at either, that is `InBox` twice. Bids are linear in both, so who wins at the
  worst corner of either box wins in between.

A rule is never trusted: it says what follows *if* the final prices are among its own, and whoever made it asks
afterwards whether they are (`PriceBox.holds`, `PriceGaps.holds`, `GridBox.holds`, `RateRange.holds`). If not, the whole
pass is thrown away (`solve`); with a budget its result stands where other prices bound the whole table closely
(`budget`).

What makes a box useful is that customers compare. Of a customer's best and second-best place only the difference of two
prices counts, and it is known better than either price. So the common shift t of all prices has a width of its own: it
concerns only the choice between a code and none.

A later pass with the same rule settles the same customers, so a table in chunks need not remember them. The places bid
for customers in blocks: kernels keep the best two bids of everybody in a block, and who made the best.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.allocation.grid import NEVER, tie_hash
from disco.allocation.problem import BLOCK, Rows, TableCells
from disco.allocation.table import Settling, as_float, bits_of, load_line, value_range
from disco.records.arrays import Array
from disco.records.compiled import inner_kernel, njit


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
def compete_four(
    a: Array, b: Array, c: Array, d: Array, shifts: Array, place: int, first: Array, second: Array, winner: Array
) -> None:
    """Four places at once, a quarter of the traffic of `compete` for the three state arrays. The better of either pair
    goes on; equal bids go to the first of them."""
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


class PriceGaps(NamedTuple):
    """How far prices may be apart: more precisely known than each price, where depths compete in a chain.

    A chain: all customers rank the depths alike, so that each depth competes with the next one only. Errors then add up
    along the chain, and the width of a price is that of the whole way to "no code", while neighbours are close
    together. Without gaps 1,000,000 × 8 values in a chain take 54 to 58 ms instead of 35, and others 37 to 39
    instead of 28 to 32.
    """

    most: Array  # (1 + depths, 1 + depths) the largest p_a - p_b, with "no code" first; ∞: nobody is settled at a

    def holds(self, prices: Array, *, margin: float = 0.0) -> bool:
        """Whether no two prices (depths,) are further apart, but for a margin: prices of the grid are rounded.

        >>> gaps = PriceGaps(np.array([[0.0, -1.9], [2.1, 0.0]]))
        >>> gaps.holds(np.array([2.05])), gaps.holds(np.array([1.8]))
        (True, False)
        """
        every = np.append(0.0, prices)
        return bool((every[:, None] - every <= self.most + margin).all())


@inner_kernel(cache=True)
def _left_apart(cells: TableCells, rate: float, base: int, win_by: Array, winner: Array, near: Array) -> int:
    """Move to the front of near those of its customers base + near[at] whose winner may lose; how many they are.

    win_by: (1 + depths, 1 + depths) by how much place a must be worth more than place b, with "no code" first.
    Without branches, which nothing could predict.
    """
    values, eligible, costs, _ = cells
    left = 0
    for at in range(near.size):
        j = near[at]
        place = winner[j]
        own = 0.0
        if place > 0:
            own = np.float64(values[place - 1, base + j])
            if costs.size > 0:
                own -= rate * np.float64(costs[place - 1, base + j])
        wins = own > win_by[place, 0]
        for k in range(values.shape[0]):
            x = np.float64(values[k, base + j])
            if costs.size > 0:
                x -= rate * np.float64(costs[k, base + j])
            beaten = own - x > win_by[place, k + 1]
            if eligible.size > 0:
                beaten |= not eligible[k, base + j]
            wins &= beaten
        near[left] = j
        left += 0 if wins else 1
    return left


@inner_kernel(cache=True)
def _win_by(box: PriceBox, margin: float, win_by: Array) -> float:
    """Fill by how much a place must win (groups · (1 + depths),), "no code" first; returns the largest lower price."""
    groups, columns = box.centre.shape
    dearest = 0.0
    for group in range(groups):
        win_by[group * (columns + 1)] = 2.0 * box.none_width + margin
        for k in range(columns):
            win_by[group * (columns + 1) + k + 1] = 2.0 * box.width[group, k] + margin
            dearest = max(dearest, abs(box.centre[group, k] - box.width[group, k]))
    return dearest


@njit(nogil=True, cache=True)
def _screen(
    cells: TableCells, bits: Array, rate: float, start: int, stop: int, box: PriceBox, margin: float, apart: Array,
    choice: Array, counts: Array, rows: Array, found: Array,
) -> int:  # fmt: skip
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    bits: the values seen as integers.
    apart: what else is known of the prices, for whom the box leaves open; without segments. Or empty.
    found: (2,), raised to the bit patterns of the largest value and magnitude.
    Returns how many are open (beyond the room in rows: counted, not listed).
    """
    values, eligible, costs, segment = cells
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
    doubt = 0.0 if values.itemsize == 8 else 2.0**-21  # two bids are rounded four times, by 2⁻²⁴ each
    win_by = np.empty(groups * places, np.float64)
    dearest = _win_by(box, margin, win_by)
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
                    load_line(cells, rate, centre, width, k + ahead, base, line)
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
            left += 1 if best - second[j] <= win_by[of_group[j] + winner[j]] + doubt * (abs(best) + dearest) else 0
        still = left
        if apart.size > 0:
            still = _left_apart(cells, rate, base, beyond, winner, near[:left])
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


_NO_GAPS = np.empty((0, 0))


@dataclass(frozen=True, slots=True)
class InBox:
    """Whose place is the same for all prices of a box, or for all that are no further apart than is possible.

    Prices are p = centre + shift + own, with |shift| ≤ none_width for all of them together and |own_k| ≤ width_k. A
    customer is settled at a depth k that is ahead of the second best by more than 2·width_k where all prices are at
    their lowest: k alone may then become dearer, by twice its width, which is the worst corner for it. "No code" has no
    price, so that the shift counts against it alone: it bids none_width, as if all prices were higher by the whole
    shift, and where it is the best it must win by 2·none_width, as if they were all lower.

    With gaps a customer is settled by the box *or* by the gaps, so that `holds` asks for both.
    """

    box: PriceBox
    margin: float  # by how much a place must win: far above the rounding of a bid
    gaps: PriceGaps | None = None  # what else is known of the prices, without segments
    rate: float = 0.0  # the budget price

    def settle(self, rows: Rows, part: slice, room: int) -> Settling:
        cells = rows.cells(costs=self.rate != 0.0, segments=self.box.centre.shape[0] > 1)
        choice, opened_rows = np.empty(part.stop - part.start, np.int16), np.empty(room, np.int64)
        counts, found = np.zeros(self.box.centre.shape, np.int64), np.zeros(2, np.int64)
        opened = _screen(
            cells, bits_of(rows.values), self.rate, part.start, part.stop, self.box, self.margin,
            _NO_GAPS if self.gaps is None else self.gaps.most, choice, counts, opened_rows, found,
        )  # fmt: skip
        largest, magnitude = (as_float(pattern, wide=rows.values.itemsize == 8) for pattern in found.tolist())
        return Settling(opened, choice, counts, opened_rows[: min(opened, room)], largest, magnitude)

    def holds(self, prices: Array) -> bool:
        """Whether final prices (groups, depths) are among those for which customers were settled."""
        # gaps between prices that move together may be no wider than rounding, of which half the margin is forgiven;
        # by the other half whoever was settled still wins. Boxes forgive nothing, and leave the whole margin
        return self.box.holds(prices) and (self.gaps is None or self.gaps.holds(prices[0], margin=0.5 * self.margin))

    @property
    def largest_price(self) -> float:
        """In size, of those at which bids are compared: it sets their rounding."""
        return float(np.abs(self.box.centre - self.box.width).max() + self.box.none_width)


class GridBox(NamedTuple):
    """Prices in grid integers, each (groups, depths), up to a common level; kernels take it as it is.

    What depths cost beside each other is known exactly in value: a sample of tied values shows it. Their level shows in
    who gets no code, and these may be few: it is known up to `level`, and where that is 0, in hashes up to
    `none_width`.
    """

    value_price: Array
    hash_price: Array
    hash_width: Array  # of the hash prices
    level: int
    none_width: int

    def holds(self, values: Array, hashes: Array) -> bool:
        """Whether final prices are the same in value, and in hashes within the width, but for a level.

        >>> price, width = np.array([[5, 7]]), np.array([[2, 2]])
        >>> exact, unsure = (GridBox(price, 10 * price, width, level, 0) for level in (0, 1))
        >>> exact.holds(price, np.array([[51, 69]])), exact.holds(price + 1, 10 * price)
        (True, False)
        >>> unsure.holds(price + 1, 10 * price + 90), unsure.holds(price + [0, 1], 10 * price)
        (True, False)
        """
        off, shift = hashes - self.hash_price, values - self.value_price
        most = self.none_width if self.level == 0 else 2**62
        least = np.maximum((off - self.hash_width).max(axis=1), -most)
        near = least <= np.minimum((off + self.hash_width).min(axis=1), most)
        return bool((near & (shift == shift[:, :1]).all(axis=1) & (np.abs(shift[:, 0]) <= self.level)).all())


@njit(nogil=True, cache=True)
def _screen_on_grid(
    cells: TableCells, rate: float, keys: Array, start: int, stop: int, scale: float, keep_negative: bool, box: GridBox,
    choice: Array, counts: Array, rows: Array,
) -> int:  # fmt: skip
    """Fill choice (stop - start,), add settled customers to counts (groups, depths), and list the open ones in rows.

    Two places compete by value, and where that is equal by the hash. Somebody is open where the hash decides, and by no
    more than the two prices of hashes may be off together; or where their best depth is worth no more than the level
    may be off.
    Returns how many are open, listed or not.
    """
    values, eligible, costs, segment = cells
    value_price, hash_price, hash_width, level, none_width = box
    columns = values.shape[0]
    worth = np.empty(columns, np.int64)
    opened = 0
    for i in range(start, stop):
        group = segment[i] if segment.size > 0 else 0
        most = NEVER
        ties = 0  # places with the best value, "no code" among them
        for k in range(columns):
            x = np.float64(values[k, i])
            if costs.size > 0:
                x -= rate * np.float64(costs[k, i])
            barred = (x < 0.0 and not keep_negative) or (eligible.size > 0 and not eligible[k, i])
            worth[k] = NEVER if barred else np.int64(np.rint(x * scale)) - value_price[group, k]
            most = max(most, worth[k])
        best_value = max(most, 0)
        best = -1
        for k in range(columns):
            if worth[k] == best_value:
                best = k
                ties += 1
        ties += 1 if best_value == 0 else 0
        is_open = level > 0 and abs(most) <= level
        if ties > 1:  # only then are hashes looked at
            best = -1
            best_hash = 0 if best_value == 0 else -(2**62)
            for k in range(columns):
                if worth[k] == best_value:
                    tie = tie_hash(keys[i], k) - hash_price[group, k]
                    if tie > best_hash:
                        best = k
                        best_hash = tie
            own_width = hash_width[group, best] if best >= 0 else none_width
            is_open |= best >= 0 and best_value == 0 and best_hash <= own_width + none_width
            for k in range(columns):
                if k != best and worth[k] == best_value:
                    ahead = best_hash - (tie_hash(keys[i], k) - hash_price[group, k])
                    is_open |= ahead <= own_width + hash_width[group, k]
        choice[i - start] = best
        if is_open:
            if opened < rows.size:
                rows[opened] = i
            opened += 1
        elif best >= 0:
            counts[group, best] += 1
    return opened


@dataclass(frozen=True, slots=True)
class OnGrid:
    """Whose place wins on the grid, ties by hash, by more than the width of the hash prices."""

    box: GridBox
    scale: float  # grid units per unit of value
    keep_negative: bool  # floors may ask for a loss
    rate: float = 0.0  # the budget price

    def settle(self, rows: Rows, part: slice, room: int) -> Settling:
        cells = rows.cells(costs=self.rate != 0.0, segments=self.box.value_price.shape[0] > 1)
        choice, opened_rows = np.empty(part.stop - part.start, np.int16), np.empty(room, np.int64)
        counts = np.zeros(self.box.value_price.shape, np.int64)
        opened = _screen_on_grid(
            cells, self.rate, rows.keys, part.start, part.stop, self.scale, self.keep_negative, self.box, choice,
            counts, opened_rows,
        )  # fmt: skip
        return Settling(opened, choice, counts, opened_rows[: min(opened, room)])


@dataclass(frozen=True, slots=True)
class Nobody:
    """Everybody stays open."""

    groups: int

    def settle(self, rows: Rows, part: slice, room: int) -> Settling:
        size = part.stop - part.start
        counts = np.zeros((self.groups, rows.values.shape[0]), np.int64)
        return Settling(size, np.full(size, -1, np.int16), counts, np.arange(part.start, part.stop)[:room])


class RateRange(NamedTuple):
    """Budget prices from one end to the other, with a box of prices at either end."""

    rates: tuple[float, float]
    boxes: tuple[PriceBox, PriceBox]

    def holds(self, rate: float, prices: Array) -> bool:
        """Whether prices (groups, depths) at a budget price of the range are in the box drawn between those of its
        ends."""
        low, high = self.rates
        if not low <= rate <= high:
            return False
        part = (rate - low) / (high - low)
        one, other = self.boxes
        if part in (0.0, 1.0):  # a width at the other end may be infinite
            return (other if part else one).holds(prices)
        centre = (1.0 - part) * one.centre + part * other.centre
        width = (1.0 - part) * one.width + part * other.width
        return PriceBox(centre, width, (1.0 - part) * one.none_width + part * other.none_width).holds(prices)


@njit(nogil=True, cache=True, patient=True)
def choice_sums(
    values: Array, costs: Array, choice: Array, start: int, value_scale: float, cost_scale: float
) -> tuple[int, int, float]:
    """Σ round(value · scale), Σ round(cost · scale) and Σ cost of the customers from `start` on, in one pass.

    The first two are integers, so the order of customers cannot change them. The third carries its rounding error
    along, for budgets are kept to the last bit.
    """
    worth = 0
    cost = 0
    total = low = 0.0
    for j in range(choice.size):
        if choice[j] >= 0:
            worth += int(np.rint(np.float64(values[choice[j], start + j]) * value_scale))
            term = np.float64(costs[choice[j], start + j])
            cost += int(np.rint(term * cost_scale))
            larger = total + term
            low += (total - larger) + term if total >= term else (term - larger) + total
            total = larger
    return worth, cost, total + low


def place_counts(choice: Array, group: Array | None, shape: tuple[int, int]) -> Array:
    """(groups, depths) of this shape: how many customers have each place."""
    taken = choice >= 0
    places = choice[taken].astype(np.int64)
    if group is not None and shape[0] > 1:
        places += group[taken] * shape[1]
    counts: Array = np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)
    return counts


@dataclass(frozen=True, slots=True)
class InRange:
    """Whose place is the same in a whole range of budget prices: `InBox` at both ends, with the same winner.

    A place that wins at the worst corner of either box wins for all budget prices and boxes in between, because bids
    are linear in both. So this rule needs no kernel of its own.
    """

    range_: RateRange
    margin: float  # by how much a place must win
    scales: tuple[float, float]  # grid units per unit of value and of cost

    def settle(self, rows: Rows, part: slice, room: int) -> Settling:
        assert rows.costs is not None
        size, shape = part.stop - part.start, self.range_.boxes[0].centre.shape
        one, other = (
            InBox(box, self.margin, rate=rate).settle(rows, part, size)
            for rate, box in zip(self.range_.rates, self.range_.boxes, strict=True)
        )
        is_open = one.choice != other.choice
        for end in (one, other):
            is_open[end.rows - part.start] = True
        opened = np.flatnonzero(is_open)
        settled = np.where(is_open, np.int16(-1), one.choice)
        group = None if rows.group is None else rows.group[part]
        worth, spent, _ = choice_sums(rows.values, rows.costs, settled, part.start, *self.scales)
        return Settling(
            opened.size, one.choice, place_counts(settled, group, shape), opened[:room] + part.start,
            one.largest, one.magnitude, worth=int(worth), spent=int(spent),
        )  # fmt: skip
