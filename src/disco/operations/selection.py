"""Who of the eligible customers a plan leaves out: those not on `include`, on `exclude`, or at the contact limit.

All three narrow the condition `customers.eligible`, so a list never brings in somebody whom the condition keeps out
(docs/decisions/099-lists-and-contacts.md).
"""

from collections.abc import Mapping
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

    def stay(self, customers: pa.Array) -> pa.Array:
        named = pc.is_in(customers, value_set=self.ids)
        return named if self.keeps else pc.invert(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a plan's lists and contact rule say, read once."""

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
            words = f"not on the list {file}" if key == "include" else f"on the list {file}"
            steps.append(_Step(key=key, ids=listed.ids, keeps=key == "include", words=words))
        if plan.contact is not None and contacted is not None:
            words = f"at the limit of {plan.contact.words}"
            steps.append(_Step(key="contact", ids=contacted, keeps=False, words=words))
        return cls(steps=tuple(steps), inputs=inputs, notes=tuple(notes))

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
                more = f" (and {len(others) - 1:,} more)" if len(others) > 1 else ""
                raise InputError(
                    f"customer {others[0]}{more}",
                    found=f"somebody who is {step.words}",
                    expected=f"customers whom `{step.key}` of the plan does not leave out",
                    fix="Leave them out.",
                )


def customer_ids(data: "ShopData") -> pa.Array:
    """The ids of the shop's own table of customers, as text."""
    with data.tables() as tables:
        known = tables.scan("customers")
        known = known.to_table(columns=["customer_id"]) if not isinstance(known, pa.Table) else known
        return known["customer_id"].cast(pa.large_string()).combine_chunks()
