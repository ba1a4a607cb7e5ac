"""Engagement e_a: the share of receivers who buy with the code, by depth, for the population and for each customer.

A customer's rates are served as means, or drawn: logit p = logits[column] + tilt·h + roots[column]·z, z standard
normal. As in `law.py`, kernels work on blocks with one line per quantity. The covariance belongs to the column (the bin
of the score), so customers of one column are put together first: their roots are then the same numbers for a whole
block. A customer's draw is a pure function of (stream, customer key) and their score; neither block nor chunk changes
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.algebra import pool_adjacent, product
from disco.belief.elementary import logistic, stream_normals
from disco.belief.engagement_posterior import (
    EngagementCurve,
    EngagementPosterior,
    attenuation,
    expit,
    fit,
    levels_for,
    logit,
    lower_root,
)
from disco.belief.evidence import EngagementCounts, aged_counts
from disco.belief.inputs import read_depth_column, read_forgetting, read_only
from disco.belief.law import BLOCK, normals
from disco.records.arguments import read_column, read_count, read_level, read_positive, read_share
from disco.records.arrays import Integers, Keys, Matrix, Vector
from disco.records.chunks import stack_rows
from disco.records.compiled import njit
from disco.records.depths import depth_percent, read_depth
from disco.records.ports import Engine
from disco.records.score import score_places

if TYPE_CHECKING:
    from disco.belief.movement import Movement

_MOST_KEPT = 16  # sets of depths whose rates are remembered
_SORTED = 8192  # rows that are put in order together: their rates stay in the processor's cache
_SURE = 0.99  # probability of a fall from which on data contradict a rise


class Contradiction(NamedTuple):
    """Two played depths of which the deeper one engages less, beyond chance."""

    shallower: float
    deeper: float
    shallower_rate: float  # estimated, of the same customers, before rates are made non-decreasing
    deeper_rate: float

    def __str__(self) -> str:
        return (
            f"Codes of {depth_percent(self.deeper)} are used less often than codes of {depth_percent(self.shallower)}, "
            f"beyond chance: an estimated {self.deeper_rate:.1%} of the same customers instead of "
            f"{self.shallower_rate:.1%}"
        )


class EngagementLaw(NamedTuple):
    """What kernels need to serve each customer's rates at K depths.

    A customer of column b (a bin of the score; the last one without a score, whose h counts as 0; without bins
    everybody is in column 0) has logit p(a) ~ N(logits[b, a] + tilt·h, roots[b]·roots[b]ᵀ), with mean rate
    expit(attenuation[b, a]·(logits[b, a] + tilt·h)). Draws and means are made non-decreasing along `order`.

    `draw_rates` gives expit(attenuation·logit) of a drawn logit: so a law whose roots are those of a part of the
    variance, and whose attenuation is that of the rest, has part of it drawn and the rest averaged over.
    """

    logits: Matrix  # (columns, K)
    tilt: float  # β
    attenuation: Matrix  # (columns, K)
    roots: Matrix  # (columns, K, rank), lower triangular where depths ascend; rows of an operator's rate are 0
    order: Integers  # the columns of depths without an operator's rate, ascending

    def rates(self, score: Vector, place: Integers, keys: Keys, stream: np.uint64) -> Matrix:
        """(K, customers) drawn rates of these customers; place: the column of each."""
        out = np.empty((self.logits.shape[1], score.size))
        draw_rates(score, place, read_only(keys), stream, self, out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class SharedDraws:
    """Draws of the parameters, one for everybody each: logit p = level[draw, a] + tilt[draw]·h + bump[draw, column]."""

    level: Matrix  # (draws, K), non-decreasing in depth but for the operator's
    tilt: Vector  # (draws,)
    bump: Matrix  # (draws, columns)

    def rates(self, centres: Vector, shares: Vector) -> Matrix:
        """(draws, K) the mean rate of a population with these shares of customers at these scores per column."""
        out = np.zeros_like(self.level)
        for column, share in enumerate(shares):
            if share:
                offset = self.tilt * centres[column] + self.bump[:, column]
                out += share * expit(self.level + offset[:, None])
        return out

    def rates_of(self, draw: int, score: Vector, place: Integers) -> Matrix:
        """(K, customers) the rates of customers with these scores in one draw; place: the column of each."""
        logits = self.level[draw] + self.bump[draw][:, None]
        none = np.ones_like(logits), np.zeros((*logits.shape, 0)), np.zeros(0, np.int64)  # no variance, no projection
        drawn = EngagementLaw(logits, float(self.tilt[draw]), *none)
        return drawn.rates(score, place, np.zeros(score.size, np.uint64), np.uint64(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Engagement:
    """Who buys with their code, by depth: learned, never falling with depth, defined everywhere.

    logit p(customer, a) = g(a) + β·h + f_bin with h the customer's engagement score (`engagement_posterior.py`);
    without bins of the score it is g(a) for everybody. Played depths are shrunk towards a line over depth, with a
    weight that is learned. Between played depths the logit is a straight line; outside them it continues with the
    slope of the line, where that rises. At an unplayed depth the variance of the logit is that of its neighbours,
    interpolated, plus `drift`²·distance to the nearer one: however many codes were played elsewhere, it may move by
    drift·√distance.

    >>> engagement = Engagement(counts=EngagementCounts([0.1, 0.3], [1000, 1000], [50, 150]), override={0.25: 0.2})
    >>> engagement.rates([0.1, 0.2, 0.3, 0.25]).round(3).tolist()
    [0.051, 0.089, 0.15, 0.2]
    """

    #: What was observed: matured codes sent and redeemed, per depth and bin of the engagement score.
    counts: EngagementCounts = field(default_factory=EngagementCounts)
    #: Those of `counts` that are known by campaign, the oldest first; any others never age.
    campaigns: Mapping[str, EngagementCounts] = field(default_factory=dict, repr=False)
    #: f in (0, 1]: codes of a campaign that is k campaigns old weigh fᵏ in the posterior. The counts stay exact.
    forgetting: float = 1.0
    #: The rate expected before any code has matured, from 0 to 1.
    prior_rate: float = 0.1
    #: How many codes that expectation is worth.
    prior_codes: float = 20.0
    #: How far logit(e) may move per square root of a unit of depth away from the depths played.
    drift: float = 1.0
    #: The population's mean rates set by the operator, {depth: rate}; they replace what was learned.
    override: Mapping[float, float] = field(default_factory=dict)
    _laws: dict[bytes, EngagementLaw] = field(default_factory=dict, init=False, repr=False)
    _rates: dict[bytes, Vector] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        read_share(self.prior_rate, where="engagement prior_rate")
        for name in ("prior_codes", "drift"):
            object.__setattr__(self, name, read_positive(getattr(self, name), where=f"engagement {name}"))
        given = {
            read_depth(depth, where="engagement override"): read_share(rate, where=f"engagement override at {depth}")
            for depth, rate in self.override.items()
        }
        object.__setattr__(self, "override", given)
        object.__setattr__(self, "forgetting", read_forgetting(self.forgetting, where="engagement forgetting"))
        object.__setattr__(self, "campaigns", MappingProxyType(dict(self.campaigns)))

    def with_codes(self, counts: EngagementCounts, *, campaign: str) -> Engagement:
        """That has also seen these codes of a campaign; counts without codes change nothing."""
        if not counts.depths.size:
            return self
        own = self.campaigns.get(campaign, EngagementCounts()) + counts
        return replace(self, counts=self.counts + counts, campaigns={**self.campaigns, campaign: own})

    def with_counts(self, counts: EngagementCounts) -> Engagement:
        """The same settings with these codes, which belong to no campaign."""
        return replace(self, counts=counts, campaigns={})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Engagement) and self._said == other._said

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # overrides are no key

    @property
    def _said(self) -> tuple[object, ...]:
        """What decides every rate: campaigns only where they age, and their order with them."""
        aged = list(self.campaigns.items()) if self.forgetting < 1.0 else None
        return self.counts, aged, self.forgetting, self.prior_rate, self.prior_codes, self.drift, self.override

    @cached_property
    def posterior(self) -> EngagementPosterior:
        """The posterior, computed when first asked for."""
        weighted = None if self.forgetting == 1.0 else aged_counts(self.counts, self.campaigns, self.forgetting)
        return fit(self.counts, prior_rate=self.prior_rate, prior_codes=self.prior_codes, weighted=weighted)

    # ---- the population ------------------------------------------------------------------------------------------

    def rates(self, depths: ArrayLike) -> Vector:
        """The population's mean rate at each depth, shape (depths,): bins are weighted by the codes they were sent."""
        asked = read_depth_column(depths)
        key = asked.tobytes()
        known = self._rates.get(key)  # a service asks about the same few depths for every customer
        if known is None:
            before = np.full(asked.size, float(self.prior_rate))
            known = self._overridden(asked, self._curve(asked).rates if self.posterior.played.size else before)
            if len(self._rates) >= _MOST_KEPT:
                self._rates.clear()
            self._rates[key] = known
        return known.copy()

    def interval(
        self, depths: ArrayLike, level: float = 0.9, *, movement: Movement | None = None
    ) -> tuple[Vector, Vector]:
        """A central interval of the population's rate at each depth; an operator's rate has no width.

        movement: how far campaigns differ; then it is the interval of the rate in the next campaign, else that of the
            rate over the campaigns learned from.

        Neither end falls with depth.
        """
        reach = NormalDist().inv_cdf((1 + read_level(level)) / 2)
        asked = read_depth_column(depths)
        nodes = self.posterior.nodes
        whole = np.union1d(asked, nodes)
        curve = self._curve(whole)
        location, variance = curve.population()
        rates, known = curve.rates, np.isin(whole, nodes)
        half = reach * np.sqrt(variance) if movement is None else movement.reach(whole, variance, level)
        ends = []
        for side in (-1.0, 1.0):
            end = location + side * half
            middle = logit(rates)  # far from the depths played a wide, skewed law may have its mean beyond an end
            end = np.minimum(end, middle) if side < 0 else np.maximum(end, middle)
            end[known] = pool_adjacent.__wrapped__(end[known], 1.0 / variance[known])
            # a depth between two played ones lies between their ends; beyond them it is bounded on one side
            least = np.maximum.accumulate(np.where(known, end, -np.inf))
            most = np.minimum.accumulate(np.where(known, end, np.inf)[::-1])[::-1]
            end = expit(np.maximum.accumulate(np.clip(end, least, most)))
            end = np.minimum(end, rates) if side < 0 else np.maximum(end, rates)  # a logit and back rounds
            ends.append(self._overridden(asked, end[np.searchsorted(whole, asked)]))
        return ends[0], ends[1]

    def draws(
        self,
        depths: ArrayLike,
        *,
        count: int,
        generator: np.random.Generator,
        movement: Movement | None = None,
    ) -> Matrix:
        """Draws of the population's rates, shape (count, depths), joint over depths; no draw falls with depth.

        movement: how far campaigns differ; then they are draws of the rates of the next campaign. Where campaigns
            played other depths, such a draw may fall with depth.
        """
        asked = read_depth_column(depths)
        shared = self.shared_draws(asked, count=count, generator=generator)
        if movement is not None:
            moved = movement.shifts(asked, count=count, generator=generator)
            shared = replace(shared, level=shared.level + moved)
        drawn = shared.rates(self.posterior.centres, self.posterior.shares)
        for column, depth in enumerate(asked.tolist()):
            if depth in self.override:
                drawn[:, column] = self.override[depth]
        return drawn

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Pairs of played depths where data say that the deeper one engages less; of nested pairs the innermost.

        The posterior probability of a fall is above 0.99, before rates are made non-decreasing.
        """
        state = self.posterior
        rates = (expit(state.levels[:, None] + state.offsets) * state.shares).sum(axis=1)
        found: list[Contradiction] = []
        for distance in range(1, state.size):
            for i in range(state.size - distance):
                j = i + distance
                pair = state.covariance[np.ix_((i, j), (i, j))]
                sd = math.sqrt(max(pair[0, 0] + pair[1, 1] - 2 * pair[0, 1], 1e-300))
                chance = NormalDist().cdf(float(state.mean[i] - state.mean[j]) / sd)
                shallower, deeper = float(state.nodes[i]), float(state.nodes[j])
                inside = any(shallower <= seen.shallower and seen.deeper <= deeper for seen in found)
                if chance > _SURE and not inside:
                    found.append(Contradiction(shallower, deeper, float(rates[i]), float(rates[j])))
        return tuple(sorted(found))

    # ---- each customer -------------------------------------------------------------------------------------------

    def rates_of(self, score: ArrayLike | None, depths: ArrayLike, *, engine: Engine | None = None) -> Matrix:
        """Each customer's own mean rate at each depth, shape (customers, depths), Fortran order.

        score: (customers,) engagement scores, NaN for those without one. None gives one row, the population's rates;
            without bins of the score everybody has the population's rates.
        depths: (depths,) from 0 to 1.
        engine: what the rows are spread over; None is this thread.
        """
        asked, bins = read_depth_column(depths), self.counts.bins
        scores = np.zeros(1) if score is None else read_column(score, where="score")
        if score is None or bins is None:
            return np.asfortranarray(np.repeat(self.rates(asked)[None, :], scores.size, axis=0))
        law = self.law(asked)
        base = np.ascontiguousarray((law.attenuation * law.logits).T)
        slope = np.ascontiguousarray((law.attenuation * law.tilt).T)

        def chunk(rows: slice) -> Matrix:
            out = np.empty((asked.size, rows.stop - rows.start))
            serve_rates(scores[rows], bins.edges, base, slope, law.order, out)
            return out.T

        return stack_rows(chunk, scores.size, engine=engine)

    def law(self, depths: ArrayLike) -> EngagementLaw:
        """What kernels need to serve or draw each customer's rates at these depths."""
        asked = read_depth_column(depths)
        key = asked.tobytes()
        kept = self._laws.get(key)  # every chunk of customers asks for the same one
        if kept is None:
            kept = self._law(asked)
            self._laws.clear()
            self._laws[key] = kept
        return kept

    def _law(self, asked: Vector) -> EngagementLaw:
        state, curve = self.posterior, self._curve(asked)
        fixed = np.array([depth in self.override for depth in asked.tolist()], np.bool_)
        location, kept = curve.located()
        logits = location - (state.tilt * state.centres)[:, None]
        for column, depth in enumerate(asked.tolist()):
            if depth in self.override:
                level = levels_for(self.override[depth], state.offsets[None, :], state.shares)[0]
                logits[:, column] = level + state.bump
                kept[:, column] = 1.0
        order = np.argsort(asked, kind="stable")
        covariances = curve.covariances() * (~fixed[:, None] & ~fixed)
        roots = np.empty_like(covariances)
        # ascending, so that a customer's draw at a depth does not depend on the order in which depths are asked for
        roots[:, order] = lower_root(covariances[:, order[:, None], order])
        return EngagementLaw(logits, state.tilt, attenuation=kept, roots=roots, order=order[~fixed[order]])

    def shared_draws(self, depths: ArrayLike, *, count: int, generator: np.random.Generator) -> SharedDraws:
        """Draws of the parameters for totals of a campaign: one draw for everybody, joint over depths."""
        draws = read_count(count, where="count")
        return self._shared(read_depth_column(depths), lambda size: generator.standard_normal((draws, size)))

    def shared_draw(self, depths: ArrayLike, *, stream: int) -> SharedDraws:
        """One draw of the parameters, a pure function of (belief, depths, stream)."""
        asked = read_depth_column(depths)
        drawn = stream_normals(np.uint64(stream), self.posterior.mean.size + asked.size + self.posterior.size)
        parts = iter(np.split(drawn[None], [self.posterior.mean.size], axis=1))
        return self._shared(asked, lambda size: next(parts)[:, :size])

    def _shared(self, asked: Vector, normals: Callable[[int], Matrix]) -> SharedDraws:
        """`normals` gives the next standard normals, one row per draw: of the parameters, then of the drift."""
        state = self.posterior
        whole = np.union1d(asked, state.nodes)
        curve = self._curve(whole)
        of_parameters, of_drift = normals(state.mean.size), normals(whole.size)
        z = state.mean + product(of_parameters, lower_root(state.covariance[None])[0].T)
        level = product(z[:, : state.size + 1], curve.rows.T) + curve.shift()
        level += np.sqrt(curve.extra) * of_drift
        level = _rising(level, 1.0 / np.maximum(curve.line_variance, 1e-12))[:, np.searchsorted(whole, asked)]
        tilt, bump = z[:, state.size + 1], z[:, state.size + 2 :]
        for column, depth in enumerate(asked.tolist()):
            if depth in self.override:
                offsets = tilt[:, None] * state.centres + bump
                level[:, column] = levels_for(self.override[depth], offsets, state.shares)
        return SharedDraws(level, tilt, bump)

    def _curve(self, depths: Vector) -> EngagementCurve:
        return EngagementCurve.of(self.posterior, depths, drift=self.drift)

    def _overridden(self, depths: Vector, rates: Vector) -> Vector:
        return np.array([self.override.get(d, r) for d, r in zip(depths.tolist(), rates.tolist(), strict=True)])


