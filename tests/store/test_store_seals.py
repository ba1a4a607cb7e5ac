"""Seals: whatever this program writes fits its seal, and a cell that anything else changes is found and named."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from store_samples import MOMENT, NETWORK, add_campaign, batch, decisions, outcomes, receive, version
from stores import open_store

from disco.office.people.rows import InvitationRecord, KeyRecord, PeopleRows, PersonRecord
from disco.office.schedules.rows import ScheduleRows
from disco.records.campaign_records import State
from disco.records.errors import SealError, StateError
from disco.records.jobs import Event, JobKind, JobSchedule, Webhook
from disco.records.people import Actor, ActorKind, ApprovalRecord, Role
from disco.store import JOBS, PEOPLE, Store, schema
from disco.store.contexts import ARRIVALS, Arrivals
from disco.store.rows import BrokenSeal, Sealed, seal_of

_STATE = "state, reserve or contexts of campaign"


def _life(store: Store) -> None:
    """Everything that is kept: a launch, late arrivals, two batches of which one is reverted, evidence, versions."""
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["a", "b", "c"], codes=["A", None, "C"]))
        transaction.decisions.set_reserve("spring", {0.1: 3, 0.25: None})
        transaction.beliefs.put_evidence("spring", NETWORK, b"\x00evidence")
    with store.writing("spring", action="test") as transaction:
        for customer in ("d", "e"):
            transaction.decisions.take_code("spring", 0.1)
            features = pa.table({"customer_id": [customer], "spend": [1.5]})
            late = decisions([customer])
            contexts = np.full((1, 3), 0.25)
            transaction.decisions.add_late("spring", late, contexts=contexts, features=features, pooled=False)
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), outcomes("b1", ["e1", None, "e3"], raw=["{}", None, "ключ 🔑"]))
        receive(transaction, batch("b2"), outcomes("b2", ["e4"]))
    with store.writing("spring", action="test") as transaction:
        [reverted] = [one for one in transaction.ledger.batches("spring") if one.batch_id == "b2"]
        receive(transaction, replace(reverted, reverted_at=MOMENT))
        transaction.plans.set_state("spring", State.PAUSED)
        transaction.contexts.add("spring", "network-b", np.zeros((5, 2)))
    with store.writing("main", action="test") as transaction:
        transaction.beliefs.add_version(version(1), activate=True)
        transaction.beliefs.add_version(version(2), activate=True)
        transaction.beliefs.add_version(version(3), activate=False)
    with store.writing("spring", action="test") as transaction:
        rows = pa.table({"row": [0, 2], "propensity": [0.5, 0.25], "propensity_draws": [100, 100]})
        transaction.decisions.set_propensities("spring", rows)
        transaction.arrivals.put("spring", _arrivals())
    with store.writing(PEOPLE, action="test") as transaction:
        anna = PersonRecord(name="Anna", role=Role.ADMIN, created_at=MOMENT, password="$argon2id$…", disabled=True)
        PeopleRows(transaction).put(anna)
        key = {"key_id": "0123456789ab", "secret_hash": "0f" * 32, "created_by": "Anna", "created_at": MOMENT}
        PeopleRows(transaction).add_key(KeyRecord(name="shop", role=Role.VIEWER, **key))
        link = {"token_hash": "ff" * 32, "invited_by": "Anna", "created_at": MOMENT, "expires_at": MOMENT}
        PeopleRows(transaction).add_invitation(InvitationRecord(name="Ben", role=Role.PLANNER, **link))
        transaction.approvals.add_maker("plan-of-spring", Actor("Anna", ActorKind.PERSON), at=MOMENT)
        ben = Actor("Ben", ActorKind.PERSON)
        transaction.approvals.add(ApprovalRecord(plan_id="plan-of-spring", by=ben, approved_at=MOMENT))
        transaction.settings.put("approval", "second_person")
    with store.writing(JOBS, action="test") as transaction:
        made: dict[str, Any] = {"actor": Actor("Anna", ActorKind.PERSON), "created_at": MOMENT}
        often = JobSchedule(
            id="5c1e", kind=JobKind.CHECK, body={"campaign": "spring"}, rule="daily at 06:00",
            time_zone="UTC", next_at=MOMENT, paused=False, **made,
        )  # fmt: skip
        ScheduleRows(transaction).add(often)
        ScheduleRows(transaction).set_next("5c1e", MOMENT + timedelta(days=1))
        hook = Webhook(id="77aa", url="https://shop.example/hook", events=(Event.CHECK_FAILED,), active=True, **made)
        transaction.webhooks.add(hook, secret="a secret")
        transaction.webhooks.set_active("77aa", False)


def _arrivals() -> Arrivals:
    known = [{"customer_id": "f", "left_out": None, "known": True, "segment": None, "channel": None, "own_codes": 0}]
    return Arrivals(
        day=MOMENT.date(),
        network=NETWORK,
        customers=pa.Table.from_pylist(known, schema=ARRIVALS),
        contexts=np.full((1, 3), 0.5),
        features=pa.table({"customer_id": ["f"], "spend": [2.5]}),
        only_listed=False,
    )


def _all_broken(store: Store) -> list[BrokenSeal]:
    with store.reading() as transaction:
        return [*transaction.seals.broken(), *transaction.seals.broken_of("spring")]


def _damage(store: Store, statement: str) -> None:
    """As another program would: without this program's checks of references."""
    url = store._database.engine.url
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database))) as connection, connection:
            assert connection.execute(statement).rowcount > 0, statement
    else:
        with psycopg.connect(url.set(drivername="postgresql").render_as_string()) as session:
            session.execute("SET session_replication_role = replica")
            assert session.execute(statement.encode()).rowcount > 0, statement


