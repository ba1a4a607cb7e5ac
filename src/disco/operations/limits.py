"""A plan's limits in customers and money, and whether any allocation can keep them."""

from disco.records.decisions import Offer
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError
from disco.records.plan import Plan


def offer_of(plan: Plan, *, eligible: int) -> Offer:
    """The plan's limits in customers and money; what is reserved of caps and budget stays back for late arrivals."""
    floors = plan.floors(eligible)
    now = 1 - plan.reserve.share
    return Offer(
        depths=plan.offered,
        caps=tuple(None if cap is None else int(cap * now + 1e-9) for cap in plan.caps(eligible)),
        revenue_weight=plan.objective.revenue_weight,
        floors=floors if any(floors) else None,
        budget=None if plan.budget is None else plan.budget * now,
    )


def refuse_contradictions(plan: Plan, offer: Offer, *, eligible: int, customers: int) -> None:
    """Floors that no allocation can keep, said in the plan's own numbers: each arm will see only its part of them."""
    floors, caps = plan.floors(eligible), plan.caps(eligible)
    conflicts = [
        f"{depth_percent(depth)}: at least {floor:,} codes, and at most {cap:,}"
        + (f", of which {cap - now:,} stay in reserve" if cap - now else "")
        for depth, floor, cap, now in zip(plan.offered, floors, caps, offer.caps, strict=True)
        if cap is not None and now is not None and floor > now
    ]
    if sum(floors) > customers:
        conflicts.append(f"at least {sum(floors):,} codes, for {customers:,} customers outside the holdout")
    if conflicts:
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=conflicts,
            fix="Lower at_least, or raise at_most.",
        )
