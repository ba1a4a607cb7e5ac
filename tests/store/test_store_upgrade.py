"""An upgrade from the first release to a revision that only these tests have: what is kept, what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from store_samples import add_campaign
from stores import artefacts_of, open_store

from disco.records.errors import StateError, UpgradeError
from disco.store import migrations, schema
from disco.store.store import open_database, revision_of, upgrade

LATER = "0013"
CHANGE = f'''
import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{schema.BASELINE}"


def upgrade() -> None:
    op.create_table("greetings", sa.Column("words", sa.Text(), nullable=False))
    op.execute("INSERT INTO greetings VALUES ('hello')")
    op.add_column("campaigns", sa.Column("note", sa.Text(), nullable=True))
'''
FAILS_AT_THE_END = CHANGE + "    raise InterruptedError\n"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """A call makes this program a later release, which has one more revision."""

    def later(change: str) -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(migrations.__file__.removesuffix("__init__.py"), folder)
        (folder / "versions" / f"r{LATER}_greetings.py").write_text(change)
        monkeypatch.setattr(migrations, "FOLDER", folder)
        monkeypatch.setattr(schema, "REVISION", LATER)
        monkeypatch.setattr("disco.store.store.KNOWN_REVISIONS", (schema.BASELINE, LATER))

    return later


@pytest.fixture
def filled_url(copied_database_url: Callable[[str, Callable[[str], None]], str]) -> str:
    """A database of the first release with a campaign, on SQLite and on PostgreSQL."""

    def fill(url: str) -> None:
        store = open_store(url)
        with store.writing("spring", action="launch") as transaction:
            add_campaign(transaction)
        store.close()

    return copied_database_url("one campaign", fill)


def _rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the tables of the first release, but for the journal's and its tallies, in the columns it had."""
    database = open_database(url)
    with database.engine.connect() as connection:
        rows = {
            name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for name, table in schema.metadata.tables.items()
            if name not in ("journal", "tallies")
        }
    database.engine.dispose()
    return rows


def test_an_upgrade_runs_what_the_database_has_not_seen_and_keeps_the_rest(
    filled_url: str, release: Callable[[str], None]
) -> None:
    before = _rows(filled_url)
    assert before["campaigns"]
    release(CHANGE)
    needs = rf"revision {schema.BASELINE}; this program needs {LATER}.*disco db upgrade"
    with pytest.raises(UpgradeError, match=needs):
        open_store(filled_url)
    database = open_database(filled_url)
    assert upgrade(database) == (schema.BASELINE, LATER)
    assert upgrade(database) == (LATER, LATER)
    assert _rows(filled_url) == before
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT words FROM greetings").scalar_one() == "hello"
        assert connection.exec_driver_sql("SELECT note FROM campaigns").scalars().all() == [None]
    store = open_store(filled_url)
    with store.reading() as transaction:
        entry = transaction.journal.entries(limit=10)[-1]
        assert (entry.action, json.loads(entry.detail)) == ("upgrade", {"from": schema.BASELINE, "to": LATER})
        assert transaction.journal.first_break() is None
        assert transaction.seals.broken() == ()
    store.close()


def test_an_upgrade_that_fails_at_its_end_changes_nothing(filled_url: str, release: Callable[[str], None]) -> None:
    before = _rows(filled_url)
    release(FAILS_AT_THE_END)
    with pytest.raises(InterruptedError):
        upgrade(open_database(filled_url))
    with open_database(filled_url).engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert revision_of(connection) == schema.BASELINE
    assert _rows(filled_url) == before
    release(CHANGE)
    assert upgrade(open_database(filled_url)) == (schema.BASELINE, LATER)


def test_an_empty_database_gets_the_tables_of_today_and_no_history(
    database_url: str, release: Callable[[str], None]
) -> None:
    release(FAILS_AT_THE_END)  # the change is for databases of before, so it does not run
    assert upgrade(open_database(database_url)) == (None, LATER)
    open_store(database_url).close()


def test_a_database_from_before_the_first_release_is_refused_and_stays(filled_url: str) -> None:
    database = open_database(filled_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0010'")
    before = _rows(filled_url)
    for attempt in (lambda: open_store(filled_url), lambda: upgrade(database)):
        with pytest.raises(StateError, match=r"revision 0010, from before the first release.*disco init"):
            attempt()
    assert _rows(filled_url) == before
    assert not artefacts_of(filled_url).with_name("plans").exists()
