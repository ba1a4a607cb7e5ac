"""A campaign's life: list, results, reasons, codes, late arrivals, outcomes, and its states from launch to recall."""

from dataclasses import asdict
from functools import partial
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from fastapi import Path, Query, Request, Response
from pydantic import Field

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf
from disco.entrypoints.use_cases import prepare_later
from disco.office.jobs.bodies import Day
from disco.operations.explain import Explanation
from disco.operations.late import LateDecision
from disco.operations.launch import Launched, Recalled
from disco.operations.outcomes import Ingested
from disco.operations.overview import CampaignEntry
from disco.records.errors import InputError, NotFoundError
from disco.records.people import Role
from disco.records.tables import MOST_SENT_OUTCOMES, SCHEMAS
from disco.web.discretion import as_seen
from disco.web.once import answered_once
from disco.web.reading import RequestBody, read_json, uploaded
from disco.web.replies import (
    CSV,
    ENDINGS,
    HTML,
    JSON,
    PARQUET,
    Cursor,
    ItemPage,
    Limit,
    accepted,
    described,
    file_reply,
    json_reply,
    page_form,
    page_of,
    reply,
)
from disco.web.route import Routes, content_type, file_or_json

if TYPE_CHECKING:
    from disco.entrypoints.service.app import ShopService

router = Routes("/api/v1", tags=["campaigns"])

FILE_TYPES = (PARQUET, CSV)
_MOST_JSON_ROWS = 100_000
CampaignName = Annotated[str, Path(max_length=200, description="A launched campaign.")]
DryRun = Annotated[bool, Query(description="Show what would happen; write nothing.")]
AsOf = Annotated[Day | None, Query(description="The day of the read-out; default: today.")]


class LaunchRequest(RequestBody):
    """Which plan to launch."""

    plan_id: str = Field(min_length=4, max_length=100, description="The exact id of the plan, as `GET plans` lists it.")


class LateRequest(RequestBody):
    """Who has arrived."""

    customer_id: str | int = Field(union_mode="left_to_right", description="The customer.")


class OutcomeRow(RequestBody):
    """One outcome, with the columns of the table `outcomes` (docs/tables.md) or of an export of orders."""

    event_id: str | int | None = None
    order_id: str | int | None = None
    campaign_id: str | None = None
    customer_id: str | int | None = None
    code: str | None = None
    ordered_at: str | None = None
    full_price: float | str | None = None
    kind: str | None = None
    refers_to: str | int | None = None


class CampaignPage(ItemPage[CampaignEntry]):
    """Launched campaigns."""

    active_version: int | None = Field(description="The version of the model that decides the next plan.")


