"""Demand curves: what is believed about ln F, and the money it means, over a grid of depths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri, stdtrit

from disco.belief.grid import GRID, read_array, read_context, read_count, read_depth_column
from disco.belief.law import serve_means
from disco.belief.serving import Offer
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.errors import InputError
from disco.records.identity import name_key

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

#: A depth is extrapolated where it has less than this share of the effective plays of the best-known depth.
KNOWN_SHARE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A quantity over depths: its mean, a central interval, and the draws behind it, shape (draws, depths)."""

    mean: Vector
    low: Vector
    high: Vector
    draws: Matrix

    def times(self, factor: Vector) -> Band:
        return Band(self.mean * factor, self.low * factor, self.high * factor, self.draws * factor)


@dataclass(frozen=True, slots=True, eq=False)
class DemandCurve:
    """One customer's or segment's curve. Money is per purchase: F = exp(ψᵀθ + σ²/2), averaged over the segment."""

    depths: Vector
    log_full_price: Band  # of the segment's average ln F
    full_price: Band
    effective_plays: Vector  # at the segment's average context
    extrapolated: Flags  # by effective plays, not by sd: a narrow RBF's sd falls again where all of them vanish

    @property
    def revenue(self) -> Band:
        """F·(1 − depth)."""
        return self.full_price.times(1.0 - self.depths)

    @property
    def markdown(self) -> Band:
        """F·depth."""
        return self.full_price.times(self.depths)


def demand_curve(
    model: BasketModel, context: object, depths: object, *, level: float = 0.9, draws: int = 200, seed: int = 0
) -> DemandCurve:
    """The curve of a customer (context (d1,)) or a segment (context (customers, d1)) over depths.

    Mean and interval of ln F are exact (Student's t where σ is estimated); money's interval is that of the draws, one θ
    for the whole segment each.

    >>> from disco.belief import BasketModel
    >>> model = BasketModel(noise_sd=0.5).update([[0.5], [1.0]], [0.1, 0.2], [20.0, 30.0])
    >>> curve = demand_curve(model, [0.5], [0.1, 0.5])
    >>> bool(curve.effective_plays[0] > curve.effective_plays[1])
    True
    """
    if not 0 < level < 1:
        raise InputError("level", found=level, expected="a share between 0 and 1, such as 0.9")
    count = read_count(draws, where="draws")
    contexts = read_context(np.atleast_2d(read_array(context, where="context")), size=model.context_size)
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

    theta = posterior.draws(count, np.random.Generator(np.random.Philox(key=name_key(seed))))
    shift = posterior.noise_sd**2 / 2
    money, out = np.empty((count, offered.size)), np.empty((offered.size, len(contexts)))
    for draw in range(count):
        serve_means(contexts, theta[draw].reshape(law.mean.shape), encoded, shift, out)
        money[draw] = out.mean(axis=1)
    serve_means(contexts, law.mean, encoded, shift, out)
    low, high = np.quantile(money, ((1 - level) / 2, (1 + level) / 2), axis=0)
    plays = _effective_plays(model, average[None, :], offered)
    return DemandCurve(
        depths=offered,
        log_full_price=Band(mean, mean - reach * sd, mean + reach * sd, theta @ psi.T),
        full_price=Band(out.mean(axis=1), low, high, money),
        effective_plays=plays,
        extrapolated=_extrapolated(model, average[None, :], plays),
    )


def monotone_shares(
    model: BasketModel, context: object, depths: object, *, keys: object, seed: int = 0
) -> tuple[float, float]:
    """The share of (customer, depth-step) pairs whose served full price does not fall: at the mean, and in draws."""
    offered = np.sort(read_depth_column(depths))
    if offered.size < 2:
        raise InputError("depths", found=f"{offered.size}", expected="at least two, to have a step")
    offer = Offer(model, context, offered)
    curves = offer.means(), offer.draws(np.ascontiguousarray(keys, np.uint64), stream=name_key(seed), exploration=1.0)
    at_mean, in_draws = (float((np.diff(curve, axis=1) >= 0).mean()) for curve in curves)
    return at_mean, in_draws


def _effective_plays(model: BasketModel, context: Matrix, depths: Vector) -> Vector:
    return model.effective_plays(np.repeat(context, depths.size, axis=0), depths)


def _extrapolated(model: BasketModel, context: Matrix, plays: Vector) -> Flags:
    played = model.evidence.depths
    most = _effective_plays(model, context, played).max() if played.size else np.inf
    return np.asarray(plays < KNOWN_SHARE * most)
