"""What another policy would have earned on a log with propensities: IPS, self-normalised IPS, doubly robust.

With importance weights wᵢ = π(aᵢ|xᵢ)/pᵢ, figures yᵢ and a model q(x, a) of them, the value per customer is estimated by
    IPS    Σ wᵢ·yᵢ / n
    SNIPS  Σ wᵢ·yᵢ / Σ wᵢ
    DR     Σ (q(xᵢ, π) + wᵢ·(yᵢ − q(xᵢ, aᵢ))) / n,   q(x, π) = Σ_a π(a|x)·q(x, a).
IPS and DR are unbiased for any q made without these rows; SNIPS is consistent, and steadier when weights vary.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from disco.allocation import Allocation, allocate_offer
from disco.campaign import Belief, expected_costs, values_of
from disco.evaluation.estimates import mean_estimate, ratio_estimate
from disco.policy import Policy
from disco.policy.propensity import Propensities, propensities
from disco.records.arguments import read_column, read_labels, read_matrix
from disco.records.arrays import Floats, Vector
from disco.records.decisions import Audience, Offer
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.ports import Engine


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
    given: dict[str, ArrayLike] = {"figure": figure, "propensity": propensity, "target": target}
    if (predicted_logged is None) != (predicted_target is None):
        raise InputError("off_policy", found="one prediction", expected="both of predicted_logged and predicted_target")
    if predicted_logged is not None and predicted_target is not None:
        given |= {"predicted_logged": predicted_logged, "predicted_target": predicted_target}
    columns = {name: read_column(column, where=f"off_policy, {name}") for name, column in given.items()}
    _check(columns)
    figures, owner = columns["figure"], None
    if customers is not None:
        labels = read_labels(customers, where="off_policy, customers", rows=figures.size)
        owner = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    weights = columns["target"] / columns["propensity"]
    if not weights.any():
        snips, effective = None, 0.0
    else:
        snips = ratio_estimate(weights * figures, weights, level=level, customers=owner)
        effective = float(weights.sum() ** 2 / (weights @ weights))
    doubly = None
    if "predicted_logged" in columns:
        terms = columns["predicted_target"] + weights * (figures - columns["predicted_logged"])
        doubly = mean_estimate(terms, level=level, customers=owner)
    return OffPolicy(
        rows=figures.size,
        effective_rows=effective,
        largest_weight=float(weights.max()),
        ips=mean_estimate(weights * figures, level=level, customers=owner),
        snips=snips,
        dr=doubly,
    )


def _check(columns: dict[str, Vector]) -> None:
    sizes = {name: column.size for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or sizes["figure"] < 2:
        raise InputError("off_policy", found=f"lengths {sizes}", expected="one figure per row, at least two rows")
    for name, column in columns.items():
        if not np.isfinite(column).all():
            row = int(np.flatnonzero(~np.isfinite(column))[0])
            raise InputError(f"off_policy, {name}, row {row + 1}", found="NaN or infinity", expected="finite figures")
    propensity, target = columns["propensity"], columns["target"]
    if (propensity <= 0).any() or (propensity > 1).any():
        row = int(np.flatnonzero((propensity <= 0) | (propensity > 1))[0])
        raise InputError(
            f"off_policy, propensity, row {row + 1}",
            found=float(propensity[row]),
            expected="a probability above 0 and at most 1",
            fix="A row with propensity 0 cannot have happened: the propensities are wrong.",
        )
    if (target < 0).any() or (target > 1).any():
        row = int(np.flatnonzero((target < 0) | (target > 1))[0])
        raise InputError(f"off_policy, target, row {row + 1}", found=float(target[row]), expected="a probability")


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
    if ((place < 0) | (place >= target.shape[1])).any():
        row = int(((place < 0) | (place >= target.shape[1])).argmax())
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


def decision_propensities(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    draws: int = 200,
    engine: Engine | None = None,
) -> Propensities:
    """The law of every customer's depth, from the arguments of `decide`; `.played(decisions.choice)` is what to log.

    Nobody needs it before the codes are out. It costs as much as `draws` decisions for small campaigns, and as many
    draws without a solve for large ones.
    """
    depths = np.asarray(offer.depths, np.float64)
    costs = expected_costs(audience, belief=belief, offer=offer, engine=engine) if offer.budget is not None else None

    def worth(again: int) -> Floats:
        return values_of(
            audience,
            belief=belief,
            depths=depths,
            revenue_weight=offer.revenue_weight,
            policy=policy,
            seed=again,
            campaign=campaign,
            engine=engine,
        )

    def solve(worth: Floats) -> Allocation:
        return allocate_offer(worth, audience, offer, costs=costs, where=f"campaign {campaign}", engine=engine)

    return propensities(
        policy,
        seed=seed,
        worth=worth,
        solve=solve,
        costs=costs,
        draws=draws,
        # prices alone do not tell the segments apart
        method="auto" if offer.segments is None else "resolve",
    )
