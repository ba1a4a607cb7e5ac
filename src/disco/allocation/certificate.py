"""The independent check of a solve: one read of the matrix, no arithmetic shared with any solver.

For any prices, with q = depth price + segment price + budget price · cost, no allocation within the limits exceeds

    bound = Σ_i max(0, max_k v_ik - q_ik) + Σ_limits (price⁺ · cap - price⁻ · floor) + budget price · budget

(prices of limits without a cap may not be positive). The bound is taken as value + what each customer and each limit
leaves on the table, term by term: differences of two large sums would drown the gap in rounding. A customer's loss is
rounding, and counts as none, below 2⁻⁴⁹ of their largest cell and the dearest price, which set the grid of the solver;
but only while it is also below 2⁻⁴⁰ of the two places it is a difference of (or below 2⁻⁹⁹⁹). So a loss
that the grid of the solver is too coarse to see counts here: cells that span more than its 52 bits give a gap. Like any
gap it is relative, and one of at most `PROVED` is called optimal.

Why the bound holds: take any allocation within the limits. A customer who has place k in it is worth v_ik = q_ik +
(v_ik - q_ik), and the second part is at most the customer's maximum above. The first parts add up, limit by limit, to
price · count, which is at most price⁺ · cap - price⁻ · floor, and to budget price · cost, which is at most budget price
· budget. Nothing else is needed: the prices may come from anywhere, and bad ones only make the bound loose. So an
allocation whose value equals the bound is optimal, whoever found it, and a solver with an error in it is found out: a
broken limit is an error, a gap above `PROVED` is stated as WITHIN_GAP.

There is one exception, budgets of few customers: whole codes do not divide, and often no prices show that the best
allocation is the best. Then the search that has looked at all others gives the bound, and only limits, costs and value
are checked here (`allocate.with_known_bound`).

`audit` is a pure function of some customers of a table in memory or in chunks. Sums are exact integers
(`records.exact_sums`) that are rounded once, so that value and bound have the same bits however the table is divided.
"""

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import UNLIMITED, Limits
from disco.allocation.problem import BLOCK, AllocationProblem, TableCells
from disco.allocation.result import PROVED, Allocation, Status, relative_gap
from disco.allocation.table import CHUNK
from disco.records.arrays import Array, Integers
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import inner_kernel, njit
from disco.records.errors import CertificateError, InputError
from disco.records.exact_sums import EXPONENTS, add_bits, exact_total, rounded
from disco.records.ports import Engine

# Relative: a smaller loss is a difference of two roundings.
_ROUNDING = 2.0**-49
# Relative to the two places compared: one cell of 1e18 must not pass off everybody else's losses as rounding.
_MOST_ROUNDING = 2.0**-40
# Denormal money: two steps of the finest grid there is.
_NOTHING = 2.0**-999


@inner_kernel(cache=True)
def _net_of(
    worth: Array, paid: Array, allowed: Array, segment: Array, prices: Array, budget_price: float, budget: float,
    k: int, line: Array,
) -> None:  # fmt: skip
    """line[j] = what depth k is worth to customer j beyond its price; NaN where they cannot have it.

    worth, paid, allowed, segment: (customers,), the last three empty where there are no costs, flags or segments.
    """
    if segment.size == 0:
        price = prices[0, k]
        for j in range(line.size):
            line[j] = np.float64(worth[j]) - price
    else:
        for j in range(line.size):
            line[j] = np.float64(worth[j]) - prices[segment[j], k]
    if paid.size > 0:  # what costs more than the whole budget nobody can have: costs are not negative
        for j in range(line.size):
            cost = np.float64(paid[j])
            line[j] = line[j] - budget_price * cost if cost <= budget else np.nan
    if allowed.size > 0:
        for j in range(line.size):
            line[j] = line[j] if allowed[j] else np.nan


@inner_kernel(cache=True)
def _best_of(line: Array, price: float, best: Array) -> None:
    for j in range(best.size):
        net = np.float64(line[j]) - price
        best[j] = net if net > best[j] else best[j]


