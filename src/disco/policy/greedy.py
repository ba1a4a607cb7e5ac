"""Greedy: act on what is known, learn only by accident."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices
from disco.policy.base import keys_of, stream_of
from disco.records.arrays import Floats
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True)
class Greedy:
    """F̃ = exp(ψᵀV⁻¹B), the median basket under the posterior mean.

    >>> Greedy().full_prices(BasketModel(), [[0.5]], [0.1, 0.2], ids=[7], seed=1, campaign="c").tolist()
    [[1.0, 1.0]]
    """

    name: ClassVar[str] = "greedy"

    def full_prices(
        self,
        model: BasketModel,
        context: ArrayLike,
        depths: ArrayLike,
        *,
        ids: object,
        seed: int,
        campaign: str,
        dtype: Any = np.float64,
        engine: Engine | None = None,
    ) -> Floats:
        offer = FullPrices(model, context, depths)
        keys_of(ids, len(offer.context))
        stream_of(seed, campaign, self.name)
        return offer.means(dtype=dtype, engine=engine)
