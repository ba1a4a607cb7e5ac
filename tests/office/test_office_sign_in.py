"""Sign-in: passwords and tokens are kept as hashes, guesses are slowed and learn nothing, an administrator remains."""

import resource
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa
from quick_hashes import quick_hashes
from stores import on_both_databases, open_store

from disco.office.keys.use_cases import create_key, revoke_key
from disco.office.people.use_cases import Invitation, Person, change_person, first_invitation, invite, list_people
from disco.office.sign_in import use_cases as module
from disco.office.sign_in.use_cases import (
    accept_invitation,
    caller_of_session,
    change_password,
    sign_in,
    sign_in_external,
    sign_out,
)
from disco.records.errors import AuthenticationError, InputError, NotFoundError, ServiceError, StateError
from disco.records.people import Actor, ActorKind, Role
from disco.store import Store

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
PASSWORD = "correct horse battery"
OTHER = "a second long password"


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment

    def later(self, **by: float) -> None:
        self.moment += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick_hashes(monkeypatch):
        yield


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def admin(store: Store, clock: Clock) -> Person:
    link = first_invitation(store, clock)
    assert link is not None
    return accept_invitation(store, link.token, password=PASSWORD, name="Anna", clock=clock)


def somebody(store: Store, clock: Clock, name: str = "Ben", role: str = "planner") -> Person:
    link = invite(store.by(Actor("Anna", ActorKind.PERSON)), name=name, role=role, clock=clock)
    return accept_invitation(store, link.token, password=PASSWORD, clock=clock)


def refused(store: Store, clock: Clock, name: str, password: str) -> str:
    with pytest.raises(AuthenticationError) as found:
        sign_in(store, name=name, password=password, clock=clock)
    return str(found.value)


@on_both_databases
def test_the_first_administrator_comes_by_a_link_that_works_once_for_a_day(store: Store, clock: Clock) -> None:
    old, link = first_invitation(store, clock), first_invitation(store, clock)
    assert isinstance(old, Invitation)
    assert isinstance(link, Invitation)
    for token in (old.token, "unknown", ""):
        with pytest.raises(AuthenticationError, match="invitation is not valid"):
            accept_invitation(store, token, password=PASSWORD, name="Anna", clock=clock)
    with pytest.raises(InputError, match="the name you will sign in with"):
        accept_invitation(store, link.token, password=PASSWORD, clock=clock)
    anna = accept_invitation(store, link.token, password=PASSWORD, name=" Anna ", clock=clock)
    assert (anna.name, anna.role) == ("Anna", Role.ADMIN)
    assert first_invitation(store, clock) is None
    with pytest.raises(AuthenticationError, match="invitation is not valid"):
        accept_invitation(store, link.token, password=OTHER, name="Eve", clock=clock)
    assert [person.name for person in list_people(store, clock).people] == ["Anna"]


def test_an_invitation_expires(store: Store, clock: Clock) -> None:
    link = first_invitation(store, clock)
    assert link is not None
    clock.later(hours=24)
    with pytest.raises(AuthenticationError):
        accept_invitation(store, link.token, password=PASSWORD, name="Anna", clock=clock)
    assert list_people(store, clock).invitations == ()


