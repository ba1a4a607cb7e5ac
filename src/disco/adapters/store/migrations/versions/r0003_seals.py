"""Seals of everything that is kept, and the customers who asked to be forgotten.

The seals are of what the database holds now: whatever was changed before this upgrade is taken as it is.
"""

import sqlalchemy as sa
from alembic import context, op

from disco.adapters.store.seals import seal_all

revision = "0003"
down_revision = "0002"

_SEALS = {
    "secrets": ("seal",),
    "plans": ("seal",),
    "campaigns": ("seal", "late_seal", "state_seal"),
    "batches": ("rows_seal", "seal"),
    "evidence": ("seal",),
    "versions": ("seal",),
    "active_versions": ("seal",),
}


def upgrade() -> None:
    for table, columns in _SEALS.items():
        for column in columns:
            op.add_column(table, sa.Column(column, sa.Text(), nullable=True))
    op.create_table(
        "forgotten",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("forgotten_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="forgotten_key"),
    )
    seal_all(op.get_bind(), context.config.attributes["database"])