@inner_kernel(cache=True)
def _best_of_four(a: Array, b: Array, c: Array, d: Array, prices: Array, best: Array) -> None:
    """Four depths at once: a quarter of the traffic of `_best_of`."""
    price_a, price_b, price_c, price_d = prices[0], prices[1], prices[2], prices[3]
    for j in range(best.size):
        first = np.float64(a[j]) - price_a
        other = np.float64(b[j]) - price_b
        third = np.float64(c[j]) - price_c
        last = np.float64(d[j]) - price_d
        first = first if first > other else other
        third = third if third > last else last
        first = first if first > third else third
        best[j] = first if first > best[j] else best[j]


@inner_kernel(cache=True)
def _best_nets(
    cells: TableCells, prices: Array, budget_price: float, budget: float, base: int, end: int, line: Array, best: Array
) -> None:
    """best[j] = the most that any place, or none, is worth to customer base + j beyond its price."""
    values, eligible, costs, segment = cells
    columns = values.shape[0]
    plain = eligible.size == 0 and costs.size == 0 and segment.size == 0
    for j in range(best.size):
        best[j] = 0.0
    k = 0
    while plain and k + 4 <= columns:
        _best_of_four(
            values[k, base:end], values[k + 1, base:end], values[k + 2, base:end], values[k + 3, base:end],
            prices[0, k : k + 4], best,
        )  # fmt: skip
        k += 4
    while k < columns:
        worth = values[k, base:end]  # slices have no negative places, for which the compiler would look
        if plain:
            _best_of(worth, prices[0, k], best)
        else:
            paid = costs[k if costs.size > 0 else 0, base:end]  # a slice of none is empty
            allowed = eligible[k if eligible.size > 0 else 0, base:end]
            own = segment[base:end]
            _net_of(worth, paid, allowed, own, prices, budget_price, budget, k, line)
            _best_of(line, 0.0 * budget_price, best)  # 0, but of a type for which the kernel is there already
        k += 1


@inner_kernel(cache=True)
def _any_short(best: Array, own: Array) -> bool:
    """Whether somebody has less than their best (or NaN)."""
    short = 0
    for j in range(best.size):
        short += 0 if best[j] <= own[j] else 1
    return short > 0


@njit(nogil=True, cache=True, patient=True)
def _audit(
    cells: TableCells, choice: Array, prices: Array, budget_price: float, budget: float, start: int, stop: int,
    counts: Array, sums: Array,
) -> int:  # fmt: skip
    """Add the customers start to stop to counts (groups, 1 + depths), no code first, and to the sums of `Audit`.

    choice: (stop - start,).
    sums: (3, EXPONENTS, 2) as `exact_sums.add_bits` fills them.
    Returns the first row with an impossible choice; -1: none.
    """
    values, eligible, costs, segment = cells
    groups, columns = prices.shape
    dearest = 0.0
    dear = np.empty(groups * (columns + 1), np.float64)  # prices, with that of no code before those of each segment
    for group in range(groups):
        dear[group * (columns + 1)] = 0.0
        for k in range(columns):
            dear[group * (columns + 1) + k + 1] = prices[group, k]
            dearest = max(dearest, abs(prices[group, k]))
    place = np.empty(BLOCK, np.int64)  # no code is 0
    of_group = np.zeros(BLOCK, np.int64)  # where the places of each customer's segment begin
    best, own, line = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64)
    worth, left, paid = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64)
    seen = np.zeros((4, groups * (columns + 1)), np.int64)  # four, because neighbours often choose alike
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        _best_nets(cells, prices, budget_price, budget, base, base + count, line[:count], best[:count])
        wrong = count
        for j in range(count):  # short loops: each alone runs several times as fast as all in one
            picked = choice[base - start + j]
            wrong = wrong if -1 <= picked < columns or wrong < count else j
            place[j] = picked + 1
        if wrong < count:
            return base + wrong
        if segment.size > 0:
            for j in range(count):
                of_group[j] = segment[base + j] * (columns + 1)
        for j in range(count):
            seen[j & 3, of_group[j] + place[j]] += 1
        for j in range(count):
            some = max(place[j] - 1, 0)  # a cell in any case: whether there is one would be a branch hard to predict
            cell = np.float64(values[some, base + j])
            worth[j] = cell if place[j] > 0 else 0.0
            own[j] = worth[j] - dear[of_group[j] + place[j]]
        if costs.size > 0:
            for j in range(count):
                cost = np.float64(costs[max(place[j] - 1, 0), base + j])
                paid[j] = cost if place[j] > 0 else 0.0
                own[j] = own[j] - budget_price * paid[j] if paid[j] <= budget else np.nan
            add_bits(paid[:count].view(np.int64), sums[2])
        if eligible.size > 0:
            for j in range(count):
                allowed = place[j] == 0 or eligible[place[j] - 1, base + j]
                own[j] = own[j] if allowed else np.nan
        add_bits(worth[:count].view(np.int64), sums[0])
        if _any_short(best[:count], own[:count]):
            short = 0
            for j in range(count):
                if own[j] != own[j]:
                    return base + j
                if best[j] > own[j]:
                    size, compared = 0.0, abs(worth[j]) + abs(dear[of_group[j] + place[j]])
                    for k in range(columns):
                        cell = np.float64(values[k, base + j])
                        size = max(size, abs(cell))
                        price = dear[of_group[j] + k + 1]
                        net = cell - price
                        if costs.size > 0:
                            net = net - budget_price * np.float64(costs[k, base + j])
                        if net == best[j]:
                            compared += abs(cell) + abs(price)
                    doubt = min(_ROUNDING * (size + dearest), _MOST_ROUNDING * compared)
                    if best[j] - own[j] > doubt + _NOTHING:
                        left[short] = best[j] - own[j]
                        short += 1
            add_bits(left[:short].view(np.int64), sums[1])
    for lane in range(4):
        for group in range(groups):
            for k in range(columns + 1):
                counts[group, k] += seen[lane, group * (columns + 1) + k]
    return -1