@on_both_databases
def test_a_session_ends_by_sign_out_idleness_age_and_a_disabled_person(store: Store, clock: Clock) -> None:
    admin(store, clock)
    somebody(store, clock)
    first, second = (sign_in(store, name="ben", password=PASSWORD, clock=clock) for _ in range(2))
    caller = caller_of_session(store, first.token, clock)
    assert (caller.actor, caller.role) == (Actor("Ben", ActorKind.PERSON), Role.PLANNER)
    assert sign_out(store, first.token).ended
    assert not sign_out(store, first.token).ended
    with pytest.raises(AuthenticationError):
        caller_of_session(store, first.token, clock)
    for _ in range(15):  # in use, it lives seven days and no longer
        clock.later(hours=11)
        caller_of_session(store, second.token, clock)
    clock.later(hours=11)
    with pytest.raises(AuthenticationError):
        caller_of_session(store, second.token, clock)
    idle = sign_in(store, name="Ben", password=PASSWORD, clock=clock)
    clock.later(hours=12)
    with pytest.raises(AuthenticationError):
        caller_of_session(store, idle.token, clock)
    last = sign_in(store, name="Ben", password=PASSWORD, clock=clock)
    change_person(store, "Ben", role="viewer")
    assert caller_of_session(store, last.token, clock).role is Role.VIEWER
    change_person(store, "Ben", disabled=True)
    with pytest.raises(AuthenticationError):
        caller_of_session(store, last.token, clock)
    assert refused(store, clock, "Ben", PASSWORD) == refused(store, clock, "Nobody", PASSWORD)


def test_whatever_is_wrong_with_a_sign_in_gives_one_answer(store: Store, clock: Clock) -> None:
    admin(store, clock)
    sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="viewer", clock=clock)
    tried = [
        ("Anna", OTHER),
        ("Nobody", PASSWORD),
        ("Olga", ""),
        ("", ""),
        ("A\0nna", "x"),
        ("x" * 9_999, "y" * 99_999),
    ]
    assert len({refused(store, clock, name, password) for name, password in tried}) == 1


def test_guesses_are_slowed_per_name_whether_it_is_known_or_not(store: Store, clock: Clock) -> None:
    admin(store, clock)
    for name in ("Anna", "nobody@example.com"):
        for _ in range(5):
            refused(store, clock, name, OTHER)
        assert "too many attempts" in refused(store, clock, name, PASSWORD)
        assert "too many attempts" in refused(store, clock, name.upper(), PASSWORD)
    clock.later(seconds=1)
    assert sign_in(store, name="Anna", password=PASSWORD, clock=clock).name == "Anna"
    refused(store, clock, "Anna", OTHER)  # and the count began anew
    with store.reading() as transaction:
        kept = str(transaction.session.connection.exec_driver_sql("SELECT * FROM attempts").all())
    assert "anna" not in kept.lower()
    assert "nobody" not in kept


