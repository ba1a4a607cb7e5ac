"""Money over depths: one customer's or segment's demand curve, and the totals of a whole campaign.

A campaign's totals take one θ for everybody per draw, because errors of θ do not average out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.elementary import exp_array, exponentials, logistic
from disco.belief.engagement import Engagement
from disco.belief.inputs import read_depth_column
from disco.belief.law import FullPrices, serve_means
from disco.records.arguments import column_names, read_array, read_column, read_count, read_level
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.chunks import row_chunks, spread
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.exact_sums import GRID, LOG_PRICE_LIMIT
from disco.records.frames import Tabular
from disco.records.identity import name_key
from disco.records.ports import Engine

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.belief.model import BasketModel
    from disco.records.score import EngagementHead

#: A depth is extrapolated where it has less than this share of the effective plays of the best-known depth.
KNOWN_SHARE = 0.1
_DRAWS_AT_ONCE = 25  # of a campaign's totals, in one chunk
_BLOCK = 512  # customers at a time: their sums so far stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A quantity over depths: at each of them a mean with its central interval, and the draws behind it."""

    mean: Vector  # (depths,)
    lower: Vector  # (depths,)
    upper: Vector  # (depths,)
    level: float  # share of the probability between lower and upper
    draws: Matrix  # (draws, depths)

    def times(self, factor: Vector) -> Band:
        return Band(self.mean * factor, self.lower * factor, self.upper * factor, self.level, self.draws * factor)

    def columns(self, name: str) -> dict[str, Vector]:
        """Of a table with one row per depth."""
        return {name: self.mean, f"{name}_lower": self.lower, f"{name}_upper": self.upper}

    def estimates(self) -> tuple[Estimate, ...]:
        """One figure with its interval per depth."""
        ends = zip(self.mean.tolist(), self.lower.tolist(), self.upper.tolist(), strict=True)
        return tuple(Estimate(mean, lower, upper, self.level) for mean, lower, upper in ends)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DemandCurve(Tabular):
    """One customer's or segment's curve. Money is per purchase: F = exp(ψᵀθ + σ_a²/2)·s_a, averaged over the segment.

    `to_pandas()` is its table, one row per depth.
    """

    depths: Vector  # (depths,)
    log_full_price: Band  # of the segment's average ln F
    full_price: Band  # money per purchase before the discount
    effective_plays: Vector  # (depths,), at the segment's average context
    extrapolated: Flags  # (depths,), by effective plays: a narrow RBF's sd falls again where all of them vanish
    engagement: Band | None = None  # the segment's share of receivers who buy; None where no engagement was given
    full_price_per_code: Band | None = None  # money per code sent before the discount, likewise

    def __repr__(self) -> str:
        means = ", ".join(
            f"{depth:g}: {mean:.2f}" for depth, mean in zip(self.depths, self.full_price.mean, strict=True)
        )
        return f"DemandCurve(full price by depth: {means})"

    def to_arrow(self) -> pa.Table:
        """One row per depth: the full price with its interval, revenue, markdown, and how well they are known.

        With engagement also the share of receivers who buy and the revenue per code sent, with their intervals.
        """
        import pyarrow as pa

        columns = {
            "depth": self.depths,
            **self.full_price.columns("full_price"),
            "revenue": self.revenue.mean,
            "markdown": self.markdown.mean,
            "effective_plays": self.effective_plays,
            "extrapolated": self.extrapolated,
        }
        for name, band in (("engagement", self.engagement), ("revenue_per_code", self.revenue_per_code)):
            if band is not None:
                columns |= band.columns(name)
        return pa.table(columns)

    @property
    def revenue(self) -> Band:
        """F·(1 − depth)."""
        return self.full_price.times(1.0 - self.depths)

    @property
    def markdown(self) -> Band:
        """F·depth."""
        return self.full_price.times(self.depths)

    @property
    def revenue_per_code(self) -> Band | None:
        """p·F·(1 − depth): money per code sent, whether it is used or not. None where no engagement was given."""
        return None if self.full_price_per_code is None else self.full_price_per_code.times(1.0 - self.depths)


