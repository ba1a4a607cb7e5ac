"""The same commands on PostgreSQL give what they give on SQLite, but for the codes: each database has its own key."""

import json
import shutil
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
    shutil.rmtree(shop / "artefacts")  # they belong to another database
    there = life(disco, shop)
    code, out, _ = disco("doctor", "--shop", shop)
    failed = [line for line in out.splitlines() if line.startswith("failed")]
    assert code == 1
    assert len(failed) == 1, "the tests' server does not sync, and nothing else is wrong"
    assert "fsync = off" in failed[0]
    monkeypatch.delenv("DISCO_DATABASE_URL")
    (shop / "disco.db").unlink()
    shutil.rmtree(shop / "artefacts")
    assert life(disco, shop) == there
    assert disco("doctor", "--shop", shop)[0] == 0


def test_two_folders_with_one_database_and_one_artefact_place_are_one_shop(
    disco: Run, shop: Path, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> None:
    other, url = Path(shutil.copytree(shop, tmp_path / "other")), new_postgres_url()
    for folder in (shop, other):  # only tables and network are left in each
        (folder / "disco.db").unlink()
        shutil.rmtree(folder / "artefacts")
        (folder / "disco.yaml").write_text(f"database_url: {url}\nartefacts: {tmp_path / 'shared'}\n")

    def done(folder: Path, *arguments: object) -> dict[str, Any]:
        code, out, err = disco(*arguments, "--shop", folder, "--json")
        assert code == 0, err
        result: dict[str, Any] = json.loads(out)
        return result

    planned = done(shop, "plan", shop / "first.yaml")
    assert done(other, "launch", planned["plan_id"])["customers"] == planned["customers"]
    for folder in (shop, other):
        done(folder, "export", "first", "-o", folder / "codes.csv")
    assert (shop / "codes.csv").read_bytes() == (other / "codes.csv").read_bytes()
    received = done(shop, "ingest", "first", _answers(other))
    learned = done(other, "learn", "first", "--as-of", "2025-10-03")["campaigns"]["first"]
    assert 0 < learned <= received["applied"], "customers without a context of their own teach nothing"
    assert done(shop, "campaigns", "first") == done(other, "campaigns", "first")
    assert done(shop, "results", "first", "--as-of", "2025-10-03") == done(
        other, "results", "first", "--as-of", "2025-10-03"
    )
