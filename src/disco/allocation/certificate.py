"""The independent check of a solve: one read of the matrix, no code shared with any solver.

For any prices, with q = depth price + segment price + budget price · cost, no allocation within the limits exceeds

    bound = Σ_i max(0, max_k v_ik - q_ik) + Σ_limits (price⁺ · cap - price⁻ · floor) + budget price · budget

(prices of limits without a cap may not be positive). The bound is taken as value + what each customer and each limit
leaves on the table, term by term: differences of two large sums would drown the gap in rounding. A customer's loss
below 2⁻⁴⁹ of the values and prices it is a difference of (or below 2⁻⁹⁹⁹) is rounding, and counts as none.

`_audit` is a pure function of one chunk of customers. All its sums carry their own rounding error, so that chunks and
threads do not show in them.
"""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from disco.allocation.limits import UNLIMITED, Limits
from disco.allocation.problem import AllocationProblem
from disco.allocation.result import Allocation, Status, relative_gap
from disco.records.arrays import Array
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit
from disco.records.errors import CertificateError, InputError
from disco.records.ports import Engine

ROUNDING = 2.0**-49
NOTHING = 2.0**-999  # denormal money: two steps of the finest grid there is
_BLOCK = 2048  # customers at a time, so that what is known of them stays in the cache
_CHUNK = 262_144  # customers per chunk: a pass is memory-bound and takes milliseconds, so few and long chunks


class _Total(NamedTuple):
    """A sum and what rounding took from it."""

    sum: float
    lost: float


class _Audited(NamedTuple):
    """What the customers of one chunk add up to."""

    wrong: int  # the first row with an impossible choice; -1: none
    value: _Total  # of the cells chosen
    left: _Total  # what customers leave on the table at these prices
    cost: _Total  # of the cells chosen


@njit(inline="always", cache=True)
def _plus(total: float, low: float, term: float) -> tuple[float, float]:
    """One more term in a sum that carries its own rounding error (Neumaier)."""
    more = total + term
    low += (total - more) + term if abs(total) >= abs(term) else (term - more) + total
    return more, low


@njit(nogil=True, cache=True)
def net_of(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    segment: Array | None,
    prices: Array,
    budget_price: float,
    budget: float,
    k: int,
    base: int,
    line: Array,
) -> None:
    """line[j] = what depth k is worth to customer base + j beyond its price; NaN where they cannot have it."""
    end = base + line.size
    worth = values[k, base:end]  # slices have no negative places, for which the compiler would look
    for j in range(line.size):
        line[j] = np.float64(worth[j]) - (prices[0, k] if segment is None else prices[segment[base + j], k])
    if costs is not None:  # what costs more than the whole budget nobody can have: costs are not negative
        paid = costs[k, base:end]
        for j in range(line.size):
            price = np.float64(paid[j])
            line[j] = line[j] - budget_price * price if price <= budget else np.nan
    if eligible is not None:
        allowed = eligible[k, base:end]
        for j in range(line.size):
            line[j] = line[j] if allowed[j] else np.nan


@njit(nogil=True, cache=True)
def _best_of(line: Array, price: float, best: Array) -> None:
    for j in range(best.size):
        net = np.float64(line[j]) - price
        best[j] = net if net > best[j] else best[j]


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _add_lanes(terms: Array, total: Array, low: Array) -> None:
    """total[j] + low[j] grows by terms[j], exactly: as many sums as there are terms, none waiting for another."""
    for j in range(terms.size):
        term = terms[j]
        before = total[j]
        after = before + term
        taken = after - before
        low[j] += (before - (after - taken)) + (term - taken)
        total[j] = after


@njit(nogil=True, cache=True)
def _of_lanes(totals: Array, lows: Array) -> tuple[float, float]:
    total = low = 0.0
    for j in range(totals.size):
        total, low = _plus(total, low, totals[j])
        low += lows[j]
    return total, low


