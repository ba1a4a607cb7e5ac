"""`disco forget` and `disco prune` on a shop with real features, contexts and a trained network."""

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

EXPORTS = ("codes.parquet", "outcomes.parquet", "new.parquet")
Disco = Callable[..., tuple[int, str, str]]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder of temporary files, for this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def done(disco: Disco, *arguments: object) -> dict[str, Any]:
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def kept(*folders: Path) -> Iterator[bytes]:
    """Every file but tables and exports; artefacts and caches also in memory, with what is under nulls."""
    for folder in folders:
        for path in folder.rglob("*"):
            theirs = folder / "data" in path.parents or path.name in EXPORTS
            if not path.is_file() or theirs:
                continue
            yield path.read_bytes()
            if path.suffix in (".arrow", ".parquet"):
                table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
                chunks = [chunk for column in table.columns for chunk in column.chunks]
                yield from (part.to_pybytes() for chunk in chunks for part in chunk.buffers() if part is not None)


def found(needles: list[bytes], *folders: Path) -> list[bytes]:
    texts = list(kept(*folders))
    return [needle for needle in needles if any(needle in text for text in texts)]


def own_figures(shop: Path, customer: str) -> list[bytes]:
    """The bits of those features that nobody else has, in any column."""
    own: set[float] = set()
    others: set[float] = set()
    for path in (shop / "artefacts").rglob("*"):
        if path.suffix not in (".arrow", ".parquet"):
            continue
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        if "orders_365d" not in table.column_names:
            continue
        for row in table.to_pylist():
            figures = {figure for figure in row.values() if isinstance(figure, float) and figure != round(figure, 2)}
            (own if row["customer_id"] == customer else others).update(figures)
    return [struct.pack("<d", figure) for figure in sorted(own - others)]


def test_a_customer_is_forgotten_and_the_campaigns_go_on(disco: Disco, shop: Path, temporary: Path) -> None:
    here = ("--shop", shop)
    done(disco, "plan", shop / "second.yaml", *here)
    done(disco, "launch", "second", *here)
    done(disco, "export", "second", "-o", shop / "new.parquet", *here)
    done(disco, "respond", shop / "data", shop / "new.parquet", "-o", shop / "outcomes.parquet")
    done(disco, "ingest", "second", shop / "outcomes.parquet", *here)
    bought = set(pq.read_table(shop / "outcomes.parquet")["customer_id"].to_pylist())
    first = set(pq.read_table(shop / "codes.parquet")["customer_id"].to_pylist())
    customer = sorted(bought & first)[0]
    (shop / ".disco-abcdefgh.partial").write_text(f"half an export of {customer}")
    left = temporary / f"disco-{os.geteuid()}" / "spill-abcdefgh"
    left.mkdir(parents=True)
    (left / "rows").write_text(customer)
    needles = [customer.encode(), *own_figures(shop, customer)]
    assert len(needles) > 5
    assert found(needles, shop, temporary) == needles

    kept = done(disco, "access", customer, "-o", shop / "kept.json", *here)
    assert json.loads((shop / "kept.json").read_text()) == kept
    places = {(one["where"], one["place"]) for one in kept["records"]}
    assert {("second", place) for place in ("decision", "context", "features", "outcome")} <= places
    (shop / "kept.json").unlink()
    code, out, _ = disco("access", customer, *here)
    assert (code, "- second, outcome: 1" in out, "Your own tables" in out) == (0, True, True)

    before = done(disco, "results", "second", "--as-of", "2025-11-15", *here)
    rehearsed = done(disco, "forget", customer, "nobody", "--dry-run", *here)
    assert found(needles, shop, temporary) == needles, "a rehearsal"
    result = done(disco, "forget", customer, "nobody", *here)
    assert {**rehearsed, "files": result["files"], "dry_run": False} == result
    assert (result["customers"], result["found"], result["unfinished"]) == (2, 1, [])
    assert {one["campaign"] for one in result["campaigns"]} == {"first", "second"}
    assert str(shop / "data") in result["elsewhere"][0]
    assert found(needles, shop, temporary) == []
    assert done(disco, "access", customer, *here)["records"] == []

    assert disco("doctor", *here)[0] == 0
    after = done(disco, "results", "second", "--as-of", "2025-11-15", *here)
    for arm, group in after["arms"].items():
        assert group["summary"] == before["arms"][arm]["summary"]
    assert done(disco, "learn", "first", "second", "--as-of", "2025-12-03", *here)["changed"]
    assert done(disco, "export", "second", "-o", shop / "new.parquet", *here)["codes"] == before_codes(before) - 1
    others = [one for one in sorted(bought) if one != customer]
    assert done(disco, "explain", "second", others[0], *here)["customer"] == others[0]
    code, _, err = disco("explain", "second", customer, *here)
    assert (code, "was not part of" in err) == (1, True)
    day = ("--as-of", "2025-10-10", *here)
    code, _, err = disco("late", "second", customer, *day)
    assert (code, "was forgotten after campaign second" in err) == (1, True)
    assert done(disco, "late", "second", others[0], *day)["decisions"]
    again = done(disco, "ingest", "second", shop / "outcomes.parquet", *here)
    assert again["applied"] == 0
    assert [one["rows"] for one in again["reasons"] if one["reason"] == "the customer was forgotten"] == [1]

    done(disco, "propensities", "second", "--draws", 20, *here)
    network = ("--window-start", "2025-05-01", "--max-epochs", 1, "-o", shop / "context.safetensors")
    done(disco, "train", "context", "--tables", shop / "data", *network)
    assert set(done(disco, "learn", "--rebuild", "--as-of", "2025-12-03", *here)["campaigns"]) == {"first", "second"}
    assert disco("doctor", *here)[0] == 0
    assert done(disco, "forget", customer, *here)["found"] == 0
    assert found(needles, shop, temporary) == []


