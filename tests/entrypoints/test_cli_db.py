"""`disco db upgrade`: an empty database gets the tables, an old one the changes, a current one nothing."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

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


def test_a_shop_of_revision_0001_is_upgraded_with_its_plans(disco: Disco, tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "fixtures" / "revision-0001"
    (tmp_path / "disco.db").write_bytes(gzip.decompress((old / "sqlite.db.gz").read_bytes()))
    shutil.copytree(old / "plans", tmp_path / "plans")
    code, _, error = disco("campaigns", "--shop", tmp_path)
    assert (code, "disco db upgrade" in error) == (1, True)
    code, out, _ = disco("db", "upgrade", "--shop", tmp_path)
    assert (code, f"from revision 0001 to revision {REVISION}" in out) == (0, True)
    code, out, _ = disco("export", "second", "-o", tmp_path / "codes.parquet", "--shop", tmp_path, "--json")
    expected = pq.read_table(old / "expected" / "decisions-second.parquet")["code"]
    assert code == 0
    assert pq.read_table(tmp_path / "codes.parquet")["code_id"].to_pylist() == expected.drop_null().to_pylist()
