"""From a model's evidence and settings to its posterior, and to the law of one customer's curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from disco.belief import algebra
from disco.belief.law import CurveLaw
from disco.belief.posterior import Posterior
from disco.belief.prior import NOISE_PRIOR_SD, Prior
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError

UNSEEN_LEVEL_SD = 2.0  # of ln F before any purchase was seen: seven times more or less

if TYPE_CHECKING:
    from disco.belief.encodings import Encoding
    from disco.belief.model import BasketModel


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Σψψᵀ, Σψy, Σy² and n under one encoding; entry i·(1+d2) + j of ψ is x̃_i·ã_j."""

    gram: Matrix
    moment: Vector
    square: float
    rows: float


def encoded_depths(encoding: Encoding, u: Vector) -> Matrix:
    """ã = [1, ψ2(u)], shape (depths, 1+d2), finite."""
    features = encoding.features(u)
    if not np.isfinite(features).all():
        raise InputError("encoded depth", found="features that are not finite", expected="finite features")
    return np.column_stack((np.ones(u.size), features))


def weighted_sums(model: BasketModel, encoding: Encoding, context_size: int) -> Sums:
    """The evidence under an encoding; a campaign k campaigns old weighs forgettingᵏ."""
    d = (1 + context_size) * (1 + encoding.size)
    if not model.campaigns:
        return Sums(np.zeros((d, d)), np.zeros(d), 0.0, 0.0)
    if model.forgetting == 1.0:  # exact integers first, one rounding after: the order of campaigns cannot matter
        parts, ages = [model.evidence], [0]
    else:
        parts, ages = list(model.campaigns.values()), list(range(len(model.campaigns)))[::-1]
    depths = np.concatenate([part.depths for part in parts])
    weight = np.repeat([model.forgetting**age for age in ages], [part.depths.size for part in parts])
    encoded = encoded_depths(encoding, depths / model.depth_scale)
    gram, moment, square, rows = algebra.assemble(np.concatenate([part.sums() for part in parts]), encoded, weight)
    return Sums(gram, moment, square, rows)


def posterior_of(model: BasketModel, sums: Sums, prior: Prior, *, d1: int, d2: int) -> Posterior:
    """The posterior of θ. Where σ is estimated and the prior's sds are absolute, V0 = σ̂²/sd² and σ̂ settle together."""
    constant = model.constant_precision
    if constant is None:  # decoupled: its row and column are cleared, so θ_0 stays at 0 and no other entry notices
        gram, moment = sums.gram.copy(), sums.moment.copy()
        gram[0, :] = gram[:, 0] = moment[0] = 0.0
        sums = Sums(gram, moment, sums.square, sums.rows)
    table, mean = prior.precision(d1, d2, constant=1.0 if constant is None else constant), prior.mean(d1, d2)
    variance = (model.noise_sd or NOISE_PRIOR_SD) ** 2
    for _ in range(100):  # the estimate settles within a few steps
        v0 = table.copy()
        if prior.absolute:
            v0[1:] *= variance
        posterior = Posterior.of(
            sums.gram,
            sums.moment,
            square=sums.square,
            rows=sums.rows,
            prior_precision=v0,
            prior_mean=mean,
            noise_sd=model.noise_sd,
        )
        estimate = posterior.noise_sd**2
        if not prior.absolute or abs(estimate - variance) <= 1e-10 * variance:
            break
        variance = estimate
    if constant is None:
        root = posterior.root.copy()
        root[0, 0] = 0.0  # no variance either
        posterior = replace(posterior, root=root)
    return posterior


def fit(model: BasketModel, context_size: int) -> tuple[Posterior, CurveLaw]:
    """The model's posterior and the law of a customer's curve."""
    encoding = model.encoding
    sums = weighted_sums(model, encoding, context_size)
    posterior = posterior_of(model, sums, model.prior, d1=context_size, d2=encoding.size)
    root = posterior.root if sums.rows else _limited_level(posterior)
    return posterior, CurveLaw.of(posterior.mean, root, noise_sd=posterior.noise_sd, q=1 + encoding.size)


def _limited_level(posterior: Posterior) -> Matrix:
    """R of an empty model as it is acted on: the near-flat constant is limited to what baskets of money can be.

    With its sd of hundreds every drawn curve would end at the edge of the domain, where all depths look alike.
    """
    root = posterior.root.copy()
    root[0, 0] = min(root[0, 0], UNSEEN_LEVEL_SD / posterior.noise_sd)
    root.flags.writeable = False
    return root
