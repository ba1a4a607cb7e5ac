"""What earlier campaigns brought against their forecasts: a factor per depth on the next one, with its uncertainty.

A watchdog: a belief that is right leaves it at 1. It catches what no belief contains, such as customers who have
changed, a season, or a policy that chooses better than the belief knows. Separately for codes that a policy decided and
for codes assigned at random, with one number per campaign and depth,

    E[actual_a] = expected_a · exp(c + d_a + ω·ε),    c ~ N(0, τ²),  d_a ~ N(0, τ_d²),  ε ~ N(0, 1),

where ε belongs to a campaign. What is bought varies like a Poisson number of purchases of one size, so a depth whose
codes nobody used says as much as it should. Revenue and markdown of a depth are fixed shares of its full price, so one
factor per depth serves both. The posterior is taken as normal at its mode (Laplace).

How far whole campaigns move is learned from them, too: ω² = ω0² + m², where ω0 is usual and values of m are weighed
with a half-Cauchy prior of median ω0 and the evidence of each. The factors are those of ω0, so that a budget counts as
before, and the widths contain how far other ω would have moved them. With few campaigns the law of the next one has
long tails; the normal law that is kept has the same 90% interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from disco.belief.movement import MOVES, mixture_quantile, usual_moves
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.estimate import LEVEL
from disco.records.plan_summary import Calibration

_STEPS = 12  # of Newton; the first is close already, and each doubles the digits
_MORE_STEPS = 4  # from the mode of one ω to that of the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How far off forecasts usually are, as standard deviations of logarithms."""

    common: float  # τ: at all depths alike
    depth: float  # τ_d: at one depth on top of that
    campaign: float  # ω0: from one campaign to the next, at least


