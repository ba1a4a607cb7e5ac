"""How far levels move from one campaign to the next, and how wide that makes a prediction of the next campaign.

The level of campaign c at depth a (the logit of engagement, or ln F) is

    y_ca = g_a + u_c + noise,    u_c ~ N(0, τ²),    noise ~ N(0, 1/w_ca),    g_a free,

where w_ca is the information of the campaign's own rows. A belief pools all campaigns, so it knows
g_a + Σ_c ω_ca·u_c, ω_ca = w_ca/Σ_c w_ca, and its posterior says how well. The next campaign has g_a + u_new. So a
prediction of it is wider than the belief by the law of u_new − Σ_c ω_ca·u_c:

    given τ   u ~ N(û, P),  P = (A + 1/τ²)⁻¹,  û = P·b,  A = diag(Σ_a w_ca) − Σ_a w_a·w_aᵀ/Σ_c w_ca,
              b_c = Σ_a w_ca·(y_ca − ȳ_a);   second moment about 0: τ² + ωᵀPω + (ωᵀû)²
    of τ      prior × |1 + τ²A|^(−½)·exp(½·bᵀPb), the likelihood with g_a integrated out, on a grid

A depth that one campaign alone played says nothing about τ, and one campaign says nothing at all: A = 0, the prior of
τ speaks, and u_new − u_1 has the variance 2τ². The prior is half-Cauchy: half of all shops are believed to move by less
than its scale, and a fifth by more than three times as much, so few campaigns can say otherwise (A. Gelman 2006, Prior
distributions for variance parameters in hierarchical models, Bayesian Analysis 1(3)).

Nothing here moves a mean: expectations, values and draws of policies are those of the pooled belief.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.engagement_posterior import EngagementCurve, expit
from disco.belief.inputs import read_depth_column
from disco.records.arguments import read_array, read_count, read_level, read_positive
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.belief.engagement import Engagement
    from disco.belief.evidence import EngagementCounts

#: τ: values tried.
MOVES = np.array([0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96])
#: The median of τ before any campaign: rates and baskets of like campaigns differ by about a tenth.
USUAL_MOVE = 0.1
_EDGES = np.concatenate(([0.0], (MOVES[1:] + MOVES[:-1]) / 2, [1.2]))  # of the cells around them
_STEPS = 30  # of Newton, for the level of one campaign
_HALVINGS = 60


def usual_moves(scale: float) -> Vector:
    """(τ,) prior of `MOVES`: half-Cauchy with this median, up to 1.2, in cells around each value."""
    below = np.arctan(_EDGES / scale)
    return np.asarray(np.diff(below) / below[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Movement:
    """What past campaigns say about how far the next one may be from all of them together.

    >>> alone = Movement.of([0.1], levels=[[0.3]], information=[[400.0]])
    >>> alone.campaigns, round(alone.typical, 2), alone.rests_on_prior
    (1, 0.09, True)
    >>> steady = Movement.of([0.1], levels=[[0.01], [0.0], [-0.01], [0.0]], information=[[1e4]] * 4)
    >>> bool(steady.reach([0.1], [1e-4])[0] < alone.reach([0.1], [1e-4])[0])
    True
    """

    depths: Vector  # (D,) played, ascending
    campaigns: int  # that have a level
    compared: int  # of them, those that share a depth with another
    weight: Vector  # (τ,) probability of each of `MOVES`
    shares: Matrix  # (D, campaigns) ω: what each campaign is of the belief at a depth
    effect: Matrix  # (τ, campaigns) û
    covariance: Matrix  # (τ, campaigns, campaigns) P

    @classmethod
    def of(
        cls,
        depths: ArrayLike,
        *,
        levels: ArrayLike,
        information: ArrayLike,
        scale: float = USUAL_MOVE,
        forgetting: float = 1.0,
    ) -> Movement:
        """From the level of each campaign at each depth, the oldest first.

        depths: (D,) from 0 to 1, ascending.
        levels: (campaigns, D) about anything that is common to all campaigns at a depth, such as the pooled belief.
        information: (campaigns, D) 1/variance of the levels; 0 where a campaign did not play a depth.
        scale: the median of τ before any campaign.
        forgetting: by which older campaigns count less in the belief.
        """
        played = read_depth_column(depths)
        y, w = (read_array(table, where="levels of campaigns") for table in (levels, information))
        if y.shape != w.shape or y.ndim != 2 or y.shape[1] != played.size:
            found = f"{y.shape} levels and {w.shape} informations at {played.size} depths"
            raise InputError("levels of campaigns", found=found, expected="a row per campaign, a column per depth")
        if not (np.isfinite(w).all() and (w >= 0).all() and np.isfinite(y).all()):
            raise InputError(
                "levels of campaigns", found="a level or an information that is not finite", expected="finite numbers"
            )
        prior = usual_moves(read_positive(scale, where="scale"))
        known = w.sum(axis=1) > 0
        believed = (w * (forgetting ** np.arange(len(w))[::-1])[:, None])[known]
        y, w = y[known], w[known]
        total = w.sum(axis=0)
        at = total > 0
        played, y, w, total = played[at], y[:, at], w[:, at], total[at]
        shares = (believed[:, at] / believed[:, at].sum(axis=0)).T
        precision = np.diag(w.sum(axis=1)) - (w / total) @ w.T
        moment = (w * (y - (w * y).sum(axis=0) / total)).sum(axis=1)
        count = len(y)
        fit, effect = np.log(prior), np.zeros((MOVES.size, count))
        covariance = np.zeros((MOVES.size, count, count))
        for place, tau in enumerate(MOVES.tolist()):
            if not tau or not count:
                continue
            # by 1 + τ²A, whose smallest eigenvalue is 1, so that nothing is ever inverted that cannot be
            inner = np.eye(count) + tau * tau * precision
            covariance[place] = tau * tau * np.linalg.inv(inner)
            covariance[place] = (covariance[place] + covariance[place].T) / 2
            effect[place] = covariance[place] @ moment
            fit[place] += 0.5 * float(moment @ effect[place]) - 0.5 * float(np.linalg.slogdet(inner)[1])
        weight = np.exp(fit - fit.max())
        compared = int(((w > 0) & ((w > 0).sum(axis=0) > 1)).any(axis=1).sum())
        return cls(
            depths=played,
            campaigns=count,
            compared=compared,
            weight=weight / weight.sum(),
            shares=shares,
            effect=effect,
            covariance=covariance,
        )

    @classmethod
    def of_engagement(cls, engagement: Engagement, campaigns: Sequence[EngagementCounts]) -> Movement:
        """Of the logit of engagement. campaigns: the counts of each, the oldest first, together its own."""
        whole = engagement.counts
        codes = sum(int(counts.sent.sum()) for counts in campaigns)
        if codes != int(whole.sent.sum()):
            found = f"{codes:,} codes of {len(campaigns)} campaigns"
            raise InputError("counts by campaign", found=found, expected=f"the {whole.sent.sum():,} codes learned")
        curve = EngagementCurve.of(engagement.posterior, whole.depths, drift=engagement.drift)
        columns = len(curve.logits)
        sent, used = (np.zeros((len(campaigns), whole.depths.size, columns)) for _ in range(2))
        for place, counts in enumerate(campaigns):
            rows = np.searchsorted(whole.depths, counts.depths)
            sent[place, rows] = counts.sent.reshape(-1, columns)
            used[place, rows] = counts.redeemed.reshape(-1, columns)
        levels, information = code_levels(sent, used, curve.logits.T)
        return cls.of(whole.depths, levels=levels, information=information, forgetting=engagement.forgetting)

    @property
    def rests_on_prior(self) -> bool:
        """Whether no two campaigns could be compared, so that past campaigns say nothing about τ."""
        return self.compared < 2

    @cached_property
    def typical(self) -> float:
        """The posterior median of τ: about how far a campaign's level is from the long run, as an sd."""
        below = np.concatenate(([0.0], np.cumsum(self.weight)))
        place = int(np.searchsorted(below, 0.5)) - 1
        return float(_EDGES[place] + np.diff(_EDGES)[place] * (0.5 - below[place]) / self.weight[place])

    def added_variance(self, depths: ArrayLike) -> Matrix:
        """(τ, K) E(u_new − Σω·u)² given τ: what a prediction's variance has beyond the belief's.

        At an unplayed depth, that of the nearest one played; without any campaign, τ².
        """
        asked = read_depth_column(depths)
        own = np.repeat((MOVES * MOVES)[:, None], asked.size, axis=1)
        if not self.depths.size:
            return own
        omega = self.shares[np.abs(asked[:, None] - self.depths).argmin(axis=1)]
        return np.asarray(
            own + np.einsum("kc,tcd,kd->tk", omega, self.covariance, omega) + (self.effect @ omega.T) ** 2
        )

    def reach(self, depths: ArrayLike, variance: ArrayLike, level: float = 0.9) -> Vector:
        """(K,) half-width of a central interval about the belief's location, whose own variance (K,) is given.

        The predictive law is a mixture of normals over τ, with longer tails than any of them.
        """
        share = (1 + read_level(level)) / 2
        sd = np.sqrt(self.added_variance(depths) + np.asarray(variance, np.float64))
        return mixture_quantile(sd, self.weight, share)

    def shifts(self, depths: ArrayLike, *, count: int, generator: np.random.Generator) -> Matrix:
        """(count, K) draws of u_new − Σω·u about 0, the same movement at all depths but for ω."""
        asked, draws = read_depth_column(depths), read_count(count, where="count")
        which = np.searchsorted(np.cumsum(self.weight)[:-1], generator.random(draws), side="right")
        shift = np.repeat((MOVES[which] * generator.standard_normal(draws))[:, None], asked.size, axis=1)
        if not self.depths.size:
            return shift
        omega = self.shares[np.abs(asked[:, None] - self.depths).argmin(axis=1)]
        drawn, off = generator.standard_normal((draws, self.campaigns)), generator.standard_normal((draws, 1))
        for place in np.unique(which).tolist():
            rows = which == place
            values, vectors = np.linalg.eigh(self.covariance[place])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            moved = off[rows] * self.effect[place] + drawn[rows] @ root.T  # û widens both sides: no mean moves
            shift[rows] -= moved @ omega.T
        return shift

    def words(self, what: str) -> str:
        """One sentence about how far `what` (such as "the share who buy") moves, and what that rests on."""
        if self.rests_on_prior:
            seen = {0: "No past campaign", 1: "One past campaign"}.get(
                self.campaigns, f"{self.campaigns} past campaigns without a common depth"
            )
            return (
                f"{seen}: how far {what} moves between campaigns is not known yet, so the ranges of the next campaign "
                f"rest on an assumption: about {self.typical:.0%}, perhaps several times as much."
            )
        return f"Between {self.compared} past campaigns {what} moved by about {self.typical:.0%}."


