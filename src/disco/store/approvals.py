"""Who made a plan and who approved it; settings of the shop that are kept with its campaigns."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.people import Actor, ActorKind, ApprovalRecord
from disco.store.schema import approvals, plan_makers, shop_settings
from disco.store.seals import changed, row_seal, sealed
from disco.store.session import Session


class SqlApprovals:
    """Who made a plan, and who approved it. SealError where that was changed."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def add(self, approval: ApprovalRecord) -> bool:
        """Keep an approval; False where this person has approved the plan before."""
        if approval.by.name in [one.by.name for one in self.of(approval.plan_id)]:
            return False
        row = {
            "plan_id": approval.plan_id,
            "name": approval.by.name,
            "kind": str(approval.by.kind),
            "approved_at": approval.approved_at,
        }
        self._connection.execute(approvals.insert(), sealed("approval of plan", row))
        return True

    def of(self, plan_id: str) -> tuple[ApprovalRecord, ...]:
        """By the time they were given."""
        rows = self._rows(approvals, "approval of plan", plan_id)
        found = [
            ApprovalRecord(
                plan_id=plan_id, by=Actor(row["name"], ActorKind(row["kind"])), approved_at=row["approved_at"]
            )
            for row in rows
        ]
        return tuple(sorted(found, key=lambda one: (one.approved_at, one.by.name)))

    def add_maker(self, plan_id: str, maker: Actor, *, at: datetime) -> None:
        if maker.name not in [one.name for one in self.makers(plan_id)]:
            row = {"plan_id": plan_id, "name": maker.name, "kind": str(maker.kind), "made_at": at}
            self._connection.execute(plan_makers.insert(), sealed("maker of plan", row))

    def makers(self, plan_id: str) -> tuple[Actor, ...]:
        """Those who wrote the plan; none for a plan that another program wrote."""
        rows = self._rows(plan_makers, "maker of plan", plan_id)
        return tuple(
            Actor(row["name"], ActorKind(row["kind"])) for row in sorted(rows, key=lambda row: str(row["name"]))
        )

    def _rows(self, table: sa.Table, kind: str, plan_id: str) -> Sequence[Mapping[Any, Any]]:
        found = list(self._connection.execute(sa.select(table).where(table.c.plan_id == plan_id)).mappings())
        for row in found:
            if row["seal"] != row_seal(kind, row):
                raise changed(f"The {kind} {plan_id}")
        return found


class SqlShopSettings:
    """Settings that are kept with the campaigns, as values of JSON."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def get(self, name: str) -> Any:
        """None where it was not set."""
        rows = sa.select(shop_settings).where(shop_settings.c.name == name)
        row = self._connection.execute(rows).mappings().one_or_none()
        if row is None:
            return None
        if row["seal"] != row_seal("setting", row):
            raise changed(f"The setting {name}")
        return json.loads(row["value"])

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._connection.execute(sa.select(shop_settings.c.name)).scalars()))

    def put(self, name: str, value: Any) -> None:
        """None removes it."""
        self._connection.execute(shop_settings.delete().where(shop_settings.c.name == name))
        if value is not None:
            row = {"name": name, "value": json.dumps(value, sort_keys=True, allow_nan=False)}
            self._connection.execute(shop_settings.insert(), sealed("setting", row))
