"""A launch that needs a second person: nobody else's plan, nobody's own consent, and no way around it."""

from collections.abc import Iterator

import pytest
from small_life import CAMPAIGN, SECRET, FixedClock, planned
from stores import on_both_databases, open_store

from disco.office.approvals.use_cases import approval_setting, approve_plan, set_approval
from disco.office.keys.use_cases import create_key
from disco.operations.approvals import plan_approval
from disco.operations.launch import Launched, launch
from disco.operations.plan import Planned, keep
from disco.records.errors import ApprovalError, InputError, SealError, StateError
from disco.records.people import Actor, ActorKind, ApprovalRule
from disco.store import Store

ANNA, BEN, CARL = (Actor(name, ActorKind.PERSON) for name in ("Anna", "Ben", "Carl"))
SECOND_PERSON, NONE = ApprovalRule.SECOND_PERSON, ApprovalRule.NONE


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def kept(store: Store, by: Actor = ANNA, seed: int = 4) -> Planned:
    plan = planned(store, customers=40, seed=seed)
    keep(store.by(by), plan)
    return plan


def launched(store: Store, plan: Planned, rule: ApprovalRule = SECOND_PERSON, **more: bool) -> Launched:
    return launch(store, plan, clock=FixedClock(), secret=SECRET, approval=rule, **more)


def approve(store: Store, plan: Planned, by: Actor) -> None:
    approve_plan(store.by(by), plan.plan_id, FixedClock())


@on_both_databases
def test_a_plan_is_launched_after_somebody_else_approved_exactly_it(store: Store) -> None:
    plan, other = kept(store), kept(store, seed=5)
    with pytest.raises(
        ApprovalError, match=rf"Plan {plan.plan_id}, made by Anna, needs .*disco approve {plan.plan_id}"
    ):
        launched(store, plan)
    with pytest.raises(ApprovalError):
        launched(store, plan, dry_run=True)
    approve(store, other, BEN)
    with pytest.raises(ApprovalError):
        launched(store, plan)
    done = approve_plan(store.by(BEN), plan.plan_id[:6], FixedClock())
    assert (done.plan_id, done.campaign, done.by, done.made_by) == (plan.plan_id, CAMPAIGN, "Ben", ("Anna",))
    assert done.customers == 40
    assert done.codes == launched(store.by(ANNA), plan).codes


def test_nothing_is_asked_for_without_the_setting(store: Store) -> None:
    assert launched(store, kept(store), NONE).codes > 0


@pytest.mark.parametrize("name", ["Anna", "ANNA", "anna", "\N{FULLWIDTH LATIN CAPITAL LETTER A}nna"])
@pytest.mark.parametrize("kind", ActorKind)
def test_who_made_a_plan_cannot_approve_it_by_any_door(store: Store, name: str, kind: ActorKind) -> None:
    plan = kept(store)
    with pytest.raises(ApprovalError, match=r"made plan .* cannot approve it"):
        approve(store, plan, Actor(name, kind))
    with pytest.raises(ApprovalError):
        launched(store, plan)


def test_who_made_a_plan_cannot_approve_it_with_a_key_of_their_own(store: Store) -> None:
    plan = kept(store)
    create_key(store.by(ANNA), name="robot", role="approver", expires=None, clock=FixedClock())
    create_key(store.by(CARL), name="crm", role="approver", expires=None, clock=FixedClock())
    with pytest.raises(ApprovalError, match="The key robot was made by Anna, who made plan"):
        approve(store, plan, Actor("robot", ActorKind.KEY))
    approve(store, plan, Actor("crm", ActorKind.KEY))
    assert launched(store, plan).codes > 0


