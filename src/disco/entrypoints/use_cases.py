"""Every use case of a shop that takes plain values and returns one result, declared once.

    UseCase(
        function=Shop.prune,                            # what runs: its signature has the names and the defaults
        result="operations.forget:Pruned",              # its JSON form is what all doors answer
        command="prune",
        route="POST /prune",
        role=Role.ADMIN,
        ...
    )

Made from it are the route with its role and its entry in the OpenAPI document (`service/routes/declared`), what a
worker runs for a kind of job (`worker.RUNS`), what `Client` sends, and the object of the command in docs/json.md.
Written by hand are the method of `Shop`, the command with its help, and routes that speak HTTP: files, uploads,
lists in pages, streams (docs/decisions/190-one-declaration-per-use-case.md; CONTRIBUTING.md has the recipe).

Results are named and not imported, because a client and a worker need few of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from inspect import signature
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from disco.entrypoints.python import Shop
from disco.office.jobs import bodies
from disco.office.jobs.bodies import Day, JobBody
from disco.records.chunks import Report
from disco.records.errors import InputError
from disco.records.jobs import JobKind
from disco.records.people import Role
from disco.records.result import Result

if TYPE_CHECKING:
    from disco.operations.launch import Launched


def loaded(result: str) -> type[Result]:
    """The type that is named as module:Class, without the leading `disco.`."""
    module, _, name = result.partition(":")
    kind: type[Result] = getattr(import_module(f"disco.{module}"), name)
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """One use case: what runs, who may ask for it and how, and what comes back."""

    function: Callable[..., Any]
    """The method of `Shop`."""
    result: str
    """The type of its result, as module:Class without the leading `disco.`."""
    command: str = ""
    """The command that prints the result with `--json`."""
    route: str = ""
    """Method and path below /api/v1. Names in the path are the first parameters of the function, in order."""
    role: Role = Role.PLANNER
    """The least role that may call the route."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """A higher role for whoever gives this parameter."""
    topics: tuple[str, ...] = ()
    """Where the OpenAPI document lists the route."""
    summary: str = ""
    """The route in a few words."""
    about: str = ""
    """What else its caller should know."""
    name: str = ""
    """Of the operation in the OpenAPI document; default: that of the function."""
    takes: Mapping[str, Any] = field(default_factory=dict)
    """Types of what stands in the path and in the query, by the names there."""
    body: type[BaseModel] | None = None
    """Further parameters, as the fields of a JSON object."""
    job: JobKind | None = None
    """The kind of job that does it, where it is long work; the body is that of `BODIES`."""
    run: Callable[[Shop, Any, Report], Result] | None = None
    """What the job runs, where its body is more than the parameters of the function."""

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.path) if name)

    @property
    def kind(self) -> type[Result]:
        """The type of its result."""
        return loaded(self.result)

    def arguments(self, *args: Any, **options: Any) -> dict[str, Any]:
        """What was given, by the names of the function's parameters."""
        given = signature(self.function).bind(None, *args, **options).arguments
        return dict(list(given.items())[1:])

    def do(self, shop: Shop, body: JobBody, report: Report) -> Result:
        """What a worker does for its kind of job."""
        if self.run is not None:
            return self.run(shop, body, report)
        given = dict(body)
        if "report" in signature(self.function).parameters:
            given["report"] = report
        done: Result = self.function(shop, **given)
        return done


# ---- what requests hold ----

CAMPAIGN = Annotated[str, Field(max_length=200, description="A launched campaign.")]
PLAN = Annotated[str, Field(max_length=200, description="The id of a plan, or its beginning.")]
READ_OUT_DAY = Annotated[Day | None, Field(description="The day of the read-out; default: today.")]
DRY_RUN = Annotated[bool, Field(description="Show what would happen; write nothing.")]
VERSION = Annotated[
    int | None, Field(ge=1, le=2**31 - 1, description="A version of the model; default: the active one.")
]
_MOST_CUSTOMERS = 10_000
_LONGEST_DAYS = 100 * 365


class ForgetRequest(JobBody):
    """Who is to be forgotten."""

    customers: list[Annotated[str, Field(min_length=1, max_length=1000)] | int] = Field(
        min_length=1, max_length=_MOST_CUSTOMERS, description="Their ids."
    )


class ReleaseRequest(JobBody):
    """Why the people of the lasting holdout are released."""

    reason: str = Field(max_length=500, description="A sentence for the audit journal.")


class PruneRequest(JobBody):
    """What is to be removed."""

    days: int = Field(ge=1, le=_LONGEST_DAYS, description="What is older than so many days.")
    features: bool = Field(
        False,
        description="Also retained features of campaigns that ended before; these cannot be learned again under "
        "another network then.",
    )


