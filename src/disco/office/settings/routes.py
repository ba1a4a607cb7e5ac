"""Settings of the shop: shown without secrets, and changed in disco.yaml."""

from typing import Annotated, Any

from fastapi import Body, Response

from disco.adapters.config import ShopSettings
from disco.adapters.shop import ShopFolder
from disco.office.approvals.use_cases import approval_setting
from disco.office.settings.file import CHANGEABLE, change_shop, shown_settings
from disco.records.people import Role
from disco.web.replies import json_reply
from disco.web.route import Routes, ShopOf

router = Routes("/api/v1", tags=["service"])


@router.get("/settings", Role.PLANNER, summary="The settings, without passwords", response_model=dict[str, Any])
def settings(shop: ShopOf) -> Response:
    return json_reply(_form(shop, shop.settings))


@router.patch("/settings", Role.ADMIN, summary="Change settings", response_model=dict[str, Any])
def change(
    shop: ShopOf, body: Annotated[dict[str, Any], Body(description=f"Any of {', '.join(CHANGEABLE)}.")]
) -> Response:
    """What the body has is written to disco.yaml; null takes a setting back to its default. `approval` (none or
    second_person) is kept in the database; the stricter of the two counts. The others name files, databases and proxies
    of the machine: whoever runs it changes them there."""
    return json_reply(_form(shop, change_shop(shop, body)))


def _form(shop: ShopFolder, found: ShopSettings) -> dict[str, Any]:
    with shop.store() as store:
        rule = approval_setting(store, rule=found.approval).approval
    return {**shown_settings(found, rule), "changeable": ["approval", *CHANGEABLE]}