class Impossible(NamedTuple):
    """A choice that is no eligible column, and not none."""

    row: int


@dataclass(frozen=True, slots=True)
class Audit:
    """Exact sums of some customers, in units of 2⁻¹⁰⁷⁴."""

    value: int  # of the cells chosen
    left: int  # what customers leave on the table at these prices
    cost: int  # of the cells chosen
    counts: Integers  # (groups, depths) customers at each place

    def __add__(self, other: "Audit") -> "Audit":
        return Audit(
            self.value + other.value, self.left + other.left, self.cost + other.cost, self.counts + other.counts
        )

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + 3 * 8


def audit(
    cells: TableCells, choice: Array, prices: Array, *, budget_price: float, budget: float, part: slice
) -> Audit | Impossible:
    """What the customers of a part have, cost, and leave on the table at prices (groups, depths).

    cells: of the whole table. choice: of the part.
    budget: ∞ where there is none.
    """
    # one type of choice is one kernel less to compile; what is no column stays none
    picked = choice if choice.dtype == np.int16 else np.clip(choice, -2, prices.shape[1]).astype(np.int16)
    counts = np.zeros((prices.shape[0], prices.shape[1] + 1), np.int64)
    sums = np.zeros((3, EXPONENTS, 2), np.int64)
    wrong = _audit(cells, picked, prices, budget_price, budget, part.start, part.stop, counts, sums)
    if wrong >= 0:
        return Impossible(wrong)
    return Audit(exact_total(sums[0]), exact_total(sums[1]), exact_total(sums[2]), counts[:, 1:])


def _limit_slack(counts: Array, caps: Array, floors: Array, prices: Array, *, what: str) -> float:
    """Σ price⁺ · (cap - count) + price⁻ · (count - floor); CertificateError when a limit is broken.

    prices: `AllowedPrices`, so that none is positive where there is no cap: it would be a loss without end.
    """
    if (counts > caps).any() or (counts < floors).any():
        raise CertificateError(
            f"{what} limits", found=counts.tolist(), expected=f"{floors.tolist()} to {caps.tolist()}"
        )
    above = np.where(prices > 0, prices * (caps - counts), 0.0)
    below = np.where(prices < 0, -prices * (counts - floors), 0.0)
    return float(above.sum() + below.sum())


