"""The verdict on a retailer's tables, or on a campaign plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from disco.operations.arms import Groups, refuse_floors_above_caps
from disco.operations.audience import ShopData, check_audience
from disco.operations.codes import read_pool, refuse_too_few, usable_codes
from disco.operations.exporting import refuse_export
from disco.operations.plan_warnings import hour_warnings, key_warnings
from disco.records.decisions import Offer
from disco.records.errors import Problem
from disco.records.plan import Plan
from disco.records.result import Result
from disco.records.wording import counted


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
    """Also look at what the plan names: the table of customers, the condition, lists, limits, the pool of codes.

    Everything that can be seen without the database and without a solve. Customers who joined too late or were
    contacted too often are still among those counted here.
    """
    refuse_export(data, plan)
    customers = check_audience(data, plan)
    # without the database its secret is not known; any other draws as many people, and only their number counts here
    groups = Groups.of(plan, customers.ids, segment=customers.segment, secret=b"any")
    offer = groups.offer(plan)
    warnings = (*customers.notes, *key_warnings(plan), *hour_warnings(plan, data.locale))
    pool = read_pool(data, plan)
    if pool is not None:
        codes = usable_codes(pool, shared=plan.shared_codes.values())
        least, most = _codes_at_launch(plan, offer, reached=groups.reached)
        refuse_too_few(len(codes), needed=least)
        if len(codes) < most:
            warnings += (f"The pool has {counted(len(codes), 'code')}; up to {most:,} may be needed at the launch.",)
    return PlanVerdict.of(plan, eligible=len(customers.ids), warnings=warnings)


def validate_plan_alone(plan: Plan) -> PlanVerdict:
    """The same where no shop is there to look at: what the plan says by itself."""
    refuse_floors_above_caps(plan)
    return PlanVerdict.of(plan, warnings=tuple(key_warnings(plan)))


def _codes_at_launch(plan: Plan, offer: Offer, *, reached: int) -> tuple[int, int]:
    """The fewest and the most codes of a pool that a launch needs; reached: customers outside the holdout."""
    own = np.array([depth not in plan.shared_codes for depth in offer.depths])
    caps = np.array([reached if cap is None else cap for cap in offer.caps])
    floors = np.array(offer.floors or np.zeros(own.size, np.int64))
    of_segments = np.array([limits.floors for limits in (offer.segments or {}).values()]).reshape(-1, own.size)
    floors = np.maximum(floors, of_segments.sum(axis=0))
    least, most = int(floors[own].sum()), min(int(caps[own].sum()), reached)
    counts = all(isinstance(section.at_most, int) for section in plan.depths.values())
    if plan.policy.assigns_at_random and offer.budget is None and offer.segments is None and counts:
        least = most if caps.sum() <= reached else least  # nothing keeps codes back
    return least, most
