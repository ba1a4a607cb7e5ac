"""The posterior of θ in precision form, and how a model's evidence and settings become one.

    V = V0 + Σψψᵀ,   B = B0 + Σψ·lnF,   θ ~ N(V⁻¹B, σ²V⁻¹)

Beside it the spread of ln F at each depth. E[F] = exp(μ + σ_a²/2): where baskets vary more, the same μ is more money.
At a depth played the residuals have RSS_a = Σ(y − ψᵀθ̂)², with ν_a = n_a − tr(V⁻¹Σψψᵀ) rows left to tell σ_a². Spreads
of different depths are like draws from one law, ln σ_a² ~ N(ln σ², τ²); how far they differ, τ, is learned from them.
So σ_a² is shrunk to what the other depths say, with a weight of κ_a rows, 1/κ_a = τ²/2 + 1/(their rows).

Byte-critical: the order of summation in `algebra` and here decides every draw and prediction, and decisions under a
budget use σ_a². Logarithms and exponentials are those of `elementary`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from disco.belief import algebra
from disco.belief.elementary import exponential, logarithm
from disco.belief.encodings import Encoding, Prior
from disco.belief.law import CurveLaw
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.compiled import njit
from disco.records.errors import IllConditionedError, InputError
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

#: Beyond this (after scaling every feature to the same size) fewer than three digits of the mean are left.
WORST_CONDITION = 1e13
#: The noise prior: σ² behaves as if NOISE_PRIOR_ROWS residuals of sd NOISE_PRIOR_SD had been seen before any data.
#: 0.7 is the spread of ln(basket) in retail; two rows are forgotten after a few dozen purchases.
NOISE_PRIOR_ROWS = 2.0
NOISE_PRIOR_SD = 0.7
#: (1+d1)·(1+d2): V of this many takes 512 MiB, and its factor about a minute.
MOST_PARAMETERS = 8192


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

    def __repr__(self) -> str:
        """
        >>> Posterior.of(np.eye(1), np.ones(1), square=1.0, rows=1.0, prior_precision=np.ones(1), noise_sd=2.0)
        Posterior(1 coefficient, 1 row, noise sd 2, condition 1)
        """
        size, rows = counted(self.mean.size, "coefficient"), counted(round(self.rows), "row")
        return f"Posterior({size}, {rows}, noise sd {self.noise_sd:.3g}, condition {self.condition:.3g})"

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


UNSEEN_LEVEL_SD = 2.0  # of ln F before any purchase was seen: seven times more or less


class Sums(NamedTuple):
    """Σψψᵀ, Σψy, Σy² and n under one encoding; entry i·(1+d2) + j of ψ is x̃_i·ã_j."""

    gram: Matrix
    moment: Vector
    square: float
    rows: float


def require_size(context_size: int, encoding: Encoding) -> int:
    """d2, refused where V would be too large to be worked with."""
    parameters = (1 + context_size) * (1 + encoding.size)
    if parameters > MOST_PARAMETERS:
        found = f"{context_size:,} context and {encoding.size:,} depth features, so {parameters:,} parameters"
        raise InputError("model", found=found, expected=f"at most {MOST_PARAMETERS:,}", fix="Use fewer features.")
    return encoding.size


def encoded_depths(encoding: Encoding, u: Vector) -> Matrix:
    """ã = [1, ψ2(u)], shape (depths, 1+d2), finite."""
    features = encoding.features(u)
    if not np.isfinite(features).all():
        raise InputError("encoded depth", found="features that are not finite", expected="finite features")
    return np.column_stack((np.ones(u.size), features))


def weighted_parts(model: BasketModel) -> tuple[Matrix, Vector, Vector]:
    """Σzzᵀ (parts, d1+2, d1+2) of a model with evidence, the depth of each part, and its weight.

    A part is a depth, or a depth of one campaign: those k campaigns old weigh forgettingᵏ.
    """
    if model.forgetting == 1.0:  # exact integers first, one rounding after: the order of campaigns cannot matter
        parts, ages = [model.evidence], [0]
    else:
        parts, ages = list(model.campaigns.values()), list(range(len(model.campaigns)))[::-1]
    weight = np.repeat([model.forgetting**age for age in ages], [part.depths.size for part in parts])
    depths = np.concatenate([part.depths for part in parts])
    sums = np.ascontiguousarray(np.concatenate([part.sums() for part in parts]))  # one layout for the kernels
    return sums, depths, weight


def weighted_sums(model: BasketModel, encoding: Encoding, context_size: int) -> Sums:
    """The evidence under an encoding."""
    d = (1 + context_size) * (1 + encoding.size)
    if not model.campaigns:
        return Sums(np.zeros((d, d)), np.zeros(d), 0.0, 0.0)
    parts, depths, weight = weighted_parts(model)
    encoded = encoded_depths(encoding, depths / model.depth_scale)
    return Sums(*algebra.assemble(parts, encoded, weight))


def posterior_of(model: BasketModel, sums: Sums, prior: Prior, *, d1: int, d2: int) -> Posterior:
    """The posterior of θ. Where σ is estimated and the prior's sds are absolute, V0 = σ̂²/sd² and σ̂ settle together."""
    constant = model.constant_precision
    if constant is None:  # decoupled: its row and column are cleared, so θ_0 stays at 0 and no other entry notices
        gram, moment = sums.gram.copy(), sums.moment.copy()
        gram[0, :] = gram[:, 0] = moment[0] = 0.0
        sums = sums._replace(gram=gram, moment=moment)
    table, mean = prior.precision(d1, d2, constant=1.0 if constant is None else constant), prior.mean(d1, d2)
    variance = (model.noise_sd or NOISE_PRIOR_SD) ** 2
    for _ in range(100):  # the estimate settles within a few steps
        v0 = table.copy()
        if prior.absolute:
            v0[1:] *= variance
        posterior = Posterior.of(**sums._asdict(), prior_precision=v0, prior_mean=mean, noise_sd=model.noise_sd)
        estimate = posterior.noise_sd**2
        if not prior.absolute or abs(estimate - variance) <= 1e-10 * variance:
            break
        variance = estimate
    if constant is None:
        root = posterior.root.copy()
        root[0, 0] = 0.0  # no variance either
        posterior = replace(posterior, root=root)
    return posterior


class Fitted(NamedTuple):
    """What a model believes, ready to be served."""

    posterior: Posterior
    law: CurveLaw


def fit(model: BasketModel, context_size: int) -> Fitted:
    """The model's posterior and the law of a customer's curve."""
    encoding = model.encoding
    require_size(context_size, encoding)
    sums = weighted_sums(model, encoding, context_size)
    posterior = posterior_of(model, sums, model.prior, d1=context_size, d2=encoding.size)
    root = posterior.root if sums.rows else _limited_level(posterior)
    return Fitted(posterior, CurveLaw.of(posterior.mean, root, noise_sd=posterior.noise_sd, q=1 + encoding.size))


def _limited_level(posterior: Posterior) -> Matrix:
    """R of an empty model as it is acted on: the near-flat constant is limited to what baskets of money can be.

    With its sd of hundreds every drawn curve would end at the edge of the domain, where all depths look alike.
    """
    root = posterior.root.copy()
    root[0, 0] = min(root[0, 0], UNSEEN_LEVEL_SD / posterior.noise_sd)
    root.flags.writeable = False
    return root


# ---- the spread of ln F by depth -------------------------------------------------------------------------------------

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


@njit(cache=True, nogil=True, patient=True)
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


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
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
    best = fit[0]
    for t in range(tried):
        best = max(best, fit[t])
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
