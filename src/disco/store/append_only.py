"""Triggers that refuse to change or remove an entry of the journal, in the words of each database."""

import sqlalchemy as sa

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
