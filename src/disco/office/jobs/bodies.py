"""What a job is asked for, as JSON: the bodies of the service's requests and of `disco schedule add`.

A body is checked when the job is asked for and again when it runs, so that what a schedule keeps for months is refused
in a sentence where a later version knows it no more.
"""

import re
from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from disco.records.errors import PlanError, Problem, UsageError, expected_of
from disco.records.jobs import JobKind
from disco.records.locale import FIRST_YEAR, LAST_YEAR

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_NAMES = 1_000


def _read_day(value: object) -> object:
    if isinstance(value, date) or (isinstance(value, str) and _DAY.fullmatch(value)):
        return value
    raise ValueError("a day such as 2027-03-01")


def _refuse_far(day: date) -> date:
    """Days at the ends of the calendar cannot be counted from."""
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise ValueError(f"a day from {FIRST_YEAR} to {LAST_YEAR}")
    return day


def _read_place(value: str) -> str:
    """A file within the shop's folder: a request must not reach others."""
    path = PurePosixPath(value)
    if not value or path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value or "://" in value:
        raise ValueError("the name of a file within the shop's folder, such as logs/random.parquet")
    return value


Day = Annotated[date, BeforeValidator(_read_day), AfterValidator(_refuse_far)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Number = Annotated[StrictFloat, Field(gt=0, lt=1e15)]
FileInShop = Annotated[StrictStr, AfterValidator(_read_place)]


class JobBody(BaseModel):
    """What every body has in common: unknown keys, infinite numbers and numbers as text are refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PlanBody(JobBody):
    """As `disco plan PLAN.yaml`."""

    plan: dict[str, Any] = Field(description="The plan, as docs/plan.md describes it.")
    dry_run: StrictBool = Field(False, description="Decide, and keep nothing.")


class LearnBody(JobBody):
    """As `disco learn CAMPAIGN…`."""

    campaigns: tuple[Name, ...] = Field((), max_length=_MOST_NAMES, description="Campaigns to learn from.")
    as_of: Day | None = Field(None, description="Codes that had expired by this day count; default: today.")
    activate: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="Instead, make this version of the model the active one."
    )
    rebuild: StrictBool = Field(False, description="After the network was trained anew: embed all customers again.")
    dry_run: StrictBool = Field(False, description="Say what would change, and change nothing.")


class TrainBody(JobBody):
    """As `disco train context` on the shop's own tables, into the shop's own network."""

    window_start: Day = Field(description="First day of the orders to learn from.")
    months: StrictInt = Field(3, ge=1, le=24, description="Length of the window of orders.")
    heads: Literal["level", "level+slope", "level+slope+engagement"] = Field(
        "level+slope+engagement", description="What the network predicts."
    )
    maturity_days: Annotated[StrictInt, Field(ge=1, le=366)] | None = Field(
        None, description="A code not used within so many days is unused; default: the setting of the shop."
    )
    dimensions: StrictInt = Field(6, ge=1, le=64, description="Numbers in a customer's context.")
    max_epochs: StrictInt = Field(40, ge=1, le=10_000, description="Maximum number of passes over the rows.")
    seed: StrictInt = Field(0, ge=0, le=2**63 - 1, description="Equal seeds and rows give equal networks.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where it is trained.")
    catalogue: dict[str, Any] | None = Field(None, description="Features to drop and to add.")
    only_better: StrictBool = Field(
        False, description="Keep the network in use where the new one would not have been better on past campaigns."
    )


class FrontierBody(JobBody):
    """As `disco frontier PLAN.yaml`."""

    plan: dict[str, Any] = Field(description="The plan.")
    revenue_weights: tuple[Number, ...] | None = Field(None, min_length=1, max_length=100, description="To try.")
    budgets: tuple[Number, ...] | None = Field(None, min_length=1, max_length=100, description="To try.")
    cap: StrictFloat | None = Field(None, gt=0, lt=1, description="A depth whose cap is varied, too.")


class ReplayBody(JobBody):
    """As `disco replay LOG`."""

    log: FileInShop = Field(description="Parquet of the log, within the shop's folder.")
    context: tuple[Name, ...] = Field(min_length=1, max_length=_MOST_NAMES, description="The context columns.")
    policies: tuple[Name, ...] = Field(
        min_length=1, max_length=20, description="thompson, ucb, epsilon_greedy, greedy, random or ulcc."
    )
    caps: dict[str, StrictInt | StrictStr] = Field(
        default_factory=dict, description='Most customers per depth and batch, such as {"0.1": "25%", "0.2": 500}.'
    )
    batch: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="Customers presented together; default: 5,000, or all where there are fewer."
    )
    warm: FileInShop | None = Field(None, description="An earlier log to learn from before the start.")
    passes: StrictInt = Field(8, ge=1, le=1000, description="Passes over the log, over which figures are averaged.")
    repeats: StrictInt = Field(20, ge=0, le=10_000, description="Resampled passes for the standard errors.")
    seed: StrictInt = Field(0, ge=-(2**63), le=2**63 - 1, description="Equal seeds give equal results.")
    revenue_weight: Annotated[StrictFloat, Field(gt=0, lt=1e12)] | None = Field(
        None, description="The weight w of w·R − C; default: revenue alone."
    )
    strata: tuple[Name, ...] = Field((), description="Columns within which depths were assigned at random.")
    propensity: Literal["column", "observed"] = Field("column", description="As the log says, or always shares.")
    skew: Literal["resample", "weight"] = Field("resample", description="What to do with unequal propensities.")
    encoding: Literal["radial_basis", "smooth_spline", "linear"] = Field(
        "radial_basis", description="Depth encoding of the model."
    )
    depth_scale: Number = Field(1.0, description="The encoding sees depth / depth_scale.")
    forgetting: StrictFloat = Field(
        1.0, gt=0, le=1, description="Weight of the baskets of a batch, per batch since; 1: none is forgotten."
    )
    learn_engagement: StrictBool = Field(False, description="Learn the share of receivers who buy.")
    engagement_score: Name | None = Field(None, description="Column of log odds that a customer uses a code.")


class CheckBody(JobBody):
    """As `disco check [CAMPAIGN]`."""

    campaign: Name | None = Field(None, description="A launched campaign; default: the shop's customers.")
    as_of: Day | None = Field(None, description="Of the features, or of the campaign's read-out.")


class ContextsBody(JobBody):
    """As `disco contexts [CAMPAIGN]`: prepares customers who may arrive after a launch."""

    campaign: Name | None = Field(None, description="A launched campaign; default: all that run and hold codes back.")


class PropensitiesBody(JobBody):
    """As `disco propensities CAMPAIGN`."""

    campaign: Name = Field(description="A launched campaign.")
    draws: StrictInt = Field(200, ge=1, le=100_000, description="Draws of the policy to estimate from.")


class DoctorBody(JobBody):
    """As `disco doctor`."""

    repair: StrictBool = Field(False, description="First build again what ledger and plans can give.")


class ValidateBody(JobBody):
    """As `disco validate`: of the shop's tables, or of a plan."""

    as_of: Day | None = Field(None, description="The last day that dates may name; default: today.")
    plan: dict[str, Any] | None = Field(None, description="A plan to check instead of the tables.")


class LaunchBody(JobBody):
    """As `disco launch PLAN_ID`."""

    plan_id: Name = Field(description="The id of the plan.")
    dry_run: StrictBool = Field(False, description="Check everything, and write nothing.")


BODIES: dict[JobKind, type[JobBody]] = {
    JobKind.PLAN: PlanBody,
    JobKind.LEARN: LearnBody,
    JobKind.TRAIN: TrainBody,
    JobKind.FRONTIER: FrontierBody,
    JobKind.REPLAY: ReplayBody,
    JobKind.CHECK: CheckBody,
    JobKind.DOCTOR: DoctorBody,
    JobKind.VALIDATE: ValidateBody,
    JobKind.LAUNCH: LaunchBody,
    JobKind.CONTEXTS: ContextsBody,
    JobKind.PROPENSITIES: PropensitiesBody,
}
"""The body of each kind of job that somebody can ask for."""


def read_body(kind: JobKind, content: object) -> JobBody:
    """The checked body of a job; every problem at once in a PlanError.

    >>> read_body(JobKind.LAUNCH, {"plan": "abcd"})
    Traceback (most recent call last):
    ...
    disco.records.errors.PlanError: The body of a launch cannot be used:
      body, plan_id: found nothing; expected a value. Add `plan_id`.
      body, plan: found the unknown key plan; expected one of plan_id, dry_run. Did you mean plan_id?
    """
    model = BODIES[kind]
    try:
        body = model.model_validate(content)
    except ValidationError as error:
        problems = [_problem(detail, model) for detail in error.errors(include_url=False)]
    else:
        _refuse_idle(body)
        return body
    raise PlanError(f"The body of a {kind} cannot be used:", problems)


def _refuse_idle(body: JobBody) -> None:
    if isinstance(body, LearnBody) and bool(body.campaigns) + (body.activate is not None) + body.rebuild != 1:
        raise UsageError("learn does one thing at a time", fix="Name `campaigns`, or `activate`, or set `rebuild`.")


def _problem(detail: Any, model: type[JobBody]) -> Problem:
    keys = [str(part) for part in detail["loc"] if not str(part).startswith(("function-", "constrained-", "strict-"))]
    key = ".".join(keys)
    place = f"body, {key}" if key else "body"
    if detail["type"] == "missing":
        return Problem("missing", place, "", "nothing", "a value", f"Add `{key}`.")
    if detail["type"] == "extra_forbidden":
        known = list(model.model_fields)
        near = get_close_matches(keys[-1], known, n=1)
        fix = f"Did you mean {near[0]}?" if near else "Remove it."
        return Problem("unknown", place, "", f"the unknown key {keys[-1]}", f"one of {', '.join(known)}", fix)
    found = "no keys and values" if not key and not isinstance(detail["input"], Mapping) else repr(detail["input"])
    return Problem("value", place, "", found, expected_of(detail), "Correct the value.")
