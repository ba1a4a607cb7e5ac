"""The log of a campaign whose depths were assigned at random: what replay and off-policy estimates start from."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrc

from disco.evaluation.estimates import effective_rows
from disco.records.arguments import column_names, read_column, read_labels, read_matrix, refuse_rows
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Purchases
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError
from disco.records.exact_sums import CONTEXT_LIMIT, GRID, LOG_PRICE_LIMIT
from disco.records.wording import counted

SUM_TOLERANCE = 1e-3  # written propensities are rounded: 0.333 · 3
MOST_SCORE = 32.0  # log odds beyond it are no estimate of anything
CHANCE_ALARM = 6.0  # standard errors, beyond which a mean is not what it should be
IMPOSSIBLE = 1e-9  # the chance below which propensities that vary by row cannot sum to one
_LEAST_P_VALUE = 1e-3  # below it, a log is warned about
_MOST_WEIGHT = 10.0  # of a row, in multiples of the depth's average one
_SAME = 1e-9  # relative spread of propensities that are written as one


class RandomisationWarning(UserWarning):
    """The log does not look as if its depths had been assigned at random, or not as its propensities say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RandomLog:
    """One row per code, in time order. Made by `random_log`, which checks it."""

    depths: tuple[float, ...]
    context: Matrix  # (n, d1)
    place: Integers  # (n,) position in `depths`
    full_price: Vector  # (n,) money before the discount, NaN = no purchase
    propensity: Vector  # (n,) the probability with which the row got its depth
    customer: Integers  # (n,) 0, 1, …, equal for rows of one customer
    warnings: tuple[str, ...] = ()  # reasons to doubt that the depths were random, and propensities that were cut
    context_names: tuple[str, ...] | None = None  # of the context's columns, where they came with names
    score: Vector | None = None  # (n,) engagement scores, NaN = none known; None: the log has no such column

    def __repr__(self) -> str:
        depths = ", ".join(map(depth_label, self.depths))
        return f"RandomLog({len(self):,} rows, {int(self.bought.sum()):,} purchases, depths {depths})"

    def __len__(self) -> int:
        return int(self.place.size)

    @property
    def depth(self) -> Vector:
        return np.asarray(self.depths)[self.place]

    @property
    def bought(self) -> Flags:
        return ~np.isnan(self.full_price)

    def purchases(self, rows: Integers) -> Purchases:
        """What was bought with the codes of some rows, by their positions."""
        buyers = rows[~np.isnan(self.full_price[rows])]
        depth = np.asarray(self.depths)[self.place[buyers]]
        return Purchases(context=self.context[buyers], depth=depth, full_price=self.full_price[buyers])

    @property
    def is_uniform(self) -> bool:
        """Whether every depth was equally likely for everybody, and no other was offered."""
        return bool(np.allclose(self.propensity, 1 / len(self.depths), rtol=SUM_TOLERANCE))


