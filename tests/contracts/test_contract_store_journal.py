"""The journal of every store: one entry per write, in its transaction, and no entry can be changed without a trace."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa
from store_samples import MOMENT, add_campaign, decisions
from stores import open_store

from disco.office.audit.use_cases import list_journal, verify_journal
from disco.office.people.rows import PeopleRows, PersonRecord, SessionRows
from disco.records.campaign_records import State
from disco.records.errors import SealError, StateError
from disco.records.people import Actor, ActorKind, Role
from disco.store import PEOPLE, Store
from disco.store.health import restore_schema, vitals
from disco.store.journal import JournalEntry


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def entries_of(store: Store) -> tuple[JournalEntry, ...]:
    with store.reading() as transaction:
        return transaction.journal.entries(limit=1_000)


def break_of(store: Store) -> tuple[int, str] | None:
    with store.reading() as transaction:
        found = transaction.journal.first_break()
    return None if found is None else (found.number, found.found)


def some_life(store: Store) -> None:
    """Five entries about two campaigns."""
    for name in ("spring", "autumn"):
        with store.writing(name, action="launch") as transaction:
            add_campaign(transaction, name, decided=decisions([f"{name}-1", f"{name}-2"], codes=[f"{name}-A", None]))
            transaction.journal.note(plan_id=f"plan-of-{name}", customers=2)
    for state in (State.PAUSED, State.LAUNCHED, State.CLOSED):
        with store.writing("spring", action=str(state)) as transaction:
            transaction.plans.set_state("spring", state)


def test_a_write_has_one_entry_with_actor_action_subject_and_states(store: Store) -> None:
    anna = Actor("Anna", ActorKind.PERSON)
    some_life(store.by(anna))
    first, *_, paused, resumed, closed = entries_of(store)
    assert (first.number, first.actor, first.action, first.subject) == (1, anna, "launch", "spring")
    assert (first.before, first.details) == (None, {"plan_id": "plan-of-spring", "customers": 2})
    assert (paused.before, paused.after) == (first.after, resumed.before)
    assert len({first.after, paused.after, closed.after}) == 3
    assert resumed.after == first.after, "the same state has the same hash"
    assert [entry.number for entry in entries_of(store)] == [1, 2, 3, 4, 5]
    assert break_of(store) is None
    assert store.actor.kind is ActorKind.COMMAND_LINE
    with store.reading() as transaction:
        assert [entry.number for entry in transaction.journal.entries(after=2, limit=2)] == [3, 4]
        assert transaction.journal.last() == (closed.number, closed.hash)
        assert transaction.journal.contains(closed.hash)
        assert not transaction.journal.contains("ff" * 32)


def test_nothing_is_noted_of_what_was_not_written(store: Store) -> None:
    some_life(store)
    with store.writing("spring", action="look") as transaction:
        transaction.plans.campaign("spring")
        transaction.journal.note(looked=True)
    with store.writing("spring", action="rehearse", dry_run=True) as transaction:
        transaction.plans.set_state("spring", State.PAUSED)
    with suppress(ZeroDivisionError), store.writing("spring", action="fail") as transaction:
        transaction.plans.set_state("spring", State.PAUSED)
        raise ZeroDivisionError
    with store.bookkeeping() as transaction:
        assert SessionRows(transaction).lock_failures("00", at=MOMENT) == (0, MOMENT)
        SessionRows(transaction).set_failures("00", 1, at=MOMENT)
    with store.alone(action="look") as transaction:
        transaction.plans.names()
    assert len(entries_of(store)) == 5


def test_who_writes_alone_has_an_entry_about_everything(store: Store) -> None:
    some_life(store)
    with store.alone(action="forget") as transaction:
        transaction.forgotten.add(["C17"], at=MOMENT)
        known = transaction.journal.pseudonyms(["C17", "C18", "C17"])
        transaction.journal.note(customers=known)
    last = entries_of(store)[-1]
    assert (last.action, last.subject) == ("forget", "disco: everything")
    assert last.before != last.after
    assert known[0] == known[2] != known[1]
    assert "C17" not in last.detail


def test_the_database_refuses_to_change_or_remove_an_entry(store: Store) -> None:
    some_life(store)
    statements = ["UPDATE journal SET actor = 'nobody'", "DELETE FROM journal", "DELETE FROM journal WHERE number = 5"]
    if store._database.engine.dialect.name == "postgresql":
        statements += ["TRUNCATE journal"]
    for statement in statements:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), store._database.engine.begin() as connection:
            connection.exec_driver_sql(statement)
    assert len(entries_of(store)) == 5


@pytest.fixture
def lived(copied_database_url: Callable[[str, Callable[[str], None]], str]) -> Iterator[Store]:
    """A copy of a store that has lived `some_life`."""

    def live(url: str) -> None:
        with closing(open_store(url)) as store:
            some_life(store)

    with closing(open_store(copied_database_url("five entries", live))) as store:
        yield store


def without_triggers(store: Store, *statements: str) -> None:
    """As somebody would who owns the database."""
    with store._database.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            kept = connection.exec_driver_sql(triggers).all()
            before = [f"DROP TRIGGER {name}" for name, _ in kept]
            after = [sql for _, sql in kept]
        else:
            before, after = ["SET LOCAL session_replication_role = replica"], []
        for statement in (*before, *statements, *after):
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("attack", "number", "words"),
    [
        (["UPDATE journal SET actor = 'nobody' WHERE number = 2"], 2, "content is not what was written"),
        (["UPDATE journal SET at = at + 1 WHERE number = 1"], 1, "content is not what was written"),
        (["""UPDATE journal SET detail = '{"customers":3}' WHERE number = 1"""], 1, "content is not"),
        (["UPDATE journal SET after = before WHERE number = 3"], 3, "content is not what was written"),
        (["UPDATE journal SET kind = 'nobody' WHERE number = 3"], 3, "cannot be read"),
        (["UPDATE journal SET detail = 'no JSON' WHERE number = 4"], 4, "cannot be read"),
        (["DELETE FROM journal WHERE number = 1"], 1, "missing"),
        (["DELETE FROM journal WHERE number = 3"], 3, "missing"),
        (
            ["DELETE FROM journal WHERE number = 3", "UPDATE journal SET number = number - 1 WHERE number > 3"],
            3,
            "content",
        ),
        (
            [
                "UPDATE journal SET number = -2 WHERE number = 2",
                "UPDATE journal SET number = 2 WHERE number = 3",
                "UPDATE journal SET number = 3 WHERE number = -2",
            ],
            2,
            "content is not what was written",
        ),
        (["DELETE FROM journal WHERE number = 5"], 5, "an entry of spring after entry 4 is missing"),
        (["DELETE FROM journal WHERE number >= 2"], 2, "an entry of autumn after entry 1 is missing"),
        (["DELETE FROM journal"], 1, "is missing"),
        (["DELETE FROM tallies WHERE owner = 'autumn' AND name = 'journal'"], 3, "an entry of autumn after entry 2"),
        (["DELETE FROM tallies"], 3, "an entry of autumn after entry 2 is missing"),
        (["UPDATE tallies SET tally = '00' WHERE owner = 'spring' AND name = 'campaigns'"], 5, "the rows that it left"),
        (["DELETE FROM tallies WHERE owner = 'autumn' AND name = 'plans'"], 2, "the rows that it left"),
    ],
)
def test_every_attack_is_found_at_its_first_entry(lived: Store, attack: list[str], number: int, words: str) -> None:
    without_triggers(lived, *attack)
    found = break_of(lived)
    assert found is not None
    assert found[0] == number
    assert words in found[1]


@pytest.mark.parametrize("change", ["kind = 'nobody'", "detail = 'no JSON'"])
def test_an_entry_that_cannot_be_read_is_named(lived: Store, change: str) -> None:
    without_triggers(lived, f"UPDATE journal SET {change} WHERE number = 5")
    assert verify_journal(lived).first_bad == 5
    with pytest.raises(SealError, match=r"Entry 5 of the journal was changed .*disco audit verify"):
        list_journal(lived)
    assert len(list_journal(lived, after=0, limit=4).entries) == 4


def test_an_entry_cut_off_at_the_end_is_still_missed_after_the_next_write(store: Store) -> None:
    some_life(store)
    without_triggers(store, "DELETE FROM journal WHERE number = 5")
    with store.writing("spring", action="later") as transaction:
        add_campaign(transaction, "winter", decided=decisions(["w"], codes=["W"]))
    assert break_of(store) == (5, "an entry of spring after entry 4 is missing")
    with store.writing("spring", action="later") as transaction:
        transaction.plans.set_state("spring", State.CLOSED)
    assert break_of(store) is not None


def test_an_entry_whose_hash_was_made_again_breaks_the_chain_behind_it(store: Store) -> None:
    some_life(store)
    second = entries_of(store)[1]
    forged = JournalEntry(
        number=2,
        at=second.at,
        actor=Actor("nobody", second.actor.kind),
        action=second.action,
        subject=second.subject,
        before=second.before,
        after=second.after,
        detail=second.detail,
        previous=second.previous,
        hash="",
    )
    from disco.store.journal import entry_hash

    parts = {part: getattr(forged, part) for part in JournalEntry.__dataclass_fields__ if part != "hash"}
    forgery = entry_hash(**parts)
    without_triggers(store, f"UPDATE journal SET actor = 'nobody', hash = '{forgery}' WHERE number = 2")
    found = break_of(store)
    assert found == (3, "it does not follow the entry before it")


def test_missing_triggers_are_named_and_made_again(store: Store, store_url: str) -> None:
    some_life(store)
    with store._database.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER journal_refuses_delete")
        else:
            connection.exec_driver_sql("ALTER TABLE journal DISABLE TRIGGER journal_refuses_change")
    [found] = [one for one in vitals(store_url) if one.check == "append-only"]
    assert found.failed
    restore_schema(store_url)
    assert not [one for one in vitals(store_url) if one.check == "append-only" and one.failed]
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), store._database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM journal")
    assert entries_of(store)[-1].action == "repair"


def test_writers_side_by_side_make_one_chain(store: Store) -> None:
    names = [f"campaign-{number}" for number in range(6)]
    for name in names:
        with store.writing(name, action="launch") as transaction:
            add_campaign(transaction, name, decided=decisions([name], codes=[f"code-{name}"]))
    start = Barrier(len(names))
    failed: list[BaseException] = []

    def work(name: str) -> None:
        start.wait(30)
        try:
            for number in range(10):
                with store.by(Actor(name, ActorKind.KEY)).writing(name, action="move") as transaction:
                    transaction.plans.set_state(name, State.PAUSED if number % 2 == 0 else State.LAUNCHED)
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert break_of(store) is None
    found = entries_of(store)
    assert len(found) == 66
    assert {(entry.actor.name, entry.subject) for entry in found[6:]} == {(name, name) for name in names}


def test_both_databases_write_the_same_journal(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    class Clock:
        def now(self) -> object:
            return MOMENT

    found = []
    for url in (f"sqlite:///{tmp_path}/same.db", new_postgres_url()):
        opened = open_store(url)
        opened._clock = Clock()  # type: ignore[assignment]
        some_life(opened.by(Actor("Zoë", ActorKind.PERSON)))
        found.append(entries_of(opened))
        opened.close()
    assert found[0] == found[1]


def test_a_person_cannot_be_kept_twice_in_other_capitals(store: Store) -> None:
    for name in ("Zoë", "ZOE\N{COMBINING DIAERESIS}"):
        person = PersonRecord(name=name, role=Role.ADMIN, created_at=MOMENT)
        refused = pytest.raises(StateError, match="already exists") if name != "Zoë" else suppress(SealError)
        with refused, store.writing(PEOPLE, action="invite") as transaction:
            PeopleRows(transaction).put(person)
    with store.reading() as transaction:
        assert [one.name for one in PeopleRows(transaction).all()] == ["Zoë"]
