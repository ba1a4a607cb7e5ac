"""What a launch needs of approvals: who made a plan, who approved it, and what the shop asks for."""

from dataclasses import dataclass
from datetime import datetime

from disco.operations.outbox import tell
from disco.operations.plan_warnings import plan_risks
from disco.records.campaign_records import PlanRecord
from disco.records.errors import ApprovalError
from disco.records.jobs import Event
from disco.records.people import Actor, ActorKind, ApprovalRecord, ApprovalRule
from disco.records.result import Result
from disco.store import JOBS, Store, Transaction

APPROVAL_SETTING = "approval"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GivenApproval(Result):
    """One person's consent to a plan."""

    by: str
    """Who approved it."""
    kind: ActorKind
    """person, key or command line."""
    approved_at: datetime
    """When."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanApproval(Result):
    """Whether a plan may be launched, as far as approval goes."""

    plan_id: str
    """The whole id of the plan: what is approved and launched is exactly this."""
    campaign: str
    """The campaign of the plan."""
    required: bool
    """Whether a launch needs the approval of a second person."""
    approved: bool
    """Whether somebody who did not make the plan has approved it."""
    made_by: tuple[str, ...]
    """Who made it."""
    approvals: tuple[GivenApproval, ...]
    """Who approved it, and when."""
    warnings: tuple[str, ...]
    """What to know before a launch."""


def plan_approval(store: Store, name: str, *, rule: ApprovalRule) -> PlanApproval:
    """Who made and who approved a plan, and whether it may be launched; rule: of the shop's settings."""
    with store.reading() as transaction:
        return approval_of(transaction, transaction.plans.get(name), rule)


def approval_of(transaction: Transaction, record: PlanRecord, rule: ApprovalRule) -> PlanApproval:
    """Who made and who approved a plan that was read."""
    makers, given = transaction.approvals.makers(record.plan_id), transaction.approvals.of(record.plan_id)
    required = approval_in_force(transaction, rule) is ApprovalRule.SECOND_PERSON
    return PlanApproval(
        plan_id=record.plan_id,
        campaign=record.plan.campaign,
        required=required,
        approved=_is_approved(makers, given),
        made_by=tuple(maker.name for maker in makers),
        approvals=tuple(GivenApproval(by=one.by.name, kind=one.by.kind, approved_at=one.approved_at) for one in given),
        warnings=(*plan_risks(record), *record.summary.warnings),
    )


def tell_of_waiting(store: Store, name: str, *, rule: ApprovalRule, now: datetime) -> None:
    """Tell whoever waits for it that a plan needs somebody's approval: once for each plan."""
    with store.reading() as transaction:
        if Event.PLAN_WAITING not in {event for one in transaction.webhooks.all() for event in one.events}:
            return
        found = approval_of(transaction, transaction.plans.get(name), rule)
    if found.required and not found.approved:
        words = f"Plan {found.plan_id} of campaign {found.campaign} waits for the approval of a second person."
        data = {"plan_id": found.plan_id, "campaign": found.campaign, "words": words}
        with store.writing(JOBS, action="tell webhooks") as transaction:
            once = f"waiting:{found.plan_id}"
            tell(transaction, Event.PLAN_WAITING, data, actor=store.actor, now=now, once=once)


def refuse_unapproved(transaction: Transaction, plan_id: str, *, rule: ApprovalRule) -> None:
    """Refuse to launch a plan that needs the approval of a second person and has none; rule: of the settings."""
    if approval_in_force(transaction, rule) is ApprovalRule.NONE:
        return
    makers, given = transaction.approvals.makers(plan_id), transaction.approvals.of(plan_id)
    if _is_approved(makers, given):
        return
    made = f", made by {', '.join(maker.name for maker in makers)}," if makers else ""
    raise ApprovalError(
        f"Plan {plan_id}{made} needs the approval of a second person before it is launched",
        fix=f"Ask somebody else to run `disco approve {plan_id}`, or to approve it at the service.",
    )


def _is_approved(makers: tuple[Actor, ...], given: tuple[ApprovalRecord, ...]) -> bool:
    """By somebody who is none of its makers, also of those who made it again after they had approved it."""
    return bool(makers) and any(not any(one.by.is_same_person(maker.name) for maker in makers) for one in given)


def kept_rule(transaction: Transaction) -> ApprovalRule:
    """What was set at the service."""
    return ApprovalRule(transaction.settings.get(APPROVAL_SETTING) or ApprovalRule.NONE)


def approval_in_force(transaction: Transaction, rule: ApprovalRule) -> ApprovalRule:
    """The stricter of what the settings and the database say."""
    asked = (rule, kept_rule(transaction))
    return ApprovalRule.SECOND_PERSON if ApprovalRule.SECOND_PERSON in asked else ApprovalRule.NONE
