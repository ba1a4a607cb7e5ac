"""Transactions of every store: whole or not at all, readers see one state, the same history gives the same rows."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from store_samples import MOMENT, NETWORK, add_campaign, add_late, batch, decisions, outcomes, receive, version
from stores import open_store

from disco.records.campaign_records import Disposition, State
from disco.records.errors import StateError
from disco.store import Store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url)
    yield store
    store.close()


class _InterruptedError(Exception):
    pass


def _whole_life(store: Store, *, then_fail: bool = False) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["10", "9", "ä"], codes=["A", None, "C"]))
        add_late(transaction, decisions(["11"], codes=["L"]))
        transaction.decisions.set_reserve("spring", {0.1: 3})
        receive(transaction, batch("b1"), outcomes("b1", ["e1", "e2", "B", "b", "_"]))
        changes = {"batch_id": ["b1"], "row": [1], "disposition": ["expired"], "reason": ["after its end"]}
        receive(transaction, batch("b2"), changes=pa.table(changes))
        transaction.beliefs.put_evidence("spring", NETWORK, b"evidence")
        transaction.beliefs.add_version(version(1), activate=True)
        if then_fail:
            raise _InterruptedError


def test_a_block_that_raises_leaves_nothing(store: Store) -> None:
    with suppress(_InterruptedError):
        _whole_life(store, then_fail=True)
    with store.reading() as transaction:
        assert transaction.plans.campaigns() == ()
        assert transaction.plans.of("spring") == ()
        assert transaction.beliefs.version() is None
        assert len(transaction.decisions.codes_in_use(pa.array(["A", "C"]))) == 0
    _whole_life(store)  # and nothing of it is in the way


def test_nothing_is_written_by_a_reader(store: Store) -> None:
    _whole_life(store)
    attempts: list[Callable[..., object]] = [
        lambda transaction: transaction.plans.set_state("spring", State.CLOSED),
        lambda transaction: add_late(transaction, decisions(["77"])),
        lambda transaction: transaction.beliefs.put_evidence("spring", NETWORK, b"other"),
    ]
    for attempt in attempts:
        with pytest.raises(StateError), store.reading() as transaction:
            attempt(transaction)
    with store.writing("spring", action="test") as transaction:  # and the connection it used can write again
        assert transaction.plans.campaign("spring").state is State.LAUNCHED
        assert transaction.beliefs.evidence("spring", NETWORK) == b"evidence"
        transaction.plans.set_state("spring", State.CLOSED)


def test_a_second_writer_waits_and_then_sees_what_the_first_wrote(store: Store) -> None:
    _whole_life(store)
    inside, seen = Event(), []

    def second() -> None:
        inside.wait(30)
        with store.writing("spring", action="test") as transaction:
            seen.append(transaction.decisions.reserve("spring")[0.1])
            transaction.decisions.take_code("spring", 0.1)

    thread = Thread(target=second)
    thread.start()
    with store.writing("spring", action="test") as transaction:
        inside.set()
        thread.join(0.3)  # time enough to overtake, if that were possible
        transaction.decisions.set_reserve("spring", {0.1: 40})
    thread.join(30)
    assert seen == [40]
    with store.reading() as transaction:
        assert transaction.decisions.reserve("spring") == {0.1: 39}


def test_the_same_history_gives_the_same_rows_everywhere(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    found = []
    for url in (f"sqlite:///{tmp_path}/same.db", new_postgres_url()):
        store = open_store(url)
        _whole_life(store)
        with store.writing("spring", action="test") as transaction:
            receive(transaction, batch("b0"), outcomes("b0", ["e9", "e8"]))
            receive(transaction, replace(batch("b0"), reverted_at=MOMENT))
        with store.reading() as transaction:
            found.append(
                (
                    transaction.plans.campaigns(),
                    transaction.plans.of("spring"),
                    transaction.decisions.of("spring"),
                    transaction.decisions.codes_in_use(pa.array(["L", "C", "A"])),
                    transaction.decisions.reserve("spring"),
                    transaction.ledger.batches("spring"),
                    transaction.ledger.outcomes("spring"),
                    transaction.ledger.outcomes(
                        "spring", events=pa.array(["b", "e2", "B"]), dispositions=[Disposition.APPLIED]
                    ),
                    transaction.ledger.counts("spring"),
                    transaction.beliefs.evidence("spring", NETWORK),
                    transaction.beliefs.versions(),
                )
            )
        store.close()
    assert found[0] == found[1]
