"""Depth encodings ψ2: how a discount depth becomes a few numbers. The encoding sees u = depth / depth_scale.

An encoding is a frozen value with two duties: `features(u)` gives ψ2, and `prior()` the prior of θ that goes with it,
one precision per block of ψ = [1, ψ1, ψ2, ψ1×ψ2]. The evidence never meets one, so another encoding needs no second
look at the data.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from disco.belief.elementary import FARTHEST, exp_array
from disco.records.arguments import read_numbers
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError


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


@runtime_checkable
class Encoding(Protocol):
    """ψ2 as a value: its `kind` and fields name it in a model file."""

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """d2, the number of features."""

    def features(self, u: Vector) -> Matrix:
        """ψ2(u), shape (depths, d2)."""

    def prior(self) -> Prior:
        """The prior used when `prior_precision` is None."""

    def settings(self) -> dict[str, Any]:
        """The fields, as JSON values."""


class _Fields:
    """What the encodings of this file share: fields that name them, and the size and prior of those without another."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """d2, the number of features."""
        return 1

    def prior(self) -> Prior:
        """The prior used when `prior_precision` is None: precision 1 in every block."""
        return Prior()

    def settings(self) -> dict[str, Any]:
        """The fields, as a model file keeps them."""
        encoding: Any = self  # a dataclass
        return asdict(encoding)


@dataclass(frozen=True, slots=True)
class RadialBasis(_Fields):
    """Gaussian bumps: ψ2,z(u) = exp(−γz(u − μz)²), or the paper's literal exp(−(u − μz)²/(2αz)).

    Give `gamma` or `alpha`; neither means gamma = 20. A larger gamma is a narrower bump, a larger alpha a wider one
    (gamma = 1/(2·alpha)).

    >>> RadialBasis(centres=(0.25, 0.75), gamma=20).features(np.array([0.25])).round(6).tolist()
    [[1.0, 0.006738]]
    """

    kind: ClassVar[str] = "radial_basis"
    #: μ, where the bumps stand, in units of `depth_scale`.
    centres: tuple[float, ...] = (0.25, 0.5, 0.75)
    _: KW_ONLY
    #: One number above 0, or one per centre.
    gamma: float | tuple[float, ...] | None = None
    #: One number above 0, or one per centre.
    alpha: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", read_numbers(self.centres, where="RadialBasis centres"))
        if self.gamma is not None and self.alpha is not None:
            raise InputError(
                "RadialBasis", found="both gamma and alpha", expected="one of them", fix="gamma = 1/(2·alpha)."
            )
        if self.gamma is None and self.alpha is None:
            object.__setattr__(self, "gamma", 20.0)
        name = "gamma" if self.alpha is None else "alpha"
        given, where = getattr(self, name), f"RadialBasis {name}"
        widths = read_numbers(given, where=where, positive=True)
        if len(widths) not in (1, len(self.centres)):
            raise InputError(where, found=f"{len(widths)} widths", expected=f"1 or {len(self.centres)}")
        object.__setattr__(self, name, widths[0] if np.ndim(given) == 0 else widths)

    @property
    def size(self) -> int:
        """d2, the number of features."""
        return len(self.centres)

    def features(self, u: Vector) -> Matrix:
        """ψ2(u) for u = depth / `depth_scale`, shape (depths, d2)."""
        squared = (np.asarray(u, np.float64)[:, None] - np.array(self.centres)) ** 2
        if self.alpha is not None:
            powers = -squared / (2.0 * np.asarray(self.alpha))
        else:
            powers = -np.asarray(self.gamma) * squared
        return exp_array(np.clip(powers, -FARTHEST, FARTHEST))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearDepth(_Fields):
    """The raw depth: ψ2(u) = [u].

    >>> LinearDepth().features(np.array([0.3])).tolist()
    [[0.3]]
    """

    kind: ClassVar[str] = "linear"

    def features(self, u: Vector) -> Matrix:
        """ψ2(u) for u = depth / `depth_scale`, shape (depths, d2)."""
        return np.asarray(u, np.float64)[:, None].copy()


@dataclass(frozen=True, slots=True)
class DistanceToDepth(_Fields):
    """Euclidean distance to a reference depth: ψ2(u) = [|u − reference|].

    >>> DistanceToDepth(reference=0.5).features(np.array([0.3])).round(3).tolist()
    [[0.2]]
    """

    kind: ClassVar[str] = "distance"
    #: The depth from which distance is measured, in units of `depth_scale`.
    reference: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", read_numbers(self.reference, where="DistanceToDepth reference")[0])

    def features(self, u: Vector) -> Matrix:
        """ψ2(u) for u = depth / `depth_scale`, shape (depths, d2)."""
        return np.asarray(np.abs(np.asarray(u, np.float64)[:, None] - self.reference))


@dataclass(frozen=True, slots=True)
class OneHotDepth(_Fields):
    """One indicator per known depth: ψ2,z(u) = 1[u = depths_z]. Shares nothing; any other depth is refused.

    Two depths closer than 1e-9 are one, so that 0.15/0.5 meets one written as 0.3.

    >>> OneHotDepth(depths=(0.1, 0.3)).features(np.array([0.3])).tolist()
    [[0.0, 1.0]]
    """

    kind: ClassVar[str] = "one_hot"
    #: The depths it knows, in units of `depth_scale`.
    depths: tuple[float, ...]

    def __post_init__(self) -> None:
        depths = read_numbers(self.depths, where="OneHotDepth depths")
        if len(depths) > 1 and np.diff(np.sort(depths)).min() <= 2e-9:
            raise InputError("OneHotDepth depths", found=f"{depths} with a depth twice", expected="distinct depths")
        object.__setattr__(self, "depths", depths)

    @property
    def size(self) -> int:
        """d2, the number of features."""
        return len(self.depths)

    def features(self, u: Vector) -> Matrix:
        """ψ2(u) for u = depth / `depth_scale`, shape (depths, d2)."""
        u = np.asarray(u, np.float64)
        indicator = np.abs(u[:, None] - np.array(self.depths)) <= 1e-9
        unknown = ~indicator.any(axis=1)
        if unknown.any():
            known = ", ".join(f"{depth:g}" for depth in self.depths)
            raise InputError(
                "depth for a one-hot encoding",
                found=f"{u[unknown][0]:g} (encoded)",
                expected=f"one of {known}",
                fix="Add it to its depths, or choose an encoding that shares between depths, such as RadialBasis.",
            )
        return np.asarray(indicator, np.float64)


# The bends are the smoothest functions on [0, 1] that are orthogonal to every straight line: the 3rd and 4th
# eigenvectors of D₂ᵀD₂ (second differences) on a grid, in the limit of a fine one. There they have a closed form, the
# modes of a free beam, φ(u) = cosh ku + cos ku − s(sinh ku + sin ku) with cosh k · cos k = 1: no grid and no LAPACK.
# Each φ has unit rms; the roughness ∫φ''² is ρ = k⁴.
_MODES = (4.730040744862704, 7.853204624095838)


def _bend(u: Vector, k: float) -> Vector:
    """A free beam's mode on [0, 1], continued as a straight line outside (φ'' = φ''' = 0 at both ends)."""
    s = (np.cosh(k) - np.cos(k)) / (np.sinh(k) - np.sin(k))
    inside = np.clip(u, 0.0, 1.0)
    value = np.cosh(k * inside) + np.cos(k * inside) - s * (np.sinh(k * inside) + np.sin(k * inside))
    slope = k * (np.sinh(k * inside) - np.sin(k * inside) - s * (np.cosh(k * inside) + np.cos(k * inside)))
    # libraries differ in the last bits of cosh and cos; rounded, the same model serves the same bytes on any machine
    return np.asarray(np.rint((value + slope * (u - inside)) * 2.0**40) / 2.0**40)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothSpline(_Fields):
    """ψ2(u) = [u − ½, e1(u), e2(u)]: slope and two bends; e1 of unit rms, e2 scaled by √(ρ1/ρ2), rougher = rarer.

    Its own prior (sds in units of ln F): slope N(0.5, 0.5²), bends 0.15; per unit of context 0.3 on the level, 0.2 on
    the slope, 0.03 on the bends. So ignorance grows away from the depths played, on both sides.

    >>> SmoothSpline().features(np.array([0.5])).round(3).tolist()
    [[0.0, -1.216, 0.0]]
    """

    kind: ClassVar[str] = "smooth_spline"

    @property
    def size(self) -> int:
        """d2, the number of features."""
        return 3

    def features(self, u: Vector) -> Matrix:
        """ψ2(u) for u = depth / `depth_scale`, shape (depths, d2)."""
        u = np.asarray(u, np.float64)
        rougher = (_MODES[0] / _MODES[1]) ** 2  # √(ρ1/ρ2)
        return np.column_stack((u - 0.5, _bend(u, _MODES[0]), rougher * _bend(u, _MODES[1])))

    def prior(self) -> Prior:
        """The prior used when `prior_precision` is None, as described above."""
        return Prior(
            context=0.3**-2,
            depth=(0.5**-2, 0.15**-2, 0.15**-2),
            interaction=(0.2**-2, 0.03**-2, 0.03**-2),
            depth_mean=(0.5, 0.0, 0.0),
            absolute=True,
        )


#: The encodings of this file by their `kind`: those that a model file can name.
KINDS: dict[str, Any] = {
    kind.kind: kind for kind in (RadialBasis, SmoothSpline, LinearDepth, DistanceToDepth, OneHotDepth)
}
