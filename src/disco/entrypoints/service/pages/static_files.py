"""The files of the pages: their stylesheet and their scripts."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from disco.entrypoints.service.pages.shell import asset_reply
from disco.entrypoints.service.route import DiscoRoute

router = APIRouter(route_class=DiscoRoute, include_in_schema=False)


@router.get("/static/{file}")
async def static_file(file: Annotated[str, Path(max_length=60)]) -> Response:
    return asset_reply(file)
