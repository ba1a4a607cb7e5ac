"""PostgreSQL: what a transaction writes goes together with its commit, and all of it is undone where a part fails."""

import numpy as np
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from store_samples import NETWORK, add_campaign, decisions
from stores import open_store

from disco.records.errors import StateError, UnavailableError, UpgradeError
from disco.store import Store, schema
from disco.store.database import EXCHANGE, add_rows, ask, change, change_later
from disco.store.postgresql import Exchange

_LATE = {"customer_id": "z", "arm": "decided", "value": 0.0, "known": True, "context": b""}


@pytest.fixture
def store(new_postgres_url):
    opened = open_store(new_postgres_url())
    with opened.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["a", "b"], codes=["A", None]))
        transaction.decisions.set_reserve("spring", {0.1: 3, 0.25: None})
        transaction.beliefs.put_evidence("spring", NETWORK, b"evidence")
    yield opened
    opened.close()


def _written(store: Store) -> tuple[object, ...]:
    with store.reading() as transaction:
        assert transaction.seals.broken_of("spring") == ()
        assert transaction.journal.first_break() is None
        last = transaction.journal.last()
        late = transaction.decisions.of("spring", only_late=True)["customer_id"].to_pylist()
        return transaction.decisions.reserve("spring"), late, transaction.beliefs.evidence("spring", NETWORK), last


def _decide(transaction, *customers: str) -> None:
    transaction.decisions.read_ahead("spring", customers, deciding=True)
    assert transaction.decisions.told("spring", customers) == {}
    assert transaction.decisions.take_code("spring", 0.1)
    decided = decisions(list(customers))
    codes = pa.array(decided["code"].drop_null().to_pylist(), pa.string())
    assert transaction.decisions.codes_in_use(codes, campaign="spring").to_pylist() == []
    contexts = np.full((len(customers), 3), 0.25)
    transaction.decisions.add_late("spring", decided, contexts=contexts, features=None, pooled=False)
    transaction.beliefs.put_evidence("spring", NETWORK, b"more evidence")


def test_a_deciding_transaction_waits_six_times_for_the_server(store, monkeypatch: pytest.MonkeyPatch):
    waits = []
    run = Exchange._run
    monkeypatch.setattr(Exchange, "_run", lambda self, *rest: (waits.append(1), run(self, *rest))[1])
    executed = []
    execute = psycopg.Cursor.execute
    monkeypatch.setattr(
        psycopg.Cursor, "execute", lambda *rest, **more: (executed.append(1), execute(*rest, **more))[1]
    )
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "c", "d", "e")
    # lock, revision and state; what is known; codes in use; writes and state; the journal's last entry; the commit
    assert (len(waits), executed) == (6, [])
    assert _written(store)[:3] == ({0.1: 2, 0.25: None}, ["c", "d", "e"], b"more evidence")


def _decide_and_add_a_row_twice(store: Store, *, dry_run: bool = False) -> None:
    """Behind the back of every check."""
    with store.writing("spring", action="late", dry_run=dry_run) as transaction:
        _decide(transaction, "c")
        for _ in range(2):
            row = {**_LATE, "campaign_number": transaction.decisions._session.number("spring"), "row": 9}
            add_rows(transaction.decisions._connection, schema.late_decisions, [row])


def test_a_write_that_the_server_refuses_undoes_all_and_gives_the_lock_back(store):
    before = _written(store)
    with pytest.raises(StateError, match="already exists"):
        _decide_and_add_a_row_twice(store)
    assert _written(store) == before
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "d")
    assert _written(store)[1] == ["d"]


def test_a_rehearsal_is_refused_where_the_real_one_would_be(store):
    before = _written(store)
    with pytest.raises(StateError, match="already exists"):
        _decide_and_add_a_row_twice(store, dry_run=True)
    assert _written(store) == before


def _refused_with_the_commit(store: Store) -> None:
    with store._database.writing("spring") as connection:
        change(connection, "UPDATE reserves SET codes = ? WHERE depth = ?", (1, 0.1))
        change_later(connection, "INSERT INTO secrets (name, value, seal) VALUES (?, ?, ?)", ("codes", b"", ""))


def test_what_is_refused_with_the_commit_was_not_committed(store):
    before = _written(store)
    with pytest.raises(psycopg.errors.UniqueViolation):
        _refused_with_the_commit(store)
    assert _written(store) == before


def test_a_connection_that_the_server_has_ended_is_made_anew(store):
    with store._database.engine.begin() as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND datname = current_database()"
            )
        )
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "c")
    assert _written(store)[1] == ["c"]


def _lost_before_the_commit(store: Store) -> None:
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "c")
        pid = ask(transaction.decisions._connection, "SELECT pg_backend_pid()")[0][0]
        with store._database._journal.connect() as other:
            ask(other, "SELECT pg_terminate_backend(?)", (pid,))


def test_a_session_that_is_lost_before_the_commit_has_written_nothing(store):
    before = _written(store)
    with pytest.raises(UnavailableError):
        _lost_before_the_commit(store)
    assert _written(store) == before
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "d")
    assert _written(store)[1] == ["d"]


def _lost_before_a_question(store: Store) -> None:
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "c")
        pid = ask(transaction.decisions._connection, "SELECT pg_backend_pid()")[0][0]
        with store._database._journal.connect() as other:
            ask(other, "SELECT pg_terminate_backend(?)", (pid,))
        transaction.webhooks.all()  # through SQLAlchemy, which gives the connection up


def test_a_session_that_is_lost_before_a_question_is_unavailable_and_has_written_nothing(store):
    before = _written(store)
    with pytest.raises(UnavailableError):
        _lost_before_a_question(store)
    assert _written(store) == before
    with store.writing("spring", action="late") as transaction:
        _decide(transaction, "d")
    assert _written(store)[1] == ["d"]


_COUNT = "SELECT count(*) FROM reserves WHERE depth = ?"


def _ask_what_is_not_there(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        connection = transaction.decisions._connection
        assert ask(connection, _COUNT, (0.1,)) == [(1,)]
        ask(connection, "SELECT nothing FROM reserves WHERE depth = ?", (0.1,))


def test_statements_stay_prepared_after_a_refusal_and_its_rollback(store):
    for _ in range(3):
        with pytest.raises(StateError, match="nothing"):
            _ask_what_is_not_there(store)
    with store.writing("spring", action="test") as transaction:
        connection = transaction.decisions._connection
        assert ask(connection, _COUNT, (0.1,)) == [(1,)]
        known = {text for text, _ in connection.info[EXCHANGE]._prepared}
        assert _COUNT in known
        assert not any("nothing" in text for text in known)


def test_a_value_that_cannot_be_sent_is_refused_and_the_session_goes_on(store):
    with store.reading() as transaction:
        connection = transaction.decisions._connection
        with pytest.raises(psycopg.DataError):
            ask(connection, "SELECT count(*) FROM plans WHERE campaign = ?", ("a\0b",))
        assert ask(connection, "SELECT count(*) FROM plans WHERE campaign = ?", ("spring",)) == [(1,)]


def test_a_database_whose_tables_an_upgrade_has_changed_is_refused_in_words(store):
    with store._database.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {schema.REVISIONS} SET version_num = '9999'"))
        connection.execute(sa.text("ALTER TABLE plan_makers RENAME TO makers"))
    with pytest.raises(UpgradeError, match="9999"), store.writing("spring", action="test"):
        pass
