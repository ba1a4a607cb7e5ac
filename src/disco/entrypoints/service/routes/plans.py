"""Plans: decided by a job, listed, shown and approved."""

from typing import Annotated

from fastapi import Path, Request, Response

from disco.entrypoints.service.shop_of import ShopOf
from disco.operations.review import PlanDifference, PlanEntry
from disco.records.errors import InputError
from disco.records.people import Role
from disco.web.discretion import as_seen
from disco.web.replies import Cursor, ItemPage, Limit, cursor_of, json_reply, page_form, place_of, reply
from disco.web.route import Routes

router = Routes("/api/v1", tags=["plans"])
PlanId = Annotated[str, Path(max_length=200, description="The id of a plan, or its beginning.")]


@router.get(
    "/plans", Role.VIEWER, summary="The plans that are kept, the newest first", response_model=ItemPage[PlanEntry]
)
def plans(shop: ShopOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    from datetime import datetime

    from disco.operations.review import list_plans

    place, before = place_of(cursor, kind=list), None
    if place is not None:
        try:
            moment, plan_id = place
            before = datetime.fromisoformat(moment), str(plan_id)
            if before[0].tzinfo is None:
                raise ValueError
        except (TypeError, ValueError):
            raise InputError("cursor", found=repr(str(cursor)[:60]), expected="`next` of the page before") from None
    with shop.store() as store:
        entries, after = list_plans(store, limit=limit, before=before)
    return json_reply(page_form(entries, None if after is None else cursor_of([after[0].isoformat(), after[1]])))


@router.get(
    "/plans/{plan_id}/diff/{other}",
    Role.VIEWER,
    summary="What changes from one plan to another",
    response_model=PlanDifference,
)
def diff(shop: ShopOf, request: Request, plan_id: PlanId, other: PlanId) -> Response:
    """Settings, and who gets what. Each is the id of a plan, its beginning, or a campaign."""
    from disco.operations.review import compare_plans, find_plan

    with shop.store() as store:  # kept plans alone: files of the server are nobody's to read
        return reply(as_seen(request, compare_plans(find_plan(store, plan_id), find_plan(store, other))))
