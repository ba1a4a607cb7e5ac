"""The response curve g(u): how much of a customer's elasticity a depth calls up."""

import numpy as np
from scipy.special import expit

from disco.records.arrays import Vector
from disco.retailer.settings import Curves, Shape


def response(bend: Vector, u: Vector, *, curves: Curves) -> Vector:
    """g(u) ≥ 0, non-decreasing, g(0) = 0, g(1) = 1; arrays broadcast, so (n, 1) with (K,) gives (n, K).

    `bend` is the customer's own standard normal: it moves the rate of the concave curve
    g = (1 − e^{−κu}) / (1 − e^{−κ}), κ = rate·exp(spread·bend), or the midpoint of the S and of the threshold.

    >>> response(np.zeros(1), np.array([0.0, 0.5, 1.0]), curves=Curves(concave_rate=2.0)).round(3).tolist()
    [0.0, 0.731, 1.0]
    """
    if curves.shape is Shape.CONCAVE:
        rate = curves.concave_rate * np.exp(curves.concave_rate_spread * bend)
        concave: Vector = np.expm1(-rate * u) / np.expm1(-rate)
        return concave
    # tanh keeps every customer's midpoint inside (0, 1), however far out its bend
    midpoint = curves.midpoint + curves.midpoint_spread * np.tanh(bend)
    if curves.shape is Shape.S_SHAPED:
        low, high = expit(-curves.steepness * midpoint), expit(curves.steepness * (1 - midpoint))
        s_shaped: Vector = (expit(curves.steepness * (u - midpoint)) - low) / (high - low)
        return s_shaped
    ramp: Vector = np.clip((u - midpoint) / curves.ramp + 0.5, 0.0, 1.0)
    return ramp
