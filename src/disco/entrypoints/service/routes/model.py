"""The model and what is computed without keeping anything: versions, demand, power, A/B tests, allocation."""

from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field, ValidationError

from disco.entrypoints.service.shop_of import ShopOf
from disco.evaluation.read_out import AbTest
from disco.operations.demand import VersionEntry
from disco.operations.experiment import PowerResult
from disco.operations.learned import LearnedBelief
from disco.operations.offline import AllocationSummary
from disco.records.errors import DiscoError, FileFormatError, InfeasibleError, InputError
from disco.records.files import temporary_folder
from disco.records.people import Role
from disco.web.reading import RequestBody, read_json, uploaded
from disco.web.replies import (
    ENDINGS,
    JSON,
    PARQUET,
    Cursor,
    ItemPage,
    Limit,
    json_reply,
    page_form,
    page_of,
    reply,
)
from disco.web.route import Routes, content_type, file_or_json, invalid

if TYPE_CHECKING:
    import pyarrow as pa

router = Routes("/api/v1", tags=["model"])
_LARGEST = 2**31 - 1
_MOST_ROWS = 200_000
_LONGEST_ARM = 200
Version = Annotated[
    int | None, Query(ge=1, le=_LARGEST, description="A version of the model; default: the active one.")
]


class PowerRequest(RequestBody):
    """How large an A/B test has to be. With `uplift`: the customers needed; with `customers`: what they can detect."""

    baseline: float | None = Field(None, description="Mean of the figure in control, per customer.")
    sd: float | None = Field(None, description="Its standard deviation between customers.")
    rate: float | None = Field(None, description="Instead of both: the share of control who do something.")
    uplift: float | None = Field(None, description="Relative difference to detect; 0.01 is 1%.")
    customers: int | None = Field(None, description="Customers in both groups together.")
    power: float = Field(0.8, description="Wanted probability of detecting it.")
    control_share: float = Field(0.5, description="Control's share of the customers.")
    level: float = Field(0.95, description="1 − α of the two-sided test.")
    engagement: float | None = Field(None, description="Share that buys; baseline and sd are then per purchaser.")
    explained: float = Field(0.0, description="Share of variance that pre-period figures explain (CUPED).")


class AbRequest(RequestBody):
    """An A/B test to read out: one entry per customer assigned in each list."""

    arm: list[str] = Field(max_length=_MOST_ROWS, description="The name of each customer's arm.")
    depth: list[float | None] = Field(max_length=_MOST_ROWS, description="Of the customer's code; null: no code.")
    full_price: list[float | None] = Field(
        max_length=_MOST_ROWS, description="Bought with the code, before the discount; null: nothing."
    )
    before: list[float] | None = Field(None, max_length=_MOST_ROWS, description="A figure from before the campaign.")
    other_revenue: list[float] | None = Field(
        None, max_length=_MOST_ROWS, description="Paid without the code in the campaign's time; a holdout needs it."
    )
    shares: dict[str, float] | None = Field(None, description="Planned share of each arm.")
    revenue_weight: float | None = Field(None, description="The weight w of w·revenue − markdown.")
    decided: str | None = Field(None, description="The name of the decided arm, where several could be meant.")
    control: str = Field("control", description="The name of the control arm.")
    holdout: str = Field("holdout", description="The name of the arm without codes.")
    final: bool = Field(True, description="Whether the planned end has come.")
    planned_purchasers: int | None = Field(None, description="Purchases expected by the end, for looks before it.")
    level: float = Field(0.95, description="Of all intervals.")