def random_log(
    context: ArrayLike,
    depth: ArrayLike,
    full_price: ArrayLike,
    *,
    customer_id: ArrayLike | None = None,
    propensity: ArrayLike | Literal["observed"] | None = None,
    strata: ArrayLike | None = None,
    score: ArrayLike | None = None,
    check_balance: bool = True,
) -> RandomLog:
    """Read a log, one row per code in time order; a log that does not look random is warned about.

    context (n, d1): figures known before the depth was assigned. A data frame's column names are kept, and a log to be
        used together with this one must have the same.
    depth (n,): of the code, a share.
    full_price (n,): bought with the code, money before the discount; NaN = nothing.
    customer_id (n,): where a customer may have several rows; their errors are then counted together.
    propensity (n,): the probability of the depth each row got. None: uniform over the depths present, or, with
        `strata`, the shares observed within each. "observed": the shares observed, overall or within each stratum.
    strata (n,): labels within which depths were assigned at random; beside given propensities they serve the balance
        test alone.
    score (n,): engagement scores known before the depth was assigned: the log odds that a customer uses a code, up to
        a constant, such as `ContextNetwork.engagement_score`; NaN = not known.
    check_balance: whether to test that the depths look random (`RandomisationWarning`).

    >>> log = random_log([[0.5], [1.0]], [0.1, 0.2], [20.0, np.nan], check_balance=False)
    >>> log.depths, log.place.tolist(), log.propensity.tolist()
    ((0.1, 0.2), [0, 1], [0.5, 0.5])
    """
    contexts = read_matrix(context, where="log, context")
    rows = len(contexts)
    refuse_rows(
        np.asarray(~np.isfinite(contexts).all(axis=1)),
        where="log, row {row}, context",
        found="NaN or infinity",
        expected="finite figures",
        fix="Replace what is not known by the column's mean, or leave out the row.",
    )
    played = read_column(depth, rows=rows, where="log, depth")
    offered, place = np.unique(played, return_inverse=True)
    for value in offered:
        row = int(np.flatnonzero((played == value) | np.isnan(played))[0])
        read_depth(float(value), where=f"log, row {row + 1}, depth")
    prices = read_column(full_price, rows=rows, where="log, full_price")
    sound = (prices > math.exp(-LOG_PRICE_LIMIT)) & (prices < math.exp(LOG_PRICE_LIMIT))
    refuse_rows(
        ~np.isnan(prices) & ~sound,
        where="log, row {row}, full_price",
        found=prices,
        expected="a positive amount, or null where nothing was bought",
        fix="Write null for a customer who bought nothing. Subtract returns first.",
    )
    scores = None if score is None else _scores(read_column(score, rows=rows, where="log, score"))
    stratum = np.zeros(rows, np.int64) if strata is None else _numbered(strata, rows=rows, name="strata")
    customer = np.arange(rows) if customer_id is None else _numbered(customer_id, rows=rows, name="customer_id")
    depths = tuple(offered.tolist())
    exact = _propensities(propensity, place, stratum, depths, estimate=strata is not None)
    chances, notes = _clipped(exact, depths=len(depths))
    if not isinstance(propensity, str) and propensity is not None:
        notes += _too_likely(exact, depths=len(depths))
    if check_balance:
        notes += doubts(contexts, place, stratum, exact, depths, names=column_names(context))
    for note in notes:
        warnings.warn(note, RandomisationWarning, stacklevel=2)
    return RandomLog(
        depths=depths,
        context=contexts,
        place=place.astype(np.int64),
        full_price=prices,
        propensity=chances,
        customer=customer,
        warnings=notes,
        context_names=column_names(context),
        score=scores,
    )


def _scores(values: Vector) -> Vector:
    """On the grid of 2⁻¹⁶, NaN = none; what cannot be log odds is refused."""
    known = ~np.isnan(values)
    if not known.any():
        raise InputError(
            "log, score",
            found="no score in any row",
            expected="a score in at least one",
            fix="Leave out the scores: one rate per depth is then learned for everybody.",
        )
    refuse_rows(
        known & ~(np.abs(values) <= MOST_SCORE),
        where="log, row {row}, score",
        found=values,
        expected=f"log odds, within ±{MOST_SCORE:g}",
        fix="A probability p has the log odds ln(p/(1 − p)).",
    )
    return np.asarray(np.rint(values * GRID) / GRID)


def _numbered(labels: ArrayLike, *, rows: int, name: str) -> Integers:
    """Labels as 0, 1, … in their sorted order."""
    return np.unique(read_labels(labels, where=f"log, {name}", rows=rows), return_inverse=True)[1].astype(np.int64)


_PROPENSITIES = (
    "Give the probability with which each row got its own depth. Without a column of propensities the depths count as "
    "uniform; as 'observed' they count as often as they occur, overall or within strata."
)


def _propensities(
    given: ArrayLike | None, place: Integers, stratum: Integers, depths: tuple[float, ...], *, estimate: bool
) -> Vector:
    rows, columns = place.size, len(depths)
    cells = np.zeros((stratum.max() + 1, columns))
    np.add.at(cells, (stratum, place), 1.0)
    shares = isinstance(given, str) or (given is None and estimate)
    missing = np.argwhere(cells == 0)
    if shares and missing.size:
        label, column = missing[0]
        raise InputError(
            f"log, stratum {label + 1} of {len(cells)}",
            found=f"no row at depth {depth_label(depths[column])}, so its propensity there is 0",
            expected="every depth played in every stratum",
            fix="Leave out the stratum or the depth: nothing can be said about what was never tried.",
        )
    if isinstance(given, str) and given != "observed":
        raise InputError(
            "log, propensity", found=repr(given), expected="'observed', or one figure per row", fix=_PROPENSITIES
        )
    if shares:
        return np.asarray((cells / cells.sum(axis=1, keepdims=True))[stratum, place])
    if given is None:
        return np.full(rows, 1 / columns)
    chances = read_column(given, rows=rows, where="log, propensity")
    refuse_rows(
        ~((chances > 0) & (chances <= 1)),
        where="log, row {row}, propensity",
        found=chances,
        expected="a probability above 0, at most 1: a depth that could not be played cannot be in the log",
        fix=_PROPENSITIES,
    )
    _refuse_unless_one(chances, place, stratum, cells, depths)
    return chances


