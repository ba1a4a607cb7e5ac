"""Transactions of every store: whole or not at all, readers see one state, the same history gives the same rows."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from store_samples import MOMENT, NETWORK, add_campaign, batch, decisions, outcomes, version

from disco.adapters.store import CampaignStore
from disco.records.errors import StateError
from disco.records.life import Disposition, State


@pytest.fixture
def store(database_url: str) -> Iterator[CampaignStore]:
    store = CampaignStore(database_url)
    yield store
    store.close()


class _InterruptedError(Exception):
    pass


def _whole_life(store: CampaignStore, *, then_fail: bool = False) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        shelves.add_decisions("spring", decisions(["10", "9", "ä"], codes=["A", None, "C"]))
        shelves.set_reserve("spring", {0.1: 3})
        shelves.add_batch(batch("b1"))
        shelves.add_outcomes("spring", outcomes("b1", ["e1", "e2", "B", "b", "_"]))
        shelves.set_dispositions(
            "spring", pa.table({"batch_id": ["b1"], "row": [1], "disposition": ["late"], "reason": ["after its end"]})
        )
        shelves.put_evidence("spring", NETWORK, b"evidence")
        shelves.add_version(version(1), activate=True)
        if then_fail:
            raise _InterruptedError


def test_a_block_that_raises_leaves_nothing(store: CampaignStore) -> None:
    with suppress(_InterruptedError):
        _whole_life(store, then_fail=True)
    with store.reading() as shelves:
        assert shelves.campaigns() == ()
        assert shelves.plans("spring") == ()
        assert shelves.version("main") is None
        assert len(shelves.known_codes(pa.array(["A", "C"]))) == 0
    _whole_life(store)  # and nothing of it is in the way


def test_nothing_is_written_by_a_reader(store: CampaignStore) -> None:
    _whole_life(store)
    attempts: list[Callable[..., object]] = [
        lambda shelves: shelves.set_state("spring", State.CLOSED),
        lambda shelves: shelves.add_decisions("spring", decisions(["77"])),
        lambda shelves: shelves.put_evidence("spring", NETWORK, b"other"),
    ]
    for attempt in attempts:
        with pytest.raises(StateError), store.reading() as shelves:
            attempt(shelves)
    with store.writing("spring") as shelves:  # and the connection it used can write again
        assert shelves.campaign("spring").state is State.LAUNCHED
        assert shelves.evidence("spring", NETWORK) == b"evidence"
        shelves.set_state("spring", State.CLOSED)


def test_a_second_writer_waits_and_then_sees_what_the_first_wrote(store: CampaignStore) -> None:
    _whole_life(store)
    inside, seen = Event(), []

    def second() -> None:
        inside.wait(30)
        with store.writing("spring") as shelves:
            seen.append(shelves.reserve("spring")[0.1])
            shelves.take_code("spring", 0.1)

    thread = Thread(target=second)
    thread.start()
    with store.writing("spring") as shelves:
        inside.set()
        thread.join(0.3)  # time enough to overtake, if that were possible
        shelves.set_reserve("spring", {0.1: 40})
    thread.join(30)
    assert seen == [40]
    with store.reading() as shelves:
        assert shelves.reserve("spring") == {0.1: 39}


def test_the_same_history_gives_the_same_rows_everywhere(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    found = []
    for url in (f"sqlite:///{tmp_path}/same.db", new_postgres_url()):
        store = CampaignStore(url)
        _whole_life(store)
        with store.writing("spring") as shelves:
            shelves.add_batch(batch("b0"))
            shelves.add_outcomes("spring", outcomes("b0", ["e9", "e8"]))
            shelves.set_reverted("b0", MOMENT)
        with store.reading() as shelves:
            found.append(
                (
                    shelves.campaigns(),
                    shelves.plans("spring"),
                    shelves.decisions("spring"),
                    shelves.known_codes(pa.array(["C", "A"])),
                    shelves.reserve("spring"),
                    shelves.batches("spring"),
                    shelves.outcomes("spring"),
                    shelves.outcomes("spring", events=pa.array(["b", "e2", "B"]), dispositions=[Disposition.APPLIED]),
                    shelves.counts("spring"),
                    shelves.evidence("spring", NETWORK),
                    shelves.versions("main"),
                )
            )
        store.close()
    assert found[0] == found[1]
