"""The retailer's tables: what they are, new ones in their place, what their columns are called."""

from pathlib import Path as File
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Path, Request, Response
from pydantic import Field

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf
from disco.entrypoints.shop_tables import TableState, map_columns, point_to, replace_by, table_state
from disco.office.jobs.bodies import Day
from disco.records.people import Role
from disco.records.tables import MOST_SENT_ROWS, SCHEMAS
from disco.web.discretion import as_seen
from disco.web.once import answered_once
from disco.web.reading import RequestBody, read_json, uploaded
from disco.web.replies import ENDINGS, JSON, PARQUET, ItemPage, described, json_reply, reply, streamed_reply
from disco.web.route import Routes, content_type, file_or_json, invalid
from disco.web.security import refuse_below

router = Routes("/api/v1", tags=["tables"])
TableName = Annotated[str, Path(max_length=60, description=f"One of {', '.join(SCHEMAS)}.")]


class TablePlace(RequestBody):
    """Where a table is: a file below the folder of the tables, or a query where the setting `data` names a database."""

    file: str | None = Field(
        None, min_length=1, max_length=1000, description="A .parquet or .csv file below the folder of the tables."
    )
    query: str | None = Field(None, min_length=1, max_length=100_000, description="A SELECT that gives the columns.")


@router.get("/tables", Role.VIEWER, summary="The tables of the shop", response_model=ItemPage[TableState])
def tables(shop: ShopOf, request: Request) -> Response:
    items = [as_seen(request, table_state(shop, name)).as_dict() for name in SCHEMAS]
    return json_reply({"items": items, "next": None})


@router.get(
    "/tables/{name}", Role.VIEWER, summary="A table: where it is, its columns and rows", response_model=TableState
)
def table(shop: ShopOf, request: Request, name: TableName) -> Response:
    return reply(as_seen(request, table_state(shop, name)))


@router.put(
    "/tables/{name}",
    Role.PLANNER,
    summary="Replace a table",
    response_model=TableState,
    openapi_extra=file_or_json({"$ref": "#/components/schemas/TablePlace"}),
)
async def put_table(shop: ShopOf, request: Request, name: TableName) -> Response:
    """The body is a Parquet or CSV file, or JSON that names a file below the folder of the tables or a query. It is
    checked as `disco validate` checks tables; only a table without problems replaces the old one, whole."""
    kind = content_type(request, JSON)
    service = request.app.state.service
    if kind == JSON:  # names a place
        request.scope["disco.body"].allow(service.largest_body(upload=False, is_json=True))
    async with uploaded(request, name=f"{name if name in SCHEMAS else 'table'}{ENDINGS.get(kind, '.json')}") as (
        file,
        digest,
    ):

        def replaced() -> TableState:
            if kind == JSON:
                return _pointed(shop, request, name, file)
            from disco.adapters.tables.folder import check_sent

            check_sent(file, most_rows=MOST_SENT_ROWS)
            return replace_by(shop, name, file)

        async def answer() -> Response:
            return reply(await to_thread.run_sync(replaced, limiter=service.tables))

        return await answered_once(request, digest, answer)


def _pointed(shop: Shop, request: Request, name: str, body: File) -> TableState:
    from pydantic import ValidationError

    try:
        source = TablePlace.model_validate(read_json(body.read_bytes()))
    except ValidationError as error:
        raise invalid(error.errors(include_url=False), place="body") from None
    if source.query is not None:  # reads whatever the retailer's database shows this program
        refuse_below(request, Role.ADMIN)
    return point_to(shop, name, file=source.file, query=source.query)


@router.put(
    "/tables/{name}/columns", Role.PLANNER, summary="What the columns of a table are called", response_model=TableState
)
def columns(shop: ShopOf, name: TableName, body: dict[str, Annotated[str, Field(max_length=300)]]) -> Response:
    """Our name → yours, such as {"full_price": "Warenwert"}; an empty object: ours. Kept in disco.yaml."""
    return reply(map_columns(shop, name, body))


class FeaturesRequest(RequestBody):
    """Which features are computed."""

    as_of: Day = Field(description="Only rows dated before this day count.")
    catalogue: dict[str, Any] | None = Field(None, description="Features to drop and to add (docs/features.md).")


@router.post(
    "/features",
    Role.PLANNER,
    summary="The features of every customer as of a day",
    response_class=Response,
    responses=described("One row per customer, as `disco features` writes them.", PARQUET),
)
async def features(shop: ShopOf, request: Request, body: FeaturesRequest) -> Response:
    def write(file: File) -> None:
        from disco.entrypoints.python import tables_opener
        from disco.features.catalogue import read_selection
        from disco.operations.training import write_features

        write_features(
            tables_opener(shop.folder),
            shop.data.place,
            as_of=body.as_of,
            out=file,
            features=None if body.catalogue is None else read_selection(body.catalogue, where="catalogue"),
            threads=shop.engine.threads,
        )

    limiter = request.app.state.service.uploads
    return await streamed_reply(write, name="features", kind=PARQUET, limiter=limiter)