def mixture_quantile(sd: Matrix, weight: Vector, share: float) -> Vector:
    """(K,) x with Σ_τ weight_τ·Φ(x/sd_τk) = share, above one half, by halving."""
    low, high = np.zeros(sd.shape[1]), np.full(sd.shape[1], 40.0) * np.maximum(sd.max(axis=0), 1e-300)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = weight @ _normal_cdf(middle / np.maximum(sd, 1e-300))
        low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
    return np.asarray((low + high) / 2)


def _normal_cdf(x: Matrix) -> Matrix:
    tails = np.fromiter(map(math.erfc, (-x / math.sqrt(2.0)).ravel().tolist()), np.float64, x.size)
    return 0.5 * tails.reshape(x.shape)


def code_levels(sent: Matrix, used: Matrix, logits: Matrix) -> tuple[Matrix, Matrix]:
    """(campaigns, depths) by how much the logit of each campaign lies above the given one, and 1/variance of that.

    sent, used: (campaigns, depths, columns). logits: (depths, columns).

    The mode with a prior N(0, 1), from which the prior is taken out again: y = m + (used − expected)/information, the
    working observation of Newton's method. So a campaign whose codes nobody used has a finite level that says little.
    """
    level = np.zeros(sent.shape[:2])
    for step in range(_STEPS + 1):
        rates = expit(logits + level[:, :, None])
        slope = (used - sent * rates).sum(axis=2)
        information = (sent * rates * (1.0 - rates)).sum(axis=2)
        if step < _STEPS:  # the last round has slope and curvature at the mode
            level += np.clip((slope - level) / (information + 1.0), -1.0, 1.0)
    return level + slope / np.where(information > 0, information, 1.0), information
