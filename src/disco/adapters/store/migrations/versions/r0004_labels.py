"""The segment and the channel of late arrivals; null for all who arrived before. Their seals stay what they are."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for column in ("segment", "channel"):
        op.add_column("late_decisions", sa.Column(column, sa.Text(), nullable=True))
