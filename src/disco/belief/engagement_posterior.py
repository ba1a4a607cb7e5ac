"""The posterior of who uses a code: logit p = g(a) + β·h + f_bin, by Laplace's approximation over about 50 numbers.

    g(a) = α + δ·(a − ā) + r(a)      α ~ N(logit prior_rate, min(1/(prior_codes·r(1−r)), 9))   δ ~ N(0, 8²)
    r_j ~ N(0, τ²) per depth played      β ~ N(1, 0.3²)      f_b ~ N(0, φ²) per bin, f_none ~ N(0, 1.5²)

Codes are binomial per cell (depth, bin). τ and φ are averaged over a small grid, weighted with their marginal
likelihood, so that the shrinkage towards the line over depth and the line over the score is learned, and its
uncertainty is in the widths. All points of the grid are fitted together, by Newton steps in which the bins are
eliminated (their block of the Hessian is diagonal). Codes counted without bins have neither β nor f to be learned:
there every r_j is eliminated instead, which takes a fifth of the time (docs/decisions/133 says why both ways stay).

Exponentials and logarithms are our own and sums have a fixed order, as in `elementary.py`: equal counts give equal
bits, whatever the library beneath NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from disco.belief.algebra import pool_adjacent, product
from disco.belief.elementary import FARTHEST, exp_array, exponential, log_array, logarithm
from disco.belief.evidence import EngagementCounts
from disco.records.arrays import Matrix, Vector
from disco.records.compiled import njit, without_compiler

LEAST_RATE = 1e-6  # rates nearer to 0 or 1 count as this one where a logit or a variance is taken
_WIDEST_PRIOR = 9.0  # variance of α: 20 codes at 0.6%; for rarer events a normal would be wider than any belief
SLOPE_SD = 8.0  # prior sd of δ, the rise of the logit per unit of depth
_TILT_MEAN, _TILT_SD = 1.0, 0.3  # of β
_NO_SCORE_SD = 1.5  # of the constant of customers without a score
_BUMPS = (0.02, 0.08, 0.16, 0.32, 0.64)  # φ
_ROUGHNESS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # τ, each as likely as the other before anything is seen
_USUAL_BUMP = 0.4  # φ above this becomes less likely before anything is seen
_MOST_NODES = 40  # played depths with a number r_j of their own; more are pooled with their neighbours
_MOST_STEPS = 60
_FLAT = 1e12  # 1/τ² where no depth was played
_ENOUGH = 1e-10  # a Newton step below this is the last
_LONGEST_STEP = 2.0  # that one Newton step may move a logit
_LEAST_LOCATION = 0.05
_STEPS = np.arange(-12, 13) / 2.0  # in sds of a normal
_STEP_WEIGHTS = exp_array(-0.5 * _STEPS * _STEPS) / 5.0132565492620005  # 2·√(2π)


@dataclass(frozen=True, slots=True, eq=False)
class EngagementPosterior:
    """The Gaussian posterior of z = (g at the nodes, δ, β, f per column), moments of the average over τ and φ.

    A column is a bin of the score, the last one the customers without a score; without bins there is one column.
    """

    nodes: Vector  # (nodes,) ascending: the depths played, or groups of them
    played: Vector  # (depths,) ascending: all depths played
    centres: Vector  # (columns,) the score of each column; 0 without one
    shares: Vector  # (columns,) of the codes sent
    mean: Vector  # (nodes + 2 + columns,) of z
    covariance: Matrix  # of z

    @property
    def size(self) -> int:
        """The number of nodes."""
        return int(self.nodes.size)

    @property
    def levels(self) -> Vector:
        """g at the nodes, shape (nodes,), before it is made non-decreasing."""
        return self.mean[: self.size]

    @property
    def tilt(self) -> float:
        """β."""
        return float(self.mean[self.size + 1])

    @property
    def bump(self) -> Vector:
        """f, shape (columns,)."""
        return self.mean[self.size + 2 :]

    @property
    def offsets(self) -> Vector:
        """β·h + f at the centre of each column, shape (columns,)."""
        return np.asarray(self.tilt * self.centres + self.bump)


@dataclass(frozen=True, slots=True, eq=False)
class EngagementCurve:
    """The belief at some depths, played or not: per column of the score and for the population."""

    state: EngagementPosterior
    rows: Matrix  # (K, nodes + 1): g at each depth as a combination of (g at the nodes, δ)
    extra: Vector  # (K,) variance of the logit beyond that of the combination
    logits: Matrix  # (columns, K): logit of the mean rate at the centre of each column
    node_logits: Matrix  # (columns, nodes): the same at the nodes

    @classmethod
    def of(cls, state: EngagementPosterior, depths: Vector, *, drift: float) -> EngagementCurve:
        """At these depths: straight lines of the logit between nodes, the rising line beyond them."""
        rows, extra = _combinations(state, depths, drift)
        at_nodes = np.eye(state.size, state.size + 1)
        variance = _variances(state, at_nodes, np.zeros(state.size))
        levels = pool_adjacent.__wrapped__(state.levels, 1.0 / np.diag(state.covariance)[: state.size])
        location = levels + state.offsets[:, None]
        node_logits = np.maximum.accumulate(attenuation(location, variance) * location, axis=1)
        rising = max(float(state.mean[state.size]), 0.0)
        logits = _sums(node_logits, rows[:, :-1]) + rising * rows[:, -1]
        return cls(state=state, rows=rows, extra=extra, logits=logits, node_logits=node_logits)

    @property
    def rates(self) -> Vector:
        """(K,) the population's mean rate."""
        return np.asarray((self.state.shares[:, None] * expit(self.logits)).sum(axis=0))

    @property
    def line_variance(self) -> Vector:
        """(K,) of g."""
        size = self.state.size + 1
        return _quadratic(self.rows, self.state.covariance[:size, :size]) + self.extra

    def population(self) -> tuple[Vector, Vector]:
        """(K,) location and variance of the population's logit, to first order in z; its mean rate is `rates`."""
        state, rates, mean = self.state, expit(self.logits), self.rates
        inner = mean.clip(LEAST_RATE, 1 - LEAST_RATE)
        part = state.shares[:, None] * rates * (1.0 - rates) / (inner * (1.0 - inner))  # (columns, K)
        level, tilt = part.sum(axis=0), (part * state.centres[:, None]).sum(axis=0)
        way = np.concatenate((self.rows * level[:, None], tilt[:, None], part.T), axis=1)
        variance = np.maximum(_quadratic(way, state.covariance) + level**2 * self.extra, 1e-12)
        return _located(logit(mean), variance), variance

    def shift(self) -> Vector:
        """(K,) by which the drift moves the location of g, so that it does not move the mean rate."""
        size = self.state.size
        at_nodes = replace(self, rows=np.eye(size, size + 1), extra=np.zeros(size), logits=self.node_logits)
        nodes, _ = at_nodes.population()
        moved = self.population()[0] - _sums(nodes[None], self.rows[:, :-1])[0]
        moved -= float(self.state.mean[size]) * self.rows[:, -1]
        played = (self.rows[:, :-1] == 1.0).any(axis=1) & (self.rows[:, -1] == 0.0)
        return np.where(played, 0.0, moved)

    def located(self) -> tuple[Matrix, Matrix]:
        """(columns, K) location of the logit at the centre of each column, and κ, which leads to the mean rate."""
        variance = _variances(self.state, self.rows, self.extra)
        location = _located(self.logits, variance)
        return location, attenuation(location, variance)

    def covariances(self) -> Matrix:
        """(columns, K, K) of the logits at the centre of each column."""
        size = self.state.size + 1
        inner = _sums(_sums(self.rows, self.state.covariance[:size, :size]), self.rows)
        mixed, own = _offset_moments(self.state)
        side = _sums(mixed, self.rows)
        out = inner + side[:, :, None] + side[:, None, :] + own[:, None, None]
        every = np.arange(self.extra.size)
        out[:, every, every] += self.extra
        return np.asarray(out)


