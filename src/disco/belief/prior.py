"""The prior of θ: one precision per block of ψ = [1, ψ1, ψ2, ψ1×ψ2]."""

from dataclasses import dataclass

import numpy as np

from disco.records.arguments import read_numbers
from disco.records.arrays import Vector
from disco.records.errors import InputError

#: The noise prior: σ² behaves as if NOISE_PRIOR_ROWS residuals of sd NOISE_PRIOR_SD had been seen before any data.
#: 0.7 is the spread of ln(basket) in retail; two rows are forgotten after a few dozen purchases.
NOISE_PRIOR_ROWS = 2.0
NOISE_PRIOR_SD = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Independent normal priors on Θ, shape (1+d1, 1+d2), by block; the constant's own precision lives in the model.

    `context` holds for ψ1, `depth` for ψ2, `interaction` for ψ1×ψ2; the last two are one number or one per depth
    feature, `depth_mean` likewise. Relative precisions enter V0 as they are. With `absolute`, they are 1/sd² in units
    of ln F, and enter as V0 = σ²/sd² (a prior mean m enters as B0 = V0·m).

    >>> Prior(context=2.0, depth=3.0, interaction=4.0).precision(1, 2, constant=1e-6).tolist()
    [1e-06, 3.0, 3.0, 2.0, 4.0, 4.0]
    """

    context: float = 1.0
    depth: float | tuple[float, ...] = 1.0
    interaction: float | tuple[float, ...] = 1.0
    depth_mean: float | tuple[float, ...] = 0.0
    absolute: bool = False

    def __post_init__(self) -> None:
        for name in ("context", "depth", "interaction", "depth_mean"):
            given = getattr(self, name)
            numbers = read_numbers(given, where=f"prior of the {name} block", positive=name != "depth_mean")
            object.__setattr__(self, name, numbers[0] if np.ndim(given) == 0 else numbers)
        if not isinstance(self.absolute, bool | np.bool_):
            raise InputError("prior, absolute", found=repr(self.absolute), expected="True or False")
        object.__setattr__(self, "absolute", bool(self.absolute))

    def precision(self, d1: int, d2: int, *, constant: float) -> Vector:
        """The diagonal of V0 in the order of Θ's rows, shape ((1+d1)·(1+d2),)."""
        table = np.empty((1 + d1, 1 + d2))
        table[0, 0] = constant
        table[1:, 0] = self.context
        table[0, 1:] = self._per_feature("depth", d2)
        table[1:, 1:] = self._per_feature("interaction", d2)
        return table.ravel()

    def mean(self, d1: int, d2: int) -> Vector:
        """The prior mean of θ, in the same order; only the depth block may differ from 0."""
        table = np.zeros((1 + d1, 1 + d2))
        table[0, 1:] = self._per_feature("depth_mean", d2)
        return table.ravel()

    def _per_feature(self, name: str, d2: int) -> Vector:
        values = np.atleast_1d(np.asarray(getattr(self, name), np.float64))
        if values.size not in (1, d2):
            raise InputError(f"prior of the {name} block", found=f"{values.size} numbers", expected=f"1 or {d2}")
        return np.broadcast_to(values, (d2,))
