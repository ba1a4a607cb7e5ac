"""Who of the eligible customers a plan leaves out: those not on `include`, on `exclude`, or at the contact limit.

All three narrow the condition `customers.eligible`, so a list never brings in somebody whom the condition keeps out
(docs/decisions/099-lists-and-contacts.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disco.records.content import content_hash
from disco.records.errors import InputError
from disco.records.plan import Plan

if TYPE_CHECKING:
    from disco.operations.audience import ShopData


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One reason to leave customers out."""

    key: str  # of the plan
    ids: pa.Array  # whom it names, as text
    keeps: bool  # whether those named stay, or go
    words: str  # why a customer is left out
    others: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))  # on the list, and no customers

    def stay(self, customers: pa.Array) -> pa.Array:
        named = pc.is_in(customers, value_set=self.ids)
        return named if self.keeps else pc.invert(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a plan's lists and contact rule say, read once."""

    plan: Plan
    steps: tuple[_Step, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    """By key: the hash of the customers on a list."""
    notes: tuple[str, ...] = ()
    """What to know about the lists, such as ids that name no customer."""

    @classmethod
    def of(cls, data: "ShopData", plan: Plan, *, contacted: pa.Array | None) -> "Selection":
        """contacted: ids, as text, of customers who may get no further code; None: the plan has no contact rule."""
        steps: list[_Step] = []
        inputs: dict[str, str] = {}
        notes: list[str] = []
        everybody = customer_ids(data) if plan.include or plan.exclude else None
        for key, file in (("include", plan.include), ("exclude", plan.exclude)):
            if file is None or everybody is None:
                continue
            listed = data.id_list(file, setting=key).among(everybody)
            inputs[key] = content_hash(pa.table({"customer_id": listed.ids}))
            notes += listed.notes
            keeps, words = key == "include", reason(plan, key)
            steps.append(_Step(key=key, ids=listed.ids, keeps=keeps, words=words, others=listed.others))
        if plan.contact is not None and contacted is not None:
            steps.append(_Step(key="contact", ids=contacted, keeps=False, words=reason(plan, "contact")))
        return cls(plan=plan, steps=tuple(steps), inputs=inputs, notes=tuple(notes))

    def apply(self, eligible: pa.Array) -> tuple[pa.Array, dict[str, int]]:
        """The customers who stay, and by key how many are left out; each is counted once, by the first reason."""
        left_out = {}
        for step in self.steps:
            stay = eligible.filter(step.stay(eligible))
            left_out[step.key] = len(eligible) - len(stay)
            eligible = stay
        return eligible, left_out

    def refuse(self, customers: pa.Array) -> None:
        """InputError where one of these customers is left out."""
        for step in self.steps:
            others = customers.filter(pc.invert(step.stay(customers)))
            if len(others):
                raise refusal(self.plan, step.key, others.to_pylist())


CONDITION, CHANNEL = "customers.eligible", "channel"


def reason(plan: Plan, key: str) -> str:
    """Why a key of the plan leaves customers out."""
    if key == "contact" and plan.contact is not None:
        return f"at the limit of {plan.contact.words}"
    return f"not on the list {plan.include}" if key == "include" else f"on the list {plan.exclude}"


def refusal(plan: Plan, key: str, customers: Sequence[object]) -> InputError:
    """The error about late arrivals whom a key of the plan leaves out."""
    more = f" (and {len(customers) - 1:,} more)" if len(customers) > 1 else ""
    if key == CONDITION:
        return InputError(
            f"customer {customers[0]}",
            found=f"no row that meets the plan's condition{more}",
            expected=f"customers of {plan.customers.table} with {plan.customers.eligible}",
        )
    if key == CHANNEL:
        return InputError(
            f"customer {customers[0]}{more}",
            found=f"no usable channel in column {plan.channel_column}",
            expected="the name of a channel, such as sms",
            fix="Fill it in, and prepare the contexts again.",
        )
    return InputError(
        f"customer {customers[0]}{more}",
        found=f"somebody who is {reason(plan, key)}",
        expected=f"customers whom `{key}` of the plan does not leave out",
        fix="Leave them out.",
    )


def customer_ids(data: "ShopData") -> pa.Array:
    """The ids of the shop's own table of customers, as text."""
    with data.tables() as tables:
        known = tables.scan("customers")
        known = known.to_table(columns=["customer_id"]) if not isinstance(known, pa.Table) else known
        return known["customer_id"].cast(pa.large_string()).combine_chunks()
