"""What a transaction remembers: rows are read once, and again when it has written to their table itself."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from store_samples import NETWORK, add_campaign, decisions
from stores import open_store

from disco.records.campaign_records import State
from disco.records.errors import NotFoundError, SealError, StateError
from disco.store import Store, schema


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/session.db" if sqlite else request.getfixturevalue("new_postgres_url")()
    opened = open_store(url)
    with opened.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["a", "b"], codes=["A", None]))
        transaction.decisions.set_reserve("spring", {0.1: 3, 0.25: None})
        transaction.beliefs.put_evidence("spring", NETWORK, b"evidence")
    yield opened
    opened.close()


def add_late(transaction, *customers: str) -> None:
    contexts = np.full((len(customers), 3), 0.25)
    transaction.decisions.add_late("spring", decisions(list(customers)), contexts=contexts, features=None, pooled=False)


def test_rows_are_read_once_and_again_after_a_write_of_the_transaction(store: Store):
    with store.writing("spring", action="test") as transaction:
        session = transaction.decisions._session
        first = session.campaign_row("spring")
        assert session.campaign_row("spring") is first
        reserve = session.raw(schema.reserves, "campaign_number", first.number, order="depth")
        assert session.raw(schema.reserves, "campaign_number", first.number, order="depth") is reserve
        transaction.plans.set_state("spring", State.PAUSED)
        assert session.campaign_row("spring").state == "paused"
        assert session.raw(schema.reserves, "campaign_number", first.number, order="depth") is reserve
        assert transaction.decisions.take_code("spring", 0.1)
        assert transaction.decisions.reserve("spring") == {0.1: 2, 0.25: None}


@pytest.mark.parametrize("how", ["set", "replaced", "removed"])
def test_no_write_leaves_an_old_row_behind(store: Store, how: str):
    with store.writing("spring", action="test", dry_run=True) as transaction:
        session = transaction.decisions._session
        assert transaction.decisions.reserve("spring") == {0.1: 3, 0.25: None}
        rows = session.raw(schema.reserves, "campaign_number", session.number("spring"), order="depth")
        if how == "set":
            session.set(schema.reserves, rows[0], codes=7)
        elif how == "replaced":
            transaction.decisions.set_reserve("spring", {0.1: 7, 0.25: None})
        else:
            session.remove(schema.reserves, rows[0])
            session.add(schema.reserves, {**rows[0], "codes": 7})
        assert transaction.decisions.reserve("spring") == {0.1: 7, 0.25: None}
        assert transaction.plans.campaign("spring").state is State.LAUNCHED  # which compares seals and tallies


def test_a_plan_that_is_written_again_is_read_again(store: Store):
    with store.writing("spring", action="test", dry_run=True) as transaction:
        session = transaction.decisions._session
        row = session.campaign_row("spring")
        assert row.features != "another"
        [plan] = session.raw(schema.plans, "plan_id", row.plan_id)
        session.set(schema.plans, plan, features="another")
        assert session.campaign_row("spring").features == "another"


def test_a_transaction_does_not_remember_what_another_one_read(store: Store):
    with store.reading() as transaction:
        assert transaction.plans.campaign("spring").state is State.LAUNCHED
    with store.writing("spring", action="test") as transaction:
        transaction.plans.set_state("spring", State.PAUSED)
    with store.reading() as transaction:
        assert transaction.plans.campaign("spring").state is State.PAUSED


def test_what_was_told_is_known_of_the_launch_and_of_late_arrivals(store: Store):
    with store.writing("spring", action="test") as transaction:
        assert set(transaction.decisions.told("spring", ["a", "b", "c", "x"])) == {"a", "b"}
        add_late(transaction, "c", "d")
        told = transaction.decisions.told("spring", ["a", "c", "d", "x", "a"])
        assert set(told) == {"a", "c", "d"}
        with pytest.raises(StateError, match="Customer d already has a decision"):
            add_late(transaction, "e", "d")
    with store.reading() as transaction:
        found = transaction.decisions.of("spring", customers=pa.array(["a", "b", "c", "d"])).to_pylist()
        told = transaction.decisions.told("spring", ["d", "c", "b", "a"])
    assert {row["customer_id"]: (row["depth"], row["code"], row["known"]) for row in found} == told


def test_reading_ahead_changes_no_answer(store: Store):
    answers = []
    for ahead in (None, False, True):
        with store.writing("spring", action="test") as transaction:
            if ahead is not None:
                transaction.decisions.read_ahead("spring", ["a", "c"], deciding=ahead)
            answers.append(
                (
                    transaction.decisions.told("spring", ["a", "c"]),
                    transaction.decisions.reserve("spring"),
                    transaction.decisions.secret(),
                    transaction.forgotten.among(["a", "c"]),
                    transaction.beliefs.evidence("spring", NETWORK),
                    transaction.beliefs.networks("spring"),
                    transaction.arrivals.day("spring"),
                    transaction.journal.pseudonyms(["a"]),
                    transaction.plans.campaign("spring"),
                )
            )
    assert answers[0] == answers[1] == answers[2]


def test_reading_ahead_of_a_campaign_that_does_not_exist_leaves_the_error_to_who_asks(store: Store):
    with store.reading() as transaction:
        transaction.decisions.read_ahead("sprung", ["a"], deciding=True)
        with pytest.raises(NotFoundError, match="No campaign sprung"):
            transaction.plans.campaign("sprung")


def test_late_arrivals_of_one_transaction_are_sealed_in_their_order(store: Store):
    with store.writing("spring", action="test") as transaction:
        transaction.decisions.read_ahead("spring", ["c", "d"], deciding=True)
        add_late(transaction, "c")
        first = transaction.decisions.late_seal("spring")
        add_late(transaction, "d")
        assert transaction.decisions.late_seal("spring") != first
        assert transaction.decisions.of("spring", only_late=True)["row"].to_pylist() == [2, 3]
    with store.reading() as transaction:
        assert transaction.seals.broken_of("spring") == ()


def test_a_campaign_that_was_read_before_is_compared_with_its_seal_again(store: Store):
    with store.reading() as transaction:
        record = transaction.plans.campaign("spring")
    with store.writing("spring", action="test") as transaction:
        transaction.plans.set_state("spring", State.PAUSED)
    with store.reading() as transaction:
        assert transaction.plans.standing(record).state is State.PAUSED
        assert transaction.plans.standing(record).plan is record.plan
    with store._database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE reserves SET codes = 1000"))
    with store.reading() as transaction, pytest.raises(SealError, match="state, reserve or contexts"):
        transaction.plans.standing(record)
