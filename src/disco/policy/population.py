"""The population's law: full prices of somebody drawn from the population, whoever the customer is."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from disco.belief.algebra import half, product
from disco.belief.elementary import exponentials
from disco.belief.law import BLOCK, normals
from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices
from disco.records.arrays import Floats, Keys, Matrix, Vector
from disco.records.chunks import stack_rows
from disco.records.grid import LOG_PRICE_LIMIT
from disco.records.ports import Engine


def population_prices(
    model: BasketModel, offer: FullPrices, *, keys: Keys, stream: int, dtype: Any, engine: Engine | None = None
) -> Floats:
    """(customers, depths) draws from the population's law.

    ln F̃(a) = ãᵀΘ̂ᵀX̃ + σ̂·ε_a: X̃ a context from the population seen in the evidence (its mean and covariance; standard
    normal before any), shared by the customer's depths, ε_a the noise of a basket, one per depth. Nothing of the
    customer but their key goes in, so any customer may get any depth.
    """
    level, loading = _population(model, offer)
    word = np.uint64(stream)

    def chunk(rows: slice) -> Floats:
        drawn = np.empty((offer.depths.size, rows.stop - rows.start), dtype)
        _draw(keys[rows], word, level, loading, offer.law.noise_sd, drawn)
        return drawn.T

    return stack_rows(chunk, keys.size, engine=engine)


def _population(model: BasketModel, offer: FullPrices) -> tuple[Vector, Matrix]:
    """The law of ãᵀΘ̂ᵀX̃ over the population of purchasers, at each depth offered: mean + loading·z, z ~ N(0, I_q)."""
    d1 = offer.context.shape[1]
    sums = model.evidence.sums().sum(axis=0) if model.campaigns else np.zeros((d1 + 2, d1 + 2))
    n = sums[0, 0]
    mean = sums[0, 1 : d1 + 1] / n if n else np.zeros(d1)
    covariance = sums[1 : d1 + 1, 1 : d1 + 1] / n - np.outer(mean, mean) if n else np.eye(d1)
    theta = offer.law.mean
    centre = theta[:1] + product(mean[None, :], theta[1:])
    between = product(np.ascontiguousarray(theta[1:].T), product(covariance, theta[1:]))
    return product(offer.encoded, np.ascontiguousarray(centre.T))[:, 0], product(offer.encoded, half(between))


@nb.njit(cache=True, nogil=True)
def _draw(keys: Keys, stream: np.uint64, level: Vector, loading: Matrix, noise_sd: float, out: Floats) -> None:
    depths, q = loading.shape
    count = q + depths
    z, words, line = np.empty((count + count % 2, BLOCK)), np.empty(BLOCK, np.uint64), np.empty(BLOCK)
    for start in range(0, keys.size, BLOCK):
        size = min(BLOCK, keys.size - start)
        normals(keys, start, size, stream, words, z)
        for a in range(depths):
            for b in range(size):
                line[b] = level[a] + noise_sd * z[q + a, b]
            for j in range(q):
                weight = loading[a, j]
                for b in range(size):
                    line[b] += weight * z[j, b]
            exponentials(line, size, LOG_PRICE_LIMIT)
            for b in range(size):
                out[a, start + b] = line[b]
