"""Packs of large batches; none for batches of before, whose rows stay in the database."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    for column in ("pack", "event_index", "code_index"):
        op.add_column("batches", sa.Column(column, sa.Text(), nullable=True))
