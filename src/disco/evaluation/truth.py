"""Judging a decision by a simulated truth, handed in as plain arrays: what the decision is really worth.

Truth per customer and depth: F (expected full price given a purchase) and p (purchase probability). The expected
objective of a choice is Σ p·F·(w(1−a) − a), its expected revenue Σ p·F·(1−a). Two yardsticks on the same customers with
the same codes per depth: a random allocation (in expectation) and an oracle that knows the truth.
"""

from dataclasses import dataclass

import numpy as np

from disco import objective
from disco.allocation import allocate
from disco.records.arguments import read_matrix
from disco.records.arrays import Floats, Integers, Matrix
from disco.records.errors import InputError


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
