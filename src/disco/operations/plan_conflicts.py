"""Why a plan's limits cannot hold together, in the plan's own numbers.

Each group of customers is solved within its own part of the limits, so what a solve says about a conflict names figures
that no plan contains. Here the question is asked again about the plan as a whole.
"""

import math
from collections.abc import Sequence

import numpy as np

from disco.allocation import Segments, Status, allocate
from disco.operations.arms import assign_at_random
from disco.records.arrays import Floats
from disco.records.currency import GBP, Currency
from disco.records.decisions import Audience, Offer
from disco.records.errors import InfeasibleError
from disco.records.plan import Plan
from disco.records.wording import money

_STEPS, _STEP = 40, 1.02  # a budget that was found is tried, and raised by 2% until it does


def explain_conflict(
    plan: Plan,
    offer: Offer,
    audience: Audience,
    members: Sequence[Audience],
    parts: Sequence[Offer],
    costs: Sequence[Floats | None],
    *,
    currency: Currency = GBP,
) -> None:
    """Raise InfeasibleError in the plan's numbers where one of two causes is found; return where it is neither.

    offer: the limits at the launch; audience: the customers outside the holdout. Of the decided and the control group:
    members, parts (the limits that each is solved with) and costs (markdown by customer and depth, as the budget counts
    it). currency: of the budget.
    """
    found = allocate(
        np.zeros((len(audience), len(offer.depths)), order="F"),
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        segments=Segments.of(audience, offer),
    )
    if found.status is Status.INFEASIBLE:
        reserve = f", of caps without the reserve of {plan.reserve.share:.0%}" if plan.reserve.share else ""
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other{reserve}",
            conflicts=[str(conflict) for conflict in found.conflicts],
            fix="Change one of the limits named above.",
        )
    budget = plan.budget_amount
    if budget is None:
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits hold for all customers, but not for the decided and the control "
            "group apart, which share them in proportion to their customers",
            conflicts=(),
            fix="Lower at_least, or change control.share.",
        )
    needed = _needed_budget(plan, members, parts, costs)
    if needed is not None and needed > budget:
        given, least = (money(amount, full=True, currency=currency) for amount in (budget, needed))
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=[f"The floors (at_least) cost more than the budget of {given}: about {least} are needed"],
            fix=f"Raise the budget to {needed:,}, or lower at_least.",
        )


def _needed_budget(
    plan: Plan,
    members: Sequence[Audience],
    parts: Sequence[Offer],
    costs: Sequence[Floats | None],
) -> int | None:
    """The least whole budget of the plan whose parts pay for the floors of every group, at most 2% too much."""
    everybody, needed = sum(len(group) for group in members), 0.0
    at_launch = 1 - plan.reserve.share
    for place, (group, part, cost) in enumerate(zip(members, parts, costs, strict=True)):
        if not len(group) or cost is None or part.budget is None:
            continue
        free = Offer(
            depths=part.depths,
            caps=part.caps,
            revenue_weight=part.revenue_weight,
            floors=part.floors,
            segments=part.segments,
        )
        whole = everybody / len(group) / at_launch  # of the plan's budget per unit of this group's
        if place == 0 and not plan.policy.assigns_at_random:
            least = allocate(
                np.asfortranarray(-cost),
                free.caps,
                depths=free.depths,
                floors=free.floors,
                segments=Segments.of(group, free),
                ids=group.ids,
            )
            if least.status is Status.INFEASIBLE:
                return None
            needed = max(needed, -least.value * whole)
        else:
            own = _random_floor_budget(plan, group, part, cost)
            if own is None:
                return None
            needed = max(needed, own * whole)
    return math.ceil(needed * (1 + 1e-9))


def _random_floor_budget(plan: Plan, group: Audience, part: Offer, cost: Floats) -> float | None:
    """A budget of a group whose codes are assigned at random that pays for its floors; None: none does."""
    of_segments = [limits.floors for limits in (part.segments or {}).values()]
    floors = np.maximum(np.asarray(part.floors or [0] * len(part.depths)), np.sum(of_segments, axis=0))
    budget = max(float((cost.mean(axis=0) * floors).sum()), 1e-6)
    for _ in range(_STEPS):
        try:
            assign_at_random(
                group.ids,
                Offer(
                    depths=part.depths,
                    caps=part.caps,
                    revenue_weight=part.revenue_weight,
                    floors=part.floors,
                    budget=budget,
                    segments=part.segments,
                ),
                segment=group.segment,
                costs=cost,
                seed=plan.seed,
                campaign=plan.campaign,
            )
        except InfeasibleError:
            budget *= _STEP
        else:
            return budget
    return None
