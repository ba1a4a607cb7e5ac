"""Was it random? Tests of a log's depths against its propensities and against the customers' contexts."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from disco.records.arrays import Integers, Matrix, Vector
from disco.records.depths import depth_label

_LEAST_P_VALUE = 1e-3


@dataclass(frozen=True, slots=True)
class Unevenness:
    """The depth that is furthest from its expected frequency."""

    column: int  # position of the depth
    found: int  # rows
    expected: float  # rows
    p_value: float


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The depth and context feature where the customers differ most."""

    depth: int  # position of the depth
    feature: int  # column of the context
    z: float  # standard errors
    p_value: float  # corrected for the number of depths and features


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


def doubts(
    context: Matrix, place: Integers, stratum: Integers, chances: Vector, depths: tuple[float, ...]
) -> tuple[str, ...]:
    """What is wrong with a log whose depths should be random, given the propensities; nothing where all is well.

    context (n, d1).
    place (n,): position of the depth.
    stratum (n,): 0, 1, …
    chances (n,): propensities.
    """
    notes = []
    uneven = unevenness(place, chances, depths=len(depths))
    if uneven.p_value < _LEAST_P_VALUE:
        depth = depth_label(depths[uneven.column])
        notes.append(
            f"The depths are not as frequent as their propensities say (depth {depth}: {uneven.found:,} rows, "
            f"expected {uneven.expected:,.0f}; p = {uneven.p_value:.1g}). Give the true propensities, or say "
            f"'observed' if the depths were assigned at random in these shares."
        )
    skewed = imbalance(context, place, stratum, chances, depths=len(depths))
    if skewed.p_value < _LEAST_P_VALUE:
        notes.append(
            f"The depths do not look random: customers at depth {depth_label(depths[skewed.depth])} differ from the "
            f"rest in context feature {skewed.feature + 1} by {skewed.z:+.1f} standard errors "
            f"(p = {skewed.p_value:.1g}). Estimates from this log are biased unless the propensities or strata account "
            f"for it."
        )
    return tuple(notes)
