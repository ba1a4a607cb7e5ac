"""How good predictions and decisions are, where the truth is known.

Predictions of full prices are judged by purchases: their errors, and whether they rise with the discount as they
should. Decisions are judged by a simulated truth, handed in as plain arrays: what they are really worth.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from disco import objective
from disco.allocation import allocate
from disco.records.arguments import read_column, read_matrix
from disco.records.arrays import Floats, Integers, Matrix
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


# ---- decisions, by a simulated truth ---------------------------------------------------------------------------------
#
# Truth per customer and depth: F (expected full price given a purchase) and p (purchase probability). The expected
# objective of a choice is Σ p·F·(w(1−a) − a), its expected revenue Σ p·F·(1−a). Two yardsticks on the same customers
# with the same codes per depth: a random allocation (in expectation) and an oracle that knows the truth.


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Expected revenue and objective Σ w·R − C of a decision and of its yardsticks, in money."""

    revenue: float
    objective: float
    random_revenue: float  # of a random allocation with the same codes per depth
    random_objective: float
    shuffled_objective: float  # the same customers, their depths assigned at random among them
    oracle_revenue: float  # of the best allocation with the same codes per depth
    oracle_objective: float

    @property
    def revenue_uplift(self) -> float:
        """Relative to random allocation with the same codes per depth."""
        return self.revenue / self.random_revenue - 1

    @property
    def objective_uplift(self) -> float:
        return self.objective / self.random_objective - 1

    @property
    def uplift_by_whom(self) -> float:
        """The part of the objective's uplift that comes from who gets a code at all."""
        return self.shuffled_objective / self.random_objective - 1

    @property
    def uplift_by_depth(self) -> float:
        """The part that comes from which depth they get; both parts multiply to the whole."""
        return self.objective / self.shuffled_objective - 1

    @property
    def share_of_possible(self) -> float:
        """The share of the oracle's gain over random that the decision reached, on the objective."""
        possible = self.oracle_objective - self.random_objective
        return (self.objective - self.random_objective) / possible if possible > 0 else 0.0


def judge(
    choice: Integers,
    *,
    full_price: Matrix,
    purchase_probability: Matrix,
    depths: tuple[float, ...],
    revenue_weight: float,
) -> Judgement:
    """Compare a choice with a random allocation and with an oracle that knows the truth.

    choice (n,): position in `depths`, -1 = none.
    full_price (n, K): E[F | purchase], money. purchase_probability (n, K).
    depths (K,). revenue_weight: the weight w of w·R − C.

    >>> truth = {"full_price": np.array([[100.0, 110.0], [100.0, 180.0]]), "purchase_probability": np.full((2, 2), 0.5)}
    >>> result = judge(np.array([0, 1]), **truth, depths=(0.1, 0.3), revenue_weight=3.0)
    >>> result.share_of_possible, round(result.revenue_uplift, 3)
    (1.0, 0.128)
    """
    choice, grid = np.asarray(choice), np.asarray(depths)
    full_price = read_matrix(full_price, where="judge, full_price", rows=choice.size)
    purchase_probability = read_matrix(purchase_probability, where="judge, purchase_probability", rows=choice.size)
    if not full_price.shape == purchase_probability.shape == (choice.size, grid.size) or choice.max() >= grid.size:
        raise InputError(
            "judge",
            found=f"shapes {full_price.shape} and {purchase_probability.shape}, choices up to {choice.max()}",
            expected=f"({choice.size}, {grid.size}) twice, choices below {grid.size}",
        )
    expected_price = full_price * purchase_probability
    revenues = objective.revenue(expected_price, grid)
    worth = expected_price * objective.weights(grid, np.ones(grid.size), revenue_weight=revenue_weight)
    counts = np.bincount(choice[choice >= 0], minlength=grid.size)
    best = allocate(np.asfortranarray(worth), counts.tolist(), floors=counts.tolist()).choice
    return Judgement(
        revenue=_total(revenues, choice),
        objective=_total(worth, choice),
        random_revenue=float(revenues.mean(axis=0) @ counts),
        random_objective=float(worth.mean(axis=0) @ counts),
        shuffled_objective=float(worth[choice >= 0].mean(axis=0) @ counts) if counts.any() else 0.0,
        oracle_revenue=_total(revenues, best),
        oracle_objective=_total(worth, best),
    )


def _total(figures: Floats, choice: Integers) -> float:
    rows = np.flatnonzero(choice >= 0)
    return float(figures[rows, choice[rows]].sum())