def _combinations(state: EngagementPosterior, depths: Vector, drift: float) -> tuple[Matrix, Vector]:
    """g at each depth from (g at the nodes, δ), and the variance that an unplayed depth has beyond it.

    Between nodes the average of two uncertain numbers would be less uncertain than either. So its variance is filled up
    to the interpolated one, w₁w₂·Var(g₁ − g₂), and logit(e) may drift from the nearest depth played.
    """
    nodes, count = state.nodes, depths.size
    rows = np.zeros((count, state.size + 1))
    every = np.arange(count)
    if not state.played.size:
        rows[:, 0] = 1.0
        return rows, np.zeros(count)
    right = np.searchsorted(nodes, depths).clip(0, nodes.size - 1)
    left = np.where(nodes[right] > depths, right - 1, right).clip(0)
    right = np.where(nodes[right] < depths, left, right)
    gap = nodes[right] - nodes[left]
    share = np.where(gap > 0, (depths - nodes[left]) / np.where(gap > 0, gap, 1.0), 0.0)
    share = np.where((depths < nodes[0]) | (depths > nodes[-1]), 0.0, share)
    rows[every, left] += 1.0 - share
    rows[every, right] += share
    rows[:, -1] = depths - depths.clip(nodes[0], nodes[-1])
    c = state.covariance
    differ = c[left, left] + c[right, right] - 2.0 * c[left, right]
    return rows, share * (1.0 - share) * differ + drift * drift * np.abs(depths[:, None] - state.played).min(axis=1)


