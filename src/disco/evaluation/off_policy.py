"""What another policy would have earned on a log with propensities: IPS, self-normalised IPS, doubly robust.

With importance weights wᵢ = π(aᵢ|xᵢ)/pᵢ, figures yᵢ and a model q(x, a) of them, the value per customer is estimated by
    IPS    Σ wᵢ·yᵢ / n
    SNIPS  Σ wᵢ·yᵢ / Σ wᵢ
    DR     Σ (q(xᵢ, π) + wᵢ·(yᵢ − q(xᵢ, aᵢ))) / n,   q(x, π) = Σ_a π(a|x)·q(x, a).
IPS and DR are unbiased for any q made without these rows; SNIPS is consistent, and steadier when weights vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from disco.evaluation.estimates import effective_rows, mean_estimate, ratio_estimate, unlimited
from disco.records.arguments import read_column, read_labels, read_matrix, refuse_rows
from disco.records.arrays import Integers, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicy:
    """Estimand: the mean of the figure per customer of the log's population, had `target` chosen the depths."""

    rows: int
    effective_rows: float  # (Σw)²/Σw²: how many unweighted rows the weighted ones are worth
    largest_weight: float
    ips: Estimate
    snips: Estimate | None  # None where the target never does what the log did
    dr: Estimate | None  # None without a model


