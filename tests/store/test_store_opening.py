"""Opening a database: an empty one gets our tables, another revision or another program's tables are refused."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from store_samples import add_campaign, batch, outcomes, receive
from stores import artefacts_of, open_store

from disco.records.errors import InputError, NotFoundError, StateError, UnavailableError
from disco.store import Store, migrations, schema
from disco.store.health import vitals
from disco.store.store import KNOWN_REVISIONS, open_database, prepare, upgrade


def test_an_empty_database_gets_exactly_the_tables_of_the_schema(database_url: str) -> None:
    open_store(database_url).close()
    with open_database(database_url).engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def test_the_schema_names_the_last_migration() -> None:
    folder = Path(migrations.__file__).parent
    assert ScriptDirectory(str(folder)).get_current_head() == schema.REVISION


def test_partial_indexes_have_their_conditions_on_both_databases(database_url: str) -> None:
    # Alembic does not compare the conditions of indexes
    database = open_database(database_url)
    prepare(database)
    kind = database.engine.dialect.name
    conditions = {
        str(index["name"]): str(index.get("dialect_options", {}).get(f"{kind}_where", ""))
        for index in sa.inspect(database.engine).get_indexes("outcomes")
    }
    for index in schema.PARTIAL_INDEXES:
        declared = str(index.dialect_options["sqlite"]["where"].compile(compile_kwargs={"literal_binds": True}))
        words = set(re.findall(r"[a-z_]+", declared.lower())) - {"outcomes"}
        assert words <= set(re.findall(r"[a-z_]+", conditions[str(index.name)].lower())), index.name


def test_what_is_there_stays_when_a_store_is_opened_again(database_url: str) -> None:
    secrets = []
    for _ in range(2):
        store = open_store(database_url)
        with store.reading() as transaction:
            secrets.append(transaction.decisions.secret())
        store.close()
    assert secrets[0] == secrets[1]
    assert len(secrets[0]) == 32


def test_two_databases_have_two_secrets(new_database_url: Callable[[], str]) -> None:
    secrets = set()
    for _ in range(2):
        with open_store(new_database_url()).reading() as transaction:
            secrets.add(transaction.decisions.secret())
    assert len(secrets) == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["9999"], r"at revision 9999, made by a newer disco; this one knows \d+\. Install the newer disco"),
        (["0010"], r"at revision 0010, from before the first release.*begin a new shop with `disco init`"),
        (["0000"], r"a revision that no disco has written \('0000'\)\. .*disco restore"),
        ([""], r"a revision that no disco has written \(''\)\. .*disco restore"),
        (["x" * 32], r"a revision that no disco has written.*disco restore"),
        ([], r"alembic_version names no revision\. .*disco restore"),
        (["0001", "0002"], r"alembic_version names 2 revisions\. .*disco restore"),
    ],
)
def test_a_database_of_no_known_revision_is_refused_alike_by_everybody(
    store_url: str, rows: list[str], words: str
) -> None:
    open_store(store_url).close()
    with open_database(store_url).engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
        for row in rows:
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{row}')")
    for open_ in (lambda: open_store(store_url), lambda: upgrade(open_database(store_url))):
        with pytest.raises(StateError, match=words) as refused:
            open_()
        assert "db upgrade" not in str(refused.value)
        assert "try again" not in str(refused.value)
    (said,) = [one for one in vitals(store_url) if one.check == "revision"]
    assert said.failed
    assert re.search(words, f"{said.found}.")
    assert "db upgrade" not in f"{said.found} {said.fix}"


def test_the_health_check_advises_an_upgrade_of_an_older_revision_alone(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(store_url).close()
    monkeypatch.setattr("disco.store.store.KNOWN_REVISIONS", ("older", schema.REVISION))
    for statement, fix in (
        ("UPDATE alembic_version SET version_num = 'older'", "`disco db upgrade`"),
        ("DROP TABLE alembic_version", "`disco restore`"),
    ):
        with open_database(store_url).engine.begin() as connection:
            connection.exec_driver_sql(statement)
        (said,) = [one for one in vitals(store_url) if one.check == "revision"]
        assert said.failed
        assert fix in said.fix


def test_every_migration_is_a_known_revision() -> None:
    folder = Path(migrations.__file__).parent
    assert sorted(script.revision for script in ScriptDirectory(str(folder)).walk_revisions()) == list(KNOWN_REVISIONS)


@pytest.mark.parametrize("tables", [["orders"], ["alembic_version"], ["alembic_version", "orders"]])
def test_tables_of_another_program_are_left_alone(database_url: str, tables: list[str]) -> None:
    with open_database(database_url).engine.begin() as connection:
        for table in tables:
            connection.exec_driver_sql(f"CREATE TABLE {table} (version_num VARCHAR)")
    with pytest.raises(StateError, match=r"another program \(.*database_url"):
        open_store(database_url)


def test_looking_for_a_store_that_does_not_exist_creates_nothing(database_url: str) -> None:
    assert Store.existing(database_url, artefacts_of(database_url)) is None
    if database_url.startswith("sqlite"):
        file = Path(database_url.removeprefix("sqlite:///"))
        assert not file.exists()
        file.touch()
        assert Store.existing(database_url, artefacts_of(database_url)) is None
        assert file.read_bytes() == b""
    assert sa.inspect(open_database(database_url).engine).get_table_names() == []
    open_store(database_url).close()
    found = Store.existing(database_url, artefacts_of(database_url))
    assert found is not None
    found.close()


def test_an_upgrade_says_where_it_came_from_and_is_done_once(database_url: str) -> None:
    assert upgrade(open_database(database_url)) == (None, schema.REVISION)
    assert upgrade(open_database(database_url)) == (schema.REVISION, schema.REVISION)
    open_store(database_url).close()


def test_an_upgrade_that_fails_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bytes_: int) -> bytes:
        raise InterruptedError

    monkeypatch.setattr("disco.store.store.token_bytes", fail)
    with pytest.raises(InterruptedError):
        open_store(database_url)
    assert sa.inspect(open_database(database_url).engine).get_table_names() == []


@pytest.mark.parametrize("url", ["", "disco.db", "sqlite://", "sqlite:///:memory:", "mysql://u:geheim@h/d", "http://x"])
def test_other_urls_are_refused_without_telling_a_password(url: str) -> None:
    with pytest.raises(InputError, match="database URL") as refused:
        Store(url, Path())
    assert "geheim" not in str(refused.value)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="the database reported an error") as refused:
        open_store(f"postgresql://u:geheim@/d?host={tmp_path}")
    assert "geheim" not in str(refused.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("not a database, though long enough to be taken for one " * 20)
    before = file.read_bytes()
    with pytest.raises(StateError, match=r"notes.db is not a SQLite database.*database_url") as refused:
        Store.embedded(file)
    assert "try again" not in str(refused.value)
    assert file.read_bytes() == before
    with pytest.raises(StateError, match=r"x.db cannot be opened \(unable to open database file\)\. Check the folder"):
        open_store(f"sqlite:///{tmp_path}/no/folder/x.db")


def test_a_writer_whose_patience_is_over_hears_it_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disco.store.sqlite.PATIENCE_S", 0.2)
    store, other = (Store.embedded(tmp_path / "busy.db") for _ in range(2))

    def write() -> None:
        with other.writing("spring", action="test"):
            pass

    with (
        store.writing("autumn", action="test"),
        pytest.raises(StateError, match="another process has held the write lock"),
    ):
        write()
    write()


def test_a_full_disk_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    store = Store.embedded(tmp_path / "full.db")
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
    pages = store._database.engine.connect().exec_driver_sql("PRAGMA page_count").scalar_one()
    sa.event.listen(
        store._database.engine, "checkout", lambda session, *_: session.execute(f"PRAGMA max_page_count = {pages + 4}")
    )
    many = outcomes("b1", [str(number) for number in range(5_000)])
    with pytest.raises(StateError, match="full"), store.writing("spring", action="test") as transaction:
        receive(transaction, batch("b1"), many)
    with store.reading() as transaction:
        assert transaction.ledger.batches("spring") == ()


def test_a_server_that_does_not_answer_is_unavailable_and_not_wrong(tmp_path: Path) -> None:
    nobody = f"postgresql://nobody@/nothing?host={tmp_path}&port=1"
    with pytest.raises(UnavailableError, match="safe to run the command again"):
        Store(nobody, tmp_path / "artefacts")


def test_what_is_not_kept_is_not_found(database_url: str) -> None:
    store = open_store(database_url)
    with store.reading() as transaction:
        for asked in (
            lambda: transaction.plans.campaign("nothing"),
            lambda: transaction.plans.get("abcdef"),
            lambda: transaction.plans.get("ab"),
            lambda: transaction.ledger.batch("abcdef"),
        ):
            with pytest.raises(NotFoundError):
                asked()
    store.close()
