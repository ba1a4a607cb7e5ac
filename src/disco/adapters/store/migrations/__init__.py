"""How the tables came to be, one file per change in `versions/`; a database says which it has seen."""

from pathlib import Path

import sqlalchemy as sa

from disco.adapters.store.database import Database
from disco.records.ports import Artefacts


def migrate(
    connection: sa.Connection,
    database: Database,
    *,
    artefacts: Artefacts | None = None,
    plans: Path | None = None,
    without_plans: bool = False,
) -> None:
    """Run the changes a database has not seen, within the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    attributes = {"connection": connection, "database": database, "artefacts": artefacts, "plans": plans}
    config = Config(attributes={**attributes, "without_plans": without_plans})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    command.upgrade(config, "head")
