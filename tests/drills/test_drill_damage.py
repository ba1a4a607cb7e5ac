"""The short form of `./run drill damage`, and proof that it can fail."""

import random
import sqlite3
from pathlib import Path

import pytest
from damage_drill import FOUND, DamageDrill, Flip, drill
from whole_shop import make_shop


def test_no_changed_byte_changes_an_output_unnoticed() -> None:
    counts = drill(flips=6, seed=1)  # the same bytes every time; the drill itself takes others
    assert counts.total() == 6
    assert counts[f"artefacts: {FOUND}"] > 1


def test_a_change_that_nobody_notices_ends_the_drill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = make_shop(tmp_path / "shop")
    running = DamageDrill(shop, random.Random(1))
    header = Flip(Path("disco.db"), 68, 1)  # the application's own number: SQLite and we never look at it
    assert running.strike(header).startswith("harmless")
    with sqlite3.connect(shop / "disco.db") as connection:
        connection.execute("UPDATE batches SET source = 'elsewhere' WHERE number = 1")
    assert running._look() == FOUND
    monkeypatch.setattr("damage_drill.doctor", lambda _: type("Blind", (), {"failed": ()}))
    with sqlite3.connect(shop / "disco.db") as connection:
        connection.execute("UPDATE outcomes SET full_price_minor = 1 WHERE batch_number = 4")
    with pytest.raises(AssertionError, match="results c2"):
        running._look()