def test_a_key_made_with_a_key_is_still_that_of_who_made_the_first(store: Store) -> None:
    plan = kept(store)
    makers = [ANNA, Actor("robot", ActorKind.KEY), Actor("Helper", ActorKind.KEY)]
    for maker, name in zip(makers, ("robot", "helper", "robot 2"), strict=True):
        create_key(store.by(maker), name=name, role="admin", expires=None, clock=FixedClock())
    create_key(store.by(Actor("robot 2", ActorKind.KEY)), name="robot", role="admin", expires=None, clock=FixedClock())
    for name in ("helper", "robot 2"):
        with pytest.raises(ApprovalError, match=f"The key {name} was made by Anna, who made plan"):
            approve(store, plan, Actor(name, ActorKind.KEY))
    create_key(store.by(BEN), name="crm", role="approver", expires=None, clock=FixedClock())
    approve(store, plan, Actor("crm", ActorKind.KEY))


@on_both_databases
def test_a_plan_that_a_second_person_makes_again_after_damage_needs_a_third(store: Store) -> None:
    plan = kept(store)
    approve(store, plan, BEN)
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE plans SET summary = '{}'")
    keep(store.by(BEN), plan)
    with pytest.raises(ApprovalError, match="made by Anna, Ben,"):
        launched(store, plan)
    approve(store, plan, CARL)
    assert launched(store, plan).codes > 0


def test_the_same_plan_again_by_somebody_else_stays_the_first_one_s(store: Store) -> None:
    plan = kept(store)
    keep(store.by(BEN), plan)
    approve(store, plan, BEN)
    assert plan_approval(store, plan.plan_id, rule=SECOND_PERSON).made_by == ("Anna",)


def test_a_plan_of_an_earlier_revision_is_made_again_before_it_is_approved(store: Store) -> None:
    plan = kept(store)
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM plan_makers")
    with pytest.raises(ApprovalError, match="not known who made plan"):
        approve(store, plan, BEN)
    keep(store.by(ANNA), plan)
    approve(store, plan, BEN)
    assert launched(store, plan).codes > 0


def test_a_plan_that_was_never_kept_cannot_be_launched_past_the_approval(store: Store) -> None:
    with pytest.raises(ApprovalError):
        launched(store, planned(store, customers=40))
    with store.reading() as transaction:
        assert transaction.plans.ids() == ()


@on_both_databases
def test_the_stricter_of_settings_and_database_wins(store: Store) -> None:
    plan = kept(store)
    with pytest.raises(InputError, match="none or second_person"):
        set_approval(store, "everybody", rule=NONE)
    assert set_approval(store.by(CARL), "second_person", rule=NONE).approval is SECOND_PERSON
    with pytest.raises(ApprovalError):
        launched(store, plan, NONE)
    assert set_approval(store, "none", rule=SECOND_PERSON).approval is SECOND_PERSON
    assert approval_setting(store, rule=NONE).approval is NONE
    with store.reading() as transaction:
        last = transaction.journal.entries(limit=99)[-1]
    assert (last.action, last.details) == ("settings", {"approval": "none"})
    assert launched(store, plan, NONE).codes > 0


@on_both_databases
def test_an_approval_is_given_once_and_not_for_what_is_launched(store: Store) -> None:
    plan = kept(store)
    first = approve_plan(store.by(BEN), plan.plan_id, FixedClock())
    again = approve_plan(store.by(BEN), plan.plan_id, FixedClock())
    assert (first.again, again.again, again.approved_at) == (False, True, first.approved_at)
    seen = plan_approval(store, plan.plan_id, rule=SECOND_PERSON)
    assert (seen.required, seen.approved, [one.by for one in seen.approvals]) == (True, True, ["Ben"])
    launched(store, plan)
    with pytest.raises(StateError, match="was launched on"):
        approve(store, plan, CARL)
    assert launched(store, plan).again
    with store.reading() as transaction:
        entries = transaction.journal.entries(limit=10)
    assert [(entry.action, entry.actor.name) for entry in entries if entry.action == "approve"] == [("approve", "Ben")]


@on_both_databases
def test_a_forged_approval_is_refused(store: Store) -> None:
    plan = kept(store)
    approve(store, plan, BEN)
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE plan_makers SET name = 'Carl'")
    with pytest.raises(SealError, match="maker of plan"):
        launched(store, plan)
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE plan_makers SET name = 'Anna'")
        connection.exec_driver_sql("UPDATE approvals SET name = 'Dora'")
    with pytest.raises(SealError, match="approval of plan"):
        launched(store, plan)