def test_everything_that_is_written_fits_its_seal(store_url: str) -> None:
    store = open_store(store_url)
    _life(store)
    assert _all_broken(store) == []


def test_both_databases_hold_the_same_seals(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    found = []
    for url in (f"sqlite:///{tmp_path}/seals.db", new_postgres_url()):
        store = open_store(url)
        _life(store)
        with store.reading() as transaction:
            connection = transaction.seals._connection
            found.append(
                {
                    (name, column.name): connection.execute(sa.select(column).order_by(column)).scalars().all()
                    for name, table in schema.metadata.tables.items()
                    for column in table.c
                    if "seal" in column.name and name not in ("secrets", "forgotten")
                }
            )
        store.close()
    assert found[0] == found[1]
    assert all(seals and None not in seals for seals in found[0].values())


DAMAGES = [
    ("plan", "UPDATE plans SET plan = replace(plan, '14', '300')"),
    ("plan", "UPDATE plans SET campaign = 'winter'"),
    ("plan", "UPDATE plans SET inputs = '{}'"),
    ("plan", "UPDATE plans SET summary = replace(summary, '2.5', '3.5')"),
    ("plan", "UPDATE plans SET planned_at = planned_at + 1"),
    ("plan", "UPDATE plans SET decisions = contexts"),
    ("plan", "UPDATE plans SET contexts = decisions"),
    ("plan", "UPDATE plans SET features = decisions"),
    ("plan", "UPDATE plans SET seal = NULL"),
    ("campaign", "UPDATE campaigns SET integer_ids = NOT integer_ids"),
    ("campaign", "UPDATE campaigns SET context_size = 4"),
    ("campaign", "UPDATE campaigns SET network = 'network-c'"),
    ("campaign", "UPDATE campaigns SET version = 1"),
    ("campaign", "UPDATE campaigns SET launched_at = launched_at - 1"),
    ("campaign", "UPDATE campaigns SET codes = customer_index"),
    ("campaign", "UPDATE campaigns SET customer_index = code_index"),
    ("campaign", "UPDATE campaigns SET code_index = customer_index"),
    ("campaign", "UPDATE campaigns SET state = 'launched'"),
    ("campaign", "UPDATE campaigns SET propensities = NULL"),
    (_STATE, "UPDATE reserves SET codes = codes + 1000"),
    (_STATE, "UPDATE reserves SET depth = 0.2 WHERE depth = 0.25"),
    (_STATE, "DELETE FROM reserves"),
    (_STATE, "UPDATE contexts SET artefact = 'ff' WHERE network = 'network-b'"),
    (_STATE, "DELETE FROM contexts WHERE network = 'network-b'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET customer_id = 'f' WHERE customer_id = 'd'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET arm = 'holdout' WHERE customer_id = 'd'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET depth = 0.25 WHERE customer_id = 'd'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET code = 'X' WHERE customer_id = 'd'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET value = 9.0 WHERE customer_id = 'd'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET known = NOT known WHERE customer_id = 'e'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET expected_full_price = 1 WHERE customer_id = 'e'"),
    ("late arrivals of campaign", "UPDATE late_decisions SET features = NULL WHERE customer_id = 'e'"),
    ("late arrivals of campaign", "DELETE FROM late_decisions WHERE customer_id = 'e'"),
    ("late arrivals of campaign", "DELETE FROM late_decisions"),
    ("batch", "UPDATE batches SET source = 'another file'"),
    ("batch", "UPDATE batches SET reverted_at = NULL WHERE batch_id = 'b2'"),
    ("batch", "UPDATE batches SET reverted_at = 1 WHERE batch_id = 'b1'"),
    ("batch", "UPDATE batches SET received_at = 1 WHERE batch_id = 'b1'"),
    ("batch", "UPDATE batches SET content_hash = 'ff' WHERE batch_id = 'b1'"),
    ("outcomes of batch", "UPDATE outcomes SET event_id = 'e9' WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET customer_id = 'x' WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET code = NULL WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET kind = 'refund' WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET refers_to = 'e1' WHERE event_id = 'e3'"),
    ("outcomes of batch", "UPDATE outcomes SET ordered_at = ordered_at + 1 WHERE event_id = 'e3'"),
    ("outcomes of batch", "UPDATE outcomes SET full_price_minor = 1 WHERE event_id = 'e3'"),
    ("outcomes of batch", "UPDATE outcomes SET raw = '[]' WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET campaign_number = 7 WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET reverted = NOT reverted WHERE event_id = 'e1'"),
    ("outcomes of batch", "UPDATE outcomes SET batch_number = 77 WHERE event_id = 'e1'"),
    ("rows of outcomes", "UPDATE outcomes SET batch_number = 77 WHERE event_id = 'e4'"),
    ("outcomes of batch", "DELETE FROM outcomes WHERE event_id = 'e3'"),
    ("evidence of campaign", "UPDATE evidence SET network = 'network-c'"),
    ("version", "UPDATE versions SET engagement = '{}' WHERE number = 1"),
    ("version", "UPDATE versions SET network = 'x' WHERE number = 2"),
    ("version", "UPDATE versions SET campaigns = '{}' WHERE number = 3"),
    ("version", "UPDATE versions SET made_at = 1 WHERE number = 3"),
    ("version", "DELETE FROM versions WHERE number = 1"),
    ("version", "DELETE FROM versions WHERE number = 3"),
    # rows that are gone or too many, whose own seals all fit
    ("plan", "DELETE FROM plans"),
    ("batch", "DELETE FROM batches WHERE batch_id = 'b2'"),
    ("evidence of campaign", "DELETE FROM evidence"),
    ("secret", "DELETE FROM secrets WHERE name = 'holdout'"),
    ("person", "DELETE FROM people"),
    ("key", "DELETE FROM api_keys"),
    ("invitation of", "DELETE FROM invitations"),
    ("maker of plan", "DELETE FROM plan_makers"),
    ("approval of plan", "DELETE FROM approvals"),
    ("setting", "DELETE FROM shop_settings"),
    ("schedule", "DELETE FROM schedules"),
    ("webhook", "DELETE FROM webhooks"),
    (_STATE, "DELETE FROM tallies WHERE name = 'reserves'"),
    ("person", "UPDATE tallies SET tally = '00' WHERE name = 'people'"),
    ("active version", "UPDATE active_versions SET number = 1"),
    ("active version", "DELETE FROM active_versions"),
    ("secret", "UPDATE secrets SET name = 'other' WHERE name = 'codes'"),
    ("person", "UPDATE people SET disabled = NOT disabled"),
    ("person", "UPDATE people SET password = '$argon2id$other'"),
    ("key", "UPDATE api_keys SET role = 'admin'"),
    ("key", "UPDATE api_keys SET expires_at = 1"),
    ("invitation of", "UPDATE invitations SET role = 'admin'"),
    ("maker of plan", "UPDATE plan_makers SET name = 'Carl'"),
    ("approval of plan", "UPDATE approvals SET plan_id = 'plan-2'"),
    ("setting", "UPDATE shop_settings SET value = '\"none\"'"),
    ("schedule", "UPDATE schedules SET body = '{}'"),
    ("schedule", "UPDATE schedules SET kind = 'doctor'"),
    ("schedule", "UPDATE schedules SET rule = 'daily at 07:00'"),
    ("schedule", "UPDATE schedules SET actor = 'Ben'"),
    ("schedule", "UPDATE schedules SET next_at = 1"),
    ("schedule", "UPDATE schedules SET paused = NOT paused"),
    ("webhook", "UPDATE webhooks SET url = 'https://evil.example/'"),
    ("webhook", "UPDATE webhooks SET secret = 'known'"),
    ("webhook", "UPDATE webhooks SET events = '[]'"),
    ("webhook", "UPDATE webhooks SET active = NOT active"),
]


def test_every_damage_is_found_and_named(tmp_path: Path) -> None:
    with_life = Store.embedded(tmp_path / "life.db")
    _life(with_life)
    with_life.close()
    missed = []
    for number, (what, statement) in enumerate(DAMAGES):
        copy = tmp_path / f"{number}.db"
        shutil.copy(tmp_path / "life.db", copy)
        store = Store(f"sqlite:///{copy}", tmp_path / "life-artefacts")
        _damage(store, statement)
        if what not in {one.what for one in _all_broken(store)}:
            missed.append((what, statement, _all_broken(store)))
        store.close()
    assert missed == []


def test_damages_are_found_on_postgresql_too(new_postgres_url: Callable[[], str]) -> None:
    store = open_store(new_postgres_url())
    _life(store)
    for what in dict.fromkeys(what for what, _ in DAMAGES):  # one of each kind, one after the other
        _damage(store, next(statement for kind, statement in DAMAGES if kind == what))
        assert what in {one.what for one in _all_broken(store)}, what


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE plans SET plan = x'ff'",
        "UPDATE plans SET plan = CAST(x'c328' AS TEXT)",
        "UPDATE plans SET planned_at = 'yesterday'",
        "UPDATE campaigns SET launched_at = 'yesterday'",
        "UPDATE campaigns SET state = CAST(x'ff' AS TEXT)",
        "UPDATE outcomes SET event_id = CAST('e1' AS BLOB) WHERE event_id = 'e1'",
        "UPDATE outcomes SET raw = CAST(x'c328' AS TEXT) WHERE event_id = 'e1'",
        "UPDATE outcomes SET full_price_minor = 'much' WHERE event_id = 'e1'",
        "UPDATE outcomes SET ordered_at = 1.5 WHERE event_id = 'e1'",
        "UPDATE evidence SET evidence = 'text'",
        "UPDATE versions SET basket = 'text' WHERE number = 2",
        "UPDATE late_decisions SET context = 7",
    ],
)
def test_cells_of_another_type_are_found_and_end_nothing(tmp_path: Path, statement: str) -> None:
    store = Store.embedded(tmp_path / "types.db")
    _life(store)
    _damage(store, statement)
    assert _all_broken(store) != []


