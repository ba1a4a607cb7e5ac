"""What somebody sees of texts that may name customers: everything from the role planner upwards, else no values.

Bodies of jobs and schedules, texts of problems and results, and sources of batches hold what a planner typed or what a
table had in a cell. Whatever shows them, as JSON, as an event or on a page, takes them from `as_seen`. Drafts are not
here: their routes need the role planner.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeVar

from fastapi import Request

from disco.operations.overview import CampaignEntry, CampaignOverview
from disco.operations.review import LaunchChecks, PlanDifference
from disco.records.errors import DiscoError, FileFormatError, PlanError, TableError
from disco.records.jobs import Job, JobPage, JobProblem, JobSchedule
from disco.records.people import Role
from disco.views.planner import LimitsDifference

Value = TypeVar("Value")
WITHHELD = "(for planners)"
"""In the place of a text that may name customers."""
_REASON = "The reason may name customers, so it is shown from the role planner upwards."
_NAMES = ("file", "column", "kind", "campaign", "plan_id")  # of results: names that people gave, and no cells
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][0-9:.+Z-]*)?")


def sees_customers(request: Request) -> bool:
    """Whether the role of whoever asks is enough to see customers."""
    caller = getattr(request.state, "caller", None)
    return caller is not None and caller.role.allows(Role.PLANNER)


def as_seen(request: Request, value: Value) -> Value:
    """The value as whoever asks may see it."""
    return value if sees_customers(request) else discreet(value)


@singledispatch
def discreet(value: Any) -> Any:
    """What somebody below the role planner sees of a value. Each kind of value is registered; others are refused."""
    raise TypeError(f"no discreet form of {type(value).__name__}")


@discreet.register
def _(job: Job) -> Job:
    result = None if job.result is None else _figures(job.result)
    return replace(job, body={}, result=result, problem=None if job.problem is None else discreet(job.problem))


@discreet.register
def _(problem: JobProblem) -> JobProblem:
    return JobProblem(error=problem.error, message=_REASON, problems=_figures(problem.problems))


@discreet.register
def _(page: JobPage) -> JobPage:
    return replace(page, items=tuple(map(discreet, page.items)))


@discreet.register
def _(schedule: JobSchedule) -> JobSchedule:
    return replace(schedule, body={})


@discreet.register
def _(entry: CampaignEntry) -> CampaignEntry:
    return replace(entry, batches=tuple(replace(batch, source=WITHHELD) for batch in entry.batches))


@discreet.register
def _(difference: PlanDifference) -> PlanDifference:
    settings = tuple(
        replace(one, before=one.before and WITHHELD, after=one.after and WITHHELD)
        if one.key in ("customers.eligible", "disclosure.where")  # conditions may name customers
        else one
        for one in difference.settings
    )
    return replace(difference, settings=settings)


@discreet.register
def _(difference: LimitsDifference) -> LimitsDifference:
    return replace(difference, settings=None)


@discreet.register
def _(found: LaunchChecks) -> LaunchChecks:
    checks = (replace(one, sentence=_unquoted(one.sentence)) for one in found.checks)
    return replace(found, checks=tuple(checks))


@discreet.register
def _(found: CampaignOverview) -> CampaignOverview:
    return replace(found, entry=discreet(found.entry), warnings=tuple(map(_unquoted, found.warnings)))


@discreet.register
def _(error: DiscoError) -> DiscoError:
    """Problems of tables and files quote their cells; other errors are about the request."""
    if not isinstance(error, TableError | PlanError | FileFormatError):
        return error
    fix = "A planner sees what is wrong."
    if isinstance(error, FileFormatError):
        return FileFormatError("A file of the shop cannot be read", fix=fix)
    return type(error)(f"A table, a plan or the settings have {len(error.problems):,} problems. {fix}", [])


def _unquoted(sentence: str) -> str:
    """Warnings that were kept with a plan may quote cells of its lists."""
    return re.sub(r"'[^']*'", "'…'", sentence)


def _figures(value: Any, name: str = "") -> Any:
    """The same shape, with numbers, days and names, and without any other text."""
    if isinstance(value, Mapping):
        return {key: _figures(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_figures(part, name) for part in value)
    if isinstance(value, str) and name not in _NAMES and not _DAY.fullmatch(value):
        return WITHHELD
    return value
