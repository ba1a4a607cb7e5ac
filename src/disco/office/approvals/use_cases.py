"""A second person's consent before a launch: given, looked up, and asked for by the shop."""

from dataclasses import dataclass
from datetime import date, datetime

from disco.office.people.rows import PeopleRows
from disco.operations.approvals import APPROVAL_SETTING, PlanApproval, approval_in_force, approval_of, kept_rule
from disco.records.errors import ApprovalError, InputError, StateError
from disco.records.people import Actor, ActorKind, ApprovalRecord, ApprovalRule, is_same_name
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import PEOPLE, Store, Transaction


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WaitingPlan(Result):
    """A plan that can still be launched."""

    approval: PlanApproval
    """Who made it, and who approved it."""
    planned_at: datetime
    """When it was decided."""
    valid_from: date | datetime
    """The first day of its codes; with a time of day where the plan has one."""
    customers: int
    """Customers who are decided about."""
    codes: int
    """Customers who get a code."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Approved(Result):
    """A plan that was approved."""

    plan_id: str
    """The whole id of the plan: exactly this one may be launched."""
    campaign: str
    """The campaign of the plan."""
    customers: int
    """Customers who are decided about."""
    codes: int
    """Customers who get a code."""
    made_by: tuple[str, ...]
    """Who made the plan."""
    by: str
    """Who approved it."""
    approved_at: datetime
    """When."""
    again: bool
    """Whether this person had approved it before, so that nothing was written now."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApprovalSetting(Result):
    """What the shop asks for before a launch."""

    approval: ApprovalRule
    """none or second_person: the stricter of the two below."""
    in_settings: ApprovalRule
    """What disco.yaml says."""
    in_database: ApprovalRule
    """What was set at the service."""


def approve_plan(store: Store, name: str, clock: Clock) -> Approved:
    """Record that whoever writes through this store consents to a plan, by its id or four or more characters of it."""
    with store.reading() as transaction:
        record = transaction.plans.get(name)
    with store.writing(record.plan.campaign, action="approve") as transaction:
        record = transaction.plans.get(record.plan_id)
        launched = transaction.plans.find_campaign(record.plan.campaign)
        if launched is not None:
            day = store.locale.day_of(launched.launched_at)
            raise StateError(f"Campaign {record.plan.campaign} was launched on {day}, so there is nothing to approve")
        makers = transaction.approvals.makers(record.plan_id)
        _refuse_maker(transaction, record.plan_id, makers, store.actor)
        approval = ApprovalRecord(plan_id=record.plan_id, by=store.actor, approved_at=clock.now())
        added = transaction.approvals.add(approval)
        if added:
            transaction.journal.note(plan_id=record.plan_id, made_by=[maker.name for maker in makers])
        else:
            earlier = [one for one in transaction.approvals.of(record.plan_id) if one.by.name == store.actor.name]
            approval = earlier[0]
    return Approved(
        plan_id=record.plan_id,
        campaign=record.plan.campaign,
        customers=record.summary.customers,
        codes=sum(sum(arm.codes.values()) for arm in record.summary.arms.values()),
        made_by=tuple(maker.name for maker in makers),
        by=approval.by.name,
        approved_at=approval.approved_at,
        again=not added,
    )


def _refuse_maker(transaction: Transaction, plan_id: str, makers: tuple[Actor, ...], actor: Actor) -> None:
    if not makers:
        raise ApprovalError(
            f"It is not known who made plan {plan_id}: an earlier version of the program kept it",
            fix="Run `disco plan` again, and let somebody else approve it.",
        )
    another = "Another person has to approve it."
    if any(actor.is_same_person(maker.name) for maker in makers):
        raise ApprovalError(f"{actor.name} made plan {plan_id} and cannot approve it", fix=another)
    if actor.kind is ActorKind.KEY:
        behind = _makers_of_key(transaction, actor.name)
        for maker in makers:
            if any(is_same_name(maker.name, other) for other in behind):
                words = f"The key {actor.name} was made by {maker.name}, who made plan {plan_id}, and cannot approve it"
                raise ApprovalError(words, fix=another)


def _makers_of_key(transaction: Transaction, name: str) -> list[str]:
    """Who made a key of this name, and who made the keys that it was made with."""
    keys, makers = PeopleRows(transaction).keys(), list[str]()
    open_names = [name]
    while open_names:
        made_with = open_names.pop()
        for key in keys:
            if is_same_name(key.name, made_with) and key.created_by not in makers:
                makers.append(key.created_by)
                open_names.append(key.created_by)
    return makers


def waiting_plans(store: Store, *, rule: ApprovalRule, today: date, most: int = 50) -> tuple[WaitingPlan, ...]:
    """The newest plan of each campaign that was not launched and whose codes would still be valid, the newest first.

    most: plans that are looked at. Reads neither decisions nor ledgers.
    """
    with store.reading() as transaction:
        over = {record.campaign for record in transaction.plans.campaigns()}
        found = []
        for record in transaction.plans.recent(most):
            plan = record.plan
            closes = plan.valid.closes
            if plan.campaign in over or (closes.date() if isinstance(closes, datetime) else closes) <= today:
                continue
            over.add(plan.campaign)
            found.append(
                WaitingPlan(
                    approval=approval_of(transaction, record, rule),
                    planned_at=record.planned_at,
                    valid_from=plan.valid.opens,
                    customers=record.summary.customers,
                    codes=sum(sum(arm.codes.values()) for arm in record.summary.arms.values()),
                )
            )
    return tuple(found)


def approval_setting(store: Store, *, rule: ApprovalRule) -> ApprovalSetting:
    """What is asked for before a launch; rule: of the shop's settings."""
    with store.reading() as transaction:
        kept, force = kept_rule(transaction), approval_in_force(transaction, rule)
    return ApprovalSetting(approval=force, in_settings=rule, in_database=kept)


def set_approval(store: Store, approval: ApprovalRule | str, *, rule: ApprovalRule) -> ApprovalSetting:
    """Keep in the database what is asked for before a launch, for everybody who uses it; rule: of the settings."""
    wanted = read_approval(approval)
    with store.writing(PEOPLE, action="settings") as transaction:
        if kept_rule(transaction) is not wanted:
            transaction.settings.put(APPROVAL_SETTING, wanted.value)
            transaction.journal.note(approval=wanted.value)
    return approval_setting(store, rule=rule)


def read_approval(approval: object) -> ApprovalRule:
    """A rule by its name."""
    try:
        return ApprovalRule(str(approval))
    except ValueError:
        raise InputError("approval", found=repr(approval), expected=" or ".join(ApprovalRule)) from None
