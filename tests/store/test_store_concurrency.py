"""Many processes at once on one database: one launch, exact counts, never a code too many, nobody is turned away."""

from collections import Counter
from pathlib import Path

import pytest
from many_processes import at_once
from small_life import (
    CAMPAIGN,
    NETWORK,
    ingest_small,
    ingest_step,
    late_step,
    launch_small,
    launch_step,
    open_step,
    outcomes_of,
)
from stores import open_store

from disco.operations.learn import rebuilt_evidence
from disco.records.campaign_records import Disposition
from disco.store import Store


def _evidence(store: Store) -> bytes:
    with store.reading() as transaction:
        stored = transaction.beliefs.evidence(CAMPAIGN, NETWORK)
        assert stored == rebuilt_evidence(transaction, transaction.plans.campaign(CAMPAIGN), NETWORK).to_bytes()
        assert stored is not None
        return stored


def _applied(store: Store) -> list[tuple[str, int]]:
    with store.reading() as transaction:
        rows = transaction.ledger.outcomes(CAMPAIGN, dispositions=[Disposition.APPLIED])
    return sorted(zip(rows["event_id"].to_pylist(), rows["full_price_minor"].to_pylist(), strict=True))


@pytest.fixture
def clean(tmp_path: Path) -> Store:
    """The same campaign with its outcomes in one batch, by one process, on SQLite."""
    store = Store.embedded(tmp_path / "clean.db")
    launch_small(store, customers=300, reserve=10)
    ingest_small(store, outcomes_of(store))
    return store


def test_many_processes_open_an_empty_database_and_it_is_made_once(database_url: str) -> None:
    assert len(set(at_once(open_step, [(database_url,)] * 8))) == 1


def test_of_launches_at_once_one_is_the_launch(store_url: str) -> None:
    open_store(store_url).close()
    assert sorted(at_once(launch_step, [(store_url, 4)] * 4)) == [False, True, True, True]
    with open_store(store_url).reading() as transaction:
        decisions = transaction.decisions.of(CAMPAIGN)
        assert decisions.num_rows == 300
        assert transaction.contexts.of(CAMPAIGN, NETWORK).shape == (300, 2)


def test_of_two_plans_launched_at_once_one_is_refused(store_url: str) -> None:
    open_store(store_url).close()
    results = at_once(launch_step, [(store_url, seed) for seed in (4, 5)])
    assert results.count(False) == 1
    assert sum("StateError" in str(result) and "launched on" in str(result) for result in results) == 1


@pytest.mark.parametrize("writers", [2, 12])
def test_overlapping_files_at_once_count_every_event_once(store_url: str, clean: Store, writers: int) -> None:
    store = open_store(store_url)
    launch_small(store, customers=300, reserve=10)
    outcomes = outcomes_of(store)
    part = outcomes.num_rows * 2 // writers if writers > 2 else outcomes.num_rows * 3 // 4
    step = (outcomes.num_rows - part) // (writers - 1) + 1
    files = [outcomes.slice(min(place * step, outcomes.num_rows - part), part) for place in range(writers)]
    results = at_once(ingest_step, [(store_url, file) for file in files])
    assert len(set(results)) == writers, results
    with store.reading() as transaction:
        counts = transaction.ledger.counts(CAMPAIGN).to_pylist()
        assert {record.batch_id for record in transaction.ledger.batches(CAMPAIGN)} == set(results)
    received = Counter()
    for row in counts:
        received[row["batch_id"]] += row["rows"]
    assert set(received.values()) == {part}
    assert _applied(store) == _applied(clean)
    assert _evidence(store) == _evidence(clean)


def test_of_30_late_arrivals_exactly_ten_get_the_last_ten_codes(store_url: str) -> None:
    store = open_store(store_url)
    launch_small(store, customers=300, reserve=10)
    with store.reading() as transaction:
        before, left = transaction.decisions.of(CAMPAIGN).num_rows, transaction.decisions.reserve(CAMPAIGN)
    assert sum(left.values()) == 10
    codes = at_once(late_step, [(store_url, 10_000 + place) for place in range(30)])
    given = [code for code in codes if code is not None]
    assert len(given) == len(set(given)) == 10, codes
    assert all(len(code) == 19 for code in given), given  # codes, and no words of an error
    with store.reading() as transaction:
        assert transaction.decisions.reserve(CAMPAIGN) == dict.fromkeys(left, 0)
        decisions = transaction.decisions.of(CAMPAIGN)
        assert decisions.num_rows == before + 30
        assert transaction.contexts.of(CAMPAIGN, NETWORK).shape[0] == before + 30
    _evidence(store)