def demand_curve(
    model: BasketModel,
    context: ArrayLike,
    depths: ArrayLike,
    *,
    engagement: Engagement | None = None,
    head: EngagementHead | None = None,
    level: float = 0.9,
    draws: int = 200,
    seed: int = 0,
) -> DemandCurve:
    """What a customer, or the average customer of a segment, would buy at each depth, if they buy.

    With `engagement` also how likely they buy with a code, and the money per code sent.

    Mean and interval of ln F are exact under one σ (Student's t where it is estimated); money's interval is that of the
    draws, one θ for the whole segment and one σ_a per depth each.

    model: with evidence, or without: then the prior's curve.
    context: (d1,) of a customer, or (customers, d1) of a segment; numbers within ±4.
    depths: (depths,) from 0 to 1.
    engagement: who buys with a code; None leaves it out.
    head: gives the customers their engagement scores; without it they have the population's rates.
    level: share of the probability in each interval, such as 0.9.
    draws: how many draws of θ the intervals of money rest on.
    seed: equal seeds give equal draws.

    >>> from disco.belief import BasketModel
    >>> model = BasketModel(noise_sd=0.5).update([[0.5], [1.0]], [0.1, 0.2], [20.0, 30.0])
    >>> curve = demand_curve(model, [0.5], [0.1, 0.5])
    >>> bool(curve.effective_plays[0] > curve.effective_plays[1])
    True
    """
    from scipy.special import ndtri, stdtrit  # not needed by those who decide

    read_level(level)
    count = read_count(draws, where="draws")
    if column_names(context) is None:
        context = np.atleast_2d(read_array(context, where="context"))
    contexts = model.read_context(context)
    offered = read_depth_column(depths)
    if not (len(contexts) and offered.size):
        found = f"{len(contexts)} customers and {offered.size} depths"
        raise InputError("demand curve", found=found, expected="at least one of each")
    posterior, law = model.fitted(contexts.shape[1])
    encoded = model.encoded(offered)
    average = _average(contexts)  # ln F is linear in x̃: the average context says it all
    psi = np.einsum("i,aj->aij", np.concatenate(([1.0], average)), encoded).reshape(offered.size, -1)
    mean, sd = psi @ posterior.mean, posterior.noise_sd * np.sqrt(posterior.variance_factor(psi))
    freedom = posterior.degrees_of_freedom
    share = (1 + level) / 2
    reach = float(ndtri(share) if np.isinf(freedom) else stdtrit(freedom, share))

    generator = np.random.Generator(np.random.Philox(key=name_key(seed)))
    theta = model.theta_draws(count, generator, context_size=contexts.shape[1])
    spread = np.exp(model.depth_spread.draws(offered, count=count, generator=generator) / 2)
    spread *= model.money_smearing.factors(offered)
    if engagement is not None:
        mean_rates, rates_in = _receivers(engagement, head, contexts, offered, count=count, generator=generator)
    out = np.empty((offered.size, len(contexts)))
    money, rates, per_code = (np.empty((count, offered.size)) for _ in range(3))
    if len(contexts) == 1:
        money = _one_customer(contexts[0], theta.reshape(count, *law.mean.shape), encoded)
    for draw in range(count if engagement is not None or len(contexts) > 1 else 0):
        if len(contexts) > 1:
            serve_means(contexts, theta[draw].reshape(law.mean.shape), encoded, 0.0, out)
            money[draw] = out.mean(axis=1)
        else:
            out[:, 0] = money[draw]
        if engagement is not None:
            drawn = rates_in(draw)
            rates[draw], per_code[draw] = drawn.mean(axis=1), (drawn * out).mean(axis=1)
    serve_means(contexts, law.mean, encoded, 0.0, out)
    scale = model.money_factors(offered)
    answers: dict[str, Band] = {}
    if engagement is not None:
        answers["engagement"] = _band(mean_rates.mean(axis=1), rates, level)
        answers["full_price_per_code"] = _band((mean_rates * out).mean(axis=1) * scale, per_code * spread, level)
    plays, extrapolated = _experience(model, average, offered)
    return DemandCurve(
        depths=offered,
        log_full_price=Band(mean, mean - reach * sd, mean + reach * sd, level, theta @ psi.T),
        full_price=_band(out.mean(axis=1) * scale, money * spread, level),
        effective_plays=plays,
        extrapolated=extrapolated,
        **answers,
    )


def _band(mean: Vector, draws: Matrix, level: float) -> Band:
    """The mean with the central interval of the draws (draws, depths)."""
    lower, upper = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return Band(mean, lower, upper, level, draws)


def _receivers(
    engagement: Engagement,
    head: EngagementHead | None,
    contexts: Matrix,
    depths: Vector,
    *,
    count: int,
    generator: np.random.Generator,
) -> tuple[Matrix, Callable[[int], Matrix]]:
    """(depths, customers) the mean rates of a segment's customers, and a function that gives those of one draw.

    A draw is one of the parameters, for everybody. Customers who are not told apart have one column together.
    """
    bins = engagement.counts.bins
    if head is None or bins is None:
        everybody = engagement.draws(depths, count=count, generator=generator)
        return engagement.rates(depths)[:, None], lambda draw: everybody[draw][:, None]
    score = head.scores(contexts)
    shared, place = engagement.shared_draws(depths, count=count, generator=generator), bins.places(score)
    return engagement.rates_of(score, depths).T, lambda draw: shared.rates_of(draw, score, place)


