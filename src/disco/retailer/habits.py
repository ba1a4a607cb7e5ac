"""What the habits alone tell: the truth with everything that is private to a customer integrated out.

A customer's answer follows from their habits z, from whether they lapsed, and from four normals of their own: of the
elasticity, of engagement, of the bend of the curve, and of engagement's gain. Given the bend, full price depends on the
first and the purchase on the second and the last alone, so that with g the response at the bend,

    E[p·F | z] = E_bend[ E[exp(b + s·g + σ²/2)] · E[expit(engagement + gain·g + channel + lapsed)] ].
"""

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

from disco.records.arrays import Integers, Matrix, Vector
from disco.retailer.population import (
    customers_at,
    elasticity_of,
    engagement_gain_of,
    engagement_of,
    habit_scores,
    habits_at,
    response,
)
from disco.retailer.settings import ChannelName, RetailerSettings

_BENDS, _NODES = 21, 7  # the curve may have a kink in the bend; all else is smooth


def _normal_nodes(count: int) -> list[tuple[float, float]]:
    """(place, weight) that integrate over a standard normal."""
    places, weights = hermegauss(count)
    return list(zip(places.tolist(), (weights / weights.sum()).tolist(), strict=True))


def expected_spending(
    settings: RetailerSettings, *, index: Integers, depths: tuple[float, ...], channel: ChannelName
) -> Matrix:
    """(customers, depths): E[p·F | habits, lapsed], money per code, by Gauss-Hermite quadrature."""
    scores = habit_scores(habits_at(settings, index=index), settings=settings)
    lapsed = settings.habits.lapsed_logit * customers_at(settings, index=index).lapsed
    baseline = settings.baskets.mean + scores.offset + settings.baskets.campaign_residual_sd**2 / 2
    nodes = _normal_nodes(_NODES)
    elasticities = [(elasticity_of(scores, np.array(own), settings=settings), weight) for own, weight in nodes]
    levels = [
        (engagement_of(scores, np.array(own), settings=settings) + settings.channel(channel).logit + lapsed, weight)
        for own, weight in nodes
    ]
    gains = [(float(engagement_gain_of(np.array(own), settings=settings)), weight) for own, weight in nodes]
    out = np.zeros((index.size, len(depths)))
    for column, depth in enumerate(depths):
        u = np.array(depth / settings.curves.depth_scale)
        for bend, weight in _normal_nodes(_BENDS):
            g = float(response(np.array(bend), u, curves=settings.curves))
            full_price = _mean([(np.exp(baseline + s * g), share) for s, share in elasticities])
            bought = _mean([(expit(level + gain * g), a * b) for level, a in levels for gain, b in gains])
            out[:, column] += weight * full_price * bought
    return out


def _mean(figures: list[tuple[Vector, float]]) -> Vector:
    return np.asarray(sum(weight * figure for figure, weight in figures), np.float64)
