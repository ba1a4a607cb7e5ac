"""The posterior of θ in precision form: V = V0 + Σψψᵀ, B = B0 + Σψ·lnF, θ ~ N(V⁻¹B, σ²V⁻¹)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from disco.belief import algebra
from disco.belief.prior import NOISE_PRIOR_ROWS, NOISE_PRIOR_SD
from disco.records.arrays import Matrix, Vector
from disco.records.errors import IllConditionedError, InputError

#: Beyond this (after scaling every feature to the same size) fewer than three digits of the mean are left.
WORST_CONDITION = 1e13


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What is believed about θ. `root` is R with V⁻¹ = RᵀR (from the Cholesky factor of V), derived, never updated.

    The noise is a fixed sd, or normal–inverse-gamma: σ² ~ IG(ν0/2, ν0·s0²/2) with ν0 = 2, s0 = 0.7, so that
    σ̂² = (ν0·s0² + Σy² + m0ᵀV0m0 − BᵀV⁻¹B)/(ν0 + n), with ν0 + n degrees of freedom (infinite where fixed).
    """

    precision: Matrix  # V
    moment: Vector  # B
    prior_precision: Vector  # the diagonal of V0
    rows: float  # n
    mean: Vector  # V⁻¹B
    root: Matrix
    condition: float
    noise_sd: float  # σ̂, or the fixed σ
    degrees_of_freedom: float
    log_evidence: float  # ln p(y)

    def __post_init__(self) -> None:
        for array in (self.precision, self.moment, self.prior_precision, self.mean, self.root):
            array.flags.writeable = False  # a model hands out the very arrays it predicts with

    @classmethod
    def of(
        cls,
        gram: Matrix,
        moment: Vector,
        *,
        square: float,
        rows: float,
        prior_precision: Vector,
        prior_mean: Vector | None = None,
        noise_sd: float | None = None,
    ) -> Posterior:
        """From Σψψᵀ (d, d), Σψy (d,), Σy², n and the prior.

        >>> p = Posterior.of(np.array([[3.0]]), np.array([6.0]), square=14.0, rows=3.0,
        ...                  prior_precision=np.array([0.5]), noise_sd=2.0)
        >>> round(float(p.mean[0]), 6), round(p.noise_sd * float(np.sqrt(p.variance_factor(np.eye(1)))[0]), 6)
        (1.714286, 1.069045)
        """
        gram, moment = np.asarray(gram, np.float64), np.asarray(moment, np.float64)
        v0 = np.array(prior_precision, np.float64)
        m0 = np.zeros_like(v0) if prior_mean is None else np.asarray(prior_mean, np.float64)
        if not (np.isfinite(gram).all() and np.isfinite(moment).all() and math.isfinite(square) and rows >= 0):
            raise InputError("posterior", found="sums that are not finite, or negative rows", expected="finite sums")
        if not (np.isfinite(v0).all() and (v0 > 0).all()):
            raise InputError("prior precision", found=v0.min(), expected="finite precisions above 0")
        precision = gram + np.diag(v0)
        total = moment + v0 * m0
        root, log_determinant, condition = algebra.inverse_root(precision)
        if not condition <= WORST_CONDITION:
            raise _refusal(gram, v0, condition)
        mean = algebra.solve(root, total)
        log_ratio = 0.5 * (float(np.log(v0).sum()) - log_determinant)
        misfit = max(square + math.fsum(m0 * v0 * m0) - math.fsum(total * mean), 0.0)
        if noise_sd is None:
            a0, b0 = NOISE_PRIOR_ROWS / 2, NOISE_PRIOR_ROWS * NOISE_PRIOR_SD**2 / 2
            a, b = a0 + rows / 2, b0 + misfit / 2
            log_evidence = (
                (log_ratio - rows / 2 * math.log(2 * math.pi) + math.lgamma(a) - math.lgamma(a0))
                + a0 * math.log(b0)
                - a * math.log(b)
            )
            sigma, freedom = math.sqrt(b / a), 2 * a
        else:
            log_evidence = log_ratio - rows / 2 * math.log(2 * math.pi * noise_sd**2) - misfit / (2 * noise_sd**2)
            sigma, freedom = noise_sd, math.inf
        return cls(precision, total, v0, rows, mean, root, condition, sigma, freedom, log_evidence)

    def variance_factor(self, psi: Matrix) -> Vector:
        """ψᵀV⁻¹ψ for each row of ψ; times σ² it is the variance of ψᵀθ."""
        return np.asarray(((np.atleast_2d(psi) @ self.root.T) ** 2).sum(axis=1))

    def draws(self, count: int, generator: np.random.Generator) -> Matrix:
        """θ ~ N(V⁻¹B, σ²V⁻¹), shape (count, d)."""
        return np.asarray(self.mean + self.noise_sd * generator.standard_normal((count, self.mean.size)) @ self.root)

    @property
    def covariance_factor(self) -> Matrix:
        """V⁻¹ = RᵀR, computed when asked for."""
        return np.asarray(algebra.inverse(self.root))


def _refusal(gram: Matrix, prior: Vector, condition: float) -> IllConditionedError:
    diagonal = np.sqrt(np.diag(gram) + prior)
    scaled = gram / np.outer(diagonal, diagonal)
    np.fill_diagonal(scaled, 0.0)
    i, j = (int(k) for k in np.unravel_index(np.abs(scaled).argmax(), scaled.shape))
    return IllConditionedError(
        "posterior",
        found=f"a condition number of {condition:.1e}; the most alike features are number {i + 1} and {j + 1} "
        f"(correlation {scaled[i, j]:.12f}), prior precisions from {prior.min():.1e} to {prior.max():.1e}",
        expected=f"at most {WORST_CONDITION:.0e}",
        fix="Drop one of two features that say the same, or raise the prior precision.",
    )
