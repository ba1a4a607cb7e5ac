"""What the habits alone tell: the truth with everything that is private to a customer integrated out.

A customer's answer follows from their habits z, from whether they lapsed, and from four normals of their own: of the
elasticity, of engagement, of the bend of the curve, and of engagement's gain. Given the bend, full price depends on the
first and the purchase on the second and the last alone, so that with g the response at the bend,

    E[p·F | z] = E_bend[ E[exp(b + s·g + σ²/2)] · E[expit(engagement + gain·g + channel + lapsed)] ],

and in a world that moves with what `world.py` adds to each of them.
"""

from datetime import date

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
from disco.retailer.season import day_number
from disco.retailer.settings import ChannelName, RetailerSettings
from disco.retailer.world import answer_factor, basket_shift, log_mean_factor, steps_since_history, turned

_BENDS, _NODES = 21, 7  # the curve may have a kink in the bend; all else is smooth


def _normal_nodes(count: int) -> list[tuple[float, float]]:
    """(place, weight) that integrate over a standard normal."""
    places, weights = hermegauss(count)
    return list(zip(places.tolist(), (weights / weights.sum()).tolist(), strict=True))


def expected_spending(
    settings: RetailerSettings, *, index: Integers, depths: tuple[float, ...], channel: ChannelName, on: date
) -> Matrix:
    """(customers, depths): E[p·F | habits, lapsed], money per code sent on a day, by Gauss-Hermite quadrature."""
    day, world = np.array(day_number(on)), settings.world
    z = habits_at(settings, index=index)
    scores = turned(habit_scores(z, settings=settings), z, settings=settings, day=day)
    lapsed = settings.habits.lapsed_logit * customers_at(settings, index=index).lapsed
    to_mean = log_mean_factor(settings.baskets.campaign_residual_sd, world.tails)
    baseline = settings.baskets.mean + scores.offset + basket_shift(settings, day) + to_mean
    left, factor = (1.0 - world.fading) ** steps_since_history(settings, day), answer_factor(settings, day)
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
            g = float(response(np.array(bend), u, curves=settings.curves) * left)
            full_price = _mean([(np.exp(baseline + s * g), share) for s, share in elasticities])
            bought = _mean(
                [(np.minimum(factor * expit(level + gain * g), 1.0), a * b) for level, a in levels for gain, b in gains]
            )
            out[:, column] += weight * full_price * bought
    return out


def _mean(figures: list[tuple[Vector, float]]) -> Vector:
    return np.asarray(sum(weight * figure for figure, weight in figures), np.float64)
