"""The log of a campaign whose depths were dealt at random: what replay and off-policy estimates start from."""

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from disco.evaluation.balance import imbalance, unevenness
from disco.evaluation.figures import read_column, read_matrix
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError
from disco.records.grid import CONTEXT_LIMIT, LOG_PRICE_LIMIT

PropensityRule = Literal["uniform", "observed"]
SUM_TOLERANCE = 1e-3  # written propensities are rounded: 0.333 · 3
CHANCE_ALARM = 6.0  # standard errors; beyond it, propensities that vary by row cannot sum to one
LEAST_P_VALUE = 1e-3


class RandomisationWarning(UserWarning):
    """The log does not look as if its depths had been dealt at random, or not as its propensities say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomLog:
    """One row per code, in time order. Made by `random_log`, which checks it.

    context (n, d1) · place (n,): position in `depths` · full_price (n,): money, NaN = no purchase · propensity (n,):
    the probability with which the row got its depth · customer (n,): 0, 1, …, equal for rows of one customer ·
    warnings: what was found amiss.
    """

    depths: tuple[float, ...]
    context: Matrix
    place: Integers
    full_price: Vector
    propensity: Vector
    customer: Integers
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.place.size)

    @property
    def depth(self) -> Vector:
        return np.asarray(self.depths)[self.place]

    @property
    def bought(self) -> Flags:
        return ~np.isnan(self.full_price)

    @property
    def is_uniform(self) -> bool:
        """Whether every depth was equally likely for everybody, and no other was offered."""
        return bool(np.allclose(self.propensity, 1 / len(self.depths), rtol=SUM_TOLERANCE))


def random_log(
    context: object,
    depth: object,
    full_price: object,
    *,
    customer_id: object = None,
    propensity: object = None,
    strata: object = None,
    check_balance: bool = True,
) -> RandomLog:
    """Read a log: context (n, d1), depth (n,), full_price (n,) with NaN where nothing was bought.

    propensity (n,): the probability of the depth each row got. Absent: uniform over the depths present; with
    `strata` (n,) labels, the shares observed within each stratum. The word "observed": the shares observed, overall or
    within each stratum. Strata beside given propensities serve the balance test alone.
    A log that does not look random, given these, is warned about (`RandomisationWarning`).

    >>> log = random_log([[0.5], [1.0]], [0.1, 0.2], [20.0, np.nan], check_balance=False)
    >>> log.depths, log.place.tolist(), log.propensity.tolist()
    ((0.1, 0.2), [0, 1], [0.5, 0.5])
    """
    contexts = read_matrix(context, where="log, context")
    rows = len(contexts)
    if not np.isfinite(contexts).all():
        row = int(np.flatnonzero(~np.isfinite(contexts).all(axis=1))[0])
        raise InputError(f"log, row {row + 1}, context", found="NaN or infinity", expected="finite figures")
    played = read_column(depth, rows=rows, where="log, depth")
    offered, place = np.unique(played, return_inverse=True)
    for value in offered:
        row = int(np.flatnonzero((played == value) | np.isnan(played))[0])
        read_depth(float(value), where=f"log, row {row + 1}, depth")
    prices = read_column(full_price, rows=rows, where="log, full_price")
    sound = (prices > math.exp(-LOG_PRICE_LIMIT)) & (prices < math.exp(LOG_PRICE_LIMIT))
    bad = ~np.isnan(prices) & ~sound
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"log, row {row + 1}, full_price",
            found=float(prices[row]),
            expected="a positive amount, or null where nothing was bought",
        )
    stratum = _labels(strata, rows=rows, name="strata")
    customer = np.arange(rows) if customer_id is None else _labels(customer_id, rows=rows, name="customer_id")
    depths = tuple(offered.tolist())
    chances = _propensities(propensity, place, stratum, depths, estimate=strata is not None)
    notes = _doubts(contexts, place, stratum, chances, depths) if check_balance else ()
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
    )


def _labels(values: object, *, rows: int, name: str) -> Integers:
    if values is None:
        return np.zeros(rows, np.int64)
    labels = np.asarray(values)
    if labels.shape != (rows,):
        raise InputError(f"log, {name}", found=f"shape {labels.shape}", expected=f"one label for each of {rows} rows")
    unknown = labels != labels if labels.dtype.kind != "O" else np.array([v is None or v != v for v in labels])
    if unknown.any():
        row = int(unknown.argmax())
        raise InputError(f"log, row {row + 1}, {name}", found="null or NaN", expected="a label in every row")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _propensities(
    given: object, place: Integers, stratum: Integers, depths: tuple[float, ...], *, estimate: bool
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
        raise InputError("log, propensity", found=repr(given), expected="'observed', or one figure per row")
    if shares:
        return np.asarray((cells / cells.sum(axis=1, keepdims=True))[stratum, place])
    if given is None:
        return np.full(rows, 1 / columns)
    chances = read_column(given, rows=rows, where="log, propensity")
    bad = ~((chances > 0) & (chances <= 1))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"log, row {row + 1}, propensity",
            found=float(chances[row]),
            expected="a probability above 0, at most 1: a depth that could not be played cannot be in the log",
        )
    _refuse_unless_one(chances, place, stratum, cells, depths)
    return chances


def _refuse_unless_one(
    chances: Vector, place: Integers, stratum: Integers, cells: Matrix, depths: tuple[float, ...]
) -> None:
    """Propensities must sum to one over the depths: exactly where constant per depth, else Σ1/p = n up to chance."""
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
            )
        return
    whole = 1 / chances  # E[1/p] is the number of depths, row by row, whatever the propensities: the sharpest test
    error = whole.std(ddof=1) / np.sqrt(whole.size)
    if abs(whole.mean() - len(depths)) > max(CHANCE_ALARM * error, SUM_TOLERANCE * len(depths)):
        raise InputError(
            "log, propensity",
            found=f"inverse propensities with mean {whole.mean():.6g}",
            expected=f"a mean of {len(depths)}, one per depth, as probabilities that sum to one give",
        )
    for column, depth in enumerate(depths):
        inverse = np.where(place == column, 1 / chances, 0.0)
        error = inverse.std(ddof=1) / np.sqrt(inverse.size)
        if abs(inverse.mean() - 1) > max(CHANCE_ALARM * error, SUM_TOLERANCE):
            raise InputError(
                f"log, propensity at depth {depth_label(depth)}",
                found=f"inverse propensities with mean {inverse.mean():.4g} over all rows",
                expected="a mean of 1, as probabilities that sum to one give",
            )


def _doubts(
    context: Matrix, place: Integers, stratum: Integers, chances: Vector, depths: tuple[float, ...]
) -> tuple[str, ...]:
    notes = []
    uneven = unevenness(place, chances, depths=len(depths))
    if uneven.p_value < LEAST_P_VALUE:
        depth = depth_label(depths[uneven.column])
        notes.append(
            f"The depths are not as frequent as their propensities say (depth {depth}: {uneven.found:,} rows, "
            f"expected {uneven.expected:,.0f}; p = {uneven.p_value:.1g}). Give the true propensities, or say "
            f"'observed' if the depths were dealt at random in these shares."
        )
    skewed = imbalance(context, place, stratum, chances, depths=len(depths))
    if skewed.p_value < LEAST_P_VALUE:
        notes.append(
            f"The depths do not look random: customers at depth {depth_label(depths[skewed.depth])} differ from the "
            f"rest in context feature {skewed.feature + 1} by {skewed.z:+.1f} standard errors "
            f"(p = {skewed.p_value:.1g}). Estimates from this log are biased unless the propensities or strata account "
            f"for it."
        )
    return tuple(notes)


def require_model_contexts(log: RandomLog, *, name: str = "log") -> None:
    """A model takes contexts within ±4; say at the start, with the log's row, what it would refuse in mid-replay."""
    beyond = np.argwhere(np.abs(log.context) > CONTEXT_LIMIT)
    if beyond.size:
        row, column = beyond[0]
        raise InputError(
            f"{name}, row {row + 1}, context column {column + 1}",
            found=float(log.context[row, column]),
            expected=f"a figure within ±{CONTEXT_LIMIT:g}",
            fix="Standardise and clip contexts, as ContextNetwork does.",
        )
