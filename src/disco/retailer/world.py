"""What moves in a simulated world, and how its residuals are spread. The settings' defaults are the ordinary world.

The ordinary life of the shop before the end of its history knows the season and the tails alone. Trend, fading response
and rotating tastes begin on the day the history ends: from then on campaigns are the only source of codes, so they
change answers to campaigns and nothing else. With t = days since that day / 30, on the day a code is sent,

    P(purchase | code) = min(1, p · (1 + trend)^t · season(day))
    ln F               = b + s(t)·g(u)·(1 − fading)^t + basket_share·ln season(day) + sd·ε
    gain               = gain·(1 − fading)^t
    taste(t)           = cos(rotation·t)·h + sin(rotation·t)·h',   s and engagement follow it through the habits' share

h is the standard score by which habits drive elasticity (or engagement), h' a second one, uncorrelated with h and with
spend. So the law over all customers stays the same while each customer's place in it moves. ε has mean 0 and sd 1.

Byte-critical: with the ordinary world every function here returns what the retailer had without it, bit for bit.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

from disco.records.arrays import Integers, Matrix, Vector
from disco.retailer.draws import block_generator
from disco.retailer.population import (
    HABITS,
    Customers,
    HabitScores,
    ScoreScale,
    foundations,
    habit_scores,
    habits_at,
    multiply,
    reference_habits,
    unit_rows,
)
from disco.retailer.season import Days, day_number
from disco.retailer.settings import RetailerSettings, Tails

DAYS_PER_STEP = 30  # the unit in which trend, fading and rotation are given
_FURTHEST = 6.0  # sds: no residual lies beyond, so that every law has a mean in money
_GRID = 2**17  # places of the quantile function by which a law is standardised
_T_FREEDOM, _GAMMA_SHAPE = 5.0, 2.0


def steps_since_history(settings: RetailerSettings, day: Integers) -> Vector:
    """t of days since 1970-01-01: 0 up to the end of the history, then one per 30 days."""
    since = np.asarray(day, np.float64) - day_number(settings.calendar.history_end)
    return np.asarray(np.maximum(since, 0.0) / DAYS_PER_STEP)


def season(settings: RetailerSettings, day: Integers) -> Vector:
    """The yearly factor on the chance to order and to use a code, from season_low to season_high; 1 without a season.

    >>> ordinary = RetailerSettings(customers=10)
    >>> season(ordinary, np.array([20_000])).tolist()
    [1.0]
    """
    world = settings.world
    days: Days = np.asarray(day, np.int64).astype("datetime64[D]")
    place = (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)
    low, high = np.log(world.season_low), np.log(world.season_high)
    wave = np.cos(2 * np.pi * (place - settings.calendar.year_peak) / 365.25)
    return np.asarray(np.exp((low + high) / 2 + (high - low) / 2 * wave), np.float64)


def answer_factor(settings: RetailerSettings, day: Integers) -> Vector:
    """Of the chance to answer a code sent on these days."""
    trend = (1.0 + settings.world.trend) ** steps_since_history(settings, day)
    return np.asarray(trend * season(settings, day), np.float64)


def basket_shift(settings: RetailerSettings, day: Integers) -> Vector:
    """What the season adds to ln(full price)."""
    return np.asarray(settings.calendar.basket_share * np.log(season(settings, day)), np.float64)


def moved(customers: Customers, *, settings: RetailerSettings, day: Integers) -> Customers:
    """The customers as they answer codes sent on these days, one day for all or one each."""
    world = settings.world
    if world.fading:
        left = (1.0 - world.fading) ** steps_since_history(settings, day)
        customers = replace(
            customers, elasticity=customers.elasticity * left, engagement_gain=customers.engagement_gain * left
        )
    if world.rotation:
        z = habits_at(settings, index=customers.index)
        before = habit_scores(z, settings=settings)
        now = turned(before, z, settings=settings, day=day)
        curves, engagement = settings.curves, settings.engagement
        # both are lines in their habit score, so the private part stays what it is
        s = _habits_part(curves.elasticity_with_baseline, curves.elasticity_from_habits) * curves.elasticity_spread
        e = _habits_part(engagement.with_spend, engagement.from_habits) * engagement.spread
        customers = replace(
            customers,
            elasticity=customers.elasticity * np.exp(s * (now.elasticity - before.elasticity)),
            engagement=customers.engagement + e * (now.engagement - before.engagement),
        )
    return customers


def _habits_part(with_spend: float, from_habits: float) -> float:
    return float(np.sqrt(1 - with_spend**2) * np.sqrt(from_habits))


def turned(scores: HabitScores, z: Matrix, *, settings: RetailerSettings, day: Integers) -> HabitScores:
    """The standard scores of habits z (n, 8) once tastes have rotated up to these days."""
    if not settings.world.rotation:
        return scores
    angle = np.deg2rad(settings.world.rotation) * steps_since_history(settings, day)
    second = _second_tastes(settings)

    def at(first: Vector, name: str) -> Vector:
        direction, scale = second[name]
        other = scale.apply(multiply(z, direction[:, None])[:, 0], np.column_stack([scores.offset, first]))
        return np.asarray(np.cos(angle) * first + np.sin(angle) * other)

    return replace(
        scores, elasticity=at(scores.elasticity, "elasticity"), engagement=at(scores.engagement, "engagement")
    )


@lru_cache(maxsize=4)
def _second_tastes(settings: RetailerSettings) -> dict[str, tuple[Vector, ScoreScale]]:
    """For elasticity and engagement the direction they turn to, and its scale."""
    directions, _ = foundations(settings)
    draw = block_generator(settings.seed, purpose="turned tastes", block=0)
    z = reference_habits(settings)
    scores = habit_scores(z, settings=settings)
    found = {}
    for name in ("elasticity", "engagement"):
        first = getattr(directions, name)
        other = draw.standard_normal(HABITS)
        direction = unit_rows((other - (other @ first) * first)[None, :])[0]
        regressors = np.column_stack([scores.offset, getattr(scores, name)])
        found[name] = direction, ScoreScale.fit(multiply(z, direction[:, None])[:, 0], regressors)
    return found


# ---- tails ----


def residuals(normal: Vector, tails: Tails) -> Vector:
    """Residuals with mean 0 and sd 1 by this law, from standard normal ones; larger ones stay larger.

    >>> residuals(np.array([-1.0, 0.5]), Tails.NORMAL).tolist()
    [-1.0, 0.5]
    """
    if tails is Tails.NORMAL:
        return normal
    centre, sd = _standard(tails)
    return np.asarray(np.clip((_quantiles(ndtr(normal), tails) - centre) / sd, -_FURTHEST, _FURTHEST), np.float64)


def log_mean_factor(sd: float, tails: Tails) -> float:
    """ln E[exp(sd·ε)]: what turns the mean of ln F into the logarithm of the mean of F; sd²/2 for normal residuals."""
    if tails is Tails.NORMAL:
        return sd**2 / 2
    return float(np.log(np.exp(sd * residuals(_grid(), tails)).mean()))


def _grid() -> Vector:
    return np.asarray(ndtri((np.arange(_GRID) + 0.5) / _GRID), np.float64)


def _quantiles(place: Vector, tails: Tails) -> Vector:
    if tails is Tails.T5:
        return np.asarray(stdtrit(_T_FREEDOM, place), np.float64)
    if tails is Tails.RIGHT:
        return np.asarray(gammaincinv(_GAMMA_SHAPE, place), np.float64)
    return np.asarray(-gammaincinv(_GAMMA_SHAPE, 1 - place), np.float64)


@lru_cache
def _standard(tails: Tails) -> tuple[float, float]:
    """(mean, sd) by which quantiles are standardised, so that what is left after the cut has mean 0 and sd 1."""
    values = _quantiles(ndtr(_grid()), tails)
    centre, sd = float(values.mean()), float(values.std())
    for _ in range(20):  # the cut depends on the scale, and the scale on the cut
        cut = np.clip(values, centre - _FURTHEST * sd, centre + _FURTHEST * sd)
        centre, sd = float(cut.mean()), float(cut.std())
    return centre, sd
