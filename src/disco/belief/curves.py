"""Money over depths: one customer's or segment's demand curve, and the totals of a whole campaign.

A campaign's totals take one θ for everybody per draw, because errors of θ do not average out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.elementary import exponential
from disco.belief.inputs import read_depth_column
from disco.belief.law import serve_means
from disco.belief.serving import FullPrices
from disco.records.arguments import column_names, read_array, read_count, read_level
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.frames import data_frame
from disco.records.grid import GRID, LOG_PRICE_LIMIT
from disco.records.identity import name_key

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from disco.belief.engagement import Engagement
    from disco.belief.model import BasketModel

#: A depth is extrapolated where it has less than this share of the effective plays of the best-known depth.
KNOWN_SHARE = 0.1


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

    def estimates(self) -> tuple[Estimate, ...]:
        """One figure with its interval per depth."""
        ends = zip(self.mean.tolist(), self.lower.tolist(), self.upper.tolist(), strict=True)
        return tuple(Estimate(mean, lower, upper, self.level) for mean, lower, upper in ends)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DemandCurve:
    """One customer's or segment's curve. Money is per purchase: F = exp(ψᵀθ + σ_a²/2), averaged over the segment.

    `to_pandas()` is its table, one row per depth.
    """

    depths: Vector  # (depths,)
    log_full_price: Band  # of the segment's average ln F
    full_price: Band  # money per purchase before the discount
    effective_plays: Vector  # (depths,), at the segment's average context
    extrapolated: Flags  # (depths,), by effective plays: a narrow RBF's sd falls again where all of them vanish

    def __repr__(self) -> str:
        means = ", ".join(
            f"{depth:g}: {mean:.2f}" for depth, mean in zip(self.depths, self.full_price.mean, strict=True)
        )
        return f"DemandCurve(full price by depth: {means})"

    def to_arrow(self) -> pa.Table:
        """One row per depth: the full price with its interval, revenue, markdown, and how well they are known."""
        import pyarrow as pa

        money = self.full_price
        return pa.table(
            {
                "depth": self.depths,
                "full_price": money.mean,
                "full_price_lower": money.lower,
                "full_price_upper": money.upper,
                "revenue": self.revenue.mean,
                "markdown": self.markdown.mean,
                "effective_plays": self.effective_plays,
                "extrapolated": self.extrapolated,
            }
        )

    def to_pandas(self) -> pd.DataFrame:
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())

    @property
    def revenue(self) -> Band:
        """F·(1 − depth)."""
        return self.full_price.times(1.0 - self.depths)

    @property
    def markdown(self) -> Band:
        """F·depth."""
        return self.full_price.times(self.depths)


def demand_curve(
    model: BasketModel, context: ArrayLike, depths: ArrayLike, *, level: float = 0.9, draws: int = 200, seed: int = 0
) -> DemandCurve:
    """What a customer, or the average customer of a segment, would buy at each depth, if they buy.

    Mean and interval of ln F are exact under one σ (Student's t where it is estimated); money's interval is that of the
    draws, one θ for the whole segment and one σ_a per depth each.

    model: with evidence, or without: then the prior's curve.
    context: (d1,) of a customer, or (customers, d1) of a segment; numbers within ±4.
    depths: (depths,) from 0 to 1.
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
    average = np.rint(contexts * GRID).mean(axis=0) / GRID  # ln F is linear in x̃: the average context says it all
    psi = np.einsum("i,aj->aij", np.concatenate(([1.0], average)), encoded).reshape(offered.size, -1)
    mean, sd = psi @ posterior.mean, posterior.noise_sd * np.sqrt(posterior.variance_factor(psi))
    freedom = posterior.degrees_of_freedom
    share = (1 + level) / 2
    reach = float(ndtri(share) if np.isinf(freedom) else stdtrit(freedom, share))

    generator = np.random.Generator(np.random.Philox(key=name_key(seed)))
    theta = model.theta_draws(count, generator, context_size=contexts.shape[1])
    out = np.empty((offered.size, len(contexts)))
    if len(contexts) == 1:
        money = _one_customer(contexts[0], theta.reshape(count, *law.mean.shape), encoded)
    else:
        money = np.empty((count, offered.size))
        for draw in range(count):
            serve_means(contexts, theta[draw].reshape(law.mean.shape), encoded, 0.0, out)
            money[draw] = out.mean(axis=1)
    money *= np.exp(model.depth_spread.draws(offered, count=count, generator=generator) / 2)
    serve_means(contexts, law.mean, encoded, 0.0, out)
    expected = out.mean(axis=1) * np.exp(model.spread(offered) ** 2 / 2)
    lower, upper = np.quantile(money, ((1 - level) / 2, (1 + level) / 2), axis=0)
    plays = _effective_plays(model, average[None, :], offered)
    return DemandCurve(
        depths=offered,
        log_full_price=Band(mean, mean - reach * sd, mean + reach * sd, level, theta @ psi.T),
        full_price=Band(expected, lower, upper, level, money),
        effective_plays=plays,
        extrapolated=_extrapolated(model, average[None, :], plays),
    )


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
    whole: Any = exponential.__wrapped__  # its operations work on arrays as on numbers
    return np.asarray(whole(line.clip(-LOG_PRICE_LIMIT, LOG_PRICE_LIMIT)))


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


def _effective_plays(model: BasketModel, context: Matrix, depths: Vector) -> Vector:
    return model.effective_plays(np.repeat(context, depths.size, axis=0), depths)


def _extrapolated(model: BasketModel, context: Matrix, plays: Vector) -> Flags:
    played = model.evidence.depths
    most = _effective_plays(model, context, played).max() if played.size else np.inf
    return np.asarray(plays < KNOWN_SHARE * most)


def draw_full_price_totals(
    model: BasketModel,
    context: ArrayLike,
    choice: ArrayLike,
    depths: ArrayLike,
    *,
    engagement: Engagement,
    expected: ArrayLike | None = None,
    draws: int = 500,
    seed: int = 0,
) -> Matrix:
    """Draws of T_a = Σ F over the purchasers among those who get depth a, shape (draws, depths).

    `choice` is the column of `depths` each customer gets, −1 for none (as an `Allocation` says it). Revenue is
    Σ_a (1−a)·T_a, markdown Σ_a a·T_a. Per draw: one θ, one σ_a and one engagement rate per depth; given these the total
    over independent purchasers has mean e·Σφ and variance Σ(e·φ²·exp(σ_a²) − e²φ²), φ = exp(ψᵀθ + σ_a²/2), and is taken
    as normal, never below 0.

    expected (depths,): what is expected of T_a. The draws of a depth are then multiplied by one number, so that e·Σφ
    has this mean over the draws; only then are they cut at 0, so that few codes keep the spread of few codes.
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
    first, second = _sums(contexts, columns, model.encoded(offered), theta.reshape(count, *law.mean.shape))
    variance = model.depth_spread.draws(offered, count=count, generator=generator)
    first *= np.exp(variance / 2)
    second *= np.exp(variance)
    rates = engagement.draws(offered, count=count, generator=generator)
    spread = np.sqrt(np.maximum(rates * second * np.exp(variance) - rates**2 * second, 0.0))
    mean = rates * first
    totals = mean + spread * generator.standard_normal(first.shape)
    if expected is not None:
        centre = mean.mean(axis=0)
        totals *= np.asarray(expected, np.float64) / np.where(centre > 0, centre, 1.0)
    return np.asarray(np.maximum(totals, 0.0))


@njit(cache=True, nogil=True)
def _sums(context: Matrix, choice: Integers, encoded: Matrix, thetas: Matrix) -> tuple[Matrix, Matrix]:
    """Σφ and Σφ² per (draw, depth)."""
    draws, p, q = thetas.shape
    depths = encoded.shape[0]
    first, second = np.zeros((draws, depths)), np.zeros((draws, depths))
    weights = np.zeros((depths, p))
    for draw in range(draws):
        for a in range(depths):
            for i in range(p):
                weights[a, i] = 0.0
                for j in range(q):
                    weights[a, i] += thetas[draw, i, j] * encoded[a, j]
        for row in range(choice.size):
            a = choice[row]
            if a < 0:
                continue
            line = weights[a, 0]
            for i in range(1, p):
                line += weights[a, i] * (np.rint(context[row, i - 1] * GRID) / GRID)
            money = exponential(min(max(line, -LOG_PRICE_LIMIT), LOG_PRICE_LIMIT))
            first[draw, a] += money
            second[draw, a] += money * money
    return first, second
