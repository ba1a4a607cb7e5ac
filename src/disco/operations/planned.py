"""A decided plan: who gets what, at which prices, with which expectation; named by the hash of its inputs, and kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import pyarrow as pa

from disco.records.arrays import Matrix
from disco.records.decisions import Arm
from disco.records.errors import StateError
from disco.records.life import PlanRecord, PlanTables
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, MoneyForecast, PlanSummary, Solution
from disco.records.ports import Store

_ID_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """A plan with its customers. Everything but the tables is also in `record()`."""

    plan: Plan
    inputs: Mapping[str, str]  # name → hash of everything the decisions depend on
    decisions: pa.Table  # the columns of `kept.PLANNED`, one row per customer
    contexts: Matrix  # (n, d1), of the same rows
    network: str  # names the context network
    version: int | None  # of the belief that decided; None: nothing was learned
    solution: Solution
    arms: Mapping[Arm, ArmForecast]
    total: MoneyForecast | None  # of all codes together
    binding: tuple[str, ...]  # limits that cost something, in words
    warnings: tuple[str, ...]
    features: pa.Table | None  # retained so that another network can embed the customers again
    planned_at: datetime
    sources: Mapping[str, str] = field(default_factory=dict)  # file or table → hash when the plan was made

    @property
    def plan_id(self) -> str:
        return plan_id(self.plan, self.inputs)

    def record(self) -> PlanRecord:
        return PlanRecord(
            plan_id=self.plan_id,
            plan=self.plan,
            inputs=self.inputs,
            summary=PlanSummary(
                customers=self.decisions.num_rows,
                network=self.network,
                version=self.version,
                solution=self.solution,
                arms=self.arms,
                total=self.total,
                binding=self.binding,
                warnings=self.warnings,
                sources=self.sources,
            ),
            planned_at=self.planned_at,
        )

    def tables(self) -> PlanTables:
        return PlanTables(decisions=self.decisions, contexts=self.contexts, features=self.features)


def plan_id(plan: Plan, inputs: Mapping[str, str]) -> str:
    """The hash of the plan and of every input: equal inputs decide the same, so they have the same name."""
    content = {"plan": json.loads(plan.model_dump_json(by_alias=True)), "inputs": dict(inputs)}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_ID_LENGTH]


def keep(store: Store, planned: Planned) -> None:
    """Keep a plan with its tables; the same plan again changes nothing."""
    with store.writing(planned.plan.campaign) as transaction:
        transaction.plans.add(planned.record(), planned.tables())


def load(store: Store, name: str) -> Planned:
    """The plan with this id, or the only one whose id begins so, as it was kept."""
    with store.reading() as transaction:
        record = transaction.plans.get(name)
        tables = transaction.plans.tables(record.plan_id)
    if plan_id(record.plan, record.inputs) != record.plan_id:
        raise StateError(
            f"plan {record.plan_id}",
            found="another content than its name says",
            expected="a plan as it was kept",
            fix="Run `disco plan` again.",
        )
    summary = record.summary
    return Planned(
        plan=record.plan,
        inputs=record.inputs,
        decisions=tables.decisions,
        contexts=tables.contexts,
        network=summary.network,
        version=summary.version,
        solution=summary.solution,
        arms=summary.arms,
        total=summary.total,
        binding=summary.binding,
        warnings=summary.warnings,
        features=tables.features,
        planned_at=record.planned_at,
        sources=summary.sources,
    )