# ---- jobs that are more than one method ----


def _learn(shop: Shop, body: bodies.LearnBody, report: Report) -> Result:
    if body.activate is not None:
        return shop.activate(body.activate, dry_run=body.dry_run)
    if body.rebuild:
        return shop.rebuild(as_of=body.as_of, dry_run=body.dry_run)
    return shop.learn(*body.campaigns, as_of=body.as_of, dry_run=body.dry_run)


def _validate(shop: Shop, body: bodies.ValidateBody, report: Report) -> Result:
    return shop.validate(as_of=body.as_of) if body.plan is None else shop.validate_plan(body.plan)


def _launch(shop: Shop, body: bodies.LaunchBody, report: Report) -> Result:
    launched = shop.launch(body.plan_id, dry_run=body.dry_run)
    if not launched.dry_run:
        prepare_later(shop, launched)
    return launched


def prepare_later(shop: Shop, launched: "Launched") -> None:
    """Leave the contexts of customers who may arrive after a launch to a job of their own: one, however often asked."""
    from disco.office.jobs.use_cases import submit

    with shop.store() as store:
        once = f"contexts of {launched.plan_id}"  # also where a server was lost between launch and job
        submit(store, JobKind.CONTEXTS, {"campaign": launched.campaign}, clock=shop.clock, once=once)


def _replay(shop: Shop, body: bodies.ReplayBody, report: Report) -> Result:
    files = {"log": _within(shop, body.log), "warm": None if body.warm is None else _within(shop, body.warm)}
    return shop.replay(**dict(body) | files, report=report)


def train(
    shop: Shop,
    window_start: date,
    *,
    months: int = 3,
    heads: str = "level+slope+engagement",
    maturity_days: int | None = None,
    dimensions: int = 6,
    max_epochs: int = 40,
    seed: int = 0,
    device: str = "auto",
    catalogue: Mapping[str, Any] | None = None,
    report: Report | None = None,
) -> Result:
    """Train the context network on the shop's own tables, into the shop's own network."""
    from disco.entrypoints.python import tables_opener
    from disco.features import ContextNetwork
    from disco.features.catalogue import read_selection
    from disco.operations.training import train_context

    return train_context(
        ContextNetwork(heads=heads, dimensions=dimensions, max_epochs=max_epochs, seed=seed, device=device),
        tables_opener(shop.folder),
        out=shop.folder / shop.settings.context,
        tables=shop.settings.data_place(shop.folder),
        window_start=window_start,
        months=months,
        catalogue=None if catalogue is None else read_selection(catalogue, where="catalogue"),
        maturity=shop.maturity(maturity_days),
        threads=shop.engine.threads,
        engine=shop.engine,
        progress=lambda epoch, most: None if report is None else report(epoch, most, "epochs"),
    )


def _within(shop: Shop, name: str) -> Path:
    """A file in the shop's folder, also where links lead elsewhere."""
    place = (shop.folder / name).resolve()
    if not place.is_relative_to(shop.folder.resolve()):
        raise InputError("file", found=name, expected="a file within the shop's folder")
    return place


# ---- the use cases ----

