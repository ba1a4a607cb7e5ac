"""What a plan could reach: revenue against markdown over weights, budgets or one cap, at the posterior mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from disco import allocation, objective
from disco.allocation import Status
from disco.campaign import Belief
from disco.operations.arms import holdout_secret, offer_of
from disco.operations.audience import ShopData, contacted, load_audience
from disco.operations.backtests import past_forecasts
from disco.operations.contexts import FeatureCache
from disco.operations.deciding import Basis
from disco.operations.versions import belief_for
from disco.records.arrays import Floats, Vector
from disco.records.currency import GBP
from disco.records.decisions import Audience, Offer
from disco.records.depths import depth_label
from disco.records.errors import InputError, StateError
from disco.records.plan import Plan
from disco.records.ports import Engine
from disco.records.result import TableResult
from disco.store import Store

WEIGHT_STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of the plan's revenue weight
BUDGET_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of what is spent without a budget
_CAP_STEPS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)  # of the plan's cap
_CAP_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)  # of the customers, where the plan has no cap


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
    """False where the limits contradict each other or the budget."""
    present: bool = False
    """Whether these are the weight, the budget and the caps of the plan."""
    cap: int | None = None
    """In `by_cap`: the most codes of that depth, the reserve included; null: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frontier(TableResult):
    """What a plan could reach: revenue against markdown. As a table: one row per point."""

    campaign: str
    """The name of the campaign."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    by_weight: tuple[FrontierEntry, ...]
    """Without a budget, markdown rising with the weight of revenue."""
    by_budget: tuple[FrontierEntry, ...]
    """At the plan's own weight, budget rising."""
    present: FrontierEntry
    """The plan as it is: its weight, budget and caps."""
    cap_depth: float | None = None
    """The depth whose cap was varied; null: none."""
    by_cap: tuple[FrontierEntry, ...] = ()
    """At the plan's own weight and budget, the cap of that depth rising."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""

    def to_arrow(self) -> pa.Table:
        paths = {"weight": self.by_weight, "budget": self.by_budget, "cap": self.by_cap}
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
    cap: float | None = None,
) -> Frontier:
    """The frontier of a plan's customers under its limits, with the active model. Nothing is kept.

    cap: a depth of the plan, whose cap is varied as well.
    """
    _refuse_other_depth(plan, cap)
    loaded = load_audience(data, plan, cache=cache, engine=engine, contacted=contacted(store, data, plan))
    belief, _ = belief_for(store, prior=prior, network=loaded.network, head=loaded.head)
    past = past_forecasts(
        store, learned=belief.basket.campaigns, as_of=plan.customers.as_of, personal=belief.head is not None
    )
    with store.reading() as transaction:
        secret = holdout_secret(transaction, plan)
    basis = Basis(
        audience=loaded.audience,
        belief=belief,
        past=past,
        currency=store.locale.currency,
        secret=secret,
        engine=engine,
    )
    return frontier_of(basis, plan, notes=loaded.notes, revenue_weights=revenue_weights, budgets=budgets, cap=cap)


def frontier_of(
    basis: Basis,
    plan: Plan,
    *,
    notes: tuple[str, ...] = (),
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    cap: float | None = None,
) -> Frontier:
    """The frontier of a plan on customers who are loaded, such as those of an opened audience.

    notes: shown among the warnings. The others: as in `plan_frontier`.
    """
    _refuse_other_depth(plan, cap)
    groups = basis.groups(plan)
    return frontier(
        basis.audience,
        campaign=plan.campaign,
        currency=basis.currency.code,
        belief=basis.belief,
        offer=offer_of(plan, eligible=groups.eligible, segment_sizes=groups.segment_sizes),
        revenue_weights=revenue_weights,
        budgets=budgets,
        cap_depth=cap,
        caps=None if cap is None else _caps(plan, cap, eligible=groups.eligible),
        factors=basis.past.calibrations(plan.offered)[True].factors(plan.offered),
        warnings=(*notes, *_risk_warning(plan)),
        engine=basis.engine,
    )


def _refuse_other_depth(plan: Plan, cap: float | None) -> None:
    if cap is not None and cap not in plan.offered:
        offered = ", ".join(map(depth_label, plan.offered))
        raise InputError("--cap", found=f"the depth {depth_label(cap)}", expected=f"a depth of the plan: {offered}")


def refuse_without_evidence(belief: Belief) -> None:
    """StateError where nothing was learned: nobody knows what a depth brings."""
    if not belief.basket.campaigns:
        raise StateError(
            "frontier",
            found="a belief without evidence",
            expected="at least one campaign learned",
            fix="Launch a random campaign and `disco learn` it: before that, nobody knows what a depth brings.",
        )


def frontier(
    audience: Audience,
    *,
    campaign: str,
    currency: str = GBP.code,
    belief: Belief,
    offer: Offer,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    cap_depth: float | None = None,
    caps: Mapping[int | None, int | None] | None = None,
    factors: Vector | None = None,
    warnings: tuple[str, ...] = (),
    engine: Engine | None = None,
) -> Frontier:
    """Exact allocations of everybody under the offer's caps and floors, at expected baskets: no draws, no groups.

    Without grids: from a quarter to four times the offer's weight, and from a tenth to all of what the offer's weight
    would spend without a budget (and the offer's own budget, where it has one).

    caps: for `cap_depth`, what an operator would write (the reserve included) and what that leaves for the offer.
    factors (K,): what decided codes of earlier campaigns brought per unit expected; revenue and markdown contain it, as
    the forecast of a plan does, and so a budget means the same here and there. None: 1.
    """
    refuse_without_evidence(belief)
    depths = np.asarray(offer.depths, np.float64)
    full_price = belief.basket.expected_full_price(audience.context, depths, engine=engine)
    full_price *= belief.rates(audience, depths, engine=engine)
    full_price *= 1.0 if factors is None else factors
    revenue, markdown = objective.revenue(full_price, depths), objective.markdown(full_price, depths)
    weights = revenue_weights or tuple(offer.revenue_weight * step for step in WEIGHT_STEPS)
    path = partial(_path, audience, revenue=revenue, markdown=markdown, engine=engine)
    (present,) = path(offer, weights=(offer.revenue_weight,), budgets=(offer.budget,))
    present = replace(present, present=True)
    by_weight = path(offer, weights=weights, budgets=None)
    if budgets is None:
        (free,) = path(offer, weights=(offer.revenue_weight,), budgets=None)
        own = () if offer.budget is None else (offer.budget,)
        budgets = sorted({*(free.markdown * step for step in BUDGET_STEPS), *own})
    by_budget = path(offer, weights=(offer.revenue_weight,), budgets=budgets)
    by_cap: list[FrontierEntry] = []
    for shown, left in (caps or {}).items():
        column = offer.depths.index(cap_depth) if cap_depth is not None else 0
        other = replace(offer, caps=(*offer.caps[:column], left, *offer.caps[column + 1 :]))
        (point,) = path(other, weights=(offer.revenue_weight,), budgets=(offer.budget,))
        by_cap.append(replace(point, cap=shown, present=other.caps == offer.caps))
    return Frontier(
        campaign=campaign,
        currency=currency,
        by_weight=tuple(_marked(by_weight, offer)),
        by_budget=tuple(_marked(by_budget, offer)),
        present=present,
        cap_depth=cap_depth,
        by_cap=tuple(by_cap),
        warnings=warnings,
    )


def _risk_warning(plan: Plan) -> Iterator[str]:
    if plan.overspend_risk is not None:
        yield (
            f"The plan's overspend_risk of {plan.overspend_risk:.0%} is not applied here: every line may spend its "
            "whole budget in expectation. `disco plan` states the lower ceiling."
        )


def _caps(plan: Plan, depth: float, *, eligible: int) -> dict[int | None, int | None]:
    """Caps to try, as an operator writes them, each with what the reserve leaves of it; the plan's own among them."""
    own, now = plan.caps(eligible)[plan.offered.index(depth)], 1 - plan.reserve.share
    tried = {round(step * own) for step in _CAP_STEPS} if own else {round(share * eligible) for share in _CAP_SHARES}
    floor = plan.floors(eligible)[plan.offered.index(depth)]
    shown = sorted(cap for cap in tried | ({own} if own is not None else set()) if cap >= floor)
    found: dict[int | None, int | None] = {cap: int(cap * now + 1e-9) for cap in shown}
    return found | ({None: None} if own is None else {})


def _marked(path: Sequence[FrontierEntry], offer: Offer) -> Iterator[FrontierEntry]:
    for point in path:
        own = point.revenue_weight == offer.revenue_weight and point.budget == offer.budget
        yield replace(point, present=own)


def _path(
    audience: Audience,
    offer: Offer,
    *,
    revenue: Floats,
    markdown: Floats,
    weights: Sequence[float],
    budgets: Sequence[float | None] | None,
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
        segments=allocation.Segments.of(audience, offer),
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
