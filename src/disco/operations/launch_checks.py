"""What to look at before a launch: each check with its state and a sentence. A launch itself checks more, and again."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from disco.operations.approvals import PlanApproval, plan_approval
from disco.operations.audience import ShopData, sources_of
from disco.operations.plan_review import changed_settings
from disco.operations.plan_risks import group_warning, overspend_warning, overspend_words
from disco.records.decisions import Arm
from disco.records.errors import PlanError
from disco.records.jobs import Draft
from disco.records.life import PlanRecord
from disco.records.people import ApprovalRule
from disco.records.plan import read_plan
from disco.records.result import Result
from disco.records.wording import counted, money, validity
from disco.records.wording import date as day_text
from disco.store import Store


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the launch is possible, and somebody should have thought about it
    WRONG = "wrong"  # the launch would be refused


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCheck:
    """One point of the list."""

    name: str
    """What is checked."""
    state: CheckState
    """ok, warning or wrong."""
    sentence: str
    """What was found."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchChecks(Result):
    """The list for one plan."""

    plan_id: str
    """The id of the plan."""
    campaign: str
    """The campaign of the plan."""
    launched: bool
    """Whether its campaign was launched from this plan."""
    checks: tuple[LaunchCheck, ...]
    """In the order of the list."""

    @property
    def refused(self) -> tuple[LaunchCheck, ...]:
        """What a launch would be refused for."""
        return tuple(one for one in self.checks if one.state is CheckState.WRONG)

    @property
    def warnings(self) -> tuple[LaunchCheck, ...]:
        """What somebody should have thought about."""
        return tuple(one for one in self.checks if one.state is CheckState.WARNING)


def launch_checks(
    store: Store, data: ShopData, plan_id: str, *, rule: ApprovalRule, today: date, draft: Draft | None = None
) -> LaunchChecks:
    """rule: what the settings ask for before a launch. today: in the shop. draft: that the plan was saved from."""
    with store.reading() as transaction:
        record = transaction.plans.get(plan_id)
        launched = transaction.plans.find_campaign(record.plan.campaign)
        active = transaction.beliefs.version()
    approval = plan_approval(store, record.plan_id, rule=rule)
    is_launched = launched is not None and launched.plan_id == record.plan_id
    found = [_kept(record, approval, store)]
    if launched is not None and not is_launched:
        sentence = f"{record.plan.campaign} was launched with another plan. Give this plan another name."
        found.append(LaunchCheck(name="Name", state=CheckState.WRONG, sentence=sentence))
    if not is_launched:
        found += _draft(record, draft)
        found += [_tables(record, data), _model(record, None if active is None else active.number)]
    found += [*_approval(approval), _dates(record, today), *_budget(record, store), *_groups(record, store)]
    found += [LaunchCheck(name="To know", state=CheckState.WARNING, sentence=one) for one in record.summary.warnings]
    return LaunchChecks(
        plan_id=record.plan_id, campaign=record.plan.campaign, launched=is_launched, checks=tuple(found)
    )


def _kept(record: PlanRecord, approval: PlanApproval, store: Store) -> LaunchCheck:
    made = f" by {', '.join(approval.made_by)}" if approval.made_by else ""
    when, customers = store.locale.local(record.planned_at), counted(record.summary.customers, "customer")
    sentence = f"Decided for {customers} on {day_text(when)} at {when:%H:%M}{made}."
    return LaunchCheck(name="Plan", state=CheckState.OK, sentence=sentence)


def _draft(record: PlanRecord, draft: Draft | None) -> Iterator[LaunchCheck]:
    if draft is None:
        return
    lasting = record.plan.holdout.lasting  # what a draft without the key became by the shop's setting
    try:
        is_same = not any(changed_settings(record.plan, read_plan(draft.plan, lasting_holdout=lasting)))
    except PlanError:
        is_same = False  # a plan that was saved can be read, so the draft has been changed
    if not is_same:
        sentence = "The draft was changed after this plan was saved."
        yield LaunchCheck(name="Draft", state=CheckState.WARNING, sentence=sentence)


