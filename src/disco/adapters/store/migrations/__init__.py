"""How the tables came to be, one file per change in `versions/`; a database says which it has seen."""

from pathlib import Path

import sqlalchemy as sa

from disco.adapters.store.database import Database
from disco.records.errors import StateError
from disco.records.ports import Artefacts


def migrate(
    connection: sa.Connection,
    database: Database,
    place: str,
    *,
    artefacts: Artefacts | None = None,
    plans: Path | None = None,
) -> None:
    """Run the changes a database has not seen, within the connection's transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    places = {"connection": connection, "database": database, "artefacts": artefacts, "plans": plans}
    config = Config(attributes=places)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(
            f"The database {place} was made by a newer disco ({error})", fix="Install the newer disco."
        ) from error
