"""The ledger of every store: rows as received, one disposition each, an event in force once, reverted batches aside."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from store_samples import MOMENT, add_campaign, batch, outcomes, receive
from stores import open_store

from disco.records.campaign_records import Disposition
from disco.records.errors import InputError, StateError
from disco.store import Store
from disco.store.schema import OUTCOMES

pytestmark = pytest.mark.usefixtures("kept_as")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url)
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
        add_campaign(transaction, "autumn")
    yield store
    store.close()


def _changes(*rows: tuple[str, int, Disposition, str | None]) -> pa.Table:
    names = ("batch_id", "row", "disposition", "reason")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_rows_come_back_as_received_in_the_order_received(store: Store) -> None:
    strange = outcomes(
        "b-second",
        ["e3", None, "", "e4\n,\"'"],
        customer_id=["7", None, "ñ 🛍", ""],
        code=[None, "X", "", "Y"],
        kind=["refund", None, "purchase", "correction"],
        refers_to=["e1", None, None, ""],
        ordered_at=[MOMENT, None, -1, 2**53],
        full_price_minor=[-5, None, 0, 2**62],
        disposition=["unmatched", "rejected", "expired", "applied"],
        reason=["waits", "", None, "r\n"],
        raw=[None, '{"full_price": "=1+1"}', None, ""],
    )
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b-second"), strange)  # the order of arrival counts, not the order of the ids
        receive(transaction, batch("a-third"), outcomes("a-third", ["e9"]))
    with store.reading() as transaction:
        kept = transaction.ledger.outcomes("spring")
        assert kept.schema == OUTCOMES
        assert kept.equals(pa.concat_tables([strange, outcomes("a-third", ["e9"])]))
        assert [record.batch_id for record in transaction.ledger.batches("spring")] == ["b-second", "a-third"]
        assert transaction.ledger.batch("b-se") == batch("b-second")
        with pytest.raises(StateError, match="at least 4 characters"):
            transaction.ledger.batch("b-s")
        assert transaction.ledger.batches("autumn") == ()
        assert transaction.ledger.outcomes("autumn").equals(OUTCOMES.empty_table())
        with pytest.raises(StateError, match="There is no batch"):
            transaction.ledger.batch("c")


def test_restrictions_hold_together(store: Store) -> None:
    table = outcomes(
        "b1",
        ["e1", "e2", "r1", "e1"],
        code=["A", "B", "A", "A"],
        refers_to=[None, None, "e1", None],
        disposition=["applied", "expired", "applied", "duplicate"],
    )
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), table)
        receive(transaction, batch("b2"), outcomes("b2", ["e5", "e6"], code=["A", None]))

        def found(**asked: object) -> list[tuple[str, int]]:
            rows = transaction.ledger.outcomes("spring", **asked)
            return list(zip(rows["batch_id"].to_pylist(), rows["row"].to_pylist(), strict=True))

        assert found(events=pa.array(["e1", "e5", "no"])) == [("b1", 0), ("b1", 3), ("b2", 0)]
        assert found(codes=pa.array(["A"])) == [("b1", 0), ("b1", 2), ("b1", 3), ("b2", 0)]
        assert found(refers_to=pa.array(["e1", "e2"])) == [("b1", 2)]
        assert found(batch_id="b2") == [("b2", 0), ("b2", 1)]
        assert found(dispositions=[Disposition.EXPIRED, Disposition.DUPLICATE]) == [("b1", 1), ("b1", 3)]
        assert found(events=pa.array(["e1"]), dispositions=[Disposition.APPLIED]) == [("b1", 0)]
        assert found(events=pa.array(["e1", "e5"]), codes=pa.array(["A"]), batch_id="b2") == [("b2", 0)]
        assert found(codes=pa.array([], pa.string())) == []
        assert found(dispositions=[]) == []
        with pytest.raises(InputError, match="NUL"):
            found(events=pa.array(["e\0"]))


@pytest.mark.parametrize("others", [0, 400])
def test_rows_that_share_an_event_a_code_or_a_reference_come_once(store: Store, others: int) -> None:
    """However many are asked for: more texts than the ledger has rows are compared outside the database."""
    table = outcomes(
        "b1",
        ["e1", "e2", "r1", "e1", "q"],
        code=["A", "B", "A", "A", "A"],
        refers_to=[None, None, "e1", None, None],
        disposition=["applied", "expired", "applied", "duplicate", "rejected"],
        raw=[None, None, None, None, "{}"],
    )
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), table)
        receive(transaction, batch("b2"), outcomes("b2", ["e5", "e6"], code=["A", None]))
        receive(transaction, batch("b3"), outcomes("b3", ["e7"], code=["C"]))
        receive(transaction, batch("b4", "autumn"), outcomes("b4", ["e1"], code=["A"]))
        receive(transaction, replace(batch("b3"), reverted_at=batch("b3").received_at))

        def found(events: list[str], codes: list[str]) -> list[tuple[str, int]]:
            more = [f"no {number}" for number in range(others)]
            given = (pa.array([*texts, *more], pa.string()) for texts in (events, codes))
            rows = transaction.ledger.sharing("spring", **dict(zip(("events", "codes"), given, strict=True)))
            assert rows.schema == OUTCOMES
            return list(zip(rows["batch_id"].to_pylist(), rows["row"].to_pylist(), strict=True))

        assert found(["e1", "e5"], []) == [("b1", 0), ("b1", 2), ("b1", 3), ("b2", 0)]
        assert found([], ["A"]) == [("b1", 0), ("b1", 2), ("b1", 3), ("b2", 0)]
        assert found(["e6", "e2"], ["B"]) == [("b1", 1), ("b2", 1)]
        assert found(["e7", "q"], ["C"]) == []
        assert found([], []) == []


def test_an_event_is_in_force_once_per_campaign(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), outcomes("b1", ["e1", "e1"], disposition=["applied", "duplicate"]))
        receive(transaction, batch("b3", "autumn"), outcomes("b3", ["e1"]))
    with pytest.raises(StateError, match="already exists"), store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b2"), outcomes("b2", ["e0", "e1"]))
    with pytest.raises(StateError, match="already exists"), store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b2"), changes=_changes(("b1", 1, Disposition.APPLIED, None)))
    with store.reading() as transaction:
        assert transaction.ledger.outcomes("spring").num_rows == 2


def test_applied_moves_from_one_row_of_an_event_to_another(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        rows = outcomes("b1", ["e1", "e1", "e2"], disposition=["applied", "duplicate", "expired"])
        receive(transaction, batch("b1"), rows)
        for gains, loses in ((1, 0), (0, 1)):
            receive(
                transaction,
                batch(f"another {gains}"),
                changes=_changes(
                    ("b1", gains, Disposition.APPLIED, None), ("b1", loses, Disposition.DUPLICATE, "seen, twice")
                ),
            )
            kept = transaction.ledger.outcomes("spring")
            assert kept["disposition"].to_pylist()[gains] == "applied"
            assert kept["reason"].to_pylist()[loses] == "seen, twice"
            assert kept["disposition"].to_pylist()[2] == "expired"
        assert kept["reason"].to_pylist()[0] is None
        assert transaction.ledger.counts("spring").to_pylist() == [
            {"batch_id": "b1", "disposition": name, "rows": 1} for name in ("applied", "duplicate", "expired")
        ]


def test_a_reverted_batch_leaves_everything_but_its_own_page(store: Store) -> None:
    reverted = replace(batch("b1"), reverted_at=MOMENT)
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), outcomes("b1", ["e1", "e2"]))
        receive(transaction, batch("b2"), outcomes("b2", ["e1", "e3"], disposition=["duplicate", "applied"]))
        receive(
            transaction, reverted, changes=_changes(("b2", 0, Disposition.APPLIED, None))
        )  # the event is free again
        with pytest.raises(StateError, match="not in force"):
            receive(transaction, reverted)
        with pytest.raises(StateError):
            receive(transaction, replace(reverted, batch_id="b9"))
    with store.reading() as transaction:
        assert transaction.ledger.outcomes("spring").equals(outcomes("b2", ["e1", "e3"]))
        assert transaction.ledger.outcomes("spring", events=pa.array(["e1"])).num_rows == 1
        assert transaction.ledger.outcomes("spring", batch_id="b1").equals(outcomes("b1", ["e1", "e2"]))
        assert transaction.ledger.counts("spring").to_pylist() == [
            {"batch_id": "b2", "disposition": "applied", "rows": 2}
        ]
        assert [record.reverted_at for record in transaction.ledger.batches("spring")] == [MOMENT, None]
    with store.writing("spring", action="test") as transaction:  # the same file may come again
        receive(transaction, batch("b3"), outcomes("b3", ["e2"]))


def test_rows_need_their_batch(store: Store) -> None:
    with pytest.raises(StateError, match="There is no batch"), store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), outcomes("nowhere", ["e1"]))
    with store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"))
    with pytest.raises(StateError, match="already exists"), store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"))
