"""The belief about a campaign's totals: one θ for everybody per draw, because errors of θ do not average out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from disco.belief.elementary import exponential
from disco.belief.grid import read_context, read_count, read_depth_column
from disco.belief.law import LOG_EDGE
from disco.records.arrays import Integers, Matrix
from disco.records.errors import InputError
from disco.records.identity import name_key

if TYPE_CHECKING:
    from disco.belief.engagement import Engagement
    from disco.belief.model import BasketModel


def draw_full_price_totals(
    model: BasketModel,
    context: object,
    choice: object,
    depths: object,
    *,
    engagement: Engagement,
    draws: int = 500,
    seed: int = 0,
) -> Matrix:
    """Draws of T_a = Σ F over the purchasers among those who get depth a, shape (draws, depths).

    `choice` is the column of `depths` each customer gets, −1 for none (as an `Allocation` says it). Revenue is
    Σ_a (1−a)·T_a, markdown Σ_a a·T_a. Per draw: one θ, one engagement rate per depth; given these the total over
    independent purchasers has mean e·Σφ and variance Σ(e·φ²·exp(σ²) − e²φ²), φ = exp(ψᵀθ + σ²/2), and is taken as
    normal, never below 0.
    """
    contexts = read_context(context, size=model.context_size)
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
    posterior, law = model.fitted(contexts.shape[1])
    generator = np.random.Generator(np.random.Philox(key=name_key(seed)))
    theta = posterior.draws(count, generator)
    variance = posterior.noise_sd**2
    first, second = _sums(
        contexts, columns, model.encoded(offered), theta.reshape(count, *law.mean.shape), variance / 2
    )
    rates = engagement.draws(offered, count=count, generator=generator)
    spread = np.sqrt(np.maximum(rates * second * math.exp(variance) - rates**2 * second, 0.0))
    return np.maximum(rates * first + spread * generator.standard_normal(first.shape), 0.0)


@nb.njit(cache=True, nogil=True)
def _sums(context: Matrix, choice: Integers, encoded: Matrix, thetas: Matrix, shift: float) -> tuple[Matrix, Matrix]:
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
            line = weights[a, 0] + shift
            for i in range(1, p):
                line += weights[a, i] * (np.rint(context[row, i - 1] * 65536.0) / 65536.0)
            money = exponential(min(max(line, -LOG_EDGE), LOG_EDGE))
            first[draw, a] += money
            second[draw, a] += money * money
    return first, second
