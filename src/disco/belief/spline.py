"""The smoothing spline over depth: a straight line plus its two smoothest bends."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from disco.belief.prior import Prior
from disco.records.arrays import Matrix, Vector

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
class SmoothSpline:
    """ψ2(u) = [u − ½, e1(u), e2(u)]: slope and two bends; e1 of unit rms, e2 scaled by √(ρ1/ρ2), rougher = rarer.

    Its own prior (sds in units of ln F): slope N(0.5, 0.5²), bends 0.15; per unit of context 0.3 on the level, 0.2 on
    the slope, 0.03 on the bends. So ignorance grows away from the depths played, on both sides.

    >>> SmoothSpline().features(np.array([0.5])).round(3).tolist()
    [[0.0, -1.216, 0.0]]
    """

    kind: ClassVar[str] = "smooth_spline"

    @property
    def size(self) -> int:
        return 3

    def features(self, u: Vector) -> Matrix:
        u = np.asarray(u, np.float64)
        rougher = (_MODES[0] / _MODES[1]) ** 2  # √(ρ1/ρ2)
        return np.column_stack((u - 0.5, _bend(u, _MODES[0]), rougher * _bend(u, _MODES[1])))

    def prior(self) -> Prior:
        return Prior(
            context=0.3**-2,
            depth=(0.5**-2, 0.15**-2, 0.15**-2),
            interaction=(0.2**-2, 0.03**-2, 0.03**-2),
            depth_mean=(0.5, 0.0, 0.0),
            absolute=True,
        )

    def settings(self) -> dict[str, Any]:
        return {}
