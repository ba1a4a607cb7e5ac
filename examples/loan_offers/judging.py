"""What would a policy have been worth? Estimates within strata, each with its interval."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from learning import RANDOM, Trial
from offers import Offers

from disco import objective
from disco.evaluation import Estimate, OffPolicy, mean_estimate, off_policy, ratio_estimate, target_probabilities
from disco.records.arrays import Flags, Integers, Matrix, Vector

TAKE_UP, LOAN_VALUE, REVENUE, OBJECTIVE = "take-up", "loan value", "revenue", "objective"
FIGURES = (TAKE_UP, LOAN_VALUE, REVENUE, OBJECTIVE)
PLACEBO_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Slope:
    """Rise of a figure per unit of depth: within strata, and over all letters as if they were one stratum."""

    figure: str
    within: Estimate
    pooled: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A policy's worth per letter; `gain` against the offers as dealt, `promised` what its belief had foretold."""

    target: str
    figure: str
    value: OffPolicy
    gain: Estimate
    promised: float


def observed(offers: Offers, figure: str, *, revenue_weight: float) -> Vector:
    """(n,) what a letter came to."""
    revenue, markdown = objective.revenue(offers.loan, offers.depth), objective.markdown(offers.loan, offers.depth)
    return {
        TAKE_UP: offers.took.astype(float),
        LOAN_VALUE: offers.loan,
        REVENUE: revenue,
        OBJECTIVE: revenue_weight * revenue - markdown,
    }[figure]


def predicted(trial: Trial, figure: str) -> Matrix:
    """(n, K) what a letter was believed to come to at each level."""
    depths = np.asarray(trial.offers.level_depths)
    loans = trial.engagement * trial.full_price
    revenue, markdown = objective.revenue(loans, depths), objective.markdown(loans, depths)
    figures = {
        TAKE_UP: trial.engagement,
        LOAN_VALUE: loans,
        REVENUE: revenue,
        OBJECTIVE: trial.revenue_weight * revenue - markdown,
    }
    return np.asarray(figures[figure], np.float64)


def judge(trial: Trial, target: str, figure: str, *, rows: Flags | None = None) -> Judged:
    """IPS, SNIPS and DR of a target with propensities of the strata, on all letters or some."""
    kept = np.arange(len(trial.offers)) if rows is None else np.flatnonzero(rows)
    offers, plan = trial.offers, trial.targets[target][kept]
    figures = observed(offers, figure, revenue_weight=trial.revenue_weight)[kept]
    belief, dealt = predicted(trial, figure)[kept], offers.shares[offers.stratum[kept]]
    level, customers = offers.level[kept], np.unique(offers.ids[kept], return_inverse=True)[1]
    value = off_policy(
        figures,
        propensity=offers.propensity[kept],
        target=target_probabilities(plan, dealt, level),
        predicted_logged=belief[np.arange(kept.size), level],
        predicted_target=(plan * belief).sum(axis=1),
        customers=customers,
    )
    terms = gain_terms(figures, level, plan=plan, against=dealt, dealt=dealt, belief=belief)
    promised = float(((plan - dealt) * belief).sum(axis=1).mean())
    return Judged(
        target=target, figure=figure, value=value, gain=mean_estimate(terms, customers=customers), promised=promised
    )


def gain_terms(
    figures: Vector, level: Integers, *, plan: Matrix, against: Matrix, dealt: Matrix, belief: Matrix
) -> Vector:
    """Doubly robust terms of one plan minus another, row by row, so that what both share cancels."""
    at = (np.arange(level.size), level)
    weight = (plan[at] - against[at]) / dealt[at]
    return np.asarray(((plan - against) * belief).sum(axis=1) + weight * (figures - belief[at]))


def between(trial: Trial, figure: str, *, high: int, low: int, rows: Flags | None = None) -> tuple[Estimate, float]:
    """Everybody at one level against everybody at another: as estimated, and as the beliefs had foretold."""
    kept = slice(None) if rows is None else np.flatnonzero(rows)
    offers = trial.offers
    dealt, belief = offers.shares[offers.stratum[kept]], predicted(trial, figure)[kept]
    figures = observed(offers, figure, revenue_weight=trial.revenue_weight)[kept]
    plan, against = (trial.targets[offers.level_names[place]][kept] for place in (high, low))
    terms = gain_terms(figures, offers.level[kept], plan=plan, against=against, dealt=dealt, belief=belief)
    return mean_estimate(terms), float((belief[:, high] - belief[:, low]).mean())


def steps(trial: Trial, figure: str) -> Iterator[tuple[str, Estimate]]:
    """Each level against the next shallower one, and the deepest against the shallowest."""
    names, deepest = trial.offers.level_names, len(trial.offers.level_depths) - 1
    for low, high in (*((place, place + 1) for place in range(deepest)), (0, deepest)):
        yield f"{names[high]} against {names[low]}", between(trial, figure, high=high, low=low)[0]


def slope(offers: Offers, figure: str, *, revenue_weight: float) -> Slope:
    """Least squares of the figure on depth, with one constant per stratum or one for all; errors robust."""
    figures = observed(offers, figure, revenue_weight=revenue_weight)

    def fitted(groups: Integers) -> Estimate:
        rows = np.bincount(groups)
        depth, y = (v - (np.bincount(groups, weights=v) / rows)[groups] for v in (offers.depth, figures))
        return ratio_estimate(depth * y, depth**2)

    return Slope(figure, within=fitted(offers.stratum), pooled=fitted(np.zeros_like(offers.stratum)))


def pooled_curve(offers: Offers, figure: str, *, revenue_weight: float) -> list[float]:
    """The mean per level over all letters: what one sees who forgets that bands were dealt different depths."""
    figures = observed(offers, figure, revenue_weight=revenue_weight)
    return [float(figures[offers.level == place].mean()) for place in range(len(offers.level_depths))]


def placebo_coverage(trial: Trial, *, seed: int, rounds: int = PLACEBO_ROUNDS) -> dict[str, float]:
    """Deal the levels anew within strata, customers and outcomes staying as they are: then no policy gains any loans.

    How often the 95 % interval of each policy's gain in loan value covers that 0.
    """
    offers, rng = trial.offers, np.random.default_rng(seed)
    dealt, belief = offers.shares[offers.stratum], predicted(trial, LOAN_VALUE)
    by_stratum, rows = np.argsort(offers.stratum, kind="stable"), np.arange(len(offers))
    # the terms of `gain_terms`, with what no deal changes computed once
    differences = {name: plan - dealt for name, plan in trial.targets.items() if name != RANDOM}
    promised = {name: (difference * belief).sum(axis=1) for name, difference in differences.items()}
    covered = dict.fromkeys(differences, 0)
    for _ in range(rounds):
        level = np.empty_like(offers.level)
        level[by_stratum] = offers.level[np.lexsort((rng.random(rows.size), offers.stratum))]
        surprise = (offers.loan - belief[rows, level]) / dealt[rows, level]
        for name, difference in differences.items():
            covered[name] += mean_estimate(promised[name] + difference[rows, level] * surprise).covers(0.0)
    return {name: count / rounds for name, count in covered.items()}
