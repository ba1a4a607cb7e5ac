"""Customers who arrive after the solve: one at a time, at the solve's prices and with what is left of the caps."""

import numpy as np

from disco.allocation.movers import tie_hash
from disco.records.errors import InputError
from disco.records.identity import customer_keys


def decide_late(
    values: object,
    prices: object,
    remaining: object,
    *,
    costs: object = None,
    budget_price: float = 0.0,
    remaining_budget: float | None = None,
    eligible: object = None,
    customer_id: object = 0,
) -> int:
    """The column this customer gets, -1 for none: argmax of value - price - budget_price · cost where that is positive.

    values, prices, remaining (and costs, eligible): one entry per depth; with segments, prices are those of the
    customer's segment plus the depth's. A customer of the solve would be given what the solve gave, unless it tied.

    >>> decide_late([5.0, 9.0], [1.0, 6.0], [10, 0]), decide_late([5.0, 9.0], [1.0, 6.0], [0, 0])
    (0, -1)
    """
    value, price = np.asarray(values, np.float64), np.asarray(prices, np.float64)
    left = np.asarray(remaining)
    if value.ndim != 1 or price.shape != value.shape or left.shape != value.shape:
        raise InputError(
            "late arrival",
            found=f"{value.shape} values, {price.shape} prices, {left.shape} remaining caps",
            expected="one of each per depth",
        )
    net = value - price
    open_to = left > 0
    if costs is not None:
        cost = np.asarray(costs, np.float64)
        net = net - budget_price * cost
        if remaining_budget is not None:
            open_to = open_to & (cost <= remaining_budget)
    if eligible is not None:
        open_to = open_to & np.asarray(eligible, np.bool_)
    if not np.isfinite(net).all():
        raise InputError("late arrival", found=value.tolist(), expected="finite values, prices and costs")
    best = max(net[open_to], default=0.0)
    if best <= 0.0:
        return -1
    tied = np.flatnonzero(open_to & (net == best))
    key = customer_keys([customer_id])[0]
    return max(tied.tolist(), key=lambda column: tie_hash(key, column))
