"""Whether predicted full prices rise with the discount, as price elasticity says they should."""

from dataclasses import dataclass

import numpy as np

from disco.evaluation.figures import read_column, read_matrix
from disco.records.arrays import Floats
from disco.records.depths import read_depths
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Monotonicity:
    """Shares of the customer × depth space: steps between neighbouring depths that do not fall, whole curves that never
    do, and how far curves fall where they do (mean relative fall per falling step, 0 without any)."""

    steps: float
    curves: float
    mean_fall: float


def monotonicity(full_price: Floats, depths: object, *, tolerance: float = 1e-12) -> Monotonicity:
    """Judge predictions (customers, depths), on any increasing scale; depths need not be sorted.

    >>> monotonicity(np.array([[10.0, 12.0, 12.0], [10.0, 9.0, 11.0]]), [0.1, 0.2, 0.3])
    Monotonicity(steps=0.75, curves=0.5, mean_fall=0.1)
    """
    offered = np.asarray(read_depths(read_column(depths, where="monotonicity, depths").tolist()))
    curves = read_matrix(full_price, where="monotonicity, full_price")
    if offered.size < 2:
        raise InputError("monotonicity", found="one depth", expected="at least two, to have a step")
    if curves.shape[1] != offered.size:
        raise InputError("monotonicity", found=f"shape {curves.shape}", expected=f"(customers, {offered.size})")
    if not np.isfinite(curves).all():
        raise InputError("monotonicity", found="NaN or infinite figures", expected="finite figures")
    curves = curves[:, np.argsort(offered)]
    change = np.diff(curves, axis=1) / np.maximum(np.abs(curves[:, :-1]), np.finfo(np.float64).tiny)
    falls = change < -tolerance
    return Monotonicity(
        steps=float(1 - falls.mean()),
        curves=float(1 - falls.any(axis=1).mean()),
        mean_fall=float(-change[falls].mean()) if falls.any() else 0.0,
    )
