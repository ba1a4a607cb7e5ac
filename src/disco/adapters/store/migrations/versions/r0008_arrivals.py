"""Contexts that are prepared for late arrivals; none for campaigns of before, until they are prepared."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "arrivals",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("only_listed", sa.Boolean(), nullable=False),
        sa.Column("customers", sa.Text(), nullable=False),
        sa.Column("customer_index", sa.Text(), nullable=False),
        sa.Column("contexts", sa.Text(), nullable=False),
        sa.Column("features", sa.Text(), nullable=False),
        sa.Column("seal", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("campaign_number", name="arrivals_key"),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="arrivals_campaign_number_of_campaigns"
        ),
    )
