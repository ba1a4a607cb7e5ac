"""The independent check of a solve: one read of the matrix, no code shared with any solver.

For any prices, with q = depth price + segment price + budget price · cost, no allocation within the limits exceeds

    bound = Σ_i max(0, max_k v_ik - q_ik) + Σ_limits (price⁺ · cap - price⁻ · floor) + budget price · budget

(prices of limits without a cap may not be positive). The bound is taken as value + what each customer and each limit
leaves on the table, term by term: differences of two large sums would drown the gap in rounding. A customer's loss
below 2⁻⁴⁹ of the values and prices it is a difference of (or below 2⁻⁹⁹⁹) is rounding, and counts as none.
"""

import time

import numpy as np

from disco.allocation.limits import UNLIMITED
from disco.allocation.problem import AllocationProblem
from disco.allocation.result import Allocation, Status, relative_gap
from disco.records.arrays import Array
from disco.records.compiled import njit
from disco.records.errors import CertificateError

_ROUNDING = 2.0**-49
_NOTHING = 2.0**-999  # denormal money: two steps of the finest grid there is
_BLOCK = 2048  # customers at a time, so that what is known of them stays in the cache


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
    counts: Array,
) -> tuple[float, float, float, int]:
    """value, what customers leave on the table, cost, and the first row with an impossible choice (-1: none)."""
    columns, customers = values.shape
    dearest = np.abs(prices).max()
    best, own, size = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    value = value_low = cost = cost_low = lost = 0.0
    for base in range(0, customers, _BLOCK):
        count = min(_BLOCK, customers - base)
        for j in range(count):
            best[j] = 0.0
            own[j] = 0.0 if choice[base + j] == -1 else np.nan  # stays so where the choice is no eligible column
            size[j] = 0.0
        for k in range(columns):
            for j in range(count):
                worth = np.float64(values[k, base + j])
                size[j] = abs(worth) if abs(worth) > size[j] else size[j]
                net = worth - (prices[0, k] if segment is None else prices[segment[base + j], k])
                if costs is not None:  # what costs more than the whole budget nobody can have: costs are not negative
                    price = np.float64(costs[k, base + j])
                    net = net - budget_price * price if price <= budget else np.nan
                if eligible is not None:
                    net = net if eligible[k, base + j] else np.nan
                best[j] = net if net > best[j] else best[j]
                own[j] = net if choice[base + j] == k else own[j]
        for j in range(count):
            if np.isnan(own[j]):
                return value, lost, cost, base + j
            if best[j] - own[j] > _ROUNDING * (size[j] + dearest) + _NOTHING:
                lost += best[j] - own[j]
            picked = choice[base + j]
            if picked < 0:
                continue
            group = 0
            if segment is not None:
                group = segment[base + j]
            counts[group, picked] += 1
            # Neumaier: the sum carries its own rounding error
            term = np.float64(values[picked, base + j])
            total = value + term
            value_low += (value - total) + term if abs(value) >= abs(term) else (term - total) + value
            value = total
            if costs is not None:
                term = np.float64(costs[picked, base + j])
                total = cost + term
                cost_low += (cost - total) + term if abs(cost) >= abs(term) else (term - total) + cost
                cost = total
    return value + value_low, lost, cost + cost_low, -1


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
) -> Allocation:
    """Check choice and prices against the problem itself and state value, bound and gap."""
    start = time.perf_counter()
    limits = problem.limits
    if choice.shape != (problem.customers,):
        raise CertificateError("choice", found=f"shape {choice.shape}", expected=f"({problem.customers},)")
    at_most_zero = np.where(limits.caps >= UNLIMITED, np.minimum(prices, 0.0), prices)
    at_most_zero = np.where(limits.floors > 0, at_most_zero, np.maximum(at_most_zero, 0.0))
    extra = np.zeros((1, problem.columns))
    if segment_prices is not None and limits.segment_caps is not None and limits.segment_floors is not None:
        extra = np.where(limits.segment_caps >= UNLIMITED, np.minimum(segment_prices, 0.0), segment_prices)
        extra = np.where(limits.segment_floors > 0, extra, np.maximum(extra, 0.0))
    effective = at_most_zero + extra
    by_group = np.zeros(effective.shape, np.int64)
    rate = 0.0 if budget_price is None else budget_price
    most = np.inf if limits.budget is None else limits.budget
    value, lost, cost, wrong = _audit(
        problem.values, problem.eligible, problem.costs, limits.segment, choice, effective, rate, most, by_group
    )
    if wrong >= 0:
        raise CertificateError(
            f"choice of row {wrong + 1}", found=int(choice[wrong]), expected="an eligible column, or -1"
        )
    counts = by_group.sum(axis=0)
    lost += _limit_slack(counts, limits.caps, limits.floors, at_most_zero, what="depth")
    if limits.segment_caps is not None and limits.segment_floors is not None:
        lost += _limit_slack(by_group, limits.segment_caps, limits.segment_floors, extra, what="segment")
    if limits.budget is not None:
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
        prices=at_most_zero,
        counts=counts,
        status=Status.OPTIMAL if gap <= tolerance else Status.WITHIN_GAP,
        segment_prices=extra if limits.segment_caps is not None else None,
        segment_labels=limits.segment_labels,
        budget_price=rate if limits.budget is not None else None,
        cost=cost if problem.costs is not None else None,
        depths=problem.depths,
        seconds=seconds,
        check_seconds=time.perf_counter() - start,
    )
