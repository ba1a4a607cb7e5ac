"""The paper's rank-one path, as an option: adds one row without a new Cholesky factor.

The model itself adds evidence and factors once (microseconds for 28 parameters); this path is here so that a study can
show that both agree.
"""

import numpy as np

from disco.records.arrays import Matrix, Vector


def add_row(covariance_factor: Matrix, mean: Vector, *, psi: Vector, log_full_price: float) -> tuple[Matrix, Vector]:
    """V⁻¹ and V⁻¹B after one more row (Sherman, Morrison and Woodbury), O(d²).

    V⁻¹ ← V⁻¹ − ggᵀ/(1 + ψᵀg) with g = V⁻¹ψ; mean ← mean + g·(lnF − ψᵀmean)/(1 + ψᵀg).

    >>> v_inverse, mean = add_row(np.array([[2.0]]), np.array([0.0]), psi=np.array([1.0]), log_full_price=3.0)
    >>> v_inverse.round(6).tolist(), mean.round(6).tolist()
    ([[0.666667]], [2.0])
    """
    gain = covariance_factor @ psi
    scale = 1.0 + float(psi @ gain)
    return (
        covariance_factor - np.outer(gain, gain) / scale,
        mean + gain * ((log_full_price - float(psi @ mean)) / scale),
    )