def _offset_moments(state: EngagementPosterior) -> tuple[Matrix, Vector]:
    """Of β·h + f at the centre of each column: covariances with (g at the nodes, δ) (columns, nodes + 1), variances."""
    size, c, h = state.size, state.covariance, state.centres
    tilt, bump = size + 1, np.arange(size + 2, c.shape[0])
    mixed = c[tilt, : size + 1] * h[:, None] + c[bump, : size + 1]
    return mixed, c[tilt, tilt] * h**2 + 2.0 * h * c[tilt, bump] + c[bump, bump]


def _variances(state: EngagementPosterior, rows: Matrix, extra: Vector) -> Matrix:
    """(columns, K) of the logit at the centre of each column."""
    mixed, own = _offset_moments(state)
    line = _quadratic(rows, state.covariance[: state.size + 1, : state.size + 1]) + extra
    return np.maximum(line + 2.0 * _sums(mixed, rows) + own[:, None], 0.0)


def _sums(left: Matrix, right: Matrix) -> Matrix:
    """left·rightᵀ in a fixed order of summation."""
    return np.asarray((left[:, None, :] * right[None, :, :]).sum(axis=2))


def _quadratic(rows: Matrix, matrix: Matrix) -> Vector:
    """rowᵀ·matrix·row for each row."""
    return np.asarray((_sums(rows, matrix) * rows).sum(axis=1))


def expit(values: Vector) -> Vector:
    """1/(1 + e^−x)."""
    small = exp_array(-np.minimum(np.abs(values), FARTHEST))
    return np.where(values >= 0, 1.0, small) / (1.0 + small)


def logit(rate: Vector) -> Vector:
    """ln(p/(1 − p)), p kept away from 0 and 1."""
    inner = np.clip(rate, LEAST_RATE, 1 - LEAST_RATE)
    return log_array(np.atleast_1d(inner / (1 - inner))).reshape(np.shape(inner))


def attenuation(location: Matrix, variance: Matrix) -> Matrix:
    """κ with E expit(N(m, v)) = expit(κ·m), m the location.

    The mean is a sum over equal steps of the normal, which is exact to 10⁻⁵ of it up to a variance of 9. κ is even and
    nearly flat around m = 0, where it is taken a little beside it.
    """
    m = np.maximum(np.abs(location), _LEAST_LOCATION)
    shape = (-1, *(1,) * m.ndim)
    rates = expit(np.sqrt(variance) * _STEPS.reshape(shape) - m)
    return np.asarray(-logit((_STEP_WEIGHTS.reshape(shape) * rates).sum(axis=0)) / m)


def _located(logits: Matrix, variance: Matrix) -> Matrix:
    """The location m with E expit(N(m, v)) = expit(logits)."""
    offsets = np.sqrt(np.ravel(variance))[:, None] * _STEPS
    return _levels(np.ravel(logits), offsets, _STEP_WEIGHTS).reshape(np.shape(logits))


def levels_for(rate: float, offsets: Matrix, shares: Vector) -> Vector:
    """Per row the c with Σ_b shares_b·expit(c + offsets_b) = rate."""
    if not LEAST_RATE < rate < 1 - LEAST_RATE:
        return np.full(len(offsets), math.copysign(FARTHEST, rate - 0.5))
    return _levels(np.repeat(logit(np.array(rate)), len(offsets)), offsets, shares)


