"""Was it random? Tests of a log's depths against its propensities and against the customers' contexts."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from disco.records.arrays import Integers, Matrix, Vector


@dataclass(frozen=True, slots=True)
class Unevenness:
    """The depth that is furthest from its expected frequency."""

    column: int
    found: int
    expected: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The depth and context feature where the customers differ most; `p_value` counts all that were looked at."""

    depth: int
    feature: int
    z: float
    p_value: float


def unevenness(place: Integers, propensity: Vector, *, depths: int) -> Unevenness:
    """Per depth: Σ1{depth}/p = n under the propensities; the largest deviation in standard errors, Bonferroni.

    >>> unevenness(np.repeat([0, 1], [30, 70]), np.full(100, 0.5), depths=2).p_value < 0.001
    True
    """
    rows = place.size
    z = np.zeros(depths)
    for column in range(depths):
        here = place == column
        inverse = 1 / propensity[here]
        # under the null Σ1{a}/p has mean n and variance Σ(1/p − 1), itself estimated from the rows that got a
        z[column] = (inverse.sum() - rows) / np.sqrt(max((inverse * (inverse - 1)).sum(), 1e-300))
    worst = int(np.abs(z).argmax())
    here = place == worst
    found = int(here.sum())
    expected = rows * found / float((1 / propensity[here]).sum()) if found else 0.0
    return Unevenness(worst, found, expected, bonferroni(z[worst], tests=depths))


def imbalance(context: Matrix, place: Integers, stratum: Integers, propensity: Vector, *, depths: int) -> Imbalance:
    """Per depth and feature: Σ(1{depth}/p − 1)·(x − x̄) = 0 when depths are random given the propensities.

    x̄ is the mean of the row's stratum. z uses the terms' own spread; Bonferroni over depths × features.
    """
    sizes = np.bincount(stratum)
    centred = np.column_stack(
        [column - (np.bincount(stratum, weights=column) / sizes)[stratum] for column in context.T]
        or [np.zeros(len(context))]
    )
    z = np.zeros((depths, centred.shape[1]))
    for column in range(depths):
        terms = ((place == column) / propensity - 1)[:, None] * centred
        spread = np.sqrt((terms**2).sum(axis=0))
        z[column] = np.divide(terms.sum(axis=0), spread, out=np.zeros_like(spread), where=spread > 0)
    depth, feature = np.unravel_index(np.abs(z).argmax(), z.shape)
    return Imbalance(int(depth), int(feature), float(z[depth, feature]), bonferroni(z[depth, feature], tests=z.size))


def bonferroni(z: float, *, tests: int) -> float:
    """The two-sided p-value of the largest of `tests` standardised deviations, at most.

    >>> round(bonferroni(1.96, tests=1), 3), bonferroni(0.5, tests=9)
    (0.05, 1.0)
    """
    return min(1.0, tests * float(erfc(abs(z) / np.sqrt(2))))