@router.get(
    "/campaigns", Role.VIEWER, summary="The launched campaigns, by their first day", response_model=CampaignPage
)
def campaigns(shop: ShopOf, request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    found = shop.campaigns()
    entries, after = page_of(found.campaigns, limit=limit, cursor=cursor)
    seen = tuple(as_seen(request, entry) for entry in entries)
    return json_reply(page_form(seen, after, active_version=found.active_version))


@router.get(
    "/campaigns/{name}", Role.VIEWER, summary="A campaign with every batch of outcomes", response_model=CampaignEntry
)
def campaign(shop: ShopOf, request: Request, name: CampaignName) -> Response:
    return reply(as_seen(request, shop.campaigns(name).campaigns[0]))


@router.get(
    "/campaigns/{name}/report",
    Role.VIEWER,
    summary="What a campaign brought, as a page",
    response_class=Response,
    responses=described("A self-contained page with charts.", HTML),
)
def report(shop: ShopOf, name: CampaignName, as_of: AsOf = None) -> Response:
    """As `disco results CAMPAIGN --html FILE` writes it."""
    from disco.views.campaign_pages import campaign_report

    found = shop.results(name, as_of=as_of)
    return file_reply(lambda file: campaign_report(found).save(file), name="results", kind=HTML)


@router.get(
    "/report",
    Role.VIEWER,
    summary="What all campaigns brought, as a page",
    response_class=Response,
    responses=described("A self-contained page with charts.", HTML),
)
def full_report(shop: ShopOf, as_of: AsOf = None) -> Response:
    """As `disco results --html FILE` writes it."""
    from disco.views.campaign_pages import campaigns_report

    found = shop.results(as_of=as_of)
    return file_reply(lambda file: campaigns_report(found).save(file), name="results", kind=HTML)


@router.get(
    "/campaigns/{name}/customers/{customer_id:path}",
    Role.PLANNER,
    summary="Why a customer got this code",
    response_model=Explanation,
)
def customer(shop: ShopOf, name: CampaignName, customer_id: Annotated[str, Path(max_length=1000)]) -> Response:
    try:
        return reply(shop.explain(name, customer_id))
    except InputError as error:  # the customer is what the route names
        raise NotFoundError(error.what, found=error.found, expected=error.expected, fix=error.fix) from None


@router.get(
    "/campaigns/{name}/export",
    Role.PLANNER,
    summary="The codes to send, as Parquet or CSV",
    response_class=Response,
    responses=described("One row per code.", PARQUET, CSV, **{JSON: {"schema": {"type": "object"}}}),
)
def export(shop: ShopOf, request: Request, name: CampaignName) -> Response:
    """`Accept` says which: application/vnd.apache.parquet (the default), text/csv, or application/json for the counts
    alone. Cells of a CSV file that a spreadsheet would run begin with an apostrophe."""
    kind = accepted(request, (PARQUET, CSV, JSON))
    if kind == JSON:
        return reply(shop.export(name))
    return file_reply(lambda file: shop.export(name, file), name="codes", kind=kind)


@router.get(
    "/campaigns/{name}/late",
    Role.PLANNER,
    summary="Customers who arrived after the launch",
    response_model=ItemPage[LateDecision],
)
def late_so_far(shop: ShopOf, name: CampaignName, limit: Limit = 100, cursor: Cursor = None) -> Response:
    from disco.operations.late import late_so_far

    with shop.store() as store:
        decided, after = page_of(late_so_far(store, name), limit=limit, cursor=cursor)
    return json_reply({"items": [_late_form(one) for one in decided], "next": after})


def _late_form(decided: LateDecision) -> dict[str, Any]:
    return asdict(decided)


@router.post(
    "/campaigns/{name}/late",
    Role.PLANNER,
    summary="Decide about a customer who arrives after the launch",
    response_model=LateDecision,
)
async def late(
    shop: ShopOf,
    request: Request,
    name: CampaignName,
    body: LateRequest,
    as_of: AsOf = None,
    dry_run: DryRun = False,
) -> Response:
    """The same customer gets the same decision, however often they are asked for. Decided from the contexts that were
    prepared last (the job `contexts`); a customer whom the shop does not know has the population's context, which
    `known: false` marks. With `as_of` or `dry_run` the shop's tables are read as `disco late` reads them: that takes
    seconds, and unknown customers are refused."""
    if as_of is None and not dry_run:
        service: ShopService = request.app.state.service
        return json_reply(_late_form(await service.late.ask(name, str(body.customer_id), request.state.caller.actor)))
    work = partial(shop.late, name, [body.customer_id], as_of=as_of, dry_run=dry_run)
    return json_reply(_late_form((await to_thread.run_sync(work)).decisions[0]))


_ROWS_SCHEMA = {"type": "array", "items": {"$ref": "#/components/schemas/OutcomeRow"}}


@router.post(
    "/campaigns/{name}/outcomes",
    Role.PLANNER,
    summary="Import purchases, exactly once",
    response_model=Ingested,
    openapi_extra=file_or_json({**_ROWS_SCHEMA, "maxItems": _MOST_JSON_ROWS}),
)
async def outcomes(
    shop: ShopOf,
    request: Request,
    name: CampaignName,
    dry_run: DryRun = False,
    source: Annotated[
        str | None, Query(max_length=200, description="Where it comes from, such as a file name.")
    ] = None,
) -> Response:
    """A JSON list of rows, or a Parquet or CSV file as the body. Each row counts once, by its event; what cannot count
    is set aside with its reason."""
    kind = content_type(request, JSON)
    service = request.app.state.service
    async with uploaded(request, name=f"outcomes{ENDINGS.get(kind, '.json')}") as (file, digest):

        def ingested() -> Ingested:
            if kind != JSON:
                from disco.adapters.tables.folder import check_sent

                check_sent(file, most_rows=MOST_SENT_OUTCOMES)
            given: Any = _rows(file) if kind == JSON else file
            return shop.ingest(name, given, source=source or f"{kind} by the service", dry_run=dry_run)

        async def answer() -> Response:
            return reply(await to_thread.run_sync(ingested, limiter=service.tables))

        return await answered_once(request, digest, answer)


def _rows(file: File) -> Any:
    """A JSON list of outcomes as a table of text, which the door reads as it reads a CSV file."""
    import pyarrow as pa
    from pydantic import TypeAdapter, ValidationError

    from disco.web.route import invalid

    given = read_json(file.read_bytes())
    if not isinstance(given, list) or len(given) > _MOST_JSON_ROWS:
        raise InputError(
            "body", found="something else", expected=f"a JSON list of at most {_MOST_JSON_ROWS:,} outcomes"
        )
    try:
        rows = TypeAdapter(list[OutcomeRow]).validate_python(given)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False), place="body") from None
    names = [name for name in OutcomeRow.model_fields if any(name in row.model_fields_set for row in rows)]
    columns = {name: [_cell(getattr(row, name)) for row in rows] for name in names}
    if not columns:
        expected = f"rows with {', '.join(column.name for column in SCHEMAS['outcomes'].columns)}"
        raise InputError("body", found="no rows", expected=expected)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _cell(value: object) -> str | None:
    return None if value is None else value if isinstance(value, str) else repr(value)