USE_CASES = (
    # plans
    UseCase(
        function=Shop.plan,
        result="operations.plan:PlanResult",
        command="plan",
        job=JobKind.PLAN,
    ),
    UseCase(
        function=Shop.plan_show,
        result="operations.review:PlanReview",
        command="plan",
        route="GET /plans/{plan_id}",
        role=Role.VIEWER,
        roles={"by": Role.PLANNER},
        topics=("plans",),
        summary="A plan by depth, group, history and spend",
        about="`by` needs the role planner: a column of the customers may tell who they are.",
        name="plan",
        takes={
            "plan_id": PLAN,
            "by": Annotated[list[str], Field(max_length=20, description="Also by these columns of its customers.")],
        },
    ),
    UseCase(function=Shop.plan_diff, result="operations.review:PlanDifference", command="plan"),
    UseCase(
        function=Shop.plan_copy,
        result="operations.review:PlanCopy",
        command="plan",
        route="GET /plans/{plan_id}/copy",
        topics=("plans",),
        summary="A plan as a file, to be changed into the next",
        about="`yaml` marks the lines with the name and the dates. `plan_id` may be the name of a campaign.",
        name="copy",
        takes={"plan_id": PLAN},
    ),
    UseCase(
        function=Shop.frontier,
        result="operations.what_if:Frontier",
        command="frontier",
        route="POST /frontier",
        topics=("jobs",),
        summary="What a plan could reach: revenue against markdown",
        job=JobKind.FRONTIER,
    ),
    UseCase(
        function=Shop.approve,
        result="office.approvals.use_cases:Approved",
        command="approve",
        route="POST /plans/{plan_id}/approve",
        role=Role.APPROVER,
        topics=("plans",),
        summary="Consent to the launch of exactly this plan",
        about="Whoever made a plan cannot approve it.",
        takes={"plan_id": PLAN},
    ),
    UseCase(
        function=Shop.approval,
        result="operations.approvals:PlanApproval",
        route="GET /plans/{plan_id}/approval",
        role=Role.VIEWER,
        topics=("plans",),
        summary="Who made and who approved a plan",
        takes={"plan_id": PLAN},
    ),
    # a campaign's life
    UseCase(
        function=Shop.launch,
        result="operations.launch:Launched",
        command="launch",
        job=JobKind.LAUNCH,
        run=_launch,
    ),
    UseCase(function=Shop.export, result="operations.export:Exported", command="export"),
    UseCase(function=Shop.ingest, result="operations.outcomes:Ingested", command="ingest"),
    UseCase(function=Shop.quarantine, result="operations.outcomes:Quarantine", command="quarantine"),
    UseCase(
        function=Shop.revert,
        result="operations.outcomes:Reverted",
        command="revert",
        route="POST /batches/{batch_id}/revert",
        topics=("campaigns",),
        summary="Take a batch of outcomes out again",
        takes={"batch_id": Annotated[str, Field(max_length=100)], "dry_run": DRY_RUN},
    ),
    UseCase(
        function=Shop.pause,
        result="operations.launch:CampaignState",
        command="pause",
        route="POST /campaigns/{name}/pause",
        topics=("campaigns",),
        summary="No codes for late arrivals, for now",
        takes={"name": CAMPAIGN},
    ),
    UseCase(
        function=Shop.resume,
        result="operations.launch:CampaignState",
        command="resume",
        route="POST /campaigns/{name}/resume",
        topics=("campaigns",),
        summary="End a pause",
        takes={"name": CAMPAIGN},
    ),
    UseCase(
        function=Shop.close,
        result="operations.launch:CampaignState",
        command="close",
        route="POST /campaigns/{name}/close",
        topics=("campaigns",),
        summary="End a campaign for good",
        takes={"name": CAMPAIGN},
    ),
    UseCase(function=Shop.recall, result="operations.launch:Recalled", command="recall"),
    UseCase(function=Shop.late, result="operations.late:LateArrivals", command="late"),
    UseCase(
        function=Shop.contexts,
        result="operations.late:PreparedArrivals",
        command="contexts",
        route="POST /contexts",
        topics=("jobs",),
        summary="Prepare customers who may arrive after a launch",
        job=JobKind.CONTEXTS,
    ),
    UseCase(
        function=Shop.propensities,
        result="operations.replay:PropensitiesResult",
        command="propensities",
        route="POST /campaigns/{name}/propensities",
        topics=("jobs", "campaigns"),
        summary="Add to every decision how likely it was",
        about="So that other policies can be evaluated on this campaign later. Asking again gives the same figures.",
        takes={
            "name": Annotated[str, Field(min_length=1, max_length=200, description="A launched campaign.")],
            "draws": Annotated[int, Field(ge=1, le=100_000, description="Draws of the policy to estimate from.")],
        },
        job=JobKind.PROPENSITIES,
    ),
    # results
    UseCase(
        function=Shop.results,
        result="operations.results:CampaignResults",
        command="results",
        route="GET /campaigns/{name}/results",
        role=Role.VIEWER,
        topics=("campaigns",),
        summary="What a campaign brought",
        takes={"name": CAMPAIGN, "as_of": READ_OUT_DAY},
    ),
    UseCase(
        function=Shop.results,
        result="operations.results:AllResults",
        command="results",
        route="GET /results",
        role=Role.VIEWER,
        topics=("campaigns",),
        summary="What all campaigns brought, in brief",
        name="all_results",
        takes={"as_of": READ_OUT_DAY},
    ),
    UseCase(
        function=Shop.added,
        result="operations.added:Added",
        command="added",
        route="GET /added",
        role=Role.VIEWER,
        topics=("campaigns",),
        summary="What codes added, by the lasting holdout",
        takes={
            "first": Annotated[Day | None, Field(description="The first day that counts; default: all of it.")],
            "last": Annotated[Day | None, Field(description="The last day that counts; default: the last order.")],
        },
    ),
    UseCase(
        function=Shop.release_holdout,
        result="operations.added:ReleasedHoldout",
        command="holdout release",
        route="POST /holdout/release",
        role=Role.APPROVER,
        topics=("campaigns",),
        summary="Let the people held out have codes",
        about="The next campaign with a lasting holdout draws others. The reason is kept in the audit journal.",
        takes={"dry_run": DRY_RUN},
        body=ReleaseRequest,
    ),
    UseCase(function=Shop.explain, result="operations.explain:Explanation", command="explain"),
    UseCase(function=Shop.campaigns, result="operations.overview:CampaignList", command="campaigns"),
    # the model
    UseCase(
        function=Shop.learn,
        result="operations.learn:Learned",
        command="learn",
        route="POST /learn",
        topics=("jobs",),
        summary="Make a new version of the model from outcomes",
        job=JobKind.LEARN,
        run=_learn,
    ),
    UseCase(function=Shop.activate, result="operations.learn:Activated", command="learn"),
    UseCase(function=Shop.belief, result="operations.learned:LearnedBelief", command="belief"),
    UseCase(
        function=Shop.demand,
        result="operations.demand:Demand",
        route="GET /demand",
        role=Role.VIEWER,
        topics=("model",),
        summary="Demand over depths, with what was seen",
        takes={"version": VERSION},
    ),
    UseCase(
        function=Shop.replay,
        result="operations.replay:ReplayResult",
        command="replay",
        route="POST /replay",
        topics=("jobs",),
        summary="What policies would have earned on a random log",
        job=JobKind.REPLAY,
        run=_replay,
    ),
    UseCase(
        function=train,
        result="operations.training:ContextTrained",
        command="train context",
        route="POST /train",
        topics=("jobs",),
        summary="Train the context network",
        job=JobKind.TRAIN,
    ),
    # is everything in order
    UseCase(
        function=Shop.validate,
        result="operations.plan:TablesVerdict",
        command="validate",
        route="POST /validate",
        topics=("jobs",),
        summary="Every problem of the tables, or of a plan",
        job=JobKind.VALIDATE,
        run=_validate,
    ),
    UseCase(function=Shop.validate_plan, result="operations.plan:PlanVerdict", command="validate"),
    UseCase(
        function=Shop.check,
        result="operations.upkeep:CheckResult",
        command="check",
        route="POST /check",
        topics=("jobs",),
        summary="Whether decisions can be based on the data and the network",
        job=JobKind.CHECK,
    ),
    UseCase(
        function=Shop.doctor,
        result="operations.upkeep:HealthCheck",
        command="doctor",
        route="POST /doctor",
        roles={"repair": Role.ADMIN},  # it writes what nobody else may
        topics=("jobs",),
        summary="Check installation, files and database",
        job=JobKind.DOCTOR,
    ),
    # upkeep
    UseCase(
        function=Shop.access,
        result="operations.forget:PersonalData",
        command="access",
        route="GET /access",
        role=Role.ADMIN,
        topics=("upkeep",),
        summary="Everything that is kept about a customer",
        about="What `POST forget` would remove. Nothing about them: `records` is empty.",
        takes={"customer": Annotated[str, Field(min_length=1, max_length=1000, description="Their id.")]},
    ),
    UseCase(
        function=Shop.forget,
        result="operations.forget:Forgotten",
        command="forget",
        route="POST /forget",
        role=Role.ADMIN,
        topics=("upkeep",),
        summary="Forget customers, everywhere",
        about="Another name takes the place of their ids, and their features and contexts go. This cannot be undone. "
        "Where\n`unfinished` is not empty, repeat the request.",
        takes={"dry_run": DRY_RUN},
        body=ForgetRequest,
    ),
    UseCase(
        function=Shop.prune,
        result="operations.forget:Pruned",
        command="prune",
        route="POST /prune",
        role=Role.ADMIN,
        topics=("upkeep",),
        summary="Remove what is old and needed by nothing",
        takes={"dry_run": DRY_RUN},
        body=PruneRequest,
    ),
    UseCase(function=Shop.backup, result="operations.backup:BackedUp", command="backup"),
    UseCase(function=Shop.restore, result="operations.backup:Restored", command="restore"),
    UseCase(function=Shop.upgrade, result="operations.upkeep:DatabaseUpgrade", command="db upgrade"),
    # keys and the journal
    UseCase(function=Shop.create_key, result="office.keys.use_cases:NewKey", command="keys create"),
    UseCase(function=Shop.list_keys, result="office.keys.use_cases:Keys", command="keys list"),
    UseCase(function=Shop.revoke_key, result="office.keys.use_cases:RevokedKey", command="keys revoke"),
    UseCase(function=Shop.audit, result="office.audit.use_cases:AuditPage", command="audit"),
    UseCase(function=Shop.verify_audit, result="office.audit.use_cases:AuditVerdict", command="audit verify"),
)


def use_case(function: Callable[..., Any]) -> UseCase:
    """The use case that this method of `Shop` runs, with its route."""
    return next(case for case in USE_CASES if case.function is function and case.route)
