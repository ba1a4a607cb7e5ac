"""The ledger of every store: rows as received, one disposition each, an event in force once, reverted batches aside."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from store_samples import MOMENT, add_campaign, batch, outcomes

from disco.adapters.store import CampaignStore
from disco.records.errors import InputError, StateError
from disco.records.kept import OUTCOMES
from disco.records.life import Disposition


@pytest.fixture
def store(database_url: str) -> Iterator[CampaignStore]:
    store = CampaignStore(database_url)
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        add_campaign(shelves, "autumn")
    yield store
    store.close()


def _changes(*rows: tuple[str, int, Disposition, str | None]) -> pa.Table:
    names = ("batch_id", "row", "disposition", "reason")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_rows_come_back_as_received_in_the_order_received(store: CampaignStore) -> None:
    strange = outcomes(
        "b-second",
        ["e3", None, "", "e4\n,\"'"],
        customer_id=["7", None, "ñ 🛍", ""],
        code=[None, "X", "", "Y"],
        kind=["refund", None, "purchase", "correction"],
        refers_to=["e1", None, None, ""],
        ordered_at=[MOMENT, None, -1, 2**53],
        full_price_minor=[-5, None, 0, 2**62],
        disposition=["unmatched", "rejected", "late", "applied"],
        reason=["waits", "", None, "r\n"],
        raw=[None, '{"full_price": "=1+1"}', None, ""],
    )
    with store.writing("spring") as shelves:
        shelves.add_batch(batch("b-second"))  # the order of arrival counts, not the order of the ids
        shelves.add_batch(batch("a-third"))
        shelves.add_outcomes("spring", outcomes("a-third", ["e9"]))
        shelves.add_outcomes("spring", strange)
    with store.reading() as shelves:
        kept = shelves.outcomes("spring")
        assert kept.schema == OUTCOMES
        assert kept.equals(pa.concat_tables([strange, outcomes("a-third", ["e9"])]))
        assert [record.batch_id for record in shelves.batches("spring")] == ["b-second", "a-third"]
        assert shelves.batch("b-s") == batch("b-second")
        assert shelves.batches("autumn") == ()
        assert shelves.outcomes("autumn").equals(OUTCOMES.empty_table())
        with pytest.raises(StateError, match="no such batch"):
            shelves.batch("c")


def test_restrictions_hold_together(store: CampaignStore) -> None:
    table = outcomes(
        "b1",
        ["e1", "e2", "r1", "e1"],
        code=["A", "B", "A", "A"],
        refers_to=[None, None, "e1", None],
        disposition=["applied", "late", "applied", "duplicate"],
    )
    with store.writing("spring") as shelves:
        for name in ("b1", "b2"):
            shelves.add_batch(batch(name))
        shelves.add_outcomes("spring", table)
        shelves.add_outcomes("spring", outcomes("b2", ["e5", "e6"], code=["A", None]))

        def found(**asked: object) -> list[tuple[str, int]]:
            rows = shelves.outcomes("spring", **asked)
            return list(zip(rows["batch_id"].to_pylist(), rows["row"].to_pylist(), strict=True))

        assert found(events=pa.array(["e1", "e5", "no"])) == [("b1", 0), ("b1", 3), ("b2", 0)]
        assert found(codes=pa.array(["A"])) == [("b1", 0), ("b1", 2), ("b1", 3), ("b2", 0)]
        assert found(refers_to=pa.array(["e1", "e2"])) == [("b1", 2)]
        assert found(batch_id="b2") == [("b2", 0), ("b2", 1)]
        assert found(dispositions=[Disposition.LATE, Disposition.DUPLICATE]) == [("b1", 1), ("b1", 3)]
        assert found(events=pa.array(["e1"]), dispositions=[Disposition.APPLIED]) == [("b1", 0)]
        assert found(events=pa.array(["e1", "e5"]), codes=pa.array(["A"]), batch_id="b2") == [("b2", 0)]
        assert found(codes=pa.array([], pa.string())) == []
        assert found(dispositions=[]) == []
        with pytest.raises(InputError, match="NUL"):
            found(events=pa.array(["e\0"]))


def test_an_event_is_in_force_once_per_campaign(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        for name in ("b1", "b2"):
            shelves.add_batch(batch(name))
        shelves.add_batch(batch("b3", "autumn"))
        shelves.add_outcomes("spring", outcomes("b1", ["e1", "e1"], disposition=["applied", "duplicate"]))
        shelves.add_outcomes("autumn", outcomes("b3", ["e1"]))
    with pytest.raises(StateError, match="there already"), store.writing("spring") as shelves:
        shelves.add_outcomes("spring", outcomes("b2", ["e0", "e1"]))
    with pytest.raises(StateError, match="there already"), store.writing("spring") as shelves:
        shelves.set_dispositions("spring", _changes(("b1", 1, Disposition.APPLIED, None)))
    with store.reading() as shelves:
        assert shelves.outcomes("spring").num_rows == 2


def test_applied_moves_from_one_row_of_an_event_to_another(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        shelves.add_batch(batch("b1"))
        shelves.add_outcomes("spring", outcomes("b1", ["e1", "e1", "e2"], disposition=["applied", "duplicate", "late"]))
        for gains, loses in ((1, 0), (0, 1)):
            shelves.set_dispositions(
                "spring",
                _changes(("b1", gains, Disposition.APPLIED, None), ("b1", loses, Disposition.DUPLICATE, "seen, twice")),
            )
            kept = shelves.outcomes("spring")
            assert kept["disposition"].to_pylist()[gains] == "applied"
            assert kept["reason"].to_pylist()[loses] == "seen, twice"
            assert kept["disposition"].to_pylist()[2] == "late"
        assert kept["reason"].to_pylist()[0] is None
        assert shelves.counts("spring").to_pylist() == [
            {"batch_id": "b1", "disposition": name, "rows": 1} for name in ("applied", "duplicate", "late")
        ]


def test_a_reverted_batch_leaves_everything_but_its_own_page(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        for name in ("b1", "b2"):
            shelves.add_batch(batch(name))
        shelves.add_outcomes("spring", outcomes("b1", ["e1", "e2"]))
        shelves.add_outcomes("spring", outcomes("b2", ["e1", "e3"], disposition=["duplicate", "applied"]))
        shelves.set_reverted("b1", MOMENT)
        shelves.set_dispositions("spring", _changes(("b2", 0, Disposition.APPLIED, None)))  # the event is free again
        with pytest.raises(StateError, match="not reverted yet"):
            shelves.set_reverted("b1", MOMENT)
        with pytest.raises(StateError):
            shelves.set_reverted("b9", MOMENT)
    with store.reading() as shelves:
        assert shelves.outcomes("spring").equals(outcomes("b2", ["e1", "e3"]))
        assert shelves.outcomes("spring", events=pa.array(["e1"])).num_rows == 1
        assert shelves.outcomes("spring", batch_id="b1").equals(outcomes("b1", ["e1", "e2"]))
        assert shelves.counts("spring").to_pylist() == [{"batch_id": "b2", "disposition": "applied", "rows": 2}]
        assert [record.reverted_at for record in shelves.batches("spring")] == [MOMENT, None]
    with store.writing("spring") as shelves:  # the same file may come again
        shelves.add_batch(batch("b3"))
        shelves.add_outcomes("spring", outcomes("b3", ["e2"]))


def test_rows_need_their_batch(store: CampaignStore) -> None:
    with pytest.raises(StateError, match="no such batch"), store.writing("spring") as shelves:
        shelves.add_outcomes("spring", outcomes("nowhere", ["e1"]))
    with store.writing("spring") as shelves:
        shelves.add_batch(batch("b1"))
    with pytest.raises(StateError, match="there already"), store.writing("spring") as shelves:
        shelves.add_batch(batch("b1"))