def certify(
    problem: AllocationProblem,
    choice: Array,
    prices: Array,
    *,
    segment_prices: Array | None = None,
    budget_price: float | None = None,
    tolerance: float = PROVED,
    seconds: float = 0.0,
    engine: Engine | None = None,
) -> Allocation:
    """Check choice and prices against the problem itself and state value, bound and gap.

    tolerance: the gap up to which the status is OPTIMAL; other solvers than ours are less exact.
    engine: what the customers are spread over; it changes no bit.
    """
    start = time.perf_counter()
    limits = problem.limits
    if choice.shape != (problem.customers,):
        raise CertificateError("choice", found=f"shape {choice.shape}", expected=f"({problem.customers},)")
    allowed = allowed_prices(limits, prices, segment_prices)
    effective = allowed.by_place
    rate = 0.0 if budget_price is None else budget_price
    most = np.inf if limits.budget is None else limits.budget

    cells = problem.rows.cells()

    def audited(rows: slice) -> Audit | Impossible:
        return audit(cells, choice[rows], effective, budget_price=rate, budget=most, part=rows)

    totals = Audit(0, 0, 0, np.zeros(effective.shape, np.int64))
    for part in spread(audited, row_chunks(problem.customers, size=CHUNK), engine=engine):
        if isinstance(part, Impossible):
            raise CertificateError(
                f"choice of row {part.row + 1}", found=int(choice[part.row]), expected="an eligible column, or -1"
            )
        totals += part
    cost = rounded(totals.cost) if problem.costs is not None else None
    stated = state(limits, choice, allowed, totals, cost, rate=rate, tolerance=tolerance, depths=problem.depths)
    return replace(stated, seconds=seconds, check_seconds=time.perf_counter() - start)


class AllowedPrices(NamedTuple):
    """Prices without those that no limit could have."""

    of_depths: Array  # (depths,)
    of_segments: Array  # (groups, depths) on top of them

    @property
    def by_place(self) -> Array:
        """(groups, depths)"""
        return self.of_depths + self.of_segments


def allowed_prices(limits: Limits, prices: Array, segment_prices: Array | None) -> AllowedPrices:
    """No price above 0 where there is no cap, and none below 0 where there is no floor."""

    def allowed(prices: Array, caps: Array, floors: Array) -> Array:
        capped = np.where(caps >= UNLIMITED, np.minimum(prices, 0.0), prices)
        return np.where(floors > 0, capped, np.maximum(capped, 0.0))

    extra = np.zeros((1, prices.size))
    if segment_prices is not None and limits.segment_caps is not None and limits.segment_floors is not None:
        extra = allowed(segment_prices, limits.segment_caps, limits.segment_floors)
    return AllowedPrices(allowed(prices, limits.caps, limits.floors), extra)


def state(
    limits: Limits,
    choice: Array,
    allowed: AllowedPrices,
    totals: Audit,
    cost: float | None,
    *,
    rate: float,
    tolerance: float = PROVED,
    depths: tuple[float, ...] | None = None,
) -> Allocation:
    """Value, bound and gap from the sums of all customers; CertificateError when a limit is broken.

    cost: of all cells chosen; None: nothing costs anything.
    """
    value, lost, by_group = rounded(totals.value), rounded(totals.left), totals.counts
    if not np.isfinite(value):  # every cell is finite, or the solve would have refused it
        fix = "Divide all values by the same number: that changes nobody's depth."
        raise InputError("values", found="a sum beyond the largest float", expected="a finite sum", fix=fix)
    counts = by_group.sum(axis=0)
    lost += _limit_slack(counts, limits.caps, limits.floors, allowed.of_depths, what="depth")
    if limits.segment_caps is not None and limits.segment_floors is not None:
        lost += _limit_slack(by_group, limits.segment_caps, limits.segment_floors, allowed.of_segments, what="segment")
    if limits.budget is not None:
        paid = cost or 0.0
        if paid > limits.budget or rate < 0:
            raise CertificateError("budget", found=paid, expected=f"at most {limits.budget}")
        lost += rate * (limits.budget - paid)
    if not np.isfinite(lost) or lost < 0:
        raise CertificateError("bound", found=lost, expected="a finite bound that is not below the value")
    bound = value + lost
    gap = relative_gap(value, bound)
    return Allocation(
        choice=choice,
        value=value,
        bound=bound,
        gap=gap,
        prices=allowed.of_depths,
        counts=counts,
        status=Status.OPTIMAL if gap <= tolerance else Status.WITHIN_GAP,
        segment_prices=allowed.of_segments if limits.segment_caps is not None else None,
        segment_labels=limits.segment_labels,
        budget_price=rate if limits.budget is not None else None,
        cost=cost,
        depths=depths,
    )
