"""Was it random? Tests of a log's depths against its propensities and against the customers' contexts."""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc

from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.depths import depth_label

_LEAST_P_VALUE = 1e-3
_MOST_WEIGHT = 10.0  # of a row, in multiples of the depth's average one
_SAME = 1e-9  # relative spread of propensities that are written as one


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
    """Per depth: Σ1{depth}/p = n under the propensities; the least likely deviation, Bonferroni over depths.

    >>> unevenness(np.repeat([0, 1], [30, 70]), np.full(100, 0.5), depths=2).p_value < 0.001
    True
    """
    ones = np.ones((place.size, 1))
    p_values = []
    for column in range(depths):
        here = place == column
        likely = propensity[here]
        if here.any() and np.ptp(likely) <= _SAME * likely.max():  # a binomial count
            found, chance = int(here.sum()), float(likely[0])
            p_values.append(
                2 * min(float(bdtr(found, place.size, chance)), float(bdtrc(found - 1, place.size, chance)))
            )
        else:
            p_values.append(float(_deviation(here, propensity, ones)[1][0]))
    worst = int(np.argmin(p_values))
    here = place == worst
    found = int(here.sum())
    expected = place.size * found / float((1 / propensity[here]).sum()) if found else 0.0
    return Unevenness(worst, found, expected, min(1.0, depths * float(p_values[worst])))


def imbalance(context: Matrix, place: Integers, stratum: Integers, propensity: Vector, *, depths: int) -> Imbalance:
    """Per depth and feature: Σ(1{depth}/p − 1)·(x − x̄) = 0 when depths are random given the propensities.

    x̄ is the mean of the row's stratum. Bonferroni over depths × features.
    """
    sizes = np.bincount(stratum)
    centred = np.column_stack(
        [column - (np.bincount(stratum, weights=column) / sizes)[stratum] for column in context.T]
        or [np.zeros(len(context))]
    )
    found = [_deviation(place == column, propensity, centred) for column in range(depths)]
    z, p_values = (np.stack([one[part] for one in found]) for part in (0, 1))
    depth, feature = np.unravel_index(p_values.argmin(), p_values.shape)
    p_value = min(1.0, z.size * float(p_values[depth, feature]))
    return Imbalance(int(depth), int(feature), float(z[depth, feature]), p_value)


def _deviation(here: Flags, propensity: Vector, figures: Matrix) -> tuple[Vector, Vector]:
    """T = Σ(1{here}/p − 1)·x of each column x of `figures` (n, d): T in standard errors, and its p-value, each (d,).

    Where every row has the same propensity of being here, T has mean 0 and variance V = (1/p − 1)·Σx², whatever was
    seen: with few rows that carry x the terms' own spread is far too small as often as not.

    Where propensities vary, rows elsewhere do not say theirs of being here, and a depth that is very unlikely for some
    customers is seldom seen with them: T lies below 0 nearly always, and far above 0 in between. What holds in any case
    is one side of it. With 1/p cut at c, Σ1{here}·min(1/p, c)·x has at most the mean Σx for x ≥ 0. So the positive and
    the negative part of x are tested apart, each for too much weight.
    """
    likely = propensity[here]
    if not here.any() or np.ptp(likely) <= _SAME * likely.max():
        p = float(likely[0]) if here.any() else 1 / here.size
        total = (here / p - 1) @ figures
        variance = (1 / p - 1) * (figures**2).sum(axis=0)
        chance = 2 * _bennett(np.abs(total), variance, max(1 / p - 1, 1.0) * np.abs(figures).max(axis=0))
        return _ratio(total, np.sqrt(variance)), np.minimum(1.0, chance)
    weight = np.where(here, np.minimum(1 / propensity, _MOST_WEIGHT / here.mean()), 0.0)
    sides = []
    for part in (np.maximum(figures, 0.0), np.maximum(-figures, 0.0)):
        total, variance = (weight - 1) @ part, weight**2 @ part**2
        chance = np.where(total > 0, _bennett(np.maximum(total, 0.0), variance, weight.max() * part.max(axis=0)), 1.0)
        sides.append((_ratio(total, np.sqrt(variance)), chance))
    (z, above), (other, below) = sides
    return np.where(above <= below, z, -other), np.minimum(1.0, 2 * np.minimum(above, below))


