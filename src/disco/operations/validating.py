"""The verdict on a retailer's tables, or on a campaign plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from disco.operations.audience import ShopData, check_audience
from disco.operations.codes import read_pool
from disco.records.errors import Problem
from disco.records.plan import Plan
from disco.records.result import Result


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TablesVerdict(Result):
    """What is wrong with a retailer's tables."""

    clean: bool
    """Whether no problem was found."""
    as_of: date
    """The last day that dates may name."""
    rows: Mapping[str, int]
    """Rows of each table that was read."""
    count: int
    """Problems found."""
    problems: tuple[Problem, ...]
    """Every problem; a problem of several rows is named once, with its first row and their number."""
    notes: tuple[str, ...]
    """What was found in the files without being told: delimiters, encodings, names of columns."""
    warnings: tuple[str, ...]
    """What may be a mistake although every rule is kept."""

    @classmethod
    def of(
        cls,
        *,
        as_of: date,
        rows: Mapping[str, int],
        problems: tuple[Problem, ...],
        notes: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> "TablesVerdict":
        return cls(
            clean=not problems,
            as_of=as_of,
            rows=rows,
            count=len(problems),
            problems=problems,
            notes=notes,
            warnings=warnings,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanVerdict(Result):
    """A campaign plan that can be used; one that cannot is an error with every problem."""

    clean: bool
    """Whether no problem was found."""
    campaign: str
    """The name of the campaign."""
    depths: tuple[float, ...]
    """The depths offered."""
    valid_from: date
    """The first day of the codes."""
    valid_before: date
    """The day after their last."""
    eligible: int | None
    """Customers who meet its condition; null where no shop was there to look at."""
    warnings: tuple[str, ...]
    """What to know before it is planned."""

    @classmethod
    def of(cls, plan: Plan, *, eligible: int | None = None, warnings: tuple[str, ...] = ()) -> "PlanVerdict":
        return cls(
            clean=True,
            campaign=plan.campaign,
            depths=plan.offered,
            valid_from=plan.valid.start,
            valid_before=plan.valid.end,
            eligible=eligible,
            warnings=warnings,
        )


def validate_plan(data: ShopData, plan: Plan) -> PlanVerdict:
    """Also look at what the plan names: the table of customers, the condition, the pool of codes."""
    eligible, warnings = check_audience(data, plan)
    read_pool(data, plan)
    return PlanVerdict.of(plan, eligible=eligible, warnings=warnings)