@njit(nogil=True, cache=True)
def _any_short(best: Array, own: Array) -> bool:
    """Whether somebody has less than their best (or NaN)."""
    short = 0
    for j in range(best.size):
        short += 0 if best[j] <= own[j] else 1
    return short > 0


@njit(nogil=True, cache=True)
def _audit(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    segment: Array | None,
    choice: Array,
    prices: Array,
    budget_price: float,
    budget: float,
    start: int,
    stop: int,
    counts: Array,
) -> tuple[int, tuple[float, float], tuple[float, float], tuple[float, float]]:
    """`_Audited` of the customers start to stop; counts (groups, depths) grows by those who have each place."""
    columns = values.shape[0]
    plain = eligible is None and costs is None and segment is None
    dearest = np.abs(prices).max()
    best, own, line = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    worth, paid = np.empty(_BLOCK), np.empty(_BLOCK)
    value, value_low, cost, cost_low = np.zeros(_BLOCK), np.zeros(_BLOCK), np.zeros(_BLOCK), np.zeros(_BLOCK)
    dear = np.zeros((counts.shape[0], columns + 1))  # prices, with that of no code before them
    dear[:, 1:] = prices
    seen = np.zeros((4, counts.shape[0], columns + 1), np.int64)  # four, because neighbours often choose alike
    left = left_low = 0.0
    for base in range(start, stop, _BLOCK):
        count = min(_BLOCK, stop - base)
        end = base + count
        best[:] = 0.0
        column = 0
        if plain:
            while column + 4 <= columns:
                _best_of_four(
                    values[column, base:end], values[column + 1, base:end], values[column + 2, base:end],
                    values[column + 3, base:end],
                    prices[0, column : column + 4], best[:count],
                )  # fmt: skip
                column += 4
        for k in range(column, columns):
            if plain:
                _best_of(values[k, base:end], prices[0, k], best[:count])
            else:
                net_of(values, eligible, costs, segment, prices, budget_price, budget, k, base, line[:count])
                _best_of(line[:count], 0.0, best[:count])
        for j in range(count):
            i = base + j
            picked = choice[i]
            if picked < -1 or picked >= columns:
                return i, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)
            group = 0
            if segment is not None:
                group = segment[i]
            seen[j & 3, group, picked + 1] += 1
            some = max(picked, 0)  # read a cell in any case: whether there is one would be a branch hard to predict
            cell = np.float64(values[some, i])
            worth[j] = cell if picked >= 0 else 0.0
            own[j] = worth[j] - dear[group, picked + 1]
            if costs is not None:
                price = np.float64(costs[some, i])
                paid[j] = price if picked >= 0 else 0.0
                own[j] = own[j] - budget_price * paid[j] if paid[j] <= budget else np.nan
            if eligible is not None and picked >= 0 and not eligible[picked, i]:
                own[j] = np.nan
        _add_lanes(worth[:count], value, value_low)
        if costs is not None:
            _add_lanes(paid[:count], cost, cost_low)
        if _any_short(best[:count], own[:count]):
            for j in range(count):
                if np.isnan(own[j]):
                    return base + j, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)
                if best[j] > own[j]:
                    size = 0.0
                    for k in range(columns):
                        size = max(size, abs(np.float64(values[k, base + j])))
                    if best[j] - own[j] > ROUNDING * (size + dearest) + NOTHING:
                        left, left_low = _plus(left, left_low, best[j] - own[j])
    counts += seen.sum(axis=0)[:, 1:]
    return -1, _of_lanes(value, value_low), (left, left_low), _of_lanes(cost, cost_low)


def _sum_of(totals: list[_Total]) -> float:
    """The sum of all chunks, in their order."""
    total, low = totals[0]
    for part in totals[1:]:
        total, low = _plus(total, low + part.lost, part.sum)
    return total + low