def _tables(record: PlanRecord, data: ShopData) -> LaunchCheck:
    kept, now = record.summary.sources, sources_of(data, record.plan)
    if now is None or not kept:
        sentence = "The tables are in a database. The launch reads them again and compares."
        return LaunchCheck(name="Tables", state=CheckState.OK, sentence=sentence)
    changed = sorted(name for name in {*kept, *now} if kept.get(name) != now.get(name))
    if not changed:
        sentence = "The tables are those that the plan was decided on."
        return LaunchCheck(name="Tables", state=CheckState.OK, sentence=sentence)
    sentence = (
        f"Changed since the plan was decided: {', '.join(changed)}. The launch is refused where a decision rests on "
        "it; a dry run says whether one does."
    )
    return LaunchCheck(name="Tables", state=CheckState.WARNING, sentence=sentence)


def _model(record: PlanRecord, active: int | None) -> LaunchCheck:
    decided = record.summary.version
    if decided == active or decided is None:
        words = "Nothing was learned yet." if active is None else "The model is the one that decided the plan."
        state = CheckState.OK
        if decided is None and active is not None:
            state, words = CheckState.WARNING, f"Version {active} of the model was learned since. Plan again to use it."
        return LaunchCheck(name="Model", state=state, sentence=words)
    now = "none" if active is None else f"version {active}"
    sentence = f"Version {decided} of the model decided the plan, and {now} is active now. Plan again."
    return LaunchCheck(name="Model", state=CheckState.WARNING, sentence=sentence)


def _approval(found: PlanApproval) -> Iterator[LaunchCheck]:
    by = ", ".join(one.by for one in found.approvals)
    if found.approved:
        yield LaunchCheck(name="Approval", state=CheckState.OK, sentence=f"Approved by {by}.")
    elif found.required:
        sentence = "A second person has to approve the plan. Whoever made it cannot."
        yield LaunchCheck(name="Approval", state=CheckState.WRONG, sentence=sentence)
    else:
        yield LaunchCheck(name="Approval", state=CheckState.OK, sentence="This shop asks for none.")


def _dates(record: PlanRecord, today: date) -> LaunchCheck:
    valid = record.plan.valid
    words = f"Codes are valid {validity(valid.opens, valid.closes)}."
    if valid.end <= today:
        return LaunchCheck(name="Dates", state=CheckState.WARNING, sentence=f"{words} That is over.")
    if valid.start < today:
        return LaunchCheck(name="Dates", state=CheckState.WARNING, sentence=f"{words} They have begun already.")
    return LaunchCheck(name="Dates", state=CheckState.OK, sentence=words)


def _budget(record: PlanRecord, store: Store) -> Iterator[LaunchCheck]:
    plan, summary = record.plan, record.summary
    if plan.budget_amount is None:
        if summary.total is not None:
            cost = money(summary.total.markdown.value, currency=store.locale.currency)
            yield LaunchCheck(name="Budget", state=CheckState.OK, sentence=f"No budget. The codes cost about {cost}.")
        return
    budget = money(plan.budget_amount, currency=store.locale.currency)
    if summary.total is None:
        sentence = f"The budget of {budget} does not bind, because nothing was learned yet."
        yield LaunchCheck(name="Budget", state=CheckState.WARNING, sentence=sentence)
        return
    cost, chance = money(summary.total.markdown.value, currency=store.locale.currency), summary.overspend_chance
    warning = overspend_warning(plan, chance)
    more = warning or ("" if chance is None else overspend_words(plan, chance))
    state = CheckState.WARNING if warning else CheckState.OK
    sentence = f"The codes cost about {cost} of {budget}. {more}".rstrip()
    yield LaunchCheck(name="Budget", state=state, sentence=sentence)


def _groups(record: PlanRecord, store: Store) -> Iterator[LaunchCheck]:
    arms = record.summary.arms
    named = {Arm.CONTROL: "control", Arm.HOLDOUT: "holdout"}
    sizes = [f"{words} {arms[arm].customers:,}" for arm, words in named.items() if arm in arms]
    price = record.summary.solution.budget_price
    warning = group_warning(record.plan, arms, budget_price=price, currency=store.locale.currency)
    if sizes or warning:
        compared = f"Customers to compare with: {', '.join(sizes)}. " if sizes else ""
        state = CheckState.WARNING if warning else CheckState.OK
        yield LaunchCheck(name="Groups", state=state, sentence=f"{compared}{warning}".rstrip())
