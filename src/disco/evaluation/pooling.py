"""Several campaigns read together: one relative uplift (random effects), and what they earned altogether.

Two questions, two estimands. *How much better are decided codes, in campaigns like these?* True uplifts differ from
campaign to campaign, so campaign i shows yᵢ = μ + bᵢ + eᵢ with bᵢ ~ (0, τ²) and eᵢ ~ (0, sᵢ²), and the answer is μ.
*How much did these campaigns earn?* Their own effects are the estimand: Σ nᵢ·δᵢ, and τ² has no part in its error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from disco.evaluation.estimates import Comparison, estimate_around
from disco.evaluation.roots import root_between
from disco.records.arguments import read_level
from disco.records.arrays import Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate

_PRIOR_SCALE = 0.25  # of τ, on the scale of ln(ratio)
_WIDEST = 5  # the grid's end, in scales
_GRID_POINTS = 257


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledUplift:
    """One figure of several campaigns, the decided arm against the other one."""

    campaigns: int
    """Campaigns that were compared."""
    relative: Estimate | None
    """The mean relative uplift of campaigns like these; one campaign has its own. Null where a figure is not positive
    in one of them; of several campaigns, also where one has a percentage without limits."""
    between_campaigns: float | None
    """Standard deviation of the true uplifts between campaigns, as a share; null with fewer than two campaigns."""
    total: Estimate
    """Σ difference per customer × customers of the decided arm: what these campaigns earned more."""


def pool(comparisons: Sequence[Comparison], customers: Sequence[int], *, level: float = 0.95) -> PooledUplift:
    """Read campaigns together.

    comparisons: one per campaign, of one metric per customer. customers: of its decided arm, one per campaign.

    Uplifts are averaged as logarithms of ratios, y = ln(decided/control) with error s = se/ratio (delta method): on the
    plain scale a ratio that is large by chance also has a large error and would be weighted down. μ and τ are those of
    `random_effects`. One campaign stands for itself.

    >>> from disco.evaluation.estimates import Mean, compare
    >>> two = [compare(Mean(6.0, 0.01, 900), Mean(5.0, 0.01, 900)), compare(Mean(5.0, 0.01, 900), Mean(4.0, 0.01, 900))]
    >>> found = pool(two, [1000, 2000])
    >>> round(found.total.value), found.campaigns
    (3000, 2)
    """
    if not comparisons or len(comparisons) != len(customers):
        raise InputError(
            "comparisons",
            found=f"{len(comparisons)} with {len(customers)} numbers of customers",
            expected="one or more, with one number each",
        )
    read_level(level)
    differences = np.array([one.difference.value for one in comparisons])
    errors = np.array([one.difference.standard_error or 0.0 for one in comparisons])
    weights = np.asarray(customers, np.float64)
    total = estimate_around(float(weights @ differences), float(np.sqrt(weights**2 @ errors**2)), level=level)
    relative, between = _relative([one.relative for one in comparisons], level=level)
    return PooledUplift(campaigns=len(comparisons), relative=relative, between_campaigns=between, total=total)


def _relative(found: Sequence[Estimate | None], *, level: float) -> tuple[Estimate | None, float | None]:
    if len(found) == 1:
        return found[0], None
    ratios, errors = [], []
    for one in found:
        if one is None or not one.bounded or one.value <= -1 or not one.standard_error:
            return None, None
        ratios.append(1 + one.value)
        errors.append(one.standard_error / (1 + one.value))
    mean, between = random_effects(np.log(ratios), np.array(errors), level=level)
    lower, upper = mean.ends or (mean.value, mean.value)
    ratio = math.exp(mean.value)
    scaled = Estimate(ratio - 1, math.expm1(lower), math.expm1(upper), level, ratio * (mean.standard_error or 0.0))
    return scaled, ratio * between


def random_effects(values: Vector, errors: Vector, *, level: float = 0.95) -> tuple[Estimate, float]:
    """μ with its interval, and τ, of yᵢ ~ N(μ, τ² + sᵢ²): values (k,) with their standard errors (k,), all positive.

    Given τ, μ is normal around Σwᵢyᵢ/Σwᵢ with variance 1/Σwᵢ, wᵢ = 1/(τ² + sᵢ²). τ has a half-normal prior with scale
    0.25, that is, uplifts of campaigns seldom differ by more than a half; it is integrated over a grid, so that the
    interval allows for not knowing it. A few campaigns say little about τ: the usual normal interval is then too short,
    and Hartung's and Knapp's t with one degree of freedom is ten times as long (docs/decisions/071-pooled-uplift.md).
    One value keeps its own normal interval.

    >>> mean, between = random_effects(np.array([0.1, 0.3, 0.5]), np.array([0.01, 0.01, 0.01]))
    >>> round(mean.value, 3), round(between, 2), round(mean.upper, 2)
    (0.3, 0.24, 0.62)
    """
    if values.shape != errors.shape or values.ndim != 1 or not values.size:
        raise InputError("values", found=f"shapes {values.shape} and {errors.shape}", expected="one error per value")
    if not (np.isfinite(values).all() and np.isfinite(errors).all() and (errors > 0).all()):
        raise InputError("errors", found="one that is not positive and finite", expected="positive standard errors")
    read_level(level)
    if values.size == 1:
        return estimate_around(float(values[0]), float(errors[0]), level=level), 0.0
    between = np.linspace(0.0, _WIDEST * _PRIOR_SCALE, _GRID_POINTS)
    weights = 1 / (between[:, None] ** 2 + errors**2)  # (grid, k)
    precision = weights.sum(axis=1)
    means = weights @ values / precision
    misfit = (weights * (values - means[:, None]) ** 2).sum(axis=1)
    log_density = (np.log(weights).sum(axis=1) - np.log(precision) - misfit - (between / _PRIOR_SCALE) ** 2) / 2
    density = np.exp(log_density - log_density.max())
    density[[0, -1]] /= 2  # the trapezoidal rule
    density /= density.sum()
    spread = 1 / np.sqrt(precision)
    mean = float(density @ means)
    variance = float(density @ (spread**2 + (means - mean) ** 2))

    def end(share: float) -> float:
        reach = 12 * spread
        return root_between(
            lambda x: float(density @ ndtr((x - means) / spread)) - share, min(means - reach), max(means + reach)
        )

    tail = (1 - level) / 2
    return Estimate(mean, end(tail), end(1 - tail), level, math.sqrt(variance)), float(density @ between)