def _limit_slack(counts: Array, caps: Array, floors: Array, prices: Array, *, what: str) -> float:
    """Σ price⁺ · (cap - count) + price⁻ · (count - floor); CertificateError when a limit is broken."""
    if (counts > caps).any() or (counts < floors).any():
        raise CertificateError(
            f"{what} limits", found=counts.tolist(), expected=f"{floors.tolist()} to {caps.tolist()}"
        )
    if (prices[caps >= UNLIMITED] > 0).any():
        raise CertificateError(f"{what} prices", found="a positive price", expected="none where there is no cap")
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
    tolerance: float = 1e-12,
    seconds: float = 0.0,
    engine: Engine | None = None,
) -> Allocation:
    """Check choice and prices against the problem itself and state value, bound and gap.

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

    # one type of choice is one kernel less to compile; what is no column stays none
    picked = choice if choice.dtype == np.int16 else np.clip(choice, -2, problem.columns).astype(np.int16)

    def audited(rows: slice) -> tuple[_Audited, Array]:
        counts = np.zeros(effective.shape, np.int64)
        wrong, *totals = _audit(
            problem.values, problem.eligible, problem.costs, limits.segment, picked, effective, rate, most,
            rows.start, rows.stop, counts,
        )  # fmt: skip
        return _Audited(wrong, *(_Total(*total) for total in totals)), counts

    parts = list(spread(audited, row_chunks(problem.customers, size=_CHUNK), engine=engine))
    wrong = next((part.wrong for part, _ in parts if part.wrong >= 0), -1)
    if wrong >= 0:
        raise CertificateError(
            f"choice of row {wrong + 1}", found=int(choice[wrong]), expected="an eligible column, or -1"
        )
    totals = AuditTotals(
        _sum_of([part.value for part, _ in parts]),
        _sum_of([part.left for part, _ in parts]),
        _sum_of([part.cost for part, _ in parts]) if problem.costs is not None else None,
        np.sum([counts for _, counts in parts], axis=0),
    )
    stated = state(limits, choice, allowed, totals, rate=rate, tolerance=tolerance, depths=problem.depths)
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
    at_most_zero = np.where(limits.caps >= UNLIMITED, np.minimum(prices, 0.0), prices)
    at_most_zero = np.where(limits.floors > 0, at_most_zero, np.maximum(at_most_zero, 0.0))
    extra = np.zeros((1, prices.size))
    if segment_prices is not None and limits.segment_caps is not None and limits.segment_floors is not None:
        extra = np.where(limits.segment_caps >= UNLIMITED, np.minimum(segment_prices, 0.0), segment_prices)
        extra = np.where(limits.segment_floors > 0, extra, np.maximum(extra, 0.0))
    return AllowedPrices(at_most_zero, extra)


class AuditTotals(NamedTuple):
    """What all customers together have, pay and leave on the table."""

    value: float
    left: float
    cost: float | None  # None: nothing costs anything
    counts: Array  # (groups, depths) customers at each place


def state(
    limits: Limits,
    choice: Array,
    allowed: AllowedPrices,
    totals: AuditTotals,
    *,
    rate: float,
    tolerance: float = 1e-12,
    depths: tuple[float, ...] | None = None,
) -> Allocation:
    """Value, bound and gap from the sums of all customers; CertificateError when a limit is broken."""
    value, lost, by_group = totals.value, totals.left, totals.counts
    if not np.isfinite(value):  # every cell is finite, or the solve would have refused it
        fix = "Divide all values by the same number: that changes nobody's depth."
        raise InputError("values", found="a sum beyond the largest float", expected="a finite sum", fix=fix)
    counts = by_group.sum(axis=0)
    lost += _limit_slack(counts, limits.caps, limits.floors, allowed.of_depths, what="depth")
    if limits.segment_caps is not None and limits.segment_floors is not None:
        lost += _limit_slack(by_group, limits.segment_caps, limits.segment_floors, allowed.of_segments, what="segment")
    if limits.budget is not None:
        cost = totals.cost or 0.0
        if cost > limits.budget or rate < 0:
            raise CertificateError("budget", found=cost, expected=f"at most {limits.budget}")
        lost += rate * (limits.budget - cost)
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
        cost=totals.cost,
        depths=depths,
    )
