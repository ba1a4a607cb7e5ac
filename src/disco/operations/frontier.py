"""What a plan could reach: revenue against markdown over revenue weights and over budgets, at the posterior mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from disco import allocation, objective
from disco.allocation import Status
from disco.campaign import Belief
from disco.records.arrays import Floats
from disco.records.decisions import Audience, Offer
from disco.records.errors import StateError
from disco.records.ports import Engine

_WEIGHT_STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of the plan's revenue weight
_BUDGET_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of what is spent without a budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One allocation of the path, in expected money. `feasible` is False where the limits contradict the budget."""

    revenue_weight: float
    budget: float | None
    codes: int
    revenue: float
    markdown: float
    feasible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """by_weight: without a budget, markdown rising with the weight of revenue · by_budget: at the plan's own weight."""

    by_weight: tuple[Reach, ...]
    by_budget: tuple[Reach, ...]


def frontier(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    engine: Engine | None = None,
) -> Frontier:
    """Exact allocations of everybody under the offer's caps and floors, at expected baskets: no draws, no arms.

    Without grids: from a quarter to four times the offer's weight, and from a tenth to all of what the offer's weight
    would spend without a budget (and the offer's own budget, where it has one).
    """
    if not belief.basket.campaigns:
        raise StateError(
            "frontier",
            found="a belief without evidence",
            expected="at least one campaign learned",
            fix="Launch a random campaign and `disco learn` it: before that, nobody knows what a depth brings.",
        )
    depths = np.asarray(offer.depths, np.float64)
    rates = belief.engagement.rates(depths)
    full_price = belief.basket.expected_full_price(audience.context, depths, engine=engine) * rates
    revenue, markdown = objective.revenue(full_price, depths), objective.markdown(full_price, depths)
    weights = revenue_weights or tuple(offer.revenue_weight * step for step in _WEIGHT_STEPS)
    by_weight = _reach(audience, offer, revenue, markdown, weights=weights, budgets=None, engine=engine)
    if budgets is None:
        (free,) = _reach(
            audience, offer, revenue, markdown, weights=(offer.revenue_weight,), budgets=None, engine=engine
        )
        own = () if offer.budget is None else (offer.budget,)
        budgets = sorted({*(free.markdown * step for step in _BUDGET_STEPS), *own})
    by_budget = _reach(
        audience, offer, revenue, markdown, weights=(offer.revenue_weight,), budgets=budgets, engine=engine
    )
    return Frontier(by_weight=by_weight, by_budget=by_budget)


def _reach(
    audience: Audience,
    offer: Offer,
    revenue: Floats,
    markdown: Floats,
    *,
    weights: Sequence[float],
    budgets: Sequence[float] | None,
    engine: Engine | None,
) -> tuple[Reach, ...]:
    points = allocation.frontier(
        revenue,
        markdown,
        offer.caps,
        revenue_weights=weights,
        budgets=budgets,
        depths=offer.depths,
        floors=offer.floors,
        ids=audience.ids,
        engine=engine,
    )
    return tuple(
        Reach(
            revenue_weight=point.revenue_weight,
            budget=point.budget,
            codes=int(np.sum(point.allocation.counts)),
            revenue=point.revenue,
            markdown=point.markdown,
            feasible=point.allocation.status is not Status.INFEASIBLE,
        )
        for point in points
    )