class CustomerRates:
    """Scores (NaN for customers without one) and depths checked once; what it serves is (customers, K), Fortran order.

    Draws have `exploration` times the posterior's sd. What is not drawn is averaged over: p = expit(κ·logit), κ that of
    `attenuation` for (1 − exploration²) times the variance of the logit, at the centre of the column. So the mean rate
    is nearly the same whatever the exploration. engine: what the customers are spread over; None is this thread.
    """

    __slots__ = ("depths", "engagement", "engine", "score")

    def __init__(
        self, engagement: Engagement, score: ArrayLike, depths: ArrayLike, *, engine: Engine | None = None
    ) -> None:
        self.engagement, self.engine = engagement, engine
        self.score: Vector = read_column(score, where="score")
        self.depths: Vector = read_depth_column(depths)

    def means(self) -> Matrix:
        """Each customer's own mean rates."""
        return self.engagement.rates_of(self.score, self.depths, engine=self.engine)

    def population(self) -> Vector:
        """(K,) the rates of somebody of whom nothing is known."""
        return self.engagement.rates(self.depths)

    def draws(self, keys: Keys, *, stream: int, exploration: float) -> Matrix:
        """One draw per customer, joint over their depths; a pure function of (stream, customer key) and their score."""
        law = self._left_undrawn(exploration)
        return self._served(law._replace(roots=exploration * law.roots), keys, np.uint64(stream))

    def shared_draw(self, *, stream: int, exploration: float) -> Matrix:
        """One draw of the parameters, for everybody."""
        law, shared = self._left_undrawn(exploration), self.engagement.shared_draw(self.depths, stream=stream)
        logits = law.logits + exploration * (shared.level[0] + shared.bump[0][:, None] - law.logits)
        tilt = law.tilt + exploration * (float(shared.tilt[0]) - law.tilt)
        drawn = law._replace(logits=logits, tilt=tilt, roots=np.zeros((*logits.shape, 0)))
        return self._served(drawn, np.zeros(self.score.size, np.uint64), np.uint64(0))

    def _left_undrawn(self, exploration: float) -> EngagementLaw:
        """The law with the attenuation κ of what is not drawn: 1 where all of the variance is."""
        law, left = self.engagement.law(self.depths), max(1.0 - exploration * exploration, 0.0)
        if not left:
            return law._replace(attenuation=np.ones_like(law.logits))
        variance = left * (law.roots * law.roots).sum(axis=2)
        kept = attenuation(law.logits + (law.tilt * self.engagement.posterior.centres)[:, None], variance)
        return law._replace(attenuation=np.where(variance > 0.0, kept, 1.0))  # an operator's rate may be 0 or 1

    def _served(self, law: EngagementLaw, keys: Keys, stream: np.uint64) -> Matrix:
        bins = self.engagement.counts.bins
        law = law._replace(logits=np.ascontiguousarray(law.logits), roots=np.ascontiguousarray(law.roots))

        def chunk(rows: slice) -> Matrix:
            score = self.score[rows]
            place = np.zeros(score.size, np.int64) if bins is None else bins.places(score)
            return law.rates(score, place, keys[rows], stream).T

        return stack_rows(chunk, self.score.size, engine=self.engine)


