"""The first draft of a plan: sensible limits and dates for a new campaign, or those of an earlier one."""

from datetime import date, timedelta
from typing import Any

from disco.features.builder import day_after_last_order
from disco.operations.audience import ShopData
from disco.operations.launching import plan_id_of
from disco.operations.plan_review import content_of
from disco.operations.plan_risks import CONTROL_SHARE, HOLDOUT_SHARE
from disco.operations.plan_warnings import DepthExperience
from disco.store import Store

_DEPTHS = ("0.1", "0.2", "0.3")  # where no campaign says which
_SHARE = "20%"
FIRST_SHARE = "2%"
"""Of the customers, for a depth that is hardly known: enough to learn from, and little to lose."""
_WEIGHT = 3
_DAYS = 14


def new_plan(store: Store, data: ShopData, *, campaign: str, today: date) -> dict[str, Any]:
    """The content of a plan file: depths, limits, groups and weight of the last campaign, two weeks from next Monday.

    Before the first campaign depths are assigned at random, because nobody knows yet what a depth brings. Afterwards
    a control group shows what deciding is worth; a holdout always shows what codes are worth.
    """
    with store.reading() as transaction:
        launched, is_learned = transaction.plans.campaigns(), transaction.beliefs.version() is not None
    content: dict[str, Any] = {
        "campaign": campaign,
        "customers": {"table": "customers", "eligible": "true"},
        "depths": {depth: {"at_most": _SHARE} for depth in _DEPTHS},
        "objective": {"revenue_weight": _WEIGHT},
        "holdout": {"share": HOLDOUT_SHARE},
    }
    content |= {"control": {"share": CONTROL_SHARE}} if is_learned else {"policy": {"name": "random"}}
    if launched:
        last = content_of(max(launched, key=lambda record: record.launched_at).plan)
        content["customers"] = {key: text for key, text in last["customers"].items() if key != "as_of"}
        kept = ("depths", "objective", "control", "holdout", "channel")
        content |= {key: last[key] for key in kept if key in last}
        if not content["holdout"].get("lasting"):  # a shop that has turned it on since means its new plans
            content["holdout"] = {"share": content["holdout"]["share"]}
    return _dated(content, data, today=today, days=_DAYS)


def first_cap(experience: DepthExperience | None, *, is_learned: bool) -> str:
    """The share of customers that a depth begins with which is added to a plan.

    experience: of the depth; None: not known. is_learned: whether any campaign was; before, no depth is known better
    than another.
    """
    if not is_learned:
        return _SHARE
    return FIRST_SHARE if experience is None or experience.extrapolated else _SHARE


def next_plan(store: Store, data: ShopData, name: str, *, campaign: str, today: date) -> dict[str, Any]:
    """The content of a plan file: the plan of an earlier campaign (or a kept plan) with a new name and new dates."""
    with store.reading() as transaction:
        plan = transaction.plans.get(plan_id_of(transaction, name)).plan
    return _dated(content_of(plan) | {"campaign": campaign}, data, today=today, days=plan.valid.days)


def _dated(content: dict[str, Any], data: ShopData, *, today: date, days: int) -> dict[str, Any]:
    """Valid from the next Monday; decided by the newest features that the tables can give."""
    with data.tables() as tables:
        newest = day_after_last_order(tables)
    monday = today + timedelta(days=7 - today.weekday())
    content["customers"] = {**content.get("customers", {}), "as_of": min(newest, today).isoformat()}
    content["valid"] = {"from": monday.isoformat(), "days": days}
    return content
