"""Drafts of plans: what the journal says about a revision, and what it must not say."""

from datetime import UTC, datetime

from disco.office.audit.use_cases import list_journal
from disco.office.drafts.use_cases import put_draft
from disco.store import Store


class Clock:
    def now(self) -> datetime:
        return datetime(2027, 3, 8, 9, tzinfo=UTC)


def told(store: Store) -> object:
    return list_journal(store, limit=1).entries[-1].detail["changed"]


def test_the_journal_says_what_a_revision_changed(store_url: str, tmp_path) -> None:
    store = Store(store_url, tmp_path / "artefacts")
    try:
        first = {"campaign": "spring", "budget": 20_000, "depths": {"0.1": {"at_most": 60}, "0.2": {}}}
        put_draft(store, "spring", first, clock=Clock())
        assert told(store) == ["budget nothing → 20000", "campaign", "depths"]
        second = first | {"budget": 25_000.5, "depths": {"0.1": {"at_most": 80}}}
        put_draft(store, "spring", second, if_match=1, clock=Clock())
        assert told(store) == ["budget 20000 → 25000.5", "depths 0.1 at_most 60 → 80", "depths 0.2"]
        put_draft(store, "spring", second, if_match=2, clock=Clock())
        assert told(store) == []
    finally:
        store.close()


def test_the_journal_repeats_no_text_and_no_unknown_key(store_url: str, tmp_path) -> None:
    store = Store(store_url, tmp_path / "artefacts")
    try:
        customers = {"as_of": "2027-03-01", "eligible": "customer_id = 'canary'"}
        segments = {"column": "canary", "limits": {"canary": {"0.1": {"at_most": 3}}}}
        plan = {"canary": 7, "customers": customers, "segments": segments, "12345678901234567890": 1}
        put_draft(store, "spring", plan, clock=Clock())
        put_draft(store, "spring", {"segments": {**segments, "limits": {"canary": {}}}}, if_match=1, clock=Clock())
        entries = list_journal(store, limit=2).entries
        assert entries[0].detail["changed"] == ["another key", "customers", "segments"]
        assert entries[1].detail["changed"] == ["another key", "customers", "segments limits"]
        assert "canary" not in str(entries)
    finally:
        store.close()