def off_policy(
    figure: ArrayLike,
    *,
    propensity: ArrayLike,
    target: ArrayLike,
    predicted_logged: ArrayLike | None = None,
    predicted_target: ArrayLike | None = None,
    level: float = 0.95,
    customers: ArrayLike | None = None,
) -> OffPolicy:
    """Estimate a target policy's value per customer from a log.

    figure (n,): yᵢ of each row, such as revenue in money.
    propensity (n,): pᵢ > 0, the probability of the depth that was played.
    target (n,): π(aᵢ|xᵢ), the target's probability of the same depth.
    predicted_logged, predicted_target (n,): q(xᵢ, aᵢ) and q(xᵢ, π), for DR; both or neither.
    level: of the intervals.
    customers (n,): labels, equal for rows of one customer, whose errors are then counted together.

    >>> log = {"figure": np.array([1.0, 0.0, 3.0, 4.0]), "propensity": np.full(4, 0.5)}
    >>> result = off_policy(**log, target=np.array([0.0, 1.0, 1.0, 0.0]))
    >>> result.ips.value, result.snips.value, result.effective_rows
    (1.5, 1.5, 2.0)
    """
    columns, owner = _read(
        {"figure": figure, "propensity": propensity, "target": target},
        {"predicted_logged": predicted_logged, "predicted_target": predicted_target},
        customers,
    )
    figures, weights = columns["figure"], columns["target"] / columns["propensity"]
    snips = None
    if weights.any():
        snips = ratio_estimate(weights * figures, weights, level=level, customers=owner)
        snips = unlimited(snips.value, level=level) if _shows_nothing(figures, weights) else snips
    ips, doubly = _unbiased(columns, weights, columns.get("predicted_target"), level=level, customers=owner)
    return OffPolicy(
        rows=figures.size,
        effective_rows=effective_rows(weights),
        largest_weight=float(weights.max()),
        ips=ips,
        snips=snips,
        dr=doubly,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicyDifference:
    """Estimand: the value of `target` less that of `other`, per customer of the log's population."""

    rows: int
    ips: Estimate
    snips: Estimate | None  # None where one of them never does what the log did
    dr: Estimate | None  # None without a model


def off_policy_difference(
    figure: ArrayLike,
    *,
    propensity: ArrayLike,
    target: ArrayLike,
    other: ArrayLike,
    predicted_logged: ArrayLike | None = None,
    predicted_target: ArrayLike | None = None,
    predicted_other: ArrayLike | None = None,
    level: float = 0.95,
    customers: ArrayLike | None = None,
) -> OffPolicyDifference:
    """What one policy would have earned more than another, from one log: the difference of two `off_policy` values.

    other (n,): π′(aᵢ|xᵢ), the other policy's probability of the depth played. predicted_other (n,): q(xᵢ, π′). The
    remaining arguments are those of `off_policy`.

    Both values come from the same rows, so their errors are paired: the interval is that of the mean of the differences
    row by row (of their linear terms, for SNIPS). Where the policies agree, a row says nothing and adds no error.

    >>> log = {"figure": np.array([1.0, 0.0, 3.0, 4.0]), "propensity": np.full(4, 0.5)}
    >>> ours, theirs = np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
    >>> off_policy_difference(**log, target=ours, other=theirs).ips.value
    -0.5
    """
    columns, owner = _read(
        {"figure": figure, "propensity": propensity, "target": target, "other": other},
        {
            "predicted_logged": predicted_logged,
            "predicted_target": predicted_target,
            "predicted_other": predicted_other,
        },
        customers,
    )
    figures = columns["figure"]
    first, second = (columns[name] / columns["propensity"] for name in ("target", "other"))
    snips = None
    if first.any() and second.any():
        values = [float(weights @ figures) / float(weights.sum()) for weights in (first, second)]
        moved = [
            weights * (figures - value) / weights.mean() for weights, value in zip((first, second), values, strict=True)
        ]
        terms = values[0] - values[1] + moved[0] - moved[1]
        snips = _mean(terms, figures, first - second, level=level, customers=owner)
    ahead = columns["predicted_target"] - columns["predicted_other"] if "predicted_other" in columns else None
    ips, doubly = _unbiased(columns, first - second, ahead, level=level, customers=owner)
    return OffPolicyDifference(rows=figures.size, ips=ips, snips=snips, dr=doubly)


def _unbiased(
    columns: dict[str, Vector], weights: Vector, expected: Vector | None, *, level: float, customers: Integers | None
) -> tuple[Estimate, Estimate | None]:
    """IPS and DR of a policy, or of the difference of two: weights and expectations (None: no model) are then those."""
    figures, doubly = columns["figure"], None
    if expected is not None:
        terms = expected + weights * (figures - columns["predicted_logged"])
        doubly = _mean(terms, figures, weights, level=level, customers=customers)
    return _mean(weights * figures, figures, weights, level=level, customers=customers), doubly


def _mean(terms: Vector, figures: Vector, weights: Vector, *, level: float, customers: Integers | None) -> Estimate:
    """The mean of terms in which figures count with these weights.

    Fewer than two figures that count, or figures that are all equal (nobody bought), show no spread: then the interval
    has no limits. Policies that agree everywhere have weights of 0, and differ by exactly 0.
    """
    found = mean_estimate(terms, level=level, customers=customers)
    return unlimited(found.value, level=level) if _shows_nothing(figures, weights) else found


def _shows_nothing(figures: Vector, weights: Vector) -> bool:
    counted = figures[weights != 0]
    return counted.size == 1 or (counted.size > 1 and float(np.ptp(counted)) == 0)


def _read(
    needed: dict[str, ArrayLike], predictions: dict[str, ArrayLike | None], customers: ArrayLike | None
) -> tuple[dict[str, Vector], Integers | None]:
    """Columns of one length that make sense together, and each row's customer as a number; predictions all or none."""
    given = {name: column for name, column in predictions.items() if column is not None}
    if given and len(given) < len(predictions):
        found, wanted = " and ".join(given), " and ".join(predictions)
        every = "both" if len(predictions) == 2 else "all"
        raise InputError("off_policy", found=f"{found} alone", expected=f"{every} of {wanted}, or none")
    columns = {name: read_column(column, where=f"off_policy, {name}") for name, column in {**needed, **given}.items()}
    _check(columns)
    if customers is None:
        return columns, None
    labels = read_labels(customers, where="off_policy, customers", rows=columns["figure"].size)
    return columns, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _check(columns: dict[str, Vector]) -> None:
    sizes = {name: column.size for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or sizes["figure"] < 2:
        raise InputError("off_policy", found=f"lengths {sizes}", expected="one figure per row, at least two rows")
    for name, column in columns.items():
        where = f"off_policy, {name}, row {{row}}"
        refuse_rows(~np.isfinite(column), where=where, found="NaN or infinity", expected="finite figures")
    propensity = columns["propensity"]
    refuse_rows(
        (propensity <= 0) | (propensity > 1),
        where="off_policy, propensity, row {row}",
        found=propensity,
        expected="a probability above 0 and at most 1",
        fix="A row with propensity 0 cannot have happened. Give the probability with which each row got its depth.",
    )
    for name in ("target", "other"):
        chances, where = columns.get(name, propensity), f"off_policy, {name}, row {{row}}"
        refuse_rows((chances < 0) | (chances > 1), where=where, found=chances, expected="a probability")


def target_probabilities(target: ArrayLike, logging: ArrayLike, place: ArrayLike) -> Vector:
    """π(aᵢ|xᵢ) of the depths played, from full matrices (n, K) of both policies; refuses what no log can tell.

    Rows of `logging` sum to one, of `target` to one at most (the rest: no code). Where the target plays a depth whose
    logging probability is 0, its value cannot be estimated from this log.

    >>> target_probabilities(np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]), np.array([1])).tolist()
    [1.0]
    """
    target, logging = read_matrix(target, where="target"), read_matrix(logging, where="logging")
    place = np.asarray(place)
    if target.shape != logging.shape or place.shape != target.shape[:1] or place.dtype.kind not in "iu":
        raise InputError(
            "target_probabilities",
            found=f"shapes {target.shape}, {logging.shape} and {place.shape}",
            expected="(n, K) of both policies and the position (n,) of the depth played",
        )
    outside = (place < 0) | (place >= target.shape[1])
    if outside.any():
        row = int(outside.argmax())
        expected = f"a position from 0 to {target.shape[1] - 1}"
        raise InputError(f"place, row {row + 1}", found=int(place[row]), expected=expected)
    for name, matrix in (("target", target), ("logging", logging)):
        sums = matrix.sum(axis=1)
        least = 1 - 1e-6 if name == "logging" else 0.0
        off = ~((sums >= least) & (sums <= 1 + 1e-6) & (matrix >= 0).all(axis=1))  # NaN is off, too
        if off.any():
            row = int(off.argmax())
            raise InputError(
                f"{name} propensities, row {row + 1}",
                found=f"{matrix[row].tolist()}, sum {sums[row]:.6g}",
                expected="probabilities that sum to one",
            )
    unseen = (target > 0) & (logging <= 0)
    if unseen.any():
        row, column = np.argwhere(unseen)[0]
        raise InputError(
            f"logging propensities, row {row + 1}",
            found=f"propensity 0 at position {column}, which the target plays with {target[row, column]:.3g}",
            expected="a positive propensity wherever the target plays",
        )
    return np.asarray(np.take_along_axis(target, place[:, None], axis=1)[:, 0])
