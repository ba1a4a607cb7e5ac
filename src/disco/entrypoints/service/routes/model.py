"""The model and what is computed without keeping anything: versions, demand, power, A/B tests."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from disco.entrypoints.service.paging import Cursor, Limit, Page, page_form, page_of
from disco.entrypoints.service.route import DiscoRoute, ShopOf, json_reply, reply
from disco.evaluation.ab_test import AbTest
from disco.operations.demand import Demand, VersionEntry
from disco.operations.learned_curve import LearnedBelief
from disco.operations.power import PowerResult
from disco.records.errors import InputError

router = APIRouter(prefix="/api/v1", route_class=DiscoRoute, tags=["model"])
_LARGEST = 2**31 - 1
_MOST_ROWS = 200_000
Version = Annotated[
    int | None, Query(ge=1, le=_LARGEST, description="A version of the model; default: the active one.")
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class PowerRequest(_Body):
    """How large an A/B test has to be. With `uplift`: the customers needed; with `customers`: what they can detect."""

    baseline: float = Field(description="Mean of the figure in control, per customer.")
    sd: float = Field(description="Its standard deviation between customers.")
    uplift: float | None = Field(None, description="Relative difference to detect; 0.01 is 1%.")
    customers: int | None = Field(None, description="Customers in both groups together.")
    power: float = Field(0.8, description="Wanted probability of detecting it.")
    control_share: float = Field(0.5, description="Control's share of the customers.")
    level: float = Field(0.95, description="1 − α of the two-sided test.")
    engagement: float | None = Field(None, description="Share that buys; baseline and sd are then per purchaser.")
    explained: float = Field(0.0, description="Share of variance that pre-period figures explain (CUPED).")


class AbRequest(_Body):
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


@router.get("/beliefs", summary="The versions of the model, the newest first", response_model=Page[VersionEntry])
def beliefs(shop: ShopOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    from disco.operations.demand import list_versions

    with shop.store() as store:
        found, after = page_of(list_versions(store), limit=limit, cursor=cursor)
    return json_reply(page_form(found, after))


@router.get("/beliefs/{version}", summary="What a version has learned, per depth", response_model=LearnedBelief)
def belief(shop: ShopOf, version: Annotated[str, Path(pattern=r"^(active|[1-9][0-9]{0,8})$")]) -> Response:
    """`active` is the version that decides the next plan."""
    return reply(shop.belief(None if version == "active" else int(version)))


@router.get("/demand", summary="Demand over depths, with what was seen", response_model=Demand)
def demand(shop: ShopOf, version: Version = None) -> Response:
    from disco.operations.demand import demand

    with shop.store() as store:
        return reply(demand(store, version))


@router.post("/power", summary="How large an A/B test has to be", response_model=PowerResult)
def power(body: PowerRequest) -> Response:
    from disco.operations.power import power

    return reply(power(**body.model_dump()))


@router.post("/ab", summary="Read out an A/B test", response_model=AbTest)
def ab(body: AbRequest) -> Response:
    from disco.evaluation.ab_test import ab_test

    arrays: dict[str, Any] = {}
    for name in ("depth", "full_price"):
        arrays[name] = [float("nan") if value is None else value for value in getattr(body, name)]
    if not len(body.arm) == len(body.depth) == len(body.full_price):
        found = f"{len(body.arm)}, {len(body.depth)} and {len(body.full_price)} entries"
        raise InputError("arm, depth, full_price", found=found, expected="lists of one length")
    named = body.model_dump(exclude={"arm", "depth", "full_price"})
    return reply(ab_test(body.arm, arrays["depth"], arrays["full_price"], **named))
