"""A decided plan: who gets what, at which prices, with which expectation; named by the hash of its inputs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa

from disco.operations.calibration import Calibration
from disco.operations.forecast import ArmForecast, Interval, Money
from disco.records.arrays import Matrix
from disco.records.decisions import Arm
from disco.records.depths import depth_label
from disco.records.life import PlanRecord
from disco.records.plan import Plan

_ID_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How the test arm was solved, kept with the campaign: late arrivals are decided at these prices.

    prices: shadow price per depth, in units of the objective; None where depths were dealt at random · engagement:
    the rates used · reserve: codes per depth kept back for late arrivals, None without a limit · reserve_budget:
    expected markdown kept back for them, None without a budget.
    """

    depths: tuple[float, ...]
    prices: tuple[float, ...] | None
    budget_price: float
    engagement: tuple[float, ...]
    status: str
    value: float
    bound: float
    gap: float
    policy: str
    reserve: tuple[int | None, ...]
    reserve_budget: float | None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Solution":
        read: dict[str, Any] = json.loads(text)
        for name, value in read.items():
            read[name] = tuple(value) if isinstance(value, list) else value
        return cls(**read)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """decisions: customer_id, arm, depth, value, known, expected_full_price, expected_engagement; one row per customer
    · contexts: of the same rows · network: names the context network · version: of the belief that decided, None where
    none was learned · arms: what is expected of each · total: of all codes together · binding: limits that cost
    something, in words · features: retained so that another network can embed the customers again.
    """

    plan: Plan
    inputs: Mapping[str, str]
    decisions: pa.Table
    contexts: Matrix
    network: str
    version: int | None
    solution: Solution
    arms: Mapping[Arm, ArmForecast]
    total: Money | None
    binding: tuple[str, ...]
    warnings: tuple[str, ...]
    features: pa.Table | None
    planned_at: datetime

    @property
    def plan_id(self) -> str:
        return plan_id(self.plan, self.inputs)

    def summary(self) -> dict[str, Any]:
        """What `disco plan` shows, for machines; prices in revenue, so divided by its weight."""
        weight = self.plan.objective.revenue_weight
        prices = self.solution.prices
        return {
            "plan_id": self.plan_id,
            "campaign": self.plan.campaign,
            "customers": self.decisions.num_rows,
            "version": self.version,
            "network": self.network,
            "arms": {str(arm): _arm(forecast) for arm, forecast in self.arms.items()},
            "total": None if self.total is None else asdict(self.total),
            "prices": None
            if prices is None
            else {
                depth_label(depth): price / weight for depth, price in zip(self.solution.depths, prices, strict=True)
            },
            "budget_price": self.solution.budget_price / weight,
            "status": self.solution.status,
            "value": self.solution.value,
            "bound": self.solution.bound,
            "gap": self.solution.gap,
            "reserve": {
                depth_label(depth): codes
                for depth, codes in zip(self.solution.depths, self.solution.reserve, strict=True)
            },
            "binding": list(self.binding),
            "warnings": list(self.warnings),
            "inputs": dict(self.inputs),
            "planned_at": self.planned_at.isoformat(),
        }

    def record(self) -> PlanRecord:
        kept = {"summary": self.summary(), "solution": self.solution.to_json()}
        return PlanRecord(
            plan_id=self.plan_id,
            plan=self.plan,
            inputs=self.inputs,
            summary=json.dumps(kept, sort_keys=True, allow_nan=False),
            planned_at=self.planned_at,
        )


def plan_id(plan: Plan, inputs: Mapping[str, str]) -> str:
    """The hash of the plan and of every input: equal inputs decide the same, so they have the same name."""
    content = {"plan": json.loads(plan.model_dump_json(by_alias=True)), "inputs": dict(inputs)}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_ID_LENGTH]


def _arm(forecast: ArmForecast) -> dict[str, Any]:
    return {
        "customers": forecast.customers,
        "codes": {depth_label(depth): codes for depth, codes in forecast.codes.items()},
        "money": None if forecast.money is None else asdict(forecast.money),
        "correction": None if forecast.correction is None else asdict(forecast.correction),
    }


def arm_from_summary(read: Mapping[str, Any]) -> ArmForecast:
    return ArmForecast(
        customers=read["customers"],
        codes={float(depth): codes for depth, codes in read["codes"].items()},
        money=money_from_summary(read["money"]),
        correction=None if read["correction"] is None else Calibration(**read["correction"]),
    )


def money_from_summary(read: Mapping[str, Any] | None) -> Money | None:
    return None if read is None else Money(**{name: Interval(**interval) for name, interval in read.items()})
