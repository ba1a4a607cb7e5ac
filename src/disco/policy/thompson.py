"""Thompson sampling (TS-IP): act on a draw from the posterior, so that a depth is tried as often as it may be best."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from disco.belief.algebra import shifted
from disco.belief.elementary import stream_normals
from disco.belief.model import BasketModel
from disco.belief.serving import FullPrices
from disco.policy.base import keys_of, read_figure, stream_of
from disco.records.arrays import Floats
from disco.records.errors import InputError
from disco.records.ports import Engine

Scope = Literal["customer", "round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thompson:
    """F̃ = exp(ψᵀθ̃) with θ̃ ~ N(V⁻¹B, (exploration·σ̂)²V⁻¹).

    Scope `customer`: one θ̃ per customer, shared by its depths. Scope `round`: one θ̃ per (seed, campaign), shared by
    everybody. Draws at two depths are never independent: they come from one curve.

    >>> draw = Thompson(exploration=0.5).full_prices
    >>> model = BasketModel(noise_sd=0.5).update([[0.5], [1.0]], [0.1, 0.2], [20.0, 30.0])
    >>> both = draw(model, [[0.5], [1.0]], [0.1, 0.2], ids=["ann", "bob"], seed=1, campaign="c")
    >>> bob = draw(model, [[1.0]], [0.1, 0.2], ids=["bob"], seed=1, campaign="c")
    >>> bool((both[1] == bob[0]).all())
    True
    """

    name: ClassVar[str] = "thompson"
    exploration: float = 1.0
    scope: Scope = "customer"

    def __post_init__(self) -> None:
        object.__setattr__(self, "exploration", read_figure(self.exploration, where="Thompson exploration"))
        if self.scope not in ("customer", "round"):
            raise InputError("Thompson scope", found=repr(self.scope), expected="'customer' or 'round'")

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
        stream = stream_of(seed, campaign, f"{self.name} {self.scope}")
        if self.scope == "round":
            law = offer.law
            normals = stream_normals(np.uint64(stream), law.mean.size)
            theta = shifted(law.mean.ravel(), law.root, normals, self.exploration * law.noise_sd)
            return offer.means(theta=theta.reshape(law.mean.shape), dtype=dtype, engine=engine)
        return offer.draws(keys, stream=stream, exploration=self.exploration, dtype=dtype, engine=engine)
