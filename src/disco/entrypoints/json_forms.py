"""Which result each command prints with `--json`: docs/json.md is made from it, and a service can use it as well."""

from importlib import import_module

FORMS: dict[str, tuple[str, ...]] = {  # command → its results as module:class, without the leading `disco.`
    "init": ("entrypoints.new_shop:NewShop",),
    "simulate": ("retailer.folder:SimulatedRetailer",),
    "respond": ("retailer.folder:SimulatedResponse",),
    "validate": ("operations.plan:TablesVerdict", "operations.plan:PlanVerdict"),
    "features": ("operations.training:FeaturesResult",),
    "train context": ("operations.training:ContextTrained",),
    "train basket": ("operations.learn:Learned", "operations.training:BasketTrained"),
    "check": ("operations.upkeep:CheckResult",),
    "plan": (
        "operations.plan:PlanResult",
        "operations.review:PlanReview",
        "operations.review:PlanDifference",
        "operations.review:PlanCopy",
    ),
    "frontier": ("operations.what_if:Frontier",),
    "launch": ("operations.launch:Launched",),
    "approve": ("office.approvals.use_cases:Approved",),
    "export": ("operations.export:Exported",),
    "ingest": ("operations.outcomes:Ingested",),
    "learn": ("operations.learn:Learned", "operations.learn:Activated"),
    "quarantine": ("operations.outcomes:Quarantine",),
    "revert": ("operations.outcomes:Reverted",),
    "results": ("operations.results:CampaignResults", "operations.results:AllResults"),
    "explain": ("operations.explain:Explanation",),
    "belief": ("operations.learned:LearnedBelief",),
    "campaigns": ("operations.overview:CampaignList",),
    "pause": ("operations.launch:CampaignState",),
    "resume": ("operations.launch:CampaignState",),
    "close": ("operations.launch:CampaignState",),
    "recall": ("operations.launch:Recalled",),
    "late": ("operations.late:LateArrivals",),
    "contexts": ("operations.late:PreparedArrivals",),
    "propensities": ("operations.replay:PropensitiesResult",),
    "access": ("operations.forget:PersonalData",),
    "forget": ("operations.forget:Forgotten",),
    "prune": ("operations.forget:Pruned",),
    "doctor": ("operations.upkeep:HealthCheck",),
    "backup": ("operations.backup:BackedUp",),
    "restore": ("operations.backup:Restored",),
    "keys create": ("office.keys.use_cases:NewKey",),
    "keys list": ("office.keys.use_cases:Keys",),
    "keys revoke": ("office.keys.use_cases:RevokedKey",),
    "audit": ("office.audit.use_cases:AuditPage",),
    "audit verify": ("office.audit.use_cases:AuditVerdict",),
    "serve": ("entrypoints.service.serving:Serving",),
    "worker": ("office.jobs.use_cases:WorkDone",),
    "schedule list": ("office.schedules.use_cases:ScheduleList",),
    "schedule add": ("records.jobs:JobSchedule",),
    "schedule remove": ("office.schedules.use_cases:RemovedSchedule",),
    "allocate": ("operations.offline:AllocationSummary",),
    "replay": ("operations.replay:ReplayResult",),
    "power": ("operations.experiment:PowerResult",),
    "ab": ("operations.experiment:ExperimentResult",),
    "db upgrade": ("operations.upkeep:DatabaseUpgrade",),
}


def results_of(command: str) -> tuple[type, ...]:
    """The types of the results that a command prints."""
    return tuple(_loaded(name) for name in FORMS[command])


def _loaded(name: str) -> type:
    module, _, kind = name.partition(":")
    loaded: type = getattr(import_module(f"disco.{module}"), kind)
    return loaded
