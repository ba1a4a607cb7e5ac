"""The audit journal of a campaign's life: pages, a verdict, and no customer in clear, before and after forgetting."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_life import CAMPAIGN, FixedClock, ingest_small, late_code, launch_small, outcomes_of
from stores import open_store

from disco.office.audit.use_cases import list_journal, verify_journal
from disco.operations.contexts import FeatureCache
from disco.operations.forget import forget
from disco.operations.launch import pause
from disco.operations.outcomes import revert
from disco.operations.upkeep import check_journal
from disco.records.errors import InputError
from disco.store import Store

CANARY = 987_654_321


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    launch_small(opened, customers=60, reserve=4)
    late_code(opened, CANARY)
    batch = ingest_small(opened, outcomes_of(opened))
    revert(opened, batch, clock=FixedClock())
    yield opened
    opened.close()


def test_a_life_is_listed_in_pages_the_newest_last(store: Store) -> None:
    whole = list_journal(store)
    assert [entry.action for entry in whole.entries] == ["launch", "late", "ingest", "revert"]
    assert {entry.subject for entry in whole.entries} == {CAMPAIGN}
    assert whole.next is None
    first = list_journal(store, after=0, limit=3)
    assert ([entry.number for entry in first.entries], first.next) == ([1, 2, 3], 3)
    assert [entry.number for entry in list_journal(store, after=3, limit=3).entries] == [4]
    assert [entry.number for entry in list_journal(store, limit=2).entries] == [3, 4]
    assert list_journal(store, after=99).entries == ()
    for wrong in ({"limit": 0}, {"limit": 1_001}, {"after": -1}):
        with pytest.raises(InputError):
            list_journal(store, **wrong)


def test_the_same_again_adds_no_entry(store: Store) -> None:
    late_code(store, CANARY)
    launch_small(store, customers=60, reserve=4)
    pause(store, CAMPAIGN, clock=FixedClock())
    pause(store, CAMPAIGN, clock=FixedClock())
    assert [entry.action for entry in list_journal(store).entries][4:] == ["pause"]


def test_a_customer_is_a_pseudonym_before_and_after_they_are_forgotten(store: Store, tmp_path: Path) -> None:
    cache = FeatureCache(folder=tmp_path, keep=True, threads=1)
    done = forget(store, [str(CANARY)], clock=FixedClock(), cache=cache, folders=[], tables="data")
    assert done.found == 1
    found = list_journal(store)
    assert str(CANARY) not in found.to_json()
    with store.reading() as transaction:
        known = transaction.journal.pseudonyms([str(CANARY)])
    assert found.entries[1].detail["pseudonyms"] == known
    assert found.entries[-1].detail == {"customers": 1, "found": 1, "plans": 0}
    assert verify_journal(store).ok


def test_a_noted_hash_proves_that_the_journal_was_not_replaced(store: Store) -> None:
    noted = verify_journal(store)
    assert (noted.ok, noted.entries) == (True, 4)
    pause(store, CAMPAIGN, clock=FixedClock())
    assert noted.last is not None
    assert verify_journal(store, contains=noted.last.upper()).ok
    replaced = verify_journal(store, contains="ab" * 32)
    assert (replaced.ok, replaced.first_bad) == (False, 6)
    assert [one.outcome for one in check_journal(store)] == ["ok"]
