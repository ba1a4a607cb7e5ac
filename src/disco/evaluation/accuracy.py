"""How close predictions of ln(full price) come: WAPE, Spearman, MAE, MSE, R²."""

from dataclasses import dataclass

import numpy as np

from disco.evaluation.figures import read_column
from disco.records.arrays import Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Accuracy:
    rows: int
    wape: float  # Σ|y − ŷ| / Σ|y|
    spearman: float  # rank correlation; 0 when either side is constant, as it then ranks nothing
    mae: float
    mse: float
    r2: float  # 1 − MSE / variance; 0 when the truth is constant


def accuracy(predicted: Vector, observed: Vector) -> Accuracy:
    """Compare predictions with observations, both on the ln scale, one per purchase.

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
