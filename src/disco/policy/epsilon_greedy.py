"""ε-greedy: act on what is known, except for a random share of customers."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices
from disco.policy.base import keys_of, mixed, read_figure, stream_of
from disco.policy.population import population_prices
from disco.records.arrays import Flags, Floats, Keys
from disco.records.identity import customer_keys
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonGreedy:
    """As `Greedy`, but an ε-share of customers, chosen by counter, gets figures from the population's law.

    The allocation comes after, so explorers compete for the same caps as everybody.

    >>> policy = EpsilonGreedy(epsilon=0.25)
    >>> ids = np.arange(4000)
    >>> share = policy.explores(ids, seed=1, campaign="c").mean()
    >>> bool(abs(share - 0.25) < 0.03)
    True
    """

    name: ClassVar[str] = "epsilon_greedy"
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", read_figure(self.epsilon, where="EpsilonGreedy epsilon", most=1.0))

    def explores(self, ids: object, *, seed: int, campaign: str) -> Flags:
        """Which customers explore in this campaign."""
        return self._explores(customer_keys(ids), seed, campaign)

    def _explores(self, keys: Keys, seed: int, campaign: str) -> Flags:
        words = mixed(keys ^ np.uint64(stream_of(seed, campaign, "epsilon_greedy explores")))
        return np.asarray((words >> np.uint64(11)) * 2.0**-53 < self.epsilon)

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
        prices = offer.means(dtype=dtype, engine=engine)
        rows = np.flatnonzero(self._explores(keys, seed, campaign))
        stream = stream_of(seed, campaign, self.name)
        prices[rows] = population_prices(
            model, offer, keys=keys[rows], stream=stream, dtype=prices.dtype, engine=engine
        )
        return prices