def _one_customer(context: Vector, thetas: Matrix, encoded: Matrix) -> Matrix:
    """(draws, depths) what `serve_means` gives for one customer under each θ, bit for bit: its sums in its order.

    context (d1,), thetas (draws, 1+d1, 1+d2), encoded (depths, 1+d2).
    """
    c = thetas[:, 0].copy()
    for i, x in enumerate(np.rint(context * GRID) * (1.0 / GRID), start=1):
        c += thetas[:, i] * x
    line = np.repeat(c[:, :1], len(encoded), axis=1)
    for j in range(1, encoded.shape[1]):
        line += encoded[:, j] * c[:, j, None]
    return exp_array(line.clip(-LOG_PRICE_LIMIT, LOG_PRICE_LIMIT))


def monotone_shares(
    model: BasketModel, context: ArrayLike, depths: ArrayLike, *, keys: ArrayLike, seed: int = 0
) -> tuple[float, float]:
    """The share of (customer, depth-step) pairs whose served full price does not fall: at the mean, and in draws."""
    offered = np.sort(read_depth_column(depths))
    if offered.size < 2:
        raise InputError("depths", found=f"{offered.size}", expected="at least two, to have a step")
    offer = FullPrices(model, context, offered)
    curves = offer.means(), offer.draws(np.ascontiguousarray(keys, np.uint64), stream=name_key(seed), exploration=1.0)
    at_mean, in_draws = (float((np.diff(curve, axis=1) >= 0).mean()) for curve in curves)
    return at_mean, in_draws


def depth_experience(model: BasketModel, context: Matrix, depths: Vector) -> tuple[Vector, Flags]:
    """(depths,) `effective_plays` and `extrapolated` of the segment's demand curve, without the curve."""
    return _experience(model, _average(model.read_context(context)), depths)


def _average(contexts: Matrix) -> Vector:
    return np.asarray(np.rint(contexts * GRID).mean(axis=0) / GRID)


def _experience(model: BasketModel, average: Vector, depths: Vector) -> tuple[Vector, Flags]:
    def plays_at(some: Vector) -> Vector:
        return model.effective_plays(np.repeat(average[None, :], some.size, axis=0), some)

    played, plays = model.evidence.depths, plays_at(depths)
    most = plays_at(played).max() if played.size else np.inf
    return plays, np.asarray(plays < KNOWN_SHARE * most)


def draw_full_price_totals(
    model: BasketModel,
    context: ArrayLike,
    choice: ArrayLike,
    depths: ArrayLike,
    *,
    engagement: Engagement,
    score: ArrayLike | None = None,
    expected: ArrayLike | None = None,
    draws: int = 500,
    seed: int = 0,
    group: str | None = None,
    engine: Engine | None = None,
) -> Matrix:
    """Draws of T_a = Σ F over the purchasers among those who get depth a, shape (draws, depths).

    `choice` is the column of `depths` each customer gets, −1 for none (as an `Allocation` says it). Revenue is
    Σ_a (1−a)·T_a, markdown Σ_a a·T_a. Per draw: one θ, one σ_a per depth, and one draw of the parameters of engagement,
    for everybody; given these the total over independent purchasers has mean Σpφ and variance Σ(p·φ²·exp(σ_a²) − p²φ²),
    φ = exp(ψᵀθ + σ_a²/2)·s_a, and is taken as normal, never below 0. p is the customer's own rate where they have a
    score, else the population's.

    score (customers,): engagement scores, NaN for customers without one; None: one rate per depth for everybody.

    expected (depths,): what is expected of T_a. The draws of a depth are then multiplied by one number, so that e·Σφ
    has this mean over the draws; only then are they cut at 0, so that few codes keep the spread of few codes.

    group: a name for these customers. Totals of other groups, or of none, under the same seed rest on the same θ, σ_a
    and engagement, draw by draw, but who buys in them is independent: so they add up to draws of the total of all.

    engine: what the draws are spread over; None is this thread.
    """
    contexts = model.read_context(context)
    count = read_count(draws, where="draws")
    offered = read_depth_column(depths)
    columns = np.asarray(choice)
    if columns.size and columns.dtype.kind not in "iu":
        raise InputError("choice", found=f"values of type {columns.dtype}", expected="whole numbers")
    columns = np.ascontiguousarray(columns, np.int64)
    if columns.shape != (len(contexts),) or (columns.size and not -1 <= columns.min() <= columns.max() < offered.size):
        raise InputError(
            "choice",
            found=f"{columns.tolist()[:5]}…",
            expected=f"a column below {offered.size}, or −1, for each of {len(contexts)} customers",
        )
    law = model.fitted(contexts.shape[1]).law
    generator = np.random.Generator(np.random.Philox(key=name_key(seed)))
    theta = model.theta_draws(count, generator, context_size=contexts.shape[1])
    variance = model.depth_spread.draws(offered, count=count, generator=generator)
    bins = engagement.counts.bins
    rates = np.ones((count, offered.size))
    scores, place = np.zeros(0), np.zeros(0, np.int64)
    level, tilt, bump = np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0))
    if score is None or bins is None:  # everybody has p = 1 in the sums, and the rates come after them
        rates = engagement.draws(offered, count=count, generator=generator)
    else:
        scores = read_column(score, where="score", rows=len(contexts))
        place, shared = bins.places(scores), engagement.shared_draws(offered, count=count, generator=generator)
        level, tilt, bump = map(np.ascontiguousarray, (shared.level, shared.tilt, shared.bump))
    encoded, thetas = model.encoded(offered), theta.reshape(count, *law.mean.shape)

    people = _ByDepth.of(contexts, columns, scores, place, depths=offered.size)

    def chunk(part: slice) -> tuple[Matrix, Matrix, Matrix]:
        return _sums(people, encoded, thetas[part], level[part], tilt[part], bump[part])

    parts = list(spread(chunk, row_chunks(count, size=_DRAWS_AT_ONCE), engine=engine))
    first, square, both = (np.concatenate(sums) for sums in zip(*parts, strict=True))
    smeared = model.money_smearing.factors(offered)
    mean = rates * first * np.exp(variance / 2) * smeared
    own = (rates * square * np.exp(2 * variance) - rates**2 * both * np.exp(variance)) * smeared**2
    if group is not None:
        generator = np.random.Generator(np.random.Philox(key=name_key(seed, group, "purchases")))
    totals = mean + np.sqrt(np.maximum(own, 0.0)) * generator.standard_normal(mean.shape)
    if expected is not None:
        centre = mean.mean(axis=0)
        totals *= np.asarray(expected, np.float64) / np.where(centre > 0, centre, 1.0)
    return np.asarray(np.maximum(totals, 0.0))


