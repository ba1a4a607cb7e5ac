"""The doctor's look at a database: sound files pass, damaged ones and risky settings are named."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from disco.adapters.store import CampaignStore
from disco.adapters.store.health import vitals, wal_is_risky


def url_of(path: Path) -> str:
    CampaignStore.embedded(path).close()
    return f"sqlite:///{path}"


def test_a_sound_database(tmp_path: Path) -> None:
    found = vitals(url_of(tmp_path / "disco.db"))
    assert [vital.where for vital in found] == ["connection", "journal", "integrity"]
    assert all(vital.ok for vital in found)
    assert "delete" in found[1].found


def test_a_reference_to_nothing_is_found(tmp_path: Path) -> None:
    url = url_of(tmp_path / "disco.db")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        (table,) = [
            name for name in sa.inspect(connection).get_table_names() if name.startswith("reserve")
        ] or pytest.fail("no table of reserves")
        columns = [column["name"] for column in sa.inspect(connection).get_columns(table)]
        row = {"campaign": "nobody", "depth": 0.1, "remaining": 1}
        values = ", ".join(repr(row.get(name, 1)) for name in columns)
        connection.exec_driver_sql(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")
    engine.dispose()
    integrity = vitals(url)[2]
    assert not integrity.ok
    assert "1 orphans" in integrity.found


@pytest.mark.parametrize(
    ("version", "risky"), [("3.6.23", False), ("3.7.0", True), ("3.51.2", True), ("3.51.3", False)]
)
def test_which_versions_have_the_bug(version: str, risky: bool) -> None:
    assert wal_is_risky(version) is risky
