"""Engagement e_a: the share of receivers who buy with the code, by depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.engagement_counts import EngagementCounts
from disco.belief.inputs import read_depth_column
from disco.belief.isotonic import pool_adjacent
from disco.records.arguments import read_level, read_positive, read_share
from disco.records.arrays import Matrix, Vector
from disco.records.depths import read_depth

_LEAST_RATE = 1e-6  # rates nearer to 0 or 1 count as this one where a logit or a variance is taken
_SLOPE_SD = 5.0  # prior sd of the rise of logit(e) per unit of depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """The share of receivers who buy with their code, by depth: shrunk, never falling with depth, defined everywhere.

    At a depth played: (redeemed + s·r)/(sent + s), s = `prior_codes` and r the rate over all depths, itself shrunk
    towards `prior_rate` in the same way (so that ten codes without a purchase do not mean that nobody ever buys), then
    pooled where a deeper discount would seem to engage less. Between played depths it is a straight line; outside them
    logit(e) continues with the slope of the played ones. The belief about a rate is Beta with m = sent + s codes behind
    it; at an unplayed depth 1/m = 1/(the smaller m of its neighbours) + e(1−e)·`drift`²·distance to the nearer one:
    however many codes were played elsewhere, logit(e) may move by drift·√distance.

    >>> engagement = Engagement(counts=EngagementCounts([0.1, 0.3], [1000, 1000], [50, 150]), override={0.25: 0.2})
    >>> engagement.rates([0.1, 0.2, 0.3, 0.25]).round(4).tolist()
    [0.051, 0.1, 0.149, 0.2]
    """

    #: What was observed: matured codes sent and redeemed, per depth.
    counts: EngagementCounts = field(default_factory=EngagementCounts)
    #: The rate expected before any code has matured, from 0 to 1.
    prior_rate: float = 0.1
    #: How many codes that expectation is worth.
    prior_codes: float = 20.0
    #: How far logit(e) may move per square root of a unit of depth away from the depths played.
    drift: float = 1.0
    #: Rates set by the operator, {depth: rate}; they replace what was learned.
    override: Mapping[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (
            ("prior_rate", self.prior_rate),
            *((f"override at {d}", r) for d, r in self.override.items()),
        ):
            read_share(value, where=f"engagement {name}")
        for name in ("prior_codes", "drift"):
            object.__setattr__(self, name, read_positive(getattr(self, name), where=f"engagement {name}"))
        given = {read_depth(depth, where="engagement override"): float(rate) for depth, rate in self.override.items()}
        object.__setattr__(self, "override", given)

    def rates(self, depths: ArrayLike) -> Vector:
        """e_a for each depth, shape (depths,)."""
        asked = read_depth_column(depths)
        return self._overridden(asked, self._learned(asked)[0])

    def interval(self, depths: ArrayLike, level: float = 0.9) -> tuple[Vector, Vector]:
        """A central interval of the rate at each depth; an operator's rate has no width."""
        from scipy.special import betaincinv

        read_level(level)
        asked = read_depth_column(depths)
        rate, codes = self._learned(asked)
        ends = []
        for share in ((1 - level) / 2, (1 + level) / 2):
            inner = np.clip(rate, 1e-12, 1 - 1e-12)
            ends.append(self._overridden(asked, betaincinv(inner * codes, (1 - inner) * codes, share)))
        return ends[0], ends[1]

    def draws(self, depths: ArrayLike, *, count: int, generator: np.random.Generator) -> Matrix:
        """Draws of the rates, shape (count, depths); depths are independent given the counts."""
        asked = read_depth_column(depths)
        rate, codes = self._learned(asked)
        inner = np.clip(rate, 1e-12, 1 - 1e-12)
        drawn = generator.beta(inner * codes, (1 - inner) * codes, size=(count, asked.size))
        return np.stack([self._overridden(asked, row) for row in drawn]) if self.override else drawn

    def _overridden(self, depths: Vector, rates: Vector) -> Vector:
        return np.array([self.override.get(float(d), float(r)) for d, r in zip(depths, rates, strict=True)])

    def _learned(self, depths: Vector) -> tuple[Vector, Vector]:
        """The Beta's mean and size at each depth."""
        sent, redeemed, played = self.counts.sent, self.counts.redeemed, self.counts.depths
        if not played.size:
            return np.full(depths.size, self.prior_rate), np.full(depths.size, self.prior_codes)
        pooled = (redeemed.sum() + self.prior_codes * self.prior_rate) / (sent.sum() + self.prior_codes)
        size = np.asarray(sent + self.prior_codes, np.float64)
        rate = pool_adjacent((redeemed + self.prior_codes * pooled) / size, size)
        right = np.searchsorted(played, depths).clip(0, played.size - 1)
        left = np.where(played[right] > depths, right - 1, right).clip(0)
        right = np.where(played[right] < depths, left, right)
        distance = np.minimum(np.abs(depths - played[left]), np.abs(depths - played[right]))
        beyond = depths - depths.clip(played[0], played[-1])
        inside = np.interp(depths, played, rate)
        odds = np.exp(_slope(played, rate, size) * beyond)  # logit(e) + slope·beyond, written so that e = 0 stays 0
        mean = inside * odds / (1 - inside + inside * odds)
        # logit(e) may move by `drift`·√distance from what was played; in codes, 1/m is the variance over e(1−e)
        return mean, 1 / (1 / np.minimum(size[left], size[right]) + _spread(mean) * self.drift**2 * distance)


def _logit(rate: Vector) -> Vector:
    inner = rate.clip(_LEAST_RATE, 1 - _LEAST_RATE)
    return np.asarray(np.log(inner / (1 - inner)))


def _spread(rate: Vector) -> Vector:
    """e(1−e), the variance of one code, kept away from 0."""
    inner = rate.clip(_LEAST_RATE, 1 - _LEAST_RATE)
    return np.asarray(inner * (1 - inner))


def _slope(depths: Vector, rate: Vector, codes: Vector) -> float:
    """Rise of logit(e) per unit of depth over the played depths, shrunk towards 0; never negative, as rates ascend."""
    weight = codes * _spread(rate)
    offset = depths - np.average(depths, weights=weight)
    return float((weight * offset) @ _logit(rate) / ((weight * offset) @ offset + _SLOPE_SD**-2))
