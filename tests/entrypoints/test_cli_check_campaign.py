"""`disco check CAMPAIGN`: a sound campaign passes; unreadable outcomes and evidence that is not the ledger's do not."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

Run = Callable[..., tuple[int, str, str]]
ON_THE_WAY = ("first", "--as-of", "2025-10-03")


def diagnoses(disco: Run, shop: Path) -> tuple[int, dict[str, str]]:
    code, out, err = disco("check", *ON_THE_WAY, "--shop", shop, "--json")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    campaign = ("arms", "outcomes", "prediction", "learning", "codes", "caps", "ledger", "counts", "evidence")
    return code, {one["check"]: one["outcome"] for one in found["diagnoses"] if one["check"] in campaign}


def test_a_sound_campaign(disco: Run, shop: Path) -> None:
    _, found = diagnoses(disco, shop)
    assert found == {
        "arms": "skipped",  # nobody was in control
        "prediction": "skipped",  # nothing was known before
        **dict.fromkeys(("outcomes", "learning", "codes", "caps", "ledger", "counts", "evidence"), "ok"),
    }


def test_many_unreadable_outcomes_fail_the_check(disco: Run, shop: Path) -> None:
    table = pq.read_table(shop / "outcomes.parquet")
    wrong = table.set_column(table.column_names.index("code"), "code", [["NOBODY"] * table.num_rows])
    pacsv.write_csv(wrong, shop / "wrong.csv")
    assert disco("ingest", "first", shop / "wrong.csv", "--shop", shop)[0] == 0
    code, found = diagnoses(disco, shop)
    assert (code, found["outcomes"]) == (1, "failed")


def test_changed_evidence_fails_the_check(disco: Run, shop: Path) -> None:
    with sqlite3.connect(shop / "disco.db") as connection:
        assert connection.execute("UPDATE outcomes SET full_price_minor = 1 WHERE row = 0").rowcount
    code, found = diagnoses(disco, shop)
    assert (code, found["evidence"]) == (1, "failed")


def test_a_campaign_brings_its_own_features(disco: Run, shop: Path) -> None:
    assert disco("check", "first", "--features", shop / "x.parquet", "--shop", shop)[0] == 2
    code, _, err = disco("check", "nobody", "--shop", shop)
    assert code == 1
    assert "nobody" in err


def test_a_page_of_forecasts_needs_a_forecast(disco: Run, shop: Path) -> None:
    code, _, err = disco("check", "first", "--html", shop / "page.html", "--shop", shop)
    assert code == 1
    assert "Campaign first has no forecast to compare" in err
    assert not (shop / "page.html").exists()
    assert disco("check", "--features", shop / "x.parquet", "--html", shop / "page.html", "--shop", shop)[0] == 2
