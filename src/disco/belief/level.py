"""A level that moves: what campaigns brought against their forecasts, as a walk from campaign to campaign.

For codes of a kind k (decided by a policy, or assigned at random), campaign t and depth a,

    E[actual_kta] = expected_kta · exp(c_t + b_k + d_ka + ω·ε_t),    c_t+1 = c_t + q·(η_t + ρ·δ),
    c_1 ~ N(0, τ²),  b_k ~ N(0, τ_k²),  d_ka ~ N(0, τ_d²),  δ, ε_t, η_t ~ N(0, 1).

Both kinds have one level, because both answer the same world; b and d are what stays different between kinds and
depths. ω passes with its campaign and q stays, in part in one direction (δ). With q = 0 this is the fixed level of
`calibration.py`. What is bought varies like a Poisson number of purchases of one size, and given (q, ω) the posterior
is taken as normal at its mode.

The speed of the walk is learned from the shop's own campaigns: values of q, and of m in ω² = ω0² + m², are weighed by
half-Cauchy priors with small medians times the evidence of each, and everything is averaged over them. So where little
was seen, or nothing moves, the level hardly moves; a shop that loses 7% per campaign is followed after a few of them.
The next campaign is one step further: its interval contains that step, what is not known of the level, and its own ω.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from disco.belief.calibration import EXPECTED, Backtest, campaign_variance, laplace, rows_of
from disco.belief.movement import MOVES, usual_moves
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.plan_summary import Calibration

#: q: the steps tried.
STEPS = np.array([0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.11, 0.15])
_EDGES = np.concatenate(([0.0], (STEPS[1:] + STEPS[:-1]) / 2, [STEPS[-1] * 1.2]))  # of the cells around them
_USUAL_STEP = 0.03  # the median of q before any campaign
_CAMPAIGN = 0.02  # ω0
_DIRECTION = 0.5  # ρ
_KIND = 0.03  # τ_k


def usual_steps(scale: float = _USUAL_STEP) -> Vector:
    """(q,) prior of `STEPS`: half-Cauchy with this median, in cells around each value."""
    below = np.arctan(_EDGES / scale)
    return np.asarray(np.diff(below) / below[-1])


def moving_levels(
    decided: Sequence[Backtest], at_random: Sequence[Backtest], depths: Sequence[float], *, personal: bool
) -> Mapping[bool, Calibration]:
    """The corrections of the next campaign, for codes that a policy decided (True) and for those assigned at random.

    decided, at_random: what earlier campaigns brought; `Backtest.place` orders them. personal: forecasts with
    engagement per customer.

    >>> depth, expected = np.array([0.1]), np.array([1e6])
    >>> falling = [
    ...     Backtest(depths=depth, expected=expected, actual=expected * 0.93**place, basket=50.0, place=place)
    ...     for place in range(6)
    ... ]
    >>> found = moving_levels(falling, [], [0.1], personal=True)
    >>> found[True].factors([0.1]).round(2).tolist(), round(0.93**6, 2)
    ([0.67], 0.65)
    """
    past = [(True, one) for one in decided] + [(False, one) for one in at_random]
    seen = _Rows.of(past)
    following = 1 + max((one.place for _, one in past), default=0)
    asked = _Rows.asked(np.asarray(depths, np.float64), following)
    fits = list(_Question.of(seen, asked, personal=personal).fits())
    prior = np.outer(usual_steps(), usual_moves(_CAMPAIGN)).ravel()
    evidence = np.log(prior) + np.array([fit.evidence for fit in fits])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    means = np.array([fit.mean for fit in fits])
    mean = weight @ means
    away = means - mean
    covariance = np.tensordot(weight, np.array([fit.covariance for fit in fits]), 1) + (away.T * weight) @ away
    levels = np.array([fit.level for fit in fits])
    level = weight @ levels
    level_variance = np.array([fit.level_variance for fit in fits]) + (levels - level) ** 2
    effect = campaign_variance(np.tile(_campaigns(), STEPS.size), weight, level_variance)
    next_step = float(weight @ np.repeat(STEPS**2, MOVES.size))
    found = {}
    for kind in (True, False):
        rows = np.flatnonzero(asked.decided == kind)
        found[kind] = Calibration(
            log_factor=float(level),
            log_sd=float(np.sqrt(weight @ level_variance + effect)),
            campaigns=len({one.place for _, one in past}),
            log_factors=dict(zip(depths, mean[rows].tolist(), strict=True)),
            log_covariance=rows_of(covariance[np.ix_(rows, rows)] + effect),
            campaign_log_sd=float(np.sqrt(effect + next_step)),
            level_step=float(weight @ np.repeat(STEPS, MOVES.size)),
        )
    return found


def _campaigns() -> Vector:
    """(ω,) values tried."""
    return np.asarray(np.hypot(_CAMPAIGN, MOVES))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """One row per campaign, kind and depth; amounts in purchases."""

    place: Integers
    decided: Flags
    depth: Vector
    expected: Vector
    actual: Vector

    @classmethod
    def of(cls, past: Sequence[tuple[bool, Backtest]]) -> "_Rows":
        sizes = [one.depths.size for _, one in past]
        none = np.zeros(0)
        return cls(
            place=np.repeat(np.array([one.place for _, one in past], np.int64), sizes),
            decided=np.repeat(np.array([kind for kind, _ in past], np.bool_), sizes),
            depth=np.concatenate([none, *(one.depths for _, one in past)]),
            expected=np.concatenate([none, *(one.expected / one.basket for _, one in past)]),
            actual=np.concatenate([none, *(one.actual / one.basket for _, one in past)]),
        )

    @classmethod
    def asked(cls, depths: Vector, place: int) -> "_Rows":
        """A campaign that is to be forecast: both kinds at these depths."""
        both, unknown = np.tile(depths, 2), np.zeros(2 * depths.size)
        decided = np.arange(both.size) < depths.size
        return cls(place=np.full(both.size, place), decided=decided, depth=both, expected=unknown, actual=unknown)

    def of_kind(self, personal: bool, name: str) -> Vector:
        """(rows,) what is usual for codes of their kind."""
        usual = (getattr(EXPECTED[kind, personal], name) for kind in (True, False))
        return np.asarray(np.where(self.decided, *usual))


class _Parts(NamedTuple):
    """Covariances between two sets of rows, taken apart."""

    level: Matrix  # of c_1
    walk: Matrix  # of c_t, per q²
    other: Matrix  # of b + d

    @classmethod
    def between(cls, one: _Rows, other: _Rows, *, personal: bool) -> "_Parts":
        same = one.decided[:, None] == other.decided
        by_depth = (one.of_kind(personal, "depth") ** 2)[:, None] * (one.depth[:, None] == other.depth)
        walked = np.minimum(one.place[:, None], other.place) + _DIRECTION**2 * np.outer(one.place, other.place)
        return cls(
            level=np.outer(one.of_kind(personal, "common"), other.of_kind(personal, "common")),
            walk=walked.astype(np.float64),
            other=same * (_KIND**2 + by_depth),
        )

    def moving(self, step: float) -> Matrix:
        """Of c."""
        return np.asarray(self.level + step**2 * self.walk)

    def whole(self, step: float) -> Matrix:
        """Of c + b + d."""
        return self.moving(step) + self.other


class _Fit(NamedTuple):
    """What past campaigns say about the next one, with one q and one ω."""

    line: Vector  # (rows,) the mode for what was seen
    mean: Vector  # (asked,) of c + b + d
    covariance: Matrix  # (asked, asked) of it
    level: float  # mean of c
    level_variance: float
    evidence: float  # ln of the chance of what was bought, up to a constant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Question:
    """The next campaign, given what was seen."""

    seen: _Rows
    between: _Parts  # of what was seen
    towards: _Parts  # from it to what is asked
    asked: _Parts

    @classmethod
    def of(cls, seen: _Rows, asked: _Rows, *, personal: bool) -> "_Question":
        return cls(
            seen=seen,
            between=_Parts.between(seen, seen, personal=personal),
            towards=_Parts.between(seen, asked, personal=personal),
            asked=_Parts.between(asked, asked, personal=personal),
        )

    def fits(self) -> Iterator[_Fit]:
        """With every q, and with every ω for each."""
        start: Vector | None = None
        for step in STEPS.tolist():
            for campaign in _campaigns().tolist():
                fit = self._fit(step, campaign, start)
                start = fit.line
                yield fit

    def _fit(self, step: float, campaign: float, start: Vector | None) -> _Fit:
        """start: a mode that is near."""
        seen, prior = self.seen, self.asked.whole(step)
        level_prior = float(self.asked.moving(step)[0, 0])
        if not seen.place.size:  # nothing was seen, and most plans of a new shop are made so
            return _Fit(np.zeros(0), np.zeros(len(prior)), prior, 0.0, level_prior, 0.0)
        shared = self.between.whole(step) + campaign**2 * (seen.place[:, None] == seen.place)
        towards, level = self.towards.whole(step), self.towards.moving(step)[:, 0]
        line, gain, evidence = laplace(shared, seen.expected, seen.actual, towards, level, start=start)
        return _Fit(
            line=line,
            mean=towards.T @ gain[:, 0],
            covariance=prior - towards.T @ gain[:, 1:-1],
            level=float(level @ gain[:, 0]),
            level_variance=level_prior - float(level @ gain[:, -1]),
            evidence=evidence,
        )