def _rising(draws: Matrix, weights: Vector) -> Matrix:
    """The non-decreasing sequence nearest to each row: max over starts of min over ends of weighted averages."""
    if (np.diff(draws, axis=1) >= 0).all():
        return draws
    size = draws.shape[1]
    total = np.concatenate((np.zeros((len(draws), 1)), np.cumsum(draws * weights, axis=1)), axis=1)
    weight = np.concatenate(([0.0], np.cumsum(weights)))
    out = np.full(draws.shape, -np.inf)
    for first in range(size):
        means = (total[:, first + 1 :] - total[:, first, None]) / (weight[first + 1 :] - weight[first])
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        out[:, first:] = np.maximum(out[:, first:], least)
    return out


# ---- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
def serve_rates(score: Vector, edges: Vector, base: Matrix, slope: Matrix, order: Integers, out: Matrix) -> None:
    """expit(base + slope·h) per depth into out (depths, customers), non-decreasing along `order`.

    base, slope (depths, columns). Blocks of customers with one line per depth, as in `law.py`: the result of a customer
    never depends on its block.
    """
    place, h, line = np.empty(BLOCK, np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, score.size, BLOCK):
        size = min(BLOCK, score.size - start)
        score_places(score[start : start + size], edges, place)
        for b in range(size):
            h[b] = score[start + b] if score[start + b] == score[start + b] else 0.0
        for a in range(base.shape[0]):
            level, rise = base[a], slope[a]
            for b in range(size):
                line[b] = level[place[b]] + rise[place[b]] * h[b]
            for b in range(size):
                out[a, start + b] = logistic(line[b])
        for step in range(1, order.size):
            before, after = order[step - 1], order[step]
            for b in range(start, start + size):
                out[after, b] = max(out[after, b], out[before, b])


