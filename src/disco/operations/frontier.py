"""What a plan could reach: revenue against markdown over revenue weights and over budgets, at the posterior mean."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from disco import allocation, objective
from disco.allocation import Status
from disco.campaign import Belief
from disco.operations.arms import offer_of
from disco.operations.audience import FeatureCache, ShopData, load_audience
from disco.operations.versions import belief_for
from disco.records.arrays import Floats
from disco.records.decisions import Audience, Offer
from disco.records.errors import StateError
from disco.records.plan import Plan
from disco.records.ports import Engine, Store
from disco.records.result import TableResult

_WEIGHT_STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of the plan's revenue weight
_BUDGET_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of what is spent without a budget


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierEntry:
    """One allocation, in expected money."""

    revenue_weight: float
    """The weight w of revenue in w·revenue − markdown."""
    budget: float | None
    """The ceiling of expected markdown; null: none."""
    codes: int
    """Codes given."""
    revenue: float
    """Expected revenue of all codes."""
    markdown: float
    """What the discounts are expected to cost."""
    feasible: bool
    """False where the limits contradict the budget."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frontier(TableResult):
    """What a plan could reach: revenue against markdown. As a table: one row per point."""

    campaign: str
    """The name of the campaign."""
    by_weight: tuple[FrontierEntry, ...]
    """Without a budget, markdown rising with the weight of revenue."""
    by_budget: tuple[FrontierEntry, ...]
    """At the plan's own weight, budget rising."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""

    def to_arrow(self) -> pa.Table:
        paths = {"weight": self.by_weight, "budget": self.by_budget}
        return pa.Table.from_pylist([{"over": over, **asdict(point)} for over, path in paths.items() for point in path])


def plan_frontier(
    store: Store,
    data: ShopData,
    plan: Plan,
    *,
    prior: Belief,
    cache: FeatureCache,
    engine: Engine | None = None,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
) -> Frontier:
    """The frontier of a plan's customers under its limits, with the active model. Nothing is kept."""
    loaded = load_audience(data, plan, cache=cache, engine=engine)
    belief, _ = belief_for(store, prior=prior, network=loaded.network)
    offer = offer_of(plan, eligible=len(loaded.audience))
    return frontier(
        loaded.audience,
        campaign=plan.campaign,
        belief=belief,
        offer=offer,
        revenue_weights=revenue_weights,
        budgets=budgets,
        warnings=loaded.notes,
        engine=engine,
    )


def frontier(
    audience: Audience,
    *,
    campaign: str,
    belief: Belief,
    offer: Offer,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    warnings: tuple[str, ...] = (),
    engine: Engine | None = None,
) -> Frontier:
    """Exact allocations of everybody under the offer's caps and floors, at expected baskets: no draws, no groups.

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
    by_weight = _path(audience, offer, revenue, markdown, weights=weights, budgets=None, engine=engine)
    if budgets is None:
        (free,) = _path(
            audience, offer, revenue, markdown, weights=(offer.revenue_weight,), budgets=None, engine=engine
        )
        own = () if offer.budget is None else (offer.budget,)
        budgets = sorted({*(free.markdown * step for step in _BUDGET_STEPS), *own})
    by_budget = _path(
        audience, offer, revenue, markdown, weights=(offer.revenue_weight,), budgets=budgets, engine=engine
    )
    return Frontier(campaign=campaign, by_weight=by_weight, by_budget=by_budget, warnings=warnings)


def _path(
    audience: Audience,
    offer: Offer,
    revenue: Floats,
    markdown: Floats,
    *,
    weights: Sequence[float],
    budgets: Sequence[float] | None,
    engine: Engine | None,
) -> tuple[FrontierEntry, ...]:
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
        FrontierEntry(
            revenue_weight=point.revenue_weight,
            budget=point.budget,
            codes=int(np.sum(point.allocation.counts)),
            revenue=point.revenue,
            markdown=point.markdown,
            feasible=point.allocation.status is not Status.INFEASIBLE,
        )
        for point in points
    )
