"""Upper confidence bound (UCB-IP): be optimistic where little is known."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices
from disco.policy.base import keys_of, read_figure, stream_of
from disco.records.arrays import Floats
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperConfidence:
    """F̃ = exp(ψᵀV⁻¹B + c·σ̂·√(ψᵀV⁻¹ψ)), c = `exploration`.

    >>> model = BasketModel(noise_sd=0.5).update([[0.5]], [0.1], [20.0])
    >>> high = UpperConfidence(exploration=2.0).full_prices(model, [[0.5]], [0.1], ids=[7], seed=1, campaign="c")
    >>> mean, sd = model.predict([[0.5]], [0.1])
    >>> bool(np.isclose(high[0, 0], np.exp(mean + 2.0 * sd)[0]))
    True
    """

    name: ClassVar[str] = "ucb"
    exploration: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exploration", read_figure(self.exploration, where="UpperConfidence exploration"))

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
        return offer.bounds(exploration=self.exploration, dtype=dtype, engine=engine)
