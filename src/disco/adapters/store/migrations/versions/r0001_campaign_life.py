"""Plans, campaigns, decisions, contexts, reserves, the ledger, evidence and versions of belief."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("campaign_number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("row", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("depth", sa.Double(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("expected_full_price", sa.Double(), nullable=True),
        sa.Column("expected_engagement", sa.Double(), nullable=True),
        sa.Column("propensity", sa.Double(), nullable=True),
        sa.Column("propensity_draws", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("campaign_number", "row", name="decisions_key"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "decisions_late",
        "decisions",
        ["campaign_number", "row"],
        unique=False,
        sqlite_where=sa.text("late"),
        postgresql_where=sa.text("late"),
    )
    op.create_index(
        "decisions_one_code",
        "decisions",
        ["code"],
        unique=True,
        sqlite_where=sa.text("code IS NOT NULL"),
        postgresql_where=sa.text("code IS NOT NULL"),
    )
    op.create_index("decisions_one_customer", "decisions", ["campaign_number", "customer_id"], unique=True)
    op.create_table(
        "outcomes",
        sa.Column("batch_number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("row", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("customer_id", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("refers_to", sa.Text(), nullable=True),
        sa.Column("ordered_at", sa.BigInteger(), nullable=True),
        sa.Column("full_price_minor", sa.BigInteger(), nullable=True),
        sa.Column("disposition", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("raw", sa.Text(), nullable=True),
        sa.Column("reverted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("batch_number", "row", name="outcomes_key"),
        sqlite_with_rowid=False,
    )
    op.create_index("outcomes_by_code", "outcomes", ["campaign_number", "code"], unique=False)
    op.create_index("outcomes_by_event", "outcomes", ["campaign_number", "event_id"], unique=False)
    op.create_index(
        "outcomes_by_refers_to",
        "outcomes",
        ["campaign_number", "refers_to"],
        unique=False,
        sqlite_where=sa.text("refers_to IS NOT NULL"),
        postgresql_where=sa.text("refers_to IS NOT NULL"),
    )
    op.create_index(
        "outcomes_one_event_in_force",
        "outcomes",
        ["campaign_number", "event_id"],
        unique=True,
        sqlite_where=sa.text("disposition = 'applied' AND NOT reverted"),
        postgresql_where=sa.text("disposition = 'applied' AND NOT reverted"),
    )
    op.create_table(
        "plans",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("planned_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", name="plans_key"),
    )
    op.create_index("plans_by_campaign", "plans", ["campaign"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="secrets_key"),
    )
    op.create_table(
        "versions",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("basket", sa.LargeBinary(), nullable=False),
        sa.Column("engagement", sa.Text(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("campaigns", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model", "number", name="versions_key"),
    )
    op.create_table(
        "active_versions",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model", "number"], ["versions.model", "versions.number"], name="active_versions_model_of_versions"
        ),
        sa.PrimaryKeyConstraint("model", name="active_versions_key"),
    )
    op.create_table(
        "campaigns",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("integer_ids", sa.Boolean(), nullable=False),
        sa.Column("context_size", sa.Integer(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("solution", sa.Text(), nullable=False),
        sa.Column("launched_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.plan_id"], name="campaigns_plan_id_of_plans"),
        sa.PrimaryKeyConstraint("number", name="campaigns_key"),
        sa.UniqueConstraint("campaign", name="campaigns_one_campaign"),
    )
    op.create_table(
        "batches",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("reverted_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["campaign_number"], ["campaigns.number"], name="batches_campaign_number_of_campaigns"),
        sa.PrimaryKeyConstraint("number", name="batches_key"),
        sa.UniqueConstraint("batch_id", name="batches_one_batch_id"),
    )
    op.create_index("batches_by_campaign", "batches", ["campaign_number", "number"], unique=False)
    op.create_table(
        "contexts",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("first_row", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("matrix", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="contexts_campaign_number_of_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_number", "network", "first_row", name="contexts_key"),
    )
    op.create_table(
        "evidence",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("evidence", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="evidence_campaign_number_of_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_number", "network", name="evidence_key"),
    )
    op.create_table(
        "reserves",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Double(), nullable=False),
        sa.Column("codes", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("codes >= 0", name="reserves_never_overdrawn"),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="reserves_campaign_number_of_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_number", "depth", name="reserves_key"),
    )
    if op.get_bind().dialect.name == "postgresql":  # doubles do not compress: do not try for every blob
        op.execute("ALTER TABLE contexts ALTER COLUMN matrix SET STORAGE EXTERNAL")
    else:
        _tell_sqlite_the_sizes()


def _tell_sqlite_the_sizes() -> None:
    """Without statistics SQLite takes a campaign for ten rows, and walks millions where it should look up a few."""
    op.execute("ANALYZE")
    sizes = {
        ("decisions", "decisions"): "1000000 1000000 1",
        ("decisions", "decisions_one_customer"): "1000000 1000000 1",
        ("decisions", "decisions_one_code"): "1000000 1",
        ("decisions", "decisions_late"): "10000 10000 1",
        ("outcomes", "outcomes"): "1000000 100000 1",
        ("outcomes", "outcomes_by_event"): "1000000 1000000 1",
        ("outcomes", "outcomes_by_code"): "1000000 1000000 1",
        ("outcomes", "outcomes_by_refers_to"): "10000 10000 1",
        ("outcomes", "outcomes_one_event_in_force"): "1000000 1000000 1",
    }
    for (table, index), figures in sizes.items():
        op.execute(f"INSERT INTO sqlite_stat1 VALUES ('{table}', '{index}', '{figures}')")
    op.execute("ANALYZE sqlite_schema")  # reads them again
