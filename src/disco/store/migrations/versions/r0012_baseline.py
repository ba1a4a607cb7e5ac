"""The tables of the first release. An empty database gets those of today at once (`migrations.create_tables`)."""

revision = "0012"
down_revision = None


def upgrade() -> None:
    """Nothing runs this: every database has seen it, and those of before the first release are not upgraded."""
