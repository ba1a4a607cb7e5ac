"""Every use case of a shop that takes plain values and returns one result, declared once.

    UseCase(Shop.prune, "operations.forget:Pruned", "prune",
        route=ApiRoute("POST /prune", Role.ADMIN, …))

Made from it are the route with its role and its entry in the OpenAPI document (`service/routes/declared`), what a
worker runs for a kind of job (`worker.RUNS`), what `Client` sends, and the object of the command in docs/json.md.
Written by hand are the method of `Shop`, the command with its help, and routes that speak HTTP: files, uploads,
lists in pages, streams (docs/decisions/190-one-declaration-per-use-case.md; CONTRIBUTING.md has the recipe).

Results are named and not imported, because a client and a worker need few of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """How the service is asked for a use case."""

    address: str
    """Method and path below /api/v1. Names in the path are the first parameters of the function, in order."""
    role: Role
    """The least role that may call it."""
    topics: tuple[str, ...]
    """Where the OpenAPI document lists it."""
    summary: str
    """What it is for, in a few words."""
    takes: Mapping[str, Any] = field(default_factory=dict)
    """Types of what stands in the path and in the query, by the names there."""
    body: type[BaseModel] | None = None
    """Further parameters, as the fields of a JSON object. That of a job is in `BODIES`."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """A higher role for whoever gives this parameter."""
    name: str = ""
    """Of the operation in the OpenAPI document; default: that of the function."""
    about: str = ""
    """What else its caller should know."""

    @property
    def method(self) -> str:
        return self.address.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.address.partition(" ")[2]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.path) if name)


@dataclass(frozen=True, slots=True)
class UseCase:
    """One use case: what runs, what comes back, and who may ask for it and how."""

    function: Callable[..., Any]
    """The method of `Shop`."""
    result: str
    """The type of its result, as module:Class without the leading `disco.`."""
    command: str = ""
    """The command that prints the result with `--json`."""
    job: JobKind | None = None
    """The kind of job that does it, where it is long work."""
    run: Callable[[Shop, Any, Report], Result] | None = None
    """What the job runs, where its body is more than the parameters of the function."""
    route: ApiRoute | None = None
    """Its route in the API, where plain values are sent and one result comes back."""

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
BATCH = Annotated[str, Field(max_length=100)]
PLANNED = Annotated[str, Field(max_length=200, description="A launched campaign, or the id of a plan.")]
COLUMN = Annotated[str, Field(min_length=1, max_length=200, description="A column of the customers table.")]
COLUMNS = Annotated[list[str], Field(max_length=20, description="Also by these columns of its customers.")]
LAUNCHED = Annotated[str, Field(min_length=1, max_length=200, description="A launched campaign.")]
DRAWS = Annotated[int, Field(ge=1, le=100_000, description="Draws of the policy to estimate from.")]
CUSTOMER = Annotated[str, Field(min_length=1, max_length=1000, description="Their id.")]
FIRST_DAY = Annotated[Day | None, Field(description="The first day that counts; default: all of it.")]
LAST_DAY = Annotated[Day | None, Field(description="The last day that counts; default: the last order.")]
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


def _within(shop: Shop, name: str) -> Path:
    """A file in the shop's folder, also where links lead elsewhere."""
    place = (shop.folder / name).resolve()
    if not place.is_relative_to(shop.folder.resolve()):
        raise InputError("file", found=name, expected="a file within the shop's folder")
    return place


# ---- the use cases ----

