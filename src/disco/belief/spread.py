"""The spread of ln F at each depth. E[F] = exp(μ + σ_a²/2): where baskets vary more, the same μ is more money.

At a depth played the residuals have RSS_a = Σ(y − ψᵀθ̂)², with ν_a = n_a − tr(V⁻¹Σψψᵀ) rows left to tell σ_a². Spreads
of different depths are like draws from one law, ln σ_a² ~ N(ln σ², τ²); how far they differ, τ, is learned from them.
So σ_a² is shrunk to what the other depths say, with a weight of κ_a rows, 1/κ_a = τ²/2 + 1/(their rows).

Byte-critical: decisions under a budget use σ_a². The kernels have a fixed order of summation and the functions of
`elementary`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from disco.belief import algebra
from disco.belief.elementary import exponential, logarithm
from disco.belief.posterior import weighted_parts
from disco.belief.prior import NOISE_PRIOR_ROWS, NOISE_PRIOR_SD
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.compiled import njit

if TYPE_CHECKING:
    from disco.belief.model import BasketModel
    from disco.belief.posterior import Posterior

#: τ, the sd of ln σ_a² between depths: values tried, equally likely before any purchase. At 0.8, σ may double.
TAUS = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
#: So far outside the depths played the common σ holds; between, the spread of the last depth fades out.
REACH = 0.1
_LEAST_ROWS = 3.0  # a depth with fewer says nothing about τ: ln of its RSS is too far from normal


@dataclass(frozen=True, slots=True, eq=False)
class DepthSpread:
    """What is believed about σ_a². Without depths, σ is the same at all of them and certain."""

    common: float  # σ² over all depths
    freedom: float  # rows behind it
    depths: Vector  # (D,) played, ascending
    variance: Matrix  # (τ, D) σ_a² shrunk with each τ
    rows: Matrix  # (τ, D) degrees of freedom behind it
    weight: Vector  # (τ,) probability of each τ
    mean: Vector  # (D,) σ_a² averaged over τ

    @classmethod
    def fixed(cls, variance: float) -> DepthSpread:
        """One σ² for all depths, known exactly."""
        none = np.zeros((TAUS.size, 0))
        return cls(variance, np.inf, none[0], none, none, np.ones(TAUS.size) / TAUS.size, none[0])

    @classmethod
    def of(cls, model: BasketModel, posterior: Posterior) -> DepthSpread:
        """From the evidence of a model whose σ is estimated."""
        parts, depth, weight = weighted_parts(model)
        depths, which = np.unique(depth, return_inverse=True)
        rows, misfit = residuals(
            parts, model.encoded(depths), which, weight, posterior.mean, algebra.inverse(posterior.root)
        )
        variance, freedom, probability, mean, common, total = shrunk(rows, misfit, TAUS)
        return cls(common, total, depths, variance, freedom, probability, mean)

    def variances(self, depths: Vector) -> Vector:
        """(K,) σ_a² at any depths: straight lines between those played, the common σ² from REACH outside them."""
        if not self.depths.size:
            return np.full(depths.size, self.common)
        left, share = self._between(depths)
        known = np.concatenate(([self.common], self.mean, [self.common]))
        return np.asarray(known[left] + share * (known[left + 1] - known[left]))

    def draws(self, depths: Vector, *, count: int, generator: np.random.Generator) -> Matrix:
        """(count, K) draws of σ_a²: τ by its probability, then scaled inverse χ² at each depth played.

        A depth between two played ones deviates from their line by a draw of its own, most of all (sd τ of ln σ²) in
        the middle; one outside them deviates from the common σ².
        """
        if not self.depths.size:
            return np.full((count, depths.size), self.common)
        tau = np.searchsorted(np.cumsum(self.weight)[:-1], generator.random(count), side="right")
        sd = TAUS[tau][:, None]
        left, share = self._between(depths)
        knots, at = np.unique(np.concatenate((left, left + 1)), return_inverse=True)
        played = (knots > 0) & (knots <= self.depths.size)
        drawn = np.empty((count, knots.size))
        inner = knots[played] - 1
        freedom = self.rows[tau][:, inner]
        drawn[:, played] = self.variance[tau][:, inner] * freedom / generator.chisquare(freedom)
        level = self.common * self.freedom / generator.chisquare(self.freedom, size=(count, 1))
        drawn[:, ~played] = level * np.exp(sd * generator.standard_normal((count, int((~played).sum()))))
        low, high = drawn[:, at[: left.size]], drawn[:, at[left.size :]]
        inside = (left > 0) & (left < self.depths.size)
        reach = np.where(inside, np.sqrt(2 * np.minimum(share, 1 - share)), 0.0)
        own = reach * generator.standard_normal((count, depths.size))
        return np.asarray((low + share * (high - low)) * np.exp(sd * own))

    def _between(self, depths: Vector) -> tuple[Integers, Vector]:
        """The knot on the left of each depth, and how far (0 to 1) it lies on the way to the next one.

        Knots are REACH before the first depth played, the depths played, REACH after the last.
        """
        knots = np.concatenate(([self.depths[0] - REACH], self.depths, [self.depths[-1] + REACH]))
        left = np.searchsorted(knots, depths, side="right").clip(1, knots.size - 1) - 1
        share = (depths - knots[left]) / (knots[left + 1] - knots[left])
        return left, share.clip(0.0, 1.0)


def money_root(model: BasketModel, posterior: Posterior) -> Matrix:
    """R with RᵀR = V⁻¹(Σσ_a²ψψᵀ + σ²V0)V⁻¹, the covariance of θ̂ where the spread differs by depth.

    With equal spreads it is σ²V⁻¹. Rankings draw θ with one σ; intervals of money need the right one at each depth.
    """
    parts, depth, weight = weighted_parts(model)
    spread = model.depth_spread
    gram = algebra.assemble(parts, model.encoded(depth), weight * spread.variances(depth))[0]
    if model.constant_precision is None:
        gram[0, :] = gram[:, 0] = 0.0
    gram[np.diag_indices_from(gram)] += spread.common * posterior.prior_precision
    inverse = algebra.inverse(posterior.root)
    return np.ascontiguousarray(algebra.half(inverse @ gram @ inverse).T)


@njit(cache=True, nogil=True)
def residuals(
    sums: Matrix, encoded: Matrix, which: Integers, weight: Vector, mean: Vector, inverse: Matrix
) -> tuple[Vector, Vector]:
    """n − tr(V⁻¹Σψψᵀ) and Σ(y − ψᵀθ̂)² per depth.

    sums (parts, p+1, p+1): Σzzᵀ, z = (x̃, y), of a part whose depth is `encoded[which]` and that weighs `weight`.
    """
    depths, q = encoded.shape
    p = sums.shape[1] - 1
    rows, misfit = np.zeros(depths), np.zeros(depths)
    line, spread = np.empty(p), np.empty((p, p))
    done = -1  # the depth that `line` and `spread` are of
    for part in range(which.size):
        a = which[part]
        if a != done:
            for i in range(p):
                line[i] = 0.0
                for j in range(q):
                    line[i] += mean[i * q + j] * encoded[a, j]
                for k in range(p):
                    spread[i, k] = 0.0
                    for j in range(q):
                        for l in range(q):  # noqa: E741 - the indices of a Kronecker product
                            spread[i, k] += encoded[a, j] * encoded[a, l] * inverse[i * q + j, k * q + l]
            done = a
        left, square = sums[part, 0, 0], sums[part, p, p]
        for i in range(p):
            square -= 2.0 * line[i] * sums[part, i, p]
            for k in range(p):
                square += line[i] * line[k] * sums[part, i, k]
                left -= weight[part] * spread[i, k] * sums[part, i, k]
        rows[a] += weight[part] * max(left, 0.0)
        misfit[a] += weight[part] * max(square, 0.0)
    return rows, misfit


@njit(cache=True, nogil=True, error_model="numpy")
def shrunk(rows: Vector, misfit: Vector, taus: Vector) -> tuple[Matrix, Matrix, Vector, Vector, float, float]:
    """(τ, D) σ_a² and degrees of freedom, (τ,) probabilities, (D,) the mean σ_a², the common σ² and its rows.

    τ is weighed by the likelihood of ln s_a² ~ N(m, τ² + 2/ν + 2/ν²), m unknown; ln s_a² = ln(RSS/ν) + 1/ν.
    """
    depths, tried = rows.size, taus.size
    total, square = NOISE_PRIOR_ROWS, NOISE_PRIOR_ROWS * NOISE_PRIOR_SD**2
    for a in range(depths):
        total += rows[a]
        square += misfit[a]
    variance, freedom = np.empty((tried, depths)), np.empty((tried, depths))
    fit = np.zeros(tried)
    for t in range(tried):
        between = taus[t] * taus[t]
        weights, mean, misfits = 0.0, 0.0, 0.0  # of Σw, Σwv/Σw and Σw(v − mean)², one depth after the other
        for a in range(depths):
            nu = rows[a]
            others = total - nu
            kappa = 1.0 / (0.5 * between + 1.0 / others)
            freedom[t, a] = kappa + nu
            variance[t, a] = (kappa * ((square - misfit[a]) / others) + misfit[a]) / (kappa + nu)
            if nu >= _LEAST_ROWS and misfit[a] > 1e-12 * nu:
                v = logarithm(misfit[a] / nu) + 1.0 / nu
                w = 1.0 / (between + 2.0 / nu + 2.0 / (nu * nu))
                weights += w
                off = v - mean
                mean += off * w / weights
                misfits += w * off * (v - mean)
                fit[t] += 0.5 * logarithm(w)
        if weights > 0.0:
            fit[t] -= 0.5 * (logarithm(weights) + misfits)
    best = fit.max()
    probability = np.empty(tried)
    norm = 0.0
    for t in range(tried):
        probability[t] = exponential(max(fit[t] - best, -700.0))
        norm += probability[t]
    average = np.zeros(depths)
    for t in range(tried):
        probability[t] /= norm
        for a in range(depths):
            average[a] += probability[t] * variance[t, a]
    return variance, freedom, probability, average, square / total, total
