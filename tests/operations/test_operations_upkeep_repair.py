"""`disco doctor --repair` brings back what ledger and plans can give, exactly, and builds nothing from damaged rows."""

import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from whole_shop import make_shop

from disco.entrypoints.python import Shop, doctor
from disco.operations.upkeep import HealthCheck
from disco.records.errors import StateError

EVIDENCE = (
    "UPDATE evidence SET evidence = CAST(replace(CAST(evidence AS TEXT), 'redeemed\":[', 'redeemed\":[1') AS BLOB)"
)
# statements, and what the repair must say that it changed
REPAIRABLE = {
    "evidence": (EVIDENCE, "evidence"),
    "evidence cut, gone and as text": (
        "UPDATE evidence SET evidence = substr(evidence, 1, 9) WHERE campaign_number = 1;"
        "DELETE FROM evidence WHERE campaign_number = 2;"
        "UPDATE evidence SET evidence = CAST(evidence AS TEXT) WHERE campaign_number = 3",
        "evidence",
    ),
    "the table of evidence": ("DROP TABLE evidence", "evidence"),
    "dispositions and reasons": (
        "UPDATE outcomes SET disposition = 'rejected', reason = 'a whim' WHERE raw IS NULL AND batch_number = 4",
        "classified again",
    ),
    "an unknown disposition": (
        "UPDATE outcomes SET disposition = 'lost' WHERE raw IS NULL AND batch_number = 1 AND row = 5",
        "classified again",
    ),
    "rows reverted without their batch": ("UPDATE outcomes SET reverted = 1 WHERE batch_number = 1", "reverted"),
    "rows in force of a reverted batch": (
        "UPDATE outcomes SET reverted = 0 WHERE batch_number = 3 AND disposition <> 'applied'",
        "reverted",
    ),
    "the reserve": ("UPDATE reserves SET codes = codes + 1000", "reserve"),
    "no reserve": ("DELETE FROM reserves", "reserve"),
    "text in reserve": ("UPDATE reserves SET codes = 'many' WHERE depth = 0.2", "reserve"),
    "the table of reserves": ("DROP TABLE reserves", "reserve"),
    "indexes of the schema": ("DROP INDEX outcomes_one_event_in_force; DROP INDEX plans_by_campaign", "index"),
    "names of indexes": ("UPDATE campaigns SET customer_index = code_index, code_index = NULL", "index"),
    "all at once": (
        f"{EVIDENCE}; UPDATE reserves SET codes = 0; DROP INDEX outcomes_by_code;"
        "UPDATE outcomes SET disposition = 'duplicate' WHERE raw IS NULL AND NOT reverted;"
        "UPDATE campaigns SET code_index = 'gone'",
        "classified again",
    ),
}
NOT_REPAIRABLE = {
    "a price": "UPDATE outcomes SET full_price_minor = 1 WHERE batch_number = 4 AND disposition = 'applied'",
    "a row gone": "DELETE FROM outcomes WHERE batch_number = 4 AND row = 3",
    "a batch reverted": "UPDATE batches SET reverted_at = 5 WHERE number = 4",
    "a state and the reserve": "UPDATE campaigns SET state = 'closed'; UPDATE reserves SET codes = 0",
    "a plan": "UPDATE plans SET plan = replace(plan, 'days\":30', 'days\":31')",
    "a late arrival": "UPDATE late_decisions SET depth = 0.4",
    "a version": "UPDATE versions SET engagement = replace(engagement, 'sent\":[', 'sent\":[1')",
    "the secret": "UPDATE secrets SET value = x'00'",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("whole") / "shop")


@pytest.fixture
def copy(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "temporary").mkdir()  # of its own: a repair removes what killed processes left in the common one
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return Path(shutil.copytree(whole, tmp_path / "shop"))


def do(shop: Path, statements: str) -> None:
    connection = sqlite3.connect(shop / "disco.db")
    connection.executescript(statements)
    connection.close()