def _refuse_unless_one(
    chances: Vector, place: Integers, stratum: Integers, cells: Matrix, depths: tuple[float, ...]
) -> None:
    """Propensities must sum to one over the depths: exactly where constant per depth, else as far as can be told."""
    first = np.zeros_like(cells)
    first[stratum, place] = chances
    if np.allclose(first[stratum, place], chances, rtol=1e-9):
        sums = first.sum(axis=1)
        # a depth that a small stratum never got has an unknown propensity there: the rest may sum to less than one
        excess = np.where((cells > 0).all(axis=1), np.abs(sums - 1), np.maximum(sums - 1, 0.0))
        off = int(excess.argmax())
        if excess[off] > SUM_TOLERANCE:
            raise InputError(
                "log, propensity",
                found=f"propensities of the {len(depths)} depths that sum to {sums[off]:.6g}",
                expected="a sum of one",
                fix=_PROPENSITIES,
            )
        return
    # With probabilities that sum to one, 1{depth}/p has the mean 1 at every depth, and cut at c at most that. Only too
    # much is impossible: a depth that is nearly impossible for many customers is seldom seen, and its mean then small.
    for column, depth in enumerate(depths):
        inverse = np.where(place == column, 1 / chances, 0.0)
        found, chance = excess_weight(inverse)
        if chance < IMPOSSIBLE:
            raise InputError(
                f"log, propensity at depth {depth_label(depth)}",
                found=f"inverse propensities with mean {found:.4g} over all rows",
                expected="a mean of 1 at most, as probabilities that sum to one give",
                fix=_PROPENSITIES,
            )


def _clipped(chances: Vector, *, depths: int) -> tuple[Vector, tuple[str, ...]]:
    """Propensities so small that a single row would outweigh all others count as larger ones.

    A weight of at most √n keeps estimates consistent (Ionides 2008); it is at least a few times that of a uniform log.
    """
    least = 1 / max(math.sqrt(chances.size), 4.0 * depths)
    small = int((chances < least).sum())
    if not small:
        return chances, ()
    clipped = np.maximum(chances, least)
    effective = effective_rows(1 / clipped)
    verb, rows = "counts" if small == 1 else "count", f"{counted(small, 'row')} of {chances.size:,}"
    return clipped, (
        f"{rows} had a propensity below {least:.2g}, the least {chances.min():.1g}, "
        f"and {verb} as if it had been {least:.2g}: otherwise a single row could outweigh all others. "
        f"With these weights the log is worth about {effective:,.0f} rows.",
    )


def _too_likely(chances: Vector, *, depths: int) -> tuple[str, ...]:
    """A warning where every row had a likely depth and yet 1/p has less than its mean, the number of depths.

    Depths that are impossible for some customers explain it, so nothing is refused.
    """
    inverse = 1 / chances
    error = float(inverse.std(ddof=1)) / math.sqrt(inverse.size) if inverse.size > 1 else math.inf
    seldom = chances.min() < 0.1 / depths  # then unlikely depths were played, and the mean is known badly
    if seldom or inverse.mean() > depths * (1 - SUM_TOLERANCE) - CHANCE_ALARM * error:
        return ()
    return (
        f"The propensities may not sum to one: inverse propensities have the mean {inverse.mean():.4g}, and would have "
        f"{depths}, one per depth, if every depth was possible for every customer.",
    )


def require_log(log: object, *, name: str = "log") -> None:
    """Refuse what is no log, and contexts beyond ±4: a model would refuse them in mid-replay, without the log's row."""
    if not isinstance(log, RandomLog):
        raise InputError(
            name,
            found=f"{log!r:.60}",
            expected="a log made by disco.random_log",
            fix="The command `disco replay` reads one from a file.",
        )
    beyond = np.argwhere(np.abs(log.context) > CONTEXT_LIMIT)
    if beyond.size:
        row, column = beyond[0]
        raise InputError(
            f"{name}, row {row + 1}, context column {column + 1}",
            found=float(log.context[row, column]),
            expected=f"a figure within ±{CONTEXT_LIMIT:g}",
            fix="Standardise and clip contexts, as ContextNetwork does.",
        )


# ---- was it random? --------------------------------------------------------------------------------------------------


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
            tails = bdtr(found, place.size, chance), bdtrc(found - 1, place.size, chance)
            p_values.append(2 * min(map(float, tails)))
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
