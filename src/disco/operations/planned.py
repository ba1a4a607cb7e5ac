"""A decided plan: who gets what, at which prices, with which expectation; named by the hash of its inputs, and kept."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.operations.arms import offer_of
from disco.operations.audience import label_columns
from disco.operations.versions import belief_hash
from disco.operations.webhooks import tell
from disco.records.arrays import Flags, Integers, Labels, Matrix, Vector
from disco.records.decisions import Arm, Audience
from disco.records.errors import StateError
from disco.records.jobs import Event
from disco.records.life import PlanRecord, PlanTables
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.people import Actor
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, MoneyForecast, PlanSummary, Solution
from disco.records.program import VERSION
from disco.records.table_rows import TableRows
from disco.store import Store, Transaction

_ID_LENGTH = 16
ARMS = (Arm.DECIDED, Arm.CONTROL, Arm.HOLDOUT)


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
    features: TableRows | None  # retained so that another network can embed the customers again
    planned_at: datetime
    sources: Mapping[str, str] = field(default_factory=dict)  # file or table → hash when the plan was made
    overspend_chance: float | None = None  # that the codes cost more than the budget
    left_out: Mapping[str, int] | None = None  # by key: eligible customers who were not decided about

    @property
    def plan_id(self) -> str:
        return plan_id(self.plan, self.inputs)

    @property
    def currency(self) -> str:
        """The code of the currency it was decided in."""
        return Locale.of_fingerprint(self.inputs.get(LOCALE_INPUT, "")).currency.code

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
                overspend_chance=self.overspend_chance,
                left_out=self.left_out,
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
    """Keep a plan with its tables. The same plan again changes nothing, unless what was kept of it is damaged."""
    with store.writing(planned.plan.campaign, action="plan") as transaction:
        is_new = planned.plan_id not in transaction.plans.ids()
        keep_within(transaction, planned, by=store.actor, renew=True)
        if is_new:
            campaign, customers = planned.plan.campaign, planned.decisions.num_rows
            told = {"plan_id": planned.plan_id, "campaign": campaign, "customers": customers}
            tell(transaction, Event.PLAN_READY, told, actor=store.actor, now=planned.planned_at)


def keep_within(transaction: Transaction, planned: Planned, *, by: Actor, renew: bool = False) -> None:
    """Keep a plan, and who made it: they cannot approve it.

    renew: also where it is there and damaged.
    """
    added = transaction.plans.add(planned.record(), planned.tables(), renew=renew)
    if added or not transaction.approvals.makers(planned.plan_id):
        transaction.approvals.add_maker(planned.plan_id, by, at=planned.planned_at)
        transaction.journal.note(plan_id=planned.plan_id, customers=planned.decisions.num_rows)


def load(store: Store, name: str) -> Planned:
    """The plan with this id, or the only one whose id begins so, as it was kept."""
    with store.reading() as transaction:
        return read_planned(transaction, transaction.plans.get(name))


def read_planned(transaction: Transaction, record: PlanRecord) -> Planned:
    """A plan that is kept, with its tables."""
    if plan_id(record.plan, record.inputs) != record.plan_id:
        raise StateError(
            f"plan {record.plan_id}",
            found="another content than its name says",
            expected="a plan as it was kept",
            fix="Run `disco plan` again.",
        )
    summary, tables = record.summary, transaction.plans.tables(record.plan_id)
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
        overspend_chance=summary.overspend_chance,
        left_out=summary.left_out,
    )


# ---- what a plan depends on besides customers, features and network; a launch compares all of it


def inputs_of_locale(locale: Locale) -> dict[str, str]:
    """Nothing in pounds and UTC."""
    return {LOCALE_INPUT: said} if (said := locale.fingerprint()) else {}


def inputs_of_belief(belief: Belief) -> dict[str, str]:
    return {"belief": belief_hash(belief), "evidence": belief.basket.evidence.hash}


def inputs_of_program(plan: Plan, *, customers: int, segment_sizes: Mapping[str, int] | None = None) -> dict[str, str]:
    """The limits in customers and money as this version reads them from the plan, and the version itself."""
    offer = offer_of(plan, eligible=customers, segment_sizes=segment_sizes)
    limits = repr(offer) + ("" if offer.segments is None else repr(sorted(offer.segments.items())))
    return {"limits": sha256(limits.encode()).hexdigest(), "program_version": VERSION}


# ---- decisions as a table, without codes at first ----


def decision_table(
    audience: Audience,
    *,
    arms: dict[Arm, Flags],
    depths: tuple[float, ...],
    choice: Integers,
    value: Vector,
    expected_full_price: Vector,
    engagement: Vector,
    belief: Belief,
) -> pa.Table:
    """One row per customer; before any purchase was learned nothing is expected, so those columns are null.

    expected_full_price, engagement (n,): money and the chance to buy at the chosen depth; they are not read without a
    code, nor before any purchase.
    """
    offered = np.asarray(depths)
    none = choice < 0
    expected, rates, unknown = np.zeros(len(audience)), np.zeros(len(audience)), np.ones(len(audience), np.bool_)
    if belief.basket.campaigns:
        expected, rates, unknown = np.nan_to_num(expected_full_price), np.nan_to_num(engagement), none
    arm = np.select([arms[name] for name in ARMS], range(len(ARMS)))
    return pa.table(
        {
            "customer_id": pa.array(audience.ids),
            "arm": pa.array([str(name) for name in ARMS]).take(pa.array(arm)),
            "depth": pa.array(np.append(offered, 0.0)[choice], mask=none),
            "value": pa.array(value),
            "known": pa.array(audience.known),
            "expected_full_price": pa.array(expected, mask=unknown),
            "expected_engagement": pa.array(rates, mask=unknown),
            **label_columns(audience),
        }
    )


def segments_of(decisions: pa.Table) -> Labels | None:
    """(n,) the labels that were kept, empty text for none; None: the plan has no segments."""
    if "segment" not in decisions.column_names or decisions["segment"].null_count == decisions.num_rows:
        return None
    return np.asarray(pc.fill_null(decisions["segment"], "").to_pylist(), object)


def segment_sizes(decisions: pa.Table, rows: Flags | None = None) -> dict[str, int]:
    """Customers by label, of all decisions or of these rows."""
    segment = segments_of(decisions)
    return {} if segment is None else dict(Counter((segment if rows is None else segment[rows]).tolist()))


def coded_rows(decisions: pa.Table) -> Integers:
    """The rows that have a depth, and so a code."""
    return np.flatnonzero(decisions["depth"].is_valid().to_numpy())


def with_codes(decisions: pa.Table, codes: pa.Array) -> pa.Table:
    """The decisions with these codes at the rows that have a depth, null elsewhere."""
    places = np.full(decisions.num_rows, -1, np.int64)
    rows = coded_rows(decisions)
    places[rows] = np.arange(rows.size)
    return decisions.append_column("code", codes.take(pa.array(places, mask=places < 0)))