def content(shop: Path) -> dict[str, list[Any]]:
    """Every row of every table but the journal, in which the repair itself stands; and the indexes."""
    connection = sqlite3.connect(shop / "disco.db")
    connection.text_factory = bytes
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_stat1'"  # figures for the planner
    names = sorted({row[0].decode() for row in connection.execute(tables)} - {"journal", "tallies"})
    found = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    indexes = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name").fetchall()
    connection.close()
    return {**found, "indexes": indexes}


def failures(found: HealthCheck) -> list[str]:
    return [f"{one.check}, {one.where}: {one.found} {one.fix}" for one in found.failed if one.check != "network"]


@pytest.mark.parametrize("name", REPAIRABLE)
def test_what_ledger_and_plans_can_give_is_exactly_what_it_was(whole: Path, copy: Path, name: str) -> None:
    statements, words = REPAIRABLE[name]
    do(copy, statements)
    assert content(copy) != content(whole)
    repaired = doctor(copy, repair=True)
    assert failures(repaired) == []
    assert any(words in one.changed for one in repaired.repaired)
    assert content(copy) == content(whole)
    if name == "all at once":
        assert doctor(copy, repair=True).repaired == (), "a second repair finds nothing to do"


@pytest.mark.parametrize("name", NOT_REPAIRABLE)
def test_nothing_is_built_from_rows_that_were_changed(copy: Path, name: str) -> None:
    do(copy, NOT_REPAIRABLE[name])
    before = content(copy)
    left = doctor(copy, repair=True)
    assert any("backup" in one for one in failures(left))
    assert left.repaired == ()
    assert content(copy) == before


def test_an_index_whose_file_is_damaged_or_gone_is_built_again(copy: Path) -> None:
    connection = sqlite3.connect(copy / "disco.db")
    ((by_customer, by_code),) = connection.execute(
        "SELECT customer_index, code_index FROM campaigns WHERE campaign = 'c2'"
    ).fetchall()
    connection.close()
    (copy / "artefacts" / f"{by_customer}.arrow").unlink()
    (copy / "artefacts" / f"{by_code}.arrow").write_bytes(b"ARROW1 and nothing else")
    assert failures(doctor(copy))
    repaired = doctor(copy, repair=True)
    assert failures(repaired) == []
    assert sorted(one.changed for one in repaired.repaired) == [
        "The index of codes was built again from the decisions.",
        "The index of customers was built again from the decisions.",
    ]


def test_decisions_that_are_damaged_are_not_made_up(copy: Path) -> None:
    connection = sqlite3.connect(copy / "disco.db")
    ((decisions,),) = connection.execute("SELECT decisions FROM plans WHERE campaign = 'c2'").fetchall()
    connection.close()
    (copy / "artefacts" / f"{decisions}.arrow").unlink()
    do(copy, EVIDENCE)
    left = doctor(copy, repair=True)
    assert any("c2" in one and "missing" in one for one in failures(left))
    assert {one.where for one in left.repaired} == {"campaign c1", "campaign c4"}


def test_nothing_learns_from_damaged_evidence(copy: Path) -> None:
    do(copy, EVIDENCE)
    before = content(copy)
    shop = Shop.open(copy, now=datetime(2026, 1, 1, tzinfo=UTC))
    unused = shop.export("c2").to_arrow().slice(2, 1)  # every third code was not used
    texts = {"event_id": "e", "campaign_id": "c2", "ordered_at": "2025-10-02", "full_price": "5.00", "kind": "purchase"}
    mine = pa.table(
        {
            "customer_id": unused["customer_id"],
            "code": unused["code_id"],
            "refers_to": pa.nulls(1, pa.string()),
            **{name: [text] for name, text in texts.items()},
        }
    )
    for work in (lambda: shop.learn("c2"), lambda: shop.learn("c4"), lambda: shop.ingest("c2", mine)):
        with pytest.raises(StateError, match=r"evidence of campaign c.*doctor --repair"):
            work()
    assert content(copy) == before
    assert failures(doctor(copy, repair=True)) == []
    assert shop.ingest("c2", mine).applied == 1
    assert shop.learn("c2").changed
