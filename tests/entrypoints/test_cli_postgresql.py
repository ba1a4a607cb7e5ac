"""The same commands on PostgreSQL give what they give on SQLite, but for the codes: each database has its own key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]


def life(disco: Run, shop: Path) -> list[dict[str, Any]]:
    """Plan, launch, answer, ingest, learn, revert: the JSON of every step that decides or counts."""

    def done(*arguments: object) -> dict[str, Any]:
        code, out, err = disco(*arguments, "--shop", shop, "--json")
        assert code == 0, err
        result: dict[str, Any] = json.loads(out)
        return result

    planned = done("plan", shop / "first.yaml")
    done("launch", "first")
    done("export", "first", "-o", shop / "codes.csv")
    outcomes = _answers(shop)
    batch = done("ingest", "first", outcomes)
    again = done("ingest", "first", outcomes)
    learned = done("learn", "first", "--as-of", "2025-10-03")
    second = done("plan", shop / "second.yaml", "--dry-run")
    reverted = done("revert", batch["batch_id"])
    results = done("results", "first", "--as-of", "2025-10-03")
    fates = ("received", "applied", "duplicate", "expired", "unmatched", "rejected")
    return [
        {name: planned[name] for name in ("plan_id", "arms", "inputs")},
        {name: (batch[name], again[name]) for name in fates},
        learned,
        {name: second[name] for name in ("plan_id", "arms", "prices")},
        reverted["counts"],
        {name: results[name] for name in ("counts", "arms")},
    ]


def _answers(shop: Path) -> Path:
    """Every fifth receiver buys; a basket grows with the row, so that both databases see equal money."""
    rows = (shop / "codes.csv").read_text().splitlines()[1:]
    lines = ["event_id,campaign_id,customer_id,code,ordered_at,full_price,kind,refers_to"]
    for number, row in enumerate(rows[::5]):
        code, customer = (cell.strip('"') for cell in row.split(",")[:2])
        lines.append(f"e{number},first,{customer},{code},2025-09-05T10:00:00,{20 + number % 60},purchase,")
    path = shop / "answers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_life_on_both_databases(
    disco: Run, shop: Path, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCO_DATABASE_URL", new_postgres_url())
    there = life(disco, shop)
    code, out, _ = disco("doctor", "--shop", shop)
    failed = [line for line in out.splitlines() if line.startswith("failed")]
    assert code == 1
    assert len(failed) == 1, "the tests' server does not sync, and nothing else is wrong"
    assert "fsync = off" in failed[0]
    monkeypatch.delenv("DISCO_DATABASE_URL")
    (shop / "disco.db").unlink()
    assert life(disco, shop) == there
    assert disco("doctor", "--shop", shop)[0] == 0