# (by a policy, with engagement per customer): chosen on simulated years (docs/decisions/092-forecast-calibration.md)
EXPECTED = {
    (True, True): Expected(common=0.05, depth=0.07, campaign=0.03),
    (False, True): Expected(common=0.05, depth=0.05, campaign=0.03),
    (True, False): Expected(common=0.2, depth=0.15, campaign=0.05),
    (False, False): Expected(common=0.1, depth=0.1, campaign=0.05),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backtest:
    """A forecast of an earlier campaign against what happened, for some of its codes."""

    depths: Vector
    """(D,) ascending."""
    expected: Vector
    """(D,) expected full price of what is bought, above 0."""
    actual: Vector
    """(D,) actual full price."""
    basket: float
    """ΣF²/ΣF over the purchases: actual/basket is about a Poisson number of purchases, whatever their amounts."""
    place: int = 0
    """Of the campaign among those that count, in the order of their first days; a fixed level does not look at it."""


def calibrate(past: Sequence[Backtest], depths: Sequence[float], *, decided: bool, personal: bool) -> Calibration:
    """The posterior of c + d_a at these depths, widened by the difference between campaigns, which is learned, too.

    decided: codes that a policy decided. personal: forecasts with engagement per customer.

    >>> calibrate([], [0.1], decided=True, personal=False).log_sd
    0.248...
    >>> seen = Backtest(depths=np.array([0.1]), expected=np.array([1e6]), actual=np.array([1.2e6]), basket=50.0)
    >>> found = calibrate([seen] * 6, [0.1, 0.3], decided=True, personal=False)
    >>> found.factors([0.1, 0.3]).round(2).tolist()
    [1.2, 1.12]
    """
    usual, asked = EXPECTED[decided, personal], np.asarray(depths, np.float64)
    seen = _Seen.of(past, asked)
    prior = usual.common**2 + usual.depth**2 * np.eye(seen.known.size)  # of c + d_a
    at, kept = np.searchsorted(seen.known, asked), seen.posterior(prior, usual, usual.campaign)
    rest, common, fit, line = [], [], [], kept.line
    omegas = np.hypot(usual.campaign, MOVES)
    for omega in omegas.tolist():
        found = seen.posterior(prior, usual, omega, start=line)
        line = found.line
        away = (found.mean - kept.mean)[at]
        rest.append(found.covariance[np.ix_(at, at)] + away[:, None] * away)
        common.append(found.common_variance + (found.common - kept.common) ** 2)
        fit.append(found.evidence)
    weight = usual_moves(usual.campaign) * np.exp(np.array(fit) - max(fit))
    weight /= weight.sum()
    covariance, common_variance = np.tensordot(weight, np.array(rest), 1), float(weight @ np.array(common))
    campaign = campaign_variance(omegas, weight, np.array(common))
    return Calibration(
        log_factor=kept.common,
        log_sd=float(np.sqrt(common_variance + campaign)),
        campaigns=len(past),
        log_factors=dict(zip(depths, kept.mean[at].tolist(), strict=True)),
        log_covariance=rows_of(covariance + campaign),
        campaign_log_sd=float(np.sqrt(campaign)),
    )


def campaign_variance(omegas: Vector, weight: Vector, beside: Vector) -> float:
    """Of the normal effect of a campaign that, beside the common factor, has the 90% interval of the mixture over ω.

    weight, beside: (ω,) the probability of each ω, and the variance of the common factor with it.
    """
    reach = mixture_quantile(np.sqrt(beside + omegas**2)[:, None], weight, (1 + LEVEL) / 2)[0]
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    return max(float(reach / z) ** 2 - float(weight @ beside), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Corrected:
    """What past campaigns say about c + d_a with one ω."""

    line: Vector  # (rows,) the mode of c + d_a + ωε, per campaign and depth
    mean: Vector  # (known,) of c + d_a
    covariance: Matrix  # (known, known) of it
    common: float  # mean of c
    common_variance: float
    evidence: float  # ln of the chance of what was bought, up to a constant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """Past campaigns, one row per campaign and depth, amounts in purchases."""

    known: Vector  # (known,) depths, ascending
    owner: Integers  # (rows,) campaign
    column: Integers  # (rows,) depth
    expected: Vector  # (rows,)
    actual: Vector  # (rows,)

    @classmethod
    def of(cls, past: Sequence[Backtest], asked: Vector) -> "_Seen":
        known = np.unique(np.concatenate([asked, *(one.depths for one in past)]))
        expected, actual = (
            np.concatenate([np.zeros(0), *(getattr(one, name) / one.basket for one in past)])
            for name in ("expected", "actual")
        )
        return cls(
            known=known,
            owner=np.repeat(np.arange(len(past)), [one.depths.size for one in past]),
            column=np.searchsorted(known, np.concatenate([np.zeros(0), *(one.depths for one in past)])),
            expected=expected,
            actual=actual,
        )

    def posterior(self, prior: Matrix, usual: Expected, omega: float, *, start: Vector | None = None) -> _Corrected:
        """prior (known, known): of c + d_a. start: a mode that is near."""
        column, expected, actual = self.column, self.expected, self.actual
        if not column.size:  # nothing was seen, and most plans of a new shop are made so
            nothing = np.zeros(prior.shape[0])
            return _Corrected(
                line=column.astype(np.float64),
                mean=nothing,
                covariance=prior,
                common=0.0,
                common_variance=usual.common**2,
                evidence=0.0,
            )
        shared = prior[np.ix_(column, column)] + omega**2 * (self.owner[:, None] == self.owner)
        line, gain, evidence = laplace(shared, expected, actual, prior[column], np.ones(column.size), start=start)
        return _Corrected(
            line=line,
            mean=prior[:, column] @ gain[:, 0],
            covariance=prior - prior[:, column] @ gain[:, 1:-1],
            common=usual.common**2 * float(gain[:, 0].sum()),
            common_variance=usual.common**2 - usual.common**4 * float(gain[:, -1].sum()),
            evidence=evidence,
        )


def laplace(
    shared: Matrix, expected: Vector, actual: Vector, *towards: Matrix | Vector, start: Vector | None = None
) -> tuple[Vector, Matrix, float]:
    """The mode of ln(actual mean / expected) with the prior N(0, shared), (shared + noise)⁻¹ times (what was seen,
    `towards`), and ln of the chance of what was bought, up to a constant. All (rows,), amounts in purchases.

    Newton's method: each step is a regression on ln(mean) + (actual − mean)/mean with the variance 1/mean; the last one
    says what was seen, with its noise. towards: (rows,) or (rows, …) covariances with what is asked for. start: a mode
    that is near.
    """
    seen, noise = np.log((actual + 0.5) / expected), 1 / expected
    if start is not None:
        noise = 1 / (expected * np.exp(start))
        seen = start + actual * noise - 1
    line = seen
    for _ in range(_STEPS if start is None else _MORE_STEPS):
        line = shared @ np.linalg.solve(shared + np.diag(noise), seen)
        noise = 1 / (expected * np.exp(line))
        seen = line + actual * noise - 1
    whole = shared + np.diag(noise)
    gain = np.linalg.solve(whole, np.column_stack([seen, *towards]))
    fit = float((actual * line - expected * np.exp(line)).sum() - 0.5 * gain[:, 0] @ shared @ gain[:, 0])
    volume = float(np.linalg.slogdet(whole)[1] - np.log(noise).sum())
    return line, gain, fit - 0.5 * volume


def rows_of(matrix: Matrix) -> tuple[tuple[float, ...], ...]:
    """A symmetric matrix as a plan keeps it."""
    return tuple(tuple(row) for row in ((matrix + matrix.T) / 2).tolist())


def backtest(depth: Vector, expected: Vector, actual: Vector, *, place: int = 0) -> Backtest | None:
    """From codes: the depth of each, the full price expected of it and the one bought (0: none), all (codes,)."""
    total = float(actual.sum())
    if total <= 0:
        return None
    depths, column = np.unique(depth, return_inverse=True)
    sums = [np.asarray(np.bincount(column, weights=one), np.float64) for one in (expected, actual)]
    basket = float((actual**2).sum()) / total
    return Backtest(depths=depths, expected=sums[0], actual=sums[1], basket=basket, place=place)
