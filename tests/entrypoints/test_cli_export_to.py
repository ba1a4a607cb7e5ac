"""`disco export CAMPAIGN --to URL#TABLE`: codes, decisions and results, each once."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from disco.entrypoints.python import Shop

Run = Callable[..., tuple[int, str, str]]


def done(disco: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    return dict(json.loads(out))


def test_codes_decisions_and_results_are_in_their_tables_once(disco: Run, shop: Path, tmp_path: Path) -> None:
    url, given = f"duckdb:///{tmp_path}/warehouse.duckdb", ("--shop", shop)
    for again in (False, True):
        for what in ("codes", "decisions", "results"):
            put = done(disco, "export", "first", "--to", f"{url}#{what}", "--what", what, *given)
            assert (put["kind"], put["table"], put["changed"]) == (what, f"{url}#{what}", not again)
    with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as there:
        file = Shop.open(shop).export("first").to_arrow()
        assert there.sql("SELECT code_id FROM codes ORDER BY 1").fetchall() == [
            (code,) for code in sorted(file["code_id"].to_pylist())
        ]
        ((people, distinct),) = there.sql("SELECT count(*), count(DISTINCT customer_id) FROM decisions").fetchall()
        assert people == distinct == Shop.open(shop).campaigns("first").campaigns[0].customers
        groups = dict(there.sql('SELECT "group", codes FROM results').fetchall())
        assert sum(groups.values()) == file.num_rows
        assert "email" not in {name for name, *_ in there.sql("DESCRIBE codes").fetchall()}


def test_a_customer_who_was_forgotten_goes_with_the_next_export(disco: Run, shop: Path, tmp_path: Path) -> None:
    place, given = f"sqlite:///{tmp_path}/w.db#decisions", ("--shop", shop)
    before = done(disco, "export", "first", "--to", place, "--what", "decisions", *given)["rows"]
    customer = Shop.open(shop).export("first").to_arrow()["customer_id"][0].as_py()
    done(disco, "forget", customer, "--yes", *given)
    put = done(disco, "export", "first", "--to", place, "--what", "decisions", *given)
    assert (put["rows"], put["changed"]) == (before - 1, True)
    with sqlite3.connect(tmp_path / "w.db") as there:
        (found,) = there.execute("SELECT count(*) FROM decisions WHERE customer_id = ?", [customer]).fetchone()
    assert found == 0


def test_what_cannot_be_exported_is_said_in_a_sentence(disco: Run, shop: Path, tmp_path: Path) -> None:
    own = f"sqlite:///{shop.absolute()}/disco.db"
    cases = {
        ("first",): (2, "found neither"),
        ("first", "-o", "x.csv", "--to", "sqlite:///x.db#t"): (2, "found both"),
        ("first", "--to", "sqlite:///x.db#t", "--what", "people"): (2, "one of codes, decisions, results"),
        ("first", "--to", f"{own}#codes"): (1, "the shop's own database"),
        ("nobody", "--to", f"sqlite:///{tmp_path}/x.db#t"): (1, "No campaign nobody was launched"),
        ("first", "--to", "postgresql://u:s3cret@127.0.0.1:9/w#t"): (1, "Nothing was changed; run the command again"),
    }
    for arguments, (expected, words) in cases.items():
        code, out, err = disco("export", *arguments, "--shop", shop)
        assert (code, out) == (expected, ""), err
        assert words in err
        assert "s3cret" not in err
    assert not (tmp_path / "x.db").exists()
