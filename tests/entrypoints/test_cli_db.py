"""`disco db upgrade`: an empty database gets the tables, a current one nothing."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from disco.store.schema import REVISION

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
    assert "is not a SQLite database" in error


def test_a_server_that_does_not_answer_is_named(disco: Disco, tmp_path: Path) -> None:
    (tmp_path / "disco.yaml").write_text(f"database_url: postgresql://u:geheim@/d?host={tmp_path}\n")
    code, _, error = disco("db", "upgrade", "--shop", tmp_path)
    assert code == 1
    assert "the database reported an error" in error
    assert "geheim" not in error


# ---- one shop, one database


@pytest.fixture(params=["sqlite", "postgresql"])
def lost(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A shop whose artefacts are there, and whose database is empty."""
    artefacts = tmp_path / "artefacts"
    artefacts.mkdir()
    (artefacts / f"{'0' * 64}.arrow").write_bytes(b"decisions of a plan")
    if request.param == "sqlite":
        (tmp_path / "disco.db").touch()
        return tmp_path
    make: Callable[[], str] = request.getfixturevalue("new_postgres_url")
    (tmp_path / "disco.yaml").write_text(f"database_url: {make()}\n")
    return tmp_path


PLAN = """
campaign: again
customers: {as_of: 2025-11-01}
depths: {0.10: {at_most: 40}}
objective: {revenue_weight: 3}
valid: {from: 2025-11-05, days: 10}
"""


def test_an_emptied_database_is_never_made_anew(disco: Disco, lost: Path) -> None:
    (lost / "plan.yaml").write_text(PLAN)
    for words in (
        ("campaigns",),
        ("db", "upgrade"),
        ("plan", lost / "plan.yaml"),
        ("plan", lost / "plan.yaml", "--dry-run"),
        ("launch", "again"),
        ("results",),
        ("belief",),
    ):
        code, out, error = disco(*words, "--shop", lost)
        assert (code, out) == (1, ""), words
        assert "is empty, but" in error, words
        assert "disco restore" in error
        assert "artefacts" in error
    code, out, _ = disco("doctor", "--shop", lost)
    assert code == 1
    assert "is empty, but" in out
    settings = lost / "disco.yaml"
    url = settings.read_text().split(": ", 1)[1].strip() if settings.exists() else f"sqlite:///{lost}/disco.db"
    assert sa.inspect(sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))).get_table_names() == []


def test_a_reading_command_in_a_new_shop_writes_nothing(disco: Disco, tmp_path: Path) -> None:
    for words in (("campaigns",), ("results",), ("launch", "spring"), ("ingest", "spring", tmp_path / "x.parquet")):
        code, out, error = disco(*words, "--shop", tmp_path)
        assert (code, out) == (1, "")
        assert "no campaigns yet" in error or "x.parquet" in error
    assert list(tmp_path.iterdir()) == []
