"""`disco db upgrade`: an empty database gets the tables, an old one the changes, a current one nothing."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from disco.adapters.store.schema import REVISION

Disco = Callable[..., tuple[int, str, str]]


def test_an_empty_shop_gets_the_tables_and_the_second_time_nothing(disco: Disco, tmp_path: Path) -> None:
    code, out, _ = disco("db", "upgrade", "--shop", tmp_path)
    assert code == 0
    assert f"from an empty database to revision {REVISION}" in out
    code, out, _ = disco("db", "upgrade", "--shop", tmp_path, "--json")
    assert code == 0
    assert json.loads(out)["before"] == json.loads(out)["after"] == REVISION


def test_a_database_of_a_newer_disco_is_refused_and_stays(disco: Disco, tmp_path: Path) -> None:
    disco("db", "upgrade", "--shop", tmp_path, "--quiet")
    with sqlite3.connect(tmp_path / "disco.db") as session:
        session.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (tmp_path / "disco.db").read_bytes()
    code, out, error = disco("db", "upgrade", "--shop", tmp_path)
    assert (code, out) == (1, "")
    assert "newer disco" in error
    assert "Traceback" not in error
    assert (tmp_path / "disco.db").read_bytes() == before


def test_a_file_that_is_no_database_is_named(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "disco.db").write_text("no database " * 100)
    code, _, error = disco("db", "upgrade", "--shop", tmp_path)
    assert code == 1
    assert "not a database" in error


def test_a_server_that_does_not_answer_is_named(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "disco.yaml").write_text(f"database_url: postgresql://u:geheim@/d?host={tmp_path}\n")
    code, _, error = disco("db", "upgrade", "--shop", tmp_path)
    assert code == 1
    assert "the database reported an error" in error
    assert "geheim" not in error
