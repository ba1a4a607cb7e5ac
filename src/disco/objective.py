"""Full price → revenue, markdown, objective. The only place that knows how money follows from a basket.

With depth a and full price F given a purchase:  revenue R = F·(1−a), markdown C = F·a, and per customer and depth the
allocation maximises  (w·R − C)·e_a  with engagement e_a and revenue weight w (the paper's integer program).
"""

import numpy as np

from disco.records.arguments import read_number
from disco.records.arrays import Floats, Vector
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


def weights(depths: Vector, engagement: Vector, *, revenue_weight: float) -> Vector:
    """What one unit of full price is worth at each depth: (w·(1−a) − a)·e_a.

    >>> weights(np.array([0.2, 0.5]), np.array([0.1, 0.2]), revenue_weight=3.0).round(3).tolist()
    [0.22, 0.2]
    """
    if not revenue_weight > 0 or not np.isfinite(revenue_weight):
        raise InputError("revenue_weight", found=revenue_weight, expected="a positive, finite number")
    if not ((engagement >= 0) & (engagement <= 1)).all():
        raise InputError("engagement", found=engagement.tolist(), expected="rates between 0 and 1, one per depth")
    return (revenue_weight * (1 - depths) - depths) * engagement


def values(full_prices: Floats, depths: Vector, engagement: Vector, *, revenue_weight: float) -> Floats:
    """The value of each (customer, depth), in the memory of `full_prices` (which is overwritten)."""
    full_prices *= weights(depths, engagement, revenue_weight=revenue_weight).astype(full_prices.dtype, copy=False)
    return full_prices


def expected_markdown(full_prices: Floats, depths: Vector, engagement: Vector) -> Floats:
    """What the budget sees: C·e_a at the posterior-mean full price."""
    return full_prices * (depths * engagement)
