"""Upkeep of what is kept: a backup, customers who are to be forgotten, and what is old."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from disco.entrypoints.service.shop_of import ShopOf
from disco.operations.forget import Forgotten, Pruned
from disco.records.people import Role
from disco.web.reading import RequestBody
from disco.web.replies import ARCHIVE, described, reply, streamed_reply
from disco.web.route import Routes

router = Routes("/api/v1", tags=["upkeep"])
_MOST_CUSTOMERS = 10_000
_LONGEST_DAYS = 100 * 365
DryRun = Annotated[bool, Query(description="Show what would happen; write nothing.")]


class ForgetRequest(RequestBody):
    """Who is to be forgotten."""

    customers: list[Annotated[str, Field(min_length=1, max_length=1000)] | int] = Field(
        min_length=1, max_length=_MOST_CUSTOMERS, description="Their ids."
    )


class PruneRequest(RequestBody):
    """What is to be removed."""

    days: int = Field(ge=1, le=_LONGEST_DAYS, description="What is older than so many days.")
    features: bool = Field(
        False,
        description="Also retained features of campaigns that ended before; these cannot be learned again under "
        "another network then.",
    )


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


@router.post("/forget", Role.ADMIN, summary="Forget customers, everywhere", response_model=Forgotten)
def forget(shop: ShopOf, body: ForgetRequest, dry_run: DryRun = False) -> Response:
    """Another name takes the place of their ids, and their features and contexts go. This cannot be undone. Where
    `unfinished` is not empty, repeat the request."""
    return reply(shop.forget(body.customers, dry_run=dry_run))


@router.post("/prune", Role.ADMIN, summary="Remove what is old and needed by nothing", response_model=Pruned)
def prune(shop: ShopOf, body: PruneRequest, dry_run: DryRun = False) -> Response:
    return reply(shop.prune(days=body.days, features=body.features, dry_run=dry_run))
