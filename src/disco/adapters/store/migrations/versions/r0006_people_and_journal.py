"""People, keys, approvals, settings of the shop, and the journal of everything that is written from now on."""

import sqlalchemy as sa
from alembic import op

from disco.adapters.store.append_only import create_triggers

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "people",
        *_texts("name", "folded", "role"),
        *_texts("email", "password", "issuer", "subject", nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        *_moments("created_at"),
        _seal(),
        sa.PrimaryKeyConstraint("name", name="people_key"),
        sa.UniqueConstraint("folded", name="people_one_folded"),
        sa.UniqueConstraint("issuer", "subject", name="people_one_issuer_subject"),
    )
    op.create_table(
        "api_keys",
        *_texts("key_id", "name", "role", "secret_hash", "created_by"),
        *_moments("created_at"),
        *_moments("expires_at", "revoked_at", nullable=True),
        _seal(),
        sa.PrimaryKeyConstraint("key_id", name="api_keys_key"),
    )
    op.create_table(
        "invitations",
        *_texts("token_hash"),
        *_texts("name", "email", nullable=True),
        *_texts("role", "invited_by"),
        *_moments("created_at", "expires_at"),
        _seal(),
        sa.PrimaryKeyConstraint("token_hash", name="invitations_key"),
    )
    op.create_table(
        "sessions",
        *_texts("token_hash", "name"),
        *_moments("created_at", "used_at", "expires_at"),
        sa.PrimaryKeyConstraint("token_hash", name="sessions_key"),
    )
    op.create_index("sessions_by_name", "sessions", ["name"])
    op.create_table(
        "attempts",
        *_texts("name_hash"),
        sa.Column("failures", sa.Integer(), nullable=False),
        *_moments("failed_at"),
        sa.PrimaryKeyConstraint("name_hash", name="attempts_key"),
    )
    for table, moment in (("plan_makers", "made_at"), ("approvals", "approved_at")):
        op.create_table(
            table,
            *_texts("plan_id", "name", "kind"),
            *_moments(moment),
            _seal(),
            sa.PrimaryKeyConstraint("plan_id", "name", name=f"{table}_key"),
        )
    op.create_table(
        "shop_settings", *_texts("name", "value"), _seal(), sa.PrimaryKeyConstraint("name", name="shop_settings_key")
    )
    op.create_table(
        "journal",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        *_moments("at"),
        *_texts("actor", "kind", "action", "subject"),
        *_texts("before", "after", nullable=True),
        *_texts("detail"),
        *_texts("previous", nullable=True),
        *_texts("hash"),
        sa.PrimaryKeyConstraint("number", name="journal_key"),
    )
    op.create_table(
        "journal_heads",
        *_texts("subject"),
        sa.Column("number", sa.BigInteger(), nullable=False),
        *_texts("hash"),
        _seal(),
        sa.PrimaryKeyConstraint("subject", name="journal_heads_key"),
    )
    create_triggers(op.get_bind())


def _texts(*names: str, nullable: bool = False) -> tuple["sa.Column[str]", ...]:
    return tuple(sa.Column(name, sa.Text(), nullable=nullable) for name in names)


def _moments(*names: str, nullable: bool = False) -> tuple["sa.Column[int]", ...]:
    return tuple(sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names)


def _seal() -> "sa.Column[str]":
    return sa.Column("seal", sa.Text(), nullable=True)
