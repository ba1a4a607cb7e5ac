"""Actual over expected money of purchases: what a law that is not normal leaves of exp(μ + σ²/2).

E[F] = exp(μ + σ_a²/2)·s_a. Where the residual of ln F is normal, s_a is 1. A heavy right tail makes it larger, a left
one smaller, and no second moment tells. So s_a is learned from money itself, depth by depth,

    r_a = ΣF / Σexp(ψᵀθ̂ + σ_a²/2),   ln r_a ~ N(c + d_a, v_a),   c ~ N(0, τ²),  d_a ~ N(0, τ_d²),   s_a = exp(c + d_a),

with the chance variance v_a = (exp(σ_a² + the variance of ψᵀθ̂) − 1)/n_a. Few purchases leave s_a near 1, and depths
that are alike share what they know. The sum over purchases needs no purchases: ψᵀθ̂ is taken as normal over those of one
depth, with the mean and the variance that their second moments say. Its skewness k would add k·sd³/6, which is 0.3% at
a skewness of 0.5 and the usual sd of 0.3.

Byte-critical, as `posterior` is: sums are exactly rounded (`math.fsum`), exponentials are those of `elementary`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from disco.belief.elementary import exponential, logarithm
from disco.belief.posterior import REACH
from disco.records.arrays import Matrix, Vector
from disco.records.exact_sums import LOG_PRICE_LIMIT

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

#: τ and τ_d: how far money may be from the normal law's at all depths alike, and at one depth on top of that.
COMMON_SD, DEPTH_SD = 0.2, 0.02
_FEWEST_ROWS = 2.0  # a depth with fewer purchases says nothing about a ratio


@dataclass(frozen=True, slots=True, eq=False)
class Smearing:
    """The factors of money by depth; without depths they are 1."""

    depths: Vector  # (D,) of which money is known, ascending
    common: float  # c
    own: Vector  # (D,) d_a

    @classmethod
    def none(cls) -> Smearing:
        """Money as the normal law says."""
        return cls(np.zeros(0), 0.0, np.zeros(0))

    @classmethod
    def of(cls, depths: Vector, log_ratios: Vector, variances: Vector) -> Smearing:
        """From ln r_a and v_a, each (D,), at these depths.

        >>> found = Smearing.of(np.array([0.1, 0.3]), np.array([0.1, 0.1]), np.array([0.001, 0.001]))
        >>> found.factors(np.array([0.1, 0.2])).round(3).tolist()
        [1.104, 1.104]
        """
        if not depths.size:
            return cls.none()
        weight = 1.0 / (DEPTH_SD**2 + variances)
        precision = math.fsum(weight.tolist()) + 1.0 / COMMON_SD**2
        common = math.fsum((weight * log_ratios).tolist()) / precision
        return cls(depths, common, (log_ratios - common) * (DEPTH_SD**2 * weight))

    def factors(self, depths: Vector) -> Vector:
        """(K,) s_a at any depths: straight lines of d_a between those played, 0 from REACH outside them."""
        if not self.depths.size:
            return np.ones(depths.size)
        knots = np.concatenate(([self.depths[0] - REACH], self.depths, [self.depths[-1] + REACH]))
        own = np.concatenate(([0.0], self.own, [0.0]))
        left = np.searchsorted(knots, depths, side="right").clip(1, knots.size - 1) - 1
        share = ((depths - knots[left]) / (knots[left + 1] - knots[left])).clip(0.0, 1.0)
        return np.array([exponential(value) for value in self.common + own[left] + share * (own[left + 1] - own[left])])


def smearing_of(model: BasketModel) -> Smearing:
    """The smearing of a model with evidence; parts whose money is not known are left out."""
    totals: dict[float, list[tuple[float, float, float, float]]] = {}  # by depth: weight·(n, ΣF, ΣE[F], n·variance)
    mean = model.posterior.mean
    ages = range(len(model.campaigns))[::-1]
    for age, evidence in zip(ages, model.campaigns.values(), strict=True):
        weight, paid = model.forgetting**age, evidence.full_prices()
        if paid is None or not evidence.depths.size:
            continue
        encoded = model.encoded(evidence.depths)
        spread = model.depth_spread.variances(evidence.depths)
        line = mean.reshape(-1, encoded.shape[1])
        for a, (depth, sums) in enumerate(zip(evidence.depths.tolist(), evidence.sums(), strict=True)):
            rows = float(sums[0, 0])
            log_mean, variance = _level(sums, np.array([_dot(row, encoded[a]) for row in line]))
            expected = exponential(min(log_mean + 0.5 * (variance + float(spread[a])), LOG_PRICE_LIMIT))
            part = (weight * rows, weight * float(paid[a]), weight * rows * expected, weight * rows * variance)
            totals.setdefault(depth, []).append(part)
    depths, ratios, chance = [], [], []
    for depth in sorted(totals):
        rows, actual, expected, varied = (math.fsum(column) for column in zip(*totals[depth], strict=True))
        if rows < _FEWEST_ROWS:
            continue
        spread_here = float(model.depth_spread.variances(np.array([depth]))[0])
        depths.append(depth)
        ratios.append(logarithm(actual / expected))
        chance.append((exponential(min(spread_here + varied / rows, LOG_PRICE_LIMIT)) - 1.0) / rows)
    return Smearing.of(np.array(depths), np.array(ratios), np.array(chance))


def _level(sums: Matrix, weights: Vector) -> tuple[float, float]:
    """Mean and variance of x̃ᵀw over the purchases whose Σzzᵀ is `sums`, z = (x̃, y)."""
    rows, size = float(sums[0, 0]), weights.size
    mean = _dot(sums[0, :size], weights) / rows
    square = _dot((weights[:, None] * weights).ravel(), sums[:size, :size].ravel())
    return mean, max(square / rows - mean * mean, 0.0)


def _dot(one: Vector, other: Vector) -> float:
    return math.fsum((one * other).tolist())
