"""The store on SQLAlchemy: embedded SQLite now; the schema is plain SQL so that PostgreSQL is a URL away."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from disco.records.errors import StateError
from disco.records.plan import Plan

_BATCH = 10_000  # rows per insert statement
_ASK = 500  # ids per question: below SQLite's oldest limit of bound parameters

metadata = sa.MetaData()
campaigns = sa.Table(
    "campaigns",
    metadata,
    sa.Column("campaign_id", sa.String, primary_key=True),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("integer_ids", sa.Boolean, nullable=False),
    sa.Column("context_size", sa.Integer, nullable=False),
)
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("campaign_id", sa.ForeignKey("campaigns.campaign_id"), primary_key=True),
    sa.Column("row", sa.Integer, primary_key=True),
    sa.Column("customer_id", sa.String, nullable=False),
    sa.Column("arm", sa.String, nullable=False),
    sa.Column("depth", sa.Float),
    sa.Column("code", sa.String, unique=True),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("known", sa.Boolean, nullable=False),
    sa.Column("context", sa.LargeBinary, nullable=False),  # float64, little-endian
    sa.Column("expected_full_price", sa.Float),
    sa.Column("expected_engagement", sa.Float),
    sa.UniqueConstraint("campaign_id", "customer_id"),
)
ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("event_id", sa.String, primary_key=True),
    sa.Column("campaign_id", sa.ForeignKey("campaigns.campaign_id"), nullable=False, index=True),
    sa.Column("customer_id", sa.String, nullable=False),
    sa.Column("code", sa.String, nullable=False),
    sa.Column("ordered_at", sa.DateTime, nullable=False),
    sa.Column("full_price_minor", sa.BigInteger, nullable=False),
)
quarantine = sa.Table(
    "quarantine",
    metadata,
    sa.Column("entry", sa.Integer, primary_key=True),
    sa.Column("campaign_id", sa.ForeignKey("campaigns.campaign_id"), nullable=False, index=True),
    sa.Column("event_id", sa.String, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
)
_DECISION_TYPES = (
    ("arm", pa.string()),
    ("depth", pa.float64()),
    ("code", pa.string()),
    ("value", pa.float64()),
    ("known", pa.bool_()),
    ("expected_full_price", pa.float64()),
    ("expected_engagement", pa.float64()),
)


class SqlStore:
    """Campaigns, decisions, ledger and quarantine in one database; implements `records.ports.Store`."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _careful_sqlite)
        metadata.create_all(self._engine)

    @classmethod
    def embedded(cls, path: Path) -> "SqlStore":
        """One SQLite file; made when absent."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(f"sqlite:///{path}")

    def launch(self, plan: Plan, table: pa.Table) -> None:
        ids = table["customer_id"]
        context = np.stack(table["context"].to_numpy()).astype("<f8")
        columns: dict[str, list[Any]] = {
            "row": list(range(table.num_rows)),
            "customer_id": [str(customer) for customer in ids.to_pylist()],
            "context": [row.tobytes() for row in context],
            **{name: table[name].to_pylist() for name, _ in _DECISION_TYPES},
        }
        with self._transaction(plan.campaign) as connection:
            if connection.execute(sa.select(campaigns).filter_by(campaign_id=plan.campaign)).first():
                raise StateError(f"campaign {plan.campaign}", found="launched before", expected="a new campaign name")
            connection.execute(
                campaigns.insert(),
                {
                    "campaign_id": plan.campaign,
                    "plan": plan.model_dump_json(by_alias=True),
                    "integer_ids": pa.types.is_integer(ids.type),
                    "context_size": context.shape[1],
                },
            )
            _insert(connection, decisions, {"campaign_id": [plan.campaign] * table.num_rows, **columns})

    def plan(self, campaign: str) -> Plan:
        return Plan.model_validate(json.loads(self._campaign(campaign).plan))

    def decisions(self, campaign: str) -> pa.Table:
        kept = self._campaign(campaign)
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.select(decisions).filter_by(campaign_id=campaign).order_by(decisions.c.row)
            ).all()
        context = np.frombuffer(b"".join(row.context for row in rows), "<f8")
        return pa.table(
            {
                "customer_id": _ids([row.customer_id for row in rows], integer=kept.integer_ids),
                **{name: pa.array([getattr(row, name) for row in rows], kind) for name, kind in _DECISION_TYPES},
                "context": pa.FixedSizeListArray.from_arrays(pa.array(context), kept.context_size),
            }
        )

    def known_events(self, events: Iterable[str]) -> frozenset[str]:
        asked = list(events)
        found: set[str] = set()
        with self._engine.connect() as connection:
            for start in range(0, len(asked), _ASK):
                part = asked[start : start + _ASK]
                found.update(
                    connection.execute(sa.select(ledger.c.event_id).where(ledger.c.event_id.in_(part))).scalars()
                )
        return frozenset(found)

    def append(self, campaign: str, outcomes: pa.Table, quarantined: pa.Table) -> None:
        self._campaign(campaign)
        columns = outcomes.to_pydict()
        columns["customer_id"] = [str(customer) for customer in columns["customer_id"]]
        with self._transaction(campaign) as connection:
            _insert(connection, ledger, {"campaign_id": [campaign] * outcomes.num_rows, **columns})
            _insert(
                connection, quarantine, {"campaign_id": [campaign] * quarantined.num_rows, **quarantined.to_pydict()}
            )

    def ledger(self, campaign: str) -> pa.Table:
        kept = self._campaign(campaign)
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.select(ledger).filter_by(campaign_id=campaign).order_by(ledger.c.event_id)
            ).all()
        moments: list[datetime] = [row.ordered_at for row in rows]
        return pa.table(
            {
                "event_id": pa.array([row.event_id for row in rows], pa.string()),
                "customer_id": _ids([row.customer_id for row in rows], integer=kept.integer_ids),
                "code": pa.array([row.code for row in rows], pa.string()),
                "ordered_at": pa.array(moments, pa.timestamp("us")),
                "full_price_minor": pa.array([row.full_price_minor for row in rows], pa.int64()),
            }
        )

    @contextmanager
    def _transaction(self, campaign: str) -> Iterator[sa.Connection]:
        """All of the body or nothing; what a key forbids, somebody else wrote since we looked."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.IntegrityError as error:
            raise StateError(
                f"campaign {campaign}",
                found=f"rows that are there already ({error.orig})",
                expected="rows that are new",
                fix="Nothing was written. Try again: what another process has written meanwhile is then seen.",
            ) from error

    def _campaign(self, campaign: str) -> Any:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(campaigns).filter_by(campaign_id=campaign)).first()
        if row is None:
            raise StateError(f"campaign {campaign}", found="no such campaign", expected="a launched campaign")
        return row


def _careful_sqlite(connection: Any, _: object) -> None:
    """A rollback journal, synced: WAL has a corruption bug in the SQLite versions that distributions still ship."""
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 30000"):
        connection.execute(f"PRAGMA {pragma}")


def _insert(connection: sa.Connection, table: sa.Table, columns: dict[str, list[Any]]) -> None:
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for start in range(0, len(rows), _BATCH):
        connection.execute(table.insert(), rows[start : start + _BATCH])


def _ids(texts: list[str], *, integer: bool) -> pa.Array:
    return pa.array([int(text) for text in texts], pa.int64()) if integer else pa.array(texts, pa.string())