def excess_weight(inverse: Vector) -> tuple[float, float]:
    """The mean of 1{here}/p over all rows, and the chance of at least as much where the propensities are true.

    inverse (n,): 1/p where the row is here, else 0. Cut at a multiple of its average, its mean is at most 1.
    """
    weight = np.minimum(inverse, _MOST_WEIGHT / max(float((inverse > 0).mean()), 1 / inverse.size))
    total, variance = np.array([weight.sum() - inverse.size]), np.array([weight @ weight])
    chance = _bennett(np.maximum(total, 0.0), variance, np.array([weight.max()]))[0] if total[0] > 0 else 1.0
    return float(inverse.mean()), float(chance)


def _bennett(deviation: Vector, variance: Vector, largest: Vector) -> Vector:
    """P(T ≥ t) ≤ exp(−V/M²·h(M·t/V)), h(u) = (1 + u)·ln(1 + u) − u, for a sum T of independent terms of at most M.

    An inequality, not an approximation: it holds however few rows there are. For small u it is exp(−t²/2V).

    >>> _bennett(np.array([3.0]), np.array([1.0]), np.array([1e-9])).round(4).tolist()
    [0.0111]
    """
    known = (variance > 0) & (largest > 0)
    v, m = np.where(known, variance, 1.0), np.where(known, largest, 1.0)
    u = m * deviation / v
    rate = np.where(u < 1e-4, u**2 / 2, (1 + u) * np.log1p(u) - u)  # the difference cancels for small u
    return np.where(known, np.exp(-v / m**2 * rate), np.where(deviation > 0, 0.0, 1.0))


def _ratio(total: Vector, error: Vector) -> Vector:
    return np.divide(total, error, out=np.zeros_like(error), where=error > 0)


def doubts(
    context: Matrix,
    place: Integers,
    stratum: Integers,
    chances: Vector,
    depths: tuple[float, ...],
    *,
    names: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """What is wrong with a log whose depths should be random, given the propensities; nothing where all is well.

    context (n, d1).
    place (n,): position of the depth.
    stratum (n,): 0, 1, …
    chances (n,): propensities.
    names (d1,): of the context's columns; None: they have none.
    """
    notes = []
    uneven = unevenness(place, chances, depths=len(depths))
    if uneven.p_value < _LEAST_P_VALUE:
        depth = depth_label(depths[uneven.column])
        notes.append(
            f"The depths are not as frequent as their propensities say (depth {depth}: {uneven.found:,} rows, "
            f"expected {uneven.expected:,.0f}; p {_p_text(uneven.p_value)}). Give the true propensities, or say "
            f"'observed' if the depths were assigned at random in these shares."
        )
    skewed = imbalance(context, place, stratum, chances, depths=len(depths))
    if skewed.p_value < _LEAST_P_VALUE:
        feature = names[skewed.feature] if names else skewed.feature + 1
        notes.append(
            f"The depths do not look random: customers at depth {depth_label(depths[skewed.depth])} differ from the "
            f"rest in context feature {feature} by {skewed.z:+.1f} standard errors "
            f"(p {_p_text(skewed.p_value)}). Estimates from this log are biased unless the propensities or strata "
            f"account for it."
        )
    return tuple(notes)


def _p_text(value: float) -> str:
    """Never 0, also where the chance is below the smallest float.

    >>> _p_text(0.0), _p_text(3e-5)
    ('<1e-300', '= 3e-05')
    """
    return f"= {value:.1g}" if value >= 1e-300 else "<1e-300"
