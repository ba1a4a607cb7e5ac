"""API keys: only a hash is kept, and whatever is wrong with a key gives the same answer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from stores import on_both_databases, open_store

from disco.office.keys.use_cases import NewKey, caller_of_key, create_key, list_keys, revoke_key
from disco.office.people.use_cases import invite
from disco.office.sign_in.use_cases import sign_in_external
from disco.records.errors import AuthenticationError, DiscoError, InputError, SealError, StateError
from disco.records.people import Actor, ActorKind, Role
from disco.store import Store

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)


class At:
    """A clock that stands still."""

    def __init__(self, moment: datetime = NOW) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def a_key(store: Store, role: str = "planner", expires: timedelta | None = None) -> NewKey:
    return create_key(store, name="shop", role=role, expires=expires, clock=At())


@on_both_databases
def test_a_key_names_its_caller_and_role(store: Store) -> None:
    made = a_key(store, "approver")
    caller = caller_of_key(store, made.key, At())
    assert caller.actor == Actor("shop", ActorKind.KEY)
    assert caller.role is Role.APPROVER
    assert made.key.startswith(f"disco_{made.id}_")


def test_the_secret_of_a_key_is_not_kept(store: Store) -> None:
    made = a_key(store)
    secret = made.key.split("_", 2)[2]
    with store._database.engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        found = [str(connection.exec_driver_sql(f"SELECT * FROM {table}").all()) for table in tables]
    assert not any(secret in text for text in found)
    assert not any(made.key in text for text in (repr(list_keys(store, At())), list_keys(store, At()).to_json()))


def test_every_wrong_key_gets_the_same_answer(store: Store) -> None:
    good, expired, revoked = a_key(store), a_key(store, expires=timedelta(days=1)), a_key(store)
    revoke_key(store, revoked.id, At())
    later = At(NOW + timedelta(days=1))
    changed = good.key[:-1] + ("A" if good.key[-1] != "A" else "B")
    wrong = [
        expired.key,
        revoked.key,
        changed,
        good.key.upper(),
        f"x{good.key}",
        f"disco_{good.id}_",
        good.id,
        "",
        "é\0_",
    ]
    wrong += ["disco_000000000000_" + good.key.split("_", 2)[2], "disco__", "disco_" + "9" * 5000]
    said = set()
    for text in wrong:
        with pytest.raises(AuthenticationError) as refused:
            caller_of_key(store, text, later)
        said.add(str(refused.value))
    assert len(said) == 1
    assert caller_of_key(store, good.key, later).role is Role.PLANNER


@on_both_databases
def test_a_key_is_revoked_by_the_beginning_of_its_id(store: Store) -> None:
    made = a_key(store)
    first = revoke_key(store, made.id[:6], At())
    assert (first.id, first.again, first.revoked_at) == (made.id, False, NOW)
    again = revoke_key(store, made.id, At(NOW + timedelta(hours=1)))
    assert (again.again, again.revoked_at) == (True, NOW)
    listed = list_keys(store, At()).keys
    assert [(key.id, key.valid) for key in listed] == [(made.id, False)]
    with pytest.raises(StateError, match="There is no key"):
        revoke_key(store, "ffffffffffff", At())


@on_both_databases
def test_a_key_whose_role_another_program_changed_is_refused(store: Store) -> None:
    made = a_key(store, "viewer")
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE api_keys SET role = 'admin'")
    with pytest.raises(SealError, match=f"key {made.id} was changed"):
        caller_of_key(store, made.key, At())
    with store.reading() as transaction:
        assert [one.words for one in transaction.seals.broken()] == [
            f"key {made.id} is changed by something other than disco"
        ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"role": "owner"}, "viewer, planner, approver, admin"),
        ({"name": ""}, "printable characters"),
        ({"name": "a\nb"}, "printable characters"),
        ({"name": "n" * 101}, "printable characters"),
        ({"expires": timedelta(0)}, "days"),
        ({"expires": timedelta(days=100_000)}, "days"),
    ],
)
def test_what_cannot_be_a_key_is_refused(store: Store, wrong: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"name": "shop", "role": "viewer", "expires": None, **wrong}
    with pytest.raises(InputError, match=words):
        create_key(store, clock=At(), **given)  # type: ignore[arg-type]
    assert list_keys(store, At()).keys == ()


@pytest.mark.parametrize(
    "other", ["аlice", "аӏісе", "AIice", "a1ice", "alice\u3164", "ａｌｉｃｅ\ufe0f", "αlice", "al\u200bice"]
)
def test_no_second_name_looks_like_one_that_is_there(store: Store, other: str) -> None:
    for name in ("alice", "Łukasz", "李雷", "Ольга", "Zoë", "さくら子", "O'Neil", "Lukasz", "Olga"):
        invite(store, name=name, role=Role.PLANNER, clock=At())
    for refused in (
        lambda: invite(store, name=other, role=Role.APPROVER, clock=At()),
        lambda: create_key(store, name=other, role=Role.APPROVER, expires=None, clock=At()),
        lambda: sign_in_external(
            store, issuer="https://id.example.com", subject="7", name=other, role=Role.APPROVER, clock=At()
        ),
    ):
        with pytest.raises(DiscoError, match=r"looks like 'alice'|one script|printable characters"):
            refused()
    create_key(store, name="ALICE", role=Role.PLANNER, expires=None, clock=At())  # the same name is the same person


def test_four_eyes_see_people_and_not_spellings() -> None:
    maker = Actor("alice", ActorKind.COMMAND_LINE)
    assert all(maker.is_same_person(name) for name in ("ALICE", "аlice", "АLІСЕ", "AlIce", "alice\ufe00"))
    assert not any(maker.is_same_person(name) for name in ("alicia", "Алиса", "bob"))
