"""How the tables came to be, one file per change in `versions/`; a database says which it has seen."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from disco.records.errors import StateError


def migrate(connection: sa.Connection, place: str) -> None:
    """Run the changes a database has not seen, within the connection's transaction."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    script = ScriptDirectory(str(Path(__file__).parent))

    def unseen(revision: Any, _: MigrationContext) -> Iterable[Any]:
        return script._upgrade_revs("head", revision)

    context = MigrationContext.configure(connection, opts={"fn": unseen})
    try:
        from alembic.operations import Operations

        with Operations.context(context):
            context.run_migrations()
    except CommandError as error:
        raise StateError(
            place,
            found=f"a database of a newer disco ({error})",
            expected="one that this disco knows",
            fix="Install the newer disco.",
        ) from error