@on_both_databases
def test_guesses_at_once_are_counted_all(store: Store, clock: Clock) -> None:
    admin(store, clock)
    said: list[str] = []
    start = Barrier(12)

    def guess() -> None:
        start.wait(30)
        try:
            sign_in(store, name="Anna", password=OTHER, clock=clock)
        except AuthenticationError as error:
            said.append(str(error))

    threads = [Thread(target=guess) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == 12
    assert sum("too many" not in text for text in said) == 5


@pytest.mark.parametrize("password", ["short", "x" * 1_025, "é" * 600, "aaaaaaaaaaaaaaaa", "anna-of-the-shop"])
def test_a_weak_or_huge_password_is_refused_and_not_quoted(store: Store, clock: Clock, password: str) -> None:
    link = invite(store, name="Anna-of-the-shop", role="viewer", clock=clock)
    with pytest.raises(InputError) as found:
        accept_invitation(store, link.token, password=password, clock=clock)
    assert password not in str(found.value)


@on_both_databases
def test_no_secret_is_kept_in_clear_anywhere(store: Store, clock: Clock) -> None:
    link = first_invitation(store, clock)
    assert link is not None
    accept_invitation(store, link.token, password=PASSWORD, name="Anna", clock=clock)
    session = sign_in(store, name="Anna", password=PASSWORD, clock=clock)
    waiting = invite(store, name="Ben", role="viewer", email="ben@example.com", clock=clock)
    refused(store, clock, "Ben", "typed-by-mistake")
    with store._database.engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        rows = str([connection.exec_driver_sql(f"SELECT * FROM {name}").all() for name in names])
    for secret in (PASSWORD, link.token, session.token, waiting.token, "typed-by-mistake"):
        assert secret not in rows
    with store.reading() as transaction:
        journal = str(transaction.journal.entries(limit=100))
    assert "ben@example.com" not in journal


def test_the_last_administrator_stays_one(store: Store, clock: Clock) -> None:
    admin(store, clock)
    somebody(store, clock)
    for change in ({"role": "viewer"}, {"disabled": True}):
        with pytest.raises(StateError, match="Anna is the last administrator"):
            change_person(store, "Anna", **change)  # type: ignore[arg-type]
    change_person(store, "Ben", role="admin")
    assert change_person(store, "Anna", disabled=True).disabled
    with pytest.raises(StateError, match="last administrator"):
        change_person(store, "Ben", disabled=True)
    with pytest.raises(NotFoundError, match="no person Carl"):
        change_person(store, "Carl", role="viewer")


@on_both_databases
def test_a_new_password_ends_the_other_sessions(store: Store, clock: Clock) -> None:
    admin(store, clock)
    mine, other = (sign_in(store, name="Anna", password=PASSWORD, clock=clock) for _ in range(2))
    kept = caller_of_session(store, mine.token, clock).session_id
    with pytest.raises(AuthenticationError):
        change_password(store, name="Anna", password=OTHER, new_password=OTHER, clock=clock)
    change_password(store, name="Anna", password=PASSWORD, new_password=OTHER, clock=clock, session_id=kept)
    caller_of_session(store, mine.token, clock)
    with pytest.raises(AuthenticationError):
        caller_of_session(store, other.token, clock)
    refused(store, clock, "Anna", PASSWORD)
    assert sign_in(store, name="Anna", password=OTHER, clock=clock).role is Role.ADMIN


def test_who_is_invited_again_chooses_a_new_password_and_keeps_their_role(store: Store, clock: Clock) -> None:
    admin(store, clock)
    somebody(store, clock)
    with pytest.raises(StateError, match="Ben is known as planner"):
        invite(store, name="BEN", role="admin", clock=clock)
    session = sign_in(store, name="Ben", password=PASSWORD, clock=clock)
    link = invite(store, name="BEN", role="planner", clock=clock)
    assert accept_invitation(store, link.token, password=OTHER, clock=clock).name == "Ben"
    with pytest.raises(AuthenticationError):
        caller_of_session(store, session.token, clock)


@on_both_databases
def test_an_identity_provider_cannot_take_over_a_name(store: Store, clock: Clock) -> None:
    admin(store, clock)
    with pytest.raises(StateError, match="another person named Anna"):
        sign_in_external(store, issuer="https://id", subject="7", name="Anna", role="viewer", clock=clock)
    made = sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="viewer", clock=clock)
    again = sign_in_external(store, issuer="https://id", subject="7", name="Anna", role="planner", clock=clock)
    assert (made.role, again.name, again.role) == (Role.VIEWER, "Olga", Role.PLANNER)
    with store.reading() as transaction:
        written = [entry for entry in transaction.journal.entries(limit=99) if entry.action == "sign in externally"]
    assert {entry.actor.name for entry in written} == {"Olga"}, "whatever the provider calls them"
    with pytest.raises(StateError, match="another person named Olga"):
        sign_in_external(store, issuer="https://other", subject="7", name="Olga", role="admin", clock=clock)
    change_person(store, "Olga", disabled=True)
    with pytest.raises(AuthenticationError, match="Olga cannot sign in any more"):
        sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="admin", clock=clock)


def test_an_identity_provider_cannot_write_another_name_into_the_journal(store: Store, clock: Clock) -> None:
    admin(store, clock)
    for name, role in (("Olga", "viewer"), ("Anna", "planner")):
        sign_in_external(store, issuer="https://id", subject="7", name=name, role=role, clock=clock)
    with store.reading() as transaction:
        found = [entry.actor.name for entry in transaction.journal.entries(limit=9)][2:]
    assert found == ["Olga"] * 4


