"""What the routes and pages of campaigns take: the shop with its use cases, and what their service keeps in memory."""

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from disco.entrypoints.python import Shop
from disco.web.route import shop_of

if TYPE_CHECKING:
    from disco.entrypoints.service.app import ShopService
    from disco.operations.read_out_cache import KeptReadings

ShopOf = Annotated[Shop, Depends(shop_of)]
"""The shop, whose writes carry the caller's name."""


def service_of(request: Request) -> "ShopService":
    """The running service."""
    service: ShopService = request.app.state.service
    return service


def readings_of(request: Request) -> "KeptReadings":
    """Read-outs that pages of this service have shown before."""
    return service_of(request).readings