class _ByDepth(NamedTuple):
    """Customers with a code, those of one depth beside each other, in their order: a block of them runs on vectors."""

    context: Matrix  # (context size, customers), on the grid
    score: Vector  # (customers,), 0 for none; or empty
    place: Integers  # (customers,) the column of each; or empty
    start: Integers  # (depths + 1,) where the customers of a depth begin

    @classmethod
    def of(cls, context: Matrix, choice: Integers, score: Vector, place: Integers, *, depths: int) -> _ByDepth:
        order = np.argsort(choice, kind="stable")
        start = np.searchsorted(choice[order], np.arange(depths + 1))
        order, start = order[start[0] :], start - start[0]
        rounded = np.ascontiguousarray((np.rint(context[order] * GRID) / GRID).T)
        if not score.size:
            return cls(rounded, score, place, start)
        return cls(rounded, np.nan_to_num(score[order], nan=0.0), place[order], start)


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(
    people: _ByDepth, encoded: Matrix, thetas: Matrix, level: Matrix, tilt: Vector, bump: Matrix
) -> tuple[Matrix, Matrix, Matrix]:
    """Σpφ, Σpφ² and Σp²φ² per (draw, depth), φ = exp(ψᵀθ). Sums are in the order of the customers, so chunks of draws
    and blocks of customers change no bit.

    logit p = level[draw, a] + tilt[draw]·h + bump[draw, column]; p is 1 where customers have no scores. level (draws,
    depths), tilt (draws,), bump (draws, columns), or empty.
    """
    draws, p, q = thetas.shape
    depths = encoded.shape[0]
    context, score, place, start = people
    first, square, both = np.zeros((draws, depths)), np.zeros((draws, depths)), np.zeros((draws, depths))
    told_apart = score.size > 0
    weights = np.zeros(p)
    money, rate = np.empty(_BLOCK), np.ones(_BLOCK)
    for draw in range(draws):
        for a in range(depths):
            for i in range(p):
                weights[i] = 0.0
                for j in range(q):
                    weights[i] += thetas[draw, i, j] * encoded[a, j]
            total = total_square = total_both = 0.0
            for base in range(start[a], start[a + 1], _BLOCK):
                size = min(_BLOCK, start[a + 1] - base)
                money[:] = weights[0]
                for i in range(1, p):
                    weight, line = weights[i], context[i - 1, base : base + size]
                    for b in range(size):
                        money[b] += weight * line[b]
                exponentials(money, size, LOG_PRICE_LIMIT)
                if told_apart:
                    common, steep = level[draw, a], tilt[draw]
                    for b in range(size):
                        rate[b] = common + bump[draw, place[base + b]] + steep * score[base + b]
                    for b in range(size):
                        rate[b] = logistic(rate[b])
                for b in range(size):
                    per_code = rate[b] * money[b]
                    total += per_code
                    total_square += per_code * money[b]
                    total_both += per_code * per_code
            first[draw, a], square[draw, a], both[draw, a] = total, total_square, total_both
    return first, square, both