@router.get(
    "/batches/{batch_id}/quarantine",
    Role.PLANNER,
    summary="The rows of a batch that do not count, each with its reason",
    response_class=Response,
    responses=described("As `disco quarantine` writes them.", CSV),
)
def quarantine(shop: ShopOf, batch_id: Annotated[str, Path(max_length=100)]) -> Response:
    return file_reply(lambda file: shop.quarantine(batch_id, file), name="quarantine", kind=CSV)


@router.post("/campaigns/{name}/launch", Role.PLANNER, summary="Make a plan real", response_model=Launched)
def launch(shop: ShopOf, name: CampaignName, body: LaunchRequest, dry_run: DryRun = False) -> Response:
    """The plan must be one of this campaign."""
    _refuse_another_campaign(shop, name, body.plan_id)
    launched = shop.launch(body.plan_id, dry_run=dry_run)
    if not launched.dry_run:
        prepare_later(shop, launched)
    return reply(launched)


def _refuse_another_campaign(shop: Shop, name: str, plan_id: str) -> None:
    with shop.store() as store, store.reading() as transaction:
        planned = transaction.plans.get(plan_id)
    if planned.plan.campaign != name:
        found = f"a plan of {planned.plan.campaign}"
        raise InputError("plan_id", found=found, expected=f"a plan of {name}", fix="`GET plans` lists them.")


@router.post(
    "/campaigns/{name}/recall",
    Role.PLANNER,
    summary="Make unused codes invalid",
    response_model=Recalled,
    responses=described("The counts, or the codes to make invalid in the shop.", PARQUET, CSV),
)
def recall(shop: ShopOf, request: Request, name: CampaignName, as_of: AsOf = None, dry_run: DryRun = False) -> Response:
    """`Accept`: application/json (the default) for the counts; application/vnd.apache.parquet or text/csv for the codes
    to make invalid in the shop. Asking again changes nothing and gives the same list."""
    kind = accepted(request, (JSON, PARQUET, CSV))
    if kind == JSON:
        return reply(shop.recall(name, as_of=as_of, dry_run=dry_run))
    return file_reply(lambda file: shop.recall(name, file, as_of=as_of, dry_run=dry_run), name="recalled", kind=kind)