def before_codes(results: dict[str, Any]) -> int:
    return sum(sum(group["codes"].values()) for group in results["arms"].values())


def test_forget_takes_a_file_and_needs_somebody(disco: Disco, shop: Path) -> None:
    code, out, err = disco("forget", "--shop", shop)
    assert (code, out) == (2, "")
    assert "--file" in err
    (shop / "ids.txt").write_text("nobody\n\nnobody else\n")
    code, out, _ = disco("forget", "--file", shop / "ids.txt", "--shop", shop)
    assert code == 0
    assert "0 of 2 customers were forgotten; nothing is kept of the others." in out
    assert "Exported codes" in out
    code, _, err = disco("forget", "--file", shop / "absent.txt", "--shop", shop)
    assert (code, "no such file" in err) == (1, True)


def test_prune_says_what_it_frees(disco: Disco, shop: Path, temporary: Path) -> None:
    here = ("--shop", shop)
    unlaunched = done(disco, "plan", shop / "second.yaml", *here)["plan_id"]
    (shop / "artefacts" / f"{'0' * 64}.arrow").write_bytes(b"left by a crash")
    (shop / "artefacts" / "notes.arrow").write_bytes(b"somebody's own")
    for file in (shop / "artefacts" / "features").iterdir():
        os.utime(file, (0, 0))
    nothing = done(disco, "prune", "--older-than", "90y", *here)
    assert (nothing["artefacts"], nothing["plans"], nothing["raw"], nothing["features"]) == (1, [], 0, [])
    assert nothing["freed_bytes"] == len(b"left by a crash")
    shutil.copy(shop / "artefacts" / "notes.arrow", shop / "artefacts" / f"{'0' * 64}.arrow")
    code, out, _ = disco("prune", "--older-than", "1d", "--dry-run", *here)
    assert code == 0
    assert "Would be removed" in out
    assert "- 2 files of cached features" in out
    assert (shop / "artefacts" / f"{'0' * 64}.arrow").exists()
    result = done(disco, "prune", "--older-than", "1d", *here)
    assert (result["caches"], result["plans"], result["artefacts"]) == (2, [], 1), "the plan is of today"
    assert (shop / "artefacts" / "notes.arrow").exists()
    assert done(disco, "launch", unlaunched, *here)["campaign"] == "second"
    assert disco("doctor", *here)[0] == 0


@pytest.mark.parametrize("age", ["400", "0d", "-4d", "4 d", "1e3d", "999999y", "", "d"])
def test_an_age_that_is_none_is_wrong_usage(disco: Disco, shop: Path, age: str) -> None:
    code, _, err = disco("prune", "--older-than", age, "--shop", shop)
    assert code == 2
    assert "400d" in err
