"""Random: what the same caps give when nothing about the customer is used."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices, read_dtype
from disco.policy.base import keys_of, stream_of
from disco.policy.population import population_prices
from disco.records.arrays import Floats
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True)
class Random:
    """F̃ drawn from the population's law, independent of the customer's own context; same caps as everybody.

    Not a belief about the customer, so `model.monotone` does not touch it.

    >>> draw = Random().full_prices
    >>> one = draw(BasketModel(), [[0.5]], [0.1, 0.2], ids=[7], seed=1, campaign="c")
    >>> other = draw(BasketModel(), [[-2.0]], [0.1, 0.2], ids=[7], seed=1, campaign="c")
    >>> bool((one == other).all())
    True
    """

    name: ClassVar[str] = "random"

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
        keys = keys_of(ids, len(offer.context), engine=engine)
        stream = stream_of(seed, campaign, self.name)
        return population_prices(model, offer, keys=keys, stream=stream, dtype=read_dtype(dtype), engine=engine)