def _levels(target: Vector, offsets: Matrix, shares: Vector) -> Vector:
    """Per row the c with Σ_b shares_b·expit(c + offsets_b) = expit(target), by Newton steps on the logit in bounds."""
    low, high = target - offsets.max(axis=1), target - offsets.min(axis=1)
    level = 0.5 * (low + high)
    for _ in range(_MOST_STEPS):
        rates = expit(level[:, None] + offsets)
        mean = (shares * rates).sum(axis=1).clip(LEAST_RATE, 1 - LEAST_RATE)
        left = target - logit(mean)
        low, high = np.where(left > 0, level, low), np.where(left < 0, level, high)
        after = level + left * (mean * (1.0 - mean)) / (shares * rates * (1.0 - rates)).sum(axis=1)
        after = np.where((after >= low) & (after <= high), after, 0.5 * (low + high))
        done = np.abs(after - level).max() < 1e-13
        level = after
        if done:
            break
    return np.asarray(level)


def fit(
    counts: EngagementCounts,
    *,
    prior_rate: float,
    prior_codes: float,
    weighted: tuple[Matrix, Matrix] | None = None,
) -> EngagementPosterior:
    """The posterior given these counts; before any, the prior.

    weighted: codes sent and redeemed, (depths, columns), as they count where older campaigns count less.
    """
    bins = counts.bins
    columns = 1 if bins is None else bins.count + 1
    sent, used = (counts.sent, counts.redeemed) if weighted is None else weighted
    sent, used = (part.reshape(-1, columns).astype(np.float64) for part in (sent, used))
    centres = np.zeros(1) if bins is None else np.append(bins.centres, 0.0)
    nodes, sent, used = _pooled(counts.depths, sent, used)
    total = sent.sum()
    shares = sent.sum(axis=0) / total if total else np.full(columns, 1.0 / max(columns - 1, 1))
    if not total and columns > 1:  # before any code everybody has a score
        shares[-1] = 0.0
    inner = float(np.clip(prior_rate, 2 * LEAST_RATE, 1 - 2 * LEAST_RATE))
    variance = min(1.0 / (prior_codes * inner * (1.0 - inner)), _WIDEST_PRIOR)
    level = levels_for(inner, (_TILT_MEAN * centres)[None, :], shares)[0]
    start = _prior_location(float(level), variance)  # so that the population's mean rate is prior_rate
    if not nodes.size:  # nothing played: flat, as certain as `prior_codes`
        nodes, sent, used = np.zeros(1), np.zeros((1, columns)), np.zeros((1, columns))
    grid = _Grid.of(with_bins=bins is not None, columns=columns)
    rough = grid.rough if total else np.full(grid.rough.size, _FLAT)
    x = nodes - (sent.sum(axis=1) * nodes).sum() / total if total else np.zeros(nodes.size)
    if bins is None:
        with without_compiler():  # a few thousand operations: not worth waiting for the compiler
            solved = _Solved(*solve_line(x, sent[:, 0], used[:, 0], rough, start, variance))
    else:
        solved = _solve(x, sent, used, centres, grid.bumps, rough, start=start, variance=variance)
    weight = grid.prior + solved.evidence
    weight = exp_array(np.maximum(weight - weight.max(), -FARTHEST))
    weight /= weight.sum()
    mean = (weight[:, None] * solved.mean).sum(axis=0)
    away = solved.mean - mean
    spread = solved.covariance + away[:, :, None] * away[:, None, :]
    return EngagementPosterior(
        nodes=nodes,
        played=counts.depths,
        centres=centres,
        shares=shares,
        mean=mean,
        covariance=(weight[:, None, None] * spread).sum(axis=0),
    )


@lru_cache(maxsize=64)
def _prior_location(level: float, variance: float) -> float:
    """`_located` of one number; every posterior of a replay asks for the same one."""
    return float(_located(np.array(level), np.array(variance)))


