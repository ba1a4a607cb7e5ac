"""Packs: a ledger that keeps large batches as artefacts says and does what one with rows of the database does."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from store_samples import batch, outcomes, receive
from stores import artefacts_of, on_both_databases, open_store

from disco.operations.launch import recall
from disco.operations.learn import rebuilt_evidence
from disco.operations.outcomes import ingest, revert
from disco.operations.upkeep import RepairLog, audit, repair_campaigns
from disco.records.campaign_records import Disposition
from disco.records.errors import DiscoError, StateError
from disco.store import ledger
from disco.store.copying import copy_out
from disco.store.schema import OUTCOMES
from disco.store.store import open_database

MANY = 10**9
COLUMNS = ("event_id", "customer_id", "code", "ordered_at", "full_price", "kind", "refers_to")


@pytest.fixture
def url(database_url, monkeypatch):
    monkeypatch.setattr(ledger, "LEAST_ROWS", 1)
    return database_url


@pytest.fixture
def packed(url, make_shop):
    """A launched campaign whose batches are packed."""
    store = open_store(url)
    yield make_shop(store)
    store.close()


def table_of(rows):
    columns = [pa.array([row[name] for row in rows], _KINDS.get(name)) for name in COLUMNS]
    return pa.table(columns, names=list(COLUMNS)).append_column("campaign_id", pa.array(["spring"] * len(rows)))


_KINDS = {"ordered_at": pa.timestamp("us"), "refers_to": pa.string(), "event_id": pa.string()}


def random_batch(dice, sent, events):
    """Purchases, events seen before with the same or other content, refunds and corrections, and rows set aside."""
    rows = []
    for _ in range(int(dice.integers(5, 30))):
        decision = sent[int(dice.integers(len(sent)))]
        kind = dice.choice(["purchase", "purchase", "purchase", "refund", "correction"])
        known = [event for event in events if event is not None]
        event = f"e{dice.integers(10**6)}"
        if known and dice.random() < 0.3:
            event = known[int(dice.integers(len(known)))]
        refers = None if kind == "purchase" else known[int(dice.integers(len(known)))] if known else "e-unknown"
        rows.append(
            {
                "event_id": event,
                "customer_id": str(decision["customer_id"]) if dice.random() < 0.95 else "somebody else",
                "code": decision["code"],
                "ordered_at": datetime(2027, 3, int(dice.integers(9, 13)), 12),
                "full_price": round(float(dice.integers(1, 4)) * 10.25, 2),
                "kind": kind,
                "refers_to": refers,
            }
        )
        events.append(event)
    return table_of(rows)


def looks(store, dice_seed):
    """Everything that a ledger is asked for."""
    dice = np.random.default_rng(dice_seed)
    with store.reading() as transaction:
        ledger, record = transaction.ledger, transaction.plans.campaign("spring")
        rows = ledger.outcomes("spring")
        some = rows.take(pa.array(dice.integers(0, rows.num_rows, 5)))
        events, codes = (some[name].combine_chunks() for name in ("event_id", "code"))
        stored = transaction.beliefs.evidence("spring", record.network)
        assert rebuilt_evidence(transaction, record, record.network).to_bytes() == stored
        return [
            rows,
            ledger.counts("spring").to_pylist(),
            ledger.applied("spring"),
            ledger.applied("spring", before=datetime.fromisoformat("2027-03-10T00:00:00+00:00")),
            ledger.sharing("spring", events=events, codes=codes),
            ledger.outcomes("spring", events=events),
            ledger.outcomes("spring", codes=codes, dispositions=[Disposition.APPLIED, Disposition.REJECTED]),
            ledger.outcomes("spring", events=events, codes=codes),
            ledger.outcomes("spring", refers_to=events),
            *(ledger.outcomes("spring", batch_id=one.batch_id) for one in ledger.batches("spring")),
            stored,
        ]


def cells(store, statement):
    with store._database.reading() as connection:
        return connection.exec_driver_sql(statement).fetchall()


@on_both_databases
@pytest.mark.parametrize("seed", range(2))
def test_every_answer_is_that_of_a_ledger_with_rows(new_database_url, make_shop, monkeypatch, seed):
    stores = [open_store(new_database_url()) for _ in range(2)]
    shops = [make_shop(store) for store in stores]
    sent = [shop.sent(shop.launch()) for shop in shops]
    assert sent[0] == sent[1]
    dice, events, hidden = np.random.default_rng(seed), [], 0
    for turn in range(6):
        rows, ends = random_batch(dice, sent[0][:20], events), []
        taken_back = int(dice.integers(turn)) if turn % 2 else None
        for store, least in zip(stores, (1, MANY), strict=True):
            monkeypatch.setattr(ledger, "LEAST_ROWS", least)
            ends.append([ingest(store, "spring", rows, source=f"{turn}", clock=shops[0].clock).to_json()])
            with store.reading() as transaction:
                batches = transaction.ledger.batches("spring")
            if taken_back is not None and batches[taken_back].reverted_at is None:
                ends[-1].append(revert(store, batches[taken_back].batch_id, clock=shops[0].clock).to_json())
            ends[-1].append(looks(store, seed))
        assert ends[0] == ends[1]
        in_packs = cells(stores[0], "SELECT number, pack FROM batches WHERE pack IS NOT NULL ORDER BY number")
        numbers = {(number, row) for number, row in cells(stores[0], "SELECT batch_number, row FROM outcomes")}
        for number, name in in_packs:
            table = stores[0]._artefacts.get(name)
            hidden += sum((number, row) in numbers for row in table["row"].to_pylist())
    assert in_packs, "nothing was packed"
    assert hidden, "no row of a pack was judged otherwise"
    assert not cells(stores[1], "SELECT 1 FROM batches WHERE pack IS NOT NULL")
    for store in stores:
        assert not [one for one in audit(store) if not one.ok]
    for store in stores:
        monkeypatch.setattr(ledger, "LEAST_ROWS", MANY)
        recall(store, "spring", clock=shops[0].clock)
    assert looks(stores[0], seed) == looks(stores[1], seed)
    for store in stores:
        store.close()


def test_only_enough_purchases_that_count_are_packed():
    def rows(count, **columns):
        standard = {
            **dict.fromkeys(("batch_id", "event_id", "customer_id", "code"), ["x"] * count),
            **dict.fromkeys(("refers_to", "reason", "raw"), [None] * count),
            "row": range(count),
            "kind": ["purchase"] * count,
            "ordered_at": [0] * count,
            "full_price_minor": [1] * count,
            "disposition": ["applied"] * count,
        }
        values = {**standard, **columns}
        return pa.table([pa.array(values[field.name], field.type) for field in OUTCOMES], schema=OUTCOMES)

    least = ledger.LEAST_ROWS
    assert ledger.packable(rows(least - 1)) is None
    assert ledger.packable(rows(least)).all()
    assert ledger.packable(rows(least, disposition=["duplicate", *["applied"] * (least - 1)])) is None
    others = {"kind": "refund", "refers_to": "e", "disposition": "expired", "reason": "r", "raw": "{}", "code": None}
    for name, cell in others.items():
        more = rows(least + 1)
        column = pa.array([cell, *more[name].to_pylist()[1:]], OUTCOMES.field(name).type)
        flags = ledger.packable(more.set_column(more.column_names.index(name), OUTCOMES.field(name), column))
        assert flags.tolist() == [False, *[True] * least], name


def test_a_row_that_counts_no_more_leaves_its_pack_and_comes_back(packed):
    sent = packed.sent(packed.launch())
    first = ingest(packed.store, "spring", packed.outcomes(sent), source="a", clock=packed.clock)
    before = looks(packed.store, 1)
    pack = cells(packed.store, "SELECT pack FROM batches")
    assert not cells(packed.store, "SELECT 1 FROM outcomes")
    smaller = packed.outcomes(sent[:1], full_price=[10.0])
    second = ingest(packed.store, "spring", smaller, source="b", clock=packed.clock)
    assert second.redisposed == 1
    assert cells(packed.store, "SELECT pack FROM batches ORDER BY number")[0] == pack[0]
    assert cells(packed.store, "SELECT disposition FROM outcomes WHERE batch_number = 1") == [("rejected",)]
    revert(packed.store, second.batch_id, clock=packed.clock)
    assert [one for one in looks(packed.store, 1) if isinstance(one, bytes)] == [
        one for one in before if isinstance(one, bytes)
    ]
    with packed.store.reading() as transaction:
        assert transaction.ledger.counts("spring").to_pylist() == [
            {"batch_id": first.batch_id, "disposition": "applied", "rows": len(sent)}
        ]
    assert not [one for one in audit(packed.store) if not one.ok]


HIDING = {
    "the row that hides it deleted": ("DELETE FROM outcomes WHERE batch_number = 1", "ledger"),
    "another amount in the row that hides it": (
        "UPDATE outcomes SET full_price_minor = 1 WHERE batch_number = 1",
        "seals",
    ),
    "another number of the row that hides it": ("UPDATE outcomes SET row = row + 1 WHERE batch_number = 1", "seals"),
}


@pytest.mark.parametrize("damage", HIDING)
def test_a_change_of_what_hides_a_row_is_found(packed, damage):
    statement, check = HIDING[damage]
    sent = packed.sent(packed.launch())
    ingest(packed.store, "spring", packed.outcomes(sent), source="a", clock=packed.clock)
    ingest(packed.store, "spring", packed.outcomes(sent[:1], full_price=[10.0]), source="b", clock=packed.clock)
    assert not [one for one in audit(packed.store) if not one.ok]
    with packed.store._database.engine.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount == 1
    assert check in [one.check for one in audit(packed.store) if not one.ok]


def test_a_rehearsal_and_a_failure_leave_no_pack_in_force(packed, url):
    sent = packed.sent(packed.launch())
    files = set(artefacts_of(url).iterdir())
    done = ingest(packed.store, "spring", packed.outcomes(sent), source="a", clock=packed.clock, dry_run=True)
    assert done.applied == len(sent)
    assert set(artefacts_of(url).iterdir()) == files
    with pytest.raises(StateError, match="already exists"):  # the pack is put before the rows that are refused
        _received(packed.store, [_twice("b1", "e1"), _twice("b2", "e1")])
    with packed.store.reading() as transaction:
        assert transaction.ledger.outcomes("spring").num_rows == 0
        assert transaction.ledger.batches("spring") == ()
    assert set(artefacts_of(url).iterdir()) > files  # what was put is named by nothing, and pruned
    packed.store.remove_unnamed()
    assert set(artefacts_of(url).iterdir()) <= files


def _twice(batch_id, event):
    return batch(batch_id), outcomes(batch_id, [event, f"{event} of {batch_id}"])


def _received(store, moves):
    with store.writing("spring", action="test") as transaction:
        for record, rows in moves:
            receive(transaction, record, rows)


DAMAGES = {
    "no pack": ("UPDATE batches SET pack = NULL", None, "seals"),
    "the pack of another name": (f"UPDATE batches SET pack = '{'0' * 64}'", None, "artefacts"),
    "no index": ("UPDATE batches SET event_index = NULL", None, "artefacts"),
    "the index of codes for events": ("UPDATE batches SET event_index = code_index", None, "index"),
    "a file that is gone": (None, "pack", "artefacts"),
    "an index that is gone": (None, "code_index", "artefacts"),
}


@pytest.mark.parametrize(
    ("new_database_url", "damage"),
    [*(("sqlite", damage) for damage in DAMAGES), ("postgresql", "the index of codes for events")],
    indirect=["new_database_url"],
)
def test_damage_is_found_and_indexes_are_built_again(packed, url, damage):
    statement, column, check = DAMAGES[damage]
    ingest(packed.store, "spring", packed.outcomes(packed.sent(packed.launch())), source="a", clock=packed.clock)
    before = looks(packed.store, 1)
    assert not [one for one in audit(packed.store) if not one.ok]
    if statement is not None:
        with packed.store._database.engine.begin() as connection:
            connection.execute(sa.text(statement))
    else:
        name = cells(packed.store, f"SELECT {column} FROM batches")[0][0]
        (artefacts_of(url) / f"{name}.arrow").unlink()
    found = [one.check for one in audit(packed.store) if not one.ok]
    assert check in found
    repair_campaigns(packed.store, RepairLog())
    left = [one.check for one in audit(packed.store) if not one.ok]
    if "index" in damage:
        assert not left
        assert looks(packed.store, 1) == before
    else:
        assert check in left
    if check == "artefacts" and left:
        with pytest.raises(StateError, match="missing"), packed.store.reading() as transaction:
            transaction.ledger.outcomes("spring")


def test_a_changed_byte_is_refused(packed, url):
    ingest(packed.store, "spring", packed.outcomes(packed.sent(packed.launch())), source="a", clock=packed.clock)
    name = cells(packed.store, "SELECT pack FROM batches")[0][0]
    path = artefacts_of(url) / f"{name}.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DiscoError, match="another content"), packed.store.reading() as transaction:
        transaction.ledger.outcomes("spring")
    assert {"artefacts", "seals"} <= {one.check for one in audit(packed.store) if not one.ok}


def test_packs_are_kept_by_backups_and_by_pruning(packed, url, tmp_path):
    ingest(packed.store, "spring", packed.outcomes(packed.sent(packed.launch())), source="a", clock=packed.clock)
    before = looks(packed.store, 1)
    named = set(cells(packed.store, "SELECT pack, event_index, code_index FROM batches")[0])
    packed.store.remove_unnamed()
    assert looks(packed.store, 1) == before
    database = open_database(url)
    (tmp_path / "copy").mkdir()
    assert named <= set(copy_out(database, tmp_path / "copy").artefacts)
    database.engine.dispose()
