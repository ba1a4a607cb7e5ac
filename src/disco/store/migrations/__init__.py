"""Tables of an empty database, and how those of an earlier release change, one file per change in `versions/`.

An empty database gets the tables of `schema` as they are now, with the triggers of the journal, and is marked with the
last revision. A database of an earlier release runs the changes that it has not seen; Alembic finds them. Both happen
within the transaction of the caller.
"""

from pathlib import Path

import sqlalchemy as sa

from disco.store import schema
from disco.store.append_only import create_triggers

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
