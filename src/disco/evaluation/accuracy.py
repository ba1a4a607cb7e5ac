"""How good predictions of full prices are: their errors, and whether they rise with the discount as they should."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from disco.records.arguments import read_column, read_matrix
from disco.records.depths import read_depths
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How close predictions of ln(full price) come."""

    rows: int  # purchases compared
    wape: float  # sum of absolute errors over sum of absolute observations
    spearman: float  # rank correlation; 0 where either side is constant, as it then ranks nothing
    mae: float  # mean absolute error
    mse: float  # mean squared error
    r2: float  # 1 − MSE/variance; 0 where the observations are constant


def accuracy(predicted: ArrayLike, observed: ArrayLike) -> Accuracy:
    """Compare predictions (n,) with observations (n,), both on the ln scale, one per purchase.

    >>> accuracy(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])).wape.__round__(4)
    0.1429
    """
    from scipy.stats import rankdata

    predicted = read_column(predicted, where="accuracy, predicted")
    observed = read_column(observed, where="accuracy, observed")
    if predicted.shape != observed.shape or predicted.size == 0:
        raise InputError(
            "accuracy",
            found=f"shapes {predicted.shape} and {observed.shape}",
            expected="two vectors of one length, not empty",
        )
    if not (np.isfinite(predicted).all() and np.isfinite(observed).all()):
        raise InputError("accuracy", found="NaN or infinite values", expected="finite figures")
    error = predicted - observed
    variance, scale = float(observed.var()), float(np.abs(observed).sum())
    ranks = np.stack([rankdata(predicted), rankdata(observed)])
    spreads = ranks.std(axis=1)
    spearman = float(np.cov(ranks, bias=True)[0, 1] / spreads.prod()) if spreads.all() else 0.0
    mse = float(np.mean(error**2))
    return Accuracy(
        rows=observed.size,
        wape=float(np.abs(error).sum()) / scale if scale else float("inf"),
        spearman=spearman,
        mae=float(np.abs(error).mean()),
        mse=mse,
        r2=1 - mse / variance if variance else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Monotonicity:
    """Whether predicted full prices rise with the discount, as price elasticity says they should."""

    steps: float  # share of the steps between neighbouring depths that do not fall
    curves: float  # share of the customers whose whole curve never falls
    mean_fall: float  # mean relative fall per falling step, 0 without any


def monotonicity(full_price: ArrayLike, depths: ArrayLike, *, tolerance: float = 1e-12) -> Monotonicity:
    """Judge predictions (customers, depths), on any increasing scale; depths (depths,) need not be sorted.

    tolerance: relative falls up to this one are rounding.

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