def test_readers_refuse_what_was_changed(tmp_path: Path) -> None:
    reads = {
        "UPDATE plans SET summary = replace(summary, '2.5', '3.5')": lambda t: t.plans.get("plan-of-spring"),
        "UPDATE plans SET plan = replace(plan, '14', '300')": lambda t: t.plans.campaign("spring"),
        "UPDATE campaigns SET version = 1": lambda t: t.plans.campaigns(),
        "UPDATE campaigns SET state = 'launched'": lambda t: t.plans.campaign("spring"),
        "UPDATE evidence SET evidence = x'00'": lambda t: t.beliefs.evidence("spring", NETWORK),
        "UPDATE versions SET basket = x'00' WHERE number = 2": lambda t: t.beliefs.version(),
    }
    for number, (statement, read) in enumerate(reads.items()):
        store = Store.embedded(tmp_path / f"{number}.db")
        _life(store)
        _damage(store, statement)
        with (
            store.reading() as transaction,
            pytest.raises(StateError, match=r"changed by something other than disco.*disco doctor --repair"),
        ):
            read(transaction)


def test_a_secret_that_is_gone_or_changed_stops_whoever_makes_codes(tmp_path: Path) -> None:
    for number, statement in enumerate(["DELETE FROM secrets", "UPDATE secrets SET value = x'00'"]):
        store = Store.embedded(tmp_path / f"{number}.db")
        _damage(store, statement)
        with store.reading() as transaction, pytest.raises(StateError, match=r"secret `codes`.*disco restore"):
            transaction.decisions.secret()