def test_an_invitation_gives_no_password_to_somebody_of_an_identity_provider(store: Store, clock: Clock) -> None:
    admin(store, clock)
    link = invite(store, name="Olga", role="viewer", clock=clock)
    sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="admin", clock=clock)
    with pytest.raises(AuthenticationError, match="invitation is not valid"):
        accept_invitation(store, link.token, password=PASSWORD, clock=clock)
    refused(store, clock, "Olga", PASSWORD)


def test_who_may_invite_nobody_any_more_cannot_come_back_by_an_invitation(store: Store, clock: Clock) -> None:
    admin(store, clock)
    key = create_key(store, name="robot", role="admin", expires=None, clock=clock)
    for name in ("Ben", "Carl"):
        somebody(store, clock, name=name, role="admin")
    links = [
        invite(store.by(Actor(by, kind)), name=f"Friend of {by}", role="admin", clock=clock)
        for by, kind in (("Ben", ActorKind.PERSON), ("Carl", ActorKind.PERSON), ("robot", ActorKind.KEY))
    ]
    good = invite(store.by(Actor("Anna", ActorKind.PERSON)), name="Dora", role="viewer", clock=clock)
    change_person(store, "Ben", disabled=True)
    change_person(store, "Carl", role="viewer")
    revoke_key(store, key.id, clock)
    for link in links:
        with pytest.raises(AuthenticationError, match="invitation is not valid"):
            accept_invitation(store, link.token, password=PASSWORD, clock=clock)
    assert accept_invitation(store, good.token, password=PASSWORD, clock=clock).name == "Dora"


def test_who_signs_in_and_out_stands_in_the_journal(store: Store, clock: Clock) -> None:
    admin(store, clock)
    sign_out(store, sign_in(store, name="Anna", password=PASSWORD, clock=clock).token)
    with store.reading() as transaction:
        found = [(entry.action, entry.actor.name) for entry in transaction.journal.entries(limit=9)]
        assert transaction.journal.first_break() is None
    assert found[1:] == [("accept invitation", "Anna"), ("sign in", "Anna"), ("sign out", "Anna")]


def test_known_and_unknown_names_take_the_same_work(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every refusal compares one password with one hash of equal parameters, which is nearly all the time it takes."""
    from argon2 import extract_parameters

    admin(store, clock)
    somebody(store, clock)
    change_person(store, "Ben", disabled=True)
    sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="viewer", clock=clock)
    compared: list[str] = []
    is_password = module._is_password
    monkeypatch.setattr(module, "_is_password", lambda kept, given: compared.append(kept) or is_password(kept, given))
    for name in ("Anna", "Nobody", "Ben", "Olga"):
        refused(store, clock, name, OTHER)
    assert len(compared) == 4
    assert len({str(extract_parameters(kept)) for kept in compared}) == 1


def test_a_lack_of_memory_is_no_wrong_password_and_no_failed_attempt(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of this process is bounded while argon2 asks for 64 MB."""
    admin(store, clock)
    large = "$argon2id$v=19$m=65536,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZWhhc2hzb21laGFzaA"
    is_password, limits = module._is_password, resource.getrlimit(resource.RLIMIT_AS)

    def without_memory(kept: str, given: str) -> bool:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (16 << 20), limits[1]))
        try:
            return is_password(large, given)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    with monkeypatch.context() as short:
        short.setattr(module, "_is_password", without_memory)
        for _ in range(8):  # more than are free before the next one has to wait
            with pytest.raises(ServiceError, match="not enough memory") as refusal:
                sign_in(store, name="Anna", password=PASSWORD, clock=clock)
            assert refusal.value.status == 503
    assert sign_in(store, name="Anna", password=PASSWORD, clock=clock).name == "Anna"
    refused(store, clock, "Anna", OTHER)


def test_passwords_are_hashed_by_argon2id_as_rfc_9106_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    hasher = module._hasher()
    assert hasher.type.name == "ID"
    assert (hasher.memory_cost, hasher.time_cost, hasher.parallelism, hasher.salt_len) == (65_536, 3, 4, 16)
