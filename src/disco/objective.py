"""Full price → revenue, markdown, objective. The only place that knows how money follows from a basket.

With depth a and full price F given a purchase:  revenue R = F·(1−a), markdown C = F·a, and per customer and depth the
allocation maximises  (w·R − C)·e_a  with engagement e_a and revenue weight w (the paper's integer program). Engagement
is one rate per depth for everybody, or each customer's own. Where sending a code costs money, the value is less by
that cost whoever uses the code, so it is not multiplied by e_a; it is no markdown, and no budget counts it.
"""

import numpy as np

from disco.records.arguments import read_number
from disco.records.arrays import Floats, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError


def revenue(full_price: Floats, depth: Floats) -> Floats:
    """R = F·(1−a), elementwise.

    >>> revenue(np.array([100.0]), np.array([0.2])).tolist()
    [80.0]
    """
    return full_price * (1 - depth)


def markdown(full_price: Floats, depth: Floats) -> Floats:
    """C = F·a, elementwise.

    >>> markdown(np.array([100.0]), np.array([0.2])).tolist()
    [20.0]
    """
    return full_price * depth


def reward(full_price: Floats, depth: Floats) -> Floats:
    """R − C, the figure of reports."""
    return full_price * (1 - 2 * depth)


def read_revenue_weight(revenue_weight: object) -> float:
    """The weight w of w·R − C as users give it; for revenue alone, w → ∞, they give None instead."""
    expected = "a positive number below 10¹², or None"
    return read_number(revenue_weight, where="revenue_weight", expected=expected, above=0, below=1e12)


def weights(depths: Vector, engagement: Floats, *, revenue_weight: float) -> Floats:
    """What one unit of full price is worth at each depth: (w·(1−a) − a)·e_a.

    depths: (K,) shares of the price taken off.
    engagement: (K,) one rate per depth for everybody, or (n, K) each customer's own.
    revenue_weight: w.

    >>> weights(np.array([0.2, 0.5]), np.array([0.1, 0.2]), revenue_weight=3.0).round(3).tolist()
    [0.22, 0.2]
    """
    if not revenue_weight > 0 or not np.isfinite(revenue_weight):
        raise InputError("revenue_weight", found=revenue_weight, expected="a positive, finite number")
    _require_rates(engagement, depths)
    return (revenue_weight * (1 - depths) - depths) * engagement


def values(
    full_prices: Floats,
    depths: Vector,
    engagement: Floats,
    *,
    revenue_weight: float,
    contact_cost: Vector | None = None,
) -> Floats:
    """The value of each (customer, depth), in the memory of `full_prices` (which is overwritten).

    full_prices: (n, K) money given a purchase. contact_cost: (n,) money that a code to each customer costs; None:
        nothing. The others: as in `weights`.

    >>> cost, prices = np.array([0.5, 0.0]), np.array([[10.0], [10.0]])
    >>> values(prices, np.array([0.2]), np.array([0.1]), revenue_weight=3.0, contact_cost=cost).round(3).tolist()
    [[1.7], [2.2]]
    """
    worth = _sold(full_prices, depths, engagement, revenue_weight=revenue_weight)
    if contact_cost is not None:
        worth -= contact_cost[:, None].astype(worth.dtype, copy=False)
    return worth


def _sold(full_prices: Floats, depths: Vector, engagement: Floats, *, revenue_weight: float) -> Floats:
    if engagement.ndim == 1:
        each = weights(depths, engagement, revenue_weight=revenue_weight)
        full_prices *= each.astype(full_prices.dtype, copy=False)
        return full_prices
    unit = weights(depths, np.ones(depths.size), revenue_weight=revenue_weight)
    if engagement.shape != full_prices.shape:
        found = f"rates of shape {engagement.shape} for full prices of shape {full_prices.shape}"
        raise InputError("engagement", found=found, expected="one rate per depth, or per customer and depth")
    if not _multiply(full_prices.T, engagement.T, unit.astype(np.float64, copy=False)):
        _require_rates(engagement, depths)
    return full_prices


@njit(cache=True, nogil=True, patient=True)
def _multiply(full_prices: Floats, rates: Floats, unit: Vector) -> bool:
    """(K, n) full prices times rates times (K,) unit, in place and in one pass; whether all rates are shares."""
    outside = 0
    for a in range(unit.size):
        for row in range(full_prices.shape[1]):
            rate = rates[a, row]
            outside += 0 if (rate >= 0.0) & (rate <= 1.0) else 1
            full_prices[a, row] = full_prices[a, row] * rate * unit[a]
    return outside == 0


def expected_markdown(full_prices: Floats, depths: Vector, engagement: Floats) -> Floats:
    """What the budget sees: C·e_a at the posterior-mean full price; engagement (K,) or (n, K)."""
    if engagement.ndim == 1:
        return full_prices * (depths * engagement)
    costs = full_prices * engagement
    costs *= depths
    return costs


def _require_rates(engagement: Floats, depths: Vector) -> None:
    if engagement.shape[-1:] != depths.shape:
        found = f"rates of shape {engagement.shape} for {depths.size} depths"
        raise InputError("engagement", found=found, expected="one rate per depth, or per customer and depth")
    outside = engagement[~((engagement >= 0) & (engagement <= 1))]
    if outside.size:
        found = engagement.tolist() if engagement.ndim == 1 else outside[:3].tolist()
        raise InputError("engagement", found=found, expected="rates between 0 and 1, one per depth")