def test_a_missing_active_version_is_no_empty_model(tmp_path: Path) -> None:
    for number, statement in enumerate(["DELETE FROM active_versions", "DELETE FROM versions WHERE number = 2"]):
        store = Store.embedded(tmp_path / f"{number}.db")
        _life(store)
        _damage(store, statement)
        with store.reading() as transaction, pytest.raises(StateError, match=r"active version.*--activate 3"):
            transaction.beliefs.version()


def test_who_changes_outcomes_on_purpose_seals_them_again(store_url: str) -> None:
    store = open_store(store_url)
    _life(store)
    _damage(store, "UPDATE outcomes SET raw = NULL")
    assert Sealed.OUTCOMES in {one.what for one in _all_broken(store)}
    with store.writing("spring", action="test") as transaction:
        transaction.ledger.seal_rows("spring")
    assert _all_broken(store) == []


def test_a_seal_keeps_kinds_and_lengths_apart() -> None:
    rows = [
        {"name": "a", "value": b"b"},
        {"name": "ab", "value": b""},
        {"name": b"a", "value": b"b"},
        {"name": "a", "value": "b"},
        {"name": "a", "value": None},
        {"name": "1", "value": 1},
        {"name": "1", "value": "1"},
        {"name": "1", "value": 1.0},
        {"name": "1", "value": True},
    ]
    assert len({seal_of(schema.secrets, row) for row in rows}) == len(rows)