@njit(cache=True, nogil=True)
def _by_column(place: Integers, first: int, size: int, begin: Integers, free: Integers, rows: Integers) -> None:
    """The rows from `first` on, sorted by their column (stable), and where each column begins."""
    columns = free.size
    begin[:] = 0
    for row in range(first, first + size):
        begin[place[row] + 1] += 1
    for column in range(columns):
        begin[column + 1] += begin[column]
        free[column] = begin[column]
    for row in range(first, first + size):
        rows[free[place[row]]] = row
        free[place[row]] += 1


@njit(cache=True, nogil=True)
def make_rising(size: int, order: Integers, rates: Matrix, floor: Matrix) -> None:
    """Rates (K, BLOCK) become the nearest ones, by the largest difference, that never fall along `order`.

    That is halfway between the largest rate of a shallower depth and the smallest of a deeper one. It favours neither
    deep nor shallow depths, as a running maximum would, and needs no branch per customer, as pooling does.
    """
    count = order.size
    for b in range(size):
        floor[0, b] = rates[order[0], b]
    for k in range(1, count):
        a = order[k]
        for b in range(size):
            floor[k, b] = max(floor[k - 1, b], rates[a, b])
    for k in range(count - 2, -1, -1):
        a, deeper = order[k], order[k + 1]
        for b in range(size):
            rates[a, b] = min(rates[a, b], rates[deeper, b])
    for k in range(count):
        a = order[k]
        for b in range(size):
            rates[a, b] = 0.5 * (rates[a, b] + floor[k, b])


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
def draw_rates(score: Vector, place: Integers, keys: Keys, stream: np.uint64, law: EngagementLaw, out: Matrix) -> None:
    """Rates of every customer into out (K, customers), joint over depths.

    score (customers,): NaN counts as 0. place (customers,): the column of each.
    """
    logits, tilt, kept, roots, order = law
    columns, depths, rank = roots.shape
    begin, free, rows = np.empty(columns + 1, np.int64), np.empty(columns, np.int64), np.empty(_SORTED, np.int64)
    key, words = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    offset, line = np.empty(BLOCK), np.empty(BLOCK)
    z, rates, floor = np.empty((rank + rank % 2, BLOCK)), np.empty((depths, BLOCK)), np.empty((depths, BLOCK))
    for first in range(0, score.size, _SORTED):
        _by_column(place, first, min(_SORTED, score.size - first), begin, free, rows)
        for column in range(columns):
            for start in range(begin[column], begin[column + 1], BLOCK):
                size = min(BLOCK, begin[column + 1] - start)
                for b in range(size):
                    row = rows[start + b]
                    key[b] = keys[row]
                    h = score[row]
                    offset[b] = tilt * h if h == h else 0.0
                normals(key, 0, size, stream, words, z)
                for a in range(depths):
                    for b in range(size):
                        line[b] = logits[column, a] + offset[b]
                    for r in range(rank):
                        step = roots[column, a, r]
                        if step == 0.0:  # half of a triangular root
                            continue
                        for b in range(size):
                            line[b] += step * z[r, b]
                    shrink = kept[column, a]
                    for b in range(size):
                        rates[a, b] = logistic(shrink * line[b])
                if order.size > 1:
                    make_rising(size, order, rates, floor)
                for a in range(depths):
                    for b in range(size):
                        out[a, rows[start + b]] = rates[a, b]
