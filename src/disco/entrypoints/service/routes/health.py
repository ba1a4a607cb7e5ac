"""The service about itself: health, readiness, figures, the OpenAPI document and its page."""

from typing import Annotated

from fastapi import Path, Request, Response
from starlette.responses import HTMLResponse

from disco.adapters.sentences import in_words
from disco.entrypoints.service import documents
from disco.records.errors import DiscoError, UnavailableError
from disco.web.logs import CONTENT_TYPE
from disco.web.replies import json_reply
from disco.web.route import Routes
from disco.web.security import PUBLIC

router = Routes(tags=["service"])


@router.get("/healthz", PUBLIC, summary="The server answers")
async def healthz() -> Response:
    return json_reply({"status": "ok"})


@router.get("/readyz", PUBLIC, summary="The database and the folder of artefacts can be used")
def readyz(request: Request) -> Response:
    """503 with the reason where the database cannot be reached, is at another revision than this program, or the
    artefacts cannot be written."""
    try:
        request.app.state.service.shop().refuse_unready()
    except (DiscoError, OSError) as error:
        raise UnavailableError(str(in_words(error))) from error
    return json_reply({"status": "ready"})


@router.get("/metrics", PUBLIC, summary="Figures for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    return Response(request.app.state.service.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/openapi.json", PUBLIC, summary="This document")
async def openapi() -> Response:
    return Response(documents.document_text(), media_type="application/json")


@router.get(
    "/docs", PUBLIC, summary="A page about all routes, which needs no other server", response_class=HTMLResponse
)
async def docs() -> Response:
    return documents.page()


@router.get("/docs/{file}", PUBLIC, summary="The files of that page", response_class=Response)
async def docs_file(file: Annotated[str, Path(max_length=60)]) -> Response:
    return documents.file_of_page(file)