def _pooled(depths: Vector, sent: Matrix, used: Matrix) -> tuple[Vector, Matrix, Matrix]:
    """At most `_MOST_NODES` depths with their counts; neighbours are put together at the mean depth of their codes."""
    if depths.size <= _MOST_NODES:
        return depths, sent, used
    codes = sent.sum(axis=1)
    before = np.cumsum(codes) - codes / 2
    group = np.minimum((before / codes.sum() * _MOST_NODES).astype(np.int64), _MOST_NODES - 1)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    nodes = np.add.reduceat(codes * depths, starts) / np.add.reduceat(codes, starts)
    return nodes, np.add.reduceat(sent, starts, axis=0), np.add.reduceat(used, starts, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Points (τ, φ), τ first, with the prior precisions that they stand for."""

    rough: Vector  # (points,) 1/τ²
    bumps: Matrix  # (points, columns) 1/φ² per bin, that of no score last; no columns without bins
    prior: Vector  # (points,) ln prior weight

    @classmethod
    def of(cls, *, with_bins: bool, columns: int) -> _Grid:
        tau = np.array(_ROUGHNESS)
        if not with_bins:
            return cls(1.0 / (tau * tau), np.empty((tau.size, 0)), np.zeros(tau.size))
        phi = np.tile(_BUMPS, tau.size)
        tau = np.repeat(tau, len(_BUMPS))
        bumps = np.repeat((1.0 / (phi * phi))[:, None], columns, axis=1)
        bumps[:, -1] = 1.0 / (_NO_SCORE_SD * _NO_SCORE_SD)
        return cls(1.0 / (tau * tau), bumps, -0.5 * (phi / _USUAL_BUMP) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    """Modes, covariances and log evidence, for every point of the grid."""

    mean: Matrix  # (points, nodes + 2 + columns) of z
    covariance: Matrix  # (points, …, …)
    evidence: Vector  # (points,) up to a constant


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
def solve_line(
    x: Vector, sent: Vector, used: Vector, rough: Vector, start: float, variance: float
) -> tuple[Matrix, Matrix, Vector]:
    """`_Solved` without bins, point by point: Newton steps for (α, δ), in which every r_j is eliminated.

    x (nodes,): depths less their mean. sent, used (nodes,). rough (points,): 1/τ².
    z = (g at the nodes, δ, β, f); β and f keep their prior, f has none.
    """
    points, count = rough.size, x.size
    mean, evidence = np.zeros((points, count + 3)), np.zeros(points)
    covariance = np.zeros((points, count + 3, count + 3))
    slope_precision = 1.0 / (SLOPE_SD * SLOPE_SD)
    total, all_used = 0.0, 0.0
    for j in range(count):
        total += sent[j]
        all_used += used[j]
    rate = (all_used + 1.0) / (total + 2.0)
    first = logarithm(rate / (1.0 - rate)) if total > 0.0 else start
    r, weight, left = np.empty(count), np.empty(count), np.empty(count)
    for point in range(points):
        rho = rough[point]
        alpha, delta = first, 0.0
        r[:] = 0.0
        move = np.inf
        for step in range(_MOST_STEPS + 1):
            # the last round has the curvature at the mode
            aa, ad, dd = 1.0 / variance, 0.0, slope_precision
            slope_a, slope_d = -(alpha - start) / variance, -delta * slope_precision
            for j in range(count):
                eta = alpha + delta * x[j] + r[j]
                small = exponential(-min(abs(eta), FARTHEST))
                p = (1.0 if eta >= 0.0 else small) / (1.0 + small)
                weight[j] = sent[j] * p * (1.0 - p)
                slope = used[j] - sent[j] * p
                left[j] = slope - rho * r[j]
                part = weight[j] / (weight[j] + rho)
                kept = weight[j] * (1.0 - part)
                aa += kept
                ad += kept * x[j]
                dd += kept * x[j] * x[j]
                slope_a += slope - part * left[j]
                slope_d += (slope - part * left[j]) * x[j]
            determinant = aa * dd - ad * ad
            if move < _ENOUGH or step == _MOST_STEPS:
                break
            step_a = (dd * slope_a - ad * slope_d) / determinant
            step_d = (aa * slope_d - ad * slope_a) / determinant
            move = 0.0
            for j in range(count):
                along = step_a + step_d * x[j]
                left[j] = (left[j] - weight[j] * along) / (weight[j] + rho)  # the step of r_j
                move = max(move, abs(along + left[j]))
            short = min(1.0, _LONGEST_STEP / max(move, _LONGEST_STEP))
            alpha += short * step_a
            delta += short * step_d
            for j in range(count):
                r[j] += short * left[j]
        square = (alpha - start) * (alpha - start) / variance + delta * delta * slope_precision
        volume = -0.5 * (logarithm(determinant) + logarithm(variance) - logarithm(slope_precision))
        for j in range(count):
            eta = alpha + delta * x[j] + r[j]
            top = max(eta, 0.0) + logarithm(1.0 + exponential(-min(abs(eta), FARTHEST)))
            evidence[point] += used[j] * eta - sent[j] * top
            square += rho * r[j] * r[j]
            volume += 0.5 * (logarithm(rho) - logarithm(weight[j] + rho))
            mean[point, j] = eta
        evidence[point] += volume - 0.5 * square
        mean[point, count], mean[point, count + 1] = delta, _TILT_MEAN
        # g_j = c_j·(α + δ·x_j) + its own noise, c_j = ρ/(weight_j + ρ)
        for j in range(count):
            c = rho / (weight[j] + rho)
            by_alpha, by_delta = c * (dd - ad * x[j]) / determinant, c * (aa * x[j] - ad) / determinant
            for k in range(j + 1):
                shared = rho / (weight[k] + rho) * (by_alpha + by_delta * x[k])
                covariance[point, j, k] = covariance[point, k, j] = shared
            covariance[point, j, j] += 1.0 / (weight[j] + rho)
            covariance[point, j, count] = covariance[point, count, j] = by_delta
        covariance[point, count, count] = aa / determinant
        covariance[point, count + 1, count + 1] = _TILT_SD * _TILT_SD
    return mean, covariance, evidence


def _solve(
    x: Vector,
    sent: Matrix,
    used: Matrix,
    centres: Vector,
    bump_precision: Matrix,
    rough: Vector,
    *,
    start: float,
    variance: float,
) -> _Solved:
    """Newton steps for u = (α, δ, β, r_1, …) and f, all points of the grid together, then Laplace's covariance."""
    points, (count, columns) = rough.size, sent.shape
    size = 3 + count
    total = sent.sum()
    precision = np.empty((points, size))
    precision[:, :3] = 1.0 / variance, 1.0 / (SLOPE_SD * SLOPE_SD), 1.0 / (_TILT_SD * _TILT_SD)
    precision[:, 3:] = rough[:, None]
    prior_mean = np.zeros(size)
    prior_mean[0], prior_mean[2] = start, _TILT_MEAN
    u = np.repeat(prior_mean[None], points, axis=0)
    if total:
        u[:, 0] = logit((used.sum() + 1.0) / (total + 2.0))
    f = np.zeros((points, columns))
    design = np.zeros((size, count, columns))  # of u, per cell
    design[0], design[1], design[2] = 1.0, x[:, None], centres[None, :]
    design[np.arange(3, size), np.arange(count)] = 1.0
    for _ in range(_MOST_STEPS):
        rates, root, cross, inner = _curvature(u, f, design, sent, precision, bump_precision)
        left = used - sent * rates
        slope_u = (design * left[:, None]).sum(axis=(2, 3)) - precision * (u - prior_mean)
        slope_f = left.sum(axis=1) - bump_precision * f
        step_u = _solved(root, (slope_u - (cross * (inner * slope_f)[:, None]).sum(axis=2))[:, :, None])[:, :, 0]
        step_f = inner * (slope_f - (cross * step_u[:, :, None]).sum(axis=1))
        move = np.abs(_logits(step_u, step_f, design)).max(axis=(1, 2))
        short = np.minimum(1.0, _LONGEST_STEP / np.maximum(move, _LONGEST_STEP))
        u, f = u + short[:, None] * step_u, f + short[:, None] * step_f
        if move.max() < _ENOUGH:
            break
    _, root, cross, inner = _curvature(u, f, design, sent, precision, bump_precision)
    eta = _logits(u, f, design)
    high = np.maximum(eta, 0.0)
    likelihood = used * eta - sent * (high + log_array(1.0 + exp_array(-np.minimum(np.abs(eta), FARTHEST))))
    square = (precision * (u - prior_mean) ** 2).sum(axis=1) + (bump_precision * f**2).sum(axis=1)
    diagonal = root[:, np.arange(size), np.arange(size)]
    freedom = log_array(bump_precision * inner).sum(axis=1)
    volume = (0.5 * log_array(precision) - log_array(diagonal)).sum(axis=1) + 0.5 * freedom
    evidence = likelihood.sum(axis=(1, 2)) - 0.5 * square + volume
    # covariance of (u, f), then of z = (g at the nodes, δ, β, f)
    uu = _solved(root, np.repeat(np.eye(size)[None], points, axis=0))
    scaled = cross * inner[:, None]
    uf = -product(uu, scaled)
    ff = -product(np.swapaxes(scaled, 1, 2), uf)
    ff[:, np.arange(columns), np.arange(columns)] += inner
    change = np.zeros((count + 2, size))
    change[:count, 0], change[:count, 1] = 1.0, x
    change[np.arange(count), 3 + np.arange(count)] = 1.0
    change[count, 1], change[count + 1, 2] = 1.0, 1.0
    zz, zf = product(product(change, uu), change.T), product(change, uf)
    covariance = np.block([[zz, zf], [np.swapaxes(zf, 1, 2), ff]])
    mean = np.concatenate(((change[None] * u[:, None, :]).sum(axis=2), f), axis=1)
    return _Solved(mean, covariance, evidence)


def _logits(u: Matrix, f: Matrix, design: Matrix) -> Matrix:
    """η per (point, node, column)."""
    node = u[:, 0, None] + u[:, 1, None] * design[1, :, 0] + u[:, 3:]
    return np.asarray(node[:, :, None] + (u[:, 2, None] * design[2, 0] + f)[:, None, :])


def _curvature(
    u: Matrix, f: Matrix, design: Matrix, sent: Matrix, precision: Matrix, bump_precision: Matrix
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Rates per cell, the root of the Hessian of u with f eliminated, that of (u, f), and 1/(that of f)."""
    rates = expit(_logits(u, f, design))
    weights = sent * rates * (1.0 - rates)
    size = design.shape[0]
    x, h = design[1, :, 0], design[2, 0]
    row = weights.sum(axis=2)  # per node
    cross = np.empty((len(u), size, sent.shape[1]))
    cross[:, 0] = weights.sum(axis=1)
    cross[:, 1] = (weights * x[:, None]).sum(axis=1)
    cross[:, 2] = cross[:, 0] * h
    cross[:, 3:] = weights
    hessian = np.zeros((len(u), size, size))
    along = np.stack((np.ones_like(x), x))
    for i in range(2):
        for j in range(i, 2):
            hessian[:, i, j] = hessian[:, j, i] = (row * (along[i] * along[j])).sum(axis=1)
        hessian[:, i, 2] = hessian[:, 2, i] = (cross[:, i] * h).sum(axis=1)
        hessian[:, i, 3:] = hessian[:, 3:, i] = row * along[i]
    hessian[:, 2, 2] = (cross[:, 2] * h).sum(axis=1)
    hessian[:, 2, 3:] = hessian[:, 3:, 2] = (weights * h).sum(axis=2)
    every = np.arange(size)
    hessian[:, every[3:], every[3:]] = row
    hessian[:, every, every] += precision
    inner = 1.0 / (cross[:, 0] + bump_precision)
    hessian -= product(cross * inner[:, None], np.swapaxes(cross, 1, 2))
    return rates, lower_root(hessian), cross, inner


def lower_root(matrices: Matrix) -> Matrix:
    """Cholesky's lower triangular L with LLᵀ = the matrix, per point; a direction without variance gives zeros."""
    left = matrices.copy()
    out = np.zeros_like(left)
    for k in range(left.shape[1]):
        pivot = np.sqrt(np.maximum(left[:, k, k], 0.0))
        column = left[:, k:, k] / np.where(pivot > 0, pivot, np.inf)[:, None]
        out[:, k:, k] = column
        left[:, k + 1 :, k + 1 :] -= column[:, 1:, None] * column[:, None, 1:]
    return out


def _solved(root: Matrix, right: Matrix) -> Matrix:
    """(LLᵀ)⁻¹·right per point, by substitution."""
    out = right.copy()
    size = root.shape[1]
    for k in range(size):
        out[:, k] /= root[:, k, k, None]
        out[:, k + 1 :] -= root[:, k + 1 :, k, None] * out[:, k, None]
    for k in reversed(range(size)):
        out[:, k] /= root[:, k, k, None]
        out[:, :k] -= root[:, k, :k, None] * out[:, k, None]
    return out
