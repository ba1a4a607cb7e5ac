"""Approvals: given to a plan, and looked up."""

from typing import Annotated

from fastapi import Path, Response

from disco.office.approvals.use_cases import Approved, approve_plan
from disco.operations.approvals import PlanApproval, plan_approval
from disco.records.people import Role
from disco.web.replies import reply
from disco.web.route import ClockOf, Routes, ShopOf, StoreOf

router = Routes("/api/v1", tags=["plans"])
PlanId = Annotated[str, Path(max_length=200, description="The id of a plan, or its beginning.")]


@router.post(
    "/plans/{plan_id}/approve",
    Role.APPROVER,
    summary="Consent to the launch of exactly this plan",
    response_model=Approved,
)
def approve(store: StoreOf, clock: ClockOf, plan_id: PlanId) -> Response:
    """Whoever made a plan cannot approve it."""
    return reply(approve_plan(store, plan_id, clock))


@router.get(
    "/plans/{plan_id}/approval", Role.VIEWER, summary="Who made and who approved a plan", response_model=PlanApproval
)
def approval(shop: ShopOf, plan_id: PlanId) -> Response:
    with shop.store() as store:
        return reply(plan_approval(store, plan_id, rule=shop.settings.approval))