# fmt: off
USE_CASES = (
    # plans
    UseCase(Shop.plan, "operations.plan:PlanResult", "plan", job=JobKind.PLAN),
    UseCase(Shop.plan_show, "operations.review:PlanReview", "plan",
        route=ApiRoute("GET /plans/{plan_id}", Role.VIEWER, ("plans",), "A plan by depth, group, history and spend",
                       takes={"plan_id": PLAN, "by": COLUMNS}, roles={"by": Role.PLANNER}, name="plan",
                       about="`by` needs the role planner: a column of the customers may tell who they are.")),
    UseCase(Shop.plan_diff, "operations.review:PlanDifference", "plan"),
    UseCase(Shop.plan_copy, "operations.review:PlanCopy", "plan",
        route=ApiRoute("GET /plans/{plan_id}/copy", Role.PLANNER, ("plans",),
                       "A plan as a file, to be changed into the next", takes={"plan_id": PLAN}, name="copy",
                       about="`yaml` marks the lines with the name and the dates. "
                             "`plan_id` may be the name of a campaign.")),
    UseCase(Shop.frontier, "operations.what_if:Frontier", "frontier", job=JobKind.FRONTIER,
        route=ApiRoute("POST /frontier", Role.PLANNER, ("jobs",), "What a plan could reach: revenue against markdown")),
    UseCase(Shop.approve, "office.approvals.use_cases:Approved", "approve",
        route=ApiRoute("POST /plans/{plan_id}/approve", Role.APPROVER, ("plans",),
                       "Consent to the launch of exactly this plan", takes={"plan_id": PLAN},
                       about="Whoever made a plan cannot approve it.")),
    UseCase(Shop.approval, "operations.approvals:PlanApproval", "",
        route=ApiRoute("GET /plans/{plan_id}/approval", Role.VIEWER, ("plans",), "Who made and who approved a plan",
                       takes={"plan_id": PLAN})),
    # a campaign's life
    UseCase(Shop.launch, "operations.launch:Launched", "launch", job=JobKind.LAUNCH, run=_launch),
    UseCase(Shop.export, "operations.export:Exported", "export"),
    UseCase(Shop.export_to, "operations.export_table:TableExported", "export"),
    UseCase(Shop.ingest, "operations.outcomes:Ingested", "ingest"),
    UseCase(Shop.quarantine, "operations.outcomes:Quarantine", "quarantine"),
    UseCase(Shop.revert, "operations.outcomes:Reverted", "revert",
        route=ApiRoute("POST /batches/{batch_id}/revert", Role.PLANNER, ("campaigns",),
                       "Take a batch of outcomes out again", takes={"batch_id": BATCH, "dry_run": DRY_RUN})),
    UseCase(Shop.pause, "operations.launch:CampaignState", "pause",
        route=ApiRoute("POST /campaigns/{name}/pause", Role.PLANNER, ("campaigns",),
                       "No codes for late arrivals, for now", takes={"name": CAMPAIGN})),
    UseCase(Shop.resume, "operations.launch:CampaignState", "resume",
        route=ApiRoute("POST /campaigns/{name}/resume", Role.PLANNER, ("campaigns",), "End a pause",
                       takes={"name": CAMPAIGN})),
    UseCase(Shop.close, "operations.launch:CampaignState", "close",
        route=ApiRoute("POST /campaigns/{name}/close", Role.PLANNER, ("campaigns",), "End a campaign for good",
                       takes={"name": CAMPAIGN})),
    UseCase(Shop.recall, "operations.launch:Recalled", "recall"),
    UseCase(Shop.late, "operations.late:LateArrivals", "late"),
    UseCase(Shop.contexts, "operations.late:PreparedArrivals", "contexts", job=JobKind.CONTEXTS,
        route=ApiRoute("POST /contexts", Role.PLANNER, ("jobs",), "Prepare customers who may arrive after a launch")),
    UseCase(Shop.propensities, "operations.replay:PropensitiesResult", "propensities", job=JobKind.PROPENSITIES,
        route=ApiRoute("POST /campaigns/{name}/propensities", Role.PLANNER, ("jobs", "campaigns"),
                       "Add to every decision how likely it was", takes={"name": LAUNCHED, "draws": DRAWS},
                       about="So that other policies can be evaluated on this campaign later. "
                             "Asking again gives the same figures.")),
    # results
    UseCase(Shop.results, "operations.results:CampaignResults", "results",
        route=ApiRoute("GET /campaigns/{name}/results", Role.VIEWER, ("campaigns",), "What a campaign brought",
                       takes={"name": CAMPAIGN, "as_of": READ_OUT_DAY})),
    UseCase(Shop.results, "operations.results:AllResults", "results",
        route=ApiRoute("GET /results", Role.VIEWER, ("campaigns",), "What all campaigns brought, in brief",
                       takes={"as_of": READ_OUT_DAY}, name="all_results")),
    UseCase(Shop.added, "operations.added:Added", "added",
        route=ApiRoute("GET /added", Role.VIEWER, ("campaigns",), "What codes added, by the lasting holdout",
                       takes={"first": FIRST_DAY, "last": LAST_DAY})),
    UseCase(Shop.favoured, "operations.favoured:Favoured", "favoured",
        route=ApiRoute("GET /favoured/{name}", Role.PLANNER, ("campaigns",), "Who gets what, by a column of customers",
                       takes={"name": PLANNED, "by": COLUMN},
                       about="Needs the role planner: a column of the customers may tell who they are.")),
    UseCase(Shop.release_holdout, "operations.added:ReleasedHoldout", "holdout release",
        route=ApiRoute("POST /holdout/release", Role.APPROVER, ("campaigns",), "Let the people held out have codes",
                       takes={"dry_run": DRY_RUN}, body=ReleaseRequest,
                       about="The next campaign with a lasting holdout draws others. "
                             "The reason is kept in the audit journal.")),
    UseCase(Shop.explain, "operations.explain:Explanation", "explain"),
    UseCase(Shop.campaigns, "operations.overview:CampaignList", "campaigns"),
    # the model
    UseCase(Shop.learn, "operations.learn:Learned", "learn", job=JobKind.LEARN, run=_learn,
        route=ApiRoute("POST /learn", Role.PLANNER, ("jobs",), "Make a new version of the model from outcomes")),
    UseCase(Shop.activate, "operations.learn:Activated", "learn"),
    UseCase(Shop.belief, "operations.learned:LearnedBelief", "belief"),
    UseCase(Shop.demand, "operations.demand:Demand", "",
        route=ApiRoute("GET /demand", Role.VIEWER, ("model",), "Demand over depths, with what was seen",
                       takes={"version": VERSION})),
    UseCase(Shop.replay, "operations.replay:ReplayResult", "replay", job=JobKind.REPLAY, run=_replay,
        route=ApiRoute("POST /replay", Role.PLANNER, ("jobs",), "What policies would have earned on a random log")),
    UseCase(Shop.train, "operations.training:ContextTrained", "train context", job=JobKind.TRAIN,
        route=ApiRoute("POST /train", Role.PLANNER, ("jobs",), "Train the context network")),
    # is everything in order
    UseCase(Shop.validate, "operations.plan:TablesVerdict", "validate", job=JobKind.VALIDATE, run=_validate,
        route=ApiRoute("POST /validate", Role.PLANNER, ("jobs",), "Every problem of the tables, or of a plan")),
    UseCase(Shop.validate_plan, "operations.plan:PlanVerdict", "validate"),
    UseCase(Shop.check, "operations.upkeep:CheckResult", "check", job=JobKind.CHECK,
        route=ApiRoute("POST /check", Role.PLANNER, ("jobs",),
                       "Whether decisions can be based on the data and the network")),
    UseCase(Shop.doctor, "operations.upkeep:HealthCheck", "doctor", job=JobKind.DOCTOR,
        route=ApiRoute("POST /doctor", Role.PLANNER, ("jobs",), "Check installation, files and database",
                       roles={"repair": Role.ADMIN})),  # it writes what nobody else may
    # what is kept, and upkeep
    UseCase(Shop.access, "operations.forget:PersonalData", "access",
        route=ApiRoute("GET /access", Role.ADMIN, ("upkeep",), "Everything that is kept about a customer",
                       takes={"customer": CUSTOMER},
                       about="What `POST forget` would remove. Nothing about them: `records` is empty.")),
    UseCase(Shop.forget, "operations.forget:Forgotten", "forget",
        route=ApiRoute("POST /forget", Role.ADMIN, ("upkeep",), "Forget customers, everywhere",
                       takes={"dry_run": DRY_RUN}, body=ForgetRequest,
                       about="Another name takes the place of their ids, and their features and contexts go. "
                             "This cannot be undone. Where\n`unfinished` is not empty, repeat the request.")),
    UseCase(Shop.prune, "operations.forget:Pruned", "prune",
        route=ApiRoute("POST /prune", Role.ADMIN, ("upkeep",), "Remove what is old and needed by nothing",
                       takes={"dry_run": DRY_RUN}, body=PruneRequest)),
    UseCase(Shop.backup, "operations.backup:BackedUp", "backup"),
    UseCase(Shop.restore, "operations.backup:Restored", "restore"),
    UseCase(Shop.upgrade, "operations.upkeep:DatabaseUpgrade", "db upgrade"),
    # keys and the journal
    UseCase(Shop.create_key, "office.keys.use_cases:NewKey", "keys create"),
    UseCase(Shop.list_keys, "office.keys.use_cases:Keys", "keys list"),
    UseCase(Shop.revoke_key, "office.keys.use_cases:RevokedKey", "keys revoke"),
    UseCase(Shop.audit, "office.audit.use_cases:AuditPage", "audit"),
    UseCase(Shop.verify_audit, "office.audit.use_cases:AuditVerdict", "audit verify"),
)
# fmt: on


def routed(function: Callable[..., Any]) -> tuple[UseCase, ApiRoute]:
    """The use case that this method of `Shop` runs, and how the service is asked for it."""
    return next((case, case.route) for case in USE_CASES if case.function is function and case.route is not None)
