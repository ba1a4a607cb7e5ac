"""The tables of an empty database without the work of finding out again which statements make them.

Alembic loads eight files and builds every table of every revision for each database, about 0.2 s each.
The first empty database of a process and of a kind is made by it, and what it sent is sent again to the others, in the
same order; to PostgreSQL in one message, which takes half as long as one message per statement. Databases that have
tables already are upgraded by Alembic itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import sqlalchemy as sa

from disco.adapters.store import migrations
from disco.adapters.store.database import Database

_ASKING = ("SELECT", "PRAGMA")


@contextmanager
def quick_tables() -> Iterator[None]:
    """Until the end of the context, in this process."""
    migrate, kept = migrations.migrate, dict[str, list[str]]()

    @wraps(migrate)
    def quick(connection: sa.Connection, database: Database, **more: Any) -> None:
        kind = connection.dialect.name
        if sa.inspect(connection).get_table_names():
            migrate(connection, database, **more)
        elif kind in kept and kind == "postgresql":
            session = connection.connection.driver_connection
            assert session is not None
            session.execute(";\n".join(kept[kind]))
        elif kind in kept:
            for statement in kept[kind]:
                connection.exec_driver_sql(statement)
        else:
            with _sent(connection) as statements:
                migrate(connection, database, **more)
            kept[kind] = statements

    migrations.migrate = quick
    try:
        yield
    finally:
        migrations.migrate = migrate


@contextmanager
def _sent(connection: sa.Connection) -> Iterator[list[str]]:
    """The statements that change something, as they are sent."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if statement.split(None, 1)[0].upper() not in _ASKING:
            assert not values, "a statement with values is not sent again as it was"
            statements.append(statement)

    sa.event.listen(connection, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(connection, "before_cursor_execute", note)
