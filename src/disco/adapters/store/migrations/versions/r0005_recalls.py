"""The moment of a recall; null for all campaigns of before. Their seals stay what they are."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("campaigns", sa.Column("recalled_at", sa.BigInteger(), nullable=True))
