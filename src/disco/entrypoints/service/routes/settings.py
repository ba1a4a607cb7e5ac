"""Settings of the shop: shown without secrets, and changed in disco.yaml."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from disco.entrypoints.config import ShopSettings
from disco.entrypoints.python import Shop
from disco.entrypoints.service.route import DiscoRoute, ShopOf, json_reply
from disco.entrypoints.settings_file import CHANGEABLE, change_settings

router = APIRouter(prefix="/api/v1", route_class=DiscoRoute, tags=["service"])


@router.get("/settings", summary="The settings, without passwords", response_model=dict[str, Any])
def settings(shop: ShopOf) -> Response:
    return json_reply(_form(shop, shop.settings))


@router.patch("/settings", summary="Change settings", response_model=dict[str, Any])
def change(
    shop: ShopOf, body: Annotated[dict[str, Any], Body(description=f"Any of {', '.join(CHANGEABLE)}.")]
) -> Response:
    """What the body has is written to disco.yaml; null takes a setting back to its default. The others name files,
    databases and proxies of the machine: whoever runs it changes them there."""
    return json_reply(_form(shop, change_settings(shop.folder, body)))


def _form(shop: Shop, found: ShopSettings) -> dict[str, Any]:
    from disco.adapters.store.opening import shown_url

    form = found.model_dump(mode="json")
    for name in ("database_url", "data"):
        form[name] = shown_url(form[name])
    return {**form, "changeable": list(CHANGEABLE)}
