"""The doctor's look at a database: sound files pass, damaged ones and risky settings are named."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from small_life import planned

from disco.operations.plan import keep
from disco.records.diagnosis import Outcome
from disco.records.errors import StateError
from disco.store import Store
from disco.store.health import restore_schema, vitals, wal_is_risky


def url_of(path: Path) -> str:
    Store.embedded(path).close()
    return f"sqlite:///{path}"


def test_a_sound_database(tmp_path: Path) -> None:
    found = vitals(url_of(tmp_path / "disco.db"))
    looked_at = {one.check for one in found}
    assert {"journal", "integrity", "references", "cells", "revision", "schema", "secrets"} <= looked_at
    assert all(vital.ok for vital in found)
    assert "delete" in found[1].found


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = vitals(f"sqlite:///{tmp_path / 'disco.db'}")
    assert [one.ok for one in found] == [False]
    assert "does not exist" in found[0].found
    with pytest.raises(StateError, match="does not exist"):
        restore_schema(f"sqlite:///{tmp_path / 'disco.db'}")
    assert list(tmp_path.iterdir()) == []


def test_artefacts_are_compared_both_ways(tmp_path: Path) -> None:
    store = Store.embedded(tmp_path / "disco.db")
    folder = tmp_path / "disco-artefacts"
    keep(store, planned(store, customers=40))
    store.close()
    url = f"sqlite:///{tmp_path / 'disco.db'}"
    assert all(one.ok for one in vitals(url, artefacts=folder))
    (folder / f"{'0' * 64}.arrow").write_bytes(b"of an interrupted command")
    (note,) = [one for one in vitals(url, artefacts=folder) if not one.ok]
    assert note.outcome is Outcome.WATCH
    assert "1 file that no row names" in note.found
    one, *_ = (path for path in sorted(folder.glob("*.arrow")) if not path.name.startswith("0000"))
    one.write_bytes(one.read_bytes()[:-9])
    assert any(found.failed and one.stem[:12] in found.found for found in vitals(url, artefacts=folder))
    one.unlink()
    assert any(found.failed and one.stem[:12] in found.found for found in vitals(url, artefacts=folder))


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
    (references,) = [one for one in vitals(url) if one.check == "references"]
    assert not references.ok
    assert "1 row without the row referred to (from reserves to campaigns)" in references.found


@pytest.mark.parametrize(
    ("version", "risky"), [("3.6.23", False), ("3.7.0", True), ("3.51.2", True), ("3.51.3", False)]
)
def test_which_versions_have_the_bug(version: str, risky: bool) -> None:
    assert wal_is_risky(version) is risky