def test_forgotten_customers_are_known_by_hashes_alone(store_url: str) -> None:
    store = open_store(store_url)
    with store.writing("main", action="test") as transaction:
        transaction.forgotten.add(["anna", "ключ 🔑", "anna"], at=MOMENT)
        transaction.forgotten.add(["anna", "bob"], at=MOMENT)
    with store.reading() as transaction:
        assert transaction.forgotten.among(["bob", "anna", "carl"]) == {"anna", "bob"}
        assert transaction.forgotten.among([]) == frozenset()
        kept = transaction.seals._connection.execute(sa.select(schema.forgotten.c.hash)).scalars().all()
    assert len(kept) == 3
    assert all(len(text) == 64 and "anna" not in text for text in kept)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM forgotten WHERE forgotten_at = (SELECT max(forgotten_at) FROM forgotten)",
        "DELETE FROM forgotten",
        "UPDATE forgotten SET forgotten_at = 0",
        "INSERT INTO forgotten (hash, forgotten_at) VALUES ('00', 0)",
        "UPDATE tallies SET tally = '00' WHERE name = 'forgotten'",
    ],
)
def test_a_changed_list_of_forgotten_customers_is_found_and_not_used(store_url: str, damage: str) -> None:
    store = open_store(store_url)
    with store.writing("main", action="test") as transaction:
        transaction.forgotten.add(["anna"], at=MOMENT)
    with store.writing("main", action="test") as transaction:
        transaction.forgotten.add(["bob"], at=MOMENT + timedelta(days=1))
    with store.reading() as transaction:
        assert transaction.seals.broken() == ()
    _damage(store, damage)
    with store.reading() as transaction:
        assert Sealed.FORGOTTEN in {one.what for one in transaction.seals.broken()}
        with pytest.raises(SealError, match="list of forgotten customers"):
            transaction.forgotten.among(["anna"])
    with (
        pytest.raises(SealError, match="list of forgotten customers"),
        store.writing("main", action="test") as transaction,
    ):
        transaction.forgotten.add(["carl"], at=MOMENT)


def test_no_writer_seals_what_another_program_changed(tmp_path: Path) -> None:
    more = "UPDATE reserves SET codes = 1000"
    writes = (
        (more, lambda t: t.decisions.take_code("spring", 0.1)),
        (more, lambda t: t.personal.replace("spring", {"d": "token"})),
        (more, lambda t: t.personal.drop_features("spring")),
        (
            "UPDATE campaigns SET state = 'launched'",
            lambda t: t.contexts.add("spring", "network-c", np.zeros((5, 2))),
        ),
        ("DELETE FROM reserves", lambda t: t.plans.set_state("spring", State.CLOSED)),
        (
            "UPDATE batches SET source = 'another file'",
            lambda t: receive(t, replace(batch("b1"), reverted_at=MOMENT, source="another file")),
        ),
    )
    for number, (statement, write) in enumerate(writes):
        store = Store.embedded(tmp_path / f"{number}.db")
        _life(store)
        _damage(store, statement)
        with (
            pytest.raises(StateError, match="changed by something other"),
            store.writing("spring", action="test") as transaction,
        ):
            write(transaction)
        assert _all_broken(store) != []