@router.get(
    "/beliefs",
    Role.VIEWER,
    summary="The versions of the model, the newest first",
    response_model=ItemPage[VersionEntry],
)
def beliefs(shop: ShopOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    from disco.operations.demand import list_versions

    with shop.store() as store:
        found, after = page_of(list_versions(store), limit=limit, cursor=cursor)
    return json_reply(page_form(found, after))


@router.get(
    "/beliefs/{version}", Role.VIEWER, summary="What a version has learned, per depth", response_model=LearnedBelief
)
def belief(shop: ShopOf, version: Annotated[str, Path(pattern=r"^(active|[1-9][0-9]{0,8})$")]) -> Response:
    """`active` is the version that decides the next plan."""
    return reply(shop.belief(None if version == "active" else int(version)))


@router.post("/power", Role.VIEWER, summary="How large an A/B test has to be", response_model=PowerResult)
def power(body: PowerRequest) -> Response:
    from disco.operations.experiment import power

    return reply(power(**body.model_dump()))


class AllocateRequest(RequestBody):
    """Values and limits, as the files of `disco allocate`; larger ones are for the command line."""

    values: dict[str, list[float | int | str | None]] = Field(
        min_length=2, max_length=200, description="`customer_id`, one list per depth (null: not eligible), a segment."
    )
    caps: dict[str, int | None] = Field({}, description="Most customers per depth; missing: no limit.")
    floors: dict[str, int] | None = Field(None, description="Least customers per depth.")
    budget: float | None = Field(None, description="With `costs`: what the depths given may cost.")
    segments: dict[str, Any] | None = Field(None, description="Limits per value of one column.")
    costs: dict[str, list[float | int | str | None]] | None = Field(
        None, max_length=200, description="Of the shape of `values`: what each depth costs the budget."
    )
    solver: Literal["exact", "highs"] = Field("exact", description="exact, or highs (slow, independent).")


class Allocated(BaseModel):
    """Who gets what, in the order of `values`."""

    summary: AllocationSummary
    customer_id: list[str | int]
    depth: list[float | None] = Field(description="Null: no code.")
    value: list[float]


@router.post("/allocate", Role.PLANNER, summary="The solver alone", response_model=Allocated)
def allocate(shop: ShopOf, body: AllocateRequest) -> Response:
    """422 with `conflicts` where no allocation meets all limits."""
    import pyarrow.parquet as pq

    from disco.operations.offline import allocate_files

    limits = body.model_dump(include={"caps", "floors", "budget", "segments"}, exclude_none=True)
    with temporary_folder("allocate") as folder:
        values, costs, out = (folder / name for name in ("values", "costs", "out"))
        pq.write_table(_table(body.values, where="values"), values)
        if body.costs is not None:
            pq.write_table(_table(body.costs, where="costs"), costs)
        try:
            found = allocate_files(
                values,
                limits=limits,
                limits_file=File("body"),
                out=out,
                costs=None if body.costs is None else costs,
                solver=body.solver,
                engine=shop.engine,
            )
        except DiscoError as error:  # the sentences of files name ours, which nobody knows
            raise _renamed(error, {str(values): "values", str(costs): "costs"}) from None
        if not found.feasible:
            raise InfeasibleError("No allocation meets all limits.", conflicts=[str(one) for one in found.conflicts])
        rows = pq.read_table(out).to_pydict()
    return json_reply({"summary": found.as_dict(), **rows})


def _table(columns: dict[str, list[Any]], *, where: str) -> "pa.Table":
    import pyarrow as pa

    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise InputError(where, found=f"lists of {', '.join(map(str, sorted(lengths)))} entries", expected="one length")
    try:
        return pa.table(
            {name: pa.array(column, pa.float64() if _is_depth(name) else None) for name, column in columns.items()}
        )
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        found = " ".join(str(error).split())[:200]
        raise InputError(where, found=found, expected="lists of one kind of value each") from None


def _is_depth(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _renamed(error: DiscoError, names: dict[str, str]) -> DiscoError:
    for file, name in names.items():
        error.args = tuple(str(part).replace(file, name) for part in error.args)
        error.what = error.what.replace(file, name)
    return error


_AB_LISTS = ("arm", "depth", "full_price", "before", "other_revenue")


@router.post(
    "/ab",
    Role.VIEWER,
    summary="Read out an A/B test",
    response_model=AbTest,
    openapi_extra=file_or_json({"$ref": "#/components/schemas/AbRequest"}),
)
async def ab(
    request: Request,
    revenue_weight: Annotated[float | None, Query(description="With a file: the weight w.")] = None,
    decided: Annotated[str | None, Query(max_length=200, description="With a file: the decided arm.")] = None,
    control: Annotated[str, Query(max_length=200, description="With a file: the control arm.")] = "control",
    holdout: Annotated[str, Query(max_length=200, description="With a file: the arm without codes.")] = "holdout",
    level: Annotated[float, Query(gt=0, lt=1, description="With a file: of all intervals.")] = 0.95,
) -> Response:
    """The body is JSON, or a Parquet or CSV file with the lists as columns (`arm`, `depth`, `full_price` and optionally
    `before` and `other_revenue`), one row per customer assigned; the options then stand in the query."""
    kind = content_type(request, JSON)
    options = {
        "revenue_weight": revenue_weight, "decided": decided, "control": control, "holdout": holdout, "level": level,
    }  # fmt: skip
    async with uploaded(request, name=f"ab{ENDINGS.get(kind, '.json')}") as (file, _):

        def read_out() -> Response:
            try:
                given = read_json(file.read_bytes()) if kind == JSON else _lists(file, kind) | options
                body = AbRequest.model_validate(given)
            except ValidationError as error:
                raise invalid(error.errors(include_url=False), place="body") from None
            return reply(_ab_test(body))

        return await to_thread.run_sync(read_out, limiter=request.app.state.service.uploads)


def _ab_test(body: AbRequest) -> AbTest:
    from disco.evaluation.read_out import ab_test

    arrays: dict[str, Any] = {}
    for name in ("depth", "full_price"):
        arrays[name] = [float("nan") if value is None else value for value in getattr(body, name)]
    if not len(body.arm) == len(body.depth) == len(body.full_price):
        found = f"{len(body.arm)}, {len(body.depth)} and {len(body.full_price)} entries"
        raise InputError("arm, depth, full_price", found=found, expected="lists of one length")
    named = body.model_dump(exclude={"arm", "depth", "full_price"})
    return ab_test(body.arm, arrays["depth"], arrays["full_price"], **named)


def _lists(file: File, kind: str) -> dict[str, Any]:
    """The columns of a file, as the JSON body has them."""
    import pyarrow as pa
    import pyarrow.csv

    from disco.adapters.tables.csv import check_header, check_lines

    try:
        if kind == PARQUET:
            table = _columns_of(file)
        else:
            check_header("body", file, delimiter=",", encoding="utf-8")
            check_lines("body", file, most_rows=_MOST_ROWS)
            types = pyarrow.csv.ConvertOptions(column_types={"arm": pa.string()})
            table = pyarrow.csv.read_csv(file, convert_options=types)
    except DiscoError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        found = " ".join(str(error).split())[:200]
        raise FileFormatError("body", found=found, expected="a Parquet or CSV file") from None
    _refuse_unknown(table.column_names)
    _refuse_large(table)
    lists: dict[str, Any] = table.to_pydict()
    return lists


def _refuse_unknown(names: list[str]) -> None:
    if unknown := [name for name in names if name not in _AB_LISTS]:
        raise InputError("columns", found=", ".join(unknown)[:200], expected=f"some of {', '.join(_AB_LISTS)}")


def _columns_of(file: File) -> "pa.Table":
    """Text in a Parquet file may be larger than memory once it is unpacked, so it stays in its dictionary."""
    import pyarrow.parquet as pq

    from disco.adapters.tables.parquet import check_sizes

    check_sizes("body", file, most_rows=_MOST_ROWS)
    with pq.ParquetFile(file, read_dictionary=["arm"]) as opened:
        _refuse_unknown(opened.schema_arrow.names)  # before they are read: they may hold anything
        return opened.read()


def _refuse_large(table: "pa.Table") -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in table.column_names:
        kind = table.schema.field(name).type
        if name != "arm":
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
                raise InputError(f"body, column {name}", found=str(kind), expected="numbers")
            continue
        for chunk in table[name].chunks:
            texts = chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk
            if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
                raise InputError("body, column arm", found=str(kind), expected="text")
            if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST_ARM:
                found, expected = "a longer one", f"names of at most {_LONGEST_ARM} characters"
                raise InputError("body, column arm", found=found, expected=expected)
