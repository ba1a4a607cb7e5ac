"""Plans and campaigns."""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from disco.adapters.store.schema import campaigns, plans, reserves, secrets
from disco.adapters.store.shelf import Shelf, no_such_campaign
from disco.records.errors import StateError
from disco.records.life import CampaignRecord, PlanRecord, State
from disco.records.plan import Plan

CODE_SECRET = "codes"
_ROWS = sa.select(campaigns, plans.c.plan).join(plans, plans.c.plan_id == campaigns.c.plan_id)


class CampaignShelf(Shelf):
    def add_plan(self, record: PlanRecord) -> None:
        there = sa.select(plans.c.plan_id).where(plans.c.plan_id == record.plan_id)
        if self._connection.execute(there).first():
            return
        self._connection.execute(
            plans.insert(),
            {
                "plan_id": record.plan_id,
                "campaign": record.plan.campaign,
                "plan": record.plan.model_dump_json(by_alias=True),
                "inputs": json.dumps(dict(record.inputs)),
                "summary": record.summary,
                "planned_at": record.planned_at,
            },
        )

    def plan(self, plan_id: str) -> PlanRecord:
        begins = sa.func.substr(plans.c.plan_id, 1, len(plan_id)) == plan_id
        found = self._connection.execute(sa.select(plans).where(begins).limit(2)).all() if plan_id else []
        if len(found) != 1:
            raise StateError(
                f"plan {plan_id}",
                found="several plans that begin so" if found else "no such plan",
                expected="a plan that was kept",
                fix="Give more of its id." if found else "`disco plan PLAN.yaml` makes one and prints its id.",
            )
        return _plan_record(found[0])

    def plans(self, campaign: str) -> tuple[PlanRecord, ...]:
        rows = sa.select(plans).where(plans.c.campaign == campaign).order_by(plans.c.planned_at, plans.c.plan_id)
        return tuple(_plan_record(row) for row in self._connection.execute(rows))

    def add_campaign(self, record: CampaignRecord) -> None:
        if self.find_campaign(record.campaign) is not None:
            raise StateError(
                f"campaign {record.campaign}", found="launched before", expected="a campaign name that is new"
            )
        if self.plan(record.plan_id).plan != record.plan:
            raise StateError(
                f"campaign {record.campaign}", found="another plan than its id names", expected="that plan"
            )
        self._connection.execute(
            campaigns.insert(),
            {
                "campaign": record.campaign,
                "plan_id": record.plan_id,
                "state": record.state,
                "integer_ids": record.integer_ids,
                "context_size": record.context_size,
                "network": record.network,
                "version": record.version,
                "solution": record.solution,
                "launched_at": record.launched_at,
            },
        )

    def campaign(self, campaign: str) -> CampaignRecord:
        found = self.find_campaign(campaign)
        if found is None:
            raise no_such_campaign(campaign)
        return found

    def find_campaign(self, campaign: str) -> CampaignRecord | None:
        row = self._connection.execute(_ROWS.where(campaigns.c.campaign == campaign)).one_or_none()
        return None if row is None else _campaign_record(row)

    def campaigns(self) -> tuple[CampaignRecord, ...]:
        records = [_campaign_record(row) for row in self._connection.execute(_ROWS)]
        return tuple(sorted(records, key=lambda record: (record.plan.valid.start, record.campaign)))

    def set_state(self, campaign: str, state: State) -> None:
        number = self._number(campaign)
        self._connection.execute(campaigns.update().where(campaigns.c.number == number).values(state=state))

    def set_reserve(self, campaign: str, codes: Mapping[float, int | None]) -> None:
        number = self._number(campaign)
        self._connection.execute(reserves.delete().where(reserves.c.campaign_number == number))
        rows = [{"campaign_number": number, "depth": depth, "codes": left} for depth, left in codes.items()]
        if rows:
            self._connection.execute(reserves.insert(), rows)

    def reserve(self, campaign: str) -> dict[float, int | None]:
        rows = sa.select(reserves.c.depth, reserves.c.codes).where(reserves.c.campaign_number == self._number(campaign))
        return {row.depth: row.codes for row in self._connection.execute(rows.order_by(reserves.c.depth))}

    def take_code(self, campaign: str, depth: float) -> bool:
        # codes − 1 of "no limit" is still null: no limit
        left = sa.or_(reserves.c.codes.is_(None), reserves.c.codes > 0)
        taken = self._connection.execute(
            reserves.update()
            .where(reserves.c.campaign_number == self._number(campaign), reserves.c.depth == depth, left)
            .values(codes=reserves.c.codes - 1)
        )
        return taken.rowcount == 1

    def secret(self) -> bytes:
        return bytes(
            self._connection.execute(sa.select(secrets.c.value).where(secrets.c.name == CODE_SECRET)).scalar_one()
        )


def _plan_record(row: sa.Row[Any]) -> PlanRecord:
    return PlanRecord(
        plan_id=row.plan_id,
        plan=Plan.model_validate_json(row.plan),
        inputs=json.loads(row.inputs),
        summary=row.summary,
        planned_at=row.planned_at,
    )


def _campaign_record(row: sa.Row[Any]) -> CampaignRecord:
    return CampaignRecord(
        campaign=row.campaign,
        plan_id=row.plan_id,
        plan=Plan.model_validate_json(row.plan),
        state=State(row.state),
        integer_ids=row.integer_ids,
        context_size=row.context_size,
        network=row.network,
        version=row.version,
        solution=row.solution,
        launched_at=row.launched_at,
    )
