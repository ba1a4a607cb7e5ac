"""A backup; other upkeep is declared with its use cases."""

from typing import Annotated

from fastapi import Query, Request, Response

from disco.entrypoints.service.shop_of import ShopOf
from disco.records.people import Role
from disco.web.replies import ARCHIVE, described, streamed_reply
from disco.web.route import Routes

router = Routes("/api/v1", tags=["upkeep"])


@router.get(
    "/backup",
    Role.ADMIN,
    summary="The shop in one file",
    response_class=Response,
    responses=described("A tar.gz archive, as `disco backup` writes it.", ARCHIVE),
)
async def backup(
    shop: ShopOf,
    request: Request,
    damaged: Annotated[bool, Query(description="Also where rows were changed by another program.")] = False,
) -> Response:
    """Database, artefacts, settings and context network, in one consistent state. `disco restore` makes a shop of it.
    It holds hashes of passwords and keys, and the secret of the codes: keep it as you keep the database."""
    return await streamed_reply(
        lambda file: shop.backup(file, damaged=damaged),
        name="shop",
        kind=ARCHIVE,
        limiter=request.app.state.service.uploads,
    )
