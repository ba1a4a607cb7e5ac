"""Tables of an empty database, and how those of an earlier release change, one file per change in `versions/`.

An empty database gets the tables of `schema` as they are now, with the triggers of the journal, and is marked with the
last revision. A database of an earlier release runs the changes that it has not seen; Alembic finds them. Both happen
within the transaction of the caller. The triggers refuse to change or remove an entry of the journal.
"""

from pathlib import Path

import sqlalchemy as sa

from disco.store import schema

FOLDER = Path(__file__).parent  # of env.py and versions/

# the table in which Alembic keeps the revision, as Alembic makes it
_REVISIONS = sa.Table(
    schema.REVISIONS,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{schema.REVISIONS}_pkc"),
)
# rows that SQLite is to expect: without statistics it takes a campaign for ten rows, and walks millions where it should
# look up a few
_EXPECTED_ROWS = {
    ("late_decisions", "sqlite_autoindex_late_decisions_1"): "10000 10000 1",
    ("late_decisions", "sqlite_autoindex_late_decisions_2"): "10000 10000 1",
    ("late_decisions", "sqlite_autoindex_late_decisions_3"): "10000 1",
    ("pool_codes", "pool_codes"): "1000000 1",
    ("outcomes", "outcomes"): "1000000 100000 1",
    ("outcomes", "outcomes_by_event"): "1000000 1000000 1",
    ("outcomes", "outcomes_by_code"): "1000000 1000000 1",
    ("outcomes", "outcomes_by_refers_to"): "10000 10000 1",
    ("outcomes", "outcomes_one_event_in_force"): "1000000 1000000 1",
}


def create_tables(connection: sa.Connection) -> None:
    """Give an empty database the tables of this program."""
    schema.metadata.create_all(connection, checkfirst=False)
    create_triggers(connection)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("ANALYZE")  # makes the table of statistics
        sizes = [(table, index, rows) for (table, index), rows in _EXPECTED_ROWS.items()]
        connection.exec_driver_sql("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", sizes)
        connection.exec_driver_sql("ANALYZE sqlite_schema")  # reads them again
    _REVISIONS.create(connection, checkfirst=False)
    connection.execute(_REVISIONS.insert(), {"version_num": schema.REVISION})


def migrate(connection: sa.Connection) -> None:
    """Run the changes that a database of an earlier release has not seen."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    command.upgrade(config, "head")


_REFUSAL = "The journal is append-only."
_SQLITE = {
    f"journal_refuses_{event.lower()}": (
        f"CREATE TRIGGER journal_refuses_{event.lower()} BEFORE {event} ON journal "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    )
    for event in ("UPDATE", "DELETE")
}
_POSTGRESQL_FUNCTION = (
    "CREATE OR REPLACE FUNCTION journal_refuses() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
)
_POSTGRESQL = {
    "journal_refuses_change": (
        "CREATE TRIGGER journal_refuses_change BEFORE UPDATE OR DELETE ON journal "
        "FOR EACH ROW EXECUTE FUNCTION journal_refuses()"
    ),
    "journal_refuses_truncate": (
        "CREATE TRIGGER journal_refuses_truncate BEFORE TRUNCATE ON journal "
        "FOR EACH STATEMENT EXECUTE FUNCTION journal_refuses()"
    ),
}
_POSTGRESQL_TRIGGERS = (  # those that are enabled
    "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger "
    "WHERE tgrelid = to_regclass('journal') AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
)


def create_triggers(connection: sa.Connection) -> None:
    """Make the triggers of the journal, in the place of others of their names."""
    if connection.dialect.name == "sqlite":
        for name, statement in _SQLITE.items():
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
            connection.exec_driver_sql(statement)
        return
    connection.exec_driver_sql(_POSTGRESQL_FUNCTION)
    for name, statement in _POSTGRESQL.items():
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name} ON journal")
        connection.exec_driver_sql(statement)


def missing_triggers(connection: sa.Connection) -> tuple[str, ...]:
    """Those of the journal's triggers that are absent, disabled or other ones."""
    if connection.dialect.name == "sqlite":
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'journal'"
        there = {str(name): str(sql) for name, sql in connection.exec_driver_sql(found)}
        return tuple(name for name, sql in _SQLITE.items() if there.get(name) != sql)
    names = {str(row[0]) for row in connection.exec_driver_sql(_POSTGRESQL_TRIGGERS)}
    body = connection.exec_driver_sql("SELECT prosrc FROM pg_proc WHERE oid = to_regproc('journal_refuses')").scalar()
    if _REFUSAL not in str(body) or "RAISE EXCEPTION" not in str(body):
        return tuple(_POSTGRESQL)
    return tuple(name for name in _POSTGRESQL if name not in names)


def is_own_trigger(name: str, sql: str) -> bool:
    """Whether a trigger of SQLite is one of ours."""
    return _SQLITE.get(name) == sql
