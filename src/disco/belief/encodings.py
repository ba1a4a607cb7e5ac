"""Depth encodings ψ2: how a discount depth becomes a few numbers. The encoding sees u = depth / depth_scale.

An encoding is a frozen value with two duties: `features(u)` gives ψ2, and `prior()` the prior that goes with it. The
evidence never meets one, so another encoding needs no second look at the data.
"""

from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from disco.belief.elementary import exponentials
from disco.belief.grid import read_numbers
from disco.belief.prior import Prior
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError


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


@dataclass(frozen=True, slots=True)
class RadialBasis:
    """Gaussian bumps: ψ2,z(u) = exp(−γz(u − μz)²), or the paper's literal exp(−(u − μz)²/(2αz)).

    Give `gamma` or `alpha` (one number, or one per centre); neither means gamma = 20. Note the direction: a larger
    gamma is a narrower bump, a larger alpha a wider one (gamma = 1/(2·alpha)).

    >>> RadialBasis(centres=(0.25, 0.75), gamma=20).features(np.array([0.25])).round(6).tolist()
    [[1.0, 0.006738]]
    """

    kind: ClassVar[str] = "radial_basis"
    centres: tuple[float, ...] = (0.25, 0.5, 0.75)
    _: KW_ONLY
    gamma: float | tuple[float, ...] | None = None
    alpha: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", read_numbers(self.centres, where="RadialBasis centres"))
        if self.gamma is not None and self.alpha is not None:
            raise InputError(
                "RadialBasis", found="both gamma and alpha", expected="one of them", fix="gamma = 1/(2·alpha)."
            )
        if self.gamma is None and self.alpha is None:
            object.__setattr__(self, "gamma", 20.0)
        for name in ("gamma", "alpha"):
            given = getattr(self, name)
            if given is None:
                continue
            widths = read_numbers(given, where=f"RadialBasis {name}", positive=True)
            if len(widths) not in (1, len(self.centres)):
                raise InputError(
                    f"RadialBasis {name}", found=f"{len(widths)} widths", expected=f"1 or {len(self.centres)}"
                )
            object.__setattr__(self, name, widths[0] if np.ndim(given) == 0 else widths)

    @property
    def size(self) -> int:
        return len(self.centres)

    def features(self, u: Vector) -> Matrix:
        squared = (np.asarray(u, np.float64)[:, None] - np.array(self.centres)) ** 2
        if self.alpha is not None:
            powers = -squared / (2.0 * np.asarray(self.alpha))
        else:
            powers = -np.asarray(self.gamma) * squared
        exponentials(powers.reshape(-1), powers.size, 700.0)
        return np.asarray(powers)

    def prior(self) -> Prior:
        return Prior()

    def settings(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearDepth:
    """The raw depth: ψ2(u) = [u].

    >>> LinearDepth().features(np.array([0.3])).tolist()
    [[0.3]]
    """

    kind: ClassVar[str] = "linear"

    @property
    def size(self) -> int:
        return 1

    def features(self, u: Vector) -> Matrix:
        return np.asarray(u, np.float64)[:, None].copy()

    def prior(self) -> Prior:
        return Prior()

    def settings(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class DistanceToDepth:
    """Euclidean distance to a reference depth: ψ2(u) = [|u − reference|].

    >>> DistanceToDepth(reference=0.5).features(np.array([0.3])).round(3).tolist()
    [[0.2]]
    """

    kind: ClassVar[str] = "distance"
    reference: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", read_numbers(self.reference, where="DistanceToDepth reference")[0])

    @property
    def size(self) -> int:
        return 1

    def features(self, u: Vector) -> Matrix:
        return np.asarray(np.abs(np.asarray(u, np.float64)[:, None] - self.reference))

    def prior(self) -> Prior:
        return Prior()

    def settings(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class OneHotDepth:
    """One indicator per known depth: ψ2,z(u) = 1[u = depths_z]. Shares nothing; any other depth is refused.

    Two depths closer than 1e-9 are one, so that 0.15/0.5 meets one written as 0.3.

    >>> OneHotDepth(depths=(0.1, 0.3)).features(np.array([0.3])).tolist()
    [[0.0, 1.0]]
    """

    kind: ClassVar[str] = "one_hot"
    depths: tuple[float, ...]

    def __post_init__(self) -> None:
        depths = read_numbers(self.depths, where="OneHotDepth depths")
        if len(depths) > 1 and np.diff(np.sort(depths)).min() <= 2e-9:
            raise InputError("OneHotDepth depths", found=f"{depths} with a depth twice", expected="distinct depths")
        object.__setattr__(self, "depths", depths)

    @property
    def size(self) -> int:
        return len(self.depths)

    def features(self, u: Vector) -> Matrix:
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

    def prior(self) -> Prior:
        return Prior()

    def settings(self) -> dict[str, Any]:
        return asdict(self)
